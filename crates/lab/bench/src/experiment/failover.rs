//! How long a group does without its redirector, in virtual time: when each member has a session again, and when the
//! first transaction that it begins afterwards is committed.
//!
//! The target is at most three heartbeats and two round trips to the store; no heartbeats where a redirector's process
//! dies and members do without it, as its end is seen at once. A transaction takes a round trip of its own for its
//! commit.

use super::row::{Row, Target};
use super::worker::{Clock, PATIENCE};
use crate::Result;
use client::Client;
use machine::{Driver, Hosted};
use objects::{Anywhere, Db, Ref};
use sim::{Distances, Layout, Mishap, Simulation};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::Time;

const MEMBERS: usize = 5;

const FAR: Duration = Duration::from_millis(20);
const NEAR: Duration = Duration::from_micros(20);
const ROUND_TRIP: f64 = 40.0;

/// The time for steps that do not cross the distance: connections between peers, and messages.
const NEARBY: f64 = 1.0;

/// Three heartbeats.
const SILENCE: f64 = 1500.0;

/// Large enough for a page of its own.
const OBJECT: [u8; 6000] = [7; 6000];

/// When the members write their objects, one after the other, and when the redirector's end comes: in each of the runs
/// a little later, so that it meets heartbeat, and other messages, in different places. In every second run the
/// members are idle: of those some miss a heartbeat much sooner than others.
const WRITTEN: Time = Time(1_000_000_000);
const END: Time = Time(4_000_000_000);
const RUNS: u32 = 20;
const LATER: Duration = Duration::from_micros(26_300);

/// How exactly it is seen when a session is open.
const LOOK: Duration = Duration::from_micros(100);

/// A fate of a group's redirector, and whether a member may take over.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    mishap: Mishap,
    has_eligible: bool,
}

const CASES: [Case; 5] = [
    Case { name: "killed, eligible member", mishap: Mishap::Killed, has_eligible: true },
    Case { name: "hangs, eligible member", mishap: Mishap::Hangs, has_eligible: true },
    Case { name: "killed, no eligible member: a group of one", mishap: Mishap::Killed, has_eligible: false },
    Case { name: "hangs, no eligible member: a group of one", mishap: Mishap::Hangs, has_eligible: false },
    Case { name: "killed and replaced at the same address", mishap: Mishap::Replaced, has_eligible: false },
];

/// Of the slowest member, how long after the redirector's end.
#[derive(Clone, Copy, Debug, Default)]
struct Slowest {
    /// It had a session.
    session: Duration,
    /// Its first transaction was committed.
    transaction: Duration,
}

impl Slowest {
    fn or(self, other: Self) -> Self {
        Self { session: self.session.max(other.session), transaction: self.transaction.max(other.transaction) }
    }
}

/// The objects that are written.
type Pair = [Ref<[u8]>; 2];

/// One member, as its tasks use it.
#[derive(Clone)]
struct Member {
    client: Arc<Mutex<Hosted<Client>>>,
    driver: Arc<dyn Driver>,
    clock: Clock,
    written: Time,
    end: Time,
    /// It writes all the time, and is not only there.
    is_busy: bool,
    /// The object that it writes all the time, and the one that it writes once: on pages of their own.
    objects: Rc<Cell<Option<Pair>>>,
    is_done: Rc<Cell<bool>>,
    slowest: Rc<RefCell<Slowest>>,
}

impl Member {
    fn db(&self) -> Db {
        objects::over(self.client.clone(), self.driver.clone(), PATIENCE)
    }

    fn found(&self, found: Slowest) {
        let slowest = self.slowest.borrow().or(found);
        *self.slowest.borrow_mut() = slowest;
    }

    async fn write(&self, object: Ref<[u8]>) {
        let db = self.db();
        let write = db.transact_async(async |mut tx| tx.put_bytes(object, &OBJECT).await);
        write.await.expect("there is a store");
    }

    /// Writes objects of its own, and then one of them all the time, so that there is always something under way.
    async fn keep_writing(self) {
        self.clock.sleep_until(self.written).await;
        let db = self.db();
        let created = db.transact_async(async |mut tx| {
            Ok([tx.create_bytes(Anywhere, &OBJECT).await?, tx.create_bytes(Anywhere, &OBJECT).await?])
        });
        let objects = created.await.expect("there is a store");
        self.objects.set(Some(objects));
        while self.is_busy && !self.is_done.get() {
            self.write(objects[0]).await;
        }
    }

    /// Looks when there is a session again.
    async fn await_session(self) {
        let sessions = || self.with_client(|client| client.stats().sessions);
        self.clock.sleep_until(self.end).await;
        let before = sessions();
        let is_back = || sessions() > before && self.with_client(|client| client.is_live());
        while !is_back() {
            self.clock.sleep_until(self.driver.now() + LOOK).await;
        }
        self.found(Slowest { session: self.driver.now() - self.end, ..Slowest::default() });
    }

    fn with_client<R>(&self, look: impl FnOnce(&mut Client) -> R) -> R {
        look(self.client.lock().unwrap_or_else(PoisonError::into_inner).machine())
    }

    /// Begins a transaction as soon as the redirector has ended.
    async fn write_once(self) {
        self.clock.sleep_until(self.end).await;
        let objects = self.objects.get().expect("they were written");
        self.write(objects[1]).await;
        self.found(Slowest { transaction: self.driver.now() - self.end, ..Slowest::default() });
        self.is_done.set(true);
    }
}

impl Case {
    /// The slowest member of one run.
    fn run(self, run: u32) -> Result<Slowest> {
        let (end, is_busy) = (END + LATER * run, run.is_multiple_of(2));
        let layout = Layout {
            clients: MEMBERS,
            groups: vec![(1..=MEMBERS).collect()],
            eligible: if self.has_eligible { vec![1] } else { Vec::new() },
            distances: Distances { far: FAR, near: NEAR },
            ..Layout::default()
        };
        let mut simulation = Simulation::laid_out(1, &layout);
        simulation.inject(end, 0, self.mishap);
        let slowest = Rc::new(RefCell::new(Slowest::default()));
        for client in 1..=MEMBERS {
            let (member, driver) = simulation.door(client);
            let clock = Clock::Virtual { driver: driver.clone(), traversal: Duration::ZERO };
            let (objects, is_done, slowest) = (Rc::default(), Rc::default(), slowest.clone());
            let written = WRITTEN + LATER * (4 * client as u32);
            let member = Member { client: member, driver, clock, written, end, is_busy, objects, is_done, slowest };
            simulation.spawn(client, member.clone().keep_writing());
            simulation.spawn(client, member.clone().await_session());
            simulation.spawn(client, member.write_once());
        }
        simulation.run_and_close().map_err(|violation| violation.to_string())?;
        Ok(slowest.take())
    }

    fn rows(self) -> Result<[Row; 2]> {
        let mut slowest = Slowest::default();
        for run in 0..RUNS {
            slowest = slowest.or(self.run(run)?);
        }
        // A new process has a way of its own to go: it finds its store, and asks for the group that it is to lead.
        let silence = if self.mishap == Mishap::Killed { 0.0 } else { SILENCE };
        let row = |what: &str, ours: Duration, round_trips: f64| {
            let row = Row::new("failover", format!("{}, {what}", self.name), "ms", ours.as_secs_f64() * 1e3);
            row.target(Target::AtMost(silence + round_trips * ROUND_TRIP + NEARBY))
        };
        Ok([row("session", slowest.session, 2.0), row("transaction", slowest.transaction, 3.0)])
    }
}

/// The rows of a group without its redirector, in every case.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let rows: Vec<_> = CASES.into_iter().map(Case::rows).collect::<Result<_>>()?;
    Ok(rows.into_iter().flatten().collect())
}
