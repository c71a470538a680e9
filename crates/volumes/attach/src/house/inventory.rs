//! All homes of a directory: which there are, and the end of those that nobody has open.
//!
//! A home that has no mark was not wholly made, or not wholly removed: it takes room, and no session can open it.

use super::files;
use machines::messages::holder::VolumeId;
use machines::messages::home::{FoundHome, Homes, NotDone};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::limits::VOLUME_HOMES_PER_ANSWER_MAX;
use vfs::{Doing, FileError, Files, How};

/// The homes from this number on, as many as fit.
pub(super) fn list(files: &dyn Files, from: VolumeId) -> Result<Homes, FileError> {
    let names = files.list().doing("list", || files.path(""))?;
    let numbers: BTreeSet<VolumeId> = names.iter().filter_map(|name| files::volume_of(name)).collect();
    let mut left = numbers.range(from..);
    let mut homes = Vec::new();
    for volume in left.by_ref().take(VOLUME_HOMES_PER_ANSWER_MAX) {
        // It may be removed in the meantime.
        homes.extend(find(files, *volume)?);
    }
    // The next question is for those behind the last one, and there is none if all of these were removed in the
    // meantime.
    let is_last = left.next().is_none() || homes.is_empty();
    Ok(Homes { homes, is_last })
}

/// Removes the files of a home that nobody has open, if nothing was written to them for this many seconds.
pub(super) fn discard(files: &dyn Files, volume: VolumeId, unwritten_s: u64) -> Result<(), NotDone> {
    let failed = |error: FileError| NotDone::Failed(error.to_string());
    let found = find(files, volume).map_err(failed)?.ok_or(NotDone::NoVolume)?;
    if found.unwritten_s < unwritten_s {
        return Err(NotDone::Recent(found.unwritten_s));
    }
    files::remove(files, volume).map_err(failed)
}

/// A file of a home.
struct Part {
    len: u64,
    disk_bytes: u64,
    /// When it was written last, in nanoseconds from 1970 on.
    written: Option<u64>,
}

/// A home, if there is any file of it.
fn find(files: &dyn Files, volume: VolumeId) -> Result<Option<FoundHome>, FileError> {
    let [raw, mark, journal, sums] =
        [files::raw, files::mark, files::journal, files::sums].map(|name| part(files, &name(volume)));
    let (raw, mark, journal, sums) = (raw?, mark?, journal?, sums?);
    let all = || [&raw, &mark, &journal, &sums].into_iter().flatten();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // One of which nobody knows, or which is ahead of this clock, may be in use.
    let age = |part: &Part| part.written.map_or(0, |at| now.saturating_sub(Duration::from_nanos(at)).as_secs());
    Ok(all().map(age).min().map(|unwritten_s| FoundHome {
        volume,
        size: raw.as_ref().map_or(0, |raw| raw.len),
        disk_bytes: all().map(|part| part.disk_bytes).sum(),
        unwritten_s,
        is_whole: raw.is_some() && mark.is_some(),
    }))
}

fn part(files: &dyn Files, name: &str) -> Result<Option<Part>, FileError> {
    let path = || files.path(name);
    let file = match files.open(name, How::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.doing("open", path)?,
    };
    let look = || -> io::Result<Part> {
        Ok(Part { len: file.size()?, disk_bytes: file.disk_bytes()?, written: file.modified()? })
    };
    look().map(Some).doing("look at", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::Directory;

    #[test]
    fn homes_are_listed_by_their_numbers_and_removed_when_nobody_writes_to_them() {
        let dir = std::env::temp_dir().join(format!("thorp-inventory-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = Directory::new(&dir);
        let count = VOLUME_HOMES_PER_ANSWER_MAX as u64 + 3;
        // A lock, a file of somebody else, and a name that is nearly one.
        for name in ["lock", "notes.raw", "00000000000000FF.raw", "ff.raw"] {
            std::fs::write(dir.join(name), "x").unwrap();
        }
        for number in 1..=count {
            files::create(&files, VolumeId(number), 1 << 20).unwrap();
        }
        // The store was killed before this one had its mark; and this one has nothing but its journal.
        std::fs::remove_file(dir.join(files::mark(VolumeId(2)))).unwrap();
        std::fs::write(dir.join(files::journal(VolumeId(count + 1))), [1; 4096]).unwrap();

        let first = list(&files, VolumeId(0)).unwrap();
        assert_eq!((first.homes.len(), first.is_last), (VOLUME_HOMES_PER_ANSWER_MAX, false));
        let next = first.homes.last().unwrap().volume.0 + 1;
        let rest = list(&files, VolumeId(next)).unwrap();
        let all: Vec<FoundHome> = first.homes.into_iter().chain(rest.homes).collect();
        assert_eq!((all.len() as u64, rest.is_last), (count + 1, true));
        assert!(all.iter().zip(1..).all(|(home, number)| home.volume.0 == number), "{all:?}");
        let [whole, torn, .., journal] = &all[..] else { unreachable!("there are many") };
        assert_eq!((whole.size, whole.is_whole, whole.disk_bytes < 1 << 20), (1 << 20, true, true));
        assert_eq!((torn.size, torn.is_whole), (1 << 20, false));
        assert_eq!((journal.size, journal.is_whole, journal.disk_bytes), (0, false, 4096));

        assert!(matches!(discard(&files, VolumeId(2), 60), Err(NotDone::Recent(0..60))));
        discard(&files, VolumeId(2), 0).unwrap();
        assert_eq!(discard(&files, VolumeId(2), 0), Err(NotDone::NoVolume));
        let aged = std::fs::File::options().write(true).open(dir.join(files::raw(VolumeId(3)))).unwrap();
        aged.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
        // Its mark is young.
        assert!(matches!(discard(&files, VolumeId(3), 60), Err(NotDone::Recent(0..60))));
        let aged = std::fs::File::options().write(true).open(dir.join(files::mark(VolumeId(3)))).unwrap();
        aged.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
        discard(&files, VolumeId(3), 60).unwrap();
        assert!(list(&files, VolumeId(2)).unwrap().homes[0].volume == VolumeId(4));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
