//! Stored responses as records on disk, and back.
//!
//! A record has the key, the response without its content as [`Stored::to_bytes`] has it, and the content. Its claim at
//! the home stays in memory, so a response on disk is proved as one in memory is (rule LookAtHit). A claim ends with
//! its process: a response that a start finds has none, and is validated before it answers. One that has no strong
//! validator could not be, and is left out.

use crate::stored::coherence::Claim;
use crate::stored::content::Content;
use crate::stored::disk_content::{Disk, DiskContent};
use crate::stored::entry::Entry;
use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use diskcache::{Held, Label, Opened, Record, Source};
use responses::{Key, KeyBytes, Stored};
use std::sync::Arc;

/// How the responses under a key are told apart on disk: by the values of the request fields that select them, and by
/// which fields these are. Two that differ in the latter might both be selected by one request, so the newer one stays.
pub(crate) fn label(stored: &Stored) -> Label {
    let selecting = stored.selecting();
    let lines = selecting.as_bytes();
    let names = lines.split(|&byte| byte == b'\n').map(|line| line.split(|&byte| byte == b':').next());
    let kind = names.fold(0, |crc, name| crc32c_append(crc32c_append(crc, name.unwrap_or_default()), b"\n"));
    Label { variant: crc32c(lines), kind }
}

/// The record of a response.
pub(crate) fn record(key: KeyBytes<'_>, stored: &Stored, content: Source) -> Record {
    Record {
        key: Bytes::copy_from_slice(key.as_bytes()),
        head: stored.to_bytes().into(),
        content,
        is_lasting: stored.has_strong_validator(),
    }
}

/// Reads a response from disk, with its content if that is of at most so many bytes. It waits for the disk. None if it
/// is gone, or that of another key.
pub(crate) fn load(
    disk: &Arc<Disk>,
    key: Option<&Key>,
    held: &Arc<Held<Claim>>,
    bytes_max: u64,
    number: u16,
) -> Option<Arc<Entry>> {
    let Opened { key: found, head, content } = disk.open_record(held).ok()?;
    if key.is_some_and(|key| key.as_bytes() != found) {
        return None;
    }
    let stored = Stored::from_bytes(&head)?;
    let content = match content {
        Source::Disk(extent) if extent.bytes() > bytes_max => {
            Content::on_disk(DiskContent::new(extent, held.clone(), disk.clone()))
        }
        source => {
            let pieces = source.read_all().collect::<Result<Vec<_>, _>>();
            Content::of(&pieces.map_err(|error| disk.lose(held, error)).ok()?)
        }
    };
    Some(Arc::new(Entry::of_record(&found, stored, &content, held.clone(), number)))
}
