//! A store's directory: its lock, its creation, and the count of its lives.
//!
//! ```text
//!   thorp-store      the marker (marker.rs)
//!   lock             held by the process that has the store open; its number
//!   home.redb        the page home (`page_file.rs`)
//!   log-NNNN.seg     the log's segments (crate `log`)
//!   cluster-member   in a store of several nodes: which of them it is (crate `membership`)
//!   reserve          room for a start on a full disk (`vfs::reserve`)
//!   *.tmp            what a crash left of a file that was being made
//! ```
//! Creation writes the marker first, with incarnation 0, and then the rest; a creation that was interrupted begins
//! again. From incarnation 1 on a file that is missing is damage.

use crate::config::Config;
use crate::error::DiskError;
use crate::marker::{self, Marker};
use crate::page_file::RedbHome;
use crate::records::StoreRecords;
use log::{Log, LogId, is_segment};
use std::io::{self, Read};
use types::{ClusterId, Incarnation, Life};
use vfs::{Doing, Files, Lock, Locking, lock_holder};

const LOCK: &str = "lock";

/// A store's directory, locked.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The marker's fields, the life that begins now included.
    pub(crate) marker: Marker,
    /// That life, as no copy of the directory will have it.
    pub(crate) life: Life,
    /// Keeps others out.
    pub(crate) lock: Lock,
}

/// Locks a directory, makes a store of it if it is empty, and begins a life.
pub(crate) fn claim(files: &dyn Files, config: &Config) -> Result<Claim, DiskError> {
    look_at(files, config.create)?;
    let lock = lock(files, Locking::Signed)?;
    // Looked at again: another process may have made a store of it before the lock was ours.
    let marker = match look_at(files, config.create)? {
        Some(marker) => marker,
        None => begin(files, config)?,
    };
    if let Some(expected) = config.cluster.filter(|&expected| expected != marker.cluster) {
        return Err(DiskError::OtherStore { dir: files.path(""), expected, got: marker.cluster });
    }
    remove_leftovers(files)?;
    if marker.incarnation.0 == 0 {
        create(files, config, marker.cluster)?;
    }
    let marker = Marker { incarnation: Incarnation(marker.incarnation.0 + 1), ..marker };
    marker.write(files)?;
    Ok(Claim { marker, life: Life(random()?), lock })
}

/// Locks a directory to read it. Its next life begins in memory only.
pub(crate) fn claim_to_read(files: &dyn Files) -> Result<Claim, DiskError> {
    look_at(files, false)?;
    let lock = lock(files, Locking::Shared)?;
    match look_at(files, false)? {
        Some(marker) if marker.incarnation.0 > 0 => {
            let marker = Marker { incarnation: Incarnation(marker.incarnation.0 + 1), ..marker };
            Ok(Claim { marker, life: Life(random()?), lock })
        }
        _ => Err(DiskError::NoStore(files.path(""))),
    }
}

/// The marker of an existing store; `None` if a store may be created here.
pub(crate) fn look_at(files: &dyn Files, create: bool) -> Result<Option<Marker>, DiskError> {
    let dir = || files.path("");
    let names = match files.list() {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DiskError::NoStore(dir())),
        Err(error) => Err(error).doing("read", dir)?,
    };
    if let Some(marker) = Marker::read(files)? {
        return Ok(Some(marker));
    }
    let own = |name: &String| name == LOCK || name.strip_suffix(".tmp") == Some(marker::NAME);
    match names.iter().find(|name| !own(name)) {
        Some(found) => Err(DiskError::NotAStore { dir: dir(), found: found.clone() }),
        None if create => Ok(None),
        None => Err(DiskError::NoStore(dir())),
    }
}

/// Locks the directory, or says who has it.
pub(crate) fn lock(files: &dyn Files, locking: Locking) -> Result<Lock, DiskError> {
    let path = || files.path(LOCK);
    match files.lock(LOCK, locking).doing("lock", path)? {
        Some(lock) => Ok(lock),
        None => Err(DiskError::InUse { dir: files.path(""), pid: lock_holder(&path()) }),
    }
}

/// Writes the marker of a new store, and draws its identity unless it has one.
fn begin(files: &dyn Files, config: &Config) -> Result<Marker, DiskError> {
    let cluster = config.cluster.map_or_else(|| random().map(ClusterId), Ok)?;
    let marker = Marker { cluster, incarnation: Incarnation(0) };
    marker.write(files)?;
    Ok(marker)
}

/// A number that nobody else draws.
fn random() -> Result<u64, DiskError> {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.doing("read", || "/dev/urandom".into())?;
    Ok(u64::from_le_bytes(bytes))
}

/// Makes the files of a new store. Files that an earlier attempt left are made again.
fn create(files: &dyn Files, config: &Config, cluster: ClusterId) -> Result<(), DiskError> {
    for name in files.list().doing("read", || files.path(""))? {
        if is_segment(&name) || name == crate::page_file::NAME {
            files.remove(&name).doing("remove", || files.path(&name))?;
        }
    }
    Log::<StoreRecords>::create(files, LogId(cluster.0), config.limits(), config.segments_min)?;
    RedbHome::create(files, config.home_cache_bytes)?;
    Ok(files.sync_dir().doing("sync", || files.path(""))?)
}

fn remove_leftovers(files: &dyn Files) -> Result<(), DiskError> {
    for name in files.list().doing("read", || files.path(""))? {
        if name.strip_suffix(".tmp").is_some() {
            files.remove(&name).doing("remove", || files.path(&name))?;
        }
    }
    Ok(())
}
