//! Power failures at each operation on a volume's file and its checksums, and the bytes of a slot.

use super::*;
use crate::home::CheckProgress;
use vfs::memory::{Dice, Fault, Memory};

const REGION: u32 = REGION_BLOCKS_MIN as u32;
const BLOCKS: u32 = 3 * REGION;

fn made() -> Memory {
    let files = Memory::default();
    let raw = files.open("disk", How::Create).unwrap();
    raw.set_len(u64::from(BLOCKS) * BLOCK as u64).unwrap();
    raw.sync().unwrap();
    files.sync_dir().unwrap();
    files
}

fn opening(checks: &Checks) -> Opening<'_> {
    Opening { makes: true, left: None, checks }
}

fn open(files: &Memory) -> Result<(Arc<dyn File>, Sums), FileError> {
    open_in(files, 0)
}

/// Opens it in this boot.
fn open_in(files: &Memory, boot: u32) -> Result<(Arc<dyn File>, Sums), FileError> {
    let raw = files.open("disk", How::Write).doing("open", || "disk".into())?;
    Ok((
        raw.clone(),
        Sums::open(files, "disk.sums", raw, opening(&Checks::new(boot, CheckProgress::default())))?.unwrap(),
    ))
}

/// Blocks of which the sum is known; none of them is wrong.
fn known(files: &Memory) -> Vec<u32> {
    let (raw, sums) = open(files).unwrap();
    let known = kept(&*sums.file, 0, BLOCKS as usize).unwrap();
    let known = (0..BLOCKS).zip(known).filter(|(_, sum)| *sum != 0);
    let right = |block: u32| {
        let mut bytes = [0; BLOCK];
        raw.read_at(u64::from(block) * BLOCK as u64, &mut bytes).unwrap();
        sum_of(&bytes)
    };
    known.inspect(|(block, sum)| assert_eq!(right(*block), *sum, "block {block}")).map(|(block, _)| block).collect()
}

/// Writes to one region after another, some of it twice before it is synced; marks are let go every now and then.
fn live(files: &Memory) -> Result<(), FileError> {
    files.sync_dir().doing("sync", || "".into())?;
    let (raw, mut sums) = open(files)?;
    for number in 1..=16 {
        if number % 3 == 0 {
            sums.freed_at = Instant::now().checked_sub(MARKED_FOR).unwrap();
        }
        let first = number / 6 * REGION + number % 2;
        let bytes = vec![number as u8; 2 * BLOCK];
        sums.expect([&(first..first + 2)])?;
        raw.write_at(u64::from(first) * BLOCK as u64, &bytes).doing("write", || "disk".into())?;
        sums.set(first, &bytes);
        if number % 4 != 0 {
            raw.sync().doing("sync", || "disk".into())?;
            sums.synced();
        }
    }
    Ok(())
}

#[test]
fn no_sum_that_is_trusted_is_of_another_write() {
    let (mut dice, mut count) = (Dice(5), 0);
    for at in 0.. {
        let files = made();
        files.plan(Some(Fault::Crash(at)));
        let is_over = live(&files).is_ok();
        for _ in 0..400 {
            let left = files.after_power_failure(&mut dice);
            count += known(&left).len();
            // The next start finds it no worse, and neither does one behind a second failure.
            known(&left.after_power_failure(&mut dice));
            left.plan(Some(Fault::Crash(dice.roll(50))));
            let _ = live(&left);
            known(&left.after_power_failure(&mut dice));
        }
        if is_over {
            // The last region alone is not trusted: nobody had written the others for long when it was killed.
            files.plan(None);
            assert!(count > 100 && at > 50, "{count} {at}");
            assert_eq!(known(&files.after_kill()), [0, 1, 2, REGION, REGION + 1, REGION + 2]);
            return;
        }
    }
}

#[test]
fn regions_of_large_volumes_are_larger() {
    assert_eq!([1, 32_256 * 1024, 32_256 * 1024 + 1, 1 << 32].map(shift_of), [0, 0, 1, 8]);
    let mut regions = Regions::none();
    for region in [0, 5, 6, 4001] {
        regions.add(region);
    }
    assert_eq!(regions.widened(1).iter().collect::<Vec<_>>(), [0, 2, 3, 2000]);
}

#[test]
fn a_slot_has_its_golden_bytes() {
    let mut marked = Regions::none();
    for region in [0, 9] {
        marked.add(region);
    }
    let slot = Slot {
        shift: 1,
        revision: 2,
        identity: 3,
        modified: 4,
        own_identity: 5,
        is_closed: false,
        boot: 0x0706,
        marked,
    };
    let bytes = encode(&slot);
    let hex = bytes[..68].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    assert_eq!(
        hex,
        "54484f525053554d020000000100000002000000000000000300000000000000040000000000000005000000000000000607\
         000016825023000000000000000001020000"
    );
    assert_eq!(decode(&bytes).unwrap(), slot);
    let mut bad = bytes;
    bad[4000] ^= 1;
    assert!(decode(&bad).is_err());
}

/// Such a file does not say in which boot it was written.
#[test]
fn a_slot_of_the_format_before_is_read() {
    let mut bytes = [0; BLOCK];
    bytes[..8].copy_from_slice(b"THORPSUM");
    for (at, value) in [(8, 1_u32), (12, 1), (16, 2), (24, 3), (32, 4), (40, 5), (48, 1), (CRC_AT, 0xc220_80df)] {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes[BITS_AT..BITS_AT + 2].copy_from_slice(&[1, 2]);
    let mut marked = Regions::none();
    for region in [0, 9] {
        marked.add(region);
    }
    let slot =
        Slot { shift: 1, revision: 2, identity: 3, modified: 4, own_identity: 5, is_closed: true, boot: 0, marked };
    assert_eq!(decode(&bytes).unwrap(), slot);
}

/// A volume that was open in the format before: only sums of regions that are not marked are trusted.
#[test]
fn sums_of_a_boot_that_nobody_knows_are_trusted_outside_of_marked_regions() {
    for (boot, next, is_known) in [(0, 7, false), (7, 8, false), (7, 7, true)] {
        let files = made();
        let (_, mut sums) = open_in(&files, boot).unwrap();
        sums.expect([&(5..6)]).unwrap();
        sums.set(5, &[0; BLOCK]);
        let (_, sums) = open_in(&files, next).unwrap();
        assert_eq!(kept(&*sums.file, 5, 1).unwrap()[0] != 0, is_known, "{boot} {next}");
    }
}
