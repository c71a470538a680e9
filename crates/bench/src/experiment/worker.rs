//! One client of an experiment: its transactions, and where their time goes. The same code runs in virtual time and on
//! real sockets.

use crate::Result;
use node::Hands;
use objects::{Db, Ref};
use std::future::poll_fn;
use std::ops::{Add, Div};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};
use types::Time;
use workloads::Random;
use workloads::oo7::{CompositePart, Module, Traversal, traverse};

/// The time of a worker.
#[derive(Clone)]
pub(crate) enum Clock {
    /// Virtual time, in which computing takes none of itself: a traversal is charged what was measured.
    Virtual { hands: Arc<dyn Hands>, traversal: Duration },
    /// Real time.
    Real(Instant),
}

impl Clock {
    fn now(&self) -> Time {
        match self {
            Self::Virtual { hands, .. } => hands.now(),
            Self::Real(start) => Time::ZERO + start.elapsed(),
        }
    }

    /// What a traversal computes.
    async fn compute(&self) {
        if let Self::Virtual { traversal, .. } = self {
            self.sleep_until(self.now() + *traversal).await;
        }
    }

    /// In virtual time: waits until then.
    pub(crate) async fn sleep_until(&self, time: Time) {
        let Self::Virtual { hands, .. } = self else { return };
        poll_fn(|context| {
            if hands.now() >= time {
                return Poll::Ready(());
            }
            hands.wake_at(time, context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// What a client does: transactions of one traversal of one part each, drawn anew every time.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Transactions before the measured ones.
    pub(crate) warm_up: u32,
    /// Transactions that are measured.
    pub(crate) measured: u32,
    /// The share of them that write.
    pub(crate) writes: f64,
    /// What is drawn.
    pub(crate) seed: u64,
    /// What the client does once it is done.
    pub(crate) afterwards: Afterwards,
}

/// What a client does once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// Nothing.
    Rest,
    /// The same, until all are done: the load stays as it is.
    GoOn,
    /// The same, and nobody waits for it: it is there for the load alone, and not measured.
    IsLoad,
}

/// Where the time of some transactions went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) transactions: u32,
    pub(crate) total: Duration,
    pub(crate) commit: Duration,
    /// Waiting for pages, in all and for those of neighbours.
    pub(crate) fetch: Duration,
    pub(crate) peer: Duration,
    pub(crate) pages: u64,
    pub(crate) pages_from_peers: u64,
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

    /// Pages for each transaction.
    pub(crate) fn pages_each(&self) -> f64 {
        self.pages as f64 / f64::from(self.transactions.max(1))
    }
}

/// A client at work.
pub(crate) struct Worker {
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) module: Ref<Module>,
    pub(crate) parts: Arc<[Ref<CompositePart>]>,
}

impl Worker {
    /// Does what is planned; gives where the time of the measured transactions went. `busy` counts the clients that are
    /// not done.
    pub(crate) async fn run(&self, plan: &Plan, busy: &AtomicUsize) -> Result<Spent> {
        let mut random = Random::new(plan.seed);
        if plan.afterwards == Afterwards::IsLoad {
            self.go_on(plan, busy, &mut random).await?;
            return Ok(Spent::default());
        }
        for _ in 0..plan.warm_up {
            self.transaction(plan, &mut random).await?;
        }
        let (before, start, mut commit) = (self.db.stats(), self.clock.now(), Duration::ZERO);
        for _ in 0..plan.measured {
            commit += self.transaction(plan, &mut random).await?;
        }
        let (stats, total) = (self.db.stats(), self.clock.now() - start);
        busy.fetch_sub(1, SeqCst);
        if plan.afterwards == Afterwards::GoOn {
            self.go_on(plan, busy, &mut random).await?;
        }
        Ok(Spent {
            transactions: plan.measured,
            total,
            commit,
            fetch: stats.fetch_time.saturating_sub(before.fetch_time),
            peer: stats.peer_time.saturating_sub(before.peer_time),
            pages: stats.pages_fetched - before.pages_fetched,
            pages_from_peers: stats.pages_from_peers - before.pages_from_peers,
            aborts: stats.refused + stats.doomed - before.refused - before.doomed,
        })
    }

    /// Goes on until everybody who is waited for is done.
    async fn go_on(&self, plan: &Plan, busy: &AtomicUsize, random: &mut Random) -> Result<()> {
        while busy.load(SeqCst) > 0 {
            self.transaction(plan, random).await?;
        }
        Ok(())
    }

    /// One transaction, tried until it commits. Gives how long it took from the end of each try's body to the next
    /// try, or to the end: the commit, and what a refused one costs.
    async fn transaction(&self, plan: &Plan, random: &mut Random) -> Result<Duration> {
        let part = self.parts[random.below(self.parts.len())];
        let traversal = if random.chance(plan.writes) { Traversal::T2b } else { Traversal::T1 };
        let (asked, spent) = (std::cell::Cell::new(None), std::cell::Cell::new(Duration::ZERO));
        let end_of_commit = || {
            if let Some(asked) = asked.take() {
                spent.set(spent.get() + (self.clock.now() - asked));
            }
        };
        let run = self.db.transact_async(async |mut tx| {
            end_of_commit();
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
