//! Flushes that are torn over what an older generation has left in their place.

use crate::frame::{FORMAT, FORMAT_OF_BEFORE, Frame};
use crate::segment::SegmentHeader;
use crate::{Limits, Log, LogId, Records, Scan};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use vfs::memory::{Dice, Memory};
use vfs::{BLOCK, Files, Malformed};

const ID: LogId = LogId(7);
const LIMITS: Limits = Limits { segment_bytes: 32 << 10, segments_max: 3, memory_bytes: 8 << 10 };
const SEGMENT: &str = "log-0001.seg";

/// Records that are any bytes.
#[derive(Debug)]
struct Raw;

impl Records for Raw {
    type Record = Bytes;

    const BODY_BYTES_MAX: u32 = BLOCK as u32;

    fn kind(_: &Bytes) -> u8 {
        1
    }

    fn body_bytes(record: &Bytes) -> usize {
        record.len()
    }

    fn encode(record: &Bytes, put: &mut impl FnMut(&[u8])) {
        put(record);
    }

    fn decode(_: u8, body: Bytes) -> Result<Bytes, Malformed> {
        Ok(body)
    }
}

/// A record that ends with its own CRC32C, as blocks of many formats do: of all of them the CRC32C is the same.
fn sealed(position: u64) -> Bytes {
    let mut block = vec![0; BLOCK];
    block[BLOCK / 2..][..8].copy_from_slice(&position.to_le_bytes());
    let crc = crc32c::crc32c(&block[..BLOCK - 4]);
    block[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
    block.into()
}

fn created() -> Memory {
    let files = Memory::default();
    Log::<Raw>::create(&files, ID, LIMITS, 2).unwrap();
    files.sync_dir().unwrap();
    files
}

/// Opens a log whose records from some on are those of their positions; gives it with the last one.
fn open(files: &Memory, incarnation: u32) -> (Log<Raw>, u64) {
    let files: Arc<dyn Files> = Arc::new(files.clone());
    let mut scan = Scan::<Raw>::begin(files.clone(), ID, 0).unwrap();
    while let Some((position, found)) = scan.next_record().unwrap() {
        assert!(found == sealed(position), "record {position} is another one");
    }
    let last = scan.next_position() - 1;
    (Log::resume(files, ID, LIMITS, incarnation, &scan).unwrap(), last)
}

fn write(log: &Log<Raw>, position: u64) {
    log.append(position, sealed(position));
    log.flush(0, &mut |done| assert_eq!(done.unwrap().through, position));
    log.free_with_next(position);
}

/// The power fails at every moment of some generations. A flush that was not answered is there as it was written, or
/// not at all: the bytes of an older one must not complete it.
#[test]
fn a_flush_is_never_completed_by_an_older_generation() {
    let (files, mut dice) = (created(), Dice(1));
    let moments = Arc::<Mutex<Vec<Memory>>>::default();
    let (log, _) = open(&files, 1);
    let told = moments.clone();
    files.watch(move |now| told.lock().unwrap().push(now));
    for position in 1..=30 {
        write(&log, position);
        for moment in std::mem::take(&mut *moments.lock().unwrap()) {
            for _ in 0..20 {
                let (_, last) = open(&moment.after_power_failure(&mut dice), 2);
                assert!([position - 1, position].contains(&last), "{last} of {position}");
            }
        }
    }
}

/// A segment that an earlier version of this program has begun is continued as it was begun.
#[test]
fn a_segment_is_of_one_format() {
    let files = created();
    files.damage(SEGMENT, |bytes| {
        let header = SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap().unwrap();
        bytes[..64].copy_from_slice(&SegmentHeader { format: FORMAT_OF_BEFORE, ..header }.encode());
    });
    for incarnation in 1..=3 {
        let (log, last) = open(&files, incarnation);
        assert_eq!(last, 3 * u64::from(incarnation - 1));
        (last + 1..=last + 3).for_each(|position| write(&log, position));
        if incarnation == 1 {
            let frame = Frame::decode(&files.bytes(SEGMENT)[BLOCK..]).unwrap();
            assert_eq!(frame.format, FORMAT_OF_BEFORE);
        }
    }
    let first_frame = |name: &String| Frame::decode(&files.bytes(name)[BLOCK..]);
    assert!(files.names().iter().filter_map(first_frame).any(|frame| frame.format == FORMAT));
}
