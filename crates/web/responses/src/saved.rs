//! A stored response as bytes, to be kept where memory is not.
//!
//! ```text
//!   received u64 | date u64 | initial age u32 | lifetime u32 | stale-while-revalidate u32 | stale-if-error u32
//!   status u16 | flags u16 | bytes of what selects it u32 | bytes of the fields u32 | what selects it | fields
//! ```
//! Numbers are little-endian. The cache's own bytes are not among them.

use crate::date::Time;
use crate::fields::Fields;
use crate::freshness::Freshness;
use crate::stored::{Flags, Stored};
use http::{HeaderName, HeaderValue, StatusCode};

/// The bytes before the text.
const FIXED_BYTES: usize = 2 * 8 + 4 * 4 + 2 * 2 + 2 * 4;

impl Stored {
    /// It without the cache's own bytes, for [`Stored::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let (begin, end) = self.fields;
        let mut bytes = Vec::with_capacity(FIXED_BYTES + end as usize);
        for time in [self.freshness.received, self.date] {
            bytes.extend_from_slice(&time.unix_s().to_le_bytes());
        }
        let Freshness { initial_age_s, lifetime_s, stale_while_revalidate_s, stale_if_error_s, .. } = self.freshness;
        for seconds in [initial_age_s, lifetime_s, stale_while_revalidate_s, stale_if_error_s] {
            bytes.extend_from_slice(&seconds.to_le_bytes());
        }
        for number in [self.status.as_u16(), self.flags.to_bits()] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for size in [begin, end - begin] {
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        bytes.extend_from_slice(&self.text[..end as usize]);
        bytes
    }

    /// Reads one that was written; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fixed, text) = bytes.split_at_checked(FIXED_BYTES)?;
        let u16_at = |at: usize| fixed[at..at + 2].try_into().map(u16::from_le_bytes).ok();
        let u32_at = |at: usize| fixed[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let u64_at = |at: usize| fixed[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let (selecting, fields) = (u32_at(36)?, u32_at(40)?);
        let end = selecting.checked_add(fields).filter(|end| *end as usize == text.len())?;
        if !are_fields(&text[selecting as usize..]) {
            return None;
        }
        Some(Self {
            text: text.into(),
            fields: (selecting, end),
            freshness: Freshness {
                received: Time::from_unix_s(u64_at(0)?),
                initial_age_s: u32_at(16)?,
                lifetime_s: u32_at(20)?,
                stale_while_revalidate_s: u32_at(24)?,
                stale_if_error_s: u32_at(28)?,
            },
            date: Time::from_unix_s(u64_at(8)?),
            status: StatusCode::from_u16(u16_at(32)?).ok()?,
            flags: Flags::from_bits(u16_at(34)?),
        })
    }
}

/// Whether these are field lines and nothing else.
fn are_fields(bytes: &[u8]) -> bool {
    let is_field = |(name, value): (&str, &[u8])| {
        let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok_and(|parsed| parsed == name);
        is_name && HeaderValue::from_bytes(value).is_ok()
    };
    let mut read = 0;
    Fields(bytes).iter().all(|(name, value)| {
        read += name.len() + value.len() + ": \r\n".len();
        is_field((name, value))
    }) && read == bytes.len()
}

impl Flags {
    fn to_bits(self) -> u16 {
        let Self { no_cache, must_revalidate, has_validator, heuristic } = self;
        let flags = [no_cache, must_revalidate, has_validator, heuristic];
        (0..).zip(flags).map(|(bit, is_set)| u16::from(is_set) << bit).sum()
    }

    fn from_bits(bits: u16) -> Self {
        let is_set = |bit: u32| bits >> bit & 1 == 1;
        Self { no_cache: is_set(0), must_revalidate: is_set(1), has_validator: is_set(2), heuristic: is_set(3) }
    }
}
