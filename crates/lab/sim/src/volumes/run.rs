//! One run from its seed to its verdict.
//!
//! ```text
//!   storm     things happen, as drawn
//!   calm      no more trouble: the volume gets an owner, every request is answered, everything goes home
//! ```

use super::blocks::{BLOCK, BLOCKS};
use super::host::{Host, Role};
use super::house::House;
use super::peer::Peer;
use super::scenario::Scenario;
use super::truth::Truth;
use crate::rng::Rng;
use crate::run::{Report, guarded};
use crate::trace::Trace;
use crate::violation::{Check, ensure};
use machines::{Life, PartitionId, Registered, Rule, ToHolder, View, VolumeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Broken, SessionId, Time};

/// Steps within which the calm must come to its end.
const CALM_STEPS_MAX: u64 = 60_000;

pub(crate) const VOLUME: VolumeId = VolumeId(1);

/// Messages of a host that is gone, or of a session that is, still on their way to a holder.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) peer: usize,
    pub(crate) session: SessionId,
    pub(crate) messages: VecDeque<ToHolder>,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) broken: Broken<Rule>,
    pub(crate) rng: Rng,
    /// Of what happens to caches: days on which nothing does are as they would be without this.
    pub(crate) cache_rng: Rng,
    pub(crate) now: Time,
    pub(crate) trace: Trace,
    pub(crate) registry: View,
    /// The states of it before, oldest first, and the last that home was notified of.
    pub(crate) past: Vec<View>,
    pub(crate) kept: Option<View>,
    pub(crate) house: House,
    pub(crate) hosts: Vec<Host>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) orphans: Vec<Orphan>,
    pub(crate) truth: Truth,
    pub(crate) sessions: u64,
    pub(crate) requests: u64,
    pub(crate) partitions: u64,
    /// The lives of holders' directories, as the registry has them, and how many have begun.
    pub(crate) lives: BTreeMap<PartitionId, Life>,
    pub(crate) lives_begun: u64,
    /// The holders whose directories were put back from copies of the same life.
    pub(crate) rewound: BTreeSet<PartitionId>,
    /// Counts the attachments of all hosts.
    pub(crate) attachments: u64,
    pub(crate) is_calm: bool,
    /// Lists were given up, and nobody has begun with what is left yet.
    pub(crate) has_lost: bool,
    /// The finding of a checker in the middle of a step.
    pub(crate) found: Check,
}

/// Runs one seed.
pub(crate) fn run_seed(seed: u64, broken: Broken<Rule>, readable: bool) -> Report {
    let mut world = World::new(seed, broken, readable);
    let scenario = format!("{:?}", world.scenario);
    let verdict = guarded(|| world.live());
    let commits = world.truth.answers;
    let mut trace = world.trace;
    trace.event(world.now, &[99, commits], || "the end");
    let (hash, mut lines) = (trace.hash(), trace.into_lines());
    if readable {
        lines.insert(0, scenario);
    }
    Report { seed, commits, unknown: 0, hash, violation: verdict.err(), trace: lines }
}

impl World {
    fn new(seed: u64, broken: Broken<Rule>, readable: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(seed, &mut rng);
        let entry = Registered::new(BLOCKS as u64 * BLOCK, scenario.copies, scenario.lease);
        let partitions = scenario.peers as u64;
        let peers = (1..=partitions).map(|number| Peer::new(PartitionId(number), &scenario, broken)).collect();
        Self {
            rng,
            cache_rng: Rng::new(!seed),
            broken,
            now: Time(1_000_000),
            trace: Trace::new(readable),
            registry: View { revision: 1, entry },
            past: Vec::new(),
            kept: None,
            house: House::new(broken),
            hosts: scenario.drift.iter().map(|&drift| Host::new(drift, broken)).collect(),
            peers,
            orphans: Vec::new(),
            truth: Truth::new(scenario.ack),
            sessions: 0,
            requests: 0,
            partitions,
            lives: BTreeMap::new(),
            lives_begun: 0,
            rewound: BTreeSet::new(),
            attachments: 0,
            is_calm: false,
            has_lost: false,
            found: Ok(()),
            scenario,
        }
    }

    fn live(&mut self) -> Check {
        for _ in 0..self.scenario.steps {
            self.step()?;
        }
        self.calm();
        for _ in 0..CALM_STEPS_MAX {
            self.step()?;
            if self.rests() {
                return Ok(());
            }
        }
        ensure(false, "liveness", || {
            let roles: Vec<_> = self.hosts.iter().map(|host| host.role.name()).collect();
            format!("the calm does not end: {} requests wait, hosts are {roles:?}", self.truth.waiting())
        })
    }

    fn calm(&mut self) {
        self.is_calm = true;
        self.scenario.calm();
        // A holder that leaves is another one when it starts again.
        self.peers.iter_mut().filter(|peer| peer.is_leaving).for_each(Peer::stay);
        for host in &mut self.hosts {
            (host.is_cut, host.is_apart, host.asleep_until) = (false, false, self.now);
        }
        self.note(&[98], || "calm");
    }

    /// Everything is answered and home, and the volume has its copies, if its owner has a log.
    fn rests(&mut self) -> bool {
        let now = self.now;
        let owners = self.hosts.iter_mut().filter_map(|host| match &mut host.role {
            Role::Owner(owner) => {
                Some((host.drift, host.cache.log.as_ref().is_some_and(|it| it.failed_at.is_some()), owner))
            }
            _ => None,
        });
        let mut count = 0;
        for (drift, is_lost, owner) in owners {
            owner.drain(Time(now.0 / 1000 * (1000 + drift) as u64));
            count += usize::from(owner.over().is_none() && owner.is_clean() && (is_lost || !owner.is_degraded()));
        }
        let is_waiting = |host: &&Host| match &host.role {
            Role::Idle => true,
            Role::Owner(_) => false,
            Role::TakeOver(takeover) => takeover.is_watching(),
        };
        let waiting = self.hosts.iter().filter(is_waiting).count();
        count == 1 && count + waiting == self.hosts.len() && self.truth.waiting() == 0
    }

    pub(crate) fn note<T: core::fmt::Display>(&mut self, numbers: &[u64], text: impl FnOnce() -> T) {
        self.trace.event(self.now, numbers, text);
    }
}
