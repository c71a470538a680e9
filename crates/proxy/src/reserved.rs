//! Room for the body of a response that is being stored: from the begin of its fill until the cache has it, and its
//! client has read it or is gone.

use crate::limits::Limits;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Room for a body that is being stored. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    bytes: usize,
    /// The most that it may be.
    bytes_max: usize,
    /// The bytes of all together.
    collected: Arc<AtomicUsize>,
    collected_max: usize,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The body is larger than one that is stored.
    TooLarge,
    /// The bodies of others take it.
    Busy,
}

impl NoRoom {
    /// Its name as the detail of a decision.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Busy => "busy",
        }
    }
}

impl Reserved {
    /// Room beside that of others, who count in `collected`.
    pub(crate) fn new(collected: Arc<AtomicUsize>, limits: &Limits, bytes: usize) -> Result<Self, NoRoom> {
        let (bytes_max, collected_max) = (limits.stored_response_bytes, limits.collected_bytes);
        let mut reserved = Self { bytes: 0, bytes_max, collected, collected_max };
        reserved.cover(bytes)?;
        Ok(reserved)
    }

    /// Makes it room for so many bytes in all.
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes > self.bytes_max {
            return Err(NoRoom::TooLarge);
        }
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let fits = |collected: usize| collected.checked_add(more).filter(|sum| *sum <= self.collected_max);
        self.collected.fetch_update(AcqRel, Relaxed, fits).map_err(|_| NoRoom::Busy)?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.collected.fetch_sub(self.bytes, AcqRel);
    }
}
