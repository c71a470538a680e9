//! The records of the sites of a space. Any client of the store can read them; the process with the chunks writes them.

use crate::error::FilesError;
use crate::home::SiteHome;
use crate::record::{ROOT, Revision, SiteMap, SiteName, SiteRecord};
use objects::{Db, Map, Tx};
use spread::server_work::Settings;
use spread::{Number, SiteSettings};
use std::fmt;
use std::sync::Arc;
use tree::ChunkHash;
use vfs::random;

/// A site in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The name.
    pub name: String,
    /// The newest revision; none before the first.
    pub head: Option<Revision>,
    /// Revisions that are kept.
    pub revisions: u64,
    /// The settings.
    pub settings: Settings,
    /// When the site was created, in seconds since 1970.
    pub created_s: u64,
}

/// The records of the sites of a space.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// None for a space that is not there: it has no sites.
    db: Option<Db>,
    /// The life of the store: new revisions have it.
    life: u64,
    /// The home that changes them, at a node of a store of several.
    home: Option<SiteHome>,
    /// The node that is missed, as the server of the sites says.
    missed: Option<Missed>,
}

/// Asks why the sites cannot be reached, if the server of a node says so: the address that was asked, and the reason.
#[derive(Clone)]
pub(crate) struct Missed(pub(crate) Arc<dyn Fn() -> Option<(String, String)> + Send + Sync>);

impl fmt::Debug for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Missed")
    }
}

impl Records {
    /// The records in a database. `life` is greater than that of any process before.
    pub(crate) fn new(db: Db, life: u64) -> Self {
        Self { db: Some(db), life, home: None, missed: None }
    }

    /// The records of a space in a store of several nodes, as the home of its sites changes them.
    pub(crate) fn of_home(db: Db, home: Option<SiteHome>) -> Self {
        Self { db: Some(db), life: 0, home, missed: None }
    }

    /// The records of a space at a server, which may not be there yet.
    pub(crate) fn at_server(db: Option<Db>) -> Self {
        Self { db, life: 0, home: None, missed: None }
    }

    /// Returns these records with errors that name the node that is missed.
    pub(crate) fn naming(self, missed: Missed) -> Self {
        Self { missed: Some(missed), ..self }
    }

    /// The error of a transaction.
    fn failed(&self, error: objects::Error) -> FilesError {
        let missed = self.missed.as_ref().and_then(|Missed(ask)| ask());
        missed.map_or_else(|| error.into(), |(address, why)| FilesError::Server(address, why))
    }

    /// The space of a site.
    fn space(&self, site: &SiteName) -> Result<&Db, FilesError> {
        self.db.as_ref().ok_or_else(|| FilesError::NoSite(site.to_string()))
    }

    /// Runs a transaction on the record of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub(crate) fn with<T>(
        &self,
        site: &SiteName,
        run: impl Fn(&mut Tx, SiteRecord) -> objects::Result<T>,
    ) -> Result<T, FilesError> {
        let found = self.space(site)?.transact(|tx| {
            if !self.are_here(tx)? {
                return Ok(Err(FilesError::OtherHome));
            }
            let sites = tx.find_map::<String, SiteRecord>(ROOT)?;
            let record = sites.map_or(Ok(None), |sites| sites.get(tx, site.as_str()))?;
            Ok(Ok(record.map(|record| run(tx, record)).transpose()?))
        });
        found.map_err(|error| self.failed(error))??.ok_or_else(|| FilesError::NoSite(site.to_string()))
    }

    /// Whether the home of the sites is this one (rule OneHome).
    fn are_here(&self, tx: &mut Tx) -> objects::Result<bool> {
        self.home.map_or(Ok(true), |home| home.is_home(tx))
    }

    /// The newest revision of a site; none before its first.
    pub(crate) fn head(&self, site: &SiteName) -> Result<Option<Revision>, FilesError> {
        self.with(site, |tx, record| record.revisions.get(tx, &record.head))
    }

    /// A revision of a site.
    pub(crate) fn revision(&self, site: &SiteName, number: u64) -> Result<Revision, FilesError> {
        let revision = self.with(site, |tx, record| record.revisions.get(tx, &number))?;
        revision.ok_or_else(|| FilesError::NoRevision(site.to_string(), number))
    }

    /// The revisions of a site that are kept, the newest first.
    pub(crate) fn log(&self, site: &SiteName) -> Result<Vec<Revision>, FilesError> {
        self.with(site, |tx, record| revisions(tx, record.revisions))
    }

    /// All sites, by name.
    pub(crate) fn list(&self) -> Result<Vec<Summary>, FilesError> {
        let Some(db) = &self.db else { return Ok(Vec::new()) };
        let all = sites_of(db, |tx, name, record| {
            let (settings, created_s) = (record.settings(), record.created_s);
            let kept = revisions(tx, record.revisions)?;
            let revisions = kept.len() as u64;
            Ok(Summary { name, head: kept.into_iter().next(), revisions, settings, created_s })
        });
        all.map_err(|error| self.failed(error))
    }

    /// The trees of all kept revisions of all sites, in every space.
    pub(crate) fn all_roots(&self) -> Result<Vec<ChunkHash>, FilesError> {
        let Some(db) = &self.db else { return Ok(Vec::new()) };
        let roots = all_sites(db, |tx, _, _, record| {
            Ok(revisions(tx, record.revisions)?.iter().map(Revision::root).collect::<Vec<_>>())
        });
        Ok(roots?.concat())
    }

    /// Makes a revision the head, if the head is still `base`. A site that is not there is created.
    pub(crate) fn switch(
        &self,
        site: &SiteName,
        base: Option<&Revision>,
        revision: impl Fn(Number) -> Revision,
    ) -> Result<Revision, FilesError> {
        let (key, base) = (draw_key()?, base.map_or(0, |base| base.number));
        let switched = self.space(site)?.transact(|tx| {
            let sites: SiteMap = tx.map(ROOT)?;
            let mut record = match sites.get(tx, site.as_str())? {
                Some(record) => record,
                None => SiteRecord::create(tx, SiteSettings::default(), key)?,
            };
            if record.head != base {
                return Ok(Err(record.head));
            }
            let life = record.revisions.get(tx, &record.head)?.map_or(0, |head| head.life);
            let revision = revision(Number { life: self.life.max(life), count: record.head + 1 });
            record.switch(tx, &revision)?;
            record.drop_older(tx)?;
            sites.insert(tx, site.as_str(), &record)?;
            Ok(Ok(revision))
        })?;
        switched.map_err(|head| FilesError::Overtaken { site: site.to_string(), base, head })
    }

    /// Makes a revision of another store the head, as it is there, if the head is still `base`.
    pub(crate) fn adopt(
        &self,
        site: &SiteName,
        base: Option<&Revision>,
        revision: &Revision,
    ) -> Result<(), FilesError> {
        let base = base.map_or(0, |base| base.number);
        let adopted = self.with(site, |tx, mut record| {
            if record.head != base {
                return Ok(Err(record.head));
            }
            record.switch(tx, revision)?;
            record.drop_older(tx)?;
            let sites: SiteMap = tx.map(ROOT)?;
            sites.insert(tx, site.as_str(), &record)?;
            Ok(Ok(()))
        })?;
        adopted.map_err(|head| FilesError::Overtaken { site: site.to_string(), base, head })
    }

    /// Keeps these revisions of a site and no others. The newest of them becomes the head.
    pub(crate) fn retain(&self, site: &SiteName, numbers: &[u64]) -> Result<(), FilesError> {
        self.with(site, |tx, mut record| {
            for revision in revisions(tx, record.revisions)? {
                if !numbers.contains(&revision.number) {
                    record.revisions.remove(tx, &revision.number)?;
                }
            }
            record.head = numbers.iter().max().copied().unwrap_or(0);
            let sites: SiteMap = tx.map(ROOT)?;
            sites.insert(tx, site.as_str(), &record)?;
            Ok(())
        })
    }

    /// Sets the key that signs the cookies of visitors.
    pub(crate) fn set_visitor_key(&self, site: &SiteName, visitor_key: [u8; 32]) -> Result<(), FilesError> {
        self.with(site, |tx, record| {
            let sites: SiteMap = tx.map(ROOT)?;
            sites.insert(tx, site.as_str(), &SiteRecord { visitor_key, ..record })?;
            Ok(())
        })
    }

    /// Creates a site without a revision.
    pub(crate) fn create(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        let key = draw_key()?;
        self.space(site)?.transact(|tx| {
            if !self.are_here(tx)? {
                return Ok(Err(FilesError::OtherHome));
            }
            let sites: SiteMap = tx.map(ROOT)?;
            if sites.contains_key(tx, site.as_str())? {
                return Ok(Err(FilesError::IsThere(site.to_string())));
            }
            let record = SiteRecord::create(tx, settings, key)?;
            sites.insert(tx, site.as_str(), &record)?;
            Ok(Ok(()))
        })?
    }

    /// Changes settings.
    pub(crate) fn set(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.with(site, |tx, record| {
            let sites: SiteMap = tx.map(ROOT)?;
            let mut record = record;
            record.set(settings);
            sites.insert(tx, site.as_str(), &record)?;
            Ok(())
        })
    }

    /// Removes a site with all its revisions. Its chunks stay until a collection.
    pub(crate) fn remove(&self, site: &SiteName) -> Result<(), FilesError> {
        self.with(site, |tx, record| {
            let sites: SiteMap = tx.map(ROOT)?;
            sites.remove(tx, site.as_str())?;
            record.revisions.clear(tx)?;
            tx.delete(record.revisions.root())?;
            Ok(())
        })
    }
}

/// A key of random bits.
pub(crate) fn draw_key() -> Result<[u8; 32], FilesError> {
    let mut key = [0; 32];
    for part in key.chunks_exact_mut(8) {
        part.copy_from_slice(&draw()?.to_le_bytes());
    }
    Ok(key)
}

/// A random number.
pub(crate) fn draw() -> Result<u64, FilesError> {
    random().map_err(|error| FilesError::NoRandom(error.to_string()))
}

/// The revisions of a site that are kept, the newest first.
pub(crate) fn revisions(tx: &mut Tx, map: Map<u64, Revision>) -> objects::Result<Vec<Revision>> {
    let (mut all, mut cursor) = (Vec::new(), map.iter());
    while let Some((_, revision)) = cursor.next(tx)? {
        all.push(revision);
    }
    all.reverse();
    Ok(all)
}

/// Reads the sites of all spaces, each by its space and name.
pub(crate) fn all_sites<T>(
    db: &Db,
    read: impl Fn(&mut Tx, &str, String, SiteRecord) -> objects::Result<T>,
) -> Result<Vec<T>, FilesError> {
    let mut all = Vec::new();
    for space in db.spaces()?.into_iter().filter(|space| !space.is_of_registry()) {
        all.extend(sites_of(&db.space(&space.name)?, |tx, name, record| read(tx, &space.name, name, record))?);
    }
    Ok(all)
}

/// Reads the sites of a space, by name.
fn sites_of<T>(
    space: &Db,
    read: impl Fn(&mut Tx, String, SiteRecord) -> objects::Result<T>,
) -> objects::Result<Vec<T>> {
    space.transact(|tx| sites_in(tx, &read))
}

/// Reads the sites of the transaction's space, by name.
pub(crate) fn sites_in<T>(
    tx: &mut Tx,
    read: impl Fn(&mut Tx, String, SiteRecord) -> objects::Result<T>,
) -> objects::Result<Vec<T>> {
    let Some(sites) = tx.find_map::<String, SiteRecord>(ROOT)? else { return Ok(Vec::new()) };
    let (mut all, mut cursor) = (Vec::new(), sites.iter());
    while let Some((name, record)) = cursor.next(tx)? {
        all.push(read(tx, name, record)?);
    }
    Ok(all)
}
