//! The log, as the machine sees it: positions, what of them is durable, which are still needed, and how much room is
//! left.
//!
//! ```text
//!        freed        needed: not home, or        durable      appended,
//!        for reuse    not in a checkpoint         and home     not durable
//!   |..............|---------------------------|-------------|--------------|
//!                  ^ freed                                   ^ durable      ^ last
//! ```
//! 1. Appends have consecutive positions; they become durable in that order.
//! 2. The last record is never freed: a restart learns from it which position comes next.
//! 3. Room is promised before it is used: a record that was appended and is not durable yet counts as taken.
//! 4. That there is no room is said only after the disk was asked to make some: a log of which nothing is needed may
//!    still be smaller than it may become.

use crate::outputs::Outputs;
use crate::{DiskWork, Position, Record};
use alloc::collections::VecDeque;

/// Room that commits may not take, in bytes, so that write-back can always log what it must before it frees.
pub(crate) const RESERVE_BYTES: u64 = 16 * 1024;

/// The state of the log.
#[derive(Debug)]
pub(crate) struct Log {
    last: Position,
    durable: Position,
    freed: Position,
    /// The records that are appended and not durable: positions, and a bound of their bytes.
    flying: VecDeque<(Position, u64)>,
    flying_bytes: u64,
    free_bytes: u64,
    /// The most room there ever was: what the log can hold, as far as the machine can know.
    capacity_bytes: u64,
    frees_outstanding: u32,
    /// The room that the disk was asked to make since the last append, in bytes.
    asked_bytes: u64,
}

impl Log {
    pub(crate) fn new(free_bytes: u64) -> Self {
        Self {
            last: Position(0),
            durable: Position(0),
            freed: Position(0),
            flying: VecDeque::new(),
            flying_bytes: 0,
            free_bytes,
            capacity_bytes: free_bytes,
            frees_outstanding: 0,
            asked_bytes: 0,
        }
    }

    /// The log held a record at this position.
    pub(crate) fn recovered(&mut self, position: Position, bytes: u64) {
        if self.freed == Position(0) {
            self.freed = position;
        }
        self.last = position;
        self.durable = position;
        self.capacity_bytes += bytes;
    }

    /// Passes a record to the log.
    pub(crate) fn append(&mut self, record: Record, out: &mut Outputs) -> Position {
        self.last = Position(self.last.0 + 1);
        let bytes = record.bytes_bound();
        self.flying.push_back((self.last, bytes));
        self.flying_bytes += bytes;
        self.asked_bytes = 0;
        out.disk(DiskWork::Append(self.last, record));
        self.last
    }

    /// The disk says that everything through `through` is durable.
    pub(crate) fn durable(&mut self, through: Position, free_bytes: u64) {
        self.durable = self.durable.max(through);
        while self.flying.front().is_some_and(|(position, _)| *position <= through) {
            let (_, bytes) = self.flying.pop_front().expect("just seen");
            self.flying_bytes -= bytes;
        }
        self.free_bytes = free_bytes;
        self.capacity_bytes = self.capacity_bytes.max(free_bytes);
    }

    /// Frees every record before `position`, if there are any.
    pub(crate) fn free_before(&mut self, position: Position, out: &mut Outputs) {
        let position = position.min(self.last);
        if position > self.freed {
            self.freed = position;
            self.frees_outstanding += 1;
            out.disk(DiskWork::Free(position));
        }
    }

    /// The disk has freed what it was told to, or made what room it could.
    pub(crate) fn freed(&mut self, free_bytes: u64) {
        self.frees_outstanding = self.frees_outstanding.saturating_sub(1);
        self.grown(free_bytes);
    }

    /// There is more room than there was.
    pub(crate) fn grown(&mut self, free_bytes: u64) {
        self.free_bytes = free_bytes;
        self.capacity_bytes = self.capacity_bytes.max(free_bytes);
    }

    /// Has the disk make room for a commit of this many bytes, unless it has answered to that already: says whether it
    /// is at work. A commit that is refused then does not speak for the next, so that one has it asked again.
    pub(crate) fn make_room(&mut self, bytes: u64, out: &mut Outputs) -> bool {
        if self.asked_bytes >= bytes {
            self.asked_bytes = 0;
            return false;
        }
        self.asked_bytes = bytes;
        self.frees_outstanding += 1;
        out.disk(DiskWork::MakeRoom(self.flying_bytes + RESERVE_BYTES + bytes));
        true
    }

    /// The bytes that the log can hold, as far as is known.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The share of the log that is taken, in percent.
    pub(crate) fn percent_taken(&self) -> u8 {
        let taken = self.capacity_bytes - self.free_bytes.saturating_sub(self.flying_bytes);
        (taken * 100 / self.capacity_bytes.max(1)) as u8
    }

    /// Whether a commit of this many bytes fits, with the reserve left.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.free_bytes >= self.flying_bytes + RESERVE_BYTES + bytes
    }

    /// Whether write-back should hurry to free some of it.
    pub(crate) fn is_tight(&self) -> bool {
        self.free_bytes.saturating_sub(self.flying_bytes) < self.capacity_bytes / 2
    }

    /// Whether the disk is at work making room.
    pub(crate) fn is_freeing(&self) -> bool {
        self.frees_outstanding > 0
    }

    /// The last position that was appended.
    pub(crate) fn last(&self) -> Position {
        self.last
    }

    /// Whether everything through `position` is durable.
    pub(crate) fn is_durable(&self, position: Position) -> bool {
        position <= self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_full_compared_with_the_most_room_that_there_was() {
        let mut log = Log::new(1000);
        assert_eq!(log.percent_taken(), 0);
        log.durable(Position(1), 250);
        assert_eq!(log.percent_taken(), 75);
        log.freed(1000);
        assert_eq!(log.percent_taken(), 0);
        log.grown(4000);
        log.durable(Position(2), 1000);
        assert_eq!(log.percent_taken(), 75);
        assert_eq!(Log::new(0).percent_taken(), 0, "a disk may have no room at all");
    }
}
