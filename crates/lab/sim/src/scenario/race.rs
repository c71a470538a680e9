//! Steering: scenarios that make one kind of race likely, where freely drawn ones hardly ever come.

use super::draw::{paths, steady};
use super::{Rates, Scenario, ms, us};
use crate::actor::Habits;
use crate::rng::{Delay, Rng};
use core::time::Duration;
use redirector::Duty;
use types::Limits;

/// The coincidence that a scenario is steered towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Race {
    /// Pages of peers that come before the invalidations of what is in them.
    OutrunInvalidations,
    /// Members that have learned of more than the redirector that they come to.
    Wander,
    /// Read-only transactions under leases while others write the same.
    ContestReads,
    /// Commits whose replies are lost while others write the same.
    LoseReplies,
    /// Copies of requests that a store finds which was started again since.
    StartAnew,
    /// Members that come back to a leased group with a read-only transaction to be committed.
    ComeBack,
    /// Copies of one request on two paths to the store, of which one is slow.
    TwoPaths,
    /// Members that bring more than one message names while others commit, and upstream sessions that break.
    ComeInParts,
    /// Leases of redirectors whose store, or session with it, is gone without their knowing.
    OutliveLease,
    /// A store's process that stands still for longer than its own client may be silent.
    StandStill,
    /// Stores that close while grants and commits are on their way to the log, and the disk is full.
    CloseInTheMiddle,
    /// Granted pages whose clients are cut off before they learn of them, or come back after others have filled them.
    LoseGrants,
    /// Redirectors whose machine sleeps for longer than their lease, while nothing reaches them.
    SleepOn,
    /// Stores that are started again with other leases than they gave before.
    GiveLess,
    /// Pages that are emptied and granted again.
    Recycle,
    /// Pages that are let go while they are on their way behind others.
    LetGo,
}

impl Race {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::OutrunInvalidations,
        Self::Wander,
        Self::ContestReads,
        Self::LoseReplies,
        Self::StartAnew,
        Self::ComeBack,
        Self::TwoPaths,
        Self::ComeInParts,
        Self::OutliveLease,
        Self::StandStill,
        Self::CloseInTheMiddle,
        Self::LoseGrants,
        Self::SleepOn,
        Self::GiveLess,
        Self::Recycle,
        Self::LetGo,
    ];

    /// The race's name, as the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutrunInvalidations => "outrun-invalidations",
            Self::Wander => "wander",
            Self::ContestReads => "contest-reads",
            Self::LoseReplies => "lose-replies",
            Self::StartAnew => "start-anew",
            Self::ComeBack => "come-back",
            Self::TwoPaths => "two-paths",
            Self::ComeInParts => "come-in-parts",
            Self::OutliveLease => "outlive-lease",
            Self::StandStill => "stand-still",
            Self::CloseInTheMiddle => "close-in-the-middle",
            Self::LoseGrants => "lose-grants",
            Self::SleepOn => "sleep-on",
            Self::GiveLess => "give-less",
            Self::Recycle => "recycle",
            Self::LetGo => "let-go",
        }
    }

    /// Whether there must be groups for it.
    pub(super) fn is_of_groups(self) -> bool {
        !matches!(self, Self::LoseReplies | Self::StandStill | Self::CloseInTheMiddle | Self::Recycle | Self::LetGo)
    }

    /// Some scenarios are steered towards one of those that are possible.
    pub(super) fn draw(rng: &mut Rng, has_groups: bool) -> Option<Self> {
        let [drawn @ .., Self::Recycle, Self::LetGo] = &Self::ALL else { unreachable!("they are drawn apart") };
        let race = rng.pick(drawn);
        let is_possible = has_groups || !race.is_of_groups();
        (is_possible && rng.chance(500)).then_some(race)
    }
}

impl Scenario {
    pub(super) fn steer(&mut self, race: Race, rng: &mut Rng) {
        match race {
            Race::OutrunInvalidations => self.outrun_invalidations(rng),
            Race::Wander => self.wander(rng),
            Race::ContestReads => self.contest_reads(rng),
            Race::LoseReplies => self.lose_replies(rng),
            Race::StartAnew => self.start_anew(rng),
            Race::ComeBack => self.come_back(rng),
            Race::TwoPaths => self.two_paths(rng),
            Race::ComeInParts => self.come_in_parts(rng),
            Race::OutliveLease => self.outlive_lease(rng),
            Race::StandStill => self.stand_still(rng),
            Race::CloseInTheMiddle => self.close_in_the_middle(rng),
            Race::LoseGrants => self.lose_grants(rng),
            Race::SleepOn => self.sleep_on(rng),
            Race::GiveLess => self.give_less(rng),
            Race::Recycle => self.recycle(rng),
            Race::LetGo => self.let_go(rng),
        }
    }

    /// Steers towards pages of peers that come before the invalidations of what is in them: one member far from its
    /// redirector, near peers that write, and caches that let go of what transactions have just read.
    fn outrun_invalidations(&mut self, rng: &mut Rng) {
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
        (self.client.prefetch_pages_max, self.store.invalidation_delay) = (0, us(0));
        (self.redirector.help_within, self.redirector.cache_bytes_limit) = (rng.pick(&[us(200), ms(2), ms(200)]), 0);
        self.rates = Rates::default();
    }

    /// Steers towards members that have learned of more than the redirector that they come to: they go from it to the
    /// store and back all the time, it is far away, and caches hold next to nothing.
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
        (self.store.leased_spaces, self.store.lease) = (vec![0], ms(2000));
        (self.redirector.cache_bytes_limit, self.store.invalidation_delay) = (0, ms(100));
        self.disk.flush.least = ms(2);
        (self.drift, self.rates) = (Vec::new(), Rates::default());
        if rng.chance(500) {
            // The changes of one commit are told in several messages.
            self.keep_to(Limits { invalidations_per_message: 1, ..Limits::SHIPPED });
        }
        if rng.chance(500) {
            // A member that is cut off continues for as long as it only reads what it has.
            (self.store.lease, self.attempts) = (ms(50), 400);
            (self.standstill, self.rates.stall) = (ms(600), Some(ms(20)));
            (self.habits.read_only_permille, self.habits.rest) = (950, ms(2));
            self.client.cache_bytes_limit = 1 << 20;
        }
    }

    /// Steers towards copies of requests that a store finds which was started again since: it dies all the time, or
    /// closes and refuses what comes while it does; a member whose connection breaks learns of that at once and goes
    /// there itself, its redirector learns of it late, and is so near the store that it is back there before whatever
    /// the member commits next.
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
        (self.client.cache_bytes_limit, self.store.leased_spaces) = (1 << 20, Vec::new());
        self.disk.flush = Delay { least: ms(2), spread: ms(4), spike_permille: 0, spike: us(0) };
        (self.ignorance, self.drift) = ([ms(1), ms(500)], Vec::new());
        let dies = rng.chance(300);
        let (store_crash, store_close) = if dies { (Some(ms(30)), None) } else { (None, Some(ms(30))) };
        self.rates = Rates { store_crash, store_close, cut: Some(ms(2)), ..Rates::default() };
    }

    /// Steers towards members that come back to a leased group with a read-only transaction to be committed, while what
    /// it has read was changed and nobody in the group held it: small groups, whose redirectors hear at once that a
    /// member is gone, and the member late.
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
        (self.store.leased_spaces, self.store.lease, self.store.recent_limit) = (vec![0], ms(2000), 4096);
        (self.ignorance, self.drift) = ([ms(20), ms(1)], Vec::new());
        self.rates = Rates { cut: Some(ms(10)), ..Rates::default() };
    }

    /// Steers towards redirectors that sleep for longer than their lease while nothing reaches them: when they wake,
    /// they have nothing but their clock to tell them so.
    fn sleep_on(&mut self, rng: &mut Rng) {
        self.read_under_leases(rng);
        (self.store.lease, self.standstill) = (ms(50), ms(600));
        (self.rates.stall, self.rates.pause) = (Some(ms(20)), Some(ms(20)));
    }

    /// Steers towards stores that are started again with shorter leases, or none, while redirectors that do not know it
    /// have longer ones of before.
    fn give_less(&mut self, rng: &mut Rng) {
        self.read_under_leases(rng);
        (self.embedded, self.store.lease) = (true, ms(2000));
        let spaces = if rng.chance(500) { vec![0] } else { Vec::new() };
        self.other_lives = Some(store::Config { leased_spaces: spaces, lease: ms(10), ..self.store.clone() });
        (self.ignorance, self.rates.store_crash) = ([ms(3000), ms(1)], Some(ms(1000)));
    }

    /// Two groups read what they have, and a client outside writes the same now and then.
    fn read_under_leases(&mut self, rng: &mut Rng) {
        self.contest_reads(rng);
        (self.attempts, self.rates) = (400, Rates::default());
        (self.habits.read_only_permille, self.habits.rest) = (950, ms(2));
        self.client.cache_bytes_limit = 1 << 20;
    }

    /// Steers towards pages that are emptied and granted again: objects with a page each, created and deleted by
    /// everybody all the time, while some still have such a page from before.
    fn recycle(&mut self, rng: &mut Rng) {
        self.habits = Habits {
            pages: rng.pick(&[1, 2]),
            slots: 2,
            read_only_permille: 100,
            write_permille: rng.pick(&[50, 200]),
            delete_permille: 400,
            create_permille: 350,
            created_permille: 800,
            created_latest: rng.pick(&[1, 4, 16]),
            large_permille: rng.pick(&[100, 700, 1000]),
            large_bytes: 30_000,
            abort_permille: 100,
            ..self.habits.clone()
        };
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        self.client.grant_pages = rng.pick(&[1, 1, 4]);
        // Values too large to be kept for an upstream session that breaks, from many members at once, are a race of
        // another kind.
        self.redirector.retained_bytes_limit = 1 << 20;
        self.store.mob_bytes_limit = rng.pick(&[20_000, 200_000, 1 << 20]);
    }

    /// Steers towards pages that a client lets go while the store sends them behind others: it is far away, has several
    /// threads and next to no cache, and what objects refer to follows them.
    fn let_go(&mut self, rng: &mut Rng) {
        (self.groups, self.threads) = (Vec::new(), 3);
        self.paths = paths(rng, self.processes());
        for path in &mut self.paths {
            path.delay = steady(rng.pick(&[ms(1), ms(5)]));
        }
        self.habits = Habits { pages: 6, slots: 4, steps_max: 8, read_only_permille: 500, ..self.habits.clone() };
        (self.habits.first_page_permille, self.habits.ahead_permille) = (0, 0);
        // A client with less of a cache than four pages of the usual size asks for nothing ahead.
        (self.habits.large_permille, self.habits.large_bytes) = (1000, 5000);
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        (self.client.cache_bytes_limit, self.client.follows) = (rng.pick(&[33_000, 40_000]), true);
        (self.client.prefetch_pages_max, self.rates) = (8, Rates::default());
    }

    /// Steers towards commits whose replies are lost while others write the same: connections that break all the time,
    /// everybody at the same few slots, and a cache and a master that remember everything in the meantime.
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

    /// One group, whose redirector is there to lead it, with these distances of it and of everybody else.
    fn one_group(&mut self, clients: usize, redirector: Duration, others: Duration, rng: &mut Rng) {
        self.clients = self.clients.max(clients);
        self.groups = vec![(1..=self.clients).collect()];
        (self.dedicated, self.eligible, self.redirector.duty) = (vec![true], Vec::new(), Duty::Lead);
        self.paths = paths(rng, self.processes());
        for (process, path) in self.paths.iter_mut().enumerate() {
            path.delay = steady(if process > self.clients { redirector } else { others });
        }
    }

    /// Steers towards copies of one request on two paths: a redirector that is far from the store, members that lose
    /// their session with it and are at the store long before what they have sent is; and a store that refuses what it
    /// has no room to remember, and would take the copy.
    fn two_paths(&mut self, rng: &mut Rng) {
        self.one_group(3, rng.pick(&[ms(5), ms(20)]), us(50), rng);
        (self.stray_permille, self.threads) = (rng.pick(&[300, 800]), 3);
        self.habits = Habits { pages: 4, slots: 6, steps_max: 2, abandon_permille: 100, ..self.habits.clone() };
        (self.habits.read_only_permille, self.habits.write_permille) = (0, 700);
        (self.habits.think, self.habits.rest) = (us(200), ms(2));
        (self.store.leased_spaces, self.store.grace) = (Vec::new(), ms(5000));
        (self.client.cache_bytes_limit, self.client.patience) = (1 << 20, ms(60_000));
        let limits = rng.pick(&[(1, 16), (2, 1), (8, 2)]);
        let (commits_per_session, outcome_pages_per_client) = limits;
        let outcomes_per_client = 2 * commits_per_session;
        self.keep_to(Limits { commits_per_session, outcomes_per_client, outcome_pages_per_client, ..Limits::SHIPPED });
        (self.ignorance, self.drift) = ([ms(1), rng.pick(&[ms(1), ms(50)])], Vec::new());
        self.rates = Rates { cut: Some(ms(5)), ..Rates::default() };
    }

    /// Steers towards members whose pages are compared one by one, by a store that is far away, while the others change
    /// them and the upstream session breaks.
    fn come_in_parts(&mut self, rng: &mut Rng) {
        self.one_group(3, rng.pick(&[ms(2), ms(5)]), us(50), rng);
        self.stray_permille = rng.pick(&[0, 100]);
        self.habits = Habits { pages: 8, slots: 2, read_only_permille: 0, write_permille: 500, ..self.habits.clone() };
        (self.habits.first_page_permille, self.habits.think, self.habits.rest) = (0, us(200), us(200));
        (self.client.cache_bytes_limit, self.redirector.cache_bytes_limit) = (1 << 20, 0);
        self.store.leased_spaces = Vec::new();
        let limits = Limits { pages_per_message: rng.pick(&[1, 2, 3]), ..Limits::SHIPPED };
        self.keep_to(limits);
        (self.ignorance, self.drift) = ([ms(1); 2], Vec::new());
        self.rates = Rates { cut: Some(ms(3)), ..Rates::default() };
    }

    /// Steers towards leases of which only their holders do not know that nobody asks them any more: the store dies, or
    /// takes their session for gone, and others write.
    fn outlive_lease(&mut self, rng: &mut Rng) {
        self.clients = self.clients.max(4);
        // Two write from outside, and hear soon that a connection is lost, or late.
        self.groups = vec![(3..=self.clients).collect()];
        (self.dedicated, self.eligible, self.redirector.duty) = (vec![true], Vec::new(), Duty::Lead);
        (self.stray_permille, self.embedded) = (0, true);
        self.paths = paths(rng, self.processes());
        for path in &mut self.paths {
            path.delay = steady(us(50));
        }
        self.habits = Habits { pages: 2, slots: 2, steps_max: 2, read_only_permille: 800, ..self.habits.clone() };
        (self.habits.write_permille, self.habits.think, self.habits.rest) = (700, us(200), ms(1));
        (self.threads, self.attempts) = (2, 400);
        (self.client.cache_bytes_limit, self.redirector.cache_bytes_limit) = (1 << 20, 0);
        (self.store.leased_spaces, self.store.lease) = (vec![0], ms(2000));
        (self.ignorance, self.drift) = ([ms(1000), ms(1)], Vec::new());
        let (store_crash, cut) = rng.pick(&[(Some(ms(150)), None), (None, Some(ms(40)))]);
        self.rates = Rates { store_crash, cut, ..Rates::default() };
    }

    /// Steers towards a client and a store of one process that take each other for dead, while answers wait for a slow
    /// log.
    fn stand_still(&mut self, rng: &mut Rng) {
        (self.clients, self.groups, self.embedded, self.threads) = (1, Vec::new(), true, 3);
        (self.dead_weight, self.paths) = (false, paths(rng, 2));
        self.habits = Habits { pages: 4, slots: 6, steps_max: 2, read_only_permille: 0, ..self.habits.clone() };
        (self.habits.think, self.habits.rest) = (us(1), us(200));
        (self.habits.write_permille, self.habits.create_permille) = (500, 200);
        self.disk.flush = Delay { least: ms(20), spread: ms(20), spike_permille: 0, spike: us(0) };
        (self.standstill, self.attempts) = (ms(6000), 400);
        self.rates = Rates { pause: Some(ms(200)), ..Rates::default() };
    }

    /// Steers towards stores that are told to close while what they have appended is not durable, and that have nowhere
    /// to write back to.
    fn close_in_the_middle(&mut self, rng: &mut Rng) {
        self.habits =
            Habits { read_only_permille: 0, write_permille: 200, create_permille: 600, ..self.habits.clone() };
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        (self.client.grant_pages, self.store.mob_bytes_limit) = (1, 200);
        let limits = Limits { grant_pages: 1, ..self.client.limits };
        self.keep_to(limits);
        self.disk.flush = Delay { least: rng.pick(&[ms(2), ms(5)]), spread: ms(5), spike_permille: 0, spike: us(0) };
        self.rates = Rates { store_close: Some(ms(30)), home_full: Some(ms(20)), ..Rates::default() };
    }

    /// Steers towards granted pages that change hands: everybody creates, is cut off all the time, and is forgotten
    /// soon.
    fn lose_grants(&mut self, rng: &mut Rng) {
        self.one_group(3, us(500), us(50), rng);
        self.stray_permille = rng.pick(&[0, 300]);
        self.habits = Habits { pages: 1, slots: 2, steps_max: 3, read_only_permille: 0, ..self.habits.clone() };
        (self.habits.write_permille, self.habits.delete_permille, self.habits.create_permille) = (200, 0, 600);
        (self.habits.think, self.habits.rest) = (us(200), us(200));
        (self.habits.large_permille, self.habits.large_bytes) = (rng.pick(&[0, 300]), 4000);
        (self.client.cache_bytes_limit, self.client.grant_pages) = (rng.pick(&[0, 800, 1 << 20]), rng.pick(&[1, 4]));
        (self.store.grace, self.drift) = (ms(20), Vec::new());
        self.ignorance = [rng.pick(&[ms(1), ms(100)]), ms(1)];
        self.rates = Rates { cut: Some(ms(3)), client_crash: Some(ms(100)), ..Rates::default() };
    }
}
