//! Two directories side by side, name by name. Nodes that both have are skipped, and nodes are read only when their
//! turn comes, so a caller that stops early has not read the rest.

use crate::entry::Entry;
use crate::hash::ChunkHash;
use crate::name::Name;
use crate::node::Node;
use crate::read::node;
use crate::source::{Malformed, ReadError, Source};
use alloc::vec::{self, Vec};
use core::cmp::{Ordering, Reverse};
use core::iter::Peekable;

/// A name at which two directories differ, with its entry in the older and in the newer one.
pub(crate) type Pair = (Name, Option<Entry>, Option<Entry>);

/// The names at which two directories differ, in order.
pub(crate) struct Pairs<'a, S> {
    source: &'a S,
    older: Cursor,
    newer: Cursor,
}

/// A place in a directory.
struct Cursor {
    /// The rest of the leaf that was read last.
    entries: Peekable<vec::IntoIter<(Name, Entry)>>,
    /// The nodes behind it, the next one last.
    unread: Vec<Unread>,
    /// The last name that was read, as names must ascend.
    last: Option<Name>,
}

/// A node that was not read yet.
struct Unread {
    hash: ChunkHash,
    /// The first name in it, as its index says; none for the topmost node.
    first: Option<Name>,
    /// The level, as its index says; none for the topmost node.
    level: Option<u8>,
}

/// The next thing of a cursor.
enum Head<'a> {
    Entry(&'a Name),
    Node(&'a Unread),
    End,
}

/// The next step of two cursors.
enum Act {
    SkipBoth,
    ReadOlder,
    ReadNewer,
    TakeBoth,
    TakeOlder,
    TakeNewer,
    End,
}

impl<'a, S: Source> Pairs<'a, S> {
    /// Compares two directories. A missing one has no names.
    pub(crate) fn new(source: &'a S, older: Option<ChunkHash>, newer: Option<ChunkHash>) -> Self {
        Self { source, older: Cursor::new(older), newer: Cursor::new(newer) }
    }

    /// The next name at which the directories differ.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub(crate) fn next(&mut self) -> Result<Option<Pair>, ReadError<S::Error>> {
        loop {
            let (before, after) = match act(&self.older.head(), &self.newer.head()) {
                Act::SkipBoth => {
                    self.older.unread.pop();
                    self.newer.unread.pop();
                    continue;
                }
                Act::ReadOlder => {
                    self.older.read(self.source)?;
                    continue;
                }
                Act::ReadNewer => {
                    self.newer.read(self.source)?;
                    continue;
                }
                Act::TakeBoth => (self.older.entries.next(), self.newer.entries.next()),
                Act::TakeOlder => (self.older.entries.next(), None),
                Act::TakeNewer => (None, self.newer.entries.next()),
                Act::End => return Ok(None),
            };
            if before == after {
                continue;
            }
            let name = before.as_ref().or(after.as_ref()).map(|(name, _)| name.clone());
            let entry = |named: Option<(Name, Entry)>| named.map(|(_, entry)| entry);
            return Ok(name.map(|name| (name, entry(before), entry(after))));
        }
    }
}

fn act(older: &Head<'_>, newer: &Head<'_>) -> Act {
    match (older, newer) {
        (Head::End, Head::End) => Act::End,
        (Head::Node(a), Head::Node(b)) if a.hash == b.hash => Act::SkipBoth,
        (Head::Node(a), Head::Node(b)) if a.is_read_before(b) => Act::ReadOlder,
        (Head::Node(_), Head::Node(_)) => Act::ReadNewer,
        (Head::Entry(a), Head::Entry(b)) => match a.cmp(b) {
            Ordering::Less => Act::TakeOlder,
            Ordering::Equal => Act::TakeBoth,
            Ordering::Greater => Act::TakeNewer,
        },
        (Head::Node(a), Head::Entry(b)) if a.is_behind(b) => Act::TakeNewer,
        (Head::Entry(a), Head::Node(b)) if b.is_behind(a) => Act::TakeOlder,
        (Head::Node(_), _) => Act::ReadOlder,
        (_, Head::Node(_)) => Act::ReadNewer,
        (Head::Entry(_), Head::End) => Act::TakeOlder,
        (Head::End, Head::Entry(_)) => Act::TakeNewer,
    }
}

impl Cursor {
    fn new(directory: Option<ChunkHash>) -> Self {
        let top = directory.map(|hash| Unread { hash, first: None, level: None });
        Self { entries: Vec::new().into_iter().peekable(), unread: top.into_iter().collect(), last: None }
    }

    fn head(&mut self) -> Head<'_> {
        match (self.entries.peek(), self.unread.last()) {
            (Some((name, _)), _) => Head::Entry(name),
            (None, Some(node)) => Head::Node(node),
            (None, None) => Head::End,
        }
    }

    /// Replaces the next node by what is in it.
    fn read<S: Source>(&mut self, source: &S) -> Result<(), ReadError<S::Error>> {
        let Some(Unread { hash, first, level }) = self.unread.pop() else { return Ok(()) };
        let node = node(source, hash, level)?;
        let own = match &node {
            Node::Leaf(entries) => entries.first().map(|(name, _)| name.clone()),
            Node::Index { below, .. } => below.first().map(|(name, _)| name.clone()),
        };
        // A node was perhaps passed over for the name in its index, so that must be right.
        if first.is_some() && first != own {
            return Err(ReadError::Malformed(
                hash,
                Malformed("a node that begins with another name than in its index"),
            ));
        }
        match node {
            Node::Leaf(entries) => {
                if own.is_some() && self.last >= own {
                    return Err(ReadError::Malformed(hash, Malformed("names out of order")));
                }
                self.last = entries.last().map(|(name, _)| name.clone());
                self.entries = entries.into_iter().peekable();
            }
            Node::Index { level, below } => {
                let unread = |(first, hash)| Unread { hash, first: Some(first), level: Some(level - 1) };
                self.unread.extend(below.into_iter().rev().map(unread));
            }
        }
        Ok(())
    }
}

impl Unread {
    /// Whether this node is read before another one: the higher one, so that both come to the nodes that they share,
    /// or the one that begins earlier.
    fn is_read_before(&self, other: &Self) -> bool {
        let rank = |node: &Self| node.level.map_or(u16::MAX, u16::from);
        (rank(self), Reverse(&self.first)) >= (rank(other), Reverse(&other.first))
    }

    /// Whether all names in the node are behind a name.
    fn is_behind(&self, name: &Name) -> bool {
        self.first.as_ref().is_some_and(|first| first > name)
    }
}
