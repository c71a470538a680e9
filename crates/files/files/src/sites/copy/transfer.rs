//! The chunks of a tree, from one place to another that perhaps has a part of them.

use crate::depot::Depot;
use crate::error::FilesError;
use crate::record::{Revision, SiteName};
use crate::upload::Upload;
use bytes::Bytes;
use chunks::ChunkError;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use tree::{ChunkHash, Malformed, Needed, Part, Path, ReadError, Sink, Source, Step, Visitor, descend, walk};

/// The nodes that a round of a descent reads.
const BUDGET: usize = 4096;

/// Chunks that are asked for together.
const CHUNKS_AT_A_TIME: usize = 64;

/// The bytes of nodes that stay in memory until they are read. Others are read again.
const READ_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A transfer of trees.
pub(crate) struct Transfer<'a> {
    pub(crate) from: &'a dyn Depot,
    pub(crate) to: &'a dyn Depot,
    /// The site in whose name chunks are stored.
    pub(crate) site: &'a SiteName,
    /// Whether chunks that are there are read, and written again if they are damaged.
    pub(crate) repairs: bool,
}

impl Transfer<'_> {
    /// Transfers the chunks of a revision that are missing; they are durable on return. The tree `older` is there as a
    /// whole: what both have at the same place is not looked at. `on` is called behind each chunk.
    ///
    /// # Errors
    /// [`FilesError::NotWhole`] with the path that needs a chunk that the source lacks, errors of both places, and what
    /// `on` returns.
    pub(crate) fn revision(
        &self,
        site: &SiteName,
        revision: &Revision,
        older: Option<ChunkHash>,
        on: &mut dyn FnMut(usize) -> Result<(), FilesError>,
    ) -> Result<(), FilesError> {
        let older = older.filter(|_| !self.repairs);
        let mut done = self.tree(revision.root(), older, on);
        if older.is_some() && done.as_ref().is_err_and(|error| lacking(error).is_some()) {
            // The node may be one of the older tree.
            done = self.tree(revision.root(), None, on);
        }
        done.map_err(|error| match lacking(&error) {
            Some(hash) => {
                let path = path_of(self.from, revision.root(), hash).unwrap_or(Path::ROOT).to_string();
                let why = FilesError::from(error).to_string();
                FilesError::NotWhole { site: site.to_string(), revision: revision.number, path, why }
            }
            None => error.into(),
        })
    }

    fn tree(
        &self,
        root: ChunkHash,
        older: Option<ChunkHash>,
        on: &mut dyn FnMut(usize) -> Result<(), FilesError>,
    ) -> Result<(), ReadError<FilesError>> {
        if older.is_none() {
            // All nodes are going to be read.
            self.from.expect_nodes(root).map_err(ReadError::Source)?;
        }
        let nodes = Nodes { transfer: self, read: RefCell::default(), handled: RefCell::default() };
        let mut steps = vec![Step::root(root, older)];
        while !steps.is_empty() {
            let found = descend(&nodes, &mut |hashes| nodes.has(hashes), steps, BUDGET)?;
            steps = found.waits;
            let wanted: HashSet<ChunkHash> = steps.iter().map(Step::node).collect();
            nodes.fetch(&found.lacks, &wanted, on).map_err(ReadError::Source)?;
        }
        Ok(())
    }
}

/// The source of a descent: nodes that were just fetched, and those of both places.
struct Nodes<'a> {
    transfer: &'a Transfer<'a>,
    /// Nodes that were fetched and not read yet.
    read: RefCell<HashMap<ChunkHash, Bytes>>,
    /// The chunks of a repair that are whole by now.
    handled: RefCell<HashSet<ChunkHash>>,
}

impl Nodes<'_> {
    /// Returns for each chunk whether it need not be fetched.
    fn has(&self, hashes: &[ChunkHash]) -> Result<Vec<bool>, FilesError> {
        if self.transfer.repairs {
            let handled = self.handled.borrow();
            return Ok(hashes.iter().map(|hash| handled.contains(hash)).collect());
        }
        let missing: HashSet<ChunkHash> = self.transfer.to.missing(hashes)?.into_iter().collect();
        Ok(hashes.iter().map(|hash| !missing.contains(hash)).collect())
    }

    /// Fetches chunks. They are durable on return.
    fn fetch(
        &self,
        hashes: &[ChunkHash],
        nodes: &HashSet<ChunkHash>,
        on: &mut dyn FnMut(usize) -> Result<(), FilesError>,
    ) -> Result<(), FilesError> {
        let &Transfer { from, to, site, repairs } = self.transfer;
        let mut upload = Upload::new(to, site, repairs);
        let mut read = self.read.borrow_mut();
        let mut read_bytes: usize = read.values().map(Bytes::len).sum();
        for part in hashes.chunks(CHUNKS_AT_A_TIME) {
            from.expect_chunks(part);
            for hash in part {
                let bytes = from.chunk(hash)?;
                let length = bytes.len();
                if nodes.contains(hash) && read_bytes + length <= READ_BYTES_MAX {
                    read_bytes += length;
                    read.insert(*hash, bytes.clone());
                }
                upload.add(*hash, bytes)?;
                on(length)?;
            }
        }
        upload.end()?;
        if repairs {
            self.handled.borrow_mut().extend(hashes);
        }
        Ok(())
    }
}

impl Source for Nodes<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        if let Some(bytes) = self.read.borrow_mut().remove(hash) {
            return Ok(bytes);
        }
        let &Transfer { from, to, .. } = self.transfer;
        // A directory of this process answers at once, and the other place may lack a node of the older tree.
        let (first, second) = if to.directory().is_some() { (to, from) } else { (from, to) };
        first.chunk(hash).or_else(|error| if is_lost(&error) { second.chunk(hash) } else { Err(error) })
    }
}

/// Whether a chunk cannot be read, while others can.
pub(crate) fn is_lost(error: &FilesError) -> bool {
    matches!(error, FilesError::MissingChunk(_) | FilesError::Chunks(ChunkError::Damaged { .. }))
}

/// The chunk that a tree needs and that cannot be read or is malformed, if that is the reason of an error.
fn lacking(error: &ReadError<FilesError>) -> Option<ChunkHash> {
    match error {
        ReadError::Malformed(hash, _)
        | ReadError::Source(FilesError::MissingChunk(hash) | FilesError::Chunks(ChunkError::Damaged { hash, .. })) => {
            Some(*hash)
        }
        ReadError::Source(_) => None,
    }
}

/// The first path of a tree that needs a chunk.
fn path_of(depot: &dyn Depot, root: ChunkHash, hash: ChunkHash) -> Option<Path> {
    walk(root, &mut Search { depot, hash, seen: HashSet::new() }).err()
}

/// A search for the path that needs a chunk, which is the error that ends the walk.
struct Search<'a> {
    depot: &'a dyn Depot,
    hash: ChunkHash,
    seen: HashSet<ChunkHash>,
}

impl Visitor for Search<'_> {
    type Error = Path;

    fn chunk(&mut self, Needed { hash, part, path }: Needed<'_>) -> Result<Option<Bytes>, Path> {
        if hash == self.hash {
            return Err(path.clone());
        }
        let is_new = part != Part::Piece && self.seen.insert(hash);
        Ok(is_new.then(|| self.depot.chunk(&hash).ok()).flatten())
    }

    fn malformed(&mut self, _: Needed<'_>, _: Malformed) -> Result<(), Path> {
        Ok(())
    }
}
