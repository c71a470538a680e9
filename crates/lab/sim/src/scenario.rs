//! The properties of one seed's run: everything is drawn, rates and mixes included, so that a thousand seeds are a
//! thousand different kinds of bad day (swarm testing).
//!
//! The draws lean towards races: few hot pages, one client on a slow path, caches that hold two pages, a master that
//! remembers hardly any change.

pub(crate) mod draw;
mod limits;
mod race;
mod rates;

use crate::actor::Habits;
use crate::disk::Profile;
use crate::layout::{Costs, Layout};
use crate::network::Path;
use crate::rng::{Delay, Rng};
use core::fmt;
use core::time::Duration;
use draw::{
    client_config, disk, habits, ignorance, path_delay, paths, rates, redirector_config, site_paths, store_config,
};
use limits::limits;
use machine::RoleId;
pub use race::Race;
pub(crate) use rates::{Rates, StoreFault};
use redirector::Duty;
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, Limits, ObjectId, Sharding};

/// Number of the process that hosts the store.
pub(crate) const STORE: usize = 0;

/// The kind of day that a seed draws.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Day {
    /// The race that it is steered towards.
    pub(crate) race: Option<Race>,
    /// The store has several shards.
    pub(crate) has_shards: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a draw of its own, and none excludes another")]
pub(crate) struct Scenario {
    /// Processes: the store's is number 0, then come the clients', then the redirectors'.
    pub(crate) clients: usize,
    /// The members of each group, which are clients; the others talk to the store directly.
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) redirector: redirector::Config,
    /// Which groups have a redirector of their own from the start; the others, if any of theirs is eligible, find one.
    pub(crate) dedicated: Vec<bool>,
    /// The clients that can be their group's redirector.
    pub(crate) eligible: Vec<usize>,
    /// Members know the name of their group before they have been in it.
    pub(crate) named: bool,
    /// Members take connections of their peers.
    pub(crate) peers: bool,
    /// How often a member that connects tries the store instead of its redirector.
    pub(crate) stray_permille: u32,
    /// How often a message passes one that yields to it.
    pub(crate) pass_permille: u32,
    /// How often a node waits a moment for what comes right behind a message.
    pub(crate) together_permille: u32,
    /// The time that hearing a message takes of a process.
    pub(crate) costs: Costs,
    /// The store's process runs an application too.
    pub(crate) embedded: bool,
    pub(crate) threads: usize,
    /// Attempts after which the faults stop.
    pub(crate) attempts: u32,
    pub(crate) habits: Habits,
    pub(crate) paths: Vec<Path>,
    pub(crate) disk: Profile,
    pub(crate) store: store::Config,
    /// How the store is configured in every other life, if not like that.
    pub(crate) other_lives: Option<store::Config>,
    pub(crate) client: client::Config,
    pub(crate) rates: Rates,
    /// By how much each process's clock is fast, in thousandths: within what leases allow for.
    pub(crate) drift: Vec<i64>,
    /// Messages between processes pass through bytes.
    pub(crate) through_bytes: bool,
    /// The longest that a process stands still, and that a path is stalled.
    pub(crate) standstill: Duration,
    /// Lines that carry little continue doing so when the storm is over.
    pub(crate) stays_slow: bool,
    /// One client stands still for good when the storm is over: it must not hinder the others.
    pub(crate) dead_weight: bool,
    /// The longest that the end which has connected, and the other, can be ignorant of the loss of their connection.
    pub(crate) ignorance: [Duration; 2],
}

/// Longer than any simulated run: a client that is so patient never gives up.
const PATIENCE: Duration = Duration::from_secs(1 << 20);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

impl Scenario {
    /// Draws the scenario of a seed on such a day; `broken` is the rule that is taken out.
    pub(crate) fn draw(rng: &mut Rng, broken: Broken, day: Day) -> Self {
        let race = day.race;
        // Of a generator of its own, so that all other draws are what they were without it.
        let mut apart = Rng::new(rng.clone().next() ^ 0x5eed_5eed);
        let (recycles, lets_go) = (apart.chance(80), apart.chance(40));
        let sharding = if day.has_shards { draw::sharding(&mut apart) } else { Sharding::ONE };
        let clients = rng.pick(&[1, 2, 2, 3, 3, 4, 6]);
        let habits = habits(rng);
        let mut scenario = Self {
            clients,
            embedded: rng.chance(250),
            threads: rng.pick(&[1, 1, 2, 3]),
            attempts: rng.pick(&[40, 100, 100, 200]),
            paths: paths(rng, clients + 1),
            disk: disk(rng),
            store: store::Config { sharding, ..store_config(rng, broken) },
            other_lives: None,
            client: client_config(rng, broken),
            groups: Vec::new(),
            dedicated: Vec::new(),
            eligible: Vec::new(),
            named: false,
            redirector: redirector::Config::default(),
            peers: true,
            costs: Costs::default(),
            stray_permille: 0,
            pass_permille: 0,
            together_permille: 0,
            drift: Vec::new(),
            rates: rates(rng),
            through_bytes: rng.chance(300),
            standstill: rng.pick(&[ms(30), ms(200), ms(4000)]),
            stays_slow: false,
            dead_weight: clients > 1 && rng.chance(200),
            ignorance: ignorance(rng),
            habits,
        };
        if rng.chance(600) || race.is_some_and(Race::is_of_groups) {
            scenario.gather(rng, broken);
        }
        // An eligible member may have two sessions with the store, and steering may make a few processes more.
        scenario.keep_to(limits(rng, scenario.processes() + scenario.eligible.len() + 4));
        let drawn = race.or_else(|| Race::draw(rng, !scenario.groups.is_empty()));
        let apart = recycles.then_some(Race::Recycle).or(lets_go.then_some(Race::LetGo));
        if let Some(race) = drawn.or(apart) {
            scenario.steer(race, rng);
        }
        // Drawn aside: what follows is what it would be without.
        let mut aside = rng.clone();
        scenario.pass_permille = aside.pick(&[0, 0, 100, 500, 900]);
        scenario.client.first_window_bytes = aside.pick(&[usize::MAX, usize::MAX, 2000, 200]);
        scenario.client.follows |= aside.chance(500);
        scenario.client.first = aside.chance(300).then(|| ObjectId::root(0));
        scenario.be_patient();
        scenario.darken(&mut aside);
        scenario
    }

    /// Draws what came to the simulator late: slow lines, messages that settle together, a store that is configured
    /// again each time, work that its disk refuses.
    fn darken(&mut self, rng: &mut Rng) {
        self.together_permille = rng.pick(&[0, 0, 300, 900]);
        for path in &mut self.paths {
            path.bytes_per_second = rng.pick(&[None, None, None, Some(1 << 20), Some(30_000)]);
        }
        if self.other_lives.is_none() && rng.chance(200) {
            let store::Config { silence, limits, broken, node, sharding, .. } = self.store;
            let other = store_config(rng, broken);
            self.other_lives = Some(store::Config { silence, limits, node, sharding, ..other });
        }
        let has_faults = self.rates.store_crash.or(self.rates.cut).is_some();
        self.rates.refuse = rng.pick(&[None, None, Some(ms(50)), Some(ms(300))]).filter(|_| has_faults);
        self.rates.restore = rng.pick(&[None, None, None, None, Some(ms(60)), Some(ms(400))]).filter(|_| has_faults);
        // With large values hardly anything would get through.
        self.stays_slow = self.habits.large_permille == 0 && rng.chance(400);
        if self.stays_slow {
            self.client.patience = self.client.patience.max(ms(5000));
        }
    }

    /// A client whose patience ends before an answer can be there gets nothing through, and that is nobody's fault: a
    /// commit may take two round trips, one for its groups' promises, and what waits in front of it on its link takes
    /// some time too.
    fn be_patient(&mut self) {
        let farthest = self.paths.iter().map(|path| path.delay.least + path.delay.spread).max().unwrap_or_default();
        self.client.patience = self.client.patience.max(8 * farthest);
    }

    /// All roles keep to these limits.
    fn keep_to(&mut self, limits: Limits) {
        (self.store.limits, self.client.limits, self.redirector.limits) = (limits, limits, limits);
    }

    /// Puts the clients, or most of them, into groups.
    fn gather(&mut self, rng: &mut Rng, broken: Broken) {
        self.clients = rng.pick(&[1, 2, 3, 3, 4, 6, 10]);
        self.groups = vec![Vec::new(); rng.pick(&[1, 1, 2, 3])];
        let outside = rng.pick(&[0, 0, 200]);
        for client in 1..=self.clients {
            if !rng.chance(outside) {
                let group = rng.index(self.groups.len());
                self.groups[group].push(client);
            }
        }
        let (may_be_eligible, have_one) = (rng.pick(&[0, 0, 300, 1000]), rng.pick(&[1000, 700, 0]));
        self.eligible = (1..=self.clients).filter(|_| rng.chance(may_be_eligible)).collect();
        let eligible = |members: &Vec<usize>| members.iter().any(|member| self.eligible.contains(member));
        self.dedicated = self.groups.iter().map(|members| !eligible(members) || rng.chance(have_one)).collect();
        self.named = rng.chance(700) || self.dedicated.contains(&false);
        self.redirector = redirector_config(rng, broken);
        if rng.chance(200) {
            self.redirector.duty = Duty::StandBy;
        }
        if !self.store.leased_spaces.is_empty() && rng.chance(500) {
            let most = i64::from(LEASE_DRIFT_PERMILLE) / 2;
            self.drift = (0..self.processes()).map(|_| rng.pick(&[-most, -most / 2, 0, most / 2, most])).collect();
        }
        self.peers = rng.chance(850);
        self.stray_permille = rng.pick(&[0, 0, 0, 100, 500]);
        self.paths = site_paths(rng, self);
        // A process that is silent for less than its round trip is not dead.
        if self.paths.iter().any(|path| path.delay.least > ms(20)) {
            self.redirector.silence = ms(1500);
        }
        if self.rates.cut.is_some() || self.rates.client_crash.is_some() {
            let mut rate = |permille, choices: &[Duration]| rng.chance(permille).then(|| rng.pick(choices));
            self.rates.redirector_crash = rate(400, &[ms(100), ms(500), ms(2000)]);
            self.rates.sever = rate(400, &[ms(20), ms(200)]);
        }
    }

    /// Whether nothing goes wrong, lines carry whatever there is, nobody is considered dead because a line is long, and
    /// nobody moves from one way to the store to another.
    pub(crate) fn is_untroubled(&self) -> bool {
        let is_fast = |path: &Path| path.bytes_per_second.is_none() && path.delay.least <= ms(20);
        let stay = self.groups.is_empty() && !self.dead_weight;
        stay && self.rates == Rates::default() && self.paths.iter().all(is_fast)
    }

    /// How the store is configured in a life of its process, counted from 0.
    pub(crate) fn store(&self, life: u32) -> store::Config {
        let other = self.other_lives.as_ref().filter(|_| life % 2 == 1);
        other.unwrap_or(&self.store).clone()
    }

    /// How many processes there are.
    pub(crate) fn processes(&self) -> usize {
        1 + self.clients + self.groups.len()
    }

    /// The processes that are redirectors.
    pub(crate) fn redirectors(&self) -> core::ops::Range<usize> {
        1 + self.clients..self.processes()
    }

    pub(crate) fn is_redirector(&self, process: usize) -> bool {
        self.redirectors().contains(&process)
    }

    /// The group that a process belongs to, as its redirector or one of its members.
    pub(crate) fn group_of(&self, process: usize) -> Option<usize> {
        if self.is_redirector(process) {
            return Some(process - self.redirectors().start);
        }
        self.groups.iter().position(|members| members.contains(&process))
    }

    /// The redirector that a client's group has of its own.
    pub(crate) fn redirector_of(&self, client: usize) -> Option<usize> {
        let group = self.group_of(client)?;
        self.dedicated[group].then_some(1 + self.clients + group)
    }

    /// Whether there is such a process: a group without a redirector of its own has a place for it, and nobody there.
    pub(crate) fn exists(&self, process: usize) -> bool {
        !self.is_redirector(process) || self.dedicated[process - self.redirectors().start]
    }

    /// Whether a process hosts a redirector: one of its own, or beside a member that is eligible.
    pub(crate) fn has_redirector(&self, process: usize) -> bool {
        self.is_redirector(process) || self.eligible.contains(&process)
    }

    pub(crate) fn has_client(&self, process: usize) -> bool {
        if process == STORE { self.embedded } else { !self.is_redirector(process) }
    }

    /// The client's number among the machines of a process: it comes behind a store or redirector.
    pub(crate) fn client_role(&self, process: usize) -> RoleId {
        RoleId(u8::from(process == STORE || self.has_redirector(process)))
    }

    /// The time that hearing a message takes of a process.
    pub(crate) fn cost(&self, process: usize) -> Duration {
        match process {
            STORE => self.costs.store,
            _ if self.is_redirector(process) => self.costs.redirector,
            _ => self.costs.client,
        }
    }

    /// A redirector's configuration in this process.
    pub(crate) fn redirector(&self, process: usize) -> redirector::Config {
        redirector::Config {
            group: format!("g{}", self.group_of(process).unwrap_or(0)),
            address: format!("p{process}"),
            store: vec![format!("p{STORE}")],
            duty: if self.is_redirector(process) { self.redirector.duty } else { Duty::Assist },
            ..self.redirector.clone()
        }
    }
}

impl Scenario {
    /// For tasks of front ends: no applications of our own, nothing in the store, clients that live and are remembered,
    /// room on the disk.
    pub(crate) fn for_tasks(rng: &mut Rng, clients: usize) -> Self {
        let mut scenario = Self::draw(rng, Broken::NONE, Day::default());
        (scenario.clients, scenario.threads, scenario.embedded) = (clients, 0, false);
        scenario.other_lives = None;
        scenario.groups.clear();
        scenario.habits.pages = 0;
        let carries = rng.clone().pick(&[None, None, None, Some(1 << 20), Some(200_000)]);
        scenario.paths = paths(rng, clients + 1);
        scenario.paths.iter_mut().for_each(|path| path.bytes_per_second = carries);
        scenario.stays_slow = true;
        scenario.dead_weight = false;
        scenario.disk.log_bytes = 64 << 20;
        scenario.store.mob_bytes_limit = rng.pick(&[4000, 1 << 20]);
        scenario.store.grace = PATIENCE;
        scenario.client.patience = PATIENCE;
        // One who is forgotten may never learn of an outcome, one to whom nothing more is granted may find the store
        // full, and a commit of more pages than may be remembered is refused again and again.
        let Limits { gone_clients, granted_pages, outcome_pages_per_client, .. } = Limits::SHIPPED;
        let drawn = scenario.client.limits;
        scenario.keep_to(Limits { gone_clients, granted_pages, outcome_pages_per_client, ..drawn });
        (scenario.rates.client_crash, scenario.rates.home_full, scenario.rates.restore) = (None, None, None);
        scenario
    }

    /// For experiments: as it is laid out, and nothing drawn that would make a difference.
    pub(crate) fn laid_out(rng: &mut Rng, layout: &Layout) -> Self {
        let scenario = Self::for_tasks(rng, layout.clients);
        let groups = layout.groups.clone();
        let dedicated = vec![true; groups.len()];
        let mut scenario = Self {
            groups,
            redirector: layout.redirector.clone(),
            store: layout.store.clone(),
            client: layout.client.clone(),
            costs: layout.costs,
            dedicated,
            eligible: layout.eligible.clone(),
            named: true,
            drift: Vec::new(),
            peers: true,
            stray_permille: 0,
            pass_permille: 0,
            together_permille: 0,
            rates: Rates::default(),
            ignorance: [Duration::ZERO; 2],
            through_bytes: false,
            ..scenario
        };
        scenario.disk = Profile {
            flush: Delay::exactly(layout.flush),
            read: Delay::exactly(layout.read),
            install: Delay::exactly(layout.flush),
            flush_records_max: usize::MAX,
            log_bytes: 1 << 30,
            segment_records: 16,
        };
        scenario.paths = (0..scenario.processes())
            .map(|process| {
                let in_group = !scenario.is_redirector(process) && scenario.group_of(process).is_some();
                let least = if in_group { layout.distances.near } else { layout.distances.far };
                Path::of(Delay::exactly(least))
            })
            .collect();
        scenario
    }

    /// A short workload without drawn faults, over a MOB and a log that make the disk busy.
    pub(crate) fn short(rng: &mut Rng, broken: Broken) -> Self {
        let mut scenario = Self::draw(rng, broken, Day::default());
        scenario.clients = 2;
        scenario.groups.clear();
        scenario.embedded = false;
        scenario.attempts = 24;
        scenario.dead_weight = false;
        scenario.rates = Rates::default();
        scenario.paths.resize(3, Path::of(path_delay(rng)));
        scenario.store.mob_bytes_limit = 600;
        scenario.habits.large_permille = 0;
        scenario.habits.read_only_permille = 0;
        scenario
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (habits, store, client) = (&self.habits, &self.store, &self.client);
        writeln!(
            f,
            "{} clients{} with {} threads each, {} attempts, {} pages of {} slots, transactions of up to {} steps",
            self.clients,
            if self.embedded { " and an embedded one" } else { "" },
            self.threads,
            self.attempts,
            habits.pages,
            habits.slots,
            habits.steps_max,
        )?;
        writeln!(
            f,
            "caches of {} bytes, prefetch {} in {} bytes at first, {:?} first; recent {}, \
             invalidations after {:?}, MOB {} bytes, log {} bytes",
            client.cache_bytes_limit,
            client.prefetch_pages_max,
            client.first_window_bytes,
            client.first,
            store.recent_limit,
            store.invalidation_delay,
            store.mob_bytes_limit,
            self.disk.log_bytes,
        )?;
        if !self.groups.is_empty() {
            let r = &self.redirector;
            writeln!(
                f,
                "groups {:?} ({:?} with a redirector of their own that is there to {:?}, eligible {:?}){}, \
                 strays {} in 1000; help within {:?}, {} bytes kept, standby cache {} bytes",
                self.groups,
                self.dedicated,
                r.duty,
                self.eligible,
                if self.peers { "" } else { " whose members do not reach each other" },
                self.stray_permille,
                r.help_within,
                r.retained_bytes_limit,
                r.cache_bytes_limit,
            )?;
        }
        let least: Vec<_> = self.paths.iter().skip(1).map(|path| path.delay.least).collect();
        write!(f, "paths of at least {least:?}; {:?}", self.rates)
    }
}
