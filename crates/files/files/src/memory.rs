//! Directories and content that were read lately, in memory: decoded and verified once. Chunks never change, so nothing
//! here can be stale.

use crate::error::FilesError;
use crate::origin::Origin;
use crate::view::check_length;
use bytes::Bytes;
use foldhash::fast::RandomState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tree::limits::CHUNK_BYTES_MAX;
use tree::{ChunkHash, Node, Part, Piece, ReadError};

/// The memory of a decoded node over the bytes of its chunk, about.
const NODE_OVER_CHUNK: u64 = 4;

/// The bytes of the table for each entry, about.
const ENTRY_BYTES: u64 = 128;

/// The bytes of a usual entry, by which the table is made.
const ENTRY_BYTES_USUAL: u64 = 16 * 1024;

/// The share of the memory for the cache. The rest is for clients that are slow to take content which the cache has
/// dropped.
const KEPT_PERCENT: u64 = 75;

/// The table has shards with a lock each. Several of the largest chunks fit into one.
const SHARD_BYTES: u64 = 4 * CHUNK_BYTES_MAX as u64;
const SHARDS_MAX: u64 = 64;

/// Directories and content, and a bound on the memory for them.
pub(crate) struct Memory {
    kept: Cache<(ChunkHash, Part), Kept, Weight, RandomState>,
    /// The bytes of content that are kept or on their way to clients.
    held: Arc<AtomicUsize>,
    held_max: usize,
}

#[derive(Clone, Debug)]
enum Kept {
    Node(Arc<Node>, u64),
    Content(Bytes),
}

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<(ChunkHash, Part), Kept> for Weight {
    fn weight(&self, _: &(ChunkHash, Part), kept: &Kept) -> u64 {
        let bytes = match kept {
            Kept::Node(_, weight) => *weight,
            Kept::Content(bytes) => bytes.len() as u64,
        };
        bytes + ENTRY_BYTES
    }
}

/// Content, as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    /// Whether it counts in the bound. Beyond the bound, its reader keeps a part of it for as short as it can.
    pub(crate) is_held: bool,
}

/// Bytes that count until the last reference to them has gone.
struct Held {
    bytes: Bytes,
    held: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len(), Relaxed);
    }
}

impl Memory {
    /// Memory for this many bytes of content. Directories count in the cache's share of that alone, so slow clients and a
    /// cache full of directories can take that share once more.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let kept_max = (bytes_max as u64).saturating_mul(KEPT_PERCENT) / 100;
        let (entries, shards) = (kept_max / ENTRY_BYTES_USUAL, (kept_max / SHARD_BYTES).clamp(1, SHARDS_MAX));
        let options = OptionsBuilder::new()
            .weight_capacity(kept_max)
            .estimated_items_capacity(entries as usize)
            .shards(shards as usize)
            .build()
            .expect("the weight and the number of entries are given");
        let kept = Cache::with_options(options, Weight, RandomState::default(), DefaultLifecycle::default());
        Self { kept, held: Arc::default(), held_max: bytes_max }
    }

    /// A node of a directory, if it is here.
    pub(crate) fn node(&self, hash: &ChunkHash) -> Option<Arc<Node>> {
        match self.kept.get(&(*hash, Part::Directory)) {
            Some(Kept::Node(node, _)) => Some(node),
            _ => None,
        }
    }

    /// Reads a node of a directory, and keeps it.
    pub(crate) fn read_node(&self, origin: &dyn Origin, hash: &ChunkHash) -> Result<Arc<Node>, FilesError> {
        let bytes = origin.source().chunk(hash)?;
        let weight = NODE_OVER_CHUNK * bytes.len() as u64;
        let node = Node::read(bytes).map_err(|why| ReadError::<FilesError>::Malformed(*hash, why))?;
        let node = Arc::new(node);
        self.kept.insert((*hash, Part::Directory), Kept::Node(node.clone(), weight));
        Ok(node)
    }

    /// A list of the pieces of a file, if it is here.
    pub(crate) fn list(&self, hash: &ChunkHash) -> Option<Bytes> {
        self.content(hash, Part::List).map(|list| list.bytes)
    }

    /// Reads a list of the pieces of a file, and keeps it if there is room.
    pub(crate) fn read_list(&self, origin: &dyn Origin, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.read_content(origin, hash, Part::List).map(|list| list.bytes)
    }

    /// A piece of a file, if it is here.
    pub(crate) fn piece(&self, piece: &Piece) -> Option<Content> {
        self.content(&piece.hash, Part::Piece).filter(|content| content.bytes.len() == piece.bytes as usize)
    }

    /// Reads a piece of a file, and keeps it if there is room.
    pub(crate) fn read_piece(&self, origin: &dyn Origin, piece: &Piece) -> Result<Content, FilesError> {
        let content = self.read_content(origin, &piece.hash, Part::Piece)?;
        check_length(&content.bytes, piece)?;
        Ok(content)
    }

    fn content(&self, hash: &ChunkHash, part: Part) -> Option<Content> {
        match self.kept.get(&(*hash, part)) {
            Some(Kept::Content(bytes)) => Some(Content { bytes, is_held: true }),
            _ => None,
        }
    }

    fn read_content(&self, origin: &dyn Origin, hash: &ChunkHash, part: Part) -> Result<Content, FilesError> {
        let bytes = origin.content(hash)?;
        let held = self.held.fetch_add(bytes.len(), Relaxed) + bytes.len();
        // Dropped, it counts no longer.
        let owner = Held { bytes: bytes.clone(), held: self.held.clone() };
        if held > self.held_max {
            return Ok(Content { bytes, is_held: false });
        }
        let bytes = Bytes::from_owner(owner);
        self.kept.insert((*hash, part), Kept::Content(bytes.clone()));
        Ok(Content { bytes, is_held: true })
    }

    /// The bytes of content that are kept or on their way to clients.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.load(Relaxed)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("held", &self.held).field("held_max", &self.held_max).finish_non_exhaustive()
    }
}
