//! The file beside a home that says whose it is.
//!
//! ```text
//!   thorp volume
//!   format 1
//!   volume 0123456789abcdef
//!   epoch 0000000000000007
//!   cache fedcba9876543210
//!   dirty yes
//!   modified 0000000000000000
//!   place host17:/ssd/v
//!   crc32c 89abcdef
//! ```

use crate::marker::Kind;
use vfs::{FileError, Files};

const KIND: Kind =
    Kind { title: "thorp volume", format: 1, fields: &["volume", "epoch", "cache", "dirty", "modified", "place"] };

/// The owner of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ownership {
    /// The volume.
    pub(crate) volume: u64,
    /// The number of its attachments so far.
    pub(crate) epoch: u64,
    /// The cache that it is, or was, attached with last; 0 if it never was, or went on without one.
    pub(crate) cache: u64,
    /// Whether that cache may have writes that are not home.
    pub(crate) is_dirty: bool,
    /// When the home was last changed before it was detached; 0 if nobody knows.
    pub(crate) modified: u64,
    /// Where that cache is, for a person.
    pub(crate) place: String,
}

impl Ownership {
    /// Reads it; `None` if this home has never been attached.
    pub(crate) fn read(files: &dyn Files, name: &str) -> Result<Option<Self>, FileError> {
        let Some(values) = KIND.read(files, name)? else { return Ok(None) };
        let number = |value: &String| u64::from_str_radix(value, 16).ok();
        let [volume, epoch, cache, dirty, modified, place] = &values[..] else {
            unreachable!("as many as there are fields")
        };
        let numbers = number(volume).zip(number(epoch)).zip(number(cache)).zip(number(modified));
        let Some(((((volume, epoch), cache), modified), is_dirty)) = numbers.zip(yes_or_no(dirty)) else {
            let what = "a field has a value that was never written".to_owned();
            return Err(FileError::Corrupt { file: files.path(name), offset: 0, what });
        };
        Ok(Some(Self { volume, epoch, cache, is_dirty, modified, place: place.clone() }))
    }

    /// Writes it, durably.
    pub(crate) fn write(&self, files: &dyn Files, name: &str) -> Result<(), FileError> {
        let Self { volume, epoch, cache, is_dirty, modified, place } = self;
        let dirty = if *is_dirty { "yes" } else { "no" };
        let hex = |number: &u64| format!("{number:016x}");
        let place = place.replace('\n', " ");
        KIND.write(files, name, &[hex(volume), hex(epoch), hex(cache), dirty.to_owned(), hex(modified), place])
    }
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
