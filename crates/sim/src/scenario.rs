//! What one seed's run is like: everything is drawn, rates and mixes included, so that a thousand seeds are a thousand
//! different kinds of bad day (swarm testing).
//!
//! The draws lean towards races: few hot pages, one client on a slow path, caches that hold two pages, a master that
//! remembers hardly any change.

use crate::actor::Habits;
use crate::disk::Profile;
use crate::layout::{Costs, Layout};
use crate::network::Path;
use crate::process::STORE;
use crate::rng::{Delay, Rng};
use core::fmt;
use core::time::Duration;
use redirector::Duty;
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, NodeId, Time};

/// How often each fault strikes; `None` for never.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) store_crash: Option<Duration>,
    pub(crate) store_close: Option<Duration>,
    pub(crate) client_crash: Option<Duration>,
    pub(crate) redirector_crash: Option<Duration>,
    pub(crate) sever: Option<Duration>,
    pub(crate) cut: Option<Duration>,
    pub(crate) stall: Option<Duration>,
    pub(crate) pause: Option<Duration>,
    pub(crate) slow_disk: Option<Duration>,
    pub(crate) home_full: Option<Duration>,
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
    /// Members take connections of their neighbours.
    pub(crate) peers: bool,
    /// How often a member that connects tries the store instead of its redirector.
    pub(crate) stray_permille: u32,
    /// What hearing a message takes of a process.
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
    pub(crate) client: client::Config,
    pub(crate) rates: Rates,
    /// By how much each process's clock is fast, in thousandths: within what leases allow for.
    pub(crate) drift: Vec<i64>,
    /// Messages between processes pass through bytes.
    pub(crate) through_bytes: bool,
    /// The longest that a process stands still, and that a path is stalled.
    pub(crate) standstill: Duration,
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
    /// Draws the scenario of a seed; `broken` is the rule that is taken out.
    pub(crate) fn draw(rng: &mut Rng, broken: Broken) -> Self {
        let clients = rng.pick(&[1, 2, 2, 3, 3, 4, 6]);
        let habits = habits(rng);
        let mut scenario = Self {
            clients,
            embedded: rng.chance(250),
            threads: rng.pick(&[1, 1, 2, 3]),
            attempts: rng.pick(&[40, 100, 100, 200]),
            paths: paths(rng, clients + 1),
            disk: disk(rng),
            store: store_config(rng, broken),
            client: client_config(rng, broken),
            groups: Vec::new(),
            dedicated: Vec::new(),
            eligible: Vec::new(),
            named: false,
            redirector: redirector::Config::default(),
            peers: true,
            costs: Costs::default(),
            stray_permille: 0,
            drift: Vec::new(),
            rates: rates(rng),
            through_bytes: rng.chance(300),
            standstill: rng.pick(&[ms(30), ms(200), ms(4000)]),
            dead_weight: clients > 1 && rng.chance(200),
            ignorance: [rng.pick(&[ms(1), ms(50), ms(3000)]); 2],
            habits,
        };
        if rng.chance(600) {
            scenario.gather(rng, broken);
        }
        if !scenario.groups.is_empty() && rng.chance(400) {
            match rng.index(3) {
                0 => scenario.outrun_notices(rng),
                1 => scenario.wander(rng),
                _ => scenario.contest_reads(rng),
            }
        }
        if rng.chance(100) {
            scenario.lose_replies(rng);
        }
        // Drawn aside: what follows is what it would be without.
        let mut aside = rng.clone();
        if aside.chance(200) {
            scenario.redirector.duty = Duty::StandBy;
        }
        if !scenario.groups.is_empty() && aside.chance(100) {
            scenario.start_anew(&mut aside);
        } else if !scenario.groups.is_empty() && aside.chance(70) {
            scenario.come_back(&mut aside);
        } else if aside.chance(80) {
            scenario.ignorance = [aside.pick(&[ms(1), ms(50), ms(3000)]), aside.pick(&[ms(1), ms(50), ms(3000)])];
        }
        scenario
    }

    /// Steers towards pages of neighbours that come before the notices of what is in them: one member far from its
    /// redirector, near neighbours that write, and caches that let go of what transactions have just read.
    fn outrun_notices(&mut self, rng: &mut Rng) {
        self.clients = self.clients.max(3);
        self.groups = vec![(1..=self.clients).collect()];
        (self.dedicated, self.eligible, self.peers, self.stray_permille) = (vec![true], Vec::new(), true, 0);
        self.paths = paths(rng, self.processes());
        for (process, path) in self.paths.iter_mut().enumerate() {
            let least = if process == 1 { rng.pick(&[ms(2), ms(5)]) } else { us(50) };
            path.delay = steady(least);
        }
        self.habits = Habits { pages: 3, slots: 2, steps_max: 8, first_page_permille: 0, ..self.habits.clone() };
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        self.client.cache_bytes_limit = rng.pick(&[400, 800, 1600]);
        (self.client.prefetch_pages_max, self.store.notice_delay) = (0, us(0));
        (self.redirector.help_within, self.redirector.cache_bytes_limit) = (rng.pick(&[us(200), ms(2), ms(200)]), 0);
        self.rates = Rates::default();
    }

    /// Steers towards members that have heard of more than the redirector that they come to: they go from it to the store
    /// and back all the time, it is far away, and caches hold next to nothing.
    fn wander(&mut self, rng: &mut Rng) {
        self.clients = self.clients.max(3);
        self.groups = vec![(1..=self.clients).collect()];
        (self.dedicated, self.eligible, self.stray_permille) = (vec![true], Vec::new(), 500);
        self.paths = paths(rng, self.processes());
        for (process, path) in self.paths.iter_mut().enumerate() {
            let least = if process > self.clients { ms(20) } else { us(50) };
            path.delay = steady(least);
        }
        self.habits = Habits { pages: 3, slots: 2, steps_max: 2, ..self.habits.clone() };
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        self.client.cache_bytes_limit = rng.pick(&[0, 0, 400]);
        self.ignorance = [ms(1); 2];
        self.rates = Rates { cut: Some(ms(5)), ..Rates::default() };
    }

    /// Steers towards read-only transactions under leases while others write the same: two groups, one of them far away
    /// or cut off for longer than its lease lasts, caches that fetch all the time, and a slow log.
    fn contest_reads(&mut self, rng: &mut Rng) {
        self.clients = self.clients.max(4);
        // The first is in none, and writes with a round trip less; the second is alone in its group, and asks seldom.
        self.groups = vec![vec![2], (3..=self.clients).collect()];
        (self.dedicated, self.eligible, self.stray_permille) = (vec![true; 2], Vec::new(), 0);
        self.paths = paths(rng, self.processes());
        let farthest = self.redirectors().end - 1;
        for (process, path) in self.paths.iter_mut().enumerate() {
            let least = if process == farthest { rng.pick(&[ms(5), ms(20)]) } else { us(50) };
            path.delay = steady(least);
        }
        self.habits = Habits { pages: 2, slots: 2, steps_max: 4, read_only_permille: 500, ..self.habits.clone() };
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        self.client.cache_bytes_limit = rng.pick(&[400, 800, 1 << 20]);
        (self.store.leased_volumes, self.store.lease) = (vec![0], ms(2000));
        (self.redirector.cache_bytes_limit, self.store.notice_delay) = (0, ms(100));
        self.disk.flush.least = ms(2);
        (self.drift, self.rates) = (Vec::new(), Rates::default());
        if rng.chance(500) {
            // Whoever is cut off goes on for as long as it only reads what it has.
            (self.store.lease, self.attempts) = (ms(50), 400);
            (self.standstill, self.rates.stall) = (ms(600), Some(ms(20)));
            (self.habits.read_only_permille, self.habits.rest) = (950, ms(2));
            self.client.cache_bytes_limit = 1 << 20;
        }
    }

    /// Steers towards copies of requests that a store finds which was started anew since: it dies all the time, or
    /// closes and refuses what comes while it does; a member whose connection breaks hears of that at once and goes there
    /// itself, its redirector hears of it late, and is so near the store that it is back there before whatever the member
    /// commits next.
    fn start_anew(&mut self, rng: &mut Rng) {
        self.clients = self.clients.max(3);
        self.groups = vec![(1..=self.clients).collect()];
        (self.dedicated, self.eligible, self.stray_permille) = (vec![true], Vec::new(), 300);
        self.redirector.duty = Duty::Lead;
        self.paths = paths(rng, self.processes());
        for (process, path) in self.paths.iter_mut().enumerate() {
            let least = if process > self.clients { us(50) } else { ms(2) };
            path.delay = steady(least);
        }
        self.habits = Habits { pages: 1, slots: 2, read_only_permille: 0, write_permille: 700, ..self.habits.clone() };
        (self.habits.steps_max, self.habits.think, self.habits.rest) = (2, us(200), ms(5));
        (self.client.cache_bytes_limit, self.store.leased_volumes) = (1 << 20, Vec::new());
        self.disk.flush = Delay { least: ms(2), spread: ms(4), spike_permille: 0, spike: us(0) };
        (self.ignorance, self.drift) = ([ms(1), ms(500)], Vec::new());
        let dies = rng.chance(300);
        let (store_crash, store_close) = if dies { (Some(ms(30)), None) } else { (None, Some(ms(30))) };
        self.rates = Rates { store_crash, store_close, cut: Some(ms(2)), ..Rates::default() };
    }

    /// Steers towards members that come back to a leased group with a read-only transaction to be committed, while what it
    /// has read was changed and nobody in the group held it: small groups, whose redirectors hear at once that a member is
    /// gone, and the member late.
    fn come_back(&mut self, rng: &mut Rng) {
        self.clients = self.clients.max(3);
        let members: Vec<usize> = (2..=self.clients).collect();
        self.groups = members.chunks(rng.pick(&[1, 1, 2])).map(<[usize]>::to_vec).collect();
        (self.dedicated, self.eligible, self.stray_permille) = (vec![true; self.groups.len()], Vec::new(), 0);
        self.redirector.duty = Duty::Lead;
        self.paths = paths(rng, self.processes());
        for path in &mut self.paths {
            path.delay = steady(us(50));
        }
        self.habits = Habits { pages: 2, slots: 2, steps_max: 2, read_only_permille: 600, ..self.habits.clone() };
        (self.habits.think, self.habits.rest, self.threads) = (us(200), ms(5), 3);
        (self.client.cache_bytes_limit, self.redirector.cache_bytes_limit) = (1 << 20, rng.pick(&[0, 0, 400]));
        (self.store.leased_volumes, self.store.lease, self.store.recent_limit) = (vec![0], ms(2000), 4096);
        (self.ignorance, self.drift) = ([ms(20), ms(1)], Vec::new());
        self.rates = Rates { cut: Some(ms(10)), ..Rates::default() };
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
        if !self.store.leased_volumes.is_empty() && rng.chance(500) {
            let most = i64::from(LEASE_DRIFT_PERMILLE) / 2;
            self.drift = (0..self.processes()).map(|_| rng.pick(&[-most, -most / 2, 0, most / 2, most])).collect();
        }
        self.peers = rng.chance(850);
        self.stray_permille = rng.pick(&[0, 0, 0, 100, 500]);
        self.paths = site_paths(rng, self);
        // Who is silent for less than its round trip is not dead.
        if self.paths.iter().any(|path| path.delay.least > ms(20)) {
            self.redirector.silence = ms(1500);
        }
        if self.rates.cut.is_some() || self.rates.client_crash.is_some() {
            let mut rate = |permille, choices: &[Duration]| rng.chance(permille).then(|| rng.pick(choices));
            self.rates.redirector_crash = rate(400, &[ms(100), ms(500), ms(2000)]);
            self.rates.sever = rate(400, &[ms(20), ms(200)]);
        }
    }

    /// What a process's clock shows at a time.
    pub(crate) fn clock(&self, process: usize, time: Time) -> Time {
        let fast = i128::from(self.drift.get(process).copied().unwrap_or(0));
        Time((i128::from(time.0) * (1000 + fast) / 1000) as u64)
    }

    /// The first time at which a process's clock shows `shown`.
    pub(crate) fn time_at(&self, process: usize, shown: Time) -> Time {
        let fast = i128::from(self.drift.get(process).copied().unwrap_or(0));
        let time = (i128::from(shown.0) * 1000).div_euclid(1000 + fast) + i128::from(fast != 0);
        Time(u64::try_from(time).unwrap_or(u64::MAX))
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

    /// Steers towards commits whose replies are lost while others write the same: connections that break all the time,
    /// everybody at the same few slots, and a cache and a master that remember everything meanwhile.
    fn lose_replies(&mut self, rng: &mut Rng) {
        self.habits = Habits { pages: 1, slots: 2, read_only_permille: 0, write_permille: 700, ..self.habits.clone() };
        (self.habits.steps_max, self.habits.think, self.habits.rest) = (2, us(200), us(200));
        self.store.recent_limit = 4096;
        self.client.cache_bytes_limit = 1 << 20;
        self.ignorance = [ms(1); 2];
        self.rates = Rates { cut: Some(rng.pick(&[ms(1), ms(5)])), ..Rates::default() };
        for path in &mut self.paths {
            path.delay.least = path.delay.least.min(us(500));
        }
    }
}

impl Scenario {
    /// For tasks of front doors: no applications of our own, nothing in the store, clients that live and are remembered,
    /// room on the disk.
    pub(crate) fn for_tasks(rng: &mut Rng, clients: usize) -> Self {
        let mut scenario = Self::draw(rng, Broken::NONE);
        (scenario.clients, scenario.threads, scenario.embedded) = (clients, 0, false);
        scenario.groups.clear();
        scenario.habits.pages = 0;
        scenario.paths = paths(rng, clients + 1);
        scenario.dead_weight = false;
        scenario.disk.safe_bytes = 64 << 20;
        scenario.store.mob_bytes_limit = rng.pick(&[4000, 1 << 20]);
        scenario.store.grace = PATIENCE;
        scenario.client.patience = PATIENCE;
        (scenario.rates.client_crash, scenario.rates.home_full) = (None, None);
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
            safe_bytes: 1 << 30,
            segment_records: 16,
        };
        scenario.paths = (0..scenario.processes())
            .map(|process| {
                let in_group = !scenario.is_redirector(process) && scenario.group_of(process).is_some();
                let least = if in_group { layout.distances.near } else { layout.distances.far };
                Path { delay: Delay::exactly(least), stalled_until: Time::ZERO }
            })
            .collect();
        scenario
    }

    /// A short workload without drawn faults, over a MOB and a safe that make the disk busy.
    pub(crate) fn short(rng: &mut Rng, broken: Broken) -> Self {
        let mut scenario = Self::draw(rng, broken);
        scenario.clients = 2;
        scenario.groups.clear();
        scenario.embedded = false;
        scenario.attempts = 24;
        scenario.dead_weight = false;
        scenario.rates = Rates::default();
        scenario.paths.resize(3, Path { delay: path_delay(rng), stalled_until: Time::ZERO });
        scenario.store.mob_bytes_limit = 600;
        scenario.habits.large_permille = 0;
        scenario.habits.read_only_permille = 0;
        scenario
    }
}

fn habits(rng: &mut Rng) -> Habits {
    Habits {
        pages: rng.pick(&[1, 2, 3, 4, 8]),
        slots: rng.pick(&[1, 2, 3, 6]),
        first_page_permille: rng.pick(&[0, 300, 700]),
        steps_max: rng.pick(&[2, 4, 8]),
        read_only_permille: rng.pick(&[0, 200, 500]),
        write_permille: rng.pick(&[200, 400, 700]),
        delete_permille: rng.pick(&[0, 50, 150]),
        create_permille: rng.pick(&[0, 50, 200]),
        abort_permille: rng.pick(&[20, 200]),
        ahead_permille: rng.pick(&[0, 0, 300, 1000]),
        abandon_permille: rng.pick(&[0, 0, 50]),
        large_permille: rng.pick(&[0, 0, 0, 0, 20, 20, 100, 600]),
        large_bytes: rng.pick(&[600, 4000, 30_000]),
        think: rng.pick(&[us(1), us(200), ms(2), ms(20)]),
        rest: rng.pick(&[us(1), ms(1), ms(10)]),
    }
}

fn paths(rng: &mut Rng, processes: usize) -> Vec<Path> {
    let usual = path_delay(rng);
    let slow = rng.chance(400).then(|| 1 + rng.index(processes - 1));
    (0..processes)
        .map(|process| {
            let mut delay = if rng.chance(200) { path_delay(rng) } else { usual };
            if slow == Some(process) {
                delay.least *= 8;
                delay.spread *= 8;
            }
            Path { delay, stalled_until: Time::ZERO }
        })
        .collect()
}

/// Members live near each other and their redirector, which lives far from the store. Now and then one of them does not.
fn site_paths(rng: &mut Rng, scenario: &Scenario) -> Vec<Path> {
    let mut paths = paths(rng, scenario.processes());
    for client in scenario.groups.iter().flatten() {
        if !rng.chance(150) {
            let least = rng.pick(&[us(20), us(50), us(500)]);
            let delay = &mut paths[*client].delay;
            (delay.least, delay.spread) = (least, least * rng.pick(&[0, 1, 4]));
        }
    }
    paths
}

/// A path that takes hardly more than `least`, and never stalls.
fn steady(least: Duration) -> Delay {
    Delay { least, spread: us(20), spike_permille: 0, spike: us(0) }
}

fn path_delay(rng: &mut Rng) -> Delay {
    let least = rng.pick(&[us(20), us(500), ms(5), ms(20)]);
    Delay {
        least,
        spread: least * rng.pick(&[0, 1, 4]),
        spike_permille: rng.pick(&[0, 10, 100]),
        spike: rng.pick(&[ms(1), ms(30), ms(200)]),
    }
}

fn disk_delay(rng: &mut Rng) -> Delay {
    let least = rng.pick(&[us(10), us(100), ms(2)]);
    Delay {
        least,
        spread: least * rng.pick(&[0, 2]),
        spike_permille: rng.pick(&[0, 20]),
        spike: rng.pick(&[ms(5), ms(50)]),
    }
}

fn disk(rng: &mut Rng) -> Profile {
    Profile {
        flush: disk_delay(rng),
        read: disk_delay(rng),
        install: disk_delay(rng),
        flush_records_max: rng.pick(&[1, 4, usize::MAX]),
        safe_bytes: rng.pick(&[256 << 10, 1 << 20, 64 << 20]),
        segment_records: rng.pick(&[1, 4, 16]),
    }
}

fn store_config(rng: &mut Rng, broken: Broken) -> store::Config {
    store::Config {
        node: NodeId(0),
        mob_bytes_limit: rng.pick(&[200, 2000, 1 << 20]),
        cache_bytes_limit: rng.pick(&[0, 1000, 1 << 20]),
        recent_limit: rng.pick(&[1, 2, 4, 16, 4096]),
        notice_delay: rng.pick(&[us(0), ms(1), ms(5), ms(100)]),
        silence: ms(1500),
        leased_volumes: if rng.chance(400) { vec![0] } else { Vec::new() },
        lease: rng.pick(&[ms(50), ms(300), ms(2000)]),
        grace: rng.pick(&[ms(100), ms(5000)]),
        broken,
    }
}

fn client_config(rng: &mut Rng, broken: Broken) -> client::Config {
    client::Config {
        cache_bytes_limit: rng.pick(&[0, 400, 800, 1600, 4000, 1 << 20]),
        prefetch_pages_max: rng.pick(&[0, 0, 2, 8]),
        reads_ahead: true,
        grant_pages: rng.pick(&[1, 4]),
        patience: rng.pick(&[ms(200), ms(5000), ms(60_000)]),
        group: None,
        broken,
    }
}

fn redirector_config(rng: &mut Rng, broken: Broken) -> redirector::Config {
    redirector::Config {
        silence: rng.pick(&[ms(300), ms(1500)]),
        help_within: rng.pick(&[us(200), ms(2), ms(10), ms(200)]),
        retained_bytes_limit: rng.pick(&[0, 200, 1 << 20, 1 << 20]),
        cache_bytes_limit: rng.pick(&[0, 0, 0, 800, 1 << 20]),
        broken,
        ..redirector::Config::default()
    }
}

fn rates(rng: &mut Rng) -> Rates {
    // A third of all seeds run without any fault: races need none, and are easier to read without.
    if rng.chance(333) {
        return Rates::default();
    }
    let mut rate = |permille, choices: &[Duration]| rng.chance(permille).then(|| rng.pick(choices));
    Rates {
        store_crash: rate(400, &[ms(60), ms(200), ms(1000)]),
        store_close: rate(100, &[ms(200), ms(1000)]),
        client_crash: rate(250, &[ms(100), ms(500)]),
        cut: rate(500, &[ms(10), ms(60), ms(400)]),
        stall: rate(300, &[ms(20), ms(200)]),
        pause: rate(300, &[ms(20), ms(200)]),
        slow_disk: rate(200, &[ms(100), ms(500)]),
        home_full: rate(200, &[ms(50), ms(300)]),
        redirector_crash: None,
        sever: None,
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
            "caches of {} bytes, prefetch {}; recent {}, notices after {:?}, MOB {} bytes, safe {} bytes",
            client.cache_bytes_limit,
            client.prefetch_pages_max,
            store.recent_limit,
            store.notice_delay,
            store.mob_bytes_limit,
            self.disk.safe_bytes,
        )?;
        if !self.groups.is_empty() {
            let r = &self.redirector;
            writeln!(
                f,
                "groups {:?} ({:?} with a redirector of their own that is there to {:?}, eligible {:?}){}, strays {} in 1000; help within {:?}, {} bytes kept, stand-by cache {} bytes",
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
