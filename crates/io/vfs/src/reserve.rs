//! Room kept aside: a file that goes when a full disk would keep a store from being opened. So a store that is full can
//! be opened, read and deleted from, however full its disk is.

use crate::errno::{Call, On, Refused, Verdict};
use crate::error::{Doing, FileError};
use crate::files::{Files, fill};

/// The file's name.
const NAME: &str = "reserve";

/// The room that opening a store takes for a while, in bytes, with much to spare: the marker, and the page home's
/// repairs.
const BYTES: usize = 1 << 20;

/// Keeps room aside, unless it is kept already or there is none.
pub fn keep(files: &dyn Files) -> Result<(), FileError> {
    if files.list().doing("read", || files.path(""))?.iter().any(|name| name == NAME) {
        return Ok(());
    }
    let temporary = format!("{NAME}.tmp");
    match fill(files, &temporary, BYTES).and_then(|()| files.rename(&temporary, NAME).on(Call::Name)) {
        Ok(()) => Ok(()),
        Err(refused) => without(files, &temporary, refused),
    }
}

/// Without a reserve a store is as good, as long as there is room.
fn without(files: &dyn Files, temporary: &str, refused: Refused) -> Result<(), FileError> {
    let _ = files.remove(temporary);
    match refused.verdict() {
        Verdict::Passes | Verdict::NoRoom => Ok(()),
        Verdict::Fails => Err(refused).doing("create", || files.path(NAME)),
    }
}

/// Returns the room back to the disk; says whether any was kept.
pub fn give_up(files: &dyn Files) -> bool {
    files.remove(NAME).is_ok()
}
