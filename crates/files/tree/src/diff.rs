//! The differences between two trees. Equal hashes are equal directories, so the work is that of the changes.

use crate::entry::Entry;
use crate::hash::ChunkHash;
use crate::limits::DEPTH_MAX;
use crate::name::{Name, Path};
use crate::pairs::Pairs;
use crate::read::find_name;
use crate::source::{Malformed, ReadError, Source};

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

/// Returns whether [`diff`] would report a path. A directory whose attributes stay is not reported, only the paths
/// below it. The older tree may be missing.
///
/// # Errors
/// Errors of the source, and malformed nodes.
pub fn differs<S: Source>(
    source: &S,
    older: Option<ChunkHash>,
    newer: ChunkHash,
    path: &Path,
) -> Result<bool, ReadError<S::Error>> {
    let (mut older, mut newer, mut is_same) = (older, Some(newer), true);
    for name in path.names() {
        if older == newer {
            return Ok(false);
        }
        let find = |node: Option<ChunkHash>| node.map_or(Ok(None), |node| find_name(source, node, name));
        let (before, after) = (find(older)?, find(newer)?);
        is_same = match (&before, &after) {
            (Some(before), Some(after)) => before == after || is_only_below(before, after),
            (before, after) => before.is_none() && after.is_none(),
        };
        older = before.as_ref().and_then(Entry::directory);
        newer = after.as_ref().and_then(Entry::directory);
    }
    Ok(!is_same)
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
