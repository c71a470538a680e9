//! The bytes of a vector: how many shards it lists, then each shard with its count.

use framing::field::check_count;
use framing::{Field, FieldLayout, Limits, Meta, Reader, WireError};
use types::limits::SHARDS_MAX;
use types::{Shard, Vector, Version};

/// A vector, behind the number of its shards.
#[derive(Debug)]
pub struct PerShard;

impl PerShard {
    /// The most that it takes.
    pub(crate) const BYTES_MAX: usize = u16::BYTES + SHARDS_MAX * <(Shard, Version)>::BYTES;
}

impl FieldLayout<Vector> for PerShard {
    const LIMITS: Limits = Limits::bytes(u16::BYTES).and_up_to(Self::BYTES_MAX - u16::BYTES);

    fn put(vector: &Vector, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        let counts = vector.counts();
        check_count(what, counts.len(), SHARDS_MAX)?;
        (counts.len() as u16).put(meta);
        for count in counts {
            count.put(meta);
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vector, WireError> {
        let shards = u16::get(what, reader)?;
        check_count(what, shards.into(), SHARDS_MAX)?;
        let (mut vector, mut last) = (Vector::new(), None);
        for _ in 0..shards {
            let (shard, count) = <(Shard, Version)>::get(what, reader)?;
            if last >= Some(shard) {
                return Err(WireError::Order { what });
            }
            if count == Version::ZERO {
                return Err(WireError::Code { what, got: 0 });
            }
            last = Some(shard);
            vector.raise(shard, count);
        }
        Ok(vector)
    }
}
