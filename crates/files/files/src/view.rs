//! A revision of a site, to be read: lists of directories, and the content of files.

use crate::depot::Depot;
use crate::error::FilesError;
use crate::record::Revision;
use bytes::Bytes;
use std::ops::Range;
use tree::{ChunkHash, Content, Entry, Kind, Name, Path, Piece, Source, Tree};

/// The bytes of content that are asked for before they are read.
pub(crate) const AHEAD_BYTES: usize = 32 * 1024 * 1024;

/// A view of a revision. It never changes (rule SessionKeepsView).
#[derive(Debug)]
pub struct View<'a> {
    depot: &'a dyn Depot,
    revision: Revision,
}

impl<'a> View<'a> {
    pub(crate) fn new(depot: &'a dyn Depot, revision: Revision) -> Self {
        Self { depot, revision }
    }

    /// The revision.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The revision's tree.
    pub(crate) fn tree(&self) -> Tree<&'a dyn Depot> {
        Tree::new(self.depot, self.revision.root())
    }

    /// The entry at a path.
    ///
    /// # Errors
    /// [`FilesError::NoPath`], and chunks that cannot be read.
    pub fn find(&self, path: &Path) -> Result<Entry, FilesError> {
        self.tree().find(path)?.ok_or_else(|| FilesError::NoPath(path.to_string()))
    }

    /// The entries of a directory, by name.
    ///
    /// # Errors
    /// [`FilesError::NoPath`], [`FilesError::WrongKind`], and chunks that cannot be read.
    pub fn list(&self, path: &Path) -> Result<Vec<(Name, Entry)>, FilesError> {
        let tree = self.tree();
        if let Some(directory) = tree.directory(path)? {
            return Ok(tree.entries(directory)?);
        }
        self.find(path)?;
        Err(FilesError::WrongKind(path.to_string(), "a directory"))
    }

    /// All directories below one are about to be read.
    pub(crate) fn expect_directories(&self, directory: ChunkHash) -> Result<(), FilesError> {
        self.depot.expect_nodes(directory)
    }

    /// The content of these entries is about to be read, in their order.
    pub(crate) fn expect(&self, entries: &[(Name, Entry)]) -> Result<(), FilesError> {
        let mut pieces = Vec::new();
        for (_, entry) in entries {
            if let Kind::File { size, content: content @ Content::Pieces(_), .. } = &entry.kind {
                pieces.extend(self.pieces(*size, content)?);
            }
        }
        self.expect_pieces(&pieces);
        Ok(())
    }

    /// These pieces are about to be read: as many of them as there is memory for.
    fn expect_pieces(&self, pieces: &[Piece]) {
        let mut bytes = 0;
        let fits = |piece: &&Piece| {
            bytes += piece.bytes as usize;
            bytes <= AHEAD_BYTES
        };
        let hashes: Vec<ChunkHash> = pieces.iter().take_while(fits).map(|piece| piece.hash).collect();
        self.depot.expect_chunks(&hashes);
    }

    /// The pieces of a file's content, if it has them.
    ///
    /// # Errors
    /// Chunks that cannot be read.
    pub(crate) fn pieces(&self, size: u64, content: &Content) -> Result<Vec<Piece>, FilesError> {
        Ok(self.tree().pieces(size, content)?)
    }

    /// Gives `write` the bytes of a range of a file, in order. The range must lie in the file.
    ///
    /// # Errors
    /// [`FilesError::WrongKind`], chunks that cannot be read, and those of `write`.
    pub fn read(
        &self,
        entry: &Entry,
        range: Range<u64>,
        write: &mut dyn FnMut(Bytes) -> Result<(), FilesError>,
    ) -> Result<(), FilesError> {
        let Kind::File { size, content, .. } = &entry.kind else {
            return Err(FilesError::WrongKind("it".to_owned(), "a file"));
        };
        let part = |bytes: &Bytes, at: u64| {
            let within = |place: u64| place.saturating_sub(at).min(bytes.len() as u64) as usize;
            bytes.slice(within(range.start)..within(range.end))
        };
        if let Content::Inline(bytes) = content {
            return write(part(bytes, 0));
        }
        let mut at = 0;
        let pieces = self.pieces(*size, content)?;
        for (index, piece) in pieces.iter().enumerate() {
            let end = at + u64::from(piece.bytes);
            if at < range.end && end > range.start {
                self.expect_pieces(&pieces[index..]);
                write(part(&read_piece(&self.depot, piece)?, at))?;
            }
            at = end;
        }
        Ok(())
    }
}

/// The bytes of a piece of a file.
pub(crate) fn read_piece(source: &impl Source<Error = FilesError>, piece: &Piece) -> Result<Bytes, FilesError> {
    let bytes = source.chunk(&piece.hash)?;
    check_length(&bytes, piece)?;
    Ok(bytes)
}

/// Compares the length of a chunk with that of the piece that it is.
pub(crate) fn check_length(bytes: &Bytes, piece: &Piece) -> Result<(), FilesError> {
    if bytes.len() == piece.bytes as usize {
        return Ok(());
    }
    Err(FilesError::Malformed(format!("chunk {} has another length", piece.hash)))
}
