//! A volume whose machine loses power at any moment, with its cache and without.

use super::open::Places;
use super::{AttachConfig, AttachError, CacheFailure, Core};
use crate::extents::BLOCK;
use bytes::Bytes;
use machines::Ack;
use nbd::{Answer, Errno, Operation, Piece, Replies, Request, Ticket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use types::Time;
use vfs::memory::{Dice, Fault, Memory};
use vfs::{Files, How};

const BLOCKS: u64 = 24;
const SECTOR: usize = 512;
const SECTORS: usize = BLOCKS as usize * BLOCK / SECTOR;

/// The answers so far, by cookie.
#[derive(Debug, Default)]
struct Answers(Mutex<Vec<(u64, Result<Answer, Errno>)>>);

impl Replies for Answers {
    fn done(&self, ticket: Ticket, outcome: Result<Answer, Errno>) {
        self.0.lock().unwrap().push((ticket.cookie, outcome));
    }
    fn send(&self) {}
    fn stalls(&self) {}
}

/// A write of a mark to some sectors.
#[derive(Clone, Debug)]
struct Written {
    sectors: std::ops::Range<usize>,
    mark: u8,
    /// How many flushes were asked for before it.
    flush: usize,
}

/// The writes that were asked for, and those that were promised.
#[derive(Clone, Debug, Default)]
struct History {
    writes: Vec<Written>,
    flush: usize,
    /// So many writes are safe while the cache is.
    safe: usize,
}

impl History {
    /// The volume after this many writes.
    fn after(&self, count: usize) -> Vec<u8> {
        let mut sectors = vec![0; SECTORS];
        for write in &self.writes[..count] {
            sectors[write.sectors.clone()].fill(write.mark);
        }
        sectors
    }

    /// After how many writes the volume was so, if they are no fewer than those that were safe.
    fn allows_with_cache(&self, sectors: &[u8]) -> Option<usize> {
        (self.safe..=self.writes.len()).rev().find(|&count| self.after(count) == sectors)
    }

    /// The same of a volume that continued without its cache: what was safe, and any part of a flush's writes behind
    /// it.
    fn allows_at_home(&self, sectors: &[u8]) -> bool {
        (0..=self.flush).any(|flush| {
            let before = self.writes.iter().filter(|write| write.flush < flush).count().max(self.safe);
            let base = self.after(before);
            let next = || self.writes[before..].iter().filter(|write| write.flush == flush);
            (0..SECTORS).all(|at| {
                sectors[at] == base[at] || next().any(|write| write.sectors.contains(&at) && write.mark == sectors[at])
            })
        })
    }

    /// Whether a single disk could have been left like this: all before some flush, and any of the writes up to the
    /// next.
    fn allows_without_cache(&self, sectors: &[u8]) -> bool {
        (0..=self.flush).any(|flush| {
            let before = self.writes.iter().filter(|write| write.flush < flush).count();
            let base = self.after(before);
            let next = || self.writes[before..].iter().filter(|write| write.flush == flush);
            (0..SECTORS).all(|at| {
                sectors[at] == base[at] || next().any(|write| write.sectors.contains(&at) && write.mark == sectors[at])
            })
        })
    }
}

struct World {
    home: Memory,
    cache: Memory,
    core: Arc<Core>,
    answers: Arc<Answers>,
    history: History,
    /// Requests that are not answered: the cookie, and how many writes are safe when it is.
    open: Vec<(u64, usize)>,
    cookie: u64,
    mark: u8,
    ack: Ack,
    /// A write was refused: what there is of it, nobody says.
    is_refused: bool,
}

fn first_bytes(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(SECTOR).map(|sector| sector[0]).collect()
}

/// A durable home of this size, and an empty cache.
pub(super) fn new_files(size: u64) -> (Memory, Memory) {
    let (home, cache) = (Memory::default(), Memory::default());
    home.open("disk", How::Create).unwrap().set_len(size).unwrap();
    home.damage("disk", |_| ());
    home.sync_dir().unwrap();
    (home, cache)
}

/// The settings of a small cache.
pub(super) fn small(ack: Ack) -> AttachConfig {
    let (log_bytes, clean_bytes) = (4 << 20, 8 * BLOCK as u64);
    let cache_failure = CacheFailure::Stop;
    AttachConfig { log_bytes, clean_bytes, ack, cache_failure, ..AttachConfig::new(PathBuf::new(), PathBuf::new()) }
}

pub(super) fn open_with(home: &Memory, cache: &Memory, config: &AttachConfig) -> Core {
    try_open(home, cache, config).unwrap()
}

pub(super) fn try_open(home: &Memory, cache: &Memory, config: &AttachConfig) -> Result<Core, AttachError> {
    let places = Places {
        home_files: Arc::new(home.clone()),
        home_name: "disk".into(),
        beside: Arc::new(home.clone()),
        beside_at: None,
        cache_files: Arc::new(cache.clone()),
        cache_place: "here".into(),
        boot: 0,
    };
    Core::open(places, config)
}

fn open(home: &Memory, cache: &Memory, ack: Ack) -> Core {
    open_with(home, cache, &forced(ack))
}

fn forced(ack: Ack) -> AttachConfig {
    AttachConfig { is_forced: true, ..small(ack) }
}

impl World {
    fn new(ack: Ack) -> Self {
        Self::with(&forced(ack))
    }

    fn with(config: &AttachConfig) -> Self {
        let (home, cache) = new_files(BLOCKS * BLOCK as u64);
        let core = open_with(&home, &cache, config);
        Self::around(home, cache, core, config.ack)
    }

    fn over(home: Memory, cache: Memory, ack: Ack, history: History, mark: u8) -> Self {
        let core = open(&home, &cache, ack);
        Self { history, mark, ..Self::around(home, cache, core, ack) }
    }

    fn around(home: Memory, cache: Memory, core: Core, ack: Ack) -> Self {
        Self {
            home,
            cache,
            core: Arc::new(core),
            answers: Arc::default(),
            history: History::default(),
            open: Vec::new(),
            cookie: 0,
            mark: 0,
            ack,
            is_refused: false,
        }
    }

    fn submit(&mut self, operations: Vec<Operation>) -> u64 {
        let ticket = |cookie| Ticket { cookie, offset: 0, len: 0, form: nbd::Form::Simple };
        let first = self.cookie;
        let requests = operations.into_iter().map(|operation| {
            self.cookie += 1;
            Request { ticket: ticket(self.cookie - 1), operation }
        });
        let mut batch: Vec<_> = requests.collect();
        let replies: Arc<dyn Replies> = self.answers.clone();
        self.core.submit(&mut batch, &replies);
        first
    }

    fn take(&self, cookie: u64) -> Option<Result<Answer, Errno>> {
        let mut answers = self.answers.0.lock().unwrap();
        let at = answers.iter().position(|(answered, _)| *answered == cookie)?;
        Some(answers.swap_remove(at).1)
    }

    /// Everything goes home; a flush epoch that is closed in the meantime does by itself.
    fn bring_home(&self) {
        let mut state = self.core.state();
        state.owner.drain(Time::ZERO);
        self.core.carry_out(state, None);
        self.core.lead(None);
        (0..100).for_each(|_| self.core.write_back_once());
    }

    /// Takes note of what is promised by now.
    fn hear(&mut self) {
        let open = std::mem::take(&mut self.open);
        for (cookie, safe) in open {
            match self.take(cookie) {
                Some(Ok(_)) => self.history.safe = self.history.safe.max(safe),
                Some(Err(_)) => self.is_refused = true,
                None => self.open.push((cookie, safe)),
            }
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.roll(12) {
            0..=5 => {
                let (mut operations, mut safe) = (Vec::new(), Vec::new());
                for _ in 0..=dice.roll(3) {
                    let (operation, is_safe) = self.draw(dice);
                    operations.push(operation);
                    safe.push(if is_safe { self.history.writes.len() } else { 0 });
                }
                let first = self.submit(operations);
                self.open.extend((first..).zip(safe));
            }
            6 => {
                // Of writes that are not answered a flush says nothing.
                let are_answered = self.ack == Ack::Flush || self.open.is_empty();
                let safe = if are_answered { self.history.writes.len() } else { 0 };
                let cookie = self.submit(vec![Operation::Flush]);
                self.history.flush += 1;
                self.open.push((cookie, safe));
            }
            7 | 8 => self.core.write_back_once(),
            9 => self.core.lead(None),
            10 => {
                let mut state = self.core.state();
                state.owner.drain(Time::ZERO);
                self.core.carry_out(state, None);
            }
            _ => {
                let read = self.read_all();
                assert!(read.is_none_or(|read| read == self.history.after(self.history.writes.len())));
            }
        }
        self.hear();
    }

    /// A write, zeros or a trim; and whether its answer is a promise.
    fn draw(&mut self, dice: &mut Dice) -> (Operation, bool) {
        let whole = dice.roll(3) > 0;
        let unit = if whole { BLOCK / SECTOR } else { 1 };
        let units = SECTORS / unit;
        let (one, other) = (dice.roll(units as u64) as usize, dice.roll(units as u64) as usize);
        let sectors = one.min(other) * unit..(one.max(other) + 1) * unit;
        let fua = dice.roll(4) == 0;
        let (offset, len) = ((sectors.start * SECTOR) as u64, (sectors.len() * SECTOR) as u64);
        self.mark = self.mark % 250 + 1;
        let (operation, mark) = match dice.roll(6) {
            0 => (Operation::Zero { offset, len, may_trim: fua, fast: false, fua }, 0),
            // A trim of parts of blocks leaves them.
            1 if whole => (Operation::Trim { offset, len, fua }, 0),
            _ => (Operation::Write { offset, data: Bytes::from(vec![self.mark; len as usize]), fua }, self.mark),
        };
        self.history.writes.push(Written { sectors, mark, flush: self.history.flush });
        self.history.flush += usize::from(fua);
        (operation, fua || self.ack == Ack::Write)
    }

    /// The first byte of each sector; `None` if it could not be read.
    fn read_all(&mut self) -> Option<Vec<u8>> {
        let len = (BLOCKS as usize * BLOCK) as u32;
        let cookie = self.submit(vec![Operation::Read { offset: 0, len }]);
        match self.take(cookie).expect("reads are answered at once") {
            Ok(Answer::Read(pieces)) => Some(first_bytes(&pieces.iter().flat_map(bytes_of).collect::<Vec<_>>())),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        }
    }
}

fn bytes_of(piece: &Piece) -> Vec<u8> {
    match piece {
        Piece::Data(bytes) => bytes.to_vec(),
        Piece::Zeros(count) => vec![0; *count as usize],
    }
}

/// Runs until the power fails at some operation of the cache's files or home's, and looks at what is left; three times.
fn power_failures(seed: u64) {
    let mut dice = Dice(seed);
    let ack = if dice.roll(2) == 0 { Ack::Write } else { Ack::Flush };
    let mut world = World::new(ack);
    for life in 0..3 {
        let fault = Some(Fault::Crash(dice.roll(80)));
        if dice.roll(2) == 0 {
            world.cache.plan(fault);
        } else {
            world.home.plan(fault);
        }
        for _ in 0..dice.roll(40) {
            world.step(&mut dice);
            if world.core.state().failed.is_some() {
                break;
            }
            if world.is_refused {
                return;
            }
        }
        let (home, cache) = if dice.roll(4) == 0 {
            (world.home.after_kill(), world.cache.after_kill())
        } else {
            (world.home.after_power_failure(&mut dice), world.cache.after_power_failure(&mut dice))
        };
        let World { mut history, mark, .. } = world;
        let without = home.after_kill();
        drop(open(&without, &Memory::default(), ack));
        let found = first_bytes(&without.bytes("disk"));
        assert!(history.allows_without_cache(&found), "seed {seed}, life {life}, no cache: {found:?}\n{history:#?}");
        world = World::over(home, cache, ack, History::default(), mark);
        let found = world.read_all().expect("nothing fails now");
        let count = history.allows_with_cache(&found);
        let count = count.unwrap_or_else(|| panic!("seed {seed}, life {life}: {found:?}\n{history:#?}"));
        history.writes.truncate(count);
        (history.safe, history.flush) = (count, history.flush + 1);
        world.history = history;
    }
}

#[test]
fn what_was_promised_survives_a_power_failure_and_home_is_never_mixed() {
    let seeds = std::env::var("SEEDS").map_or(0..300, |seeds| 0..seeds.parse().unwrap());
    seeds.for_each(power_failures);
}

/// Runs until the cache's device takes nothing any more, and on without it, until the power fails, maybe in the middle
/// of a write-back, or it is detached; then it is attached again, and the device works.
fn lost_cache(seed: u64) -> bool {
    let mut dice = Dice(seed);
    let ack = if dice.roll(2) == 0 { Ack::Write } else { Ack::Flush };
    let mut world = World::with(&AttachConfig { cache_failure: CacheFailure::WriteThrough, ..forced(ack) });
    world.cache.plan(Some(Fault::ReadOnly(dice.roll(60))));
    let home_fails = dice.roll(2) == 0;
    if home_fails {
        world.home.plan(Some(Fault::Crash(dice.roll(150))));
    }
    for _ in 0..dice.roll(60) {
        world.step(&mut dice);
        let state = world.core.state();
        assert!(state.failed.is_none(), "seed {seed}: {:?}", state.failed);
        if home_fails && state.home_error.is_some() {
            break;
        }
    }
    if world.is_refused {
        // A part of a block could not be read at home.
        return world.core.state().lost_cache.is_some();
    }
    let is_lost = world.core.state().lost_cache.is_some();
    let is_detached = !home_fails && dice.roll(4) == 0;
    if is_detached {
        world.bring_home();
        world.hear();
        let closed = world.core.close();
        assert!(closed.is_ok(), "seed {seed}: {closed:?}");
        world.history.safe = world.history.writes.len();
    }
    let is_kill = !home_fails && dice.roll(3) == 0;
    let (home, cache) = if is_kill {
        (world.home.after_kill(), world.cache.after_kill())
    } else {
        (world.home.after_power_failure(&mut dice), world.cache.after_power_failure(&mut dice))
    };
    let World { history, mark, .. } = world;
    let without = home.after_kill();
    drop(open(&without, &Memory::default(), ack));
    let found = first_bytes(&without.bytes("disk"));
    assert!(history.allows_without_cache(&found), "seed {seed}, no cache: {found:?}\n{history:#?}");
    let mut world = World::over(home, cache, ack, History::default(), mark);
    let found = world.read_all().expect("nothing fails now");
    assert!(history.allows_at_home(&found), "seed {seed}: {found:?}\n{history:#?}");
    // Clean blocks are as home is.
    world.bring_home();
    let home = first_bytes(&world.home.bytes("disk"));
    assert!(found == home, "seed {seed}: what was read turns into {home:?}, from {found:?}");
    is_lost
}

#[test]
fn what_was_promised_is_home_or_in_the_log_when_the_caches_device_fails_and_comes_back() {
    let seeds = std::env::var("SEEDS").map_or(0..400, |seeds| 0..seeds.parse().unwrap());
    let lost = seeds.clone().filter(|seed| lost_cache(*seed)).count();
    assert!(lost * 4 > seeds.count(), "the device seldom fails: {lost}");
}

/// The log of a lost cache may have writes yet that were home when it failed: a start brings none of them home again.
#[test]
fn a_lost_cache_that_has_nothing_more_is_forgotten_before_anything_newer_is_home() {
    for at in 0.. {
        let mut world = World::with(&AttachConfig { cache_failure: CacheFailure::WriteThrough, ..forced(Ack::Flush) });
        let write = |block: u64, mark: u8| {
            let data = Bytes::from(vec![mark; BLOCK]);
            Operation::Write { offset: block * BLOCK as u64, data, fua: true }
        };
        world.submit(vec![write(0, 1)]);
        let mut state = world.core.state();
        state.owner.drain(Time::ZERO);
        world.core.carry_out(state, None);
        world.core.write_back_once();
        world.cache.plan(Some(Fault::ReadOnly(0)));
        // Two flush epochs, which are joined.
        world.submit(vec![write(0, 2), write(1, 3)]);
        assert!(world.core.state().lost_cache.is_some());
        world.home.plan(Some(Fault::Crash(at)));
        world.core.write_back_once();
        let is_home = world.core.state().home_error.is_none();
        let (home, cache) = (world.home.after_kill(), world.cache.after_kill());
        let mut world = World::over(home, cache, Ack::Flush, History::default(), 0);
        let found = world.read_all().unwrap();
        let found = [0, 1].map(|block| found[block * BLOCK / SECTOR]);
        assert!([[1, 0], [2, 3]].contains(&found), "home crashes at {at}: {found:?}");
        if is_home {
            assert!(at > 10 && found == [2, 3], "{at} {found:?}");
            return;
        }
    }
}

/// A disk that cannot be read has writes which are not written back: the volume ends by that reason, and the cache has
/// them.
#[test]
fn a_cache_that_cannot_be_read_ends_the_volume() {
    for cache_failure in [CacheFailure::Stop, CacheFailure::WriteThrough] {
        let mut world = World::with(&AttachConfig { cache_failure, ..forced(Ack::Flush) });
        world.submit(vec![Operation::Write { offset: 0, data: Bytes::from(vec![7; BLOCK]), fua: true }]);
        world.hear();
        let mut state = world.core.state();
        state.owner.drain(Time::ZERO);
        world.core.carry_out(state, None);
        world.cache.plan(Some(Fault::Error(0, rustix::io::Errno::IO, u64::MAX)));
        world.core.write_back_once();
        let failed = world.core.state().failed.clone().unwrap();
        assert!(failed.contains("has writes that are not home, and cannot be read"), "{failed}");
        let (home, cache) = (world.home.after_kill(), world.cache.after_kill());
        let mut world = World::over(home, cache, Ack::Flush, History::default(), 0);
        assert_eq!(world.read_all().unwrap()[0], 7);
    }
}

/// A start with the cache that home is of continues when home has no room for the rest of its journal: its log has all
/// of it. A start with another cache reads home itself, so it installs the journal first, or is none.
#[test]
fn a_journal_is_installed_before_another_cache_reads_home() {
    let (mut went_on, mut at) = (0, 0);
    loop {
        let mut world = World::new(Ack::Flush);
        for (first, mark) in [(1, 1), (9, 2)] {
            let (offset, data) = (first * BLOCK as u64, Bytes::from(vec![mark; 4 * BLOCK]));
            world.submit(vec![Operation::Write { offset, data, fua: true }]);
        }
        let after = world.read_all().unwrap();
        let (home, cache) = (world.home.after_kill(), world.cache.after_kill());
        let before = first_bytes(&home.bytes("disk"));
        let world = World::over(home, cache, Ack::Flush, History::default(), 0);
        world.home.plan(Some(Fault::Crash(at)));
        let mut state = world.core.state();
        state.owner.drain(Time::ZERO);
        world.core.carry_out(state, None);
        world.core.write_back_once();
        let is_home = world.core.state().home_error.is_none();
        let (home, cache) = (world.home.after_kill(), world.cache.after_kill());
        for fails in 0..40 {
            let full = Some(Fault::Error(fails, rustix::io::Errno::NOSPC, 0));
            let (own, other) = (home.after_kill(), home.after_kill());
            own.plan(full);
            let is_open = try_open(&own, &cache.after_kill(), &forced(Ack::Flush)).is_ok();
            went_on += u32::from(is_open && ![&before, &after].contains(&&first_bytes(&own.bytes("disk"))));
            other.plan(full);
            if try_open(&other, &Memory::default(), &forced(Ack::Flush)).is_ok() {
                let found = first_bytes(&other.bytes("disk"));
                assert!([&before, &after].contains(&&found), "crash at {at}, full at {fails}: {found:?}");
            }
        }
        if is_home {
            assert!(at > 10 && went_on > 0, "{at} {went_on}");
            return;
        }
        at += 1;
    }
}
