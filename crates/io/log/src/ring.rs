//! The ring of segments while a store runs: flushes are written one behind the other, segments are begun again when
//! nothing in them is needed, and new ones made when there is none such.

use crate::flush::{Stamp, Start, Stopped, Writer, Written};
use crate::frame::FORMAT;
use crate::places::Places;
use crate::records::Records;
use crate::scan::{Due, Scan};
use crate::segment::{LogId, Segment, SegmentHeader, name_of, number_of};
use std::collections::VecDeque;
use std::sync::Arc;
use vfs::{Aligned, BLOCK, Doing, FileError, Files, How, Verdict};

/// Room that is never offered, in bytes.
const KEPT_BACK_BYTES_MAX: usize = 256 << 10;

/// How large the ring is.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The length of segments made from now on, in bytes: whole blocks, less than 4 GiB.
    pub segment_bytes: usize,
    /// The number of segments that are made ahead of need.
    pub segments_max: usize,
    /// How much of a flush is built before it is written, in bytes: whole blocks.
    pub memory_bytes: usize,
}

/// The records that one flush makes durable.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    /// Records at consecutive positions.
    pub(crate) records: Vec<(u64, T)>,
    /// No record before this position is needed any more.
    pub(crate) needed: u64,
    /// See [`crate::Log::flush`].
    pub(crate) witness: u32,
}

/// A flush that is being written, or waits for what it needs.
#[derive(Debug)]
struct Pending<T> {
    batch: Batch<T>,
    /// The segments that it has continued in so far, and continues in when it is written again.
    segments: Vec<Segment>,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring<R: Records> {
    files: Arc<dyn Files>,
    log: LogId,
    limits: Limits,
    incarnation: u32,
    due: Due,
    /// The segments that are needed, in generation order; the last one is being written.
    live: VecDeque<Segment>,
    /// Segments that nothing is needed of.
    free: Vec<Segment>,
    /// Where the next flush begins in the last segment.
    at: usize,
    /// The number of the next segment to be made.
    next_number: u64,
    /// A segment is being made, or could not be made and is not tried again before one becomes free.
    growing: bool,
    /// The disk has had no room for the last segment that was to be made: the last free one is a reserve, without which
    /// nothing could be freed any more.
    is_disk_full: bool,
    memory: Aligned,
    /// Where records are, if they are read back.
    places: Option<Arc<Places>>,
    pending: Option<Pending<R::Record>>,
}

impl<R: Records> Ring<R> {
    /// Makes the first segments of a new log.
    pub(crate) fn create(files: &dyn Files, log: LogId, limits: Limits, segments: usize) -> Result<(), FileError> {
        for number in 1..=segments {
            let name = name_of(number as u64);
            let segment = Segment::create(files, &name, limits.segment_bytes).doing("create", || files.path(&name))?;
            if number == 1 {
                let header = SegmentHeader {
                    format: FORMAT,
                    segment_bytes: limits.segment_bytes as u32,
                    log,
                    generation: 1,
                    first_flush: 1,
                    first_position: 1,
                    needed: 1,
                    first_offset: BLOCK as u32,
                };
                let mut block = Aligned::default();
                block.put(&header.encode());
                block.pad();
                let write = segment.file.write_at(0, block.bytes()).and_then(|()| segment.file.sync());
                write.doing("write", || files.path(&name))?;
            }
        }
        Ok(())
    }

    /// Goes on where a finished scan has found the tail.
    pub(crate) fn resume(
        files: Arc<dyn Files>,
        log: LogId,
        limits: Limits,
        incarnation: u32,
        scan: &Scan<R>,
    ) -> Result<Self, FileError> {
        let tail = scan.place;
        let mut ring = Self {
            files: files.clone(),
            log,
            limits,
            incarnation,
            due: scan.due,
            live: VecDeque::new(),
            free: Vec::new(),
            at: tail.offset,
            next_number: 1 + scan.segments.iter().filter_map(|segment| number_of(&segment.name)).max().unwrap_or(0),
            growing: false,
            is_disk_full: false,
            memory: Aligned::default(),
            places: R::READ_BACK.then(|| Arc::new(Places::new(files))),
            pending: None,
        };
        for (i, segment) in scan.segments.iter().enumerate() {
            let segment = ring.reopen(segment)?;
            ring.write_again(i, &segment, scan)?;
            if i <= tail.segment && segment.header.is_some() {
                ring.live.push_back(segment);
            } else {
                ring.blank(&segment)?;
                ring.free.push(segment);
            }
        }
        if let Some(places) = &ring.places {
            places.begin(&ring.live, scan.places())?;
        }
        ring.release();
        Ok(ring)
    }

    /// Opens a segment for writes past the page cache.
    fn reopen(&self, segment: &Segment) -> Result<Segment, FileError> {
        let path = || self.files.path(&segment.name);
        Ok(Segment { file: self.files.open(&segment.name, How::Direct).doing("open", path)?, ..segment.clone() })
    }

    /// Takes away the header of a segment that the torn tail began. Its generation will be begun again, and no two
    /// segments may say the same; and what it says of the first record in it is no longer true.
    fn blank(&self, segment: &Segment) -> Result<(), FileError> {
        if segment.header.is_none() {
            return Ok(());
        }
        let blanked = segment.file.write_at(0, Aligned::zeroed(BLOCK).bytes()).and_then(|()| segment.file.sync());
        blanked.doing("write", || self.files.path(&segment.name))
    }

    /// Writes the last flush once more. After a kill, or a sync that failed, it may are in the system's memory only,
    /// and the system may believe that it is on the disk; but from now on it counts as durable. The bytes are the
    /// same, so a crash in the middle of it does no harm.
    fn write_again(&self, at: usize, segment: &Segment, scan: &Scan<R>) -> Result<(), FileError> {
        let (Some(from), to) = (scan.last, scan.place) else { return Ok(()) };
        if !(from.segment..=to.segment).contains(&at) {
            return Ok(());
        }
        let start = if at == from.segment { from.offset } else { 0 };
        let end = if at == to.segment { to.offset } else { segment.bytes };
        // The header block goes along: it may have been written by this flush.
        for (start, end) in [(0, BLOCK), (start, end)] {
            let mut blocks = Aligned::zeroed(end - start);
            segment.file.read_at(start as u64, blocks.bytes_mut()).doing("read", || self.files.path(&segment.name))?;
            let written = segment.file.write_at(start as u64, blocks.bytes());
            written.doing("write", || self.files.path(&segment.name))?;
        }
        segment.file.sync().doing("sync", || self.files.path(&segment.name))
    }

    /// Makes a batch durable, by one write and one sync nearly always: one more write for each time that its memory is
    /// full, and for the header of a segment that it begins; one more sync for each such segment. A batch without
    /// records writes a mark.
    ///
    /// Returns whether it is done. If the system lacks what passes, or room, it is not: the ring keeps the batch, and
    /// [`Ring::go_on`] tries again. An error leaves the ring unusable: what is on the disk, only recovery can say.
    pub(crate) fn flush(&mut self, batch: Batch<R::Record>) -> Result<bool, FileError> {
        debug_assert!(self.pending.is_none(), "one flush at a time");
        self.due.needed = self.due.needed.max(batch.needed);
        self.due.witness = self.due.witness.max(batch.witness);
        self.pending = Some(Pending { batch, segments: Vec::new() });
        self.go_on()
    }

    /// Frees segments ahead of the flush that waits, if one does and that is needed for it: by a mark that is written
    /// in its place, and that it follows then. Its first blocks may be on the disk already; they are written over, or
    /// are of a flush that is no longer due.
    pub(crate) fn free_ahead(&mut self, needed: u64) -> Result<(), FileError> {
        if !self.is_unneeded(needed) {
            return Ok(());
        }
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        if self.free.is_empty() {
            self.free.extend(pending.segments.pop());
        }
        let mark = Batch { records: Vec::new(), needed, witness: self.due.witness };
        if !self.flush(mark)? {
            let given_up = self.pending.take();
            self.free.extend(given_up.into_iter().flat_map(|it| it.segments));
        }
        self.pending = Some(pending);
        Ok(())
    }

    /// Goes on with the flush that waits, if one does; says whether none waits any more.
    pub(crate) fn go_on(&mut self) -> Result<bool, FileError> {
        let Some(mut pending) = self.pending.take() else { return Ok(true) };
        let written = match self.write(&mut pending) {
            Ok(written) => written,
            Err(Stopped { refused, .. }) if refused.verdict() != Verdict::Fails => {
                self.pending = Some(pending);
                return Ok(false);
            }
            Err(Stopped { doing, file, refused }) => return Err(refused).doing(doing, || self.files.path(&file)),
        };
        for segment in &written.segments {
            segment.file.sync().doing("sync", || self.files.path(&segment.name))?;
        }
        self.due.flush += 1;
        self.due.position += pending.batch.records.len() as u64;
        (self.at, self.memory) = (written.at, written.memory);
        if let Some(places) = &self.places {
            places.extend(&written.begun, self.due.position - written.places.len() as u64, written.places)?;
        }
        self.live.extend(written.begun);
        self.release();
        Ok(true)
    }

    /// Writes a flush from its beginning.
    fn write(&mut self, pending: &mut Pending<R::Record>) -> Result<Written, Stopped> {
        let stamp = Stamp {
            log: self.log,
            incarnation: self.incarnation,
            flush: self.due.flush,
            needed: self.due.needed,
            witness: self.due.witness,
            last: self.due.position - 1,
        };
        let start = Start {
            active: self.live.back().expect("one is being written").clone(),
            at: self.at,
            memory: std::mem::take(&mut self.memory),
            memory_bytes: self.limits.memory_bytes,
        };
        let (has_reserve, frees) = (self.has_reserve(), self.is_unneeded(self.due.needed));
        let Pending { batch, segments } = pending;
        let mut next = 0;
        let mut supply = || {
            if next == segments.len() {
                let is_reserved = has_reserve && !frees && self.free.len() == 1;
                let segment = if let Some(segment) = self.free.pop_if(|_| !is_reserved) {
                    segment
                } else {
                    // The ring is full, and the records have been accepted: the ring grows, past its limit if need be.
                    let name = name_of(self.next_number);
                    let made = Segment::create(&*self.files, &name, self.limits.segment_bytes);
                    self.is_disk_full = made.as_ref().is_err_and(|it| it.verdict() == Verdict::NoRoom);
                    let segment = made?;
                    self.next_number += 1;
                    segment
                };
                segments.push(segment);
            }
            next += 1;
            Ok(segments[next - 1].clone())
        };
        let mut writer = Writer::new(stamp, start, &mut supply);
        for (position, record) in &batch.records {
            writer.put_record::<R>(*position, record)?;
        }
        if batch.records.is_empty() {
            writer.put_mark()?;
        }
        writer.finish()
    }

    /// Frees the segments that hold nothing that is needed. That they need not be kept is durable already.
    fn release(&mut self) {
        while self.live.len() > 1 && self.is_unneeded(self.due.needed) {
            self.free.extend(self.live.pop_front());
            self.growing = false;
        }
        if let Some(places) = &self.places {
            places.release(self.live[0].header.map_or(0, |header| header.generation), self.due.needed);
        }
    }

    /// The places of records that are read back.
    pub(crate) fn places(&self) -> Option<Arc<Places>> {
        self.places.clone()
    }

    /// Whether the oldest segment would be free if nothing before `needed` were needed.
    pub(crate) fn is_unneeded(&self, needed: u64) -> bool {
        let next = self.live.get(1).and_then(|segment| segment.header);
        next.is_some_and(|header| header.first_position <= needed)
    }

    /// The last record that is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.due.position - 1
    }

    /// No record before this position is needed, and that is durable.
    pub(crate) fn needed(&self) -> u64 {
        self.due.needed
    }

    /// Whether the last free segment is begun only by a flush that frees another one. Of two segments it is not: the
    /// first can be freed only when the other has been begun.
    fn has_reserve(&self) -> bool {
        self.is_disk_full && self.live.len() > 1
    }

    /// Room for records, in bytes. The room that padding, a mark and the headers of parts may take is kept back; and a
    /// segment, if the disk is full.
    pub(crate) fn bytes_free(&self) -> u64 {
        let active = self.live.back().map_or(0, |segment| segment.bytes - self.at);
        let reserved = usize::from(self.has_reserve());
        let free: usize = self.free.iter().skip(reserved).map(|segment| segment.bytes - BLOCK).sum();
        let kept_back = (self.limits.segment_bytes / 4).min(KEPT_BACK_BYTES_MAX);
        (active + free).saturating_sub(kept_back) as u64
    }

    /// The bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.live.iter().chain(&self.free).map(|segment| segment.bytes as u64).sum()
    }

    /// The name of a segment that should be made now, so that no flush has to wait for it. It is asked for once.
    pub(crate) fn plan_segment(&mut self) -> Option<String> {
        let segments = self.live.len() + self.free.len();
        if self.growing || !self.free.is_empty() || segments >= self.limits.segments_max {
            return None;
        }
        self.growing = true;
        Some(self.next_name())
    }

    /// The name of a segment that should be made so that `bytes` are free.
    pub(crate) fn plan_segment_for(&mut self, bytes: u64) -> Option<String> {
        // One may be planned already, and is made after this one.
        let segments = self.live.len() + self.free.len() + usize::from(self.growing);
        (self.bytes_free() < bytes && segments < self.limits.segments_max).then(|| self.next_name())
    }

    fn next_name(&mut self) -> String {
        self.next_number += 1;
        name_of(self.next_number - 1)
    }

    /// Takes a segment that was planned and made.
    pub(crate) fn add(&mut self, segment: Segment) {
        self.free.push(segment);
        (self.growing, self.is_disk_full) = (false, false);
    }

    /// The disk has no room for another segment.
    pub(crate) fn has_full_disk(&mut self) {
        self.is_disk_full = true;
    }

    /// Segments that are made from now on have this length.
    pub(crate) fn set_segment_bytes(&mut self, bytes: usize) {
        self.limits.segment_bytes = bytes;
    }

    /// The length of the longest segment.
    pub(crate) fn segment_bytes_max(&self) -> usize {
        self.live.iter().chain(&self.free).map(|segment| segment.bytes).max().unwrap_or(0)
    }

    /// Whether writes pass by the system's page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.live.iter().all(|segment| segment.file.is_direct())
    }
}
