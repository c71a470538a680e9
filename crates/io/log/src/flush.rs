//! A flush on its way to the disk: records become frames in aligned memory, which is written when it is full, and at
//! the end.
//!
//! ```text
//!   records --> frames --> [ memory ] --full, or the segment is--> written
//!                              ^            begin the next frame at the memory's start
//!                              +---------------------+
//! ```
//! 1. A record that does not fit into what is left of the memory, or of the segment, continues in another frame. So a
//!    flush takes little memory however large it is: memory for all of a commit of many MiB would be touched for the
//!    first time while everyone else's commit waits.
//! 2. A write before the end is followed by more of the same flush, so it is whole blocks and ends with a frame.
//! 3. A flush that could not be written to its end is written again from its beginning, into the same segments: the
//!    same bytes.
//! 4. Nothing of it counts before the syncs that follow, in whatever order it was written.

use crate::frame::{FORMAT, FRAME_BYTES_MIN, Frame, HEADER_BYTES, MARK};
use crate::places::RecordPlace;
use crate::records::Records;
use crate::segment::{LogId, Segment, SegmentHeader};
use std::mem;
use vfs::{Aligned, BLOCK, Call, On, Refused};

/// The fields that all frames of a flush share with the headers of the segments that it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The log that it belongs to.
    pub(crate) log: LogId,
    /// The process's.
    pub(crate) incarnation: u32,
    /// The flush's number.
    pub(crate) flush: u64,
    /// No record before this position is needed any more.
    pub(crate) needed: u64,
    /// See [`crate::Log::flush`].
    pub(crate) witness: u32,
    /// The position of the last record before the flush.
    pub(crate) last: u64,
}

/// Where a flush continues.
#[derive(Debug)]
pub(crate) struct Start {
    /// The segment that the last flush ended in.
    pub(crate) active: Segment,
    /// Where it ended.
    pub(crate) at: usize,
    /// The memory that the flush is built in.
    pub(crate) memory: Aligned,
    /// How much of it is filled before it is written, in bytes; whole blocks.
    pub(crate) memory_bytes: usize,
}

/// A flush that has been written and not synced.
#[derive(Debug)]
pub(crate) struct Written {
    /// The segments that have something of it.
    pub(crate) segments: Vec<Segment>,
    /// Those that it has begun, with their headers.
    pub(crate) begun: Vec<Segment>,
    /// Where it ends in the last segment.
    pub(crate) at: usize,
    /// The memory that it was built in.
    pub(crate) memory: Aligned,
    /// Where its records are, in their order, of records that are read back.
    pub(crate) places: Vec<RecordPlace>,
}

/// Why a flush could not be written to its end.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// The operation, as an error message names it.
    pub(crate) doing: &'static str,
    /// To which file.
    pub(crate) file: String,
    /// The system's refusal.
    pub(crate) refused: Refused,
}

/// A flush that is being written. `supply` gives the next segment to continue in.
pub(crate) struct Writer<'a> {
    stamp: Stamp,
    segment: Segment,
    /// Where in the segment the memory's first byte belongs.
    at: usize,
    memory: Aligned,
    memory_bytes: usize,
    /// Of the segment, as is its generation.
    format: u8,
    generation: u32,
    last: u64,
    last_header: (usize, Frame),
    frames: usize,
    written: Vec<Segment>,
    begun: Vec<Segment>,
    places: Vec<RecordPlace>,
    supply: &'a mut dyn FnMut() -> Result<Segment, Refused>,
}

/// A record that is being put into frames.
struct Putting {
    frame: Frame,
    /// Where the frame begins in the memory.
    at: usize,
    /// How much more of the body the frame takes.
    room: usize,
    /// How much of the body is yet to come.
    missing: usize,
}

impl<'a> Writer<'a> {
    /// Begins where the last flush ended.
    pub(crate) fn new(stamp: Stamp, start: Start, supply: &'a mut dyn FnMut() -> Result<Segment, Refused>) -> Self {
        let Start { active: segment, at, mut memory, memory_bytes } = start;
        memory.clear();
        let (format, generation) = segment.header.map_or((FORMAT, 0), |header| (header.format, header.generation));
        let last_header = (0, frame(MARK, 0, stamp));
        let (last, frames) = (stamp.last, 0);
        Self {
            stamp,
            segment,
            at,
            memory,
            memory_bytes,
            format,
            generation,
            last,
            last_header,
            frames,
            written: Vec::new(),
            begun: Vec::new(),
            places: Vec::new(),
            supply,
        }
    }

    /// Adds a record.
    pub(crate) fn put_record<R: Records>(&mut self, position: u64, record: &R::Record) -> Result<(), Stopped> {
        assert_eq!(position, self.last + 1, "appends come in the order of their positions");
        let (kind, bytes) = (R::kind(record), R::body_bytes(record));
        assert!(
            kind != MARK && bytes <= R::BODY_BYTES_MAX as usize,
            "kind {kind}, {bytes} bytes: no record of this log"
        );
        self.last = position;
        let frame = Frame { record_bytes: bytes as u32, ..frame(kind, self.last, self.stamp) };
        let mut putting = self.begin_frame(frame, bytes)?;
        if R::READ_BACK {
            let Frame { generation, offset, .. } = putting.frame;
            self.places.push(RecordPlace { generation, offset, part_bytes: putting.room as u32 });
        }
        let mut put = Ok(());
        R::encode(record, &mut |part: &[u8]| {
            if put.is_ok() {
                put = self.put_part(&mut putting, part);
            }
        });
        put?;
        self.end_frame(&putting);
        Ok(())
    }

    /// Adds a mark: a frame that is only there to be behind what came before.
    pub(crate) fn put_mark(&mut self) -> Result<(), Stopped> {
        let mark = self.begin_frame(frame(MARK, self.last, self.stamp), 0)?;
        self.end_frame(&mark);
        Ok(())
    }

    fn put_part(&mut self, putting: &mut Putting, mut part: &[u8]) -> Result<(), Stopped> {
        while !part.is_empty() {
            if putting.room == 0 {
                self.end_frame(putting);
                *putting = self.begin_frame(putting.frame, putting.missing)?;
            }
            let (now, rest) = part.split_at(part.len().min(putting.room));
            self.memory.put(now);
            putting.room -= now.len();
            putting.missing -= now.len();
            part = rest;
        }
        Ok(())
    }

    /// Begins a frame for as much as fits of a body of which so much is missing.
    fn begin_frame(&mut self, frame: Frame, missing: usize) -> Result<Putting, Stopped> {
        self.make_room()?;
        let at = self.memory.len();
        // Where the memory ends a block does, and there is room for a frame before it.
        let end = (at + FRAME_BYTES_MIN).next_multiple_of(BLOCK).max(self.memory_bytes);
        let room = missing.min((end - at).min(self.room()) - HEADER_BYTES);
        self.memory.reserve(HEADER_BYTES + room);
        self.memory.put(&[0; HEADER_BYTES]);
        let record_begins = missing == frame.record_bytes as usize;
        let (format, generation, offset) = (self.format, self.generation, (self.at + at) as u32);
        let frame = Frame { format, record_begins, generation, offset, ..frame };
        Ok(Putting { frame, at, room, missing })
    }

    fn end_frame(&mut self, putting: &Putting) {
        let body = &self.memory.bytes()[putting.at + HEADER_BYTES..];
        let frame = Frame {
            record_ends: putting.missing == 0,
            flush_begins: self.frames == 0,
            part_bytes: body.len() as u32,
            body_sum: putting.frame.sum_of(body),
            ..putting.frame
        };
        self.put_header(putting.at, frame);
        self.last_header = (putting.at, frame);
        self.frames += 1;
    }

    fn put_header(&mut self, at: usize, frame: Frame) {
        self.memory.bytes_mut()[at..at + HEADER_BYTES].copy_from_slice(&frame.encode());
    }

    /// The bytes that are left of the segment.
    fn room(&self) -> usize {
        self.segment.bytes - self.at - self.memory.len()
    }

    /// Writes what is full, and continues in the next segment if too little is left of this one.
    fn make_room(&mut self) -> Result<(), Stopped> {
        if self.room() < FRAME_BYTES_MIN {
            self.write()?;
            return self.begin_segment();
        }
        let is_full = self.memory.len() >= self.memory_bytes && self.memory.len().is_multiple_of(BLOCK);
        if is_full { self.write() } else { Ok(()) }
    }

    fn begin_segment(&mut self) -> Result<(), Stopped> {
        (self.format, self.generation) = (FORMAT, self.generation + 1);
        let refused = |refused| Stopped { doing: "make a segment in", file: String::new(), refused };
        self.segment = (self.supply)().map_err(refused)?;
        self.at = BLOCK;
        self.segment.header = Some(SegmentHeader {
            format: self.format,
            segment_bytes: self.segment.bytes as u32,
            log: self.stamp.log,
            generation: self.generation,
            needed: self.stamp.needed,
            // Completed when the flush is: only a flush that begins here begins right behind the header.
            first_flush: 0,
            first_position: 0,
            first_offset: if self.frames == 0 { BLOCK as u32 } else { 0 },
        });
        self.begun.push(self.segment.clone());
        Ok(())
    }

    /// Writes what is in the memory, padded to a block.
    fn write(&mut self) -> Result<(), Stopped> {
        if !self.memory.is_empty() {
            self.memory.pad();
            write(&self.segment, self.at, &self.memory)?;
            if self.written.last().is_none_or(|last| last.name != self.segment.name) {
                self.written.push(self.segment.clone());
            }
        }
        self.at += self.memory.len();
        self.memory.clear();
        Ok(())
    }

    /// Closes the flush: marks its last frame, writes what is left, and the headers of the segments that it has begun.
    pub(crate) fn finish(mut self) -> Result<Written, Stopped> {
        let (at, last) = self.last_header;
        self.put_header(at, Frame { flush_ends: true, ..last });
        self.write()?;
        let mut begun = mem::take(&mut self.begun);
        let last = begun.len();
        for (number, segment) in (1..).zip(&mut begun) {
            let header = segment.header.as_mut().expect("it has been begun");
            self.complete(header, number == last);
            let mut block = Aligned::default();
            block.put(&header.encode());
            block.pad();
            write(segment, 0, &block)?;
        }
        Ok(Written { segments: self.written, begun, at: self.at, memory: self.memory, places: self.places })
    }

    /// Says in a segment's header where the first flush that begins there does.
    fn complete(&self, header: &mut SegmentHeader, is_last: bool) {
        let stamp = self.stamp;
        let (flush, position, offset) = if header.first_offset as usize == BLOCK {
            (stamp.flush, stamp.last + 1, BLOCK as u32)
        } else if is_last {
            (stamp.flush + 1, self.last + 1, self.at as u32)
        } else {
            (stamp.flush + 1, self.last + 1, header.segment_bytes)
        };
        (header.first_flush, header.first_position, header.first_offset) = (flush, position, offset);
    }
}

fn write(segment: &Segment, at: usize, memory: &Aligned) -> Result<(), Stopped> {
    let written = segment.file.write_at(at as u64, memory.bytes()).on(Call::Write);
    written.map_err(|refused| Stopped { doing: "write", file: segment.name.clone(), refused })
}

/// A frame that has no place yet.
fn frame(kind: u8, position: u64, stamp: Stamp) -> Frame {
    Frame {
        format: FORMAT,
        kind,
        record_begins: false,
        record_ends: false,
        flush_begins: false,
        flush_ends: false,
        position,
        generation: 0,
        flush: stamp.flush,
        needed: stamp.needed,
        witness: stamp.witness,
        incarnation: stamp.incarnation,
        offset: 0,
        part_bytes: 0,
        record_bytes: 0,
        body_sum: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::notes::{Note, Notes};
    use vfs::memory::Memory;
    use vfs::{Files, How};

    #[test]
    fn a_flush_takes_little_memory_however_large_it_is() {
        const SEGMENT_BYTES: usize = 1 << 20;
        const MEMORY_BYTES: usize = 4 * BLOCK;
        let files = Memory::default();
        let segment = |name: &str| Segment::create(&files, name, SEGMENT_BYTES).unwrap();
        let header = SegmentHeader {
            format: FORMAT,
            segment_bytes: SEGMENT_BYTES as u32,
            log: LogId(1),
            generation: 1,
            first_flush: 1,
            first_position: 1,
            needed: 1,
            first_offset: BLOCK as u32,
        };
        let active = Segment { header: Some(header), ..segment("a") };
        let stamp = Stamp { log: LogId(1), incarnation: 1, flush: 1, needed: 1, witness: 0, last: 0 };
        let start = Start { active, at: BLOCK, memory: Aligned::default(), memory_bytes: MEMORY_BYTES };
        let mut supply = || Ok(segment("b"));
        let mut writer = Writer::new(stamp, start, &mut supply);
        for position in 1..=30 {
            writer.put_record::<Notes>(position, &Note::Text("x".repeat(50_000))).unwrap();
        }
        let written = writer.finish().unwrap();
        assert_eq!(written.segments.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(written.begun.len(), 1);
        assert!(written.memory.capacity() <= 2 * MEMORY_BYTES, "{} bytes", written.memory.capacity());
        // A write before the end ends where a block does: there the next frame begins.
        let mut block = [0; BLOCK];
        let file = files.open("a", How::Read).unwrap();
        let frames = (BLOCK..SEGMENT_BYTES).step_by(MEMORY_BYTES).filter(|at| {
            file.read_at(*at as u64, &mut block).unwrap();
            Frame::decode(&block).is_some()
        });
        assert_eq!(frames.count(), (SEGMENT_BYTES - BLOCK).div_ceil(MEMORY_BYTES));
    }
}
