//! Transactions whose reads have become stale: they are doomed, or ask before they read again.

use crate::outputs::Outputs;
use crate::txns::{State, Txns};
use crate::workspace::Touched;
use cache::{Evicted, Frame};
use messages::Invalidation;
use types::{Horizon, PageId, Rule};

impl Txns {
    /// Dooms those whose reads the invalidation takes back; `frame` is the page as it is here.
    pub(crate) fn doom_by_invalidation(
        &mut self,
        invalidation: &Invalidation,
        frame: Option<&Frame>,
        out: &mut Outputs,
    ) {
        if !self.broken.is(Rule::DoomOnInvalidation) {
            self.doom(
                invalidation.page,
                |touched| touched.is_hit_by(&invalidation.slots, invalidation.version, frame),
                out,
            );
        }
    }

    /// `frame` has taken the place of `older`: dooms those that have read something else there.
    pub(crate) fn doom_by_install(&mut self, page: PageId, frame: &Frame, older: &Frame, out: &mut Outputs) {
        if !self.broken.is(Rule::DoomOnInstall) {
            self.doom(page, |touched| frame.differs_in(older, touched.reads()), out);
        }
    }

    /// The changes of the page are not known: dooms those that have read of it.
    pub(crate) fn doom_by_drop(&mut self, page: PageId, out: &mut Outputs) {
        if !self.broken.is(Rule::DoomOnDrop) {
            self.doom(page, |touched| !touched.reads().is_empty() || touched.frozen().is_some(), out);
        }
    }

    fn doom(&mut self, page: PageId, is_hit: impl Fn(&Touched) -> bool, out: &mut Outputs) {
        let mut doomed = 0;
        for (handle, txn) in self.running_mut().filter(|(_, txn)| txn.workspace.get(page).is_some_and(&is_hit)) {
            txn.stop(State::Doomed);
            txn.wake(handle, out);
            doomed += 1;
        }
        self.doomed += doomed;
    }

    /// Holes are made in a page: those that have read of it are not doomed yet, but ask before they read of it again.
    pub(crate) fn puncture(&mut self, page: PageId) {
        for (_, txn) in self.running_mut().filter(|(_, txn)| txn.workspace.get(page).is_some()) {
            txn.stale.raise();
        }
    }

    /// A page leaves the cache: freezes the reads of it; says whether there were any.
    pub(crate) fn freeze(&mut self, evicted: &Evicted, horizon: Horizon<'_>) -> bool {
        let mut was_read = false;
        if self.broken.is(Rule::FreezeEvidence) {
            return was_read;
        }
        for (_, txn) in self.running_mut() {
            if let Some(touched) = txn.workspace.get_mut(evicted.page) {
                touched.freeze(&evicted.frame, horizon.of(evicted.page));
                txn.stale.raise();
                was_read |= touched.frozen().is_some();
            }
        }
        was_read
    }
}
