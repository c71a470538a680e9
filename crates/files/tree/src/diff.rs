//! The differences between two trees. Equal hashes are equal directories, so the work is that of the changes.

use crate::entry::Entry;
use crate::hash::ChunkHash;
use crate::limits::DEPTH_MAX;
use crate::name::{Name, Path};
use crate::node::Node;
use crate::pairs::Pairs;
use crate::read::{find, node};
use crate::source::{Malformed, ReadError, Source};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;

/// A difference at a path, from the older tree to the newer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The entry is new.
    Added(Entry),
    /// The entry is gone.
    Removed(Entry),
    /// The entry has other content, another kind, or only other attributes.
    Changed(Entry, Entry),
}

/// Reports the differences between two trees, by path: of a directory its own before those below it. A directory that
/// is new, gone, or of another kind now is reported together with everything in it. Without an older tree, everything
/// is new.
///
/// # Errors
/// Errors of the source, and malformed nodes.
pub fn diff<S: Source>(
    source: &S,
    older: impl Into<Option<ChunkHash>>,
    newer: ChunkHash,
    report: &mut impl FnMut(&Path, Change),
) -> Result<(), ReadError<S::Error>> {
    Differences { source, report, path: Path::ROOT }.of(older.into(), Some(newer))
}

/// The nodes that a comparison keeps: those of a few directories with all their levels.
const NODES_MAX: usize = 64;

/// Two trees that are compared at single paths. Paths in order share the nodes that are read for them.
#[derive(Debug)]
pub struct Comparison<'a, S> {
    source: &'a S,
    older: Option<ChunkHash>,
    newer: ChunkHash,
    /// The nodes that were read last.
    nodes: BTreeMap<ChunkHash, Rc<Node>>,
}

impl<'a, S: Source> Comparison<'a, S> {
    /// Compares two trees, of which the older one may be missing.
    pub fn new(source: &'a S, older: Option<ChunkHash>, newer: ChunkHash) -> Self {
        Self { source, older, newer, nodes: BTreeMap::new() }
    }

    /// Returns whether [`diff`] would report a path. A directory whose attributes stay is not reported, only the paths
    /// below it.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub fn differs(&mut self, path: &Path) -> Result<bool, ReadError<S::Error>> {
        let (mut older, mut newer, mut is_same) = (self.older, Some(self.newer), true);
        for name in path.names() {
            if older == newer {
                return Ok(false);
            }
            let (before, after) = (self.find(older, name)?, self.find(newer, name)?);
            is_same = match (&before, &after) {
                (Some(before), Some(after)) => before == after || is_only_below(before, after),
                (before, after) => before.is_none() && after.is_none(),
            };
            older = before.as_ref().and_then(Entry::directory);
            newer = after.as_ref().and_then(Entry::directory);
        }
        Ok(!is_same)
    }

    fn find(&mut self, directory: Option<ChunkHash>, name: &Name) -> Result<Option<Entry>, ReadError<S::Error>> {
        directory.map_or(Ok(None), |directory| find(directory, name, |hash| self.node(hash)))
    }

    fn node(&mut self, hash: &ChunkHash) -> Result<Rc<Node>, ReadError<S::Error>> {
        if let Some(node) = self.nodes.get(hash) {
            return Ok(node.clone());
        }
        let read = Rc::new(node(self.source, *hash, None)?);
        if self.nodes.len() >= NODES_MAX {
            self.nodes.clear();
        }
        self.nodes.insert(*hash, read.clone());
        Ok(read)
    }
}

struct Differences<'a, S, R> {
    source: &'a S,
    report: &'a mut R,
    path: Path,
}

impl<S: Source, R: FnMut(&Path, Change)> Differences<'_, S, R> {
    /// Compares two directories, of which one may be missing.
    fn of(&mut self, older: Option<ChunkHash>, newer: Option<ChunkHash>) -> Result<(), ReadError<S::Error>> {
        if older == newer {
            return Ok(());
        }
        if let Some(hash) = newer.or(older).filter(|_| self.path.names().len() >= DEPTH_MAX) {
            return Err(ReadError::Malformed(hash, Malformed("directories too deep")));
        }
        let mut pairs = Pairs::new(self.source, older, newer);
        while let Some((name, before, after)) = pairs.next()? {
            self.entry(name, before, after)?;
        }
        Ok(())
    }

    fn entry(&mut self, name: Name, before: Option<Entry>, after: Option<Entry>) -> Result<(), ReadError<S::Error>> {
        let directories = [&before, &after].map(|entry| entry.as_ref().and_then(Entry::directory));
        self.path.push(name);
        match (before, after) {
            (Some(before), Some(after)) if is_only_below(&before, &after) => {}
            (Some(before), Some(after)) => (self.report)(&self.path, Change::Changed(before, after)),
            (Some(before), None) => (self.report)(&self.path, Change::Removed(before)),
            (None, Some(after)) => (self.report)(&self.path, Change::Added(after)),
            (None, None) => {}
        }
        let [older, newer] = directories;
        self.of(older, newer)?;
        self.path.pop();
        Ok(())
    }
}

/// Whether two entries are directories with the same attributes.
pub(crate) fn is_only_below(before: &Entry, after: &Entry) -> bool {
    before.directory().is_some() && after.directory().is_some() && before.attributes == after.attributes
}
