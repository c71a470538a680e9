//! Two trees that were made from one base, merged: the head with the changes of another tree.
//!
//! ```text
//!   base --changes--> head                      a path that only one of them has changed: as it is there
//!     \                 + the same changes      a path that both have changed alike: as in the head
//!      +---changes--> new                       a directory in both: entry by entry
//!                                               anything else: a conflict
//! ```
//! The differences between base and head, and those between base and new, are read side by side, so equal directories
//! and equal nodes are skipped. A change of the time alone is no change of a path that the other side has changed. A
//! directory's time is that of its last change, so it is the later of two.

use crate::entry::{Attributes, Entry, Kind};
use crate::hash::ChunkHash;
use crate::limits::{DEPTH_MAX, MERGE_NAMES_MAX, MERGE_NODES_MAX};
use crate::links::Links;
use crate::name::{Name, Path};
use crate::older::Older;
use crate::pairs::{Pair, Pairs};
use crate::rewrite::{Changed, RewriteError, rewrite};
use crate::source::{Counted, Malformed, ReadError, Sink, Source};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::{fmt, mem};

/// A directory in the three trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// The tree that both were made from, if there was one.
    pub base: Option<ChunkHash>,
    /// The tree that receives the changes.
    pub head: ChunkHash,
    /// The tree whose changes are made to the head.
    pub new: ChunkHash,
}

/// The outcome of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The merged tree.
    Tree(ChunkHash, Growth),
    /// Both sides have changed these paths, each in another way; in order. If they are as many as were asked for, there
    /// may be more.
    Conflicts(Vec<Path>),
}

/// How much larger a merged tree is than the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Files and symbolic links.
    pub files: i64,
    /// The bytes of all files.
    pub bytes: i64,
}

/// The reason why trees cannot be merged.
#[derive(Debug, PartialEq, Eq)]
pub enum MergeError<E, K> {
    /// A tree cannot be read.
    Read(ReadError<E>),
    /// The sink failed.
    Sink(K),
    /// The trees differ from their base at more than [`MERGE_NAMES_MAX`] names, or have more than [`MERGE_NODES_MAX`]
    /// nodes there.
    TooMany,
}

impl<E, K> From<ReadError<E>> for MergeError<E, K> {
    fn from(error: ReadError<E>) -> Self {
        Self::Read(error)
    }
}

impl<E, K> From<RewriteError<E, K>> for MergeError<E, K> {
    fn from(error: RewriteError<E, K>) -> Self {
        match error {
            RewriteError::Read(error) => Self::Read(error),
            RewriteError::Sink(error) => Self::Sink(error),
        }
    }
}

impl<E: fmt::Display, K: fmt::Display> fmt::Display for MergeError<E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "{error}"),
            Self::Sink(error) => write!(f, "{error}"),
            Self::TooMany => f.write_str("there are more changes than a merge compares"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display, K: fmt::Debug + fmt::Display> core::error::Error for MergeError<E, K> {}

/// Makes the changes between the base and the new tree to the head. The sink receives the nodes of the merged tree that
/// the head does not have at the same place. Ends when there are `conflicts_max` conflicts.
///
/// # Errors
/// Errors of source and sink, malformed nodes, and too many changes. The sink may have received nodes.
pub fn merge<S: Source, K: Sink>(
    source: &S,
    sides: Sides,
    conflicts_max: usize,
    sink: &mut K,
) -> Result<Merge, MergeError<S::Error, K::Error>> {
    let counted = Counted::new(source);
    let mut walk = Walk {
        source: &counted,
        sink,
        path: Path::ROOT,
        names: 0,
        conflicts: BTreeSet::new(),
        conflicts_max,
        growth: Growth::default(),
        head_links: Links::default(),
        new_links: Links::default(),
    };
    let root = match walk.directory(sides) {
        Ok(root) => Some(root),
        Err(Stop::Conflicts) => None,
        Err(Stop::Error(error)) => return Err(error),
    };
    let Walk { mut conflicts, growth, head_links, new_links, .. } = walk;
    conflicts.extend(new_links.conflicts_with(&head_links).cloned());
    match root.filter(|_| conflicts.is_empty()) {
        Some(root) => Ok(Merge::Tree(root, growth)),
        None => Ok(Merge::Conflicts(conflicts.into_iter().take(conflicts_max).collect())),
    }
}

/// A merge that is under way.
struct Walk<'a, S, K> {
    source: &'a Counted<'a, S>,
    sink: &'a mut K,
    path: Path,
    /// The names that were compared.
    names: usize,
    conflicts: BTreeSet<Path>,
    conflicts_max: usize,
    growth: Growth,
    /// The changes of hard links that one side alone has made.
    head_links: Links,
    new_links: Links,
}

/// One of the two trees that were made from the base.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Head,
    New,
}

/// The entry of a name in the merged tree.
enum Take {
    /// That of the head.
    Head,
    /// Another one, or none.
    Other(Option<Entry>),
}

/// The reason why a walk ends early.
enum Stop<E, K> {
    Conflicts,
    Error(MergeError<E, K>),
}

/// The outcome of a part of a walk.
type Walked<T, S, K> = Result<T, Stop<<S as Source>::Error, <K as Sink>::Error>>;

impl<E, K> From<ReadError<E>> for Stop<E, K> {
    fn from(error: ReadError<E>) -> Self {
        Self::Error(error.into())
    }
}

impl<S: Source, K: Sink> Walk<'_, S, K> {
    /// Merges a directory, and returns its node.
    fn directory(&mut self, at: Sides) -> Walked<ChunkHash, S, K> {
        let Sides { base, head, new } = at;
        if head == new {
            return Ok(head);
        }
        if base == Some(new) {
            return self.below(Side::Head, base, Some(head)).map(|()| head);
        }
        if base == Some(head) {
            return self.below(Side::New, base, Some(new)).map(|()| new);
        }
        self.check_depth(new)?;
        let mut heads = Pairs::new(self.source, base, Some(head));
        let mut news = Pairs::new(self.source, base, Some(new));
        let (mut next_head, mut next_new) = (heads.next()?, news.next()?);
        let mut changes = Vec::new();
        loop {
            let order = match (&next_head, &next_new) {
                (Some((one, ..)), Some((other, ..))) => one.cmp(other),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let of_head = if order.is_le() { mem::replace(&mut next_head, heads.next()?) } else { None };
            let of_new = if order.is_ge() { mem::replace(&mut next_new, news.next()?) } else { None };
            let Some((name, take)) = self.name(of_head, of_new)? else { break };
            if let Take::Other(entry) = take {
                changes.push((name, entry));
            }
        }
        self.write(head, &changes)
    }

    /// Merges the entries of a name that one side or both have changed.
    fn name(&mut self, of_head: Option<Pair>, of_new: Option<Pair>) -> Walked<Option<(Name, Take)>, S, K> {
        self.count()?;
        let (name, before, head, new) = match (of_head, of_new) {
            (Some((name, before, head)), Some((_, _, new))) => (name, before, Some(head), Some(new)),
            (Some((name, before, head)), None) => (name, before, Some(head), None),
            (None, Some((name, before, new))) => (name, before, None, Some(new)),
            (None, None) => return Ok(None),
        };
        self.path.push(name.clone());
        let take = match (head, new) {
            (Some(head), Some(new)) => self.both(before.as_ref(), head, new)?,
            (Some(head), None) => self.one(Side::Head, before.as_ref(), head)?,
            (None, new) => self.one(Side::New, before.as_ref(), new.flatten())?,
        };
        self.path.pop();
        Ok(Some((name, take)))
    }

    /// Takes the entry of the only side that has changed it.
    fn one(&mut self, side: Side, before: Option<&Entry>, after: Option<Entry>) -> Walked<Take, S, K> {
        self.changed(side, before, after.as_ref())?;
        Ok(if side == Side::Head { Take::Head } else { Take::Other(after) })
    }

    /// Merges an entry that both sides have changed.
    fn both(&mut self, before: Option<&Entry>, head: Option<Entry>, new: Option<Entry>) -> Walked<Take, S, K> {
        if let (Some(head), Some(new)) = (&head, &new)
            && let (Some(head_node), Some(new_node)) = (head.directory(), new.directory())
        {
            let before = before.filter(|before| before.directory().is_some());
            let attributes = merged(before.map(|it| &it.attributes), &head.attributes, &new.attributes);
            if attributes.is_none() {
                self.conflict()?;
            }
            let base = before.and_then(Entry::directory);
            let node = self.directory(Sides { base, head: head_node, new: new_node })?;
            let attributes = attributes.unwrap_or_else(|| head.attributes.clone());
            let entry = Entry { kind: Kind::Directory(node), attributes };
            return Ok(if entry == *head { Take::Head } else { Take::Other(Some(entry)) });
        }
        let is_same = |one: Option<&Entry>, other: Option<&Entry>| match (one, other) {
            (Some(one), Some(other)) => one.is_same_but_for_time(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if is_same(head.as_ref(), new.as_ref()) {
            Ok(Take::Head)
        } else if is_same(new.as_ref(), before) {
            self.one(Side::Head, before, head)
        } else if is_same(head.as_ref(), before) {
            self.one(Side::New, before, new)
        } else {
            self.conflict()?;
            Ok(Take::Head)
        }
    }

    /// Records a change that one side alone has made, with everything below it.
    fn changed(&mut self, side: Side, before: Option<&Entry>, after: Option<&Entry>) -> Walked<(), S, K> {
        match side {
            Side::Head => self.head_links.changed(&self.path, before, after),
            Side::New => {
                self.new_links.changed(&self.path, before, after);
                self.growth.add(before, after);
            }
        }
        self.below(side, before.and_then(Entry::directory), after.and_then(Entry::directory))
    }

    /// Records the changes of a directory that one side alone has changed.
    fn below(&mut self, side: Side, before: Option<ChunkHash>, after: Option<ChunkHash>) -> Walked<(), S, K> {
        // The size of the head is known, and removed names are no links.
        let is_removed = side == Side::Head && after.is_none();
        let Some(node) = after.or(before).filter(|_| before != after && !is_removed) else { return Ok(()) };
        self.check_depth(node)?;
        let mut pairs = Pairs::new(self.source, before, after);
        while let Some((name, before, after)) = pairs.next()? {
            self.count()?;
            self.path.push(name);
            self.changed(side, before.as_ref(), after.as_ref())?;
            self.path.pop();
        }
        Ok(())
    }

    /// Writes the directory of the head again with changed entries, and returns its new node.
    fn write(&mut self, head: ChunkHash, changes: &[Changed]) -> Walked<ChunkHash, S, K> {
        if changes.is_empty() || !self.conflicts.is_empty() {
            return Ok(head);
        }
        let older = Older::open(self.source, head)?;
        rewrite(self.source, &older, changes, self.sink).map_err(|error| Stop::Error(error.into()))
    }

    /// Both sides have changed what is at the path.
    fn conflict(&mut self) -> Walked<(), S, K> {
        self.conflicts.insert(self.path.clone());
        if self.conflicts.len() < self.conflicts_max { Ok(()) } else { Err(Stop::Conflicts) }
    }

    fn count(&mut self) -> Walked<(), S, K> {
        self.names += 1;
        let is_within = self.names <= MERGE_NAMES_MAX && self.source.reads() <= MERGE_NODES_MAX;
        if is_within { Ok(()) } else { Err(Stop::Error(MergeError::TooMany)) }
    }

    fn check_depth(&self, node: ChunkHash) -> Walked<(), S, K> {
        if self.path.names().len() < DEPTH_MAX {
            return Ok(());
        }
        Err(ReadError::Malformed(node, Malformed("directories too deep")).into())
    }
}

impl Growth {
    /// Adds a change of an entry, without what is below it.
    pub fn add(&mut self, before: Option<&Entry>, after: Option<&Entry>) {
        let size = |entry: Option<&Entry>| match entry.map(|entry| &entry.kind) {
            Some(Kind::File { size, .. }) => (1, i64::try_from(*size).unwrap_or(i64::MAX)),
            Some(Kind::Symlink(_)) => (1, 0),
            Some(Kind::Directory(_)) | None => (0, 0),
        };
        let (before, after) = (size(before), size(after));
        self.files += after.0 - before.0;
        // A size is checked only when the file is read.
        self.bytes = self.bytes.saturating_add(after.1 - before.1);
    }
}

/// The attributes of a directory that both sides have, each as the side has it that has changed it. None if both have
/// changed one, each in another way.
fn merged(base: Option<&Attributes>, head: &Attributes, new: &Attributes) -> Option<Attributes> {
    Some(Attributes {
        mode: changed(base.map(|base| &base.mode), &head.mode, &new.mode)?,
        uid: changed(base.map(|base| &base.uid), &head.uid, &new.uid)?,
        gid: changed(base.map(|base| &base.gid), &head.gid, &new.gid)?,
        modified: changed(base.map(|base| &base.modified), &head.modified, &new.modified)
            .unwrap_or(head.modified.max(new.modified)),
        xattrs: changed(base.map(|base| &base.xattrs), &head.xattrs, &new.xattrs)?,
    })
}

/// The value that was changed, if both sides have not changed it in different ways.
fn changed<T: Clone + PartialEq>(base: Option<&T>, head: &T, new: &T) -> Option<T> {
    if head == new || base == Some(new) {
        Some(head.clone())
    } else if base == Some(head) {
        Some(new.clone())
    } else {
        None
    }
}
