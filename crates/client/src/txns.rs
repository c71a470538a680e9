//! The transactions of this client, found by handle in one step.
//!
//! ```text
//!   Running --commit--> Committing --reply--> Decided --outcome--> gone
//!      |  \--a read became stale--> Doomed --abort--> gone
//!      \--no store, no room------> Failed --abort--> gone
//! ```

use crate::seen::StaleFlag;
use crate::workspace::Workspace;
use crate::{TxnError, TxnHandle};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use protocol::Outcome;
use types::{PageId, Time};

#[derive(Debug)]
pub(crate) enum State {
    Running,
    /// It has read what is no longer the newest.
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
    /// Heard by the thread that runs it.
    pub(crate) stale: StaleFlag,
    /// Since when it has been waiting to be woken.
    pub(crate) waiting: Option<Time>,
    pub(crate) workspace: Workspace,
    /// Pages that have come for it and that it has not looked at, in the order of their coming.
    pub(crate) claimed: VecDeque<PageId>,
    /// Granted pages that it creates objects in.
    pub(crate) taken: Vec<PageId>,
    /// Pages that were partly filled before and that it goes on filling: for each chain of creations, by the page that
    /// they are near, the page that is filled now.
    pub(crate) chains: Vec<(Option<PageId>, PageId)>,
}

#[derive(Debug, Default)]
pub(crate) struct Txns {
    table: Vec<(u32, Option<Txn>)>,
    free: Vec<u32>,
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

    /// It is no longer running.
    pub(crate) fn stop(&mut self, state: State) {
        self.stale.raise();
        self.state = state;
    }
}

impl Txns {
    pub(crate) fn begin(&mut self, last_fetch_before: u64) -> TxnHandle {
        let place = self.free.pop().unwrap_or_else(|| {
            self.table.push((0, None));
            self.table.len() as u32 - 1
        });
        let (life, txn) = &mut self.table[place as usize];
        *life = life.wrapping_add(1);
        *txn = Some(Txn {
            state: State::Running,
            last_fetch_before,
            stale: StaleFlag::default(),
            waiting: None,
            workspace: Workspace::default(),
            claimed: VecDeque::new(),
            taken: Vec::new(),
            chains: Vec::new(),
        });
        handle(place, *life)
    }

    pub(crate) fn get(&mut self, txn: TxnHandle) -> Option<&mut Txn> {
        match self.table.get_mut(txn.0 as u32 as usize) {
            Some((life, Some(found))) if *life == (txn.0 >> 32) as u32 => Some(found),
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

    pub(crate) fn all(&mut self) -> impl Iterator<Item = (TxnHandle, &mut Txn)> {
        self.table
            .iter_mut()
            .enumerate()
            .filter_map(|(place, (life, txn))| Some((handle(place as u32, *life), txn.as_mut()?)))
    }

    /// Those that still read and write.
    pub(crate) fn all_running(&mut self) -> impl Iterator<Item = (TxnHandle, &mut Txn)> {
        self.all().filter(|(_, txn)| txn.is_running())
    }

    /// The granted pages that transactions create objects in.
    pub(crate) fn taken(&self) -> impl Iterator<Item = PageId> {
        self.table.iter().filter_map(|(_, txn)| txn.as_ref()).flat_map(|txn| txn.taken.iter().copied())
    }

    /// Since when the one that has waited longest has been waiting.
    pub(crate) fn longest_wait(&self) -> Option<Time> {
        self.table.iter().filter_map(|(_, txn)| txn.as_ref()?.waiting).min()
    }
}

fn handle(place: u32, life: u32) -> TxnHandle {
    TxnHandle(u64::from(life) << 32 | u64::from(place))
}
