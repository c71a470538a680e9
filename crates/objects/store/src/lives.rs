//! The lives of the store's process: which they were, and which of their leases may still last.
//!
//! ```text
//!   start ---> Incarnation: all lives, what may last, and what will be given --durable--> the first lease is given
//!   write-back: the same as of now                                           --durable--> the one before it can be freed
//! ```
//! 1. Before a lease is given, a record is durable that names its space and is at least as long. The newest durable
//!    record is never freed.
//! 2. After a restart a change on a space that the last record names waits for this long, whatever the configuration
//!    says now.
//! 3. A record that says nothing of leases is of a program that wrote none: its store was configured like this one.
//! 4. Each life is told to every client that comes, with those before it: one that has learned of the store in another
//!    life finds out whether this is the store, or a copy that was made before (**KnowLineage**). A life is told once
//!    its record is durable, and nothing else is said before it: what ended earlier nobody has learned of.

use crate::{Config, LeasesGiven, Position, Record, Store};
use alloc::vec::Vec;
use core::time::Duration;
use master::{EarlierLeases, longer};
use messages::Lineage;
use types::{Incarnation, Rule, Time};

/// The leases of earlier lives as far as they are known, and what the log says for later ones.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    /// The leases that may last of earlier lives, and until when.
    earlier: LeasesGiven,
    until: Time,
    /// The first record of this life.
    first: Position,
    /// The newest record that is durable, and the last, which may not be.
    record: Position,
    next: Position,
    /// This life and those before it.
    lineage: Lineage,
    /// The lineage has this life.
    is_named: bool,
}

impl Lives {
    /// The log held a record.
    pub(crate) fn recovered(
        &mut self,
        position: Position,
        leases: Option<LeasesGiven>,
        lineage: Lineage,
        config: &Config,
    ) {
        self.record = position;
        self.lineage = lineage;
        self.earlier = leases.unwrap_or_else(|| given_by(config));
    }

    /// The leases of earlier lives that a change waits for.
    pub(crate) fn earlier(&self) -> EarlierLeases {
        EarlierLeases { spaces: self.earlier.spaces.clone(), until: self.until }
    }

    /// The leases that a record must name now: everything that may last, and everything that this life gives.
    fn lasting(&self, now: Time, config: &Config) -> LeasesGiven {
        let mut given = given_by(config);
        if now < self.until {
            given.lease_ms = given.lease_ms.max(self.earlier.lease_ms);
            given.spaces.extend(&self.earlier.spaces);
            given.spaces.sort_unstable();
            given.spaces.dedup();
        }
        given
    }

    /// Whether the lineage has this life, and clients can be welcome.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The record without which no lease may be given, no client is welcomed, and nothing is written back.
    pub(crate) fn first_record(&self) -> Position {
        self.first
    }

    /// The oldest record that is still needed; everything through `durable` is.
    pub(crate) fn needed(&mut self, is_durable: impl Fn(Position) -> bool) -> Position {
        if is_durable(self.next) {
            self.record = self.next;
        }
        self.record
    }

    /// This life and those before it.
    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }
}

impl Store {
    /// Everything has been recovered: a new life begins, and leases of earlier ones may last.
    pub(crate) fn begin_life(&mut self, now: Time) {
        let lives = &mut self.lives;
        let is_first = self.incarnation == Incarnation(1);
        let is_found = lives.record > Position(0);
        if self.config.broken.is(Rule::LeasesOutliveStore) {
            lives.earlier = LeasesGiven::default();
        } else if (!is_found && (!is_first || self.config.has_peers()))
            || self.config.broken.is(Rule::AwaitEarlierLives)
        {
            // The record was freed: of what was there only the configuration of now can tell. A node may have been
            // given a shard of another one before it ended without a record.
            lives.earlier = given_by(&self.config);
        }
        lives.until = now + longer(Duration::from_millis(u64::from(lives.earlier.lease_ms)), self.config.broken);
        // The counts of a shard are known when it opens.
        if !self.config.has_peers() {
            self.name_life(now);
        }
    }

    /// A shard has come from another node, whose leases on it may last (**LeasesOutliveOpening**).
    pub(crate) fn outlast_leases(&mut self, now: Time) {
        let (config, broken) = (&self.config, self.config.broken);
        if config.leased_spaces.is_empty() || broken.is(Rule::LeasesOutliveOpening) {
            return;
        }
        let spaces = given_by(config).spaces;
        self.master.outlast(EarlierLeases { spaces, until: now + longer(config.lease, broken) });
    }

    /// The counts are known at which this life begins: says so.
    pub(crate) fn name_life(&mut self, now: Time) {
        let lives = &mut self.lives;
        lives.lineage = lives.lineage.with(self.life, self.master.known());
        lives.is_named = true;
        self.log_life(now);
        self.lives.first = self.lives.next;
    }

    fn log_life(&mut self, now: Time) {
        let leases = self.lives.lasting(now, &self.config);
        let lineage = self.lives.lineage.clone();
        let counts = Some(self.sequencer.as_ref().map(|of| of.last().clone()).unwrap_or_default());
        let record = Record::Incarnation { incarnation: self.incarnation, leases: Some(leases), lineage, counts };
        self.lives.next = self.log.append(record, &mut self.out);
    }

    /// A batch is written back: logs the same again, so that the record before can be freed.
    pub(crate) fn log_life_again(&mut self, now: Time) {
        if self.lives.is_named && self.log.is_durable(self.lives.next) {
            self.log_life(now);
        }
    }
}

fn given_by(config: &Config) -> LeasesGiven {
    if config.leased_spaces.is_empty() {
        return LeasesGiven::default();
    }
    let mut spaces: Vec<u32> = config.leased_spaces.clone();
    spaces.sort_unstable();
    spaces.dedup();
    LeasesGiven { lease_ms: u32::try_from(config.lease.as_millis()).unwrap_or(u32::MAX), spaces }
}
