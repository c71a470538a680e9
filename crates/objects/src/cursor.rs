//! Scans of a map, leaf by leaf.
//!
//! A cursor does not hold on to the transaction: between two steps the transaction may do whatever it likes, and the
//! cursor goes on behind the last leaf that it read. It finds the next leaf from the root, by the fence that parts the
//! two, so no leaf needs to know its neighbours.

use crate::key::{self, Key};
use crate::map::{self, DEPTH_MAX};
use crate::tree::{Payload, View};
use crate::{Error, Mode, Result, Tx};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Bound;
use types::ObjectId;

/// A scan of a [`crate::Map`], see [`crate::Map::range`].
#[derive(Debug)]
pub struct Cursor<K, V> {
    root: ObjectId,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    backwards: bool,
    /// Entries of the last leaf that was read, in the order in which they are given out.
    ahead: VecDeque<Found>,
    done: bool,
    types: PhantomData<fn() -> (K, V)>,
}

#[derive(Debug)]
struct Found {
    leaf: ObjectId,
    key: Vec<u8>,
    payload: Payload<Vec<u8>>,
}

/// What a node on the way to a leaf says: where to go, and what parts that child from the next one.
enum Step {
    Down(ObjectId, Option<Vec<u8>>),
    Leaf(Vec<Found>),
}

impl<K, V> Cursor<K, V> {
    pub(crate) fn new(root: ObjectId, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Self {
        let (backwards, ahead, done) = Default::default();
        Self { root, lower, upper, backwards, ahead, done, types: PhantomData }
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
        let Some(Found { leaf, key, payload }) = self.ahead.pop_front() else { return Ok(None) };
        let key = key::decode(&key).ok_or_else(|| Error::damaged(leaf, "a key of its map is of another type"))?;
        let value = match payload {
            Payload::Here(bytes) => map::decode(leaf, &bytes)?,
            Payload::Elsewhere(object) => tx.load(object).await?,
        };
        Ok(Some((key, value)))
    }

    pub(crate) async fn count_entries<M: Mode>(mut self, tx: &mut Tx<M>) -> Result<usize> {
        let mut count = 0;
        while self.fill(tx).await? {
            count += self.ahead.drain(..).count();
        }
        Ok(count)
    }

    /// Reads leaves until there is an entry to give out; says whether there is one.
    pub(crate) async fn fill<M: Mode>(&mut self, tx: &mut Tx<M>) -> Result<bool> {
        while self.ahead.is_empty() && !self.done {
            self.read_leaf(tx).await?;
        }
        Ok(!self.ahead.is_empty())
    }

    async fn read_leaf<M: Mode>(&mut self, tx: &mut Tx<M>) -> Result<()> {
        let (mut node, mut fence) = (self.root, None);
        for _ in 0..DEPTH_MAX {
            match map::look(tx, self.root, node, |view| self.step_from(node, view)).await? {
                Some(Step::Down(child, parts)) => {
                    node = child;
                    // The fence of a lower node is the nearer one.
                    fence = parts.or(fence);
                }
                Some(Step::Leaf(found)) => {
                    self.ahead.extend(found);
                    self.go_on_at(fence);
                    return Ok(());
                }
                None => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
        Err(Error::damaged(self.root, "its map is deeper than a map can be"))
    }

    fn step_from(&self, node: ObjectId, view: View<'_>) -> Option<Step> {
        if view.is_leaf() { self.entries_of(node, view).map(Step::Leaf) } else { self.child_of(view) }
    }

    fn child_of(&self, view: View<'_>) -> Option<Step> {
        let below = |key: &[u8]| if self.backwards { below_upper(&self.upper, key) } else { reaches(&self.lower, key) };
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
        let start = view.count_below(|key| !above_lower(&self.lower, key))?;
        let end = view.count_below(|key| below_upper(&self.upper, key))?;
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

    /// The rest of the range begins at the fence, unless there is none or it lies outside.
    fn go_on_at(&mut self, fence: Option<Vec<u8>>) {
        match fence {
            Some(fence) if self.backwards => {
                self.done = reaches(&self.lower, &fence);
                self.upper = Bound::Excluded(fence);
            }
            Some(fence) => {
                self.done = !below_upper(&self.upper, &fence);
                self.lower = Bound::Included(fence);
            }
            None => self.done = true,
        }
    }
}

/// Whether `key` is inside of a lower bound.
fn above_lower(lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match lower {
        Bound::Included(bound) => key >= bound.as_slice(),
        Bound::Excluded(bound) => key > bound.as_slice(),
        Bound::Unbounded => true,
    }
}

/// Whether `key` is inside of an upper bound.
fn below_upper(upper: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match upper {
        Bound::Included(bound) => key <= bound.as_slice(),
        Bound::Excluded(bound) => key < bound.as_slice(),
        Bound::Unbounded => true,
    }
}

/// Whether what begins at `key` begins at or before a lower bound.
fn reaches(lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match lower {
        Bound::Included(bound) | Bound::Excluded(bound) => key <= bound.as_slice(),
        Bound::Unbounded => key.is_empty(),
    }
}
