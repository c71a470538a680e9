//! Private changes of a mount: programs see them at once, and others when they are published, all at once.
//!
//! | module | duty |
//! |---|---|
//! | `changes` | the changes by path, and how they follow the site |
//! | `journal` | the file that keeps them |
//! | `nodes` | the directories of the private tree |
//! | `branch` | the private tree as a site that the mount reads and writes |
//! | `publish` | a publish of private changes |
//! | `request` | the file by which commands ask for one |

mod branch;
mod changes;
mod journal;
mod nodes;
mod publish;
mod request;

use crate::error::FilesError;
pub(super) use branch::{Branch, Stash, Stashed};
use journal::Journal;
pub(super) use request::OpenRequest;
pub use request::{PrivateRequest, PrivateState};
use std::path::Path;

/// The folder of private changes, in that of files which are being written.
const FOLDER: &str = "private";

/// Refuses a directory for files that are being written, if there are private changes in it.
pub(super) fn refuse(dir: &Path, site: &str) -> Result<(), FilesError> {
    match Journal::read(&dir.join(FOLDER), site)?.changes.len() {
        0 => Ok(()),
        changes => Err(FilesError::PrivateChanges(dir.to_owned(), changes)),
    }
}
