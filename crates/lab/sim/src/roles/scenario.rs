//! The properties of one seed's run.

use crate::rng::Rng;
use core::num::{NonZeroU16, NonZeroU32};
use types::{PageId, Sharding};

/// A day.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) nodes: usize,
    pub(crate) sharding: Sharding,
    /// Pages of space 0, each an extent.
    pub(crate) pages: u32,
    /// Slots of a page that are used.
    pub(crate) slots: u16,
    pub(crate) applications: usize,
    /// Transactions of each application.
    pub(crate) transactions: u32,
    /// Objects of a transaction, at most.
    pub(crate) objects_max: u64,
    pub(crate) read_only_permille: u32,
    pub(crate) write_permille: u32,
    /// How often something happens to a client or a sequencer, in a million steps.
    pub(crate) leave_ppm: u64,
    pub(crate) elect_ppm: u64,
    /// How often a coordinator asks a sequencer whose term is over, once there is one.
    pub(crate) deposed_permille: u32,
    /// Links that carry hardly anything, as `from * nodes + to`.
    pub(crate) slow: Vec<bool>,
    /// Each transaction touches every object.
    pub(crate) touches_all: bool,
}

impl Scenario {
    /// Sixteen applications at two nodes, which all change the same two objects, one at each node, and nothing goes
    /// wrong.
    pub(crate) fn of_opposite_roles() -> Self {
        Self {
            nodes: 2,
            sharding: Sharding::new(NonZeroU16::MIN.saturating_add(1), NonZeroU32::MIN),
            pages: 2,
            slots: 1,
            applications: 16,
            transactions: 40,
            objects_max: 2,
            read_only_permille: 0,
            write_permille: 1000,
            leave_ppm: 0,
            elect_ppm: 0,
            deposed_permille: 0,
            slow: vec![false; 4],
            touches_all: true,
        }
    }

    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let nodes = rng.pick(&[1, 2, 2, 3, 3, 4]);
        let shards = NonZeroU16::new(rng.pick(&[1, 2, 2, 3, 4, 6])).expect("not zero");
        let slow = rng.pick(&[0, 100, 300]);
        Self {
            nodes,
            sharding: Sharding::new(shards, NonZeroU32::MIN),
            pages: rng.pick(&[2, 2, 3, 6]),
            slots: rng.pick(&[1, 1, 2, 4]),
            applications: rng.pick(&[2, 3, 4, 6]),
            transactions: rng.pick(&[10, 20, 40]),
            objects_max: rng.pick(&[2, 3, 5]),
            read_only_permille: rng.pick(&[0, 200, 500]),
            write_permille: rng.pick(&[300, 500, 800]),
            leave_ppm: rng.pick(&[0, 0, 2000, 20_000]),
            elect_ppm: rng.pick(&[0, 0, 500, 5000]),
            deposed_permille: rng.pick(&[0, 200, 700]),
            slow: (0..nodes * nodes).map(|_| rng.chance(slow)).collect(),
            touches_all: false,
        }
    }

    /// The node that is master of a page.
    pub(crate) fn master_of(&self, page: PageId) -> usize {
        usize::from(self.sharding.of(page).0) % self.nodes
    }
}
