//! The records of the cache's log: one for each write, in the order of their sequence, which is their position.
//!
//! ```text
//!    0  epoch u64              of the owner that wrote it
//!    8  flush epoch u64        writes of a later one reach the home after all of this one
//!   16  first block u32 | blocks u32
//!   24  0 u64
//!   32  of data (kind 1): CRC32C u32 of each block, then the blocks; of zeros (kind 2) and a trim (kind 3): nothing
//! ```

use crate::extents::{BLOCK, Blocks};
use bytes::Bytes;
use log::Records;
use machines::messages::holder::{Content, Epoch, FlushEpoch};
use vfs::{Fields, Malformed};

/// The most blocks of a record with content. A longer write is several records: reading one block of it back stays
/// cheap, and the log's segments are filled well.
pub(crate) const BLOCKS_MAX: u32 = 64;

const HEADER_BYTES: usize = 32;

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) epoch: Epoch,
    pub(crate) flush: FlushEpoch,
    pub(crate) blocks: Blocks,
    pub(crate) content: Content,
}

/// Where a block's bytes are in the body of a record with content, the checksum's place and the block's.
pub(crate) fn places_in_body(blocks: &Blocks, block: u32) -> (usize, usize) {
    let (index, count) = ((block - blocks.start) as usize, blocks.len());
    (HEADER_BYTES + 4 * index, HEADER_BYTES + 4 * count + BLOCK * index)
}

/// The records.
#[derive(Debug)]
pub(crate) struct Writes;

impl Records for Writes {
    type Record = Write;

    const BODY_BYTES_MAX: u32 = (HEADER_BYTES + BLOCKS_MAX as usize * (4 + BLOCK)) as u32;
    const READ_BACK: bool = true;

    fn kind(write: &Write) -> u8 {
        match write.content {
            Content::Data(_) => 1,
            Content::Zero => 2,
            Content::Trim => 3,
        }
    }

    fn body_bytes(write: &Write) -> usize {
        match &write.content {
            Content::Data(bytes) => HEADER_BYTES + 4 * write.blocks.len() + bytes.len(),
            Content::Zero | Content::Trim => HEADER_BYTES,
        }
    }

    fn encode(write: &Write, put: &mut impl FnMut(&[u8])) {
        let mut header = [0; HEADER_BYTES];
        header[0..8].copy_from_slice(&write.epoch.0.to_le_bytes());
        header[8..16].copy_from_slice(&write.flush.0.to_le_bytes());
        header[16..20].copy_from_slice(&write.blocks.start.to_le_bytes());
        header[20..24].copy_from_slice(&(write.blocks.end - write.blocks.start).to_le_bytes());
        put(&header);
        if let Content::Data(bytes) = &write.content {
            for block in bytes.chunks_exact(BLOCK) {
                put(&crc32c::crc32c(block).to_le_bytes());
            }
            put(bytes);
        }
    }

    fn decode(kind: u8, body: Bytes) -> Result<Write, Malformed> {
        let mut fields = Fields::new(body.clone());
        let (epoch, flush) = (Epoch(fields.u64()?), FlushEpoch(fields.u64()?));
        let (first, count) = (fields.u32()?, fields.u32()?);
        if fields.u64()? != 0 || count == 0 {
            return Err(Malformed);
        }
        let blocks = first..first.checked_add(count).ok_or(Malformed)?;
        let content = match kind {
            1 if count <= BLOCKS_MAX && body.len() == HEADER_BYTES + count as usize * (4 + BLOCK) => {
                Content::Data(body.slice(HEADER_BYTES + 4 * count as usize..))
            }
            2 if body.len() == HEADER_BYTES => Content::Zero,
            3 if body.len() == HEADER_BYTES => Content::Trim,
            _ => return Err(Malformed),
        };
        Ok(Write { epoch, flush, blocks, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_no_other_body_is_one() {
        let bytes = Bytes::from([vec![1; BLOCK], vec![2; BLOCK]].concat());
        for content in [Content::Data(bytes), Content::Zero, Content::Trim] {
            let write = Write { epoch: Epoch(3), flush: FlushEpoch(4), blocks: 7..9, content };
            let mut body = Vec::new();
            Writes::encode(&write, &mut |part| body.extend_from_slice(part));
            assert_eq!(body.len(), Writes::body_bytes(&write));
            let kind = Writes::kind(&write);
            assert_eq!(Writes::decode(kind, body.clone().into()), Ok(write.clone()));
            assert_eq!(Writes::decode(4 * (1 / kind), body.clone().into()), Err(Malformed));
            assert_eq!(Writes::decode(kind, body[..body.len() - 1].to_vec().into()), Err(Malformed));
            body[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
            assert_eq!(Writes::decode(kind, body.into()), Err(Malformed));
        }
        let (checksum, block) = places_in_body(&(7..9), 8);
        assert_eq!((checksum, block), (36, 40 + BLOCK));
    }
}
