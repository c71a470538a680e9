//! Entries as `stat` shows them.

use super::nodes::Own;
use fuser::{FileAttr, FileType, INodeNo};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tree::{Attributes, Entry, Kind, Time};

/// The bytes of a read that is served best, and of a block.
const READ_BYTES: u32 = 128 * 1024;
const BLOCK_BYTES: u64 = 512;

/// The kind of an entry.
pub(super) fn kind(entry: &Entry) -> FileType {
    match entry.kind {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Directory(_) => FileType::Directory,
        Kind::Symlink(_) => FileType::Symlink,
    }
}

/// The attributes of an entry at an inode.
pub(super) fn of_entry(inode: u64, entry: &Entry) -> FileAttr {
    let (size, links) = match &entry.kind {
        // A tree does not say how many names a file has: two stand for any number above one.
        Kind::File { size, link, .. } => (*size, if *link == 0 { 1 } else { 2 }),
        Kind::Symlink(target) => (target.len() as u64, 1),
        // One link says that the number is not known, so that `find` counts no subdirectories by it.
        Kind::Directory(_) => (0, 1),
    };
    attributes(inode, kind(entry), &entry.attributes, size, links)
}

/// The attributes of a file that is being written.
pub(super) fn of_draft(inode: u64, given: &Attributes, size: u64) -> FileAttr {
    attributes(inode, FileType::RegularFile, given, size, 1)
}

/// The attributes of a directory that is not an entry, with those of the directory that is mounted on.
pub(super) fn of_directory(inode: u64, top: &Attributes) -> FileAttr {
    attributes(inode, FileType::Directory, top, 0, 1)
}

/// The attributes of a file or link that is not an entry.
pub(super) fn of_special(inode: u64, kind: FileType, size: u64, top: &Attributes) -> FileAttr {
    let mode = if kind == FileType::Symlink { 0o777 } else { top.mode & 0o444 };
    attributes(inode, kind, &Attributes { mode, ..top.clone() }, size, 1)
}

fn attributes(inode: u64, kind: FileType, given: &Attributes, size: u64, nlink: u32) -> FileAttr {
    let time = time(given.modified);
    FileAttr {
        ino: INodeNo(inode),
        size,
        blocks: size.div_ceil(BLOCK_BYTES),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: given.mode,
        nlink,
        uid: given.uid,
        gid: given.gid,
        rdev: 0,
        blksize: READ_BYTES,
        flags: 0,
    }
}

/// The attributes as this mount has changed them.
pub(super) fn changed(mut attr: FileAttr, modified: Time, own: &Own) -> FileAttr {
    if let Some((changed, _)) = own.changed.filter(|(_, of)| *of == modified) {
        attr.ctime = time(changed);
    }
    if let Some(touched) = own.touched.filter(|touched| *touched > modified) {
        (attr.mtime, attr.ctime) = (time(touched), time(touched));
    }
    if let Some(accessed) = own.accessed {
        attr.atime = time(accessed);
    }
    if own.is_removed {
        attr.nlink = 0;
    }
    attr
}

/// A time; those that the system cannot hold are 1970.
fn time(Time { seconds, nanoseconds }: Time) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(nanoseconds));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.and_then(|second| second.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_beyond_all_clocks_are_times() {
        let at = |seconds, nanoseconds| time(Time { seconds, nanoseconds });
        assert_eq!(at(1, 5), UNIX_EPOCH + Duration::new(1, 5));
        assert_eq!(at(-2, 800_000_000), UNIX_EPOCH - Duration::from_millis(1200));
        let _ = (at(i64::MAX, u32::MAX), at(i64::MIN, 0));
    }
}
