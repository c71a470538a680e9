//! One cycle of a volume's life: from the first failure until everything is well again, or something that was
//! acknowledged is lost. It is lost when home claims to have it after a takeover, and has not: whether copies are left
//! does not matter if the takeover does not read them.
//!
//! ```text
//!             a holder is lost               all is home, another one takes its place
//!      Well -----------------> Degraded ---------------------------------------------> Well
//!        \                        | the owner is lost
//!         \ the owner is lost     v                  home, and has an owner
//!          +------------------> Taking -----------------------------------------> Well
//! ```
//! Where there are spare holders a volume that lacks no more than these is *short* (`short`), and not degraded.
//!
//! Losses are rare: if they are sought, the devices of the other copies die more often here than they do while some are
//! missing, and the cycle has the weight that this has (importance sampling). The raised rate falls with the time since
//! the last copy was lost, so that weights stay small; the longer the copies will be missing, the slower.

use crate::reliability::answer::Promise;
use crate::reliability::chance::Chance;
use crate::reliability::fleet::{Copy, Fleet};
use crate::reliability::replicated::Replicated;
use crate::reliability::takeover::{Taker, Taking};
use crate::reliability::world::{Failure, Takes, World};
use machines::VolumeId;
use std::time::Duration;

/// The copies that are to die while others are missing, in the mean, if losses are sought.
const DEATHS: f64 = 1.0;

/// The raised share of copies' devices that die with their power.
const DIES_WITH_POWER: f64 = 0.5;

/// The end of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Whether something that was acknowledged is lost.
    pub(crate) is_lost: bool,
    /// How much the cycle counts.
    pub(crate) weight: f64,
    pub(crate) length_s: f64,
    /// How long the volume had no owner.
    pub(crate) waited_s: f64,
}

/// A volume's state.
#[derive(Debug)]
pub(crate) enum State {
    /// It has as many holders as it wants.
    Well,
    /// It lacks spare holders alone, since then, and continues. When it has as many as it wants, all of them have
    /// everything then.
    Short { since: f64, whole_at: Option<f64> },
    /// It has not even those of W copies, since then. Everything that is dirty is home then, if there is a home.
    Degraded { since: f64, home_at: Option<f64> },
    /// Nothing was learned of its owner, or of a host that was taking it over, since then. This host takes it over, if
    /// there is one that can.
    Taking { silent_since: f64, taking: Option<Box<Taking>> },
}

/// Copies are missing, or could not be brought home if they were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exposed {
    /// Since then, or since the last one was lost.
    since: f64,
    /// The raised rate at which one of the others dies: this, divided by the time since, and that which data takes
    /// home.
    haste: f64,
}

/// A cycle.
pub(crate) struct Cycle<'a> {
    pub(crate) world: &'a World,
    chance: &'a mut Chance,
    pub(crate) fleet: Fleet<'a>,
    pub(crate) volume: Replicated,
    pub(crate) now: f64,
    pub(crate) state: State,
    /// The owner's copy first.
    pub(crate) copies: Vec<Copy>,
    pub(crate) exposed: Option<Exposed>,
    seeks_loss: bool,
    weight: f64,
    waited_s: f64,
}

impl<'a> Cycle<'a> {
    /// A volume in a world in which nothing has failed.
    pub(crate) fn new(world: &'a World, promise: Promise, seeks_loss: bool, chance: &'a mut Chance) -> Self {
        let fleet = Fleet::new(world);
        let mut volume = Replicated::new(VolumeId(chance.number()), promise, world.lease_s);
        let owner = chance.index(world.hosts());
        let wanted = volume.copies() - 1 + usize::from(world.spare_holders);
        let holders = fleet.targets(0.0, volume.volume, owner, &[], wanted);
        volume.attach(owner);
        volume.hold(&holders);
        volume.write(&holders);
        let copies = [fleet.copy_at(owner)].into_iter().chain(holders).collect();
        Self {
            world,
            chance,
            fleet,
            volume,
            now: 0.0,
            state: State::Well,
            copies,
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
            Failure::Burst | Failure::Home => vec![0],
        }
    }

    /// The first failure that comes, as often as there are such: when, and of what.
    pub(crate) fn next(&mut self) -> (f64, Failure, usize) {
        let rate = |failure: Failure| self.world.rate(failure).per_s() * self.sources(failure).len() as f64;
        let rates = Failure::ALL.map(|failure| (failure, rate(failure)));
        let total: f64 = rates.iter().map(|(_, rate)| rate).sum();
        let mut at = self.chance.share() * total;
        let is_it = |(_, rate): &&(Failure, f64)| {
            at -= rate;
            at <= 0.0
        };
        let failure = rates.iter().find(is_it).map_or(Failure::Device, |(failure, _)| *failure);
        let sources = self.sources(failure);
        (self.chance.exponential(1.0 / total), failure, sources[self.chance.index(sources.len())])
    }

    /// One of this many.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.chance.index(count)
    }

    /// Runs it from this first failure on.
    pub(crate) fn run(mut self, failure: Failure, source: usize) -> Outcome {
        self.fail(failure, source);
        loop {
            self.react();
            if self.volume.is_lost() {
                return self.over(true);
            }
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
        let exposed = self.exposed.filter(|_| self.seeks_loss && self.volume.is_dirty() && natural > 0.0);
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

    /// Copies are missing, or more of them are, or none could be brought home.
    fn expose(&mut self) {
        let serve = self.copies.iter().filter_map(|copy| self.fleet.serves_from(*copy)).fold(f64::INFINITY, f64::min);
        let serve = if serve.is_finite() { serve } else { self.now };
        let base = base(self.world);
        let rescue = match self.state {
            State::Taking { .. } => self.world.rescue_after_s + self.world.lease_s,
            State::Short { .. } => self.world.replace_after_s,
            State::Well | State::Degraded { .. } => 0.0,
        };
        // Until some copy can be read, and home written, and then until it is there.
        let length = (serve.max(self.fleet.home_from()) - self.now).max(0.0) + rescue + base;
        self.exposed = Some(Exposed { since: self.now, haste: DEATHS / (1.0 + length / base).ln() });
    }

    fn copies_left(&self) -> usize {
        self.copies.iter().filter(|copy| self.fleet.has(**copy)).count()
    }

    /// When the volume's parts do something next.
    fn timer(&self) -> Option<f64> {
        let at = match &self.state {
            State::Well => None,
            State::Short { since, whole_at } => self.short_until(*since, *whole_at),
            State::Degraded { home_at, .. } if self.volume.is_dirty() => *home_at,
            State::Degraded { since, .. } => Some(since + self.world.replace_after_s),
            State::Taking { taking: Some(taking), .. } => taking.next_at(),
            State::Taking { silent_since, taking: None } => self.rescuer(*silent_since).map(|(at, _)| at),
        };
        at.filter(|at| *at > self.now)
    }

    /// The volume's parts do what should be done now.
    fn react(&mut self) {
        let owner_serves = self.fleet.serves(self.now, self.copies[0]);
        match &self.state {
            State::Well | State::Short { .. } | State::Degraded { .. } if !owner_serves => {
                self.state = State::Taking { silent_since: self.now, taking: None };
                self.expose();
                self.take_over();
            }
            State::Well | State::Short { .. } if !self.is_enough() => {
                self.state = State::Degraded { since: self.now, home_at: None };
                self.expose();
                self.degraded();
            }
            State::Well if !self.holders_serve() => {
                self.state = State::Short { since: self.now, whole_at: None };
                self.expose();
                self.short();
            }
            State::Short { .. } => self.short(),
            // It has all of its copies. While home is unreachable nothing could be brought there, so losses are sought
            // then, too.
            State::Well if self.fleet.has_home(self.now) => self.exposed = None,
            State::Well if self.exposed.is_none() => self.expose(),
            State::Well => {}
            State::Degraded { .. } => self.degraded(),
            State::Taking { .. } => self.take_over(),
        }
    }

    /// The holders that work.
    pub(crate) fn serving(&self) -> Vec<Copy> {
        self.copies[1..].iter().copied().filter(|copy| self.fleet.serves(self.now, *copy)).collect()
    }

    /// The holders that there should be.
    fn wanted(&self) -> usize {
        self.volume.copies() - 1 + usize::from(self.world.spare_holders)
    }

    /// Whether there are as many holders as there should be, and all of them work.
    pub(crate) fn holders_serve(&self) -> bool {
        self.serving().len() == self.wanted()
    }

    /// Whether as many as W copies take work, and have everything that is dirty.
    fn is_enough(&self) -> bool {
        self.volume.whole(&self.serving()) + 1 >= self.volume.copies()
    }

    /// Home has what is dirty when the owner has noticed that holders are missing, and has written it there.
    fn degraded(&mut self) {
        let State::Degraded { since, home_at } = self.state else { return };
        if self.is_enough() {
            return self.resume();
        }
        if !self.fleet.has_home(self.now) {
            self.state = State::Degraded { since, home_at: None };
            return;
        }
        if self.volume.is_dirty() {
            let home_at = home_at.unwrap_or_else(|| self.now.max(since + self.world.silence_s) + self.write_back_s());
            self.state = State::Degraded { since, home_at: Some(home_at) };
            if self.now >= home_at {
                self.volume.write_back();
                self.exposed = None;
            }
        }
        if !self.volume.is_dirty() && self.now >= since + self.world.replace_after_s {
            self.find_holders();
            if self.is_enough() {
                self.resume();
            }
        }
    }

    /// Writes continue, with the holders that work.
    fn resume(&mut self) {
        let serving = self.serving();
        self.volume.hold(&self.copies[1..]);
        self.volume.write(&serving);
        if self.volume.whole(&serving) == self.wanted() {
            (self.state, self.exposed) = (State::Well, None);
        } else {
            self.state = State::Short { since: self.now, whole_at: None };
            self.expose();
            self.short();
        }
    }

    /// The owner, where nothing rests on them alone, looks for holders in the place of those that do not answer.
    pub(crate) fn find_holders(&mut self) {
        let (owner, wanted) = (self.copies[0], self.wanted());
        self.copies.retain(|copy| *copy == owner || self.fleet.serves(self.now, *copy));
        let missing = wanted - (self.copies.len() - 1);
        let found = self.fleet.targets(self.now, self.volume.volume, owner.host, &self.copies, missing);
        self.copies.extend(found);
        self.volume.hold(&self.copies[1..]);
    }

    fn take_over(&mut self) {
        let State::Taking { silent_since, taking } = &mut self.state else { return };
        let (mut silent_since, mut taking) = (*silent_since, taking.take());
        if taking.take_if(|taking| !taking.taker().works(self.now, &self.fleet)).is_some() {
            silent_since = self.now;
        }
        let owner_serves = self.fleet.serves(self.now, self.copies[0]);
        if owner_serves && taking.as_ref().is_none_or(|taking| taking.gives_way()) {
            taking = Some(self.begin(Taker::Owner(self.copies[0])));
        } else if taking.is_none() {
            taking = self.taker(silent_since).map(|taker| self.begin(taker));
        }
        if let Some(taking) = &mut taking {
            let (write_back, chance) = (self.world.write_back, &mut *self.chance);
            taking.go_on(self.now, &self.fleet, &mut self.volume, &mut || draw(write_back, chance));
            if !self.volume.is_dirty() {
                self.exposed = None;
            }
            if taking.is_done() {
                let host = taking.taker().host();
                return self.attach(host);
            }
        }
        self.state = State::Taking { silent_since, taking };
    }

    fn begin(&self, taker: Taker) -> Box<Taking> {
        let seen = self.now - self.world.silent_s;
        Taking::begin(seen, &self.volume, taker, self.copies.clone(), self.world)
    }

    /// The one that takes the volume over now: a holder whose turn it is, or, when no copy is left that the registry
    /// knows of, and so no holder comes, an operator.
    fn taker(&mut self, silent_since: f64) -> Option<Taker> {
        let holders = &self.volume.view.entry.holders;
        let counts = |copy: &Copy| *copy == self.copies[0] || holders.contains(&copy.partition);
        if !self.copies.iter().any(|copy| counts(copy) && self.fleet.has(*copy)) {
            return self.fleet.any_host(self.now, self.chance).map(Taker::Operator);
        }
        self.rescuer(silent_since).filter(|(at, _)| *at <= self.now).map(|(_, copy)| Taker::Holder(copy))
    }

    /// The holder that takes the volume over first, and when, if nothing more fails. Silence counts while a holder
    /// reaches the registry.
    fn rescuer(&self, silent_since: f64) -> Option<(f64, Copy)> {
        let after = Duration::from_secs_f64(self.world.rescue_after_s);
        let at = |copy: &Copy| {
            let wait = self.volume.view.entry.rescue_after(copy.partition, after)?;
            let reached = self.fleet.reached_from(copy.host).max(self.fleet.home_from());
            let silent = (silent_since - self.world.silent_s).max(reached);
            Some((silent + wait.as_secs_f64(), *copy))
        };
        let serving = self.copies[1..].iter().filter(|copy| self.fleet.serves(self.now, **copy));
        serving.filter_map(at).min_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// All is written back, as far as the machine knows, and this host has the volume.
    fn attach(&mut self, host: usize) {
        if self.volume.is_lost() {
            return;
        }
        self.volume.attach(host);
        self.copies = vec![self.fleet.copy_at(host)];
        self.state = State::Degraded { since: self.now - self.world.replace_after_s, home_at: None };
        self.degraded();
    }

    pub(crate) fn write_back_s(&mut self) -> f64 {
        draw(self.world.write_back, self.chance)
    }
}

/// The time for which copies are missing if nothing else fails, about.
fn base(world: &World) -> f64 {
    let (Takes::Fixed(write_back_s) | Takes::Exponential(write_back_s)) = world.write_back;
    world.silence_s + write_back_s
}

fn draw(takes: Takes, chance: &mut Chance) -> f64 {
    match takes {
        Takes::Fixed(seconds) => seconds,
        Takes::Exponential(mean) => chance.exponential(mean),
    }
}
