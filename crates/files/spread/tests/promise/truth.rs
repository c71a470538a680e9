//! The revisions that the store has published, by the time of the run. Every answer is compared with them.

use spread::messages::Identity;
use spread::server_work::NewRevision;
use spread::{Number, Revision};
use std::collections::BTreeMap;
use tree::ChunkHash;
use types::Time;

/// A revision that was published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) revision: Revision,
    identity: Identity,
    /// When another one took its place, at the latest.
    pub(crate) over: Option<Time>,
    /// The store was restored from a copy that does not have it.
    pub(crate) is_lost: bool,
}

/// Everything that was published, in order.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) all: Vec<Published>,
    /// The base of each publish.
    bases: BTreeMap<Identity, Option<ChunkHash>>,
}

impl Truth {
    /// The newest revision.
    pub(crate) fn head(&self) -> Option<Revision> {
        self.all.iter().rev().find(|it| !it.is_lost).map(|it| it.revision)
    }

    pub(crate) fn find(&self, number: Number) -> Option<&Published> {
        self.all.iter().find(|it| it.revision.number == number)
    }

    /// A publisher is about to publish from this tree.
    pub(crate) fn asked(&mut self, identity: Identity, base: Option<ChunkHash>) {
        self.bases.insert(identity, base);
    }

    /// A revision is durable.
    pub(crate) fn published(&mut self, now: Time, new: &NewRevision) -> Result<(), String> {
        let (revision, identity) = (new.revision, new.identity);
        if let Some(again) = self.all.iter().find(|it| it.identity == identity && !it.is_lost) {
            return Err(format!("1: {identity:?} was made as {:?}, and again", again.revision));
        }
        let head = self.head();
        if let Some(base) = self.bases.get(&identity)
            && *base != head.map(|head| head.root)
        {
            return Err(format!("1: {revision:?} was made from {base:?}, and the newest is {head:?}"));
        }
        if head.is_some_and(|head| head.number >= revision.number) {
            return Err(format!("5: {revision:?} was published after {head:?}"));
        }
        if let Some(other) = self.find(revision.number) {
            return Err(format!("5: {revision:?} has the number of {:?}", other.revision));
        }
        if let Some(last) = self.all.iter_mut().rev().find(|it| !it.is_lost) {
            last.over = Some(now);
        }
        self.all.push(Published { revision, identity, over: None, is_lost: false });
        Ok(())
    }

    /// The store was restored: it has these revisions at most.
    pub(crate) fn restored(&mut self, now: Time, newest: Number) {
        for it in &mut self.all {
            if !it.is_lost && it.revision.number > newest {
                it.is_lost = true;
                it.over.get_or_insert(now);
            }
        }
        if let Some(head) = self.all.iter_mut().rev().find(|it| !it.is_lost) {
            head.over = None;
        }
    }
}
