//! The properties of one seed's run.

use crate::rng::Rng;
use core::time::Duration;

/// How often each thing happens, in parts of their sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) deliver: u64,
    pub(crate) request: u64,
    pub(crate) page: u64,
    pub(crate) begin: u64,
    pub(crate) evict: u64,
    pub(crate) repeat: u64,
    pub(crate) lose: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) members: usize,
    /// Pages of each master, and slots of each page.
    pub(crate) pages: u32,
    pub(crate) slots: u16,
    pub(crate) steps: u64,
    pub(crate) cache_bytes_limit: usize,
    pub(crate) recent_limit: usize,
    /// How long a master's batch waits.
    pub(crate) delay: Duration,
    /// How often a transaction may touch pages of both masters.
    pub(crate) both_permille: u32,
    /// How often a transaction writes, and a write deletes.
    pub(crate) write_permille: u32,
    pub(crate) delete_permille: u32,
    /// How often a holder is told by the coordinator, with the new values.
    pub(crate) update_permille: u32,
    /// How often a page's own master leaves it to the coordinator to tell.
    pub(crate) leave_permille: u32,
    /// How often a peer is asked for a page.
    pub(crate) help_permille: u32,
    pub(crate) weights: Weights,
    /// How fast each stream is, in parts of their sum: master by master, member by member.
    pub(crate) speeds: Vec<u64>,
}

impl Scenario {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let members = rng.between(2, 4) as usize;
        Self {
            members,
            pages: rng.between(1, 3) as u32,
            slots: rng.between(2, 6) as u16,
            steps: rng.between(500, 3000),
            cache_bytes_limit: rng.pick(&[800, 1600, 1 << 20, 1 << 20]),
            recent_limit: rng.pick(&[2, 8, 64, 4096]),
            delay: Duration::from_millis(rng.pick(&[0, 2, 10, 40])),
            both_permille: rng.pick(&[200, 600, 1000]),
            write_permille: rng.pick(&[300, 600, 900]),
            delete_permille: rng.pick(&[0, 0, 150]),
            update_permille: rng.pick(&[0, 200, 600, 1000]),
            leave_permille: rng.pick(&[0, 300, 1000]),
            help_permille: rng.pick(&[0, 500, 1000]),
            weights: Weights {
                deliver: rng.pick(&[20, 40, 80]),
                request: rng.pick(&[20, 40, 80]),
                page: rng.pick(&[2, 5, 20]),
                begin: rng.pick(&[10, 20, 40]),
                evict: rng.pick(&[0, 1, 4]),
                repeat: rng.pick(&[0, 2]),
                lose: u64::from(rng.chance(300)),
            },
            speeds: (0..super::MASTERS * members).map(|_| rng.pick(&[1, 4, 16, 64])).collect(),
        }
    }
}
