//! A log over records that are no store's: it is written, torn, scanned and freed like any other.

use crate::{Limits, Log, LogId, Made, Records, Scan};
use bytes::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::memory::Memory;
use vfs::{File, FileError, Files, How, Lock, Locking, Malformed};

/// A record that has nothing to do with transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Of any length.
    Text(String),
    /// Of four bytes.
    Number(u32),
}

/// Notes with bodies of this many bytes at most.
#[derive(Debug)]
pub(crate) struct NotesUpTo<const BYTES_MAX: u32>;

/// Notes that may be longer than a segment of these tests.
pub(crate) type Notes = NotesUpTo<100_000>;

impl<const BYTES_MAX: u32> Records for NotesUpTo<BYTES_MAX> {
    type Record = Note;

    const BODY_BYTES_MAX: u32 = BYTES_MAX;
    const READ_BACK: bool = true;

    fn kind(record: &Note) -> u8 {
        match record {
            Note::Text(_) => 1,
            Note::Number(_) => 255,
        }
    }

    fn body_bytes(record: &Note) -> usize {
        match record {
            Note::Text(text) => text.len(),
            Note::Number(_) => 4,
        }
    }

    fn encode(record: &Note, put: &mut impl FnMut(&[u8])) {
        match record {
            Note::Text(text) => put(text.as_bytes()),
            Note::Number(number) => put(&number.to_le_bytes()),
        }
    }

    fn decode(kind: u8, body: Bytes) -> Result<Note, Malformed> {
        match kind {
            1 => String::from_utf8(body.to_vec()).map(Note::Text).map_err(|_| Malformed),
            255 => body[..].try_into().map(|bytes| Note::Number(u32::from_le_bytes(bytes))).map_err(|_| Malformed),
            _ => Err(Malformed),
        }
    }
}

const ID: LogId = LogId(7);
const LIMITS: Limits = Limits { segment_bytes: 32 << 10, segments_max: 3, memory_bytes: 8 << 10 };

/// The note at a position: some are longer than a segment.
fn note(position: u64) -> Note {
    match position % 8 {
        0 => Note::Text(format!("{position} ").repeat(10_000)),
        1 | 4 => Note::Number(position as u32),
        n => Note::Text(format!("{position} ").repeat(700 * n as usize)),
    }
}

fn created() -> Memory {
    let files = Memory::default();
    Log::<Notes>::create(&files, ID, LIMITS, 2).unwrap();
    files.sync_dir().unwrap();
    files
}

/// Opens a log; gives it with the positions that it holds, after a look at what is there.
fn open(files: &Memory, durable: u64, incarnation: u32) -> Result<(Log<Notes>, Vec<u64>, u32), FileError> {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    let mut scan = Scan::<Notes>::begin(files.clone(), ID, durable)?;
    let mut positions = Vec::new();
    while let Some((position, found)) = scan.next_record()? {
        assert_eq!(found, note(position), "note {position}");
        positions.push(position);
    }
    let witness = scan.witness();
    Ok((Log::resume(files, ID, LIMITS, incarnation, &scan)?, positions, witness))
}

/// Appends the notes of these positions, and makes them durable in one flush.
fn write(log: &Log<Notes>, positions: std::ops::RangeInclusive<u64>, witness: u32) {
    let last = *positions.end();
    for position in positions {
        log.append(position, note(position));
    }
    let mut durable = 0;
    assert!(!log.flush(witness, &mut |done| durable = done.unwrap().through));
    assert_eq!(durable, last);
}

#[test]
fn a_scan_finds_the_written_records() {
    let files = created();
    for incarnation in 1..=4_u32 {
        let last = 10 * u64::from(incarnation - 1);
        let (log, positions, witness) = open(&files, last, incarnation).unwrap();
        assert_eq!(positions, (1..=last).collect::<Vec<_>>());
        assert_eq!(witness, if incarnation == 1 { 0 } else { 100 + incarnation - 1 });
        write(&log, last + 1..=last + 7, 5);
        write(&log, last + 8..=last + 10, 100 + incarnation);
    }
}

#[test]
fn a_tail_that_is_torn_at_any_block_is_cut_and_written_again() {
    let files = created();
    let (log, ..) = open(&files, 0, 1).unwrap();
    write(&log, 1..=5, 0);
    let before = files.after_kill();
    write(&log, 6..=8, 0);
    let names = files.names();
    let changed = |name: &str, at: usize| {
        let old = before.names().iter().any(|old| old == name).then(|| before.bytes(name));
        old.is_none_or(|old| old[at..at + 512] != files.bytes(name)[at..at + 512])
    };
    let sectors: Vec<(&String, usize)> = names
        .iter()
        .flat_map(|name| (0..files.bytes(name).len()).step_by(512).map(move |at| (name, at)))
        .filter(|(name, at)| changed(name, *at))
        .collect();
    assert!(sectors.len() > 20, "{} sectors", sectors.len());
    for (name, at) in sectors {
        let torn = files.after_kill();
        torn.damage(name, |bytes| bytes[at..at + 512].fill(0));
        // Of a segment's header only the first sector says something, and a flush ends with zeros.
        let Ok((log, positions, _)) = open(&torn, 5, 2) else { panic!("{name} at {at} is taken for corruption") };
        assert!(positions == [1, 2, 3, 4, 5] || positions.len() == 8, "{name} at {at}: {positions:?}");
        let last = positions.len() as u64;
        write(&log, last + 1..=last + 1, 0);
        drop(log);
        assert_eq!(open(&torn, last + 1, 3).unwrap().1.len() as u64, last + 1, "{name} at {at}");
    }
}

/// A part of the note at a position as the log reads it back; `None` if it is no longer needed.
fn read_back(log: &Log<Notes>, position: u64, from: usize, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    log.read(position, from, &mut bytes).unwrap().then_some(bytes)
}

fn body(position: u64) -> Vec<u8> {
    let mut body = Vec::new();
    Notes::encode(&note(position), &mut |part| body.extend_from_slice(part));
    body
}

#[test]
fn durable_records_are_read_back_until_they_are_not_needed() {
    let files = created();
    let mut last = 0;
    for incarnation in 1..=3 {
        let (log, positions, _) = open(&files, last, incarnation).unwrap();
        let mut first = positions.first().copied().unwrap_or(1);
        for _ in 0..4 {
            write(&log, last + 1..=last + 9, 0);
            last += 9;
            for position in first..=last {
                // The longest are longer than a segment, so they have many parts.
                let body = body(position);
                for (from, len) in [(0, body.len()), (body.len() / 3, body.len() / 2), (body.len() - 1, 1)] {
                    let read = read_back(&log, position, from, len);
                    assert_eq!(read.as_deref(), Some(&body[from..from + len]), "note {position} from {from}");
                }
            }
            let freed = last - 2;
            if log.free_before(freed) {
                log.flush(0, &mut |done| assert!(done.is_ok()));
            }
            for position in [first, freed - 1] {
                let read = read_back(&log, position, 0, 1);
                assert!(read.is_none_or(|read| read == body(position)[..1]), "note {position}");
            }
            first = freed;
        }
        assert_eq!(read_back(&log, last + 1, 0, 1), None);
        assert_eq!(read_back(&log, 1, 0, 1), None, "its segment was begun again");
    }
}

#[test]
fn damage_to_what_was_durable_is_refused() {
    let files = created();
    let (log, ..) = open(&files, 0, 1).unwrap();
    write(&log, 1..=1, 0);
    let damaged = files.after_kill();
    damaged.damage("log-0001.seg", |bytes| bytes[4096 + 64] ^= 1);
    // It is the last flush: nothing but what is known from elsewhere tells it from a torn tail.
    assert_eq!(open(&damaged, 0, 2).unwrap().1, []);
    let damaged = files.after_kill();
    damaged.damage("log-0001.seg", |bytes| bytes[4096 + 64] ^= 1);
    assert!(matches!(open(&damaged, 1, 2), Err(FileError::Corrupt { offset: 4096, .. })));
    log.mark();
    assert!(!log.flush(0, &mut |done| assert_eq!(done.unwrap().through, 1)));
    files.damage("log-0001.seg", |bytes| bytes[4096 + 64] ^= 1);
    assert!(matches!(open(&files, 0, 2), Err(FileError::Corrupt { offset: 4096, .. })), "the mark is behind it");
}

#[test]
fn freed_records_are_not_scanned_and_their_segments_are_used_again() {
    let files = created();
    let (log, ..) = open(&files, 0, 1).unwrap();
    let mut last = 0;
    for _ in 0..40 {
        write(&log, last + 1..=last + 4, 0);
        last += 4;
        if log.free_before(last - 1) {
            while log.flush(0, &mut |done| assert_eq!(done.unwrap().through, last)) {}
        }
    }
    let segments = files.names().len();
    assert!(segments < 10, "{segments} segments for {last} notes");
    drop(log);
    let (log, positions, _) = open(&files.after_kill(), last, 2).unwrap();
    assert!(positions[0] < last && positions.len() < 20, "{positions:?}");
    assert_eq!(positions.last(), Some(&last));
    let name = log.plan_segment_for(u64::MAX);
    assert_eq!(name, None, "there are more than may be made ahead of need");
}

#[test]
fn a_segment_that_is_made_is_room() {
    let files = created();
    let (log, ..) = open(&files, 0, 1).unwrap();
    let free = log.bytes_free();
    let name = log.plan_segment_for(free + 1).unwrap();
    assert_eq!(log.make_segment(&name).unwrap(), Made::Yes);
    assert!(log.bytes_free() > free);
}

#[test]
fn the_log_of_another_is_refused() {
    let files: Arc<dyn Files> = Arc::new(created());
    let error = Scan::<Notes>::begin(files, LogId(8), 0).unwrap_err();
    assert!(matches!(error, FileError::Corrupt { offset: 16, .. }), "{error}");
}

#[test]
fn a_record_that_this_log_cannot_hold_is_refused_although_its_checksums_are_right() {
    let files = created();
    let (log, ..) = open(&files, 0, 1).unwrap();
    log.append(1, Note::Text("nine bytes".to_owned()));
    assert!(!log.flush(0, &mut |done| assert_eq!(done.unwrap().through, 1)));
    let said = |error: FileError| error.to_string();
    let shorter = Scan::<NotesUpTo<9>>::begin(Arc::new(files.clone()), ID, 0).unwrap().next_record().map_err(said);
    assert!(shorter.unwrap_err().contains("has 10 bytes where 9 are the most"));
    let others = Scan::<Numbers>::begin(Arc::new(files), ID, 0).unwrap().next_record().map_err(said);
    assert!(others.unwrap_err().contains("is none of kind 1"));
}

/// Records of another kind.
#[derive(Debug)]
struct Numbers;

impl Records for Numbers {
    type Record = Note;

    const BODY_BYTES_MAX: u32 = 100;

    fn kind(_: &Note) -> u8 {
        255
    }

    fn body_bytes(record: &Note) -> usize {
        Notes::body_bytes(record)
    }

    fn encode(record: &Note, put: &mut impl FnMut(&[u8])) {
        Notes::encode(record, put);
    }

    fn decode(kind: u8, body: Bytes) -> Result<Note, Malformed> {
        if kind == 255 { Notes::decode(kind, body) } else { Err(Malformed) }
    }
}

/// A directory on a disk that has no room for another file.
#[derive(Debug)]
struct FullDisk(Memory);

impl Files for FullDisk {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>> {
        if how == How::Create { Err(io::Error::from_raw_os_error(28)) } else { self.0.open(name, how) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }

    fn lock(&self, name: &str, locking: Locking) -> io::Result<Option<Lock>> {
        self.0.lock(name, locking)
    }
}

/// On a full disk a flush waits for a segment that only what it holds up could free.
#[test]
fn on_a_full_disk_what_is_not_needed_any_more_is_freed_ahead_of_a_flush_that_waits_for_it() {
    let files = Memory::default();
    Log::<Notes>::create(&files, ID, LIMITS, 3).unwrap();
    files.sync_dir().unwrap();
    let full: Arc<dyn Files> = Arc::new(FullDisk(files.clone()));
    let mut scan = Scan::<Notes>::begin(full.clone(), ID, 0).unwrap();
    assert_eq!(scan.next_record().unwrap(), None);
    let log = Log::<Notes>::resume(full, ID, LIMITS, 1, &scan).unwrap();
    assert_eq!(log.make_segment("log-0004.seg").unwrap(), Made::NoRoom);
    let mut last = 0;
    for round in 0..20 {
        // Nothing is freed until a flush is stuck.
        let mut durable = last;
        while durable == last {
            last += 1;
            log.append(last, Note::Text("x".repeat(9_000)));
            log.flush(0, &mut |done| durable = done.unwrap().through);
        }
        assert!(log.is_stuck() && durable == last - 1, "round {round}: {durable} of {last}");
        log.retry(&mut |_| panic!("there is no room yet"));
        log.free_before(last);
        let mut more = log.retry(&mut |done| durable = done.unwrap().through);
        assert!(!log.is_stuck() && durable == last, "round {round}: {durable} of {last}");
        while more {
            more = log.flush(0, &mut |done| durable = done.unwrap().through);
        }
    }
    drop(log);
    let mut scan = Scan::<Notes>::begin(Arc::new(files.after_kill()), ID, last).unwrap();
    let mut found = Vec::new();
    while let Some((position, _)) = scan.next_record().unwrap() {
        found.push(position);
    }
    assert_eq!(found.last(), Some(&last));
}
