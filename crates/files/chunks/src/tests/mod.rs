//! A store on disks in memory, each of its folders a disk of its own, and on the real one.

#[cfg(feature = "object-storage")]
mod bucket;
mod crash;
mod damage;
mod full;
mod kill;
mod limited;
mod opening;
mod roundtrip;
mod sweep;

use crate::{ChunkError, Chunks, SMALL_BYTES_MAX};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tree::ChunkHash;
use vfs::memory::{Dice, Memory};

/// The name of the disk of the directory itself.
const ROOT: &str = "";

/// The directory and its folders.
#[derive(Clone)]
struct Disks(BTreeMap<String, Memory>);

impl Disks {
    fn new() -> Self {
        let folders = (0..=u8::MAX).map(|first| format!("{first:02x}"));
        Self(folders.chain([ROOT.to_owned()]).map(|name| (name, Memory::default())).collect())
    }

    fn open(&self) -> Result<Chunks, ChunkError> {
        Chunks::open_in(Arc::new(self.0[ROOT].clone()), &|name| Ok(Arc::new(self.0[name].clone())), &|_| {
            unreachable!("it has no bucket")
        })
    }

    fn root(&self) -> &Memory {
        &self.0[ROOT]
    }

    /// The folder of a large chunk, and its name there.
    fn place(&self, hash: &ChunkHash) -> (&Memory, String) {
        let name = hash.to_string();
        (&self.0[&name[..2]], name[2..].to_owned())
    }

    /// The files in the folders.
    fn files(&self) -> Vec<String> {
        let folders = self.0.iter().filter(|(name, _)| *name != ROOT);
        folders.flat_map(|(_, folder)| folder.names()).collect()
    }

    fn map(&self, change: impl FnMut(&Memory) -> Memory) -> Self {
        Self(self.0.keys().cloned().zip(self.0.values().map(change)).collect())
    }
}

/// A chunk of a length, whose bytes depend on the seed.
fn chunk(bytes: usize, seed: u64) -> (ChunkHash, Bytes) {
    let mut dice = Dice(seed);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| dice.roll(u64::MAX).to_le_bytes());
    let bytes: Bytes = words.take(bytes).collect::<Vec<_>>().into();
    (ChunkHash::of(&bytes), bytes)
}

/// The smallest large chunk of a seed.
fn large(seed: u64) -> (ChunkHash, Bytes) {
    chunk(SMALL_BYTES_MAX + 1, seed)
}

fn hashes(chunks: &[(ChunkHash, Bytes)]) -> Vec<ChunkHash> {
    chunks.iter().map(|(hash, _)| *hash).collect()
}

/// Asserts that a store has these chunks, whole.
fn assert_has(store: &Chunks, chunks: &[(ChunkHash, Bytes)], case: &str) {
    assert_eq!(store.missing(&hashes(chunks)).unwrap(), [], "{case}");
    for (hash, bytes) in chunks {
        let got = store.get(hash).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(got.as_ref() == Some(bytes), "{case}: {hash:?} of {} bytes: {:?}", bytes.len(), got.map(|b| b.len()));
    }
}

/// A directory on the real disk, removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thorp-chunks-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
