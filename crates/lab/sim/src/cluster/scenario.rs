//! The properties of one seed's run.

use crate::disk::Profile;
use crate::rng::Rng;
use crate::scenario::draw;
use core::num::{NonZeroU16, NonZeroU32};
use types::{Shard, Sharding};

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
    /// How often something happens, in a million steps: a client is gone and back, another sequencer serves, a node
    /// crashes or is closed, a link is lost.
    pub(crate) leave_ppm: u64,
    pub(crate) elect_ppm: u64,
    pub(crate) crash_ppm: u64,
    pub(crate) close_ppm: u64,
    pub(crate) cut_ppm: u64,
    /// How often a shard begins to move to another node, or stays after all.
    pub(crate) move_ppm: u64,
    /// How fast a node is back, a link is found, and a node learns of the sequencer, in a million steps.
    pub(crate) return_ppm: u64,
    /// How often a disk does nothing when it could end an operation, in a thousand times.
    pub(crate) disk_idle_permille: u32,
    pub(crate) mob_bytes_limit: usize,
    pub(crate) disk: Profile,
    /// Links that carry hardly anything, as `from * nodes + to`.
    pub(crate) slow: Vec<bool>,
    /// The cache of a client, in bytes.
    pub(crate) cache_bytes_limit: usize,
    /// How often a transaction creates an object, and uses one that its application has created.
    pub(crate) create_permille: u32,
    pub(crate) grouped: Grouped,
    /// Each transaction touches every object.
    pub(crate) touches_all: bool,
    /// How many of a thousand transactions have to see everything that was acknowledged before them.
    pub(crate) fresh_permille: u32,
}

/// The groups of a day, which may have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grouped {
    /// The groups, how many of the applications are members of one, and whether all groups have one name, so that one
    /// redirector leads at a time.
    pub(crate) groups: usize,
    pub(crate) members: usize,
    pub(crate) is_one_group: bool,
    /// The standby cache of a redirector, in bytes.
    pub(crate) standby_bytes_limit: usize,
    /// How long a redirector may judge by what it knows, in milliseconds; nothing is leased if that is zero.
    pub(crate) lease_ms: u64,
    /// How often a redirector is killed, in a million steps.
    pub(crate) kill_ppm: u64,
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
            transactions: 15,
            objects_max: 2,
            read_only_permille: 0,
            write_permille: 1000,
            leave_ppm: 0,
            elect_ppm: 0,
            crash_ppm: 0,
            close_ppm: 0,
            cut_ppm: 0,
            move_ppm: 0,
            return_ppm: 1_000_000,
            disk_idle_permille: 0,
            mob_bytes_limit: 1 << 20,
            disk: draw::disk(&mut Rng::new(0)),
            slow: vec![false; 4],
            cache_bytes_limit: 1 << 20,
            create_permille: 0,
            grouped: Grouped::default(),
            touches_all: true,
            fresh_permille: 0,
        }
    }

    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let nodes = rng.pick(&[1, 2, 2, 3, 3, 4]);
        let shards = NonZeroU16::new(rng.pick(&[1, 2, 2, 3, 4, 6])).expect("not zero");
        let slow = rng.pick(&[0, 100, 300]);
        // A circle of those who wait for each other is broken by any loss: so nothing is lost on some days.
        let is_calm = rng.chance(500);
        let or_calm = |ppm: u64| if is_calm { 0 } else { ppm };
        let mut scenario = Self {
            nodes,
            sharding: Sharding::new(shards, NonZeroU32::MIN),
            pages: rng.pick(&[2, 2, 3, 6]),
            slots: rng.pick(&[1, 1, 2, 4]),
            applications: rng.pick(&[2, 3, 4, 6]),
            transactions: rng.pick(&[10, 20, 40]),
            objects_max: rng.pick(&[2, 3, 5]),
            read_only_permille: rng.pick(&[0, 200, 500]),
            write_permille: rng.pick(&[300, 500, 800]),
            leave_ppm: or_calm(rng.pick(&[0, 0, 2000, 20_000])),
            elect_ppm: rng.pick(&[0, 0, 500, 5000]),
            close_ppm: if is_calm { 0 } else { rng.pick(&[0, 500, 2000]) },
            crash_ppm: or_calm(rng.pick(&[0, 0, 500, 2000])),
            cut_ppm: or_calm(rng.pick(&[0, 0, 1000, 5000])),
            move_ppm: if nodes > 1 { rng.pick(&[0, 0, 1000, 5000]) } else { 0 },
            return_ppm: rng.pick(&[1000, 10_000, 100_000]),
            disk_idle_permille: if is_calm { 0 } else { rng.pick(&[0, 800, 950]) },
            mob_bytes_limit: rng.pick(&[200, 2000, 1 << 20]),
            disk: draw::disk(rng),
            slow: (0..nodes * nodes).map(|_| rng.chance(slow)).collect(),
            cache_bytes_limit: rng.pick(&[600, 2000, 1 << 20]),
            create_permille: rng.pick(&[0, 0, 100]),
            touches_all: false,
            fresh_permille: 0,
            grouped: Grouped::default(),
        };
        // Days without a group, and without transactions that have to see everything, are what they were before there
        // were any.
        let rng = &mut rng.clone();
        if !rng.chance(500) {
            scenario.grouped = Grouped {
                groups: rng.pick(&[1, 1, 2, 3]),
                members: rng.between(1, scenario.applications as u64) as usize,
                is_one_group: rng.chance(300),
                standby_bytes_limit: rng.pick(&[0, 1000, 1 << 20]),
                lease_ms: rng.pick(&[0, 5, 20]),
                kill_ppm: or_calm(rng.pick(&[0, 500, 2000])),
            };
        }
        scenario.fresh_permille = rng.pick(&[300, 1000, 0, 0, 0]);
        scenario
    }

    /// The group of an application, if it is a member.
    pub(crate) fn group_of(&self, application: usize) -> Option<usize> {
        (application < self.grouped.members).then(|| application % self.grouped.groups)
    }

    /// The node that has a shard at first.
    pub(crate) fn first_node_of(&self, shard: Shard) -> usize {
        usize::from(shard.0) % self.nodes
    }
}
