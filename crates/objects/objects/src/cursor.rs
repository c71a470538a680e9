//! Scans of a map, leaf by leaf.
//!
//! A cursor does not hold on to the transaction: between two steps the transaction may do anything, and the cursor goes
//! on behind the entry that it gave last. It finds the next leaf from the root, by the fence that parts the two, so no
//! leaf needs to know its siblings.
//!
//! 1. `lower` and `upper` bound what has not been given yet. They move with each entry that is given, and with nothing
//!    else.
//! 2. The entries that were read of a leaf ahead of that, and the fence behind it, hold for as long as the transaction
//!    has changed nothing. After a change they are read again: entries may have come and gone there, and the objects of
//!    large values with them.

use crate::key::{self, Key};
use crate::node::{DEPTH_MAX, Root, look};
use crate::tree::{Payload, View};
use crate::{Error, Mode, Result, Tx, value};
use client::TxnHandle;
use database::Database;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::{Arc, Weak};
use types::ObjectId;

/// The nodes that a scan asks for at a time.
const AHEAD_NODES: usize = 32;

/// A scan of a [`crate::Map`], see [`crate::Map::range`]. It belongs to the transaction of its first step, and sees
/// what that one changes: each step gives the next entry there is.
#[derive(Debug)]
pub struct Cursor<K, V> {
    root: Root,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    backwards: bool,
    /// Entries of the last leaf that was read, in the order in which they are given out.
    ahead: VecDeque<Found>,
    /// Where the next leaf begins, or ends if the scan goes backwards.
    fence: Option<Vec<u8>>,
    /// Whether the last leaf of the range was read.
    done: bool,
    /// Whether a leaf was read.
    begun: bool,
    /// How often the transaction had changed something when the leaf was read.
    changes: u64,
    /// The transaction that it reads in, from its first step on.
    of: Option<(Weak<Database>, TxnHandle)>,
    types: PhantomData<fn() -> (K, V)>,
}

#[derive(Debug)]
struct Found {
    leaf: ObjectId,
    key: Vec<u8>,
    payload: Payload<Vec<u8>>,
}

impl Found {
    fn decode_key<K: Key>(&self) -> Result<K> {
        key::decode(&self.key).ok_or_else(|| Error::damaged(self.leaf, "a key of its map is none of its type"))
    }

    /// The object that holds the value, if it does not lie beside the key.
    fn elsewhere(&self) -> Option<ObjectId> {
        match self.payload {
            Payload::Elsewhere(object) => Some(object),
            Payload::Here(_) => None,
        }
    }
}

/// The answer of a node on the way to a leaf: the child to go to, and the fence that parts that child from the next
/// one.
enum Step {
    Down(ObjectId, Option<Vec<u8>>),
    Leaf(Vec<Found>),
}

impl<K, V> Cursor<K, V> {
    pub(crate) fn new(root: Root, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Self {
        let (backwards, ahead, fence, done, begun, changes, of) = Default::default();
        Self { root, lower, upper, backwards, ahead, fence, done, begun, changes, of, types: PhantomData }
    }

    /// The same range from its end to its start. To be called before the first step.
    pub fn backwards(mut self) -> Self {
        self.backwards = !self.backwards;
        self
    }
}

impl<K: Key, V: DeserializeOwned> Cursor<K, V> {
    /// The next entry.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let stock: thorp::Map<String, u32> = db.transact(|tx| tx.map("stock"))?;
    /// db.transact(|tx| {
    ///     let mut cursor = stock.iter();
    ///     while let Some((name, count)) = cursor.next(tx)? {
    ///         stock.insert(tx, &name, &(count + 1))?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn next<M: Mode>(&mut self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Option<(K, V)>>>> {
        M::run(async move { self.step(tx).await })
    }

    /// The next entry's key. Its value is passed over: one that does not lie beside the key is not fetched.
    ///
    /// ```
    /// # use objects as thorp;
    /// # let db = thorp::Db::in_memory()?;
    /// # let pictures: thorp::Map<String, Vec<u8>> = db.transact(|tx| tx.map("pictures"))?;
    /// # db.transact(|tx| pictures.insert(tx, "wheel", &vec![0; 100_000]))?;
    /// assert_eq!(db.transact(|tx| pictures.iter().next_key(tx))?, Some("wheel".to_string()));
    /// # Ok::<(), thorp::Error>(())
    /// ```
    pub fn next_key<M: Mode>(&mut self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Option<K>>>> {
        M::run(async move {
            self.fill(tx).await?;
            let Some(found) = self.ahead.front() else { return Ok(None) };
            let key = found.decode_key()?;
            self.pass();
            Ok(Some(key))
        })
    }

    /// All entries that are left.
    pub fn collect<M: Mode>(mut self, tx: &mut Tx<M>) -> M::Out<impl Future<Output = Result<Vec<(K, V)>>>> {
        M::run(async move {
            let mut all = Vec::new();
            while let Some(entry) = self.step(tx).await? {
                all.push(entry);
            }
            Ok(all)
        })
    }

    pub(crate) async fn step<M: Mode>(&mut self, tx: &mut Tx<M>) -> Result<Option<(K, V)>> {
        self.fill(tx).await?;
        let Some(found) = self.ahead.front() else { return Ok(None) };
        let key = found.decode_key()?;
        let value = match &found.payload {
            Payload::Here(bytes) => value::decode_bare(found.leaf, bytes)?,
            Payload::Elsewhere(object) => {
                tx.read_ahead(self.ahead.iter().filter_map(Found::elsewhere))?;
                tx.load(*object).await?
            }
        };
        // Only now, so that a step whose future is dropped is no step.
        self.pass();
        Ok(Some((key, value)))
    }

    pub(crate) async fn count_entries<M: Mode>(mut self, tx: &mut Tx<M>) -> Result<usize> {
        let mut count = 0;
        while self.fill(tx).await? {
            count += self.ahead.drain(..).count();
        }
        Ok(count)
    }

    /// Counts entries leaf by leaf until there are `at_most`. Returns the key behind which there may be more, if any.
    pub(crate) async fn count_some<M: Mode>(
        mut self,
        tx: &mut Tx<M>,
        at_most: usize,
    ) -> Result<(usize, Option<Vec<u8>>)> {
        let (mut count, mut last) = (0, None);
        while count < at_most && self.fill(tx).await? {
            count += self.ahead.len();
            last = self.ahead.pop_back().map(|found| found.key);
            self.ahead.clear();
        }
        Ok((count, last.filter(|_| !self.done)))
    }

    /// The keys of the next leaf that has some in the range, all of them.
    pub(crate) async fn next_leaf<M: Mode>(mut self, tx: &mut Tx<M>) -> Result<Vec<Vec<u8>>> {
        self.fill(tx).await?;
        tx.read_ahead(self.ahead.iter().filter_map(Found::elsewhere))?;
        Ok(self.ahead.into_iter().map(|found| found.key).collect())
    }

    /// Reads leaves until there is an entry to give out; says whether there is one.
    pub(crate) async fn fill<M: Mode>(&mut self, tx: &mut Tx<M>) -> Result<bool> {
        self.belong_to(tx)?;
        if self.changes != tx.changes() {
            self.ahead.clear();
            (self.fence, self.done, self.changes) = (None, false, tx.changes());
        }
        while self.ahead.is_empty() && !self.done {
            self.read_leaf(tx).await?;
        }
        Ok(!self.ahead.is_empty())
    }

    fn belong_to<M: Mode>(&mut self, tx: &Tx<M>) -> Result<()> {
        match &self.of {
            None => self.of = Some((Arc::downgrade(&tx.database), tx.handle)),
            Some((database, txn)) if std::ptr::eq(database.as_ptr(), &raw const *tx.database) && *txn == tx.handle => {}
            Some(_) => return Err(Error::CursorOfAnother),
        }
        Ok(())
    }

    async fn read_leaf<M: Mode>(&mut self, tx: &mut Tx<M>) -> Result<()> {
        let (mut node, mut fence) = (self.root.id(), None);
        for _ in 0..DEPTH_MAX {
            match look(tx, self.root, node, |view| self.step_from(node, view)).await? {
                Some(Step::Down(child, parts)) => {
                    read_ahead(tx, self.root, node, child, self.backwards, self.begun).await?;
                    node = child;
                    // The fence of a lower node is the nearer one.
                    fence = parts.or(fence);
                }
                Some(Step::Leaf(found)) => {
                    self.ahead.extend(found);
                    self.begun = true;
                    self.done = !fence.as_ref().is_some_and(|fence| self.goes_on_at(fence));
                    self.fence = fence;
                    return Ok(());
                }
                None => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
        Err(Error::damaged(self.root.id(), "its map is deeper than a map can be"))
    }

    fn step_from(&self, node: ObjectId, view: View<'_>) -> Option<Step> {
        if view.is_leaf() { self.entries_of(node, view).map(Step::Leaf) } else { self.child_of(view) }
    }

    fn child_of(&self, view: View<'_>) -> Option<Step> {
        let (lower, upper) = self.unread();
        let below = |key: &[u8]| if self.backwards { below_upper(upper, key) } else { reaches(lower, key) };
        let at = view.count_below(below)?.saturating_sub(1);
        let fence =
            if self.backwards { Some(at).filter(|&at| at > 0) } else { Some(at + 1).filter(|&at| at < view.len()) };
        let fence = match fence {
            Some(at) => Some(view.entry(at)?.0.to_vec()),
            None => None,
        };
        Some(Step::Down(view.child(at)?, fence))
    }

    fn entries_of(&self, leaf: ObjectId, view: View<'_>) -> Option<Vec<Found>> {
        let (lower, upper) = self.unread();
        let start = view.count_below(|key| !above_lower(lower, key))?;
        let end = view.count_below(|key| below_upper(upper, key))?;
        let found = |at| {
            let (key, payload) = view.entry(at)?;
            let payload = match Payload::parse(payload)? {
                Payload::Here(bytes) => Payload::Here(bytes.to_vec()),
                Payload::Elsewhere(object) => Payload::Elsewhere(object),
            };
            Some(Found { leaf, key: key.to_vec(), payload })
        };
        if self.backwards { (start..end).rev().map(found).collect() } else { (start..end).map(found).collect() }
    }

    /// The part of the range that was not read yet.
    fn unread(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let (lower, upper) = (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice));
        match &self.fence {
            None => (lower, upper),
            Some(fence) if self.backwards => (lower, Bound::Excluded(fence)),
            Some(fence) => (Bound::Included(fence), upper),
        }
    }

    /// Whether there may be more of the range beyond a fence.
    fn goes_on_at(&self, fence: &[u8]) -> bool {
        if self.backwards {
            !reaches(self.lower.as_ref().map(Vec::as_slice), fence)
        } else {
            below_upper(self.upper.as_ref().map(Vec::as_slice), fence)
        }
    }

    /// The next entry has been given.
    fn pass(&mut self) {
        if let Some(given) = self.ahead.pop_front() {
            let end = if self.backwards { &mut self.upper } else { &mut self.lower };
            *end = Bound::Excluded(given.key);
        }
    }
}

/// Asks for the nodes that a scan comes by behind `child` of `node`: when it begins and then batch by batch, so that
/// the next ones are there, or on their way, when they are needed.
async fn read_ahead<M: Mode>(
    tx: &mut Tx<M>,
    root: Root,
    node: ObjectId,
    child: ObjectId,
    backwards: bool,
    begun: bool,
) -> Result<()> {
    let coming = look(tx, root, node, |view| {
        let at = (0..view.len()).find(|&at| view.child(at) == Some(child))?;
        if begun && !at.is_multiple_of(AHEAD_NODES) {
            return Some(Vec::new());
        }
        let next_batch = at / AHEAD_NODES + 1;
        if backwards {
            let from = (next_batch - 1).saturating_sub(1) * AHEAD_NODES;
            return (from..=at).rev().map(|at| view.child(at)).collect();
        }
        (at..view.len().min((next_batch + 1) * AHEAD_NODES)).map(|at| view.child(at)).collect()
    });
    let coming = coming.await?;
    tx.read_ahead(coming.unwrap_or_default())
}

/// Whether `key` is inside of a lower bound.
fn above_lower(lower: Bound<&[u8]>, key: &[u8]) -> bool {
    match lower {
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
        Bound::Unbounded => true,
    }
}

/// Whether `key` is inside of an upper bound.
fn below_upper(upper: Bound<&[u8]>, key: &[u8]) -> bool {
    match upper {
        Bound::Included(bound) => key <= bound,
        Bound::Excluded(bound) => key < bound,
        Bound::Unbounded => true,
    }
}

/// Whether what begins at `key` begins at or before a lower bound.
fn reaches(lower: Bound<&[u8]>, key: &[u8]) -> bool {
    match lower {
        Bound::Included(bound) | Bound::Excluded(bound) => key <= bound,
        Bound::Unbounded => key.is_empty(),
    }
}
