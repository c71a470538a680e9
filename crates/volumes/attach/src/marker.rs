//! The small files that say what a directory or a file is to a volume: lines of text for people who look into them, and
//! a checksum. They are replaced as a whole, and the place of the next one is there before it is needed (`NAME.tmp`): a
//! process that was killed on a disk without room starts again.

use std::fmt::Write;
use std::io;
use vfs::{Doing, FileError, Files, How, read_small};

const BYTES_MAX: u64 = 16 << 10;

/// The spare room of a marker is a multiple of this, like the marker that it stands for: if it were more, it could not
/// be had again on a full disk with blocks of this size, where the old marker's is everything that becomes free.
const SPARE_BYTES: usize = 1024;

/// The kind of a marker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Its first line.
    pub(crate) title: &'static str,
    /// Its format.
    pub(crate) format: u32,
    /// The names of its fields, in order. No value has a line break.
    pub(crate) fields: &'static [&'static str],
}

impl Kind {
    /// The text that says these values.
    fn encode(self, values: &[String]) -> String {
        let mut text = format!("{}\nformat {}\n", self.title, self.format);
        for (name, value) in self.fields.iter().zip(values) {
            let _ = writeln!(text, "{name} {value}");
        }
        let crc = crc32c::crc32c(text.as_bytes());
        text + &format!("crc32c {crc:08x}\n")
    }

    /// The values that a text says: it is exactly what would be written for them.
    fn decode(self, text: &str) -> Option<Vec<String>> {
        let mut lines = text.lines().skip(2);
        let value = |name: &&str| Some(lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.to_owned());
        let values = self.fields.iter().map(value).collect::<Option<Vec<_>>>()?;
        (self.encode(&values) == text).then_some(values)
    }

    /// Reads a marker; `None` if there is none.
    pub(crate) fn read(self, files: &dyn Files, name: &str) -> Result<Option<Vec<String>>, FileError> {
        let path = || files.path(name);
        let bytes = match read_small(files, name, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing("read", path),
        };
        let text = String::from_utf8_lossy(&bytes);
        if let Some(values) = self.decode(&text) {
            return Ok(Some(values));
        }
        let format = text.lines().nth(1).and_then(|line| line.strip_prefix("format ")?.parse().ok());
        if let Some(got) = format.filter(|&got| got > self.format && text.starts_with(self.title)) {
            return Err(FileError::Format { file: path(), expected: self.format, got });
        }
        let what = format!("expected '{}' with its checksum, got something else", self.title);
        Err(FileError::Corrupt { file: path(), offset: 0, what })
    }

    /// Puts a marker in its place, at once and durably.
    pub(crate) fn write(self, files: &dyn Files, name: &str, values: &[String]) -> Result<(), FileError> {
        debug_assert!(values.len() == self.fields.len() && values.iter().all(|value| !value.contains('\n')));
        replace(files, name, self.encode(values).as_bytes()).doing("write", || files.path(name))
    }
}

/// Puts a small file in its place. At every moment either the old or the new one is there.
fn replace(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let spare = format!("{name}.tmp");
    // Written in place: to make it again would give its room away.
    let file = match files.open(&spare, How::Write) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => files.open(&spare, How::Create)?,
        opened => opened?,
    };
    file.write_at(0, bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync()?;
    files.rename(&spare, name)?;
    files.sync_dir()?;
    // The old one's room is free now. Without a spare one the next is as good, as long as there is room.
    let _ = files
        .open(&spare, How::Create)
        .and_then(|file| file.write_at(0, &vec![0; bytes.len().next_multiple_of(SPARE_BYTES)]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::Memory;

    const KIND: Kind = Kind { title: "thorp test", format: 2, fields: &["name", "count"] };

    #[test]
    fn a_marker_is_read_as_it_was_written_and_damage_is_refused() {
        let files = Memory::default();
        assert_eq!(KIND.read(&files, "marker").unwrap(), None);
        let values = ["a name with spaces".to_owned(), "7".to_owned()];
        KIND.write(&files, "marker", &values).unwrap();
        assert_eq!(KIND.read(&files, "marker").unwrap().as_deref(), Some(&values[..]));
        let later = Kind { format: 1, ..KIND }.read(&files, "marker");
        assert!(matches!(later, Err(FileError::Format { expected: 1, got: 2, .. })), "{later:?}");
        for byte in 0..files.bytes("marker").len() {
            let files = files.after_kill();
            files.damage("marker", |bytes| bytes[byte] ^= 4);
            assert!(KIND.read(&files, "marker").is_err(), "byte {byte}");
        }
    }
}
