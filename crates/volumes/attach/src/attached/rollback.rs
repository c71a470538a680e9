//! A cache or a home is put back from an older copy, and the other one is not. Older data is never read or written
//! back as if it were current. No start after a crash is refused.

use super::crashes::{Stepped, read_all, submit};
use super::tests::{new_files, open_with, small, try_open};
use super::{AttachConfig, AttachError, Core};
use crate::extents::BLOCK;
use crate::home::HomeError;
use crate::marker::Kind;
use bytes::Bytes;
use machines::{Ack, CacheWentBack};
use nbd::Operation;
use std::sync::Arc;
use types::Time;
use vfs::Files;
use vfs::memory::{Dice, Fault, Memory};

const BLOCKS: usize = 8;

/// A volume, with its files.
struct Host {
    home: Memory,
    cache: Memory,
    core: Arc<Core>,
}

fn config() -> AttachConfig {
    small(Ack::Flush)
}

impl Host {
    fn new() -> Self {
        let (home, cache) = new_files((BLOCKS * BLOCK) as u64);
        Self::attach(&home, &cache)
    }

    fn attach(home: &Memory, cache: &Memory) -> Self {
        let (home, cache) = (home.after_kill(), cache.after_kill());
        let core = Arc::new(open_with(&home, &cache, &config()));
        Self { home, cache, core }
    }

    /// Writes and flushes some blocks.
    fn write(&self, blocks: std::ops::Range<usize>, byte: u8) {
        for block in blocks {
            let data = Bytes::from(vec![byte; BLOCK]);
            let write = Operation::Write { offset: (block * BLOCK) as u64, data, fua: true };
            submit(&Stepped(self.core.clone()), vec![write]);
        }
        self.core.lead(None);
    }

    fn bring_home(&self) {
        let mut state = self.core.state();
        state.owner.drain(Time::ZERO);
        self.core.carry_out(state, None);
        self.core.lead(None);
        (0..20).for_each(|_| self.core.write_back_once());
    }

    fn detach(&self) -> Result<(), String> {
        self.bring_home();
        self.core.close()
    }

    /// The first byte of each block.
    fn read(&self) -> Vec<u8> {
        first_bytes(&read_all(&Stepped(self.core.clone())))
    }

    /// The files as they are now.
    fn copy(&self) -> (Memory, Memory) {
        (self.home.after_kill(), self.cache.after_kill())
    }
}

fn first_bytes(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(BLOCK).map(|block| block[0]).collect()
}

/// The volume is not attached. With `--force` it is, and has the contents of home.
fn expect_refused(home: &Memory, cache: &Memory, expected: &[u8]) -> CacheWentBack {
    let refused = try_open(&home.after_kill(), &cache.after_kill(), &config()).err().unwrap();
    assert!(refused.to_string().contains("--force"), "{refused}");
    let AttachError::CacheWentBack(back) = refused else { panic!("{refused}") };
    let (home, cache) = (home.after_kill(), cache.after_kill());
    let core = Arc::new(open_with(&home, &cache, &AttachConfig { is_forced: true, ..config() }));
    let host = Host { home, cache, core };
    assert_eq!(host.read(), expected);
    host.write(0..1, 77);
    host.detach().unwrap();
    let after = Host::attach(&host.home, &host.cache).read();
    assert_eq!((after[0], &after[1..]), (77, &expected[1..]));
    back
}

/// The volume is attached, and has the contents of home.
fn expect_current(home: &Memory, cache: &Memory, expected: &[u8]) {
    let host = Host::attach(home, cache);
    assert_eq!(host.read(), expected);
    host.detach().unwrap();
    assert_eq!(first_bytes(&host.home.bytes("disk")), expected);
}

#[test]
fn an_older_cache_beside_a_home_that_has_all_is_made_anew() {
    let host = Host::new();
    host.write(0..BLOCKS, 1);
    let (_, attached) = host.copy();
    host.detach().unwrap();
    let (home, detached) = host.copy();
    let host = Host::attach(&home, &detached);
    host.read();
    host.write(0..BLOCKS / 2, 2);
    host.detach().unwrap();
    let (home, _) = host.copy();
    for old in [attached, detached] {
        expect_current(&home, &old, &[2, 2, 2, 2, 1, 1, 1, 1]);
    }
}

#[test]
fn an_older_cache_of_the_last_attachment_is_not_written_home() {
    let host = Host::new();
    host.write(0..BLOCKS, 1);
    let (_, old) = host.copy();
    host.write(0..BLOCKS / 2, 2);
    host.bring_home();
    let expected = [2, 2, 2, 2, 1, 1, 1, 1];
    let (home, _) = host.copy();
    let back = expect_refused(&home, &old, &expected);
    assert_eq!(back, CacheWentBack::Cut { last: 8, through: 12 });
    host.detach().unwrap();
    expect_current(&host.home, &old, &expected);
}

#[test]
fn an_older_cache_that_was_attached_since_and_killed_is_refused() {
    let host = Host::new();
    host.write(0..BLOCKS, 1);
    host.detach().unwrap();
    let (home, old) = host.copy();
    let host = Host::attach(&home, &old);
    host.write(0..1, 2);
    let (home, newer) = host.copy();
    // The write is in the newer one alone.
    assert_eq!(expect_refused(&home, &old, &[1; BLOCKS]), CacheWentBack::Attached);
    expect_current(&home, &newer, &[2, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn a_log_that_has_lost_its_end_is_not_written_home() {
    let host = Host::new();
    host.write(0..BLOCKS, 1);
    host.write(0..BLOCKS, 2);
    host.bring_home();
    let (home, cache) = host.copy();
    let lost = |bytes: &mut Vec<u8>| {
        let fifth = bytes.windows(64).enumerate().filter(|(at, it)| at % BLOCK == 0 && *it == [2; 64]).nth(4);
        let from = fifth.map(|(at, _)| at).expect("the writes are there") - BLOCK;
        bytes[from..].fill(0);
    };
    cache.damage("log-0001.seg", lost);
    expect_refused(&home, &cache, &[2; BLOCKS]);
}

#[test]
fn an_older_home_of_the_last_attachment_is_refused() {
    let host = Host::new();
    host.write(0..BLOCKS, 1);
    host.bring_home();
    let (old, _) = host.copy();
    host.write(0..BLOCKS, 2);
    let (_, not_freed) = host.copy();
    host.bring_home();
    // The log frees those writes with its next flush.
    host.write(0..1, 3);
    let (_, cache) = host.copy();
    let refused = try_open(&old.after_kill(), &cache, &config()).err().unwrap();
    assert!(matches!(refused, AttachError::HomeWentBack(_)), "{refused}");
    // While the log has it, nothing is lost.
    expect_current(&old, &not_freed, &[2; BLOCKS]);
}

#[test]
fn a_home_without_its_mark_is_refused_and_one_of_an_earlier_version_has_none() {
    let host = Host::new();
    host.write(0..BLOCKS, 1);
    host.detach().unwrap();
    let (home, cache) = host.copy();
    home.remove("disk.mark").unwrap();
    let refused = try_open(&home.after_kill(), &cache.after_kill(), &config()).err().unwrap();
    assert!(matches!(&refused, AttachError::Home(HomeError::NoMark(_))), "{refused}");
    let fields = &["volume", "epoch", "cache", "dirty", "modified", "place"];
    let core = &host.core;
    let hex = |number: u64| format!("{number:016x}");
    let crate::home::Home::File(file) = &core.home else { unreachable!("it is here") };
    let ownership = file.ownership();
    let values = [hex(ownership.volume), hex(1), hex(ownership.cache), "no".into(), hex(0), "here".into()];
    Kind { title: "thorp volume", format: 1, fields }.write(&home, "disk.thorp", &values).unwrap();
    for name in ["thorp-volume-attachment", "thorp-volume-home"] {
        cache.remove(name).unwrap();
    }
    let host = Host::attach(&home, &cache);
    assert_eq!(host.read(), [1; BLOCKS]);
    host.write(0..BLOCKS, 2);
    let (_, old) = host.copy();
    host.write(0..BLOCKS, 3);
    host.bring_home();
    let (home, cache) = host.copy();
    expect_refused(&home, &old, &[3; BLOCKS]);
    expect_current(&home, &cache, &[3; BLOCKS]);
}

/// A life of a volume until something fails: some writes that are flushed, a part of them home, then all.
fn live(home: &Memory, cache: &Memory, byte: u8) -> Option<()> {
    let core = Arc::new(try_open(home, cache, &config()).ok()?);
    let host = Host { home: home.clone(), cache: cache.clone(), core };
    host.write(0..BLOCKS / 2, byte);
    host.bring_home();
    host.write(2..BLOCKS, byte);
    host.detach().ok()
}

/// A crash at any operation of a start, a write-back or a detachment leaves files that can be attached again. Each
/// block has one of its two versions.
#[test]
fn no_start_after_a_crash_is_refused() {
    let (mut dice, mut looked) = (Dice(11), 0);
    for of_home in [true, false] {
        for at in 0.. {
            let host = Host::new();
            host.write(0..BLOCKS, 1);
            host.detach().unwrap();
            let (home, cache) = host.copy();
            let faulty = if of_home { &home } else { &cache };
            faulty.plan(Some(Fault::Crash(at)));
            let is_over = live(&home, &cache, 2).is_some();
            let killed = (home.after_kill(), cache.after_kill());
            let failed = (home.after_power_failure(&mut dice), cache.after_power_failure(&mut dice));
            for (home, cache) in [killed, failed] {
                // The next start crashes, too.
                let (again, other) = (home.after_kill(), cache.after_kill());
                if dice.roll(2) == 0 { &again } else { &other }.plan(Some(Fault::Crash(dice.roll(60))));
                let _ = live(&again, &other, 2);
                for (home, cache) in [(again, other), (home, cache)] {
                    let opened = try_open(&home.after_kill(), &cache.after_kill(), &config());
                    let opened = opened.unwrap_or_else(|error| panic!("crash of {of_home} at {at}: {error}"));
                    let found = first_bytes(&read_all(&Stepped(Arc::new(opened))));
                    assert!(found.iter().all(|byte| [1, 2].contains(byte)), "{of_home} at {at}: {found:?}");
                    looked += 1;
                }
            }
            if is_over {
                assert!(at > 20, "{at}");
                break;
            }
        }
    }
    assert!(looked > 200, "{looked}");
}
