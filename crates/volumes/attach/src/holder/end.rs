//! The file that says how far a holder's log has come: a disk that has lost the end of the log, and with it copies
//! that were counted, is told from one on which the log ends there.
//!
//! It is written over after each flush of the log, and never before: 24 bytes in one piece, which are not flushed
//! themselves. So a machine that dies leaves an older position, which tells less; a process that is killed leaves the
//! last one.

use std::sync::Arc;
use vfs::{File, Files, How, read_small};

pub(super) const END_NAME: &str = "thorp-holder-end";

/// Partition, position, checksum.
const BYTES: usize = 24;

/// The file of a log's end.
#[derive(Debug)]
pub(super) struct End {
    partition: u64,
    file: Option<Arc<dyn File>>,
}

impl End {
    /// That of a partition's log. Without a file that can be written nothing is noted.
    pub(super) fn open(files: &dyn Files, partition: u64) -> Self {
        let file = files.open(END_NAME, How::Write).or_else(|_| files.open(END_NAME, How::Create)).ok();
        Self { partition, file }
    }

    /// The last position that was durable, as far as is known; 0 if nothing is.
    pub(super) fn read(files: &dyn Files, partition: u64) -> u64 {
        let bytes = read_small(files, END_NAME, BYTES as u64).unwrap_or_default();
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let through = number(8).unwrap_or(0);
        if bytes == encode(partition, through) { through } else { 0 }
    }

    /// The log is durable through this position.
    pub(super) fn note(&self, through: u64) {
        let noted = self.file.as_ref().map(|file| file.write_at(0, &encode(self.partition, through)));
        // An older position tells less, and nothing wrong.
        drop(noted);
    }
}

fn encode(partition: u64, through: u64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&partition.to_le_bytes());
    bytes[8..16].copy_from_slice(&through.to_le_bytes());
    let crc = u64::from(crc32c::crc32c(&bytes[..16]));
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::Memory;

    #[test]
    fn an_end_is_of_one_partition_and_whole() {
        let files = Memory::default();
        assert_eq!(End::read(&files, 7), 0);
        let end = End::open(&files, 7);
        end.note(300);
        end.note(301);
        assert_eq!([7, 8].map(|partition| End::read(&files, partition)), [301, 0]);
        End::open(&files, 7).note(302);
        assert_eq!(End::read(&files, 7), 302);
        files.open(END_NAME, How::Write).unwrap().write_at(9, &[9]).unwrap();
        assert_eq!(End::read(&files, 7), 0);
    }
}
