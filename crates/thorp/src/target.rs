//! Opens the store that a command speaks to.

use crate::Result;
use crate::cli::Target;
use thorp::Db;

/// The store of `--dir`, inside this process, or the one that listens at `--server`.
pub(crate) fn open(target: &Target) -> Result<Db> {
    match &target.dir {
        Some(dir) => Ok(Db::open(dir)?),
        None => Ok(Db::connect(&target.server)?),
    }
}
