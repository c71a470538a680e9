//! The sites of a store that no process has open: looked over without a change to it, and salvaged into a new one.

mod salvage;

pub use salvage::{SalvagedSites, salvage_sites};

use crate::error::FilesError;
use crate::local::{CHUNKS, Local};
use crate::record::SiteName;
use crate::records::{Records, Summary};
use crate::sites::{Damage, Sites};
use chunks::{ChunkError, Chunks};
use objects::Db;
use std::fmt;
use std::path::Path;

/// Something that is wrong with published files.
#[derive(Debug)]
pub enum SiteFinding {
    /// A chunk of a site is missing, damaged or malformed.
    Chunk {
        /// The space.
        space: String,
        /// The site.
        site: String,
        /// The chunk, and the first path that needs it.
        damage: Damage,
    },
    /// The records of a site, or of all sites of a space, cannot be read.
    Records {
        /// The space; none if the spaces cannot be listed.
        space: Option<String>,
        /// The site.
        site: Option<String>,
        /// The reason.
        error: FilesError,
    },
    /// The chunks of all sites cannot be read.
    Chunks(FilesError),
}

impl SiteFinding {
    /// The remedy.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Chunk { .. } => {
                "write the chunk again with `thorp publish --repair` of the published directory or with `thorp site \
                 copy --repair` from a backup, or bring back an earlier revision with `thorp site rollback`"
            }
            Self::Records { .. } => "copy the sites from a backup to a new store with `thorp site copy --all`",
            Self::Chunks(_) => {
                "copy the sites from a backup to a new store with `thorp site copy --all`; without a backup, move this \
                 folder away and publish the directories again with `thorp publish --repair`"
            }
        }
    }
}

impl fmt::Display for SiteFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunk { space, site, damage } => {
                write!(f, "space {space}, {site}@{}: {damage}", damage.revision)
            }
            Self::Records { space: Some(space), site: Some(site), error } => {
                write!(f, "space {space}, the record of the site {site}: {error}")
            }
            Self::Records { space: Some(space), site: None, error } => {
                write!(f, "space {space}, the records of its sites: {error}")
            }
            Self::Records { space: None, error, .. } => write!(f, "the spaces of the store: {error}"),
            Self::Chunks(error) => write!(f, "the chunks of published files: {error}"),
        }
    }
}

/// The extent of a check of published files, and its findings.
#[derive(Debug, Default)]
pub struct SitesReport {
    /// Sites of all spaces.
    pub sites: u64,
    /// Their revisions.
    pub revisions: u64,
    /// Chunks in the store.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The faults that were found.
    pub findings: Vec<SiteFinding>,
}

/// The sites of a space.
struct Space {
    name: String,
    records: Records,
    sites: Vec<Summary>,
}

/// Whether the store in a directory has the folder of published files.
pub fn has_chunks(dir: &Path) -> bool {
    dir.join(CHUNKS).is_dir()
}

/// Checks every chunk of every revision of the store in `dir`, which `db` has open to be read. Nothing is changed.
///
/// # Errors
/// A store of chunks that is in use or of a newer format, and a bucket that fails. Damage is a finding, not an error.
pub fn check_sites(db: &Db, dir: &Path) -> Result<SitesReport, FilesError> {
    let mut report = SitesReport::default();
    let spaces = spaces(db, &mut report.findings);
    let sites = || spaces.iter().flat_map(|space| &space.sites);
    (report.sites, report.revisions) = (sites().count() as u64, sites().map(|site| site.revisions).sum());
    if report.revisions == 0 && !has_chunks(dir) {
        // It has never published: damaged pages belong to other data.
        report.findings.clear();
        return Ok(report);
    }
    if let Err(error) = count(dir, &mut report) {
        note_chunks(error, &mut report.findings)?;
        return Ok(report);
    }
    for Space { name: space, records, sites } in spaces {
        let here = Sites::over(records.clone(), Box::new(Local::open_to_read(records, dir)?));
        for site in sites.into_iter().map(|site| site.name) {
            let mut damages = Vec::new();
            let verified = SiteName::parse(&site).and_then(|name| here.verify(&name, &mut |it| damages.push(it)));
            let found = |damage| SiteFinding::Chunk { space: space.clone(), site: site.clone(), damage };
            report.findings.extend(damages.into_iter().map(found));
            match verified {
                Ok(_) => {}
                // The table cannot be read in some place: other sites may not need that.
                Err(error @ FilesError::Chunks(_)) => note_chunks(error, &mut report.findings)?,
                Err(error) => {
                    let (space, site) = (Some(space.clone()), Some(site));
                    report.findings.push(SiteFinding::Records { space, site, error });
                }
            }
        }
    }
    Ok(report)
}

/// The spaces of a store with their sites. Unreadable spaces are noted.
fn spaces(db: &Db, findings: &mut Vec<SiteFinding>) -> Vec<Space> {
    let mut note = |space, error: FilesError| findings.push(SiteFinding::Records { space, site: None, error });
    let names = match db.spaces() {
        Ok(spaces) => spaces.into_iter().filter(|space| !space.is_of_registry()).map(|space| space.name),
        Err(error) => {
            note(None, error.into());
            return Vec::new();
        }
    };
    let mut spaces = Vec::new();
    for name in names {
        let listed = db.space(&name).map_err(FilesError::from).and_then(|db| {
            let records = Records::new(db, 0);
            let sites = records.list()?;
            Ok((records, sites))
        });
        match listed {
            Ok((records, sites)) => spaces.push(Space { name, records, sites }),
            Err(error) => note(Some(name), error),
        }
    }
    spaces
}

/// Counts the chunks by reading all of the table.
fn count(dir: &Path, report: &mut SitesReport) -> Result<(), FilesError> {
    Chunks::open_to_read(&dir.join(CHUNKS))?.for_each(|_, bytes| {
        report.chunks += 1;
        report.bytes += bytes;
    })?;
    Ok(())
}

/// Notes an error of the store of chunks as a finding, once. It is an error if there may be no damage.
fn note_chunks(error: FilesError, findings: &mut Vec<SiteFinding>) -> Result<(), FilesError> {
    // A bucket that fails says nothing of what is in it.
    let is_no_damage = |error: &ChunkError| {
        error.is_of_bucket()
            || matches!(
                error,
                ChunkError::InUse { .. } | ChunkError::NewerFormat { .. } | ChunkError::NoObjectStorage { .. }
            )
    };
    if matches!(&error, FilesError::Chunks(error) if is_no_damage(error)) {
        return Err(error);
    }
    let text = error.to_string();
    let is_known =
        findings.iter().any(|known| matches!(known, SiteFinding::Chunks(known) if known.to_string() == text));
    if !is_known {
        findings.push(SiteFinding::Chunks(error));
    }
    Ok(())
}
