//! The differences between two trees. Equal hashes are equal directories, so the work is that of the changes.

use crate::entry::Entry;
use crate::hash::ChunkHash;
use crate::limits::DEPTH_MAX;
use crate::name::{Name, Path};
use crate::read::entries;
use crate::source::{Malformed, ReadError, Source};
use alloc::vec::Vec;

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
/// is new, gone, or of another kind now is reported together with everything in it.
///
/// # Errors
/// Errors of the source, and malformed nodes.
pub fn diff<S: Source>(
    source: &S,
    older: ChunkHash,
    newer: ChunkHash,
    report: &mut impl FnMut(&Path, Change),
) -> Result<(), ReadError<S::Error>> {
    Differences { source, report, path: Path::ROOT }.of(Some(older), Some(newer))
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
        let list = |directory: Option<ChunkHash>| directory.map_or(Ok(Vec::new()), |hash| entries(self.source, hash));
        let (mut older, mut newer) = (list(older)?.into_iter().peekable(), list(newer)?.into_iter().peekable());
        loop {
            let (name, before, after) = match (older.peek(), newer.peek()) {
                (None, None) => return Ok(()),
                (Some((a, _)), Some((b, _))) if a == b => pair(older.next(), newer.next()),
                (Some((a, _)), Some((b, _))) if a > b => pair(None, newer.next()),
                (None, Some(_)) => pair(None, newer.next()),
                (Some(_), _) => pair(older.next(), None),
            };
            let Some(name) = name else { return Ok(()) };
            self.entry(name, before, after)?;
        }
    }

    fn entry(&mut self, name: Name, before: Option<Entry>, after: Option<Entry>) -> Result<(), ReadError<S::Error>> {
        if before == after {
            return Ok(());
        }
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
fn is_only_below(before: &Entry, after: &Entry) -> bool {
    before.directory().is_some() && after.directory().is_some() && before.attributes == after.attributes
}

type Named = (Name, Entry);

fn pair(before: Option<Named>, after: Option<Named>) -> (Option<Name>, Option<Entry>, Option<Entry>) {
    let name = before.as_ref().or(after.as_ref()).map(|(name, _)| name.clone());
    (name, before.map(|(_, entry)| entry), after.map(|(_, entry)| entry))
}
