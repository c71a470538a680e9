//! The differences between two trees as a short list, so that a small change is a small message.
//!
//! A list is sorted by path, has each path once, and edits nothing below an entry that it sets or removes. So a
//! directory's own edit comes before those below it, and the edits can be applied in their order.

use crate::diff::is_only_below;
use crate::edit::{Edit, get_edit, put_edit};
use crate::entry::{Content, Entry, Kind};
use crate::hash::ChunkHash;
use crate::limits::{DEPTH_MAX, EDIT_PATHS_BYTES_MAX, EDITS_BYTES_MAX, EDITS_MAX};
use crate::name::{Name, Path};
use crate::node::write_directory;
use crate::older::Older;
use crate::pairs::{Pair, Pairs};
use crate::read::named;
use crate::rewrite::{RewriteError, rewrite};
use crate::source::{Malformed, ReadError, Sink, Source};
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

/// Edits that turn a tree into another one, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    list: Vec<Edit>,
    /// The encoding. It grows with the list, so its bounds hold at every moment.
    encoded: Vec<u8>,
    /// The bytes of all paths.
    path_bytes: usize,
}

impl Edits {
    /// Checks a list of edits, and returns it.
    ///
    /// # Errors
    /// Edits out of order, of the root, or below an entry that is set or removed; a directory in a [`Edit::Set`]; and
    /// more edits than the [limits](crate::limits) allow.
    pub fn new(list: Vec<Edit>) -> Result<Self, Malformed> {
        let mut edits = Self::default();
        list.into_iter().try_for_each(|edit| edits.push(edit))?;
        Ok(edits)
    }

    /// Returns the edits that turn `older` into `newer`. Returns none if there are more than `count_max`, if their
    /// encoding has more than `bytes_max` bytes, or if they exceed the [limits](crate::limits); the rest of the trees
    /// is not read in that case. A directory that has the entries of the older one, cut otherwise, has no edits either.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub fn between<S: Source>(
        source: &S,
        older: ChunkHash,
        newer: ChunkHash,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Self>, ReadError<S::Error>> {
        if older == newer {
            return Ok(Some(Self::default()));
        }
        let mut walk = Walk { source, edits: Self::default(), path: Path::ROOT, count_max, bytes_max };
        match walk.directory(Some(older), newer) {
            Ok(()) => Ok(Some(walk.edits)),
            Err(Stop::NoEdits) => Ok(None),
            Err(Stop::Read(error)) => Err(error),
        }
    }

    /// Applies the edits to a tree, and returns the root of the new one. The sink receives the nodes that the edited
    /// directories did not have. Directories that are on no path of an edit are not read.
    ///
    /// # Errors
    /// Errors of source and sink, malformed nodes, and an edit below what is not a directory. The sink may have
    /// received nodes of the new tree.
    pub fn apply<S: Source, K: Sink>(
        &self,
        source: &S,
        older: ChunkHash,
        sink: &mut K,
    ) -> Result<ChunkHash, ApplyError<S::Error, K::Error>> {
        apply(source, older, &self.list, sink)
    }

    /// Returns the edits, by path.
    pub fn list(&self) -> &[Edit] {
        &self.list
    }

    /// Returns the chunks of content that the set files name: pieces and lists, but not the pieces in the lists. A
    /// chunk that is named twice is returned twice.
    pub fn content(&self) -> impl Iterator<Item = ChunkHash> {
        self.list.iter().flat_map(|edit| match edit {
            Edit::Set(_, entry) => named(entry),
            Edit::Directory(..) | Edit::Remove(_) => Vec::new(),
        })
    }

    /// Whether a file is set whose pieces are in lists.
    pub fn has_lists(&self) -> bool {
        let is_list = |entry: &Entry| matches!(&entry.kind, Kind::File { content: Content::Lists(_), .. });
        self.list.iter().any(|edit| matches!(edit, Edit::Set(_, entry) if is_list(entry)))
    }

    /// Returns the edits as bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.encoded.clone()
    }

    /// Reads edits from bytes, and returns them.
    ///
    /// # Errors
    /// Bytes that [`encode`](Self::encode) does not return.
    pub fn decode(mut bytes: Bytes) -> Result<Self, Malformed> {
        let (mut edits, whole) = (Self::default(), bytes.clone());
        while !bytes.is_empty() {
            let edit = get_edit(&mut bytes, edits.list.last())?;
            edits.push(edit)?;
        }
        if edits.encoded == whole { Ok(edits) } else { Err(Malformed("a path that shares more with the one before")) }
    }

    fn push(&mut self, edit: Edit) -> Result<(), Malformed> {
        let names = edit.path().names();
        if names.is_empty() || names.len() > DEPTH_MAX {
            return Err(Malformed("an edit of the root, or too deep"));
        }
        let shared = match self.list.last() {
            Some(last) if last.path() >= edit.path() => return Err(Malformed("edits out of order")),
            Some(Edit::Set(above, _) | Edit::Remove(above)) if names.starts_with(above.names()) => {
                return Err(Malformed("an edit below an entry that is set or removed"));
            }
            Some(last) => last.path().names().iter().zip(names).take_while(|(a, b)| a == b).count(),
            None => 0,
        };
        if matches!(&edit, Edit::Set(_, entry) if entry.directory().is_some()) {
            return Err(Malformed("a directory that is set like a file"));
        }
        self.path_bytes += names.iter().map(|name| 1 + name.as_bytes().len()).sum::<usize>();
        put_edit(&mut self.encoded, shared, &edit);
        self.list.push(edit);
        let is_within = self.list.len() <= EDITS_MAX
            && self.encoded.len() <= EDITS_BYTES_MAX
            && self.path_bytes <= EDIT_PATHS_BYTES_MAX;
        if is_within { Ok(()) } else { Err(Malformed("too many edits, or too long ones")) }
    }
}

/// Applies edits to a tree, and returns the root of the new one. The edits are sorted by path, have each path once, and
/// none is below an entry that is set or removed. An [`Edit::Set`] may place a directory that is in the tree already.
/// The sink receives the nodes that the edited directories did not have.
///
/// # Errors
/// As of [`Edits::apply`].
pub fn apply<S: Source, K: Sink>(
    source: &S,
    older: ChunkHash,
    edits: &[Edit],
    sink: &mut K,
) -> Result<ChunkHash, ApplyError<S::Error, K::Error>> {
    if edits.is_empty() {
        return Ok(older);
    }
    Apply { source, sink }.directory(Some(older), edits, 0)
}

/// A comparison of two trees that collects edits.
struct Walk<'a, S> {
    source: &'a S,
    edits: Edits,
    path: Path,
    count_max: usize,
    bytes_max: usize,
}

/// The reason why a comparison ended early.
enum Stop<E> {
    /// There are too many edits, or none can say the difference.
    NoEdits,
    Read(ReadError<E>),
}

impl<E> From<ReadError<E>> for Stop<E> {
    fn from(error: ReadError<E>) -> Self {
        Self::Read(error)
    }
}

impl<S: Source> Walk<'_, S> {
    /// Compares two directories with different hashes, of which the older one may be missing.
    fn directory(&mut self, older: Option<ChunkHash>, newer: ChunkHash) -> Result<(), Stop<S::Error>> {
        if self.path.names().len() >= DEPTH_MAX {
            return Err(ReadError::Malformed(newer, Malformed("directories too deep")).into());
        }
        let count = self.edits.list.len();
        let mut pairs = Pairs::new(self.source, older, Some(newer));
        while let Some(pair) = pairs.next()? {
            self.entry(pair)?;
        }
        // Directories that are cut otherwise could also be named so often that their comparison would not end, as only
        // edits are counted.
        if older.is_some() && self.edits.list.len() == count { Err(Stop::NoEdits) } else { Ok(()) }
    }

    fn entry(&mut self, (name, before, after): Pair) -> Result<(), Stop<S::Error>> {
        self.path.push(name);
        match after {
            None => self.add(Edit::Remove(self.path.clone()))?,
            Some(Entry { kind: Kind::Directory(newer), ref attributes }) => {
                let is_only_below = before.as_ref().zip(after.as_ref()).is_some_and(|(a, b)| is_only_below(a, b));
                if !is_only_below {
                    self.add(Edit::Directory(self.path.clone(), attributes.clone()))?;
                }
                let older = before.as_ref().and_then(Entry::directory);
                if older != Some(newer) {
                    self.directory(older, newer)?;
                }
            }
            Some(entry) => self.add(Edit::Set(self.path.clone(), entry))?,
        }
        self.path.pop();
        Ok(())
    }

    fn add(&mut self, edit: Edit) -> Result<(), Stop<S::Error>> {
        // The order is right here, so only a limit can refuse an edit.
        self.edits.push(edit).map_err(|_| Stop::NoEdits)?;
        let is_within = self.edits.list.len() <= self.count_max && self.edits.encoded.len() <= self.bytes_max;
        if is_within { Ok(()) } else { Err(Stop::NoEdits) }
    }
}

/// The reason why edits cannot be applied.
#[derive(Debug, PartialEq, Eq)]
pub enum ApplyError<E, K> {
    /// The older tree cannot be read.
    Read(ReadError<E>),
    /// The sink failed.
    Sink(K),
    /// There is an edit below a path that is not a directory. The edits were made for another tree.
    NotDirectory(Path),
}

impl<E, K> From<ReadError<E>> for ApplyError<E, K> {
    fn from(error: ReadError<E>) -> Self {
        Self::Read(error)
    }
}

impl<E, K> From<RewriteError<E, K>> for ApplyError<E, K> {
    fn from(error: RewriteError<E, K>) -> Self {
        match error {
            RewriteError::Read(error) => Self::Read(error),
            RewriteError::Sink(error) => Self::Sink(error),
        }
    }
}

impl<E: fmt::Display, K: fmt::Display> fmt::Display for ApplyError<E, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "{error}"),
            Self::Sink(error) => write!(f, "{error}"),
            Self::NotDirectory(path) => {
                write!(f, "'{path}' is not a directory, and is edited as one: the edits are for another tree")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display, K: fmt::Debug + fmt::Display> core::error::Error for ApplyError<E, K> {}

/// Edits that are being applied.
struct Apply<'a, S, K> {
    source: &'a S,
    sink: &'a mut K,
}

impl<S: Source, K: Sink> Apply<'_, S, K> {
    /// Writes a directory again with edits, whose paths have the same names above `depth`, and returns its new node.
    fn directory(
        &mut self,
        older: Option<ChunkHash>,
        edits: &[Edit],
        depth: usize,
    ) -> Result<ChunkHash, ApplyError<S::Error, K::Error>> {
        let mut older = older.map(|hash| Older::open(self.source, hash)).transpose()?;
        let mut changes = Vec::new();
        for group in edits.chunk_by(|a, b| name(a, depth) == name(b, depth)) {
            let Some(name) = group.first().and_then(|edit| name(edit, depth)) else { continue };
            let before = older.as_mut().map_or(Ok(None), |older| older.find(self.source, name))?.cloned();
            changes.push((name.clone(), self.entry(before, group, depth)?));
        }
        let Some(older) = older else {
            let entries = changes.into_iter().filter_map(|(name, entry)| Some((name, entry?)));
            return write_directory(&entries.collect::<Vec<_>>(), self.sink).map_err(ApplyError::Sink);
        };
        Ok(rewrite(self.source, &older, &changes, self.sink)?)
    }

    /// Applies the edits of a name and of everything below it to its entry.
    fn entry(
        &mut self,
        before: Option<Entry>,
        edits: &[Edit],
        depth: usize,
    ) -> Result<Option<Entry>, ApplyError<S::Error, K::Error>> {
        let (own, below) = match edits.split_first() {
            Some((own, below)) if own.path().names().len() == depth + 1 => (Some(own), below),
            _ => (None, edits),
        };
        let directory = before.as_ref().and_then(Entry::directory);
        let attributes = match (own, before) {
            (Some(Edit::Set(_, entry)), _) => return Ok(Some(entry.clone())),
            (Some(Edit::Remove(_)), _) => return Ok(None),
            (Some(Edit::Directory(_, attributes)), _) => attributes.clone(),
            (None, Some(entry)) if directory.is_some() => entry.attributes,
            (None, _) => return Err(ApplyError::NotDirectory(cut(edits, depth + 1))),
        };
        let hash = match directory {
            Some(hash) if below.is_empty() => hash,
            _ => self.directory(directory, below, depth + 1)?,
        };
        Ok(Some(Entry { kind: Kind::Directory(hash), attributes }))
    }
}

/// The name in an edit's path at a depth.
fn name(edit: &Edit, depth: usize) -> Option<&Name> {
    edit.path().names().get(depth)
}

/// The first names of the first edit's path.
fn cut(edits: &[Edit], count: usize) -> Path {
    let names = edits.first().map_or(&[][..], |edit| edit.path().names());
    names.iter().take(count).fold(Path::ROOT, |path, name: &Name| path.join(name))
}
