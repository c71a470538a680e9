//! One client of an experiment: its transactions, and where their time goes. The same code runs in virtual time and on
//! real sockets.

use crate::Result;
use machine::Driver;
use objects::{Db, Ref, Stats};
use std::cell::Cell;
use std::future::poll_fn;
use std::ops::{Add, Div};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use types::Time;
use workloads::Random;
use workloads::oo7::{Module, Traversal, traverse};

/// Longer than any experiment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1 << 20);

/// The time of a worker.
#[derive(Clone)]
pub(crate) enum Clock {
    /// Virtual time, in which computing takes none of itself: a traversal is charged what was measured.
    Virtual { driver: Arc<dyn Driver>, traversal: Duration },
    /// Real time.
    Real(Instant),
}

impl Clock {
    fn now(&self) -> Time {
        match self {
            Self::Virtual { driver, .. } => driver.now(),
            Self::Real(start) => Time::ZERO + start.elapsed(),
        }
    }

    /// The computation of a traversal.
    async fn compute(&self) {
        if let Self::Virtual { traversal, .. } = self {
            self.sleep_until(self.now() + *traversal).await;
        }
    }

    /// Waits for a moment.
    async fn rest(&self) {
        const MOMENT: Duration = Duration::from_millis(10);
        match self {
            Self::Virtual { driver, .. } => self.sleep_until(driver.now() + MOMENT).await,
            // Each client has a thread of its own.
            Self::Real(_) => thread::sleep(MOMENT),
        }
    }

    /// In virtual time: waits until then.
    pub(crate) async fn sleep_until(&self, time: Time) {
        let Self::Virtual { driver, .. } = self else { return };
        poll_fn(|context| {
            if driver.now() >= time {
                return Poll::Ready(());
            }
            driver.wake_at(time, context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// The work of a client: transactions that walk down the assemblies, drawn again every time, and traverse the part
/// there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Transactions before the measured ones.
    pub(crate) warm_up: u32,
    /// Transactions that are measured.
    pub(crate) measured: u32,
    /// The share of them that write.
    pub(crate) writes: f64,
    /// The seed of everything that is drawn.
    pub(crate) seed: u64,
    /// The client's behaviour once it is done.
    pub(crate) afterwards: Afterwards,
}

/// The behaviour of a client once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// Nothing.
    Rest,
    /// The same, until all are done: the load stays as it is.
    GoOn,
    /// The same, and no request waits for it: it is there for the load, and measured for as long as the others are.
    IsLoad,
}

/// How far the clients of a run are. Those who are load warm their caches first: a client that still fetches the module
/// for the first time is no load. Then the others warm theirs, and then they are measured.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Clients that are load and have not warmed their caches.
    loading: AtomicUsize,
    /// Clients that are waited for and have not warmed theirs, and those that are not done.
    warming: AtomicUsize,
    busy: AtomicUsize,
    /// For how long those that are measured continue at most, from when their caches are warm.
    within: Option<Duration>,
}

impl Crowd {
    pub(crate) fn of(plans: &[Plan]) -> Self {
        let load = plans.iter().filter(|plan| plan.afterwards == Afterwards::IsLoad).count();
        let others = || AtomicUsize::new(plans.len() - load);
        Self { loading: AtomicUsize::new(load), warming: others(), busy: others(), within: None }
    }

    /// The same, measured for this long at most.
    pub(crate) fn within(self, within: Option<Duration>) -> Self {
        Self { within, ..self }
    }

    fn is_loading(&self) -> bool {
        self.loading.load(SeqCst) > 0
    }

    fn is_warming(&self) -> bool {
        self.warming.load(SeqCst) > 0
    }

    fn is_late(&self, begun: Instant) -> bool {
        self.within.is_some_and(|within| begun.elapsed() >= within)
    }

    fn is_busy(&self) -> bool {
        self.busy.load(SeqCst) > 0
    }
}

/// Where the time of some transactions went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) transactions: u32,
    pub(crate) total: Duration,
    pub(crate) commit: Duration,
    /// Waiting for pages, in all and for those of peers.
    pub(crate) fetch: Duration,
    pub(crate) peer: Duration,
    pub(crate) pages: u64,
    pub(crate) pages_from_peers: u64,
    /// Of the pages those of which objects had changed.
    pub(crate) pages_renewed: u64,
    /// Objects that were read.
    pub(crate) objects: u64,
    /// Tries that others were faster than.
    pub(crate) aborts: u64,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            transactions: self.transactions + other.transactions,
            total: self.total + other.total,
            commit: self.commit + other.commit,
            fetch: self.fetch + other.fetch,
            peer: self.peer + other.peer,
            pages: self.pages + other.pages,
            pages_from_peers: self.pages_from_peers + other.pages_from_peers,
            pages_renewed: self.pages_renewed + other.pages_renewed,
            objects: self.objects + other.objects,
            aborts: self.aborts + other.aborts,
        }
    }
}

/// Milliseconds of one transaction, as the paper's bars are stacked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Breakdown {
    pub(crate) cpu: f64,
    pub(crate) commit: f64,
    pub(crate) server_fetch: f64,
    pub(crate) peer_fetch: f64,
}

impl Breakdown {
    pub(crate) fn total(&self) -> f64 {
        self.kinds().iter().sum()
    }

    /// From the bottom of a bar to its top.
    pub(crate) fn kinds(&self) -> [f64; 4] {
        [self.cpu, self.commit, self.server_fetch, self.peer_fetch]
    }
}

impl Spent {
    /// How much of it each transaction took, in the mean.
    pub(crate) fn breakdown(&self) -> Breakdown {
        let each = |time: Duration| (time.as_secs_f64() * 1e3).div(f64::from(self.transactions.max(1)));
        Breakdown {
            cpu: each(self.total.saturating_sub(self.commit + self.fetch)),
            commit: each(self.commit),
            server_fetch: each(self.fetch.saturating_sub(self.peer)),
            peer_fetch: each(self.peer),
        }
    }

    /// The pages that each transaction read, in the mean.
    pub(crate) fn reads(&self) -> Reads {
        let each = |count: u64| count as f64 / f64::from(self.transactions.max(1));
        Reads { objects: each(self.objects), pages: each(self.pages), renewed: each(self.pages_renewed) }
    }
}

/// The pages that a transaction reads, in the mean: without it a saving says little.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reads {
    pub(crate) objects: f64,
    /// Pages that it fetches, for any reason.
    pub(crate) pages: f64,
    /// Of them pages of which objects had changed: misses by invalidation.
    pub(crate) renewed: f64,
}

/// A client at work.
pub(crate) struct Worker {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) module: Ref<Module>,
    /// On so many levels of assemblies it takes the first way down.
    pub(crate) levels_fixed: u32,
}

/// The counts of a client when its measured transactions began.
struct Begun {
    stats: Stats,
    at: Time,
}

impl Worker {
    /// Does what is planned, beside a crowd; gives where the time of the measured transactions went.
    pub(crate) async fn run(&self, plan: &Plan, crowd: &Crowd) -> Result<Spent> {
        let mut random = Random::new(plan.seed);
        if plan.afterwards == Afterwards::IsLoad {
            for _ in 0..plan.warm_up {
                self.transaction(plan, &mut random).await?;
            }
            crowd.loading.fetch_sub(1, SeqCst);
            while crowd.is_warming() {
                self.transaction(plan, &mut random).await?;
            }
            let (begun, mut commit, mut transactions) = (self.begin(), Duration::ZERO, 0);
            while crowd.is_busy() {
                commit += self.transaction(plan, &mut random).await?;
                transactions += 1;
            }
            return Ok(self.spent(&begun, transactions, commit));
        }
        while crowd.is_loading() {
            self.clock.rest().await;
        }
        for _ in 0..plan.warm_up {
            self.transaction(plan, &mut random).await?;
        }
        crowd.warming.fetch_sub(1, SeqCst);
        let (begun, mut commit, mut measured) = (self.begin(), Duration::ZERO, 0);
        let now = Instant::now();
        while measured < plan.measured && (measured == 0 || !crowd.is_late(now)) {
            commit += self.transaction(plan, &mut random).await?;
            measured += 1;
        }
        let spent = self.spent(&begun, measured, commit);
        crowd.busy.fetch_sub(1, SeqCst);
        while plan.afterwards == Afterwards::GoOn && crowd.is_busy() {
            self.transaction(plan, &mut random).await?;
        }
        Ok(spent)
    }

    fn begin(&self) -> Begun {
        Begun { stats: self.db.stats(), at: self.clock.now() }
    }

    fn spent(&self, begun: &Begun, transactions: u32, commit: Duration) -> Spent {
        let (stats, before) = (self.db.stats(), &begun.stats);
        Spent {
            transactions,
            total: self.clock.now() - begun.at,
            commit,
            fetch: stats.fetch_time.saturating_sub(before.fetch_time),
            peer: stats.peer_time.saturating_sub(before.peer_time),
            pages: stats.pages_fetched - before.pages_fetched,
            pages_from_peers: stats.pages_from_peers - before.pages_from_peers,
            pages_renewed: stats.pages_renewed - before.pages_renewed,
            objects: stats.hits - before.hits,
            aborts: stats.refused + stats.doomed - before.refused - before.doomed,
        }
    }

    /// One transaction, tried until it commits. Returns how long it took from the end of each try's body to the next
    /// try, or to the end: the commit, and what a refused one costs.
    async fn transaction(&self, plan: &Plan, random: &mut Random) -> Result<Duration> {
        // A try that is refused goes the same way again.
        let way = random.bits();
        let traversal = if random.chance(plan.writes) { Traversal::T2b } else { Traversal::T1 };
        let (asked, spent) = (Cell::new(None), Cell::new(Duration::ZERO));
        let end_of_commit = || {
            if let Some(asked) = asked.take() {
                spent.set(spent.get() + (self.clock.now() - asked));
            }
        };
        let run = self.db.transact_async(async |mut tx| {
            end_of_commit();
            let way = &mut Random::new(way);
            let part = Module::pick_below(&mut tx, self.module, self.levels_fixed, way).await?;
            traverse(&mut tx, self.module, part, traversal).await?;
            self.clock.compute().await;
            asked.set(Some(self.clock.now()));
            Ok(())
        });
        run.await?;
        end_of_commit();
        Ok(spent.get())
    }
}
