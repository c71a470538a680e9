//! What one seed's run is like: everything is drawn, rates and mixes included, so that a thousand seeds are a thousand
//! different kinds of bad day (swarm testing).
//!
//! The draws lean towards races: few hot pages, one client on a slow path, caches that hold two pages, a master that
//! remembers hardly any change.

use crate::actor::Habits;
use crate::disk::Profile;
use crate::network::Path;
use crate::rng::{Delay, Rng};
use core::fmt;
use core::time::Duration;
use types::{Broken, NodeId, Time};

/// How often each fault strikes; `None` for never.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) store_crash: Option<Duration>,
    pub(crate) store_close: Option<Duration>,
    pub(crate) client_crash: Option<Duration>,
    pub(crate) cut: Option<Duration>,
    pub(crate) stall: Option<Duration>,
    pub(crate) pause: Option<Duration>,
    pub(crate) slow_disk: Option<Duration>,
    pub(crate) home_full: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Processes: the store's is number 0, the others are clients'.
    pub(crate) clients: usize,
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
    /// Messages between processes pass through bytes.
    pub(crate) through_bytes: bool,
    /// The longest that a process stands still, and that a path is stalled.
    pub(crate) standstill: Duration,
    /// One client stands still for good when the storm is over: it must not hinder the others.
    pub(crate) dead_weight: bool,
    /// The longest that an end can be ignorant of the loss of its connection.
    pub(crate) ignorance: Duration,
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
            rates: rates(rng),
            through_bytes: rng.chance(300),
            standstill: rng.pick(&[ms(30), ms(200), ms(4000)]),
            dead_weight: clients > 1 && rng.chance(200),
            ignorance: rng.pick(&[ms(1), ms(50), ms(3000)]),
            habits,
        };
        if rng.chance(100) {
            scenario.lose_replies(rng);
        }
        scenario
    }

    /// Steers towards commits whose replies are lost while others write the same: connections that break all the time,
    /// everybody at the same few slots, and a cache and a master that remember everything meanwhile.
    fn lose_replies(&mut self, rng: &mut Rng) {
        self.habits = Habits { pages: 1, slots: 2, read_only_permille: 0, write_permille: 700, ..self.habits.clone() };
        (self.habits.steps_max, self.habits.think, self.habits.rest) = (2, us(200), us(200));
        self.store.recent_limit = 4096;
        self.client.cache_bytes_limit = 1 << 20;
        self.ignorance = ms(1);
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

    /// A short workload without drawn faults, over a MOB and a safe that make the disk busy.
    pub(crate) fn short(rng: &mut Rng, broken: Broken) -> Self {
        let mut scenario = Self::draw(rng, broken);
        scenario.clients = 2;
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
        grace: rng.pick(&[ms(100), ms(5000)]),
        broken,
    }
}

fn client_config(rng: &mut Rng, broken: Broken) -> client::Config {
    client::Config {
        cache_bytes_limit: rng.pick(&[0, 400, 800, 1600, 4000, 1 << 20]),
        prefetch_pages_max: rng.pick(&[0, 0, 2, 8]),
        grant_pages: rng.pick(&[1, 4]),
        patience: rng.pick(&[ms(200), ms(5000), ms(60_000)]),
        broken,
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
        let least: Vec<_> = self.paths.iter().skip(1).map(|path| path.delay.least).collect();
        write!(f, "paths of at least {least:?}; {:?}", self.rates)
    }
}
