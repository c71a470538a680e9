//! The revisions that the store has published, by the time of the run. Every answer is compared with them.

use crate::trees::{FILES, Tree, grow, merge};
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
    /// The values in each tree.
    pub(crate) trees: BTreeMap<ChunkHash, Tree>,
    asked: BTreeMap<Identity, Asked>,
}

/// A publish that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) base: Option<ChunkHash>,
    pub(crate) root: ChunkHash,
    pub(crate) merges: bool,
    pub(crate) ends_locks: bool,
}

impl Truth {
    /// The newest revision.
    pub(crate) fn head(&self) -> Option<Revision> {
        self.all.iter().rev().find(|it| !it.is_lost).map(|it| it.revision)
    }

    pub(crate) fn find(&self, number: Number) -> Option<&Published> {
        self.all.iter().find(|it| it.revision.number == number)
    }

    /// The values of a tree that was published, or is going to be.
    pub(crate) fn tree(&self, root: ChunkHash) -> Tree {
        *self.trees.get(&root).expect("it was asked for")
    }

    /// A publisher is about to publish.
    pub(crate) fn asked(&mut self, identity: Identity, asked: Asked) {
        self.asked.insert(identity, asked);
    }

    /// Checks what a publish has made of the head: its tree, or with a merge its changes and nothing else.
    fn made(&mut self, asked: Asked, revision: Revision) -> Result<(), String> {
        let (Asked { base, root, merges, .. }, head) = (asked, self.head());
        if base == head.map(|head| head.root) && revision.root == root {
            return Ok(());
        }
        let Some(head) = head.filter(|_| merges) else {
            return Err(format!("1: {revision:?} was made from {base:?}, and the newest is {head:?}"));
        };
        let before = base.map_or([0; FILES], |base| self.tree(base));
        let merged = merge(before, self.tree(head.root), self.tree(root));
        let Some((tree, expected)) = merged.map(|tree| (tree, grow(tree).0)) else {
            return Err(format!("1: {revision:?} changes files that {head:?} has changed since {base:?}"));
        };
        if revision.root != expected {
            return Err(format!("1: {revision:?} is not {head:?} with the changes from {base:?} to {root:?}"));
        }
        self.trees.insert(expected, tree);
        Ok(())
    }

    /// A publisher was told that its changes are in a revision.
    pub(crate) fn acknowledged(&self, revision: Revision, asked: &Asked) -> Result<(), String> {
        let is_durable = self.find(revision.number).is_some_and(|it| it.revision.root == revision.root);
        if !is_durable {
            return Err(format!("1: {revision:?} is acknowledged, and not durable"));
        }
        if asked.merges {
            let before = asked.base.map_or([0; FILES], |base| self.tree(base));
            let (wanted, tree) = (self.tree(asked.root), self.tree(revision.root));
            if let Some(file) = (0..FILES).find(|at| wanted[*at] != before[*at] && wanted[*at] != tree[*at]) {
                return Err(format!("1: {revision:?} is acknowledged, and lacks the change of file {file}"));
            }
        } else if revision.root != asked.root {
            return Err(format!("1: {revision:?} is acknowledged, and is another tree than {:?}", asked.root));
        }
        Ok(())
    }

    /// Checks that only this publisher has changed a file since a revision, in the life of the store in which the file
    /// was locked. A publish that ends locks is exempt.
    pub(crate) fn excludes(&self, file: usize, (since, life): (Number, u64), publisher: u64) -> Result<(), String> {
        let mut before = [0; FILES];
        for it in self.all.iter().filter(|it| !it.is_lost) {
            let (tree, Published { revision, identity, .. }) = (self.tree(it.revision.root), *it);
            let is_later = revision.number > since && revision.number.life <= life;
            let is_other = identity.publisher != publisher && tree[file] != before[file];
            let ends_locks = self.asked.get(&identity).is_some_and(|asked| asked.ends_locks);
            if is_later && is_other && !ends_locks {
                return Err(format!("1: {revision:?} of {identity:?} changes file {file}, locked by {publisher}"));
            }
            before = tree;
        }
        Ok(())
    }

    /// A revision is durable.
    pub(crate) fn published(&mut self, now: Time, new: &NewRevision) -> Result<(), String> {
        let (revision, identity) = (new.revision, new.identity);
        if let Some(again) = self.all.iter().find(|it| it.identity == identity && !it.is_lost) {
            return Err(format!("1: {identity:?} was made as {:?}, and again", again.revision));
        }
        let head = self.head();
        if let Some(asked) = self.asked.get(&identity).copied() {
            self.made(asked, revision)?;
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
