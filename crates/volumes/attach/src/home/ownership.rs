//! The file beside a home that says whose it is.
//!
//! ```text
//!   thorp volume
//!   format 2
//!   volume 0123456789abcdef
//!   epoch 0000000000000007
//!   attachment 0f1e2d3c4b5a6978
//!   cache fedcba9876543210
//!   dirty yes
//!   place host17:/ssd/v
//!   crc32c 89abcdef
//! ```
//! Format 1 has no number of the attachment, and no mark beside it (`mark.rs`).

use crate::marker::Kind;
use vfs::{FileError, Files};

const FIELDS: &[&str] = &["volume", "epoch", "attachment", "cache", "dirty", "place"];
const KIND: Kind = Kind { title: "thorp volume", format: 2, fields: FIELDS };
const FIELDS_OF_BEFORE: &[&str] = &["volume", "epoch", "cache", "dirty", "modified", "place"];
const KIND_OF_BEFORE: Kind = Kind { title: "thorp volume", format: 1, fields: FIELDS_OF_BEFORE };

/// The owner of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    /// The volume.
    pub(crate) volume: u64,
    /// The number of its attachments so far.
    pub(crate) epoch: u64,
    /// The number of the last attachment, which its cache remembers (**NumberAttachments**); 0 if it drew none.
    pub(crate) attachment: u64,
    /// The cache that it is, or was, attached with last; 0 if it never was, or continued without one.
    pub(crate) cache: u64,
    /// Whether that cache may have writes that are not written back.
    pub(crate) is_dirty: bool,
    /// Where that cache is, for a person.
    pub(crate) place: String,
}

impl Ownership {
    /// The ownership of a home that was never attached.
    pub(crate) fn none(volume: u64) -> Self {
        Self { volume, epoch: 0, attachment: 0, cache: 0, is_dirty: false, place: String::new() }
    }

    /// Reads it; `None` if this home has never been attached.
    pub(crate) fn read(files: &dyn Files, name: &str) -> Result<Option<Self>, FileError> {
        let ownership = match KIND.read(files, name) {
            Ok(None) => return Ok(None),
            Ok(Some(values)) => Self::from_values(&values),
            Err(error) => match KIND_OF_BEFORE.read(files, name) {
                Ok(Some(values)) => Self::from_values_of_before(&values),
                _ => return Err(error),
            },
        };
        let what = "a field has a value that was never written".to_owned();
        ownership.map(Some).ok_or(FileError::Corrupt { file: files.path(name), offset: 0, what })
    }

    fn from_values(values: &[String]) -> Option<Self> {
        let [volume, epoch, attachment, cache, dirty, place] = values else { return None };
        let [volume, epoch, attachment, cache] = numbers([volume, epoch, attachment, cache])?;
        Some(Self { volume, epoch, attachment, cache, is_dirty: yes_or_no(dirty)?, place: place.clone() })
    }

    fn from_values_of_before(values: &[String]) -> Option<Self> {
        let [volume, epoch, cache, dirty, _, place] = values else { return None };
        let [volume, epoch, cache] = numbers([volume, epoch, cache])?;
        Some(Self { volume, epoch, attachment: 0, cache, is_dirty: yes_or_no(dirty)?, place: place.clone() })
    }

    /// Writes it, durably.
    pub(crate) fn write(&self, files: &dyn Files, name: &str) -> Result<(), FileError> {
        let Self { volume, epoch, attachment, cache, is_dirty, place } = self;
        let dirty = if *is_dirty { "yes" } else { "no" }.to_owned();
        let [volume, epoch, attachment, cache] =
            [volume, epoch, attachment, cache].map(|number| format!("{number:016x}"));
        KIND.write(files, name, &[volume, epoch, attachment, cache, dirty, place.replace('\n', " ")])
    }
}

fn numbers<const N: usize>(values: [&String; N]) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = values.iter().map(|value| u64::from_str_radix(value, 16).ok()).collect();
    numbers?.try_into().ok()
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::Memory;

    #[test]
    fn that_of_an_earlier_version_is_read_and_has_no_number() {
        let (files, place) = (Memory::default(), "host17:/ssd/v");
        let values = ["1", "7", "3", "yes", "9", place].map(str::to_owned);
        KIND_OF_BEFORE.write(&files, "disk.thorp", &values).unwrap();
        let mut ownership = Ownership { epoch: 7, cache: 3, is_dirty: true, place: place.into(), ..Ownership::none(1) };
        assert_eq!(Ownership::read(&files, "disk.thorp").unwrap().as_ref(), Some(&ownership));
        ownership.attachment = 5;
        ownership.write(&files, "disk.thorp").unwrap();
        assert_eq!(Ownership::read(&files, "disk.thorp").unwrap(), Some(ownership));
    }
}
