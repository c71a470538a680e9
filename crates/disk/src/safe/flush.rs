//! Building a flush: records become frames in aligned memory, one run of blocks for each segment that they touch.

use crate::aligned::{Aligned, BLOCK};
use crate::errno::Refused;
use crate::safe::frame::{FRAME_BYTES_MIN, Frame, HEADER_BYTES};
use crate::safe::record::{self, Kind};
use crate::safe::segment::{Segment, SegmentHeader};
use store::{Position, Record};
use types::ClusterId;

/// What a flush writes to one segment.
#[derive(Debug)]
pub(crate) struct Run {
    /// The segment; its header is the one that it has after the flush.
    pub(crate) segment: Segment,
    /// Where the run begins.
    pub(crate) at: usize,
    /// The blocks.
    pub(crate) blocks: Aligned,
}

impl Run {
    fn offset(&self) -> usize {
        self.at + self.blocks.len()
    }

    fn room(&self) -> usize {
        self.segment.bytes - self.offset()
    }
}

/// What is the same in all frames of a flush, and in the headers of the segments that it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The store.
    pub(crate) cluster: ClusterId,
    /// The process's life.
    pub(crate) life: u32,
    /// The flush's number.
    pub(crate) flush: u64,
    /// No record before this position is needed any more.
    pub(crate) needed: u64,
    /// How many installs the page home has had.
    pub(crate) installs: u32,
    /// The position of the last record before the flush.
    pub(crate) last: u64,
}

/// A flush that is being built. `supply` gives the next segment to go on in.
pub(crate) struct Builder<'a> {
    stamp: Stamp,
    runs: Vec<Run>,
    lap: u32,
    last: u64,
    last_header: (usize, Frame),
    frames: usize,
    supply: &'a mut dyn FnMut() -> Result<Segment, Refused>,
}

impl<'a> Builder<'a> {
    /// Begins at `at` in the active segment, in the memory of `blocks`, which has been cleared.
    pub(crate) fn new(
        stamp: Stamp,
        active: (Segment, usize),
        blocks: Aligned,
        supply: &'a mut dyn FnMut() -> Result<Segment, Refused>,
    ) -> Self {
        let (segment, at) = active;
        let lap = segment.header.map_or(0, |header| header.lap);
        let placeholder = (0, frame(Kind::Mark, 0, stamp, lap));
        let runs = vec![Run { segment, at, blocks }];
        Self { stamp, runs, lap, last: stamp.last, last_header: placeholder, frames: 0, supply }
    }

    /// Adds a record.
    pub(crate) fn put_record(&mut self, position: Position, record: &Record) -> Result<(), Refused> {
        assert_eq!(position.0, self.last + 1, "appends come in the order of their positions");
        self.last = position.0;
        let bytes = record::body_bytes(record);
        self.make_room()?;
        if HEADER_BYTES + bytes <= self.run().room() {
            let whole =
                Frame { record_begins: true, record_ends: true, record_bytes: bytes as u32, ..self.frame(record) };
            self.put_frame(whole, &mut |blocks| record::encode(record, blocks));
            return Ok(());
        }
        let mut body = Aligned::default();
        body.reserve(bytes);
        record::encode(record, &mut body);
        self.put_parts(record, body.bytes())
    }

    /// Adds a record whose body does not fit into what is left of the segment.
    fn put_parts(&mut self, record: &Record, body: &[u8]) -> Result<(), Refused> {
        let mut done = 0;
        while done < body.len() {
            self.make_room()?;
            let part = (self.run().room() - HEADER_BYTES).min(body.len() - done);
            let frame = Frame {
                record_begins: done == 0,
                record_ends: done + part == body.len(),
                record_bytes: body.len() as u32,
                ..self.frame(record)
            };
            self.put_frame(frame, &mut |blocks| blocks.put(&body[done..done + part]));
            done += part;
        }
        Ok(())
    }

    /// Adds a mark: a frame that is only there to be behind what came before.
    pub(crate) fn put_mark(&mut self) -> Result<(), Refused> {
        self.make_room()?;
        let mark = frame(Kind::Mark, self.last, self.stamp, self.lap);
        self.put_frame(Frame { record_begins: true, record_ends: true, ..mark }, &mut |_| {});
        Ok(())
    }

    /// Closes the flush: marks its last frame, fills up the last block of each segment, completes the headers of new segments.
    pub(crate) fn finish(mut self) -> Vec<Run> {
        let (at, last) = self.last_header;
        let run = self.runs.last_mut().expect("there is a first");
        run.blocks.bytes_mut()[at..at + HEADER_BYTES].copy_from_slice(&Frame { flush_ends: true, ..last }.encode());
        let runs = self.runs.len();
        for i in 0..runs {
            self.runs[i].blocks.pad();
            self.complete_header(i, i + 1 == runs);
        }
        // A run that stayed empty is the rest of a segment that had no room for even one frame.
        self.runs.retain(|run| run.blocks.len() > 0);
        self.runs
    }

    fn complete_header(&mut self, i: usize, is_last: bool) {
        let (stamp, run) = (self.stamp, &mut self.runs[i]);
        let Some(header) = run.segment.header.as_mut().filter(|_| run.at == 0) else { return };
        let (flush, position, offset) = if header.first_offset as usize == BLOCK {
            (stamp.flush, stamp.last + 1, BLOCK)
        } else if is_last {
            (stamp.flush + 1, self.last + 1, run.blocks.len())
        } else {
            (stamp.flush + 1, self.last + 1, run.segment.bytes)
        };
        (header.first_flush, header.first_position, header.first_offset) = (flush, position, offset as u32);
        let bytes = header.encode();
        run.blocks.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    }

    fn frame(&self, record: &Record) -> Frame {
        frame(Kind::of(record), self.last, self.stamp, self.lap)
    }

    fn run(&self) -> &Run {
        self.runs.last().expect("there is a first")
    }

    /// Goes on in the next segment if too little is left of this one.
    fn make_room(&mut self) -> Result<(), Refused> {
        if self.run().room() >= FRAME_BYTES_MIN {
            return Ok(());
        }
        self.lap += 1;
        let mut segment = (self.supply)()?;
        let header = SegmentHeader {
            segment_bytes: segment.bytes as u32,
            cluster: self.stamp.cluster,
            lap: self.lap,
            needed: self.stamp.needed,
            // Completed when the flush is: only a flush that begins here begins right behind the header.
            first_flush: 0,
            first_position: 0,
            first_offset: if self.frames == 0 { BLOCK as u32 } else { 0 },
        };
        segment.header = Some(header);
        self.runs.push(Run { segment, at: 0, blocks: Aligned::zeroed(BLOCK) });
        Ok(())
    }

    fn put_frame(&mut self, frame: Frame, put_body: &mut dyn FnMut(&mut Aligned)) {
        let run = self.runs.last_mut().expect("there is a first");
        let (offset, at) = (run.offset(), run.blocks.len());
        run.blocks.put(&[0; HEADER_BYTES]);
        put_body(&mut run.blocks);
        let body = &run.blocks.bytes()[at + HEADER_BYTES..];
        let frame = Frame {
            flush_begins: self.frames == 0,
            offset: offset as u32,
            part_bytes: body.len() as u32,
            body_crc: crc32c::crc32c(body),
            ..frame
        };
        run.blocks.bytes_mut()[at..at + HEADER_BYTES].copy_from_slice(&frame.encode());
        self.last_header = (at, frame);
        self.frames += 1;
    }
}

fn frame(kind: Kind, position: u64, stamp: Stamp, lap: u32) -> Frame {
    Frame {
        kind,
        record_begins: false,
        record_ends: false,
        flush_begins: false,
        flush_ends: false,
        position,
        lap,
        flush: stamp.flush,
        needed: stamp.needed,
        installs: stamp.installs,
        life: stamp.life,
        offset: 0,
        part_bytes: 0,
        record_bytes: 0,
        body_crc: 0,
    }
}
