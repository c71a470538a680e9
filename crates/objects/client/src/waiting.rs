//! Transactions that wait: for a page, for pages to create in, for an outcome.
//!
//! A transaction is told to call again once, whatever it waits for; it then looks for itself.

use crate::outputs::Outputs;
use crate::txns::{State, Txn, Txns};
use crate::{Client, TxnError, TxnHandle};
use alloc::vec::Vec;
use messages::Outcome;
use types::Time;

impl Txn {
    /// Tells the transaction, whose handle this is, to call again if it waits. One that commits waits for its outcome
    /// and for nothing else: a page that comes for a read which was dropped before is no news, and the wake would be
    /// missing when there is some.
    pub(crate) fn wake(&mut self, handle: TxnHandle, out: &mut Outputs) {
        if !matches!(self.state(), State::Committing(_)) && self.waiting.take().is_some() {
            out.wake(handle);
        }
    }
}

impl Txns {
    /// The transaction will be told to call again. It is looked for those that wait when the first of them may be
    /// impatient, and not at each wait: most are over long before.
    pub(crate) fn wait(&mut self, now: Time, txn: TxnHandle) {
        if let Some(found) = self.get(txn) {
            found.waiting.get_or_insert(now);
            self.impatient_at.get_or_insert(now + self.patience);
        }
    }

    /// Tells the transaction to call again, if it is still there and waits.
    pub(crate) fn wake(&mut self, txn: TxnHandle, out: &mut Outputs) {
        if let Some(found) = self.get(txn) {
            found.wake(txn, out);
        }
    }

    /// The transaction's outcome is known, or that it will not be.
    pub(crate) fn decide(&mut self, txn: TxnHandle, outcome: Result<Outcome, TxnError>, out: &mut Outputs) {
        if let Some(found) = self.get(txn) {
            found.stop(State::Decided(outcome));
            found.wake(txn, out);
        }
    }

    /// Those that wait.
    pub(crate) fn waiting(&self) -> Vec<TxnHandle> {
        self.all().filter(|(_, txn)| txn.waiting.is_some()).map(|(handle, _)| handle).collect()
    }

    /// Those that have waited for as long as the application is patient, and wait no more, however the session stands:
    /// one that lives may still be slow.
    pub(crate) fn impatient(&mut self, now: Time) -> Vec<TxnHandle> {
        if self.impatient_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        let since = Time(now.0.saturating_sub(self.patience.as_nanos() as u64));
        let waiting = || self.all().filter_map(|(handle, txn)| Some((handle, txn.waiting?)));
        let lost = waiting().filter(|(_, waiting)| *waiting <= since).map(|(handle, _)| handle).collect();
        let longest = waiting().map(|(_, waiting)| waiting).filter(|waiting| *waiting > since).min();
        self.impatient_at = longest.map(|waiting| waiting + self.patience);
        lost
    }
}

impl Client {
    /// The transaction cannot continue. The outcome of one that is committing is unknown, except that a request which
    /// never went out has none.
    pub(crate) fn give_up(&mut self, txn: TxnHandle, error: &TxnError) {
        let Some(found) = self.txns.get(txn) else { return };
        if let State::Committing(number) = *found.state() {
            let outcome = match self.commits.abandon(number) {
                Some(taken) => {
                    self.allocator.give_back(&taken, &mut self.cache);
                    Err(error.clone())
                }
                None => Ok(Outcome::Unknown),
            };
            return self.txns.decide(txn, outcome, &mut self.out);
        }
        if found.is_running() {
            found.stop(State::Failed(error.clone()));
        }
        found.wake(txn, &mut self.out);
    }
}
