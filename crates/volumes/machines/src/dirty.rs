//! The flush epochs that are not written back: their ends, sizes and ages, and nothing of each write.

use crate::messages::holder::{FlushEpoch, Sequence, Stamp};
use alloc::collections::VecDeque;
use types::Time;

/// A flush epoch in which something was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Its last write so far.
    pub(crate) last: Stamp,
    /// The room that its writes take in the log.
    pub(crate) bytes: u64,
    /// When the first of them came.
    pub(crate) since: Time,
}

/// The flush epochs that are not written back, oldest first.
#[derive(Debug)]
pub(crate) struct Dirty {
    closed: VecDeque<Written>,
    open: Option<Written>,
    /// The number of the open one, also while nothing is written in it.
    flush: FlushEpoch,
    bytes: u64,
}

impl Dirty {
    /// Nothing is dirty; writes are of this flush epoch.
    pub(crate) fn new(flush: FlushEpoch) -> Self {
        Self { closed: VecDeque::new(), open: None, flush, bytes: 0 }
    }

    /// A flush epoch of before.
    pub(crate) fn recover(&mut self, now: Time, last: Stamp, bytes: u64) {
        self.closed.push_back(Written { last, bytes, since: now });
        self.bytes += bytes;
    }

    /// The flush epoch that writes are of now.
    pub(crate) fn flush(&self) -> FlushEpoch {
        self.flush
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.is_none()
    }

    /// When the oldest dirty write came.
    pub(crate) fn since(&self) -> Option<Time> {
        self.closed.front().or(self.open.as_ref()).map(|it| it.since)
    }

    /// A write of the open flush epoch.
    pub(crate) fn write(&mut self, now: Time, stamp: Stamp, bytes: u64) {
        let open = self.open.get_or_insert(Written { last: stamp, bytes: 0, since: now });
        open.last = stamp;
        open.bytes += bytes;
        self.bytes += bytes;
    }

    /// Later writes are of another flush epoch. Where nothing was written the epoch continues.
    pub(crate) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.closed.push_back(open);
            self.flush = FlushEpoch(self.flush.0 + 1);
        }
    }

    /// Of the flush epoch that continues behind this write, the part through it goes home by itself. Everything through
    /// `home` is home.
    pub(crate) fn cut(&mut self, home: Sequence, at: Sequence) {
        let ends_before = |it: &Written| it.last.sequence <= at;
        let index = self.closed.partition_point(ends_before);
        let before = index.checked_sub(1).map_or(home, |it| self.closed[it].last.sequence);
        let Some(&it) = self.closed.get(index).or(self.open.as_ref()).filter(|_| before < at) else { return };
        // Its room is given back with the rest.
        self.closed.insert(index, Written { last: Stamp { sequence: at, ..it.last }, bytes: 0, ..it });
    }

    /// The closed flush epochs, oldest first.
    pub(crate) fn closed(&self) -> impl Iterator<Item = &Written> {
        self.closed.iter()
    }

    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Everything through this write is home.
    pub(crate) fn home(&mut self, through: Stamp) {
        while let Some(&Written { last, bytes, .. }) = self.closed.front()
            && last <= through
        {
            self.closed.pop_front();
            self.bytes -= bytes;
        }
    }
}
