//! The cache over a directory in memory that fails, forgets and is damaged as it is told to.

use crate::cache::{Config, DiskCache, Missing, Trouble};
use crate::directory::{OpenError, RECORDS, REMOVED};
use crate::format::{Label, Listed, RecordHeader, add_to_table, footer, segment_header};
use crate::index::Held;
use crate::record::{Opened, Record, Source};
use bytes::Bytes;
use crc32c::crc32c;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use vfs::memory::{Dice, Fault, Memory};

type Cache = DiskCache<u32>;

const LABEL: Label = Label { variant: 1, kind: 2 };

fn settings() -> Config {
    Config {
        bytes: 8 << 20,
        content_bytes_max: 1 << 20,
        unwritten_bytes_max: 4 << 20,
        of: "http://shop.example".to_owned(),
    }
}

fn hash(key: &[u8]) -> u64 {
    u64::from(crc32c(key)) << 32 | u64::from(crc32c(key))
}

/// The troubles that a cache has told of.
type Told = Arc<Mutex<Vec<String>>>;

fn open_as(files: &Memory, config: &Config) -> Result<(Cache, Told), OpenError> {
    let told = Told::default();
    let tell = told.clone();
    let report = move |trouble: Trouble| tell.lock().unwrap().push(trouble.to_string());
    Ok((Cache::open(Arc::new(files.clone()), config, &hash, report)?, told))
}

fn open(files: &Memory) -> Cache {
    open_as(files, &settings()).unwrap().0
}

/// A content that no other number has, of that size.
fn content(number: u32, size: usize) -> Bytes {
    let mut dice = Dice(number.into());
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend_from_slice(&dice.roll(u64::MAX).to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}

fn record(key: &str, number: u32, size: usize) -> Record {
    let content = content(number, size);
    let cut = size / 3;
    Record {
        key: Bytes::copy_from_slice(key.as_bytes()),
        head: Bytes::copy_from_slice(format!("head {number} {size}").as_bytes()),
        content: Source::Memory(vec![content.slice(..cut), content.slice(cut..)]),
        is_lasting: true,
    }
}

fn put(cache: &Cache, key: &str, number: u32, size: usize) -> Option<Arc<Held<u32>>> {
    cache.put(hash(key.as_bytes()), LABEL, record(key, number, size), number).ok()?;
    cache.find(hash(key.as_bytes())).pop()
}

fn write_all(cache: &Cache) {
    while cache.write_next() {}
}

/// All of a content, unless the disk fails.
fn whole(opened: &Opened) -> Option<Vec<u8>> {
    let pieces = opened.content.read_all().collect::<Result<Vec<_>, _>>();
    Some(pieces.ok()?.concat())
}

/// The number under which a record was put, if it is there: all of it is then what was put.
fn number(cache: &Cache, key: &str) -> Option<u32> {
    let held = cache.find(hash(key.as_bytes())).pop()?;
    let opened = cache.open_record(&held).ok()?;
    assert_eq!(opened.key, key.as_bytes());
    let head = std::str::from_utf8(&opened.head).unwrap();
    let mut words = head.split(' ').skip(1).map(|word| word.parse::<usize>().unwrap());
    let (number, size) = (words.next().unwrap() as u32, words.next().unwrap());
    let whole = whole(&opened)?;
    assert!(whole == content(number, size), "{key} is not what was put under number {number}");
    Some(number)
}

/// Ends a cache as a process does that is told to stop.
fn stop(cache: Cache) {
    cache.stop();
    cache.run();
    drop(cache);
}

#[test]
fn records_of_any_size_are_there_before_and_after_they_are_written_and_after_a_start() {
    let sizes = [0, 1, 63, 64, 4096, 65_535, 65_536, 65_537, 262_144, 400_001, 1 << 20];
    let files = Memory::default();
    let cache = open(&files);
    let check = |cache: &Cache| {
        for (found, size) in sizes.iter().enumerate() {
            assert_eq!(number(cache, &size.to_string()), Some(found as u32), "{size}");
        }
    };
    for (number, size) in sizes.iter().enumerate() {
        assert!(put(&cache, &size.to_string(), number as u32, *size).is_some());
    }
    check(&cache);
    write_all(&cache);
    check(&cache);
    let held = cache.find(hash(b"400001")).pop().unwrap();
    let Source::Disk(extent) = cache.open_record(&held).unwrap().content else { panic!("it is large") };
    for (from, to) in [(0, 1), (65_535, 65_537), (399_000, 500_000), (300_000, 300_000), (0, 400_001)] {
        let part = extent.read(from, to).unwrap();
        let expected = content(9, 400_001).slice(from as usize..);
        assert!(expected.starts_with(&part) && (part.is_empty() == (from >= to)), "{from}..{to}");
    }
    // Without the table of a segment, and with it, and then with more behind it.
    check(&open(&files.after_kill()));
    stop(cache);
    let files = files.after_kill();
    let cache = open(&files);
    check(&cache);
    assert_eq!(cache.find(hash(b"64")).pop().unwrap().claim(), None, "a claim ends with its process");
    assert!(put(&cache, "more", 99, 5000).is_some());
    write_all(&cache);
    let cache = open(&files.after_kill());
    check(&cache);
    assert_eq!(number(&cache, "more"), Some(99));
}

/// Puts, uses and removals of every kind, and kills and power failures at any operation: whatever is found is whole and
/// was put; within a life it is the newest; and what was forbidden does not come back.
#[test]
fn nothing_wrong_is_ever_given_whatever_ends_a_life() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let mut files = Memory::default();
        let (mut next, mut forbidden) = (0, HashMap::<String, u32>::new());
        for life in 0..6 {
            let cache = open(&files);
            let fault = (dice.roll(2) == 0).then(|| Fault::Crash(dice.roll(150)));
            files.plan(fault);
            let mut newest = HashMap::new();
            for _ in 0..dice.roll(150) {
                next += 1;
                let key = format!("/{}", dice.roll(40));
                match dice.roll(12) {
                    0..6 => {
                        let largest = [100, 5000, 70_000, 1 << 20][dice.roll(4) as usize];
                        match put(&cache, &key, next, dice.roll(largest) as usize) {
                            Some(_) => newest.insert(key, next),
                            None => newest.remove(&key),
                        };
                    }
                    6..9 => drop(cache.write_next()),
                    9 => {
                        drop(cache.remove_all_of(hash(key.as_bytes())));
                        if cache.forbid([key.as_bytes()].into_iter()).is_ok() {
                            forbidden.insert(key.clone(), next);
                        }
                        newest.remove(&key);
                    }
                    _ => {
                        if let Some(found) = number(&cache, &key) {
                            cache.find(hash(key.as_bytes()))[0].use_once();
                            let is_newest = newest.get(&key).is_none_or(|newest| *newest == found);
                            assert!(is_newest, "seed {seed}, life {life}: {key} is {found}, not {newest:?}");
                            assert!(forbidden.get(&key).is_none_or(|before| found > *before), "seed {seed}: {key}");
                        }
                    }
                }
            }
            match dice.roll(3) {
                0 => stop(cache),
                _ => drop(cache),
            }
            files = if dice.roll(2) == 0 { files.after_kill() } else { files.after_power_failure(&mut dice) };
        }
        let cache = open(&files);
        for key in (0..40).map(|number| format!("/{number}")) {
            let found = number(&cache, &key);
            let is_allowed = found.is_none_or(|found| forbidden.get(&key).is_none_or(|before| found > *before));
            assert!(is_allowed, "seed {seed}: {key} is back");
        }
    }
}

/// Errors of the system at any operation cost records, never the cache.
#[test]
fn a_disk_that_fails_costs_records_and_goes_on_when_it_can() {
    for errno in [Errno::NOSPC, Errno::IO] {
        for at in 0..60 {
            let files = Memory::default();
            let (cache, told) = open_as(&files, &settings()).unwrap();
            files.plan(Some(Fault::Error(at, errno, 5)));
            for round in 0..30 {
                put(&cache, &format!("/{round}"), round, 300_000);
                write_all(&cache);
                number(&cache, "/0");
            }
            files.plan(None);
            assert!(told.lock().unwrap().len() <= 3, "it is told once: {:?}", told.lock().unwrap());
            for key in (0..30).map(|round| format!("/{round}")) {
                number(&cache, &key);
            }
        }
    }
}

#[test]
fn bytes_that_were_changed_are_none() {
    let files = Memory::default();
    let cache = open(&files);
    for number in 0..20 {
        put(&cache, &format!("/{number}"), number, 10_000 * number as usize);
    }
    stop(cache);
    let mut lost = 0;
    for seed in 0..40 {
        let files = files.after_kill();
        let mut dice = Dice(seed);
        files.damage(RECORDS, |bytes| {
            let at = dice.roll(bytes.len() as u64 / 4) as usize;
            match dice.roll(3) {
                0 => bytes.truncate(at),
                1 => bytes[at..at + 64].fill(0),
                _ => bytes[at] ^= 1,
            }
        });
        let (cache, told) = open_as(&files, &settings()).unwrap();
        let found = (0..20).filter(|number| self::number(&cache, &format!("/{number}")).is_some()).count();
        lost += 20 - found;
        assert!(told.lock().unwrap().len() <= 1);
    }
    assert!(lost > 0, "nothing was changed");
}

#[test]
fn a_segment_that_is_read_is_not_begun_anew() {
    let cache = open(&Memory::default());
    let held = put(&cache, "read", 7, 500_000).unwrap();
    write_all(&cache);
    let opened = cache.open_record(&held).unwrap();
    for number in 100..200 {
        put(&cache, &format!("/{number}"), number, 500_000);
        write_all(&cache);
    }
    assert!(cache.is_full() && held.is_listed());
    assert!(whole(&opened).unwrap() == content(7, 500_000));
    drop(opened);
    for number in 200..300 {
        put(&cache, &format!("/{number}"), number, 500_000);
        write_all(&cache);
    }
    assert!(!held.is_listed());
    assert_eq!(cache.open_record(&held).unwrap_err(), Missing::Gone);
}

#[test]
fn records_that_are_used_stay_when_a_segment_is_begun_anew() {
    let cache = open(&Memory::default());
    put(&cache, "used", 1, 1000);
    put(&cache, "unused", 2, 1000);
    for round in 0..100 {
        put(&cache, &format!("/{round}"), 100 + round, 300_000);
        write_all(&cache);
        cache.find(hash(b"used")).first().expect("it is used").use_once();
    }
    assert_eq!((number(&cache, "used"), number(&cache, "unused")), (Some(1), None));
    let size = cache.size();
    assert!(size.bytes <= 8 << 20 && size.records > 15, "{size:?}");
}

#[test]
fn a_newer_record_displaces_that_of_its_variant_and_those_of_another_kind() {
    let cache = open(&Memory::default());
    let put = |variant, kind, number| {
        let label = Label { variant, kind };
        let gone = cache.put(hash(b"/"), label, record("/", number, 10), number).unwrap();
        let mut gone: Vec<u32> = gone.iter().filter_map(|held| held.claim().copied()).collect();
        gone.sort_unstable();
        gone
    };
    assert_eq!(put(1, 1, 1), []);
    assert_eq!(put(2, 1, 2), []);
    assert_eq!(put(1, 1, 3), [1]);
    assert_eq!(put(4, 2, 4), [2, 3]);
    for variant in 5..40 {
        put(variant, 2, variant);
    }
    assert_eq!(cache.find(hash(b"/")).len(), 32);
    assert_eq!(cache.remove_all_of(hash(b"/")).len(), 32);
    assert!(!cache.write_next(), "nothing is written that has left");
}

#[test]
fn a_cache_of_another_thing_begins_anew() {
    let files = Memory::default();
    let cache = open(&files);
    put(&cache, "/", 1, 100_000);
    write_all(&cache);
    cache.begin_anew("http://other.example");
    assert_eq!(number(&cache, "/"), None);
    put(&cache, "/", 2, 100);
    stop(cache);
    let files = files.after_kill();
    assert_eq!(number(&open(&files.after_kill()), "/"), None, "that is the first one's again");
    let other = Config { of: "http://other.example".to_owned(), ..settings() };
    assert_eq!(number(&open_as(&files, &other).unwrap().0, "/"), Some(2));
}

#[test]
fn a_cache_may_become_larger_and_smaller() {
    let files = Memory::default();
    let cache = open(&files);
    for number in 0..10 {
        put(&cache, &format!("/{number}"), number, 500_000);
        write_all(&cache);
    }
    stop(cache);
    let files = files.after_kill();
    let larger = open_as(&files, &Config { bytes: 16 << 20, ..settings() }).unwrap().0;
    assert_eq!(larger.size().records, 10);
    drop(larger);
    let files = files.after_kill();
    let smaller = open_as(&files, &Config { bytes: 5 << 20, ..settings() }).unwrap().0;
    let kept = (0..10).filter(|number| self::number(&smaller, &format!("/{number}")).is_some()).count();
    assert!((4..10).contains(&kept), "{kept}");
    assert!(files.bytes(RECORDS).len() <= 5 << 20);
}

#[test]
fn directories_that_are_no_cache_are_refused_by_name() {
    let refused = |files: &Memory, config: &Config| open_as(files, config).map(drop).unwrap_err().name();
    let files = Memory::default();
    let cache = open(&files);
    assert_eq!(refused(&files, &settings()), "in-use");
    drop(cache);
    let files = files.after_kill();
    assert_eq!(refused(&files, &Config { bytes: 1 << 20, ..settings() }), "too-small");
    let change = |from: &str, to: &str| {
        let files = files.after_kill();
        files.damage("thorp-cache", |bytes| {
            *bytes = String::from_utf8(bytes.clone()).unwrap().replace(from, to).into_bytes();
        });
        files
    };
    assert_eq!(refused(&change("format 1", "format 2"), &settings()), "other-format");
    assert_eq!(refused(&change("thorp cache", "thorp store"), &settings()), "not-a-cache");
    assert!(open_as(&change("epoch", "epocH"), &settings()).is_ok(), "a damaged marker costs what is stored");
    let files = Memory::default();
    vfs::fill(&files, "letter.txt", 10).unwrap();
    assert_eq!(refused(&files, &settings()), "not-a-cache");
    assert_eq!(Cache::check(&files, &settings()).unwrap_err().name(), "not-a-cache");
}

/// Removals beyond what is noted one by one void all records before them.
#[test]
fn as_many_keys_may_be_forbidden_as_there_are() {
    let files = Memory::default();
    let cache = open(&files);
    put(&cache, "kept", 1, 10);
    put(&cache, "gone", 2, 10);
    write_all(&cache);
    drop(cache.remove_all_of(hash(b"gone")));
    cache.forbid([&b"gone"[..]].into_iter()).unwrap();
    let again = open(&files.after_kill());
    assert_eq!((number(&again, "kept"), number(&again, "gone")), (Some(1), None));
    let key = vec![b'x'; 60_000];
    for _ in 0..100 {
        cache.forbid([&key[..]].into_iter()).unwrap();
    }
    assert!(files.bytes(REMOVED).len() < 5 << 20);
    put(&cache, "later", 3, 10);
    write_all(&cache);
    let again = open(&files.after_kill());
    assert_eq!((number(&again, "kept"), number(&again, "later")), (None, Some(3)));
}

/// The bytes on disk are those of `docs/formats.md`.
#[test]
fn the_format_is_that_of_the_document() {
    let hex = |bytes: &[u8]| {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap();
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect::<String>()
    };
    assert_eq!(
        hex(&segment_header(0x0123_4567_89ab_cdef, 5)),
        "5448435301000000efcdab89674523010500000000000000000000000000000000000000000000000000000000000000000000000000000000000000b0ad27d3"
    );
    let header = RecordHeader {
        epoch: 1,
        generation: 2,
        life: 7,
        label: LABEL,
        is_lasting: true,
        key_bytes: 3,
        head_bytes: 4,
        content_bytes: 5,
        crc: 6,
    };
    assert_eq!(
        hex(&header.encode(128)),
        "54484352010000000100000000000000020000000000000001000000020000000500000000000000040000000300000006000000070000000000000027abe7b8"
    );
    let mut table = Vec::new();
    add_to_table(&mut table, &Listed { offset: 64, size: 128, life: 7, label: LABEL, is_lasting: true, key: b"/a" });
    assert_eq!(hex(&table), "0100000002000000070000000100000002000000020001002f61");
    assert_eq!(hex(&footer(1, 2, &table)), "544843541a0000000100000000000000020000000000000038a9dda3a4e0dd80");
}
