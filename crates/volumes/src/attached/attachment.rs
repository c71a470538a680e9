//! The file of a cache that says which attachment its log is of.

use crate::marker::Kind;
use vfs::{FileError, Files};
use volume::Epoch;

const ATTACHMENT: Kind = Kind { title: "thorp volume attachment", format: 1, fields: &["epoch", "base"] };
pub(super) const ATTACHMENT_NAME: &str = "thorp-volume-attachment";

/// The last attachment of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    /// Its epoch.
    pub(super) epoch: Epoch,
    /// The position in the log before the epoch's first write.
    pub(super) base: u64,
}

impl Attachment {
    pub(super) fn read(files: &dyn Files) -> Result<Option<Self>, FileError> {
        let Some(values) = ATTACHMENT.read(files, ATTACHMENT_NAME)? else { return Ok(None) };
        let number = |at: usize| u64::from_str_radix(&values[at], 16).ok();
        let attachment = number(0).zip(number(1)).map(|(epoch, base)| Self { epoch: Epoch(epoch), base });
        let what = "a field has a value that was never written".to_owned();
        attachment.map(Some).ok_or(FileError::Corrupt { file: files.path(ATTACHMENT_NAME), offset: 0, what })
    }

    pub(super) fn write(self, files: &dyn Files) -> Result<(), FileError> {
        let values = [self.epoch.0, self.base].map(|value| format!("{value:016x}"));
        ATTACHMENT.write(files, ATTACHMENT_NAME, &values)
    }
}
