//! Room for the body of a response that is being stored: from the begin of its fill until the cache has it, and its
//! client has read it or is gone.

use crate::limits::Limits;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

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

    /// Makes it room for this many bytes in all.
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

    /// Keeps it to half of all room: responses that are not stored leave the other half to those that are, however many
    /// there are of them and however slowly they are read.
    pub(crate) fn keep_to_half(&mut self) -> Result<(), NoRoom> {
        self.collected_max /= 2;
        if self.collected.load(Acquire) <= self.collected_max { Ok(()) } else { Err(NoRoom::Busy) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.collected.fetch_sub(self.bytes, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stored_leaves_half_of_the_room_to_what_is() {
        let limits = Limits { stored_response_bytes: 60, collected_bytes: 100, ..Limits::default() };
        let collected = Arc::new(AtomicUsize::new(0));
        let new = |bytes| Reserved::new(collected.clone(), &limits, bytes);
        let mut passed = new(30).unwrap();
        passed.keep_to_half().unwrap();
        assert_eq!(passed.cover(51), Err(NoRoom::Busy));
        passed.cover(50).unwrap();
        assert_eq!(new(1).unwrap().keep_to_half(), Err(NoRoom::Busy));
        let stored = new(50).unwrap();
        assert_eq!(new(1).map(drop), Err(NoRoom::Busy));
        drop((stored, passed));
        assert_eq!(collected.load(Acquire), 0);
    }
}
