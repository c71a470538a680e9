//! The content of a stored response: bytes that any number of readers share, or that are on disk.

use crate::stored::disk_content::DiskContent;
use bytes::{Bytes, BytesMut};
use diskcache::Source;
use responses::Slice;
use std::sync::Arc;

/// The largest piece. A content of one piece is answered with it as it is.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The content of a stored response. A clone is a count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pieces: Pieces,
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
enum Pieces {
    #[default]
    None,
    One(Bytes),
    Many(Arc<[Bytes]>),
    OnDisk(Arc<DiskContent>),
}

impl Content {
    /// Copies what was received into pieces of its own size. Those that hyper hands out are parts of its buffers, and
    /// would keep these alive as a whole.
    pub(crate) fn of(received: &[Bytes]) -> Self {
        let total: usize = received.iter().map(Bytes::len).sum();
        let mut pieces = Vec::with_capacity(total.div_ceil(PIECE_BYTES_MAX));
        let (mut left, mut piece) = (total, BytesMut::with_capacity(total.min(PIECE_BYTES_MAX)));
        for mut bytes in received.iter().map(AsRef::<[u8]>::as_ref) {
            while !bytes.is_empty() {
                let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES_MAX - piece.len()));
                piece.extend_from_slice(now);
                bytes = later;
                if piece.len() == PIECE_BYTES_MAX {
                    left -= PIECE_BYTES_MAX;
                    let next = BytesMut::with_capacity(left.min(PIECE_BYTES_MAX));
                    pieces.push(std::mem::replace(&mut piece, next).freeze());
                }
            }
        }
        if !piece.is_empty() {
            pieces.push(piece.freeze());
        }
        let pieces = match pieces.len() {
            0 => Pieces::None,
            1 => Pieces::One(pieces.remove(0)),
            _ => Pieces::Many(pieces.into()),
        };
        Self { pieces, bytes: total as u64 }
    }

    /// One piece, as it is.
    pub(crate) fn of_piece(piece: Bytes) -> Self {
        let bytes = piece.len() as u64;
        Self { pieces: if bytes == 0 { Pieces::None } else { Pieces::One(piece) }, bytes }
    }

    /// One that stays on disk.
    pub(crate) fn on_disk(content: DiskContent) -> Self {
        let bytes = content.extent.bytes();
        Self { pieces: Pieces::OnDisk(Arc::new(content)), bytes }
    }

    /// It, if it is on disk.
    pub(crate) fn disk_content(&self) -> Option<&Arc<DiskContent>> {
        match &self.pieces {
            Pieces::OnDisk(content) => Some(content),
            Pieces::None | Pieces::One(_) | Pieces::Many(_) => None,
        }
    }

    /// It as the content of a record.
    pub(crate) fn source(&self) -> Source {
        match &self.pieces {
            Pieces::None => Source::Memory(Vec::new()),
            Pieces::One(piece) => Source::Memory(vec![piece.clone()]),
            Pieces::Many(pieces) => Source::Memory(pieces.to_vec()),
            Pieces::OnDisk(content) => Source::Disk(content.extent.clone()),
        }
    }

    /// The memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.disk_content().is_some() { 0 } else { self.bytes as usize }
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The piece that it is made of, if it is only one.
    pub(crate) fn only_piece(&self) -> Option<&Bytes> {
        match &self.pieces {
            Pieces::One(piece) => Some(piece),
            Pieces::None | Pieces::Many(_) | Pieces::OnDisk(_) => None,
        }
    }

    /// A reader of a part of it, of one in memory.
    pub(crate) fn read(&self, slice: Slice) -> Reader {
        Reader { pieces: self.pieces.clone(), at: slice.start, end: slice.end.min(self.bytes) }
    }
}

/// Returns a content piece by piece.
#[derive(Debug)]
pub(crate) struct Reader {
    pieces: Pieces,
    at: u64,
    end: u64,
}

impl Reader {
    /// The bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// The next piece.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        if self.left() == 0 {
            return None;
        }
        let (piece, offset) = match &self.pieces {
            Pieces::None | Pieces::OnDisk(_) => return None,
            Pieces::One(piece) => (piece, self.at as usize),
            Pieces::Many(pieces) => {
                (pieces.get(self.at as usize / PIECE_BYTES_MAX)?, self.at as usize % PIECE_BYTES_MAX)
            }
        };
        let end = piece.len().min(offset + self.left() as usize);
        self.at += (end - offset) as u64;
        Some(piece.slice(offset..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_slice_of_any_content_is_what_was_received() {
        for size in [0, 1, 1000, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1, 2 * PIECE_BYTES_MAX + 500_000] {
            let whole: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let received: Vec<Bytes> = whole.chunks(70_001).map(Bytes::copy_from_slice).collect();
            let content = Content::of(&received);
            assert_eq!(content.bytes(), size as u64);
            let ends = [0, 1, size / 2, size.saturating_sub(1), size, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1];
            for (start, end) in ends.iter().flat_map(|start| ends.map(|end| (*start, end))) {
                let (start, end) = (start.min(size), end.min(size).max(start.min(size)));
                let mut reader = content.read(Slice { start: start as u64, end: end as u64 });
                let read: Vec<u8> = std::iter::from_fn(|| reader.next()).flatten().collect();
                assert_eq!(read, whole[start..end], "{start}..{end} of {size}");
            }
        }
    }
}
