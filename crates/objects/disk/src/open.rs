//! Opening a store's directory, in the order of recovery: the lock and the marker, the page home, the log from its
//! oldest record that is needed, the tail; then the disk is ready for work.

use crate::config::Config;
use crate::directory::{self, Claim};
use crate::error::DiskError;
use crate::marker;
use crate::page_file::{Home, RedbHome};
use crate::real::{Parts, RealDisk};
use crate::records::StoreRecords;
use log::{Log, LogId, Progress, Scan};
use std::io;
use std::path::Path;
use std::sync::Arc;
use store::{Opened, Position, Record};
use vfs::{Directory, Doing, Files, Overlay, Patience, reserve};

/// A log is given room for this many times the MOB: what waits for write-back is in it, and beside it what was
/// overwritten in the meantime.
pub const LOG_OVER_MOB: usize = 4;

/// The file by which a directory is known as one of several of a store.
pub const NODE_FILE: &str = "cluster-member";

/// A store's directory that is being opened: take the records, all of them, then [`Opening::finish`].
#[derive(Debug)]
pub struct Opening {
    opened: Opened,
    config: Config,
    files: Arc<dyn Files>,
    claim: Claim,
    patience: Arc<Patience>,
    home: RedbHome,
    scan: Scan<StoreRecords>,
}

/// Opens a store's directory, or makes one. A read-only directory is recovered in memory: nothing is written to it.
///
/// # Errors
/// By name: in use, no store, damaged (with file and offset), of a later format. No record and no page is changed then;
/// the count of lives may have been.
pub fn open(dir: &Path, config: &Config) -> Result<Opening, DiskError> {
    config.check()?;
    // Its pages are in shards, and its log is one of several.
    if config.cluster.is_none() && dir.join(NODE_FILE).exists() {
        return Err(DiskError::OfNode(dir.to_owned()));
    }
    if config.read_only {
        return Opening::begin(Arc::new(Overlay(Arc::new(Directory::new(dir)))), config);
    }
    if config.create && !dir.join(marker::NAME).exists() {
        make_directory(dir, &sync_directory).doing("create", || dir.to_owned())?;
    }
    Opening::begin(Arc::new(Directory::new(dir)), config)
}

/// Makes a directory, and those above it that are missing. Each is durable in the one above it before anything is put
/// into it: else a store could vanish as a whole, with everything that it has acknowledged.
pub(crate) fn make_directory(dir: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let above = match dir.parent() {
        None => return Ok(()),
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
    };
    let made = match std::fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directory(above, sync)?;
            std::fs::create_dir(dir)
        }
        made => made,
    };
    match made {
        Ok(()) => sync(above),
        // The process that made it may have been interrupted before it was durable; or it is where we may not look.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => match sync(above) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        },
        Err(error) => Err(error),
    }
}

pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

impl Opening {
    /// Opens a store in `files`. If the disk is full, with the room that was kept aside for that.
    pub(crate) fn begin(files: Arc<dyn Files>, config: &Config) -> Result<Self, DiskError> {
        match Self::try_begin(files.clone(), config) {
            Err(error) if error.is_full() && reserve::give_up(&*files) => Self::try_begin(files, config),
            opening => opening,
        }
    }

    fn try_begin(files: Arc<dyn Files>, config: &Config) -> Result<Self, DiskError> {
        let claim =
            if config.read_only { directory::claim_to_read(&*files)? } else { directory::claim(&*files, config)? };
        let patience = Arc::<Patience>::default();
        let (home, pages) = RedbHome::open(files.clone(), config.home_cache_bytes, patience.clone())?;
        let scan = Scan::begin(files.clone(), LogId(claim.marker.cluster.0), home.durable())?;
        let opened = Opened {
            cluster: claim.marker.cluster,
            incarnation: claim.marker.incarnation,
            life: claim.life,
            checkpoint: home.checkpoint(),
            pages,
            log_bytes_free: scan.bytes_free_at_least(),
        };
        Ok(Self { opened, config: config.clone(), files, claim, patience, home, scan })
    }

    /// The content of the directory, but for the records. The room in the log is what is known before the scan; the
    /// first flush says exactly how much it is.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The next record of the log, oldest first; `None` at the end. Records before the last freed position may come
    /// again if the process did not close the store.
    pub fn next_record(&mut self) -> Result<Option<(Position, Record)>, DiskError> {
        Ok(self.scan.next_record()?.map(|(position, record)| (Position(position), record)))
    }

    /// How far the scan of the log has come.
    pub fn progress(&self) -> Progress {
        self.scan.progress()
    }

    /// The disk, ready for work. Records that were not taken are skipped.
    pub fn finish(mut self) -> Result<RealDisk, DiskError> {
        while self.scan.next_record()?.is_some() {}
        self.home.must_have(u64::from(self.scan.witness()))?;
        let incarnation = self.opened.incarnation.0 as u32;
        let id = LogId(self.opened.cluster.0);
        let log = Log::resume(self.files.clone(), id, self.config.limits(), incarnation, &self.scan)?;
        if !self.config.read_only {
            reserve::keep(&*self.files)?;
        }
        let Self { files, config, claim, patience, home, .. } = self;
        let (readers, home) = (config.readers, Box::new(home));
        RealDisk::start(Parts { files, readers, log, log_id: id, home, patience }, claim.lock)
    }
}
