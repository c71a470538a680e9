//! The home's memory beside the pages: one value, replaced as a whole with every install.
//!
//! ```text
//!   format u32 | digest u32 | installs u64 | pages u64 | durable position of the log u64 |
//!   checkpoint (see checkpoint.rs) | CRC32C of all before it u32
//! ```
//! Format 2 is written only where something was set aside, and format 3 only in a store of several shards: an earlier
//! program would lose that.

use crate::page_file::checkpoint;
use bytes::Bytes;
use store::Checkpoint;
use vfs::{Fields, Malformed};

const FORMAT: u32 = 1;
const FORMAT_WITH_ASIDE: u32 = 2;
const FORMAT_OF_SHARDS: u32 = 3;

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The XOR of the digests of all entries of `versions`.
    pub(crate) digest: u32,
    /// How many installs there were.
    pub(crate) installs: u64,
    /// How many pages there are.
    pub(crate) pages: u64,
    /// The last position of the log that was durable.
    pub(crate) durable: u64,
    /// The checkpoint.
    pub(crate) checkpoint: Checkpoint,
}

impl State {
    /// The state's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let format = match &self.checkpoint {
            checkpoint if checkpoint::has_shards(checkpoint) => FORMAT_OF_SHARDS,
            checkpoint if !checkpoint.aside.is_empty() => FORMAT_WITH_ASIDE,
            _ => FORMAT,
        };
        out.extend_from_slice(&format.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        for number in [self.installs, self.pages, self.durable] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        checkpoint::encode(&self.checkpoint, &mut out);
        if format >= FORMAT_WITH_ASIDE {
            checkpoint::encode_aside(&self.checkpoint.aside, &mut out);
        }
        if format >= FORMAT_OF_SHARDS {
            checkpoint::encode_shards(&self.checkpoint, &mut out);
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// The state of some bytes, or what is wrong with them.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, String> {
        let body = bytes.slice(..bytes.len().saturating_sub(4));
        let crc = crc32c::crc32c(&body);
        if bytes[body.len()..] != crc.to_le_bytes() {
            return Err("the home's state does not have its checksum".to_owned());
        }
        let mut fields = Fields::new(body);
        match fields.u32() {
            Ok(format @ FORMAT..=FORMAT_OF_SHARDS) => {
                Self::decode_fields(format, fields).map_err(|Malformed| "the home's state is malformed".to_owned())
            }
            Ok(got) => {
                Err(format!("the home's state is in format {got}, this program knows formats up to {FORMAT_OF_SHARDS}"))
            }
            Err(Malformed) => Err("the home's state is empty".to_owned()),
        }
    }

    fn decode_fields(format: u32, mut fields: Fields) -> Result<Self, Malformed> {
        let (digest, installs, pages) = (fields.u32()?, fields.u64()?, fields.u64()?);
        let durable = fields.u64()?;
        let mut checkpoint = checkpoint::decode(&mut fields)?;
        if format >= FORMAT_WITH_ASIDE {
            checkpoint.aside = checkpoint::decode_aside(&mut fields)?;
        }
        if format >= FORMAT_OF_SHARDS {
            checkpoint::decode_shards(&mut fields, &mut checkpoint)?;
        }
        fields.end()?;
        Ok(Self { digest, installs, pages, durable, checkpoint })
    }
}
