//! The transactions of this client, found by handle in one step.
//!
//! ```text
//!   Running --commit--> Committing --reply--> Decided --outcome--> gone
//!      |  \--a read became stale--> Doomed --abort--> gone
//!      \--no store, no room------> Failed --abort--> gone
//! ```

use crate::outputs::Outputs;
use crate::seen::StaleFlag;
use crate::workspace::{Touched, Workspace};
use crate::{TxnError, TxnHandle};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use messages::Outcome;
use types::{Broken, PageId, Time};

#[derive(Debug)]
pub(crate) enum State {
    Running,
    /// It has read a value that is no longer the newest.
    Doomed,
    Failed(TxnError),
    /// The request with this number stands for it.
    Committing(u64),
    Decided(Result<Outcome, TxnError>),
}

#[derive(Debug)]
pub(crate) struct Txn {
    state: State,
    /// The last fetch that was sent before it began.
    pub(crate) last_fetch_before: u64,
    /// The moment from which on it has to see everything; 0 for one that may begin with what is cached.
    pub(crate) moment: u64,
    /// Heard by the thread that runs it.
    pub(crate) stale: StaleFlag,
    /// Since when it has been waiting to be woken.
    pub(crate) waiting: Option<Time>,
    pub(crate) workspace: Workspace,
    /// Pages that have come for it and that it has not looked at, in the order of their coming.
    pub(crate) claimed: VecDeque<PageId>,
    /// Pages that it waited for and that the store cannot read, and why. It has not been told yet.
    pub(crate) damaged: Vec<(PageId, String)>,
    /// Granted pages that it creates objects in.
    pub(crate) taken: Vec<PageId>,
    /// Pages that were partly filled before and that it continues filling: for each chain of creations, by the page
    /// that they are near, the page that is filled now.
    pub(crate) chains: Vec<(Option<PageId>, PageId)>,
}

/// All transactions. Further methods are in `doom` and `waiting`.
#[derive(Debug)]
pub(crate) struct Txns {
    table: Vec<(u32, Option<Txn>)>,
    free: Vec<u32>,
    /// How long a transaction waits before it gives up.
    pub(crate) patience: Duration,
    /// When it is looked for transactions that have waited for too long.
    pub(crate) impatient_at: Option<Time>,
    /// How many were doomed so far.
    pub(crate) doomed: u64,
    pub(crate) broken: Broken,
}

impl Txn {
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn into_state(self) -> State {
        self.state
    }

    /// Whether it still reads and writes.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    /// The transaction waited for a page that the store cannot read.
    pub(crate) fn learn_damage(&mut self, page: PageId, why: &str) {
        self.damaged.retain(|(other, _)| *other != page);
        self.damaged.push((page, why.into()));
    }

    /// Why the page could not be read for the transaction, once: another try asks the store again.
    pub(crate) fn take_damage(&mut self, page: PageId) -> Option<String> {
        let at = self.damaged.iter().position(|(other, _)| *other == page)?;
        Some(self.damaged.swap_remove(at).1)
    }

    /// It is no longer running.
    pub(crate) fn stop(&mut self, state: State) {
        self.stale.raise();
        self.state = state;
    }
}

impl Txns {
    pub(crate) fn new(patience: Duration, broken: Broken) -> Self {
        Self { table: Vec::new(), free: Vec::new(), patience, impatient_at: None, doomed: 0, broken }
    }

    pub(crate) fn begin(&mut self, last_fetch_before: u64) -> TxnHandle {
        let place = self.free.pop().unwrap_or_else(|| {
            self.table.push((0, None));
            self.table.len() as u32 - 1
        });
        let (generation, txn) = &mut self.table[place as usize];
        *generation = generation.wrapping_add(1);
        *txn = Some(Txn {
            state: State::Running,
            last_fetch_before,
            moment: 0,
            stale: StaleFlag::default(),
            waiting: None,
            workspace: Workspace::default(),
            claimed: VecDeque::new(),
            damaged: Vec::new(),
            taken: Vec::new(),
            chains: Vec::new(),
        });
        handle(place, *generation)
    }

    pub(crate) fn get(&mut self, txn: TxnHandle) -> Option<&mut Txn> {
        match self.table.get_mut(txn.0 as u32 as usize) {
            Some((generation, Some(found))) if *generation == (txn.0 >> 32) as u32 => Some(found),
            _ => None,
        }
    }

    /// The transaction, if it may still read and write.
    #[inline]
    pub(crate) fn running(&mut self, txn: TxnHandle) -> Result<&mut Txn, TxnError> {
        let txn = self.get(txn).ok_or(TxnError::Ended)?;
        match &txn.state {
            State::Running => Ok(txn),
            State::Doomed => Err(TxnError::Doomed),
            State::Failed(error) => Err(error.clone()),
            State::Committing(_) | State::Decided(_) => Err(TxnError::Ended),
        }
    }

    pub(crate) fn end(&mut self, txn: TxnHandle) -> Option<Txn> {
        self.get(txn)?.stale.raise();
        let place = txn.0 as u32;
        self.free.push(place);
        self.table[place as usize].1.take()
    }

    /// All, to look at.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TxnHandle, &Txn)> {
        let places = self.table.iter().enumerate();
        places.filter_map(|(place, (generation, txn))| Some((handle(place as u32, *generation), txn.as_ref()?)))
    }

    /// All, to change.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = (TxnHandle, &mut Txn)> {
        let places = self.table.iter_mut().enumerate();
        places.filter_map(|(place, (generation, txn))| Some((handle(place as u32, *generation), txn.as_mut()?)))
    }

    /// Those that still read and write.
    pub(crate) fn running_mut(&mut self) -> impl Iterator<Item = (TxnHandle, &mut Txn)> {
        self.all_mut().filter(|(_, txn)| txn.is_running())
    }

    /// The pages that running transactions have read and written, one by one for each.
    pub(crate) fn touched(&self) -> impl Iterator<Item = &Touched> {
        let running = self.all().filter(|(_, txn)| txn.is_running());
        running.flat_map(|(_, txn)| txn.workspace.pages())
    }

    /// Whether a running transaction has read of the page, which has left since.
    pub(crate) fn is_frozen(&self, page: PageId) -> bool {
        let mut running = self.all().filter(|(_, txn)| txn.is_running());
        running.any(|(_, txn)| txn.workspace.get(page).is_some_and(|touched| touched.frozen().is_some()))
    }

    /// Whether a transaction other than this one writes to the page. A doomed one counts as well: it has what it took
    /// until it is aborted.
    pub(crate) fn others_write_to(&self, page: PageId, txn: Option<TxnHandle>) -> bool {
        let mut others = self.all().filter(|(other, _)| Some(*other) != txn);
        others.any(|(_, other)| other.workspace.get(page).is_some_and(Touched::has_writes))
    }

    /// The granted pages that transactions create objects in.
    pub(crate) fn taken(&self) -> impl Iterator<Item = PageId> {
        self.all().flat_map(|(_, txn)| txn.taken.iter().copied())
    }

    /// The page is no grant any more; says whether a transaction had taken it.
    pub(crate) fn lose_taken(&mut self, page: PageId) -> bool {
        let mut was_taken = false;
        for (_, txn) in self.all_mut() {
            let taken = txn.taken.len();
            txn.taken.retain(|&taken| taken != page);
            was_taken |= txn.taken.len() < taken;
        }
        was_taken
    }

    /// Everything here belongs to another store: their grants are void, and none may continue. Those that wait are
    /// woken, as nothing will come of what they wait for.
    pub(crate) fn forget_store(&mut self, out: &mut Outputs) {
        for (handle, txn) in self.all_mut() {
            txn.taken.clear();
            txn.chains.clear();
            if txn.is_running() {
                txn.stop(State::Doomed);
                txn.wake(handle, out);
            }
        }
    }
}

fn handle(place: u32, generation: u32) -> TxnHandle {
    TxnHandle(u64::from(generation) << 32 | u64::from(place))
}
