//! Chunks in memory, and small entries.

use bytes::Bytes;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Sink, Source, write_directory};

/// Chunks in memory, which counts what is read.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) chunks: BTreeMap<ChunkHash, Bytes>,
    pub(crate) reads: Cell<usize>,
}

impl Sink for Memory {
    type Error = Infallible;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), Infallible> {
        assert_eq!(hash, ChunkHash::of(&bytes));
        self.chunks.insert(hash, bytes);
        Ok(())
    }
}

impl Source for Memory {
    type Error = ChunkHash;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, ChunkHash> {
        self.reads.set(self.reads.get() + 1);
        self.chunks.get(hash).cloned().ok_or(*hash)
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub(crate) fn file(content: &str) -> Entry {
    let content = Bytes::copy_from_slice(content.as_bytes());
    let kind = Kind::File { size: content.len() as u64, content: Content::Inline(content), link: 0 };
    Entry { kind, attributes: Attributes { mode: 0o644, ..Attributes::default() } }
}

pub(crate) fn directory(hash: ChunkHash) -> Entry {
    Entry { kind: Kind::Directory(hash), attributes: Attributes { mode: 0o755, ..Attributes::default() } }
}

/// A directory of `count` small files; the `changed` one has other content.
pub(crate) fn many(count: usize, changed: Option<usize>) -> Vec<(Name, Entry)> {
    let content = |at: usize| if changed == Some(at) { "changed".to_owned() } else { format!("content of {at}") };
    let all = (0..count).map(|at| (name(&format!("image-{at:06}.png")), file(&content(at))));
    all.collect()
}

pub(crate) fn write(entries: &[(Name, Entry)], into: &mut Memory) -> ChunkHash {
    write_directory(entries, into).unwrap()
}
