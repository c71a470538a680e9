//! Reading the log after a start: from the oldest record that is needed to the tail, each record's values being slices
//! of what was read.

use crate::frame::{FRAME_BYTES_MIN, Frame, HEADER_BYTES, MARK};
use crate::places::RecordPlace;
use crate::records::Records;
use crate::segment::{LogId, Segment, is_segment};
use crate::windows::{Place, Window, Windows};
use bytes::Bytes;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use vfs::{BLOCK, Doing, FileError, Files, How, Malformed};

/// How far a scan has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the log that have been read.
    pub bytes: u64,
    /// Bytes of the log that may have to be read.
    pub bytes_total: u64,
    /// Records that have been found.
    pub records: u64,
}

/// The frame that must come next, and what is known from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The number of the next flush.
    pub(crate) flush: u64,
    /// The position of the next record.
    pub(crate) position: u64,
    /// The incarnation that wrote the last flush.
    pub(crate) incarnation: u32,
    /// No record before this position is needed.
    pub(crate) needed: u64,
    /// See [`crate::Log::flush`].
    pub(crate) witness: u32,
}

/// The place of something that is not what it must be.
#[derive(Debug)]
struct Bad {
    place: Place,
    what: String,
}

/// Why a flush was not read.
#[derive(Debug)]
enum Stop {
    Bad(Bad),
    Failed(FileError),
}

/// A record that has been read.
#[derive(Debug)]
struct Found {
    position: u64,
    kind: u8,
    body: Bytes,
    place: RecordPlace,
}

/// One flush: its records as far as they are needed, what is due after it, and where.
type Flush = (VecDeque<Found>, Due, Place);

/// A scan of the log.
#[derive(Debug)]
pub struct Scan<R> {
    files: Arc<dyn Files>,
    pub(crate) segments: Vec<Segment>,
    /// No record before this position was needed when the scan began.
    needed: u64,
    /// Every record through this position was durable, says who keeps that elsewhere.
    durable: u64,
    pub(crate) place: Place,
    pub(crate) due: Due,
    /// Where the last flush begins, if there is one.
    pub(crate) last: Option<Place>,
    records: VecDeque<Found>,
    /// Where the records that were given are, if they are read back.
    places: VecDeque<(u64, RecordPlace)>,
    windows: Option<Windows>,
    window: Window,
    ended: bool,
    progress: Progress,
    of: PhantomData<R>,
}

impl<R: Records> Scan<R> {
    /// Begins at the segment that holds the oldest record that is needed. `durable` is the last position that was
    /// certainly durable.
    pub fn begin(files: Arc<dyn Files>, log: LogId, durable: u64) -> Result<Self, FileError> {
        let names = files.list().doing("read", || files.path(""))?;
        let open = |name: &String| Segment::open(&*files, name, How::ReadDirect, log);
        let mut segments = names.iter().filter(|name| is_segment(name)).map(open).collect::<Result<Vec<_>, _>>()?;
        segments.sort_by_key(|segment| segment.header.map_or(0, |h| h.generation));
        let headers = || segments.iter().enumerate().filter_map(|(i, s)| Some((i, s.header?)));
        let Some((newest, _)) = headers().next_back() else {
            let what = "no segment of the log has a valid header".to_owned();
            return Err(FileError::Corrupt { file: files.path("log-0001.seg"), offset: 0, what });
        };
        let needed = newest_needed(&files, &segments[newest])?;
        let Some((at, first)) = headers().rfind(|(_, header)| header.first_position <= needed) else {
            let (oldest, header) = headers().next().expect("there is a newest");
            let what = format!("record {needed} is needed, the oldest in the log is {}", header.first_position);
            return Err(FileError::Corrupt { file: files.path(&segments[oldest].name), offset: 40, what });
        };
        let bytes_total = segments[at..].iter().map(|s| s.bytes as u64).sum();
        let place = Place { segment: at, offset: first.first_offset as usize };
        let due = Due { flush: first.first_flush, position: first.first_position, incarnation: 0, needed, witness: 0 };
        let progress = Progress { bytes_total, ..Progress::default() };
        let windows = Some(Windows::begin(&files, &segments, place)?);
        Ok(Self {
            files,
            segments,
            needed,
            durable,
            place,
            due,
            last: None,
            records: VecDeque::new(),
            places: VecDeque::new(),
            windows,
            window: Window::empty(place),
            ended: false,
            progress,
            of: PhantomData,
        })
    }

    /// How far the scan has come.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The next record that is needed; `None` when the tail has been reached and cut.
    pub fn next_record(&mut self) -> Result<Option<(u64, R::Record)>, FileError> {
        loop {
            if let Some(Found { position, kind, body, place }) = self.records.pop_front() {
                self.progress.records += 1;
                if R::READ_BACK {
                    self.places.push_back((position, place));
                }
                let record = R::decode(kind, body).map_err(|Malformed| {
                    let what = format!("record {position} has valid checksums and is none of kind {kind}");
                    self.corrupt(self.place, what)
                })?;
                return Ok(Some((position, record)));
            }
            if self.ended {
                return Ok(None);
            }
            match self.read_flush() {
                Ok((records, due, place)) => {
                    self.last = Some(self.place);
                    (self.records, self.due, self.place) = (records, due, place);
                }
                Err(Stop::Bad(bad)) => self.end(&bad)?,
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
    }

    /// Reads the flush that is due, all of it or nothing.
    fn read_flush(&mut self) -> Result<Flush, Stop> {
        let (mut due, mut place, mut records) = (self.due, self.place, VecDeque::new());
        let mut begun: Option<(Frame, Vec<u8>)> = None;
        let mut first = None;
        loop {
            place = self.enter(place)?;
            let (frame, body) = self.read_frame(place, &due, first, begun.as_ref())?;
            first = first.or(Some(frame));
            let (needed, witness) = (due.needed.max(frame.needed), due.witness.max(frame.witness));
            due = Due { incarnation: frame.incarnation, needed, witness, ..due };
            let at = begun.as_ref().map_or(&frame, |(begun, _)| begun);
            let record_place = RecordPlace { generation: at.generation, offset: at.offset, part_bytes: at.part_bytes };
            let whole = if frame.record_begins && frame.record_ends {
                Some(body)
            } else {
                let (_, parts) = begun.get_or_insert_with(|| (frame, Vec::new()));
                parts.extend_from_slice(&body);
                frame.record_ends.then(|| Bytes::from(begun.take().expect("just added to").1))
            };
            if let Some(body) = whole.filter(|_| frame.kind != MARK) {
                // A record that is not needed is not even decoded: an old one may take long and helps nobody.
                if frame.position >= self.needed {
                    let (position, kind) = (frame.position, frame.kind);
                    records.push_back(Found { position, kind, body, place: record_place });
                }
                due.position += 1;
            }
            place.offset += HEADER_BYTES + frame.part_bytes as usize;
            if frame.flush_ends {
                place.offset = place.offset.next_multiple_of(BLOCK);
                due.flush += 1;
                return Ok((records, due, place));
            }
        }
    }

    /// Where the frame that follows is: in the next segment if too little of this one is left.
    fn enter(&self, place: Place) -> Result<Place, Stop> {
        if self.segments[place.segment].bytes.saturating_sub(place.offset) >= FRAME_BYTES_MIN {
            return Ok(place);
        }
        let generation = self.generation(place) + 1;
        let segment = place.segment + 1;
        match self.segments.get(segment).and_then(|s| s.header) {
            Some(header) if header.generation == generation => Ok(Place { segment, offset: BLOCK }),
            _ => Err(Stop::Bad(Bad {
                place,
                what: format!("expected to go on in a segment of generation {generation}, found none"),
            })),
        }
    }

    /// Reads one frame and holds it against what is due.
    fn read_frame(
        &mut self,
        place: Place,
        due: &Due,
        first: Option<Frame>,
        begun: Option<&(Frame, Vec<u8>)>,
    ) -> Result<(Frame, Bytes), Stop> {
        let bad = |what: String| Stop::Bad(Bad { place, what });
        let header = self.read(place, HEADER_BYTES).map_err(Stop::Failed)?;
        let Some(frame) = Frame::decode(&header) else {
            return Err(bad("expected a frame's header, found none that is valid".to_owned()));
        };
        if let Some(what) = mismatch(&frame, self.generation(place), place.offset, due, first.as_ref(), begun) {
            return Err(bad(what));
        }
        if frame.record_bytes > R::BODY_BYTES_MAX {
            // No write that was torn says so: its writer meant other records.
            let what = format!("a record has {} bytes where {} are the most", frame.record_bytes, R::BODY_BYTES_MAX);
            return Err(Stop::Failed(self.corrupt(place, what)));
        }
        let left = self.segments[place.segment].bytes - place.offset - HEADER_BYTES;
        if frame.part_bytes as usize > left {
            return Err(bad(format!("a frame's body has {} bytes where {left} are left", frame.part_bytes)));
        }
        let at = Place { offset: place.offset + HEADER_BYTES, ..place };
        let body = self.read(at, frame.part_bytes as usize).map_err(Stop::Failed)?;
        let sum = frame.sum_of(&body);
        if sum != frame.body_sum {
            return Err(bad(format!("the body's checksum should be {:08x} and is {sum:08x}", frame.body_sum)));
        }
        Ok((frame, body))
    }

    fn generation(&self, place: Place) -> u32 {
        self.segments[place.segment].header.map_or(0, |header| header.generation)
    }

    /// The bytes at a place: a slice of the window, or a copy if they continue in windows that follow.
    fn read(&mut self, place: Place, len: usize) -> Result<Bytes, FileError> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let here = self.window_at(place)?;
        if here.len() >= len {
            return Ok(here.slice(..len));
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&here);
        while bytes.len() < len {
            let more = self.window_at(Place { offset: place.offset + bytes.len(), ..place })?;
            bytes.extend_from_slice(&more[..more.len().min(len - bytes.len())]);
        }
        Ok(bytes.into())
    }

    /// The bytes of the window from a place on. If that is elsewhere it is in the next window nearly always.
    fn window_at(&mut self, place: Place) -> Result<Bytes, FileError> {
        if !self.window.holds(place) {
            self.next_window()?;
        }
        if !self.window.holds(place) {
            self.windows = Some(Windows::begin(&self.files, &self.segments, place)?);
            self.next_window()?;
        }
        Ok(self.window.from(place))
    }

    fn next_window(&mut self) -> Result<(), FileError> {
        if let Some(window) = self.windows.as_mut().and_then(Iterator::next) {
            self.window = window?;
            let bytes = self.progress.bytes + self.window.bytes().len() as u64;
            self.progress.bytes = bytes.min(self.progress.bytes_total);
        }
        Ok(())
    }

    /// The flush that is due is bad: decides whether it is the torn tail, and cuts it, or corruption.
    fn end(&mut self, bad: &Bad) -> Result<(), FileError> {
        if let Some(proof) = self.find_later_flush()? {
            let name = &self.segments[proof.segment].name;
            let what = format!("{}; a later flush stands in {name} at byte {}", bad.what, proof.offset);
            return Err(self.corrupt(bad.place, what));
        }
        if self.due.position <= self.durable {
            let what = format!("{}; record {} was durable once and is missing", bad.what, self.durable);
            return Err(self.corrupt(bad.place, what));
        }
        self.progress.bytes = self.progress.bytes_total;
        // Nothing is read ahead any more: the ring is written from now on.
        self.windows = None;
        self.ended = true;
        Ok(())
    }

    /// Where the records that were given are, if they are read back.
    pub(crate) fn places(&self) -> &VecDeque<(u64, RecordPlace)> {
        &self.places
    }

    /// The position of the next record, if there were one.
    pub fn next_position(&self) -> u64 {
        self.due.position
    }

    /// The error of a log that has ended before this record, which was durable once.
    pub fn lacks(&self, durable: u64) -> FileError {
        self.corrupt(self.place, format!("the log ends here; record {durable} was durable once and is missing"))
    }

    /// The highest number that the log's writer had put beside a flush (see [`crate::Log::flush`]).
    pub fn witness(&self) -> u32 {
        self.due.witness
    }

    /// The place of a valid frame of a flush above the one that is due, if there is one behind it.
    fn find_later_flush(&mut self) -> Result<Option<Place>, FileError> {
        let generation = self.generation(self.place);
        for segment in 0..self.segments.len() {
            let is_due = segment == self.place.segment;
            let later = self.segments[segment].header.is_none_or(|header| header.generation > generation);
            let from = if is_due { self.place.offset } else { BLOCK };
            if !is_due && !later {
                continue;
            }
            for offset in (from..self.segments[segment].bytes).step_by(BLOCK) {
                let place = Place { segment, offset };
                let frame = Frame::decode(&self.read(place, HEADER_BYTES)?);
                if frame.is_some_and(|f| {
                    f.flush > self.due.flush && f.offset as usize == offset && f.generation >= generation
                }) {
                    return Ok(Some(place));
                }
            }
        }
        Ok(None)
    }

    fn corrupt(&self, place: Place, what: String) -> FileError {
        let file = self.files.path(&self.segments[place.segment].name);
        FileError::Corrupt { file, offset: place.offset as u64, what }
    }

    /// Room that the log has whatever the scan will find: the segments that it does not read.
    pub fn bytes_free_at_least(&self) -> u64 {
        let free = |(i, segment): (usize, &Segment)| i < self.place.segment || segment.header.is_none();
        let segments = self.segments.iter().enumerate().filter(|&item| free(item));
        segments.map(|(_, segment)| (segment.bytes - BLOCK) as u64).sum()
    }
}

/// The highest position that any frame of a segment says is the first that is needed. It is true whatever became of
/// that frame's flush, and it is known before the scan begins: the segments that it frees may have been begun again, by
/// a flush that left its frames in them and not its header.
fn newest_needed(files: &Arc<dyn Files>, segment: &Segment) -> Result<u64, FileError> {
    let header = segment.header.expect("it is the newest that has one");
    let mut needed = header.needed;
    for window in Windows::begin(files, std::slice::from_ref(segment), Place { segment: 0, offset: 0 })? {
        let window = window?;
        let frames = window.bytes().chunks(BLOCK).filter_map(Frame::decode);
        needed =
            frames.filter(|f| f.generation == header.generation).fold(needed, |needed, frame| needed.max(frame.needed));
    }
    Ok(needed)
}

/// The mismatch of a frame whose header is valid in itself.
fn mismatch(
    frame: &Frame,
    generation: u32,
    offset: usize,
    due: &Due,
    first: Option<&Frame>,
    begun: Option<&(Frame, Vec<u8>)>,
) -> Option<String> {
    let expected = |what: &str, expected: u64, got: u64| {
        (expected != got).then(|| format!("expected a frame of {what} {expected}, found one of {got}"))
    };
    let position = if frame.kind == MARK { due.position.saturating_sub(1) } else { due.position };
    let incarnation = first.map_or(frame.incarnation.max(due.incarnation), |first| first.incarnation);
    let parts = begun.map_or(0, |(_, parts)| parts.len()) + frame.part_bytes as usize;
    let (whole, begun) = (frame.record_bytes as usize, begun.map(|(begun, _)| begun));
    expected("generation", u64::from(generation), u64::from(frame.generation))
        .or_else(|| expected("offset", offset as u64, u64::from(frame.offset)))
        .or_else(|| expected("flush", due.flush, frame.flush))
        .or_else(|| expected("incarnation", u64::from(incarnation), u64::from(frame.incarnation)))
        .or_else(|| expected("position", position, frame.position))
        .or_else(|| expected("beginning", u64::from(first.is_none()), u64::from(frame.flush_begins)))
        .or_else(|| expected("part", u64::from(begun.is_none()), u64::from(frame.record_begins)))
        .or_else(|| begun.and_then(|b| expected("kind", b.kind.into(), frame.kind.into())))
        .or_else(|| begun.and_then(|b| expected("record bytes", u64::from(b.record_bytes), whole as u64)))
        .or_else(|| (frame.flush_ends && !frame.record_ends).then(|| "a flush ends within a record".to_owned()))
        .or_else(|| {
            (parts > whole || frame.record_ends && parts != whole)
                .then(|| format!("the parts of a record have {parts} bytes, the record {whole}"))
        })
}
