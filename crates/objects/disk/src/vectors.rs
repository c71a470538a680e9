//! The bytes of vectors: the count of shard 0 where a store of one shard has its only count, and those of other shards
//! elsewhere.
//!
//! ```text
//!   others   others u32 | 0 u32 | other ...
//!     other  shard u32 | 0 u32 | count u64
//! ```

use types::{Shard, Vector, Version};
use vfs::{Fields, Malformed};

/// The bytes of one other shard's count.
pub(crate) const OTHER_BYTES: usize = 16;

/// The counts of the other shards.
pub(crate) fn others(vector: &Vector) -> &[(Shard, Version)] {
    let counts = vector.counts();
    match counts.first() {
        Some((Shard::ONLY, _)) => &counts[1..],
        _ => counts,
    }
}

/// Puts the counts of the other shards. How many there are is put before.
pub(crate) fn encode_others(vector: &Vector, put: &mut impl FnMut(&[u8])) {
    for (shard, count) in others(vector) {
        put(&u64::from(shard.0).to_le_bytes());
        put(&count.0.to_le_bytes());
    }
}

/// Reads the counts of `others` shards into a vector that has the count of shard 0.
pub(crate) fn decode_others(fields: &mut Fields, others: usize, vector: &mut Vector) -> Result<(), Malformed> {
    let mut last = Shard::ONLY;
    for _ in 0..others {
        let shard = u16::try_from(fields.u64()?).map(Shard).map_err(|_| Malformed)?;
        let count = Version(fields.u64()?);
        if shard <= last || count == Version::ZERO {
            return Err(Malformed);
        }
        vector.raise(shard, count);
        last = shard;
    }
    Ok(())
}
