//! A run of a node: keeps its lease, follows the other nodes, opens its shards, stands for election, and leaves.
//!
//! ```text
//!   each tick:  keep-alive --> the store's lease, counted from when it was sent
//!               view, if etcd has changed --> what the store learns --> the next transaction --> view ...
//!               what the store opens, whom it waits for and what it copies --> nodes/NODE
//!   between:    a shard has arrived, or is closed to move --> the next tick at once
//! ```
//! While etcd is away everything continues until the lease is over. Then the store is silent, and the process starts it
//! again from its directory when etcd is back.

use crate::MembershipError;
use crate::binding::Binding;
use crate::cluster::Cluster;
use crate::follow::Follower;
use crate::plan::{Closed, Moved, Own, SHARDS_PER_TRANSACTION, Transaction};
use crate::records::{ComingRecord, NodeRecord};
use crate::view::View;
use database::LocalStore;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};
use store::{ClosedShard, Progress, Store};
use types::{NodeId, Shard, Time, Version, lease};

/// The longest pause between two ticks, where a tenth of the lease is longer.
const TICK_MAX: Duration = Duration::from_millis(250);

/// The longest pause while shards move: as long as one is closed the commits in it wait.
const TICK_OF_MOVES: Duration = Duration::from_millis(50);

/// How often the store is looked at while shards move.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long a shard may be closed before it stays where it was.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// How often the others are told how far copies are, and how full the log is.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Transactions of one tick. The lease is kept between ticks.
const TRANSACTIONS_PER_TICK: usize = 8;

/// How often a node that leaves tries to record its shards.
const ATTEMPTS: usize = 3;

/// How a run has ended.
#[derive(Debug)]
pub enum Ended {
    /// The process wants to stop.
    Stopped,
    /// The lease is over, for this reason. The process starts the store again from its directory.
    LeaseOver(String),
    /// The node cannot be a member any longer.
    Refused(MembershipError),
}

/// A node of the store, under one lease.
#[derive(Debug)]
pub struct Run<'a> {
    cluster: &'a Cluster,
    own: Own,
    follower: Follower,
    /// The file of the directory.
    binding: (Binding, PathBuf),
    view: View,
    until: Time,
    /// Why etcd does not answer, if it does not.
    trouble: Option<String>,
    /// When the others were told how far copies are, and how full the log is.
    told_progress: Time,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        own: Own,
        follower: Follower,
        binding: (Binding, PathBuf),
        view: View,
        until: Time,
    ) -> Self {
        Self { cluster, own, follower, binding, view, until, trouble: None, told_progress: Time::ZERO }
    }

    /// Gives the store its lease, and as many of its shards as one tick opens. Call it before the store listens.
    pub fn begin(&mut self, store: &LocalStore) -> Result<(), Ended> {
        let until = self.until;
        store.tell(|store, now| store.extend_lease(now, until));
        self.tick(store).inspect_err(|_| store.tell(Store::end_lease))
    }

    /// Keeps the node a member until it is stopped or its lease is over. Then the store is silent. `on_trouble` learns
    /// why etcd does not answer, and `None` when it answers again.
    pub fn keep(&mut self, store: &LocalStore, stop: &AtomicBool, on_trouble: impl Fn(Option<&str>)) -> Ended {
        let mut told = None;
        while !stop.load(Relaxed) {
            if let Err(ended) = self.tick(store) {
                store.tell(Store::end_lease);
                return ended;
            }
            if self.trouble != told {
                on_trouble(self.trouble.as_deref());
                told.clone_from(&self.trouble);
            }
            self.pause(store);
        }
        Ended::Stopped
    }

    /// Waits for the next tick, unless there is something to do.
    fn pause(&self, store: &LocalStore) {
        let tick = (self.view.lease() / 10).min(TICK_MAX);
        if self.trouble.is_some() {
            return sleep(tick);
        }
        let is_moving = self.view.moves().next().is_some();
        let (begun, tick) = (Instant::now(), if is_moving { tick.min(TICK_OF_MOVES) } else { tick });
        loop {
            let left = tick.saturating_sub(begun.elapsed());
            if left.is_zero() || self.own.next(&self.view, &moved(store)).is_some() {
                return;
            }
            sleep(if is_moving { left.min(LOOK_EVERY) } else { left });
        }
    }

    fn tick(&mut self, store: &LocalStore) -> Result<(), Ended> {
        let followed = self.keep_alive(store).and_then(|()| self.follow(store));
        let trouble = match followed {
            Ok(()) => None,
            Err(Ended::Refused(MembershipError::Etcd(error))) => Some(error.to_string()),
            Err(Ended::Refused(error @ MembershipError::Value { .. })) => Some(error.to_string()),
            Err(ended) => return Err(ended),
        };
        if store.now() >= self.until {
            let stopped = || "the process was stopped for longer than its lease".to_owned();
            return Err(Ended::LeaseOver(trouble.unwrap_or_else(stopped)));
        }
        self.trouble = trouble;
        Ok(())
    }

    /// Extends the lease, unless it is over.
    fn keep_alive(&mut self, store: &LocalStore) -> Result<(), Ended> {
        let sent = store.now();
        let length = self.cluster.etcd.keep_alive(self.own.lease).map_err(refused)?;
        let length = length.ok_or_else(|| Ended::LeaseOver("etcd has ended the lease of the node".into()))?;
        if store.now() < self.until {
            self.until = sent + lease::shorter(length);
            let until = self.until;
            store.tell(|store, now| store.extend_lease(now, until));
        }
        Ok(())
    }

    fn follow(&mut self, store: &LocalStore) -> Result<(), Ended> {
        let revision = self.cluster.etcd.revision(self.own.keys.prefix()).map_err(refused)?;
        if revision != self.view.revision {
            self.view = self.cluster.view().map_err(Ended::Refused)?;
        }
        for _ in 0..TRANSACTIONS_PER_TICK {
            self.learn(store)?;
            let Some(transaction) = self.own.next(&self.view, &moved(store)) else { break };
            self.commit(&transaction)?;
        }
        self.report(store)
    }

    /// Has the store learn what is new. The directory remembers an epoch before the store works in it.
    fn learn(&mut self, store: &LocalStore) -> Result<(), Ended> {
        if !self.view.is_up(&self.own.node, self.own.run) {
            return Err(Ended::LeaseOver("etcd has ended the lease of the node".into()));
        }
        let changes = self.follower.learn(&self.view).map_err(Ended::Refused)?;
        let (binding, dir) = &mut self.binding;
        let seen = binding.seen(self.view.epoch());
        if seen != *binding {
            seen.write(dir).map_err(|error| Ended::Refused(error.into()))?;
            *binding = seen;
        }
        if !changes.is_empty() {
            store.tell(|store, now| changes.into_iter().for_each(|change| change.tell(store, now)));
        }
        Ok(())
    }

    /// Tells the others what the node opens, whom it waits for, and how full its log is.
    fn report(&mut self, store: &LocalStore) -> Result<(), Ended> {
        let Some(last) = self.view.nodes.get(&self.own.node) else { return Ok(()) };
        let (opening, waits_for, log_percent, coming) = store.look(|store| {
            let opening = self.view.shards_of(&self.own.node).filter(|&shard| !store.serves(shard));
            let waits_for: BTreeSet<NodeId> = store.opening().flat_map(|(_, _, nodes)| nodes).collect();
            let coming: Vec<_> = store.incoming().map(|(shard, progress)| coming(shard, progress)).collect();
            let opening = opening.map(|Shard(shard)| shard).collect::<Vec<_>>();
            (opening, waits_for, store.log_percent() / 10 * 10, coming)
        });
        let is_awaited = |node: &&String| self.view.number(node).is_some_and(|number| waits_for.contains(&number));
        let waits_for = self.view.members.keys().filter(is_awaited).cloned().collect();
        let is_news = store.now() >= self.told_progress + PROGRESS_EVERY;
        let last_progress = (last.value.log_percent, last.value.coming.clone());
        let (log_percent, coming) = if is_news { (log_percent, coming) } else { last_progress };
        let record = NodeRecord { opening, waits_for, log_percent, coming, ..last.value.clone() };
        if record == last.value {
            return Ok(());
        }
        self.told_progress = store.now();
        self.commit(&self.own.report(&self.view, &record))
    }

    /// Carries out a transaction. Whether it was, the next view shows.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), Ended> {
        let Transaction { compares, operations } = transaction;
        self.cluster.etcd.commit(compares, operations).map_err(refused)?;
        self.view = self.cluster.view().map_err(Ended::Refused)?;
        Ok(())
    }

    /// Leaves in order. Shards that are closed open again without a question, and the other nodes learn at once that
    /// the node is gone.
    pub fn leave(self, closed: &[(Shard, Version)]) -> Result<(), MembershipError> {
        for part in closed.chunks(SHARDS_PER_TRANSACTION) {
            for attempt in 1..=ATTEMPTS {
                let Transaction { compares, operations } = self.own.leave(&self.cluster.view()?, part);
                if operations.is_empty() {
                    break;
                }
                // The answer may be lost: the next view shows the outcome.
                let outcome = self.cluster.etcd.commit(&compares, &operations);
                if attempt == ATTEMPTS {
                    outcome?;
                }
            }
        }
        self.give_up().or_else(|_| self.give_up())
    }

    /// Gives up the name, once etcd answers: the lease is over for this node, and etcd may count it longer.
    pub fn give_up(&self) -> Result<(), MembershipError> {
        match self.cluster.etcd.revoke(self.own.lease) {
            // It is gone already.
            Err(etcd::EtcdError::Refused { why, .. }) if why.contains("lease not found") => Ok(()),
            revoked => Ok(revoked?),
        }
    }
}

/// The shards of a store that wait for their next opening, to move or after all not to.
fn moved(store: &LocalStore) -> Moved {
    let now = store.now();
    store.look(|store| {
        let arrived = store.arrived().map(|(shard, opening, count)| {
            let closed = Closed { opening, count, is_overdue: false };
            (shard, closed)
        });
        let closed = store.closed_to_move().map(|ClosedShard { shard, opening, count, since }| {
            let is_overdue = now >= since + TAKEN_WITHIN;
            (shard, Closed { opening, count, is_overdue })
        });
        arrived.chain(closed).collect()
    })
}

fn coming(shard: Shard, progress: &Progress) -> ComingRecord {
    let Progress { copied, listed, trouble } = progress.clone();
    ComingRecord { shard: shard.0, copied, listed, trouble }
}

fn refused(error: etcd::EtcdError) -> Ended {
    Ended::Refused(error.into())
}
