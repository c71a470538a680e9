//! The registry's entry of a volume, beside the volume: if the registry is lost, it is made again of these.
//!
//! Home does not read an entry. It keeps the newest by its epoch and revision: what an owner says late, or says of a
//! registry that was restored from an older copy, takes nothing's place.

use crate::marker::Kind;
use machines::messages::{holder::VolumeId, home::Keep};
use vfs::{FileError, Files};

const ENTRY: Kind = Kind { title: "thorp volume entry", format: 1, fields: &["volume", "epoch", "revision", "entry"] };

/// The file of a volume.
pub(super) fn name(volume: VolumeId) -> String {
    format!("{:016x}.entry", volume.0)
}

/// That, and what its writing leaves beside it.
pub(super) fn names(volume: VolumeId) -> [String; 2] {
    [name(volume), format!("{}.tmp", name(volume))]
}

/// Keeps an entry, unless there is a newer one.
pub(super) fn keep(files: &dyn Files, volume: VolumeId, keep: &Keep) -> Result<(), FileError> {
    let Keep { epoch, revision, entry } = keep;
    // One that cannot be read is no use to anybody.
    if read(files, volume).ok().flatten().is_some_and(|(kept, _)| kept > (epoch.0, *revision)) {
        return Ok(());
    }
    let number = |number: u64| format!("{number:016x}");
    let text = String::from_utf8_lossy(entry).into_owned();
    ENTRY.write(files, &name(volume), &[number(volume.0), number(epoch.0), number(*revision), text])
}

/// The entry, if there is one.
pub(super) fn recall(files: &dyn Files, volume: VolumeId) -> Result<Option<String>, FileError> {
    Ok(read(files, volume)?.map(|(_, entry)| entry))
}

/// The epoch and the revision of an entry, and its text.
type Known = ((u64, u64), String);

fn read(files: &dyn Files, volume: VolumeId) -> Result<Option<Known>, FileError> {
    let Some(values) = ENTRY.read(files, &name(volume))? else { return Ok(None) };
    let number = |at: usize| u64::from_str_radix(&values[at], 16).ok();
    let found = number(1).zip(number(2)).filter(|_| number(0) == Some(volume.0));
    let what = format!("expected the entry of volume {:016x}, got that of another one", volume.0);
    let found = found.ok_or(FileError::Corrupt { file: files.path(&name(volume)), offset: 0, what })?;
    Ok(Some((found, values[3].clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::messages::holder::Epoch;
    use vfs::memory::Memory;

    const VOLUME: VolumeId = VolumeId(7);

    fn tell(files: &Memory, epoch: u64, revision: u64, entry: &'static str) {
        keep(files, VOLUME, &Keep { epoch: Epoch(epoch), revision, entry: entry.into() }).unwrap();
    }

    #[test]
    fn the_newest_entry_is_kept() {
        let files = Memory::default();
        assert_eq!(recall(&files, VOLUME).unwrap(), None);
        tell(&files, 1, 9, "{\"a\": 1}");
        tell(&files, 1, 8, "{}");
        assert_eq!(recall(&files, VOLUME).unwrap().as_deref(), Some("{\"a\": 1}"));
        // Of a later epoch, whatever the revision is.
        tell(&files, 2, 3, "{\"b\": 2}");
        tell(&files, 1, 10, "{}");
        assert_eq!(recall(&files, VOLUME).unwrap().as_deref(), Some("{\"b\": 2}"));
    }

    #[test]
    fn the_entry_of_another_volume_is_refused_and_a_damaged_one_replaced() {
        let files = Memory::default();
        tell(&files, 1, 1, "{}");
        files.rename(&name(VOLUME), &name(VolumeId(8))).unwrap();
        assert!(matches!(recall(&files, VolumeId(8)), Err(FileError::Corrupt { .. })));
        tell(&files, 1, 1, "{}");
        files.damage(&name(VOLUME), |bytes| bytes[30] ^= 1);
        assert!(matches!(recall(&files, VOLUME), Err(FileError::Corrupt { .. })));
        tell(&files, 1, 1, "{\"a\": 1}");
        assert_eq!(recall(&files, VOLUME).unwrap().as_deref(), Some("{\"a\": 1}"));
    }
}
