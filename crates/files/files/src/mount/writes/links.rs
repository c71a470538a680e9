//! The names of files that have several: a change of such a file changes the entries of all its names.

use crate::error::FilesError;
use std::collections::{BTreeSet, HashMap};
use tree::{Change, ChunkHash, Entry, Kind, Path, Source, diff};

/// The names of a tree's hard links, by their number.
#[derive(Debug, Default)]
pub(in crate::mount) struct HardLinks {
    root: Option<ChunkHash>,
    names: HashMap<u64, BTreeSet<Path>>,
}

impl HardLinks {
    /// The names of a file in a tree. Only the differences from the last tree are read.
    pub(in crate::mount) fn names<S>(
        &mut self,
        source: &S,
        root: ChunkHash,
        link: u64,
    ) -> Result<BTreeSet<Path>, FilesError>
    where
        S: Source<Error = FilesError>,
    {
        if self.root != Some(root) {
            // An error leaves no root, and everything is read again.
            let older = self.root.take();
            if older.is_none() {
                self.names.clear();
            }
            self.follow(source, older, root)?;
            self.root = Some(root);
        }
        Ok(self.names.get(&link).cloned().unwrap_or_default())
    }

    fn follow<S: Source<Error = FilesError>>(
        &mut self,
        source: &S,
        older: Option<ChunkHash>,
        newer: ChunkHash,
    ) -> Result<(), FilesError> {
        let names = &mut self.names;
        let mut report = |path: &Path, change: Change| {
            let (before, after) = match &change {
                Change::Added(after) => (None, Some(after)),
                Change::Removed(before) => (Some(before), None),
                Change::Changed(before, after) => (Some(before), Some(after)),
            };
            if let Some(link) = before.and_then(link_of)
                && let Some(of_link) = names.get_mut(&link)
            {
                of_link.remove(path);
                if of_link.is_empty() {
                    names.remove(&link);
                }
            }
            if let Some(link) = after.and_then(link_of) {
                names.entry(link).or_default().insert(path.clone());
            }
        };
        Ok(diff(source, older, newer, &mut report)?)
    }
}

/// The number of a file's hard links, if it has more than one name.
pub(in crate::mount) fn link_of(entry: &Entry) -> Option<u64> {
    match entry.kind {
        Kind::File { link, .. } if link > 0 => Some(link),
        Kind::File { .. } | Kind::Directory(_) | Kind::Symlink(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::Made;
    use bytes::Bytes;
    use tree::{Attributes, Content, Name, write_directory};

    #[derive(Default)]
    struct Chunks(HashMap<ChunkHash, Bytes>);

    impl Source for Chunks {
        type Error = FilesError;

        fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
            self.0.get(hash).cloned().ok_or(FilesError::MissingChunk(*hash))
        }
    }

    fn root(chunks: &mut Chunks, files: &[(&str, u64)]) -> ChunkHash {
        let entry = |(name, link): &(&str, u64)| {
            let kind = Kind::File { size: 0, content: Content::Inline(Bytes::new()), link: *link };
            (Name::new(name.as_bytes()).unwrap(), Entry { kind, attributes: Attributes::default() })
        };
        let mut made = Made::default();
        let root = write_directory(&files.iter().map(entry).collect::<Vec<_>>(), &mut made).unwrap();
        chunks.0.extend(made.0);
        root
    }

    #[test]
    fn names_follow_from_tree_to_tree() {
        let (mut chunks, mut links) = (Chunks::default(), HardLinks::default());
        let first = root(&mut chunks, &[("a", 7), ("b", 0), ("c", 7), ("d", 9)]);
        let second = root(&mut chunks, &[("a", 7), ("b", 9), ("d", 9)]);
        let mut names = |chunks: &Chunks, root, link| {
            let names = links.names(chunks, root, link).map_err(|error| error.name())?;
            Ok::<_, &str>(names.iter().map(Path::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!((names(&chunks, first, 7), names(&chunks, first, 9)), (Ok("a c".into()), Ok("d".into())));
        assert_eq!((names(&chunks, second, 7), names(&chunks, second, 9)), (Ok("a".into()), Ok("b d".into())));
        // An older tree, behind one that cannot be read.
        assert_eq!(names(&Chunks::default(), first, 7), Err("missing-chunk"));
        assert_eq!(names(&chunks, first, 7), Ok("a c".into()));
    }
}
