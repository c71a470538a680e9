//! Copies the revisions that are whole of a damaged store into one that was salvaged without their chunks.
//!
//! A revision is in the new store when all of its chunks are. Other revisions are dropped from the record of their
//! site, and each file that keeps a revision from being whole is named.

use super::{SiteFinding, Space, note_chunks, spaces};
use crate::depot::Depot;
use crate::error::FilesError;
use crate::local::Local;
use crate::record::{Revision, SiteName};
use crate::sites::{Damage, Transfer, is_lost};
use bytes::Bytes;
use chunks::ChunkError;
use objects::Db;
use std::collections::HashSet;
use std::path::Path as FilePath;
use tree::{ChunkHash, Malformed, Needed, Part, Path, ReadError, Source, Visitor, walk};
use vfs::FileError;

/// The outcome of a salvage of published files.
#[derive(Debug, Default)]
pub struct SalvagedSites {
    /// Sites in the new store.
    pub sites: u64,
    /// Revisions in the new store.
    pub revisions: u64,
    /// Revisions that are not: space, site and number of each.
    pub lost: Vec<(String, String, u64)>,
    /// The reasons. Each revision that is lost has its files here, unless no chunk can be read.
    pub findings: Vec<SiteFinding>,
}

/// Copies the chunks of whole revisions from the damaged store in `from` to the new one in `to`, which `db` has open
/// and which has the records of the sites. The records of other revisions are removed.
///
/// # Errors
/// A damaged store that is in use or of a newer format, and a new one that cannot be written.
pub fn salvage_sites(db: &Db, from: &FilePath, to: &FilePath) -> Result<SalvagedSites, FilesError> {
    let mut salvaged = SalvagedSites::default();
    for space in spaces(db, &mut salvaged.findings) {
        salvaged.sites += space.sites.len() as u64;
        if space.sites.iter().all(|site| site.revisions == 0) {
            continue;
        }
        let source = match Local::open_to_read(space.records.clone(), from) {
            Ok(source) => Some(source),
            Err(error) => {
                note_chunks(error, &mut salvaged.findings)?;
                None
            }
        };
        let target = Local::open(space.records.clone(), to)?;
        salvaged.space(&space, source.as_ref(), &target)?;
    }
    Ok(salvaged)
}

/// A site in the damaged store and in the new one.
struct Pair<'a> {
    space: &'a str,
    site: &'a SiteName,
    source: &'a Local,
    target: &'a Local,
}

impl SalvagedSites {
    fn space(&mut self, space: &Space, source: Option<&Local>, target: &Local) -> Result<(), FilesError> {
        for site in &space.sites {
            let name = SiteName::parse(&site.name)?;
            let mut log = match space.records.log(&name) {
                Ok(log) => log,
                Err(error) => {
                    let (space, site) = (Some(space.name.clone()), Some(site.name.clone()));
                    self.findings.push(SiteFinding::Records { space, site, error });
                    continue;
                }
            };
            log.reverse();
            let (mut whole, mut older) = (Vec::new(), None);
            for revision in &log {
                let is_whole = match source {
                    Some(source) => {
                        let pair = Pair { space: &space.name, site: &name, source, target };
                        self.revision(&pair, revision, older)?
                    }
                    None => false,
                };
                if is_whole {
                    whole.push(revision.number);
                    older = Some(revision.root());
                } else {
                    self.lost.push((space.name.clone(), site.name.clone(), revision.number));
                }
            }
            self.revisions += whole.len() as u64;
            if whole.len() < log.len() {
                space.records.retain(&name, &whole)?;
            }
        }
        Ok(())
    }

    /// Copies the chunks of a revision. Returns whether all of them are there.
    fn revision(&mut self, pair: &Pair<'_>, revision: &Revision, older: Option<ChunkHash>) -> Result<bool, FilesError> {
        let &Pair { space, site, source, target } = pair;
        let transfer = Transfer { from: source, to: target, site, repairs: false };
        let error = match transfer.revision(site, revision, older, &mut |_| Ok(())) {
            Ok(()) => return Ok(true),
            Err(error @ (FilesError::NotWhole { .. } | FilesError::Chunks(_))) => error,
            Err(error) => return Err(error),
        };
        let found = |damage| SiteFinding::Chunk { space: space.to_owned(), site: site.to_string(), damage };
        let mut lost = Vec::new();
        let named = lost_files(source, target, revision, &mut |damage| lost.push(found(damage)));
        let is_named = named.is_ok() && !lost.is_empty();
        self.findings.extend(lost);
        match named.err().unwrap_or(error) {
            _ if is_named => {}
            // The table of the chunks cannot be read in some place.
            FilesError::Chunks(error) if is_of(&error, source) => note_chunks(error.into(), &mut self.findings)?,
            error => return Err(error),
        }
        Ok(false)
    }
}

/// Whether an error is one of the damaged store's chunks, and not of the new store.
fn is_of(error: &ChunkError, source: &Local) -> bool {
    let file = match error {
        ChunkError::File(FileError::Io { file, .. } | FileError::Corrupt { file, .. }) => file,
        ChunkError::Damaged { path, .. } => path,
        ChunkError::Stopped { dir } => dir,
        _ => return false,
    };
    source.directory().is_some_and(|dir| file.starts_with(dir))
}

/// Reports each file and directory of a revision that cannot be read as a whole.
fn lost_files(
    source: &Local,
    target: &Local,
    revision: &Revision,
    report: &mut dyn FnMut(Damage),
) -> Result<(), FilesError> {
    let mut losses = Losses { source, target, revision: revision.number, whole: HashSet::new(), named: None, report };
    walk(revision.root(), &mut losses)
}

struct Losses<'a> {
    source: &'a Local,
    target: &'a Local,
    revision: u64,
    /// Content that was read.
    whole: HashSet<ChunkHash>,
    /// The file or directory that was named last.
    named: Option<Path>,
    report: &'a mut dyn FnMut(Damage),
}

impl Losses<'_> {
    fn lost(&mut self, part: Part, path: &Path, error: FilesError) {
        if self.named.as_ref() != Some(path) {
            (self.report)(Damage { revision: self.revision, path: path.clone(), part, error });
            self.named = Some(path.clone());
        }
    }
}

impl Visitor for Losses<'_> {
    type Error = FilesError;

    fn chunk(&mut self, Needed { hash, part, path }: Needed<'_>) -> Result<Option<Bytes>, FilesError> {
        let is_piece = part == Part::Piece;
        // The new store has compared what it has with its name.
        if is_piece && (self.whole.contains(&hash) || self.target.missing(&[hash])?.is_empty()) {
            return Ok(None);
        }
        match Source::chunk(self.source, &hash) {
            Ok(bytes) => {
                if is_piece {
                    self.whole.insert(hash);
                }
                Ok(Some(bytes))
            }
            Err(error) if is_lost(&error) => {
                self.lost(part, path, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn malformed(&mut self, Needed { hash, part, path }: Needed<'_>, why: Malformed) -> Result<(), FilesError> {
        self.lost(part, path, ReadError::<FilesError>::Malformed(hash, why).into());
        Ok(())
    }
}
