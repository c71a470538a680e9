//! Entries as bytes, little-endian and unaligned, and back. A reader accepts only the bytes that a writer makes.

use crate::entry::{Attributes, Content, Entry, Kind, Piece, Time};
use crate::hash::ChunkHash;
use crate::limits::{
    CHUNK_BYTES_MAX, INLINE_BYTES_MAX, LIST_PIECES_MAX, PIECES_MAX, TARGET_BYTES_MAX, XATTRS_BYTES_MAX,
};
use crate::name::Name;
use crate::source::Malformed;
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes};

const FILE_INLINE: u8 = 0;
const FILE_PIECES: u8 = 1;
const FILE_LISTS: u8 = 2;
const DIRECTORY: u8 = 3;
const SYMLINK: u8 = 4;

/// The permissions that an entry can have.
const MODE_MAX: u16 = 0o7777;
const NANOSECONDS: u32 = 1_000_000_000;

/// Writes an entry and its name, as they are in a node.
pub fn encode_entry(out: &mut Vec<u8>, name: &Name, entry: &Entry) {
    put_name(out, name);
    put_attributes(out, &entry.attributes);
    put_kind(out, &entry.kind);
}

/// Writes the file, directory or link of an entry.
pub(crate) fn put_kind(out: &mut Vec<u8>, kind: &Kind) {
    match kind {
        Kind::File { size, content, link } => put_file(out, *size, content, *link),
        Kind::Directory(hash) => {
            out.put_u8(DIRECTORY);
            out.put_slice(hash.as_bytes());
        }
        Kind::Symlink(target) => {
            out.put_u8(SYMLINK);
            put_bytes(out, target);
        }
    }
}

/// Writes a name in a directory.
pub(crate) fn put_name(out: &mut Vec<u8>, name: &Name) {
    out.put_u8(name.as_bytes().len() as u8);
    out.put_slice(name.as_bytes());
}

/// Writes the attributes of an entry.
pub(crate) fn put_attributes(out: &mut Vec<u8>, attributes: &Attributes) {
    let Attributes { mode, uid, gid, modified, xattrs } = attributes;
    out.put_u16_le(*mode);
    out.put_u32_le(*uid);
    out.put_u32_le(*gid);
    out.put_i64_le(modified.seconds);
    out.put_u32_le(modified.nanoseconds);
    out.put_u16_le(xattrs.len() as u16);
    for (name, value) in xattrs {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

fn put_file(out: &mut Vec<u8>, size: u64, content: &Content, link: u64) {
    let form = match content {
        Content::Inline(_) => FILE_INLINE,
        Content::Pieces(_) => FILE_PIECES,
        Content::Lists(_) => FILE_LISTS,
    };
    out.put_u8(form);
    out.put_u64_le(size);
    out.put_u64_le(link);
    match content {
        Content::Inline(bytes) => out.put_slice(bytes),
        Content::Pieces(pieces) => {
            out.put_u16_le(pieces.len() as u16);
            for piece in pieces {
                put_piece(out, piece);
            }
        }
        Content::Lists(lists) => {
            out.put_u16_le(lists.len() as u16);
            for hash in lists {
                out.put_slice(hash.as_bytes());
            }
        }
    }
}

/// Writes a piece of a file.
pub(crate) fn put_piece(out: &mut Vec<u8>, piece: &Piece) {
    out.put_slice(piece.hash.as_bytes());
    out.put_u32_le(piece.bytes);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u16_le(bytes.len() as u16);
    out.put_slice(bytes);
}

/// Reads an entry and its name.
///
/// # Errors
/// Bytes that [`encode_entry`] does not write.
pub fn decode_entry(from: &mut Bytes) -> Result<(Name, Entry), Malformed> {
    let name = get_name(from)?;
    let attributes = get_attributes(from)?;
    let kind = get_kind(from)?;
    Ok((name, Entry { kind, attributes }))
}

/// Reads a name in a directory.
pub(crate) fn get_name(from: &mut Bytes) -> Result<Name, Malformed> {
    let length = get(from, 1)?.get_u8().into();
    Name::new(&get(from, length)?).map_err(|_| Malformed("a name that no directory can hold"))
}

/// Reads the attributes of an entry.
pub(crate) fn get_attributes(from: &mut Bytes) -> Result<Attributes, Malformed> {
    let mut fixed = get(from, 2 + 4 + 4 + 8 + 4 + 2)?;
    let (mode, uid, gid) = (fixed.get_u16_le(), fixed.get_u32_le(), fixed.get_u32_le());
    let modified = Time { seconds: fixed.get_i64_le(), nanoseconds: fixed.get_u32_le() };
    if mode > MODE_MAX || modified.nanoseconds >= NANOSECONDS {
        return Err(Malformed("a mode or a time out of range"));
    }
    let xattrs = get_xattrs(from, fixed.get_u16_le().into())?;
    Ok(Attributes { mode, uid, gid, modified, xattrs })
}

fn get_xattrs(from: &mut Bytes, count: usize) -> Result<Vec<(Bytes, Bytes)>, Malformed> {
    let mut xattrs: Vec<(Bytes, Bytes)> = Vec::new();
    let mut total = 0;
    for _ in 0..count {
        let (name, value) = (get_bytes(from)?, get_bytes(from)?);
        total += name.len() + value.len();
        if name.is_empty() || xattrs.last().is_some_and(|(last, _)| *last >= name) {
            return Err(Malformed("extended attributes out of order"));
        }
        if total > XATTRS_BYTES_MAX {
            return Err(Malformed("too many extended attributes"));
        }
        xattrs.push((name, value));
    }
    Ok(xattrs)
}

fn get_kind(from: &mut Bytes) -> Result<Kind, Malformed> {
    let form = get(from, 1)?.get_u8();
    match form {
        DIRECTORY => get_hash(from).map(Kind::Directory),
        SYMLINK => match get_bytes(from)? {
            target if target.is_empty() || target.len() > TARGET_BYTES_MAX || target.contains(&0) => {
                Err(Malformed("a symbolic link without a usable target"))
            }
            target => Ok(Kind::Symlink(target)),
        },
        FILE_INLINE | FILE_PIECES | FILE_LISTS => get_file(from, form),
        _ => Err(Malformed("an entry of an unknown kind")),
    }
}

fn get_file(from: &mut Bytes, form: u8) -> Result<Kind, Malformed> {
    let mut fixed = get(from, 16)?;
    let (size, link) = (fixed.get_u64_le(), fixed.get_u64_le());
    let content = match form {
        FILE_INLINE if size <= INLINE_BYTES_MAX as u64 => Content::Inline(get(from, size as usize)?),
        FILE_PIECES => {
            let count = get(from, 2)?.get_u16_le().into();
            let pieces = get_pieces(from, count)?;
            let sum: u64 = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
            if pieces.is_empty() || count > PIECES_MAX || sum != size || size <= INLINE_BYTES_MAX as u64 {
                return Err(Malformed("a file whose pieces are not its content"));
            }
            Content::Pieces(pieces)
        }
        FILE_LISTS => {
            let count: usize = get(from, 2)?.get_u16_le().into();
            if count == 0 || count > LIST_PIECES_MAX {
                return Err(Malformed("a file of no lists, or of too many"));
            }
            Content::Lists((0..count).map(|_| get_hash(from)).collect::<Result<_, _>>()?)
        }
        _ => return Err(Malformed("a file of more bytes than an entry holds")),
    };
    Ok(Kind::File { size, content, link })
}

/// Reads pieces of a file.
pub(crate) fn get_pieces(from: &mut Bytes, count: usize) -> Result<Vec<Piece>, Malformed> {
    let piece = |_| {
        let piece = Piece { hash: get_hash(from)?, bytes: get(from, 4)?.get_u32_le() };
        let is_right = piece.bytes > 0 && piece.bytes as usize <= CHUNK_BYTES_MAX;
        if is_right { Ok(piece) } else { Err(Malformed("a piece of a length that no chunk has")) }
    };
    (0..count).map(piece).collect()
}

/// Reads the name of a chunk.
pub(crate) fn get_hash(from: &mut Bytes) -> Result<ChunkHash, Malformed> {
    let mut hash = [0; ChunkHash::BYTES];
    get(from, hash.len())?.copy_to_slice(&mut hash);
    Ok(hash.into())
}

fn get_bytes(from: &mut Bytes) -> Result<Bytes, Malformed> {
    let length = get(from, 2)?.get_u16_le().into();
    get(from, length)
}

/// Takes so many bytes.
pub(crate) fn get(from: &mut Bytes, count: usize) -> Result<Bytes, Malformed> {
    if from.len() < count {
        return Err(Malformed("it ends too early"));
    }
    Ok(from.split_to(count))
}
