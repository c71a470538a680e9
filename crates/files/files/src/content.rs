//! The content of a file in chunks: cut by what is in it (FastCDC, Xia et al., 2020), so that a byte that is inserted
//! changes a chunk or two.

use crate::error::FilesError;
use bytes::Bytes;
use fastcdc::v2020::StreamCDC;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tree::limits::INLINE_BYTES_MAX;
use tree::{ChunkHash, Content, Piece, Sink, write_pieces};

/// The bytes of a file up to which it is one chunk, and the least of a chunk of a larger one.
const WHOLE_BYTES_MAX: u32 = 256 * 1024;
const AVERAGE_BYTES: u32 = 1024 * 1024;
const CHUNK_BYTES_MAX: u32 = 4 * 1024 * 1024;

/// Reads a file to its end, and returns its size and content.
pub(crate) fn read_content<S>(path: &Path, file: &mut File, sink: &mut S) -> Result<(u64, Content), FilesError>
where
    S: Sink<Error = FilesError>,
{
    let unreadable = |error: io::Error| FilesError::Unreadable(path.to_owned(), error);
    let mut begin = Vec::new();
    file.by_ref().take(u64::from(WHOLE_BYTES_MAX) + 1).read_to_end(&mut begin).map_err(unreadable)?;
    if begin.len() <= INLINE_BYTES_MAX {
        return Ok((begin.len() as u64, Content::Inline(begin.into())));
    }
    if begin.len() <= WHOLE_BYTES_MAX as usize {
        let bytes = begin.len() as u32;
        let hash = add(begin.into(), sink)?;
        return Ok((bytes.into(), Content::Pieces(vec![Piece { hash, bytes }])));
    }
    let (mut pieces, mut size) = (Vec::new(), 0);
    let whole = begin.as_slice().chain(file);
    for chunk in StreamCDC::new(whole, WHOLE_BYTES_MAX, AVERAGE_BYTES, CHUNK_BYTES_MAX) {
        let data = chunk.map_err(|error| unreadable(error.into()))?.data;
        let bytes = data.len() as u32;
        size += u64::from(bytes);
        pieces.push(Piece { hash: add(data.into(), sink)?, bytes });
    }
    Ok((size, write_pieces(pieces, sink)?))
}

fn add<S: Sink<Error = FilesError>>(bytes: Bytes, sink: &mut S) -> Result<ChunkHash, FilesError> {
    let hash = ChunkHash::of(&bytes);
    sink.add(hash, bytes)?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cuts must stay: if another release of the library cut elsewhere, every large file would be uploaded again.
    #[test]
    fn cuts_are_golden() {
        let mut state = 1_u64;
        let mut bytes = Vec::new();
        while bytes.len() < 16 << 20 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        let chunks = StreamCDC::new(bytes.as_slice(), WHOLE_BYTES_MAX, AVERAGE_BYTES, CHUNK_BYTES_MAX);
        let lengths: Vec<usize> = chunks.map(|chunk| chunk.unwrap().length).collect();
        let expected = [
            1_106_196, 1_300_067, 738_715, 828_707, 1_964_314, 1_780_494, 843_057, 451_543, 1_303_228, 1_709_702,
            436_436, 1_893_766, 475_387, 1_049_936, 895_668,
        ];
        assert_eq!(lengths, expected);
    }
}
