//! Cold caches: read-only transactions of clients that all begin with nothing (figures 7 to 9).

use super::virtual_time::Setting;
use super::worker::{Afterwards, Plan, Spent};
use std::time::Duration;

/// Transactions of each client that are measured, with hot caches as well.
pub(crate) const TRANSACTIONS: u32 = 1000;

/// The sizes of groups.
pub(crate) const CLIENTS: [usize; 3] = [3, 5, 10];

/// So many clients, in one group or each on its own.
pub(crate) fn setting(clients: usize, is_group: bool, round_trip: Duration, transactions: u32) -> Setting {
    let plan = |client: usize| Plan {
        warm_up: 0,
        measured: transactions,
        writes: 0.0,
        seed: 1000 + client as u64,
        afterwards: Afterwards::Rest,
    };
    let groups = if is_group { vec![(1..=clients).collect()] } else { Vec::new() };
    let plans = (1..=clients).map(plan).collect();
    Setting { plans, groups, round_trip, prefetch_pages_max: 0, commits_fresh: false, levels_fixed: 0, leased: false }
}

/// All of them together.
pub(crate) fn all(spent: &[Spent]) -> Spent {
    spent.iter().fold(Spent::default(), |sum, &one| sum + one)
}
