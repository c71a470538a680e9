//! Large chunks in a bucket.
//!
//! | object, behind the prefix | content |
//! |---|---|
//! | `thorp-chunks` | the marker: whose chunks these are |
//! | `chunks/HH/HASH.PUT` | a chunk: its hash, split behind the first byte, and a number drawn for this put |
//!
//! Each put writes an object of a new name, whose number is in the table. So a DELETE or PUT that was given up, and
//! that the bucket executes later, never meets the object of another put: at worst it leaves one outside the table.
//!
//! The marker is made on condition that there is none. The store checks that it is its own before it writes or removes
//! objects.

#[cfg(feature = "object-storage")]
mod client;
#[cfg(not(feature = "object-storage"))]
mod without;

#[cfg(feature = "object-storage")]
pub(crate) use client::Bucket;
#[cfg(not(feature = "object-storage"))]
pub(crate) use without::Bucket;

use tree::ChunkHash;

/// An object: a chunk, as one put has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) hash: ChunkHash,
    /// The number of the put.
    pub(crate) put: u64,
}

impl Object {
    /// Its name behind the prefix.
    pub(crate) fn name(&self) -> String {
        let hash = self.hash.to_string();
        format!("chunks/{}/{}.{:016x}", &hash[..2], &hash[2..], self.put)
    }
}
