//! The directories of the private tree, in memory: they follow from the site's and the changes, so no disk has them.

use crate::error::FilesError;
use crate::line::lock;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tree::{ChunkHash, Sink, nodes_below};

/// The bytes from which on nodes that no tree needs are dropped.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long a node stays in any case: a request may be reading the tree that has it.
const STAYS_FOR: Duration = Duration::from_secs(5);

/// The nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    nodes: HashMap<ChunkHash, (Bytes, Instant)>,
    bytes: usize,
    /// The bytes that were left when nodes were dropped last.
    left: usize,
}

impl Nodes {
    pub(super) fn get(&self, hash: &ChunkHash) -> Option<Bytes> {
        lock(&self.0).nodes.get(hash).map(|(bytes, _)| bytes.clone())
    }

    pub(super) fn add(&self, hash: ChunkHash, bytes: Bytes) {
        let mut table = lock(&self.0);
        let length = bytes.len();
        if table.nodes.insert(hash, (bytes, Instant::now())).is_none() {
            table.bytes += length;
        }
    }

    /// Drops nodes that none of these trees has, if there are many.
    pub(super) fn drop_unused(&self, roots: impl Iterator<Item = ChunkHash>) {
        let mut table = lock(&self.0);
        if table.bytes < BYTES_MAX.max(2 * table.left) {
            return;
        }
        let (mut used, mut rest): (HashMap<ChunkHash, (Bytes, Instant)>, Vec<ChunkHash>) =
            (HashMap::new(), roots.collect());
        while let Some(hash) = rest.pop() {
            if let Some(node) = table.nodes.remove(&hash) {
                // Nodes that were made here are well-formed.
                rest.extend(nodes_below(node.0.clone()).unwrap_or_default());
                used.insert(hash, node);
            }
        }
        used.extend(table.nodes.drain().filter(|(_, (_, at))| at.elapsed() < STAYS_FOR));
        table.bytes = used.values().map(|(bytes, _)| bytes.len()).sum();
        (table.left, table.nodes) = (table.bytes, used);
    }
}

impl Sink for &Nodes {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        Nodes::add(self, hash, bytes);
        Ok(())
    }
}
