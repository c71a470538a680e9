//! Verification: every chunk of a site is read, and a damaged one is named by the first path that needs it.

use super::Sites;
use crate::depot::Depot;
use crate::error::FilesError;
use crate::record::{Revision, SiteName};
use bytes::Bytes;
use chunks::ChunkError;
use std::collections::HashSet;
use std::fmt;
use std::mem;
use tree::{ChunkHash, Malformed, Needed, Part, Path, ReadError, Visitor, walk};

/// A chunk that is missing, damaged or malformed, and the first place that needs it.
#[derive(Debug)]
pub struct Damage {
    /// The newest revision that needs the chunk.
    pub revision: u64,
    /// The first file or directory in it that needs the chunk.
    pub path: Path,
    /// The part of the file or directory that the chunk is.
    pub part: Part,
    /// The reason why it cannot be used.
    pub error: FilesError,
}

impl Damage {
    /// Whether chunks are known through this one alone: they were not checked.
    pub fn hides_more(&self) -> bool {
        match self.part {
            Part::Directory | Part::List => true,
            Part::Piece => false,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, error, .. } = self;
        match self.part {
            Part::Directory => write!(f, "the directory {path}: {error}; nothing below this chunk was checked"),
            Part::List => write!(f, "{path}: {error}; the content that this chunk lists was not checked"),
            Part::Piece => write!(f, "{path}: {error}"),
        }
    }
}

/// Pieces of content that are read together.
const PIECES_AT_A_TIME: usize = 64;

/// A verification, revision by revision.
struct Verifier<'a> {
    depot: &'a dyn Depot,
    /// Nodes and lists that were read.
    nodes: HashSet<ChunkHash>,
    /// Content that was read, or will be. A file may have the bytes of a node, which has more below it.
    pieces: HashSet<ChunkHash>,
    /// Content that is to be read, and the file that needs it.
    next: Vec<(ChunkHash, Path)>,
    whole: HashSet<ChunkHash>,
    revision: u64,
    report: &'a mut dyn FnMut(Damage),
}

impl Verifier<'_> {
    fn revision(&mut self, site: &SiteName, revision: &Revision) -> Result<(), FilesError> {
        self.revision = revision.number;
        self.depot.hold(site, revision)?;
        self.depot.expect_nodes(revision.root())?;
        walk(revision.root(), self)?;
        self.read_next()
    }

    fn damaged(&mut self, part: Part, path: &Path, error: FilesError) {
        (self.report)(Damage { revision: self.revision, path: path.clone(), part, error });
    }

    /// Reads a chunk, and reports it if that fails.
    fn read(&mut self, hash: ChunkHash, part: Part, path: &Path) -> Result<Option<Bytes>, FilesError> {
        match self.depot.chunk(&hash) {
            Ok(bytes) => {
                self.whole.insert(hash);
                Ok(Some(bytes))
            }
            Err(error @ (FilesError::MissingChunk(_) | FilesError::Chunks(ChunkError::Damaged { .. }))) => {
                if part != Part::Piece {
                    // Reports are in the order of paths.
                    self.read_next()?;
                }
                self.damaged(part, path, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the content that is to be read.
    fn read_next(&mut self) -> Result<(), FilesError> {
        let next = mem::take(&mut self.next);
        self.depot.expect_chunks(&next.iter().map(|(hash, _)| *hash).collect::<Vec<_>>());
        next.iter().try_for_each(|(hash, path)| self.read(*hash, Part::Piece, path).map(drop))
    }
}

impl Visitor for Verifier<'_> {
    type Error = FilesError;

    fn chunk(&mut self, needed: Needed<'_>) -> Result<Option<Bytes>, FilesError> {
        let Needed { hash, part, path } = needed;
        let seen = if part == Part::Piece { &mut self.pieces } else { &mut self.nodes };
        if !seen.insert(hash) {
            return Ok(None);
        }
        if part != Part::Piece {
            return self.read(hash, part, path);
        }
        self.next.push((hash, path.clone()));
        if self.next.len() >= PIECES_AT_A_TIME {
            self.read_next()?;
        }
        Ok(None)
    }

    fn malformed(&mut self, needed: Needed<'_>, why: Malformed) -> Result<(), FilesError> {
        let Needed { hash, part, path } = needed;
        self.read_next()?;
        self.damaged(part, path, ReadError::<FilesError>::Malformed(hash, why).into());
        Ok(())
    }
}

impl Sites {
    /// Reads every chunk of every kept revision of a site once, and reports those that are missing, damaged or
    /// malformed. Chunks below such a node are not read, all others are. Returns how many are whole.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn verify(&self, site: &SiteName, report: &mut dyn FnMut(Damage)) -> Result<u64, FilesError> {
        let (nodes, pieces, depot) = (HashSet::new(), HashSet::new(), &*self.depot);
        let mut verifier =
            Verifier { depot, nodes, pieces, next: Vec::new(), whole: HashSet::new(), revision: 0, report };
        for revision in self.log(site)? {
            match verifier.revision(site, &revision) {
                // The revision was removed before it was held: the rest of its chunks is not needed.
                Err(FilesError::NoRevision(..)) => verifier.next.clear(),
                checked => checked?,
            }
        }
        Ok(verifier.whole.len() as u64)
    }
}
