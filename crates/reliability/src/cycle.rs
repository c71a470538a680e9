//! One cycle of a volume's life: from the first failure until everything is well again, or its dirty data is lost.
//!
//! ```text
//!             a holder is lost               all is home, another one takes its place
//!      Well -----------------> Degraded ---------------------------------------------> Well
//!        \                        | the owner is lost
//!         \ the owner is lost     v                  home, and has an owner
//!          +------------------> Taking -----------------------------------------> Well
//! ```
//! Losses are rare: if they are sought, the devices of the other copies die more often here than they do while some are
//! missing, and the cycle has the weight that this has (importance sampling). The raised rate falls with the time since the
//! last copy was lost, so that weights stay small; the longer the copies will be missing, the slower.

use crate::chance::Chance;
use crate::fleet::{Copy, Fleet};
use crate::takeover::{Own, Replicated, Taking};
use crate::world::{Failure, Takes, World};
use volume::VolumeId;

/// The copies that are to die while others are missing, in the mean, if losses are sought.
const DEATHS: f64 = 1.0;

/// The raised share of copies' devices that die with their power.
const DIES_WITH_POWER: f64 = 0.5;

/// The end of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Whether dirty data is lost.
    pub(crate) is_lost: bool,
    /// How much the cycle counts.
    pub(crate) weight: f64,
    pub(crate) length_s: f64,
    /// How long the volume had no owner.
    pub(crate) waited_s: f64,
}

/// A volume's state.
#[derive(Debug)]
enum State {
    /// It has as many holders as it wants.
    Well,
    /// It has not, since then. All that is dirty is home then.
    Degraded { since: f64, home_at: f64 },
    /// Its owner is gone since then, and this host takes it over, if there is one that can.
    Taking { since: f64, taking: Option<Box<Taking>> },
}

/// Copies are missing.
#[derive(Clone, Copy, Debug)]
struct Exposed {
    /// Since then, or since the last one was lost.
    since: f64,
    /// The raised rate at which one of the others dies: this, divided by the time since, and that which data takes home.
    haste: f64,
}

/// A cycle.
pub(crate) struct Cycle<'a> {
    world: &'a World,
    chance: &'a mut Chance,
    fleet: Fleet<'a>,
    volume: Replicated,
    now: f64,
    state: State,
    /// The owner's copy first.
    copies: Vec<Copy>,
    /// Whether data is only in the copies.
    is_dirty: bool,
    exposed: Option<Exposed>,
    seeks_loss: bool,
    weight: f64,
    waited_s: f64,
}

impl<'a> Cycle<'a> {
    /// A volume with so many copies in a world in which nothing has failed.
    pub(crate) fn new(world: &'a World, copies: u8, seeks_loss: bool, chance: &'a mut Chance) -> Self {
        let fleet = Fleet::new(world);
        let volume = VolumeId(chance.number());
        let owner = chance.index(world.hosts());
        let holders = fleet.targets(0.0, volume, owner, &[], usize::from(copies) - 1);
        let copies_at = [fleet.copy_at(owner)].into_iter().chain(holders).collect();
        Self {
            world,
            chance,
            fleet,
            volume: Replicated { volume, copies, lease_s: world.lease_s },
            now: 0.0,
            state: State::Well,
            copies: copies_at,
            is_dirty: true,
            exposed: None,
            seeks_loss,
            weight: 1.0,
            waited_s: 0.0,
        }
    }

    /// Those whose failure of this kind this volume would notice.
    pub(crate) fn sources(&self, failure: Failure) -> Vec<usize> {
        let hosts = self.copies.iter().map(|copy| copy.host);
        match failure {
            Failure::Node | Failure::Device => hosts.collect(),
            Failure::Power | Failure::Partition => {
                let mut racks: Vec<_> = hosts.map(|host| self.fleet.rack(host)).collect();
                racks.sort_unstable();
                racks.dedup();
                racks
            }
            Failure::Burst => vec![0],
        }
    }

    /// One of so many.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.chance.index(count)
    }

    /// Runs it from this first failure on.
    pub(crate) fn run(mut self, failure: Failure, source: usize) -> Outcome {
        self.fail(failure, source);
        loop {
            if self.is_dirty && !self.copies.iter().any(|copy| self.fleet.has(*copy)) {
                return self.over(true);
            }
            self.react();
            if matches!(self.state, State::Well) && self.fleet.is_well(self.now) {
                return self.over(false);
            }
            self.step();
        }
    }

    fn over(self, is_lost: bool) -> Outcome {
        Outcome { is_lost, weight: self.weight, length_s: self.now, waited_s: self.waited_s }
    }

    /// Lets time pass until something happens.
    fn step(&mut self) {
        let world = self.world;
        let total: f64 = Failure::ALL.iter().map(|&it| world.rate(it).per_s() * world.sources(it) as f64).sum();
        let failing = self.now + self.chance.exponential(1.0 / total);
        let alive: Vec<_> = self.copies.iter().copied().filter(|copy| self.fleet.has(*copy)).collect();
        let natural = alive.len() as f64 * world.device.per_s();
        let exposed = self.exposed.filter(|_| self.seeks_loss && self.is_dirty && natural > 0.0);
        // The hazard is `haste` / (time since + base): drawn from there on.
        let base = base(world);
        let hastened = exposed.map_or(f64::INFINITY, |Exposed { since, haste }| {
            since - base + (self.now - since + base) * self.chance.share().powf(-1.0 / haste)
        });
        let timers = [self.fleet.mended_at(self.now), self.timer()].into_iter().flatten();
        let next = timers.chain([failing, hastened]).fold(f64::INFINITY, f64::min);
        if let Some(Exposed { since, haste }) = exposed {
            let passed = (next - since + base) / (self.now - since + base);
            self.weight *= (-natural * (next - self.now)).exp() * passed.powf(haste);
        }
        if matches!(self.state, State::Taking { .. }) {
            self.waited_s += next - self.now;
        }
        self.now = next;
        if let Some(Exposed { since, haste }) = exposed.filter(|_| hastened <= next) {
            self.weight *= natural * (next - since + base) / haste;
            let host = alive[self.chance.index(alive.len())].host;
            self.fail(Failure::Device, host);
        } else if failing <= next {
            let (failure, source) = self.draw(total);
            // Deaths of copies come at the raised rate instead.
            let is_hastened = exposed.is_some() && alive.iter().any(|copy| copy.host == source);
            if failure != Failure::Device || !is_hastened {
                self.fail(failure, source);
            }
        }
    }

    /// A failure, by its rate.
    fn draw(&mut self, total: f64) -> (Failure, usize) {
        let mut at = self.chance.share() * total;
        for failure in Failure::ALL {
            let count = self.world.sources(failure);
            at -= self.world.rate(failure).per_s() * count as f64;
            if at <= 0.0 {
                return (failure, self.chance.index(count));
            }
        }
        (Failure::Node, self.chance.index(self.world.hosts()))
    }

    fn fail(&mut self, failure: Failure, source: usize) {
        let had = self.copies_left();
        self.fleet.fail(self.now, failure, source, self.chance);
        let dies = self.world.device_dies_with_power;
        for host in self.fleet.without_power(failure, source) {
            let is_copy = dies > 0.0 && self.copies.iter().any(|copy| copy.host == host && self.fleet.has(*copy));
            let hastened = if is_copy && self.seeks_loss { dies.max(DIES_WITH_POWER) } else { dies };
            let is_dead = dies > 0.0 && self.chance.is(hastened);
            if is_copy {
                self.weight *= if is_dead { dies / hastened } else { (1.0 - dies) / (1.0 - hastened) };
            }
            if is_dead {
                let until = self.now + self.chance.exponential(self.world.device.lasts_s);
                self.fleet.lose_device(host, until);
            }
        }
        if self.copies_left() < had && self.exposed.is_some() {
            self.expose();
        }
    }

    /// Copies are missing, or more of them are.
    fn expose(&mut self) {
        let serve = self.copies.iter().filter_map(|copy| self.fleet.serves_from(*copy)).fold(f64::INFINITY, f64::min);
        let base = base(self.world);
        // Until some copy can be read, and then until it is home.
        let length = if serve.is_finite() { (serve - self.now).max(0.0) + base } else { base };
        self.exposed = Some(Exposed { since: self.now, haste: DEATHS / (1.0 + length / base).ln() });
    }

    fn copies_left(&self) -> usize {
        self.copies.iter().filter(|copy| self.fleet.has(**copy)).count()
    }

    /// When the volume's parts do something next.
    fn timer(&self) -> Option<f64> {
        let at = match &self.state {
            State::Well => None,
            State::Degraded { home_at, .. } if self.is_dirty => Some(*home_at),
            State::Degraded { since, .. } => Some(since + self.world.replace_after_s),
            State::Taking { taking, .. } => taking.as_ref().and_then(|taking| taking.next_at()),
        };
        at.filter(|at| *at > self.now)
    }

    /// The volume's parts do what is to be done now.
    fn react(&mut self) {
        let owner_serves = self.fleet.serves(self.now, self.copies[0]);
        match &self.state {
            State::Well | State::Degraded { .. } if !owner_serves => {
                self.state = State::Taking { since: self.now, taking: None };
                self.expose();
                self.take_over();
            }
            State::Well => {
                if !self.holders_serve() {
                    let home_at = self.now + self.world.silence_s + self.home_s();
                    self.state = State::Degraded { since: self.now, home_at };
                    self.expose();
                    // It may take no time at all.
                    self.degraded();
                }
            }
            State::Degraded { .. } => self.degraded(),
            State::Taking { .. } => self.take_over(),
        }
    }

    fn holders_serve(&self) -> bool {
        self.copies[1..].iter().all(|copy| self.fleet.serves(self.now, *copy))
    }

    fn degraded(&mut self) {
        let State::Degraded { since, home_at } = self.state else { return };
        if self.holders_serve() {
            return self.well();
        }
        if self.is_dirty && self.now >= home_at {
            self.is_home();
        }
        if !self.is_dirty && self.now >= since + self.world.replace_after_s {
            self.find_holders();
        }
    }

    fn is_home(&mut self) {
        (self.is_dirty, self.exposed) = (false, None);
    }

    fn well(&mut self) {
        (self.state, self.is_dirty, self.exposed) = (State::Well, true, None);
    }

    /// The owner, which has nothing dirty, looks for holders in the place of those that do not answer.
    fn find_holders(&mut self) {
        let (owner, wanted) = (self.copies[0], usize::from(self.volume.copies) - 1);
        self.copies.retain(|copy| *copy == owner || self.fleet.serves(self.now, *copy));
        let missing = wanted - (self.copies.len() - 1);
        let found = self.fleet.targets(self.now, self.volume.volume, owner.host, &self.copies, missing);
        self.copies.extend(found);
        if self.copies.len() == wanted + 1 {
            self.well();
        }
    }

    fn take_over(&mut self) {
        let State::Taking { since, taking } = &mut self.state else { return };
        let (since, mut taking) = (*since, taking.take());
        let (owner, holders) = (self.copies[0], self.copies[1..].to_vec());
        let owner_serves = self.fleet.serves(self.now, owner);
        if self.volume.copies == 1 {
            // Nobody else has what is dirty: the volume waits for its owner.
            if owner_serves {
                self.well();
            }
            return;
        }
        if taking.as_ref().is_some_and(|taking| !self.fleet.is_reached(self.now, taking.host())) {
            taking = None;
        }
        let is_stuck = taking.as_ref().is_none_or(|it| !it.is_under_way() && it.host() != owner.host);
        if is_stuck && owner_serves {
            // The owner is back, and has everything.
            let seen = self.now - 2.0 * self.world.lease_s;
            taking = Some(Box::new(Taking::begin(seen, self.volume, owner.host, holders, Own::Log)));
        } else if taking.is_none() {
            let seen = since - self.world.silent_s;
            let own = if self.is_dirty { Own::Nothing } else { Own::Home };
            let host = self.fleet.any_host(self.now, self.chance);
            taking = host.map(|host| Box::new(Taking::begin(seen, self.volume, host, holders, own)));
        }
        if let Some(taking) = &mut taking {
            let (home, chance) = (self.world.home, &mut *self.chance);
            taking.go_on(self.now, &self.fleet, &mut || draw(home, chance));
            if taking.is_home() {
                (self.is_dirty, self.exposed) = (false, None);
            }
            if taking.is_done() {
                // Nothing is dirty, and the new owner has no holders yet.
                self.copies = vec![self.fleet.copy_at(taking.host())];
                self.state = State::Degraded { since: self.now - self.world.replace_after_s, home_at: self.now };
                return self.find_holders();
            }
        }
        self.state = State::Taking { since, taking };
    }

    fn home_s(&mut self) -> f64 {
        draw(self.world.home, self.chance)
    }
}

/// The time for which copies are missing if nothing else fails, about.
fn base(world: &World) -> f64 {
    let (Takes::Fixed(home_s) | Takes::Exponential(home_s)) = world.home;
    world.silence_s + home_s
}

fn draw(takes: Takes, chance: &mut Chance) -> f64 {
    match takes {
        Takes::Fixed(seconds) => seconds,
        Takes::Exponential(mean) => chance.exponential(mean),
    }
}
