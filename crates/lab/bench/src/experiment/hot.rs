//! Hot caches: a writer, and three readers of what it writes (figures 10 to 12).

use super::virtual_time::Setting;
use super::worker::{Afterwards, Plan, Spent};
use std::time::Duration;

/// Transactions of each client before the measured ones.
pub(crate) const WARM_UP: u32 = 2000;

/// The share of the writer's transactions that write, in the paper.
pub(crate) const WRITES: f64 = 0.5;

/// The writer is client 1.
const CLIENTS: usize = 4;

/// The clients of each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Everybody talks to the store.
    Base,
    /// The writer has a group of its own, and the readers have one.
    Reader,
    /// Two readers are in the writer's group, and one is not.
    Writer,
}

impl Groups {
    fn members(self) -> Vec<Vec<usize>> {
        match self {
            Self::Base => Vec::new(),
            Self::Reader => vec![vec![1], vec![2, 3, 4]],
            Self::Writer => vec![vec![1, 2, 3], vec![4]],
        }
    }

    /// The readers that the paper's time is of.
    pub(crate) fn readers(self, spent: &[Spent]) -> Spent {
        let readers = if self == Self::Writer { 1..3 } else { 1..4 };
        spent[readers].iter().fold(Spent::default(), |sum, &one| sum + one)
    }
}

/// How many readers there are, and so how many are in the readers' group.
pub(crate) const READERS: usize = CLIENTS - 1;

/// A writer and three readers, grouped so; `warm_up` and `measured` transactions of each reader. The writer continues
/// for as long as they do, and this share of its transactions writes: with leases readers are a hundred times as fast.
/// So does the reader that is not in the writer's group, where the others are: it is far slower than they are.
pub(crate) fn setting(groups: Groups, round_trip: Duration, warm_up: u32, measured: u32, writes: f64) -> Setting {
    let is_load = |client| client == 1 || groups == Groups::Writer && client == CLIENTS;
    let plan = |client: usize| Plan {
        warm_up,
        measured,
        writes: if client == 1 { writes } else { 0.0 },
        seed: 2000 + client as u64,
        afterwards: if is_load(client) { Afterwards::IsLoad } else { Afterwards::GoOn },
    };
    Setting {
        plans: (1..=CLIENTS).map(plan).collect(),
        groups: groups.members(),
        round_trip,
        prefetch_pages_max: 0,
        commits_fresh: false,
        levels_fixed: 0,
        leased: false,
    }
}

/// The writer and one reader alone. In virtual time everybody has a processor of his own; readers with leases compute
/// all the time, and only one of them finds one here.
pub(crate) fn with_one_reader(mut setting: Setting) -> Setting {
    setting.plans.truncate(2);
    for members in &mut setting.groups {
        members.retain(|&client| client <= 2);
    }
    setting.groups.retain(|members| !members.is_empty());
    setting
}
