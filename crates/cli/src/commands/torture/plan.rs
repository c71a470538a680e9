//! The plan of a torture. Without a lab that is one thing after the other. In a lab, and for a store of several nodes,
//! the seed draws everything: what is broken when and for how long, what the lines are like in the meantime, and how
//! each client works.
//!
//! The same seed draws the same plan. The course of a run is real time's own.

use super::fault::Fault;
use super::nodes::NodeFault;
use crate::job::{Heavy, Lists};
use crate::lab::{Cut, Line, Weather};
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;
use workloads::Random;

/// Longer than anybody may be silent without being taken for dead.
const LONG: Duration = Duration::from_millis(2500);

/// How long leases last that are asked for, in milliseconds, and how long those that are drawn.
const LEASE_MS: u32 = 2000;
const LEASES_MS: Range<f64> = 100.0..3000.0;

/// How long clients wait for an answer in a lab: long enough for everything that is going to happen, and shorter than
/// some cuts, so that some are told that nobody answers.
const PATIENCE: Duration = Duration::from_secs(8);

/// The range that a line's loss is drawn from, and the chance of each.
const LOSS_PERCENT: Range<f64> = 0.1..3.0;
const LOSS_CHANCE: f64 = 0.4;
const MBIT_S: Range<f64> = 1.0..100.0;
const RATE_CHANCE: f64 = 0.5;

/// The rate that large values are planned for on a line that has none: about what a lab's relay does beside all else.
const UNLIMITED_MBIT_S: f64 = 100.0;

/// How long things stay broken, and how long clients work before, in seconds.
const BROKEN_S: Range<f64> = 0.2..10.0;
const WORKS_S: Range<f64> = 0.3..2.0;

/// How long nodes, etcd and lines between nodes stay broken, in seconds; the chance that a fault that can end a lease
/// does, and by how much it outlasts it.
const NODE_BROKEN_S: Range<f64> = 0.1..9.0;
const ENDS_LEASE_CHANCE: f64 = 0.7;
const BEYOND_LEASE: Duration = Duration::from_millis(1500);

/// The leases of nodes that are drawn, in seconds.
const NODE_LEASES_S: Range<u32> = 2..5;

/// The lists that clients of several nodes visit at a time, and how long each client pauses after a transaction, in
/// milliseconds: the checker keeps in memory what each of them has read.
const LISTS_OF_NODES: u64 = 32;
const PAUSE_OF_NODES_MS: Range<u64> = 3..15;

/// How long clients work on at last without a fault.
const CALM: Duration = Duration::from_secs(12);

/// The share of clients that pause, so that their connections are idle for longer than a ping takes to come.
const PAUSES_CHANCE: f64 = 0.25;
const PAUSE_MS: Range<u64> = 200..1200;

/// The chance of a round in which a client of each group visits large values, the share of its visits, how long a value
/// takes on the slowest line, in seconds, and the largest value in blocks: of the order of what a transaction may
/// write.
const HEAVY_CHANCE: f64 = 0.6;
const HEAVY_SHARE: f64 = 0.3;
const VALUE_S: Range<f64> = 0.1..4.0;
const VALUE_BLOCKS_MAX: f64 = (48 << 20) as f64 / Lists::BLOCK_BYTES as f64;

/// Lists that are in use at a time: few, so that transactions meet. Over a slow line it takes long to fetch what others
/// have changed, and a client that meets another each time gets nowhere: there are more of them.
const LISTS_IN_TURN: u64 = 8;
const LISTS_DRAWN: u64 = 32;

/// Commits that the clients must have had acknowledged before something is broken.
const COMMITS_IN_TURN: u64 = 40;
const COMMITS_DRAWN: u64 = 10;

/// The options that a plan is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) rounds: usize,
    pub(super) groups: usize,
    /// Of each group, or of the store.
    pub(super) clients: usize,
    pub(super) leased: bool,
    /// The nodes of the store, if it has several.
    pub(super) nodes: usize,
}

/// The steps of a torture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// How long the leases of groups last, in milliseconds, if the store gives any.
    pub(super) lease_ms: Option<u32>,
    /// How long the leases of the store's nodes last; none if it is one process.
    pub(super) node_lease: Option<Duration>,
    /// How long clients wait for an answer, if not as long as usual.
    pub(super) patience: Option<Duration>,
    /// How many lists clients visit in a round, half of them those of the round before.
    pub(super) lists: u64,
    pub(super) rounds: Vec<Round>,
}

/// A round: clients work, something is broken and repaired.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Round {
    pub(super) fault: Fault,
    /// The group that it strikes, if it strikes one.
    pub(super) group: usize,
    /// How long it stays broken, where nothing else decides that.
    pub(super) broken_for: Duration,
    /// How long clients work before, and how much they must have done by then.
    pub(super) works_for: Duration,
    pub(super) commits: u64,
    /// The state of each group's line, where it differs from how it was made.
    pub(super) weather: Vec<Weather>,
    /// How each client works, group by group.
    pub(super) manners: Vec<Manner>,
}

/// How a client works.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Manner {
    /// How long it pauses after each transaction, in milliseconds, if it does.
    pub(super) pause_ms: Option<Range<u64>>,
    /// How often it visits large values, and how many blocks those have, if it does.
    pub(super) heavy: Option<(f64, Range<u64>)>,
}

impl Manner {
    fn drawn(random: &mut Random) -> Self {
        Self { pause_ms: random.chance(PAUSES_CHANCE).then_some(PAUSE_MS), heavy: None }
    }

    /// The visits to these lists.
    pub(super) fn heavy(&self, keys: Range<u64>) -> Option<Heavy> {
        self.heavy.clone().map(|(share, blocks)| Heavy { keys, share, blocks })
    }

    /// The largest value that it may write, in bytes.
    pub(super) fn value_bytes_max(&self) -> u64 {
        self.heavy.as_ref().map_or(0, |(_, blocks)| (blocks.end - 1) * Lists::BLOCK_BYTES as u64)
    }
}

impl Plan {
    /// All that can be broken without a lab, one thing after the other.
    pub(super) fn in_turn(asked: Asked) -> Self {
        let faults = Fault::all(asked.groups, &[]);
        let round = |number: usize| Round {
            fault: faults[number % faults.len()],
            // Another group each time, and another for the same thing the next time.
            group: (number + number / faults.len()) % asked.groups.max(1),
            broken_for: LONG,
            works_for: Duration::ZERO,
            commits: COMMITS_IN_TURN,
            weather: Vec::new(),
            manners: vec![Manner::default(); asked.groups.max(1) * asked.clients],
        };
        let rounds = (0..asked.rounds).map(round).collect();
        let lease_ms = asked.leased.then_some(LEASE_MS);
        Self { lease_ms, node_lease: None, patience: None, lists: LISTS_IN_TURN, rounds }
    }

    /// The plan that a seed draws for a lab whose lines were made like this.
    pub(super) fn drawn(seed: u64, asked: Asked, line: Option<Line>) -> Self {
        let mut random = Random::new(seed);
        let lease_ms = draw_lease(asked, &mut random);
        let mut rounds: Vec<Round> = Vec::new();
        while rounds.len() < asked.rounds {
            // Each thing once, in another order each time.
            let mut faults = Fault::all(asked.groups, &[Cut::Both, Cut::FromSite, Cut::ToSite]);
            while !faults.is_empty() && rounds.len() < asked.rounds {
                let fault = faults.swap_remove(random.below(faults.len()));
                rounds.push(Round::drawn(fault, asked, &mut random));
            }
        }
        let rates: Vec<f64> = rounds.iter().map(|round| slowest_mbit_s(&round.weather, line)).collect();
        for (number, round) in rounds.iter_mut().enumerate() {
            // A value that is under way when the next round begins travels on over that one's lines.
            let slowest = rates[number..].iter().take(2).copied().fold(f64::INFINITY, f64::min);
            round.draw_heavy(slowest, asked, &mut random);
        }
        Self { lease_ms, node_lease: None, patience: Some(PATIENCE), lists: LISTS_DRAWN, rounds }
    }

    /// The plan that a seed draws for a store of several nodes. In the last round all is well.
    pub(super) fn of_nodes(seed: u64, asked: Asked) -> Self {
        let mut random = Random::new(seed);
        let lease_s = NODE_LEASES_S.start + random.below(NODE_LEASES_S.len()) as u32;
        let lease = Duration::from_secs(lease_s.into());
        let lease_ms = if asked.groups > 0 { draw_lease(asked, &mut random) } else { None };
        let mut rounds: Vec<Round> = Vec::new();
        while rounds.len() < asked.rounds {
            // Each kind once, in another order each time.
            let mut faults: Vec<_> = NodeFault::all(asked.nodes, &mut random).into_iter().map(Fault::Node).collect();
            faults.extend(Fault::of_groups(asked.groups));
            while !faults.is_empty() && rounds.len() < asked.rounds {
                let fault = faults.swap_remove(random.below(faults.len()));
                rounds.push(Round::of_nodes(fault, lease, asked, &mut random));
            }
        }
        let nothing = Round::of_nodes(Fault::Node(NodeFault::Nothing), lease, asked, &mut random);
        rounds.push(Round { broken_for: CALM, ..nothing });
        Self { lease_ms, node_lease: Some(lease), patience: Some(PATIENCE), lists: LISTS_OF_NODES, rounds }
    }
}

impl Round {
    fn drawn(fault: Fault, asked: Asked, random: &mut Random) -> Self {
        let weather = |random: &mut Random| Weather {
            loss_percent: random.chance(LOSS_CHANCE).then(|| log_uniform(&LOSS_PERCENT, random)),
            mbit_s: random.chance(RATE_CHANCE).then(|| log_uniform(&MBIT_S, random)),
        };
        Self {
            fault,
            group: random.below(asked.groups),
            broken_for: Duration::from_secs_f64(log_uniform(&BROKEN_S, random)),
            works_for: Duration::from_secs_f64(log_uniform(&WORKS_S, random)),
            commits: COMMITS_DRAWN,
            weather: (0..asked.groups).map(|_| weather(random)).collect(),
            manners: (0..asked.groups * asked.clients).map(|_| Manner::drawn(random)).collect(),
        }
    }

    /// A round of a store of several nodes.
    fn of_nodes(fault: Fault, lease: Duration, asked: Asked, random: &mut Random) -> Self {
        let broken_for = Duration::from_secs_f64(log_uniform(&NODE_BROKEN_S, random));
        let ends_lease = matches!(fault, Fault::Node(fault) if fault.ends_lease());
        let outlasts = ends_lease && random.chance(ENDS_LEASE_CHANCE);
        let manner = |random: &mut Random| {
            let drawn = Manner::drawn(random);
            Manner { pause_ms: drawn.pause_ms.or(Some(PAUSE_OF_NODES_MS)), ..drawn }
        };
        Self {
            fault,
            group: random.below(asked.groups.max(1)),
            broken_for: if outlasts { lease + BEYOND_LEASE + broken_for / 2 } else { broken_for },
            works_for: Duration::from_secs_f64(log_uniform(&WORKS_S, random)),
            commits: COMMITS_DRAWN,
            weather: Vec::new(),
            manners: (0..asked.groups.max(1) * asked.clients).map(|_| manner(random)).collect(),
        }
    }

    /// Has a client of each group visit large values, or none.
    fn draw_heavy(&mut self, slowest_mbit_s: f64, asked: Asked, random: &mut Random) {
        if !random.chance(HEAVY_CHANCE) {
            return;
        }
        let bytes = log_uniform(&VALUE_S, random) * slowest_mbit_s * 1e6 / 8.0;
        let blocks = (bytes / Lists::BLOCK_BYTES as f64).clamp(1.0, VALUE_BLOCKS_MAX) as u64;
        for clients in self.manners.chunks_mut(asked.clients) {
            clients[random.below(asked.clients)].heavy = Some((HEAVY_SHARE, 1..blocks + 1));
        }
    }
}

/// How long leases of groups last, in milliseconds: as asked for, or drawn, or there are none.
fn draw_lease(asked: Asked, random: &mut Random) -> Option<u32> {
    let drawn = random.chance(0.5).then(|| log_uniform(&LEASES_MS, random) as u32);
    if asked.leased { Some(LEASE_MS) } else { drawn }
}

/// The rate of the slowest line.
pub(super) fn slowest_mbit_s(weather: &[Weather], line: Option<Line>) -> f64 {
    let usual = line.and_then(|line| line.mbit_s).unwrap_or(UNLIMITED_MBIT_S);
    weather.iter().map(|weather| weather.mbit_s.unwrap_or(usual)).fold(usual, f64::min)
}

/// As often between 1 and 2 as between 10 and 20.
fn log_uniform(range: &Range<f64>, random: &mut Random) -> f64 {
    let fraction = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    range.start * (range.end / range.start).powf(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ASKED: Asked = Asked { rounds: 400, groups: 2, clients: 3, leased: false, nodes: 3 };

    #[test]
    fn a_seed_draws_one_plan() {
        assert_eq!(Plan::drawn(7, ASKED, None), Plan::drawn(7, ASKED, None));
        assert_ne!(Plan::drawn(7, ASKED, None), Plan::drawn(8, ASKED, None));
    }

    #[test]
    fn everything_is_drawn_and_within_its_range() {
        let plan = Plan::drawn(1, ASKED, None);
        let all = Fault::all(2, &[Cut::Both, Cut::FromSite, Cut::ToSite]);
        assert!(all.iter().all(|fault| plan.rounds.iter().any(|round| round.fault == *fault)));
        let weather: Vec<Weather> = plan.rounds.iter().flat_map(|round| round.weather.clone()).collect();
        let rates: Vec<f64> = weather.iter().filter_map(|weather| weather.mbit_s).collect();
        assert!(rates.iter().all(|rate| MBIT_S.contains(rate)));
        assert!(rates.iter().any(|&rate| rate < 1.5) && rates.iter().any(|&rate| rate > 70.0));
        let losses: Vec<f64> = weather.iter().filter_map(|weather| weather.loss_percent).collect();
        assert!(losses.iter().all(|loss| LOSS_PERCENT.contains(loss)) && losses.len() > 100);
        assert!(plan.rounds.iter().any(|round| round.broken_for > PATIENCE), "some cuts outlast patience");
        let leased = (0..40).filter(|&seed| Plan::drawn(seed, ASKED, None).lease_ms.is_some()).count();
        assert!((10..30).contains(&leased), "{leased} of 40");
    }

    #[test]
    fn a_large_value_gets_through_the_slowest_line_of_its_round_and_the_next() {
        let plan = Plan::drawn(1, ASKED, None);
        let mut largest = 0;
        for (number, round) in plan.rounds.iter().enumerate() {
            let bytes = round.manners.iter().map(Manner::value_bytes_max).max().unwrap();
            for weather in plan.rounds[number..].iter().take(2).map(|round| &round.weather) {
                let seconds = bytes as f64 * 8.0 / 1e6 / slowest_mbit_s(weather, None);
                assert!(seconds <= VALUE_S.end, "{seconds} s in round {number}");
            }
            largest = largest.max(bytes);
        }
        assert!(largest > 16 << 20, "{largest}");
    }

    #[test]
    fn several_nodes_meet_every_fault_and_some_outlast_leases() {
        let plan = Plan::of_nodes(1, ASKED);
        assert_eq!(plan, Plan::of_nodes(1, ASKED));
        let (last, rounds) = plan.rounds.split_last().unwrap();
        assert_eq!((last.fault, rounds.len()), (Fault::Node(NodeFault::Nothing), 400));
        let kinds: HashSet<_> = rounds.iter().map(|round| round.fault.name()).collect();
        assert_eq!(kinds.len(), 12 + 5, "{kinds:?}");
        let without = Plan::of_nodes(1, Asked { groups: 0, ..ASKED });
        let of_nodes = |round: &Round| matches!(round.fault, Fault::Node(_)) && round.manners.len() == 3;
        assert!(without.rounds.iter().all(of_nodes) && without.lease_ms.is_none());
        let lease = plan.node_lease.unwrap();
        let lasts = |round: &&Round| matches!(round.fault, Fault::Node(fault) if fault.ends_lease());
        let longer = rounds.iter().filter(lasts).filter(|round| round.broken_for > lease).count();
        assert!((35..72).contains(&longer), "{longer} of about 72");
        let pairs = rounds.iter().filter_map(|round| match round.fault {
            Fault::Node(NodeFault::MoveAndKill(_)) => None,
            Fault::Node(fault) => <[usize; 2]>::try_from(fault.nodes()).ok(),
            _ => None,
        });
        assert!(pairs.into_iter().all(|[first, second]| first != second && first.max(second) < 3));
    }

    #[test]
    fn without_a_lab_each_thing_is_broken_in_its_turn() {
        let plan = Plan::in_turn(Asked { rounds: 12, ..ASKED });
        let faults: Vec<Fault> = plan.rounds.iter().map(|round| round.fault).collect();
        assert_eq!(faults[..6], Fault::all(2, &[])[..]);
        assert_eq!(faults[..6], faults[6..]);
        assert!((0..6).all(|number| plan.rounds[number].group != plan.rounds[number + 6].group));
        assert!(!Fault::all(2, &[]).contains(&Fault::OnlyLines));
    }
}
