//! The marker: the small file that makes a directory a store. Text, for people who look into it.
//!
//! ```text
//!   thorp store
//!   format 4
//!   cluster 0123456789abcdef
//!   incarnation 0000000000000007
//!   crc32c 89abcdef
//! ```
//! Since format 2 the log may have the length of leases; since format 3 a new segment is called `log-NNNN.seg`; since
//! format 4 the record of a commit has its count. A store of an earlier format is opened, and is of format 4 from then
//! on. Incarnation 0 is a store that has been
//! created and never opened: its other files may not be complete yet.

use std::io;
use types::{ClusterId, Incarnation};
use vfs::{Doing, FileError, Files, read_small, replace_small};

/// The marker's name.
pub(crate) const NAME: &str = "thorp-store";

const FORMAT: u32 = 4;
const BYTES_MAX: u64 = 4096;

/// The fields of the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The data set.
    pub(crate) cluster: ClusterId,
    /// The last life of a process.
    pub(crate) incarnation: Incarnation,
}

impl Marker {
    /// The marker's bytes.
    pub(crate) fn encode(&self) -> String {
        self.encode_in(FORMAT)
    }

    fn encode_in(self, format: u32) -> String {
        let Self { cluster, incarnation } = self;
        let body =
            format!("thorp store\nformat {format}\ncluster {:016x}\nincarnation {:016x}\n", cluster.0, incarnation.0);
        let crc = crc32c::crc32c(body.as_bytes());
        format!("{body}crc32c {crc:08x}\n")
    }

    /// The marker of some text: it must be exactly what would be written for what it says.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            u64::from_str_radix(line, 16).ok()
        };
        let marker = Self { cluster: ClusterId(value("cluster")?), incarnation: Incarnation(value("incarnation")?) };
        (1..=FORMAT).any(|format| marker.encode_in(format) == text).then_some(marker)
    }

    /// Reads the marker; `None` if there is none.
    pub(crate) fn read(files: &dyn Files) -> Result<Option<Self>, FileError> {
        let path = || files.path(NAME);
        let bytes = match read_small(files, NAME, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(FileError::Corrupt { file: path(), offset: 0, what: error.to_string() });
            }
            Err(error) => return Err(error).doing("read", path),
        };
        let text = String::from_utf8_lossy(&bytes);
        if let Some(marker) = Self::decode(&text) {
            return Ok(Some(marker));
        }
        let is_whole = text
            .rsplit_once("crc32c ")
            .is_some_and(|(body, crc)| crc.trim_end() == format!("{:08x}", crc32c::crc32c(body.as_bytes())));
        let later = text.lines().nth(1).and_then(|line| line.strip_prefix("format ")?.parse().ok());
        if let Some(got) = later.filter(|&got| is_whole && got > FORMAT && text.starts_with("thorp store\n")) {
            return Err(FileError::Format { file: path(), expected: FORMAT, got });
        }
        let what = "expected the marker of a store with its checksum, got something else".to_owned();
        Err(FileError::Corrupt { file: path(), offset: 0, what })
    }

    /// Puts the marker in its place, at once and durably.
    pub(crate) fn write(&self, files: &dyn Files) -> Result<(), FileError> {
        replace_small(files, NAME, self.encode().as_bytes()).doing("write", || files.path(NAME))
    }
}
