//! Fields of messages beyond the usual ones: names of chunks, a root that may be missing, the key of cookies, paths,
//! locks.

use alloc::vec::Vec;
use framing::field::check_count;
use framing::{Field, FieldLayout, Limits, Meta, Reader, WireError, fields};
use tree::ChunkHash;
use types::limits::{HASHES_PER_MESSAGE_MAX, LOCK_PATH_BYTES_MAX};

/// Reads one of several values, which are numbered in this order.
pub(super) fn one_of<T: Copy>(all: &[T], what: &'static str, reader: &mut Reader<'_>) -> Result<T, WireError> {
    let got = u32::get(what, reader)?;
    all.get(got as usize).copied().ok_or(WireError::Code { what, got: got.into() })
}

/// The name of a chunk as a field.
#[derive(Debug)]
pub struct Hash;

impl Hash {
    pub(super) const BYTES: usize = ChunkHash::BYTES;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<ChunkHash, WireError> {
        Ok(ChunkHash::from(*reader.get::<[u8; Self::BYTES]>()?))
    }
}

impl FieldLayout<ChunkHash> for Hash {
    const LIMITS: Limits = Limits::bytes(Self::BYTES);

    fn put(field: &ChunkHash, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(field.as_bytes());
        Ok(())
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<ChunkHash, WireError> {
        Self::read(reader)
    }
}

/// At most [`HASHES_PER_MESSAGE_MAX`] names of chunks, to the end of the meta.
#[derive(Debug)]
pub struct Hashes;

impl FieldLayout<Vec<ChunkHash>> for Hashes {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(HASHES_PER_MESSAGE_MAX * Hash::BYTES);

    fn put(field: &Vec<ChunkHash>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), HASHES_PER_MESSAGE_MAX)?;
        for hash in field {
            meta.put(hash.as_bytes());
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<ChunkHash>, WireError> {
        let count = reader.meta_bytes() / Hash::BYTES;
        check_count(what, count, HASHES_PER_MESSAGE_MAX)?;
        let hashes = reader.list(count, Hash::BYTES, Hash::read)?;
        reader.end()?;
        Ok(hashes)
    }
}

/// At most [`HASHES_PER_MESSAGE_MAX`] names of chunks with their sizes, to the end of the meta: `bytes u32 | hash` for
/// each.
#[derive(Debug)]
pub struct Sizes;

impl Sizes {
    const BYTES: usize = u32::BYTES + Hash::BYTES;
}

impl FieldLayout<Vec<(ChunkHash, u32)>> for Sizes {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(HASHES_PER_MESSAGE_MAX * Self::BYTES);

    fn put(field: &Vec<(ChunkHash, u32)>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), HASHES_PER_MESSAGE_MAX)?;
        for (hash, bytes) in field {
            bytes.put(meta);
            meta.put(hash.as_bytes());
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<(ChunkHash, u32)>, WireError> {
        let count = reader.meta_bytes() / Self::BYTES;
        check_count(what, count, HASHES_PER_MESSAGE_MAX)?;
        let chunks = reader.list(count, Self::BYTES, |reader| {
            let bytes = u32::get("bytes", reader)?;
            Ok((Hash::read(reader)?, bytes))
        })?;
        reader.end()?;
        Ok(chunks)
    }
}

/// The bytes of a path, to the end of the meta.
#[derive(Debug)]
pub struct PathBytes;

impl FieldLayout<Vec<u8>> for PathBytes {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(LOCK_PATH_BYTES_MAX);

    fn put(field: &Vec<u8>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), LOCK_PATH_BYTES_MAX)?;
        meta.put(field.as_slice());
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<u8>, WireError> {
        check_count(what, reader.meta_bytes(), LOCK_PATH_BYTES_MAX)?;
        Ok(reader.rest::<u8>()?.to_vec())
    }
}

/// At most `MAX` fields behind their number.
#[derive(Debug)]
pub struct Counted<const MAX: usize>;

impl<T: Field, const MAX: usize> FieldLayout<Vec<T>> for Counted<MAX> {
    const LIMITS: Limits = Limits::bytes(u32::BYTES).and_up_to(MAX * T::BYTES);

    fn put(field: &Vec<T>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), MAX)?;
        (field.len() as u32).put(meta);
        for one in field {
            one.put(meta);
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<T>, WireError> {
        let count = u32::get(what, reader)? as usize;
        check_count(what, count, MAX)?;
        reader.list(count, T::BYTES, |reader| T::get(what, reader))
    }
}

fields! {
    /// The name of a lock that was granted. The next holder of its path has another one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Token {
        /// The life of the file server, with which its locks end.
        pub life: u64,
        /// Its number for the lock.
        pub number: u64,
    }
}

/// The key that signs the cookies of a site's visitors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VisitorKey(pub [u8; Self::BYTES]);

impl VisitorKey {
    const BYTES: usize = 32;
}

impl core::fmt::Debug for VisitorKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("VisitorKey")
    }
}

impl Field for VisitorKey {
    const BYTES: usize = Self::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        meta.put(&self.0);
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self(*reader.get::<[u8; Self::BYTES]>()?))
    }
}

/// A field that a message may lack.
#[derive(Debug)]
pub struct Perhaps;

impl<T: Field + Copy + Default> FieldLayout<Option<T>> for Perhaps {
    const LIMITS: Limits = Limits::bytes(u32::BYTES + T::BYTES);

    fn put(field: &Option<T>, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        field.is_some().put(meta);
        field.unwrap_or_default().put(meta);
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Option<T>, WireError> {
        let is_there = bool::get(what, reader)?;
        let field = T::get(what, reader)?;
        Ok(is_there.then_some(field))
    }
}

/// A root that a message may lack: a site may have no revision.
#[derive(Debug)]
pub struct MayBe;

impl FieldLayout<Option<ChunkHash>> for MayBe {
    const LIMITS: Limits = Limits::bytes(u32::BYTES + Hash::BYTES);

    fn put(field: &Option<ChunkHash>, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        field.is_some().put(meta);
        meta.put(field.map_or([0; Hash::BYTES], |hash| *hash.as_bytes()).as_slice());
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Option<ChunkHash>, WireError> {
        let is_there = bool::get(what, reader)?;
        let hash = Hash::read(reader)?;
        Ok(is_there.then_some(hash))
    }
}
