//! A revision of a site, to be read: lists of directories, and the content of files.

use crate::error::FilesError;
use crate::record::Revision;
use crate::stored::Stored;
use bytes::Bytes;
use chunks::Chunks;
use std::ops::Range;
use tree::{Content, Entry, Kind, Name, Path, Piece, Source, Tree};

/// A view of a revision. It never changes (rule SessionKeepsView).
#[derive(Debug)]
pub struct View<'a> {
    chunks: &'a Chunks,
    revision: Revision,
}

impl<'a> View<'a> {
    pub(crate) fn new(chunks: &'a Chunks, revision: Revision) -> Self {
        Self { chunks, revision }
    }

    /// The revision.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The revision's tree.
    pub(crate) fn tree(&self) -> Tree<Stored<'a>> {
        Tree::new(Stored(self.chunks), self.revision.root())
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
        for piece in self.pieces(*size, content)? {
            let end = at + u64::from(piece.bytes);
            if at < range.end && end > range.start {
                write(part(&read_piece(self.chunks, &piece)?, at))?;
            }
            at = end;
        }
        Ok(())
    }
}

/// The bytes of a piece of a file.
pub(crate) fn read_piece(chunks: &Chunks, piece: &Piece) -> Result<Bytes, FilesError> {
    let bytes = Stored(chunks).chunk(&piece.hash)?;
    if bytes.len() == piece.bytes as usize {
        return Ok(bytes);
    }
    Err(FilesError::Malformed(format!("chunk {} has another length", piece.hash)))
}
