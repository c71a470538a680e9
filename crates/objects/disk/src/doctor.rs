//! Looks a closed store over: every checksum and every structure. Changes nothing; what redb would repair when it opens
//! its file is repaired in memory only.

use crate::directory;
use crate::error::DiskError;
use crate::page_file::{Home, RedbHome};
use crate::records::StoreRecords;
use log::{LogId, Scan};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Directory, FileError, Files, Locking, Overlay};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Where in it, in bytes, where that is known.
    pub offset: Option<u64>,
    /// The fault found there.
    pub what: String,
    /// The remedy.
    pub advice: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}; {}", self.what, self.advice)
    }
}

/// The extent of a check, and its findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Pages of the home.
    pub pages: u64,
    /// Records of the log that are needed.
    pub records: u64,
    /// Bytes of the log that were read.
    pub log_bytes: u64,
    /// The faults that were found.
    pub findings: Vec<Finding>,
}

const COPY: &str = "restore the directory from a copy";
const PAGE: &str = "the other pages are whole: copy them out with '--salvage', or restore the directory from a copy";
const LOG: &str = "what was committed before it is whole, what was committed since is lost unless the directory is \
                    restored from a copy";

/// Looks over the store in `dir`, which no process may have open.
///
/// # Errors
/// If there is no store, if it is in use, or if the system refuses to read it. Damage is no error but a finding.
pub fn check(dir: &Path) -> Result<Report, DiskError> {
    check_files(Arc::new(Directory::new(dir)))
}

/// Looks over a store in `files`.
pub(crate) fn check_files(files: Arc<dyn Files>) -> Result<Report, DiskError> {
    let files: Arc<dyn Files> = Arc::new(Overlay(files));
    let mut report = Report::default();
    let Some(marker) = report.note(directory::look_at(&*files, false), COPY)?.flatten() else { return Ok(report) };
    let _lock = directory::lock(&*files, Locking::Shared)?;
    if marker.incarnation.0 == 0 {
        // Its creation was interrupted, by a full disk perhaps: nothing was in it, and the next start makes it again.
        return Ok(report);
    }
    let home = check_home(&files, &mut report)?;
    let durable = home.as_ref().map_or(0, RedbHome::durable);
    let scan = Scan::<StoreRecords>::begin(files.clone(), LogId(marker.cluster.0), durable);
    if let Some(mut scan) = report.note(scan, LOG)? {
        while report.note(scan.next_record(), LOG)?.flatten().is_some() {}
        (report.records, report.log_bytes) = (scan.progress().records, scan.progress().bytes);
        if let Some(home) = home {
            report.note(home.must_have(u64::from(scan.witness())), COPY)?;
        }
    }
    Ok(report)
}

/// Looks over the home.
fn check_home(files: &Arc<dyn Files>, report: &mut Report) -> Result<Option<RedbHome>, DiskError> {
    const CACHE_BYTES: usize = 64 << 20;
    let opened = RedbHome::open(files.clone(), CACHE_BYTES, Arc::default());
    let Some((mut home, pages)) = report.note(opened, COPY)? else { return Ok(None) };
    report.pages = pages.len() as u64;
    for error in home.check(&pages)? {
        report.note(Err::<(), _>(error), PAGE)?;
    }
    Ok(Some(home))
}

impl Report {
    /// Takes down damage as a finding; gives what there is, and passes on what kept the check from going on.
    pub(crate) fn note<T, E: Into<DiskError>>(
        &mut self,
        result: Result<T, E>,
        advice: &'static str,
    ) -> Result<Option<T>, DiskError> {
        let (file, offset, what) = match result.map_err(Into::into) {
            Ok(value) => return Ok(Some(value)),
            Err(DiskError::File(FileError::Corrupt { file, offset, what })) => {
                (file, Some(offset).filter(|&at| at > 0), what)
            }
            Err(DiskError::File(FileError::Io { file, source, .. }))
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                (file, None, "the file is missing".to_owned())
            }
            Err(error) => return Err(error),
        };
        self.findings.push(Finding { file, offset, what, advice });
        Ok(None)
    }
}
