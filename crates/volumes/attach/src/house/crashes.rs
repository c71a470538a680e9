//! The power fails at each operation on the files of a volume at its home: no block of those that are left is refused.

use super::files::{VolumeFiles, With, create, raw, sums};
use crate::extents::BLOCK;
use crate::home::{CheckProgress, Checks};
use machines::Step;
use machines::messages::holder::{Content, Epoch, Extent, FlushEpoch, Sequence, Stamp, VolumeId};
use std::sync::Arc;
use vfs::Files;
use vfs::memory::{Dice, Fault, Memory};

const VOLUME: VolumeId = VolumeId(7);
/// More than a region of checksums.
const BLOCKS: u64 = 1100;

fn made() -> Memory {
    let files = Memory::default();
    create(&files, VOLUME, BLOCKS * BLOCK as u64).unwrap();
    files
}

/// Opens the volume, with its journal installed.
fn open(files: &Memory) -> Result<VolumeFiles, String> {
    open_in(files, 0)
}

fn open_in(files: &Memory, boot: u32) -> Result<VolumeFiles, String> {
    let opened = VolumeFiles::open(Arc::new(files.clone()), VOLUME, &Checks::new(boot, CheckProgress::default()));
    let (mut volume, found) = opened.map_err(|error| error.to_string())?;
    if let Some(through) = found.journal {
        step(&mut volume, Step::Install, through)?;
        step(&mut volume, Step::Mark(through), through)?;
    }
    Ok(volume)
}

fn step(volume: &mut VolumeFiles, step: Step, through: Stamp) -> Result<(), String> {
    volume.step(step, With { through, owner: 1 }).map_err(|trouble| trouble.to_string())
}

/// A write-back of some blocks, and zeros.
fn write_back(volume: &mut VolumeFiles, number: u64, is_joined: bool, first: u64) -> Result<(), String> {
    let through = Stamp { epoch: Epoch(1), sequence: Sequence(number), flush: FlushEpoch(number) };
    let extent = |first: u64, count: u64| Extent { offset: first * BLOCK as u64, len: count * BLOCK as u64 };
    let data = |count: u64| Content::Data(vec![number as u8; count as usize * BLOCK].into());
    let put = |volume: &mut VolumeFiles, at, content| volume.put(at, &content).map_err(|trouble| trouble.to_string());
    volume.begin(is_joined).map_err(|trouble| trouble.to_string())?;
    put(volume, extent(first, 3), data(3))?;
    put(volume, extent(first + 3, 1), Content::Trim)?;
    put(volume, extent(first + 4, 1), data(1))?;
    if is_joined {
        step(volume, Step::Journal, through)?;
    }
    step(volume, Step::Install, through)?;
    step(volume, Step::Mark(through), through)
}

/// The life of a home; it ends with the first failure.
fn live(files: &Memory) -> Result<(), String> {
    live_in(files, 0)
}

fn live_in(files: &Memory, boot: u32) -> Result<(), String> {
    let open = |files| open_in(files, boot);
    let mut volume = open(files)?;
    write_back(&mut volume, 1, false, 0)?;
    write_back(&mut volume, 2, true, 2)?;
    volume.close().map_err(|error| error.to_string())?;
    let mut volume = open(files)?;
    write_back(&mut volume, 3, true, 1050)?;
    write_back(&mut volume, 4, false, 1051)?;
    for blocks in [1052, BLOCKS] {
        volume.resize(blocks * BLOCK as u64).map_err(|error| error.to_string())?;
    }
    write_back(&mut volume, 5, false, 1)?;
    // It is killed, and started again.
    drop(volume);
    let mut volume = open(files)?;
    write_back(&mut volume, 6, true, 0)?;
    volume.close().map_err(|error| error.to_string())
}

/// The checksums that are known; none of them is wrong.
fn known(volume: &VolumeFiles) -> usize {
    let blocks = (volume.file().raw().size().unwrap() / BLOCK as u64) as usize;
    let sums = volume.file().scrub(0, blocks).unwrap();
    let wrong: Vec<_> = sums.iter().enumerate().filter(|(_, sums)| sums.is_damaged()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    sums.iter().filter(|sums| sums.kept != 0).count()
}

#[test]
fn no_block_is_refused_after_a_power_failure() {
    let (mut dice, mut some, mut none) = (Dice(9), 0, 0);
    for at in 0.. {
        let files = made();
        files.plan(Some(Fault::Crash(at)));
        if live(&files).is_ok() {
            assert!(at > 60 && some > 100 && none > 100, "{at} {some} {none}");
            return;
        }
        for _ in 0..12 {
            let left = files.after_power_failure(&mut dice);
            let mut volume = open(&left).unwrap();
            let count = known(&volume);
            *if count > 0 { &mut some } else { &mut none } += 1;
            // It continues, and the next failure is another one's.
            write_back(&mut volume, 9, at % 2 == 0, 3).unwrap();
            known(&open(&left.after_power_failure(&mut dice)).unwrap());
        }
    }
}

#[test]
fn sums_are_kept_from_one_start_to_the_next() {
    let files = made();
    live(&files).unwrap();
    // Those of 1050.. went with their region when it was killed.
    assert_eq!(known(&open(&files).unwrap()), 4);
    files.damage(&raw(VOLUME), |bytes| bytes[4 * BLOCK + 7] ^= 1);
    let volume = open(&files).unwrap();
    let refused = volume.file().read(0, &mut vec![0; 8 * BLOCK]).unwrap_err().to_string();
    assert!(refused.contains("block 4 of the volume is not what was written there"), "{refused}");
    volume.file().read(0, &mut vec![0; 4 * BLOCK]).unwrap();
    // Without their file they are not known, and nothing is refused.
    drop(volume);
    files.remove(&sums(VOLUME)).unwrap();
    let volume = open(&files).unwrap();
    volume.file().read(0, &mut vec![0; 8 * BLOCK]).unwrap();
}

/// Its process is killed at each operation. The next one, in the same boot, trusts all sums, also of what was written
/// last.
#[test]
fn no_block_is_refused_after_a_kill() {
    const BOOT: u32 = 7;
    for at in 0.. {
        let files = made();
        files.plan(Some(Fault::Crash(at)));
        if live_in(&files, BOOT).is_ok() {
            assert!(at > 60, "{at}");
            return;
        }
        let left = files.after_kill();
        let mut volume = open_in(&left, BOOT).unwrap();
        known(&volume);
        write_back(&mut volume, 9, at % 2 == 0, 3).unwrap();
        // Killed once more, and then the power fails.
        let left = left.after_kill();
        let volume = open_in(&left, BOOT).unwrap();
        assert!(known(&volume) >= 4, "those that were just written are known");
        drop(volume);
        known(&open_in(&left.after_power_failure(&mut Dice(at)), BOOT + 1).unwrap());
    }
}

/// The checksums that could not be written are not trusted after a kill.
#[test]
fn no_block_is_refused_after_sums_that_could_not_be_written() {
    const BOOT: u32 = 7;
    for at in 0.. {
        let files = made();
        files.plan(Some(Fault::Error(at, rustix::io::Errno::NOSPC, 2)));
        let is_over = live_in(&files, BOOT).is_ok() && files.operations() < at;
        files.plan(None);
        known(&open_in(&files.after_kill(), BOOT).unwrap());
        if is_over {
            assert!(at > 60, "{at}");
            return;
        }
    }
}

/// The file of a volume that was killed is put back from an older copy; what was written in this boot is refused.
#[test]
fn older_blocks_are_refused_after_a_kill() {
    const BOOT: u32 = 7;
    let files = made();
    let mut volume = open_in(&files, BOOT).unwrap();
    write_back(&mut volume, 1, false, 0).unwrap();
    let older = files.bytes(&raw(VOLUME));
    write_back(&mut volume, 2, true, 2).unwrap();
    drop(volume);
    files.damage(&raw(VOLUME), |bytes| *bytes = older);
    let volume = open_in(&files, BOOT).unwrap();
    let refused = |block| volume.file().read(block, &mut vec![0; BLOCK]).is_err();
    assert_eq!([0, 1, 2, 3, 4, 6, 7].map(refused), [false, false, true, true, true, true, false]);
}
