//! An experiment's layout: the places of the processes, their distances, and the cost of each step. Nothing fails but
//! what it is told to.
//!
//! Figures that come out of it are worth what goes in: distances are the experiment's, costs are measured on real
//! drivers by the experiment.

use bytes::Bytes;
use core::time::Duration;
use std::cell::Cell;
use std::collections::BTreeMap;
use store::Checkpoint;
use types::{PageId, Version};

/// The time that a message takes of the process that hears it, before the answers to it leave: a process works on one
/// message at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Of a client.
    pub client: Duration,
    /// Of a redirector.
    pub redirector: Duration,
    /// Of a store.
    pub store: Duration,
}

/// How long a message is on its way, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distances {
    /// Between a store and its peers: a client without a group, a redirector.
    pub far: Duration,
    /// Between the members of a group, and to their redirector.
    pub near: Duration,
}

/// The places of the processes in an experiment.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// How many clients there are, counted from 1.
    pub clients: usize,
    /// Which of them are in which group; the others talk to the store directly.
    pub groups: Vec<Vec<usize>>,
    /// Which of them may be the redirector of their group. Each group has one of its own besides, which leads it at
    /// first.
    pub eligible: Vec<usize>,
    /// How far they are from each other.
    pub distances: Distances,
    /// The costs of a message to them.
    pub costs: Costs,
    /// How long the store's disk takes to make durable what was appended.
    pub flush: Duration,
    /// How long it takes to read pages.
    pub read: Duration,
    /// The clients' settings.
    pub client: client::Config,
    /// The redirectors'.
    pub redirector: redirector::Config,
    /// The store's.
    pub store: store::Config,
    /// The content that the store begins with.
    pub stored: Stored,
}

/// The content of a closed store's disk, for others to begin with. Cloning shares the pages.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(crate) home: BTreeMap<PageId, (Version, Bytes)>,
    pub(crate) checkpoint: Checkpoint,
}

impl Stored {
    /// The bytes of its pages.
    pub fn bytes(&self) -> usize {
        self.home.values().map(|(_, image)| image.len()).sum()
    }
}

impl Default for Stored {
    /// Nothing, but that page 0 exists in any store.
    fn default() -> Self {
        Self { home: BTreeMap::new(), checkpoint: Checkpoint { next_pages: vec![(0, 1)], ..Checkpoint::default() } }
    }
}

/// A fault of a redirector in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Its process is killed.
    Killed,
    /// Its process is killed, and another started in its place, where it was.
    Replaced,
    /// It does nothing any more. Its connections stay open.
    Hangs,
}

/// The messages of a process, counted while the simulation runs.
#[derive(Debug, Default)]
pub struct Traffic {
    heard: Cell<u64>,
    said: Cell<u64>,
}

impl Traffic {
    /// Messages that it has heard.
    pub fn heard(&self) -> u64 {
        self.heard.get()
    }

    /// Messages that it has said.
    pub fn said(&self) -> u64 {
        self.said.get()
    }

    pub(crate) fn hear(&self) {
        self.heard.set(self.heard.get() + 1);
    }

    pub(crate) fn say(&self) {
        self.said.set(self.said.get() + 1);
    }
}
