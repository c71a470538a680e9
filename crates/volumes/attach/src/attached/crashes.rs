//! The power fails at every moment of a volume's life. Requests, their answers and all changes of files are taken down
//! in one order; then each moment is looked at again: the files as a crash may leave them, which has any part of what
//! was not synced.
//! - With its cache, the volume has everything that was promised by then.
//! - Without, home is one that a crash of a single disk could have left, at one flush, however old.

mod ext4;
mod legal;
mod recorder;

use super::tests::{new_files, open_with, small};
use super::{AttachConfig, Core};
use crate::extents::BLOCK;
use crate::home::{Checks, FileHome};
use bytes::Bytes;
use legal::{Judge, SECTOR};
use machines::Ack;
use nbd::{Answer, Device, Errno, Form, Geometry, Operation, Piece, Replies, Request, Ticket};
use recorder::{Moment, Record, Recorder};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::Time;
use vfs::memory::{Dice, Memory};

/// With so many unsynced changes each of the states that they may leave is looked at.
const EACH_MAX: u32 = 5;

/// The answers so far.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Vec<Result<Answer, Errno>>>);

impl Replies for Answers {
    fn done(&self, _: Ticket, outcome: Result<Answer, Errno>) {
        self.0.lock().unwrap().push(outcome);
    }
    fn send(&self) {}
    fn stalls(&self) {}
}

/// A volume whose threads are this one: all of it happens when and as the dice say.
pub(super) struct Stepped(pub(super) Arc<Core>);

impl Device for Stepped {
    fn geometry(&self) -> Geometry {
        Geometry::new(self.0.home.size())
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        self.0.submit(batch, replies);
    }
}

fn open(home: &Memory, cache: &Memory, ack: Ack) -> Core {
    open_with(home, cache, &AttachConfig { age_max: Duration::from_millis(4), ..small(ack) })
}

pub(super) fn submit(device: &dyn Device, operations: Vec<Operation>) -> Arc<Answers> {
    let answers = Arc::<Answers>::default();
    let replies: Arc<dyn Replies> = answers.clone();
    let ticket = || Ticket { cookie: 1, offset: 0, len: 0, form: Form::Simple };
    let requests = operations.into_iter().map(|operation| Request { ticket: ticket(), operation });
    device.submit(&mut requests.collect(), &replies);
    answers
}

pub(super) fn read_all(device: &dyn Device) -> Vec<u8> {
    let len = device.geometry().size as u32;
    let answers = submit(device, vec![Operation::Read { offset: 0, len }]);
    let Some(Ok(Answer::Read(pieces))) = answers.0.lock().unwrap().pop() else { panic!("it cannot be read") };
    let bytes_of = |piece: &Piece| match piece {
        Piece::Data(bytes) => bytes.to_vec(),
        Piece::Zeros(count) => vec![0; *count as usize],
    };
    pieces.iter().flat_map(bytes_of).collect()
}

/// Has everything that is dirty go home.
fn bring_home(core: &Core) {
    let mut state = core.state();
    state.owner.drain(Time::ZERO);
    core.carry_out(state, None);
    core.lead(None);
    core.write_back_once();
}

/// A home alone, with its journal installed: no block of it is refused, whatever its checksums were at the crash.
fn home_alone(home: &Memory) -> Vec<u8> {
    let home = home.after_kill();
    let opened = FileHome::open(Arc::new(home.clone()), "disk", Arc::new(home.clone()), 1, &Checks::default()).unwrap();
    let mut image = vec![0; opened.size() as usize];
    opened.read(0, &mut image).unwrap();
    image
}

/// Looks at what is left of a moment; counts what was looked at.
struct Crashes<'a> {
    judge: Judge<'a>,
    ack: Ack,
    dice: Dice,
    /// The sectors of home's disk have this many bytes.
    home_sector: usize,
    /// Homes that were found to be legal, and are so later, too.
    seen: HashSet<u64>,
    alone: usize,
    with_cache: usize,
}

impl<'a> Crashes<'a> {
    fn new(record: &'a Record, size: usize, ack: Ack, seed: u64) -> Self {
        let judge = Judge::new(&record.history, size, ack == Ack::Write);
        Self { judge, ack, dice: Dice(seed), home_sector: SECTOR, seen: HashSet::new(), alone: 0, with_cache: 0 }
    }

    /// A few of the states that a power failure may leave, or each if there are not many.
    fn after(&mut self, files: &Memory, sector: usize, draws: usize) -> Vec<Memory> {
        let each = files.after_each_power_failure(EACH_MAX).unwrap_or_default();
        let drawn = (0..draws).map(|_| files.after_power_failure_of(sector, &mut self.dice));
        each.into_iter().chain(drawn).chain([files.after_kill()]).collect()
    }

    /// The cache is gone. Gives each home that there may be and was not there before, and its newest legal flush.
    fn alone(&mut self, moment: &Moment, draws: usize) -> Result<Vec<(Vec<u8>, usize)>, String> {
        let mut found = Vec::new();
        for home in self.after(&moment.home, self.home_sector, draws) {
            let image = home_alone(&home);
            let mut hash = DefaultHasher::new();
            image.hash(&mut hash);
            self.alone += 1;
            if self.seen.insert(hash.finish()) {
                let flush = self.judge.alone(moment.time, &image)?;
                found.push((image, flush));
            }
        }
        Ok(found)
    }

    /// The volume is attached with the cache and the home that are left; what it has then goes home.
    fn with_cache(&mut self, moment: &Moment, home: &Memory, cache: &Memory) -> Result<Vec<u8>, String> {
        let (home, cache) = (home.after_kill(), cache.after_kill());
        let core = Arc::new(open(&home, &cache, self.ack));
        let image = read_all(&Stepped(core.clone()));
        self.with_cache += 1;
        self.judge.with_cache(moment.time, &image)?;
        bring_home(&core);
        if home.bytes("disk") != image {
            return Err("it is not what went home".to_owned());
        }
        Ok(image)
    }

    /// The power fails again, at every moment of the start and of the way home.
    fn again(&mut self, moment: &Moment, home: &Memory, cache: &Memory) -> Result<(), String> {
        let (home, cache) = (home.after_kill(), cache.after_kill());
        let recorder = Recorder::default();
        recorder.watch(&home, &cache);
        let core = open(&home, &cache, self.ack);
        bring_home(&core);
        for again in &recorder.record().moments {
            let again = Moment { time: moment.time, ..again.clone() };
            self.alone(&again, 1)?;
            let cache = again.cache.after_power_failure(&mut self.dice);
            self.with_cache(&again, &again.home, &cache)?;
        }
        Ok(())
    }

    /// Everything about a moment, with this many draws of each kind.
    fn check(&mut self, moment: &Moment, draws: usize) -> Result<(), String> {
        self.alone(moment, draws)?;
        for cache in self.after(&moment.cache, SECTOR, draws) {
            let home = moment.home.after_power_failure(&mut self.dice);
            self.with_cache(moment, &home, &cache)?;
            if self.dice.roll(100) == 0 {
                self.again(moment, &home, &cache)?;
            }
        }
        Ok(())
    }
}

/// Blocks of the volume of a stream that is drawn.
const BLOCKS: u64 = 6;

/// A request of a stream, with a mark of its own.
fn draw(dice: &mut Dice, mark: u8) -> Operation {
    let unit = if dice.roll(3) > 0 { BLOCK } else { SECTOR } as u64;
    let units = BLOCKS * BLOCK as u64 / unit;
    let first = dice.roll(units);
    let (offset, len) = (first * unit, (1 + dice.roll(units - first)) * unit);
    let fua = dice.roll(5) == 0;
    match dice.roll(8) {
        0 => Operation::Zero { offset, len, may_trim: fua, fast: false, fua },
        1 => Operation::Trim { offset, len, fua },
        2 | 3 => Operation::Flush,
        _ => Operation::Write { offset, data: Bytes::from(vec![mark; len as usize]), fua },
    }
}

/// A life of some requests, from the first attachment to the end.
fn live(seed: u64) -> (Ack, Recorder) {
    let mut dice = Dice(seed);
    let ack = if dice.roll(2) == 0 { Ack::Write } else { Ack::Flush };
    let (home, cache) = new_files(BLOCKS * BLOCK as u64);
    let recorder = Recorder::default();
    recorder.watch(&home, &cache);
    let core = Arc::new(open(&home, &cache, ack));
    let device = recorder.device(Arc::new(Stepped(core.clone())));
    for mark in 1..=10 {
        match dice.roll(6) {
            0 => bring_home(&core),
            1 => core.write_back_once(),
            2 => core.lead(None),
            _ => {
                let operations = (0..=dice.roll(2)).map(|_| draw(&mut dice, mark)).collect();
                submit(&*device, operations);
            }
        }
    }
    bring_home(&core);
    (ack, recorder)
}

/// Every moment of short lives, with each combination of what was not synced where those are few. More seeds by
/// `SEEDS`.
#[test]
fn whatever_a_crash_leaves_is_what_a_disk_may_be() {
    let (mut alone, mut with_cache) = (0, 0);
    let seeds = std::env::var("SEEDS").map_or(8, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let (ack, recorder) = live(seed);
        let record = recorder.record();
        let mut crashes = Crashes::new(&record, (BLOCKS * BLOCK as u64) as usize, ack, seed);
        for moment in &record.moments {
            let checked = crashes.check(moment, 2);
            checked.unwrap_or_else(|why| panic!("seed {seed}, at {}: {why}\n{:#?}", moment.time, record.history));
        }
        (alone, with_cache) = (alone + crashes.alone, with_cache + crashes.with_cache);
    }
    eprintln!("{alone} homes alone, {with_cache} volumes with their caches");
    assert!(alone > 1000 && with_cache > 500, "{alone} {with_cache}");
}

/// A block that ends with its own CRC32C, as blocks of many formats do: of all such blocks the CRC32C is the same.
fn sealed(version: u8) -> Bytes {
    let mut block = vec![0; BLOCK];
    block[BLOCK - SECTOR] = version;
    let crc = crc32c::crc32c(&block[..BLOCK - 4]);
    block[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
    block.into()
}

/// The table of clean blocks is synced and their bytes are not, so a slot may have an older version of its block after
/// a crash. That has another checksum, whatever the versions have in them.
#[test]
fn an_older_version_of_a_clean_block_is_not_taken_for_the_newest() {
    assert_eq!(crc32c::crc32c(&sealed(1)), crc32c::crc32c(&sealed(2)));
    let (home, cache) = new_files(BLOCKS * BLOCK as u64);
    let recorder = Recorder::default();
    recorder.watch(&home, &cache);
    let core = Arc::new(open(&home, &cache, Ack::Flush));
    let device = recorder.device(Arc::new(Stepped(core.clone())));
    for version in 1..=4 {
        submit(&*device, vec![Operation::Write { offset: 0, data: sealed(version), fua: false }]);
        submit(&*device, vec![Operation::Flush]);
        bring_home(&core);
    }
    let record = recorder.record();
    let mut crashes = Crashes::new(&record, (BLOCKS * BLOCK as u64) as usize, Ack::Flush, 1);
    for moment in &record.moments {
        let checked = crashes.check(moment, 8);
        checked.unwrap_or_else(|why| panic!("at {}: {why}", moment.time));
    }
}
