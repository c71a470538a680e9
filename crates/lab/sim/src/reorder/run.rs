//! One run from its seed to its verdict.
//!
//! ```text
//!   storm     things happen, as drawn
//!   calm      nothing new begins; what is under way arrives, in any order
//!   rest      every gap is closed, every page at its master's version       (liveness)
//! ```

use super::links::Links;
use super::master::Master;
use super::member::Member;
use super::scenario::Scenario;
use super::{MASTERS, check};
use crate::rng::Rng;
use crate::run::{Report, guarded};
use crate::trace::Trace;
use crate::value::{self, Stamp};
use crate::violation::{Check, ensure};
use std::collections::BTreeMap;
use types::{Broken, ClientId, Delta, ObjectId, PageId, SlotChange, Time, TxnId};

/// Steps that the calm may take: it has no more to do than deliver what is under way.
const CALM_STEPS_MAX: u64 = 100_000;

/// The client that gives the pages their first values.
const FOUNDER: ClientId = ClientId(0xf);

/// Two masters, their members, and what is under way.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) trace: Trace,
    pub(crate) masters: [Master; MASTERS],
    pub(crate) members: Vec<Member>,
    pub(crate) links: Links,
    /// The reads of the transactions whose commit is asked for.
    pub(crate) reads: BTreeMap<TxnId, Vec<(ObjectId, Option<Stamp>)>>,
    pub(crate) attempts: u32,
    pub(crate) commits: u64,
}

/// Runs one seed.
pub(crate) fn run_seed(seed: u64, broken: Broken, readable: bool) -> Report {
    let mut world = World::new(seed, broken, readable);
    let scenario = format!("{:?}", world.scenario);
    let verdict = guarded(|| world.live());
    let mut trace = world.trace;
    trace.event(world.now, &[8, world.commits], || "the end");
    let (hash, mut lines) = (trace.hash(), trace.into_lines());
    if readable {
        lines.insert(0, scenario);
    }
    Report { seed, commits: world.commits, unknown: 0, hash, violation: verdict.err(), trace: lines }
}

impl World {
    fn new(seed: u64, broken: Broken, readable: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let master = |_| Master::new(scenario.members, scenario.recent_limit, scenario.delay, broken);
        let mut world = Self {
            rng,
            now: Time::ZERO,
            trace: Trace::new(readable),
            masters: core::array::from_fn(master),
            members: Vec::new(),
            links: Links::new(scenario.members),
            reads: BTreeMap::new(),
            attempts: 0,
            commits: 0,
            scenario,
        };
        world.found();
        for member in 0..world.scenario.members {
            let horizons = core::array::from_fn(|master| world.masters[master].welcome(member));
            world.members.push(Member::new(member, world.scenario.cache_bytes_limit, horizons, broken));
        }
        world
    }

    /// Each page has an object in each slot before anybody comes.
    fn found(&mut self) {
        for (number, master) in self.masters.iter_mut().enumerate() {
            for page in (0..self.scenario.pages).map(|page| PageId::new(number as u32, page)) {
                let value = |slot| {
                    let stamp = Stamp { attempt: 0, write: u32::from(slot) };
                    Some(value::encode(Some(ObjectId::new(page, slot)), stamp, 0))
                };
                let changes = (0..self.scenario.slots).map(|slot| SlotChange { slot, value: value(slot) }).collect();
                let txn = TxnId { client: FOUNDER, number: u64::from(page.number) + 1 };
                master.apply(txn, vec![Delta { page, changes }]).expect("nothing was written before");
            }
        }
    }

    fn live(&mut self) -> Check {
        for _ in 0..self.scenario.steps {
            self.step()?;
        }
        self.calm()?;
        check::at_rest(&self.members, &self.masters)
    }

    /// Delivers what is under way, and what is said about it, until nothing more is said.
    fn calm(&mut self) -> Check {
        for _ in 0..CALM_STEPS_MAX {
            self.pass_time();
            if self.links.is_empty() {
                self.flush_all();
                if self.links.is_empty() {
                    return Ok(());
                }
            }
            match self.rng.index(3) {
                0 => self.deliver()?,
                1 => self.request()?,
                _ => self.page()?,
            }
        }
        ensure(false, "liveness", || "the calm does not end".into())
    }

    fn flush_all(&mut self) {
        for master in 0..MASTERS {
            (0..self.members.len()).for_each(|member| self.flush(master, member));
        }
    }
}
