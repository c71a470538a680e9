//! Losses: clients that are refused again and again because others were faster.
//!
//! ```text
//!   refused as stale --comes again, refused--> two in a row --again--> three: its place in line is kept (`turns`)
//!         |                                         |
//!         +------------- commits, or does not come again: forgotten -----> nothing
//! ```
//! 1. A loss counts with those before it if its client has come again for what it had lost by then. A client that sends
//!    another transaction in between does as it likes.
//! 2. Its place is kept for as long as coming again has taken it so far, twice over. So who is far away has the time
//!    that it needs, and nobody is waited for longer than it has waited itself.
//! 3. A client that does not come in that time has lost nothing, and begins to count again.

use crate::overlap::{each, reads};
use alloc::vec::Vec;
use core::time::Duration;
use messages::CommitRequest;
use types::{ClientId, Map, PageId, SlotSet, Time};

/// The losses in a row after which a place is kept.
const LOSSES: u32 = 3;

/// The least and the most time for which a place is kept: a process may have to wait for a processor, and a client that
/// is farther away than that has to win by itself.
const KEPT_LEAST: Duration = Duration::from_millis(5);
const KEPT_MOST: Duration = Duration::from_secs(1);

/// Pages that a client may have lost by. A transaction that reads so many contended ones is not helped by a place.
const PAGES_MAX: usize = 16;

/// A client's losses in a row.
#[derive(Debug, Default)]
struct Row {
    losses: u32,
    /// The slots that it has lost by.
    slots: Vec<(PageId, SlotSet)>,
    last: Time,
    /// It has come again since.
    is_back: bool,
    /// The longest that it took to come again.
    away: Duration,
}

/// A place in line that should be kept.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) slots: Vec<(PageId, SlotSet)>,
    pub(crate) until: Time,
}

/// The clients that have lost, and how often in a row.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    rows: Map<ClientId, Row>,
}

impl Losses {
    /// A client wants a transaction committed.
    pub(crate) fn has_come(&mut self, now: Time, request: &CommitRequest) {
        let row = self.rows.get_mut(&request.txn.client).filter(|row| !row.is_back && reads(request, each(&row.slots)));
        if let Some(row) = row {
            row.is_back = true;
            row.away = row.away.max(now.since(row.last));
        }
    }

    /// It was refused because these slots have changed. Returns what should be kept for it, if it has lost often
    /// enough; of this many clients it is remembered at a time.
    pub(crate) fn has_lost(
        &mut self,
        now: Time,
        client: ClientId,
        stale: &[(PageId, SlotSet)],
        clients_max: usize,
    ) -> Option<Claim> {
        if !self.rows.contains_key(&client) && self.rows.len() >= clients_max {
            self.rows.retain(|_, row| now < row.last + KEPT_MOST);
            if self.rows.len() >= clients_max {
                return None;
            }
        }
        let row = self.rows.entry(client).or_default();
        if !row.is_back {
            *row = Row::default();
        }
        for (page, slots) in stale {
            match row.slots.iter_mut().find(|(known, _)| known == page) {
                Some((_, known)) => known.union_with(slots),
                None => row.slots.push((*page, slots.clone())),
            }
        }
        if row.slots.len() > PAGES_MAX {
            self.rows.remove(&client);
            return None;
        }
        (row.losses, row.last, row.is_back) = (row.losses + 1, now, false);
        let until = now + (2 * row.away).clamp(KEPT_LEAST, KEPT_MOST);
        (row.losses >= LOSSES).then(|| Claim { slots: row.slots.clone(), until })
    }

    /// It commits.
    pub(crate) fn has_won(&mut self, request: &CommitRequest) {
        let client = request.txn.client;
        if self.rows.get(&client).is_some_and(|row| reads(request, each(&row.slots))) {
            self.rows.remove(&client);
        }
    }

    /// It has not come in the time that its place was kept for.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.rows.remove(&client);
    }
}
