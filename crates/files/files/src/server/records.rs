//! The records of sites as a file server needs them: all of them at its start, and one at each publish.

use super::homes::Homes;
use crate::error::FilesError;
use crate::home::SiteHome;
use crate::record::{Made, ROOT, Revision, SiteMap, SiteName, SiteRecord};
use crate::records::{Records, all_sites, draw_key, revisions};
use objects::{Db, Tx};
use spread::messages::{ChangeKind, Identity};
use spread::server_work::{NewRevision, NewSize, Settings, SiteChange, SiteState};
use spread::{Number, SiteKey, SiteSettings};
use std::collections::HashMap;
use std::sync::Arc;
use types::limits::PUBLISHES_REMEMBERED;

/// The sites of all spaces.
pub(super) fn load(db: &Db) -> Result<Vec<SiteState>, FilesError> {
    all_sites(db, |tx, space, name, record| state(tx, SiteKey { space: space.to_owned(), name }, &record))
}

pub(super) fn state(tx: &mut Tx, key: SiteKey, record: &SiteRecord) -> objects::Result<SiteState> {
    let kept = revisions(tx, record.revisions)?;
    let revision = |it: &Revision| spread::Revision { number: it.full_number(), root: it.root() };
    let publishes = record.publishes.iter().filter_map(|made| {
        let of = kept.iter().find(|it| it.number == made.revision && it.life > 0)?;
        Some((Identity { publisher: made.publisher, number: made.number }, revision(of)))
    });
    let publishes = publishes.collect();
    let mut revisions: Vec<_> = kept.iter().map(revision).collect();
    revisions.sort_by_key(|it| it.number);
    Ok(SiteState { key, revisions, settings: record.settings(), publishes })
}

/// The records of a store, each space opened when it is needed.
#[derive(Debug)]
pub(super) struct Spaces {
    store: Store,
    spaces: HashMap<String, Db>,
}

/// Where the records are.
#[derive(Debug)]
enum Store {
    /// In a store of this process.
    Own(Db),
    /// In a store of several nodes.
    Several(Arc<Homes>),
}

impl Spaces {
    /// The records of a store of this process.
    pub(super) fn new(db: Db) -> Self {
        Self { store: Store::Own(db), spaces: HashMap::new() }
    }

    /// The records of a store of several nodes: those of spaces that are at home here.
    pub(super) fn of_node(homes: Arc<Homes>) -> Self {
        Self { store: Store::Several(homes), spaces: HashMap::new() }
    }

    fn db(&self) -> Result<&Db, FilesError> {
        match &self.store {
            Store::Own(db) => Ok(db),
            Store::Several(homes) => homes.db().ok_or(FilesError::OtherHome),
        }
    }

    fn space(&mut self, name: &str) -> Result<Db, FilesError> {
        if let Some(db) = self.spaces.get(name) {
            return Ok(db.clone());
        }
        let db = self.db()?.space(name)?;
        self.spaces.insert(name.to_owned(), db.clone());
        Ok(db)
    }

    /// The home with which a change of a space's records is compared (rule OneHome).
    fn home(&self, space: &str) -> Result<Option<SiteHome>, FilesError> {
        match &self.store {
            Store::Own(_) => Ok(None),
            Store::Several(homes) => homes.own_home(space).map(Some),
        }
    }

    /// Makes a revision the head, and drops others, in one transaction.
    pub(super) fn publish(&mut self, new: &NewRevision) -> Result<Settings, FilesError> {
        let site = SiteName::parse(&new.key.name)?;
        let (db, key, home) = (self.space(&new.key.space)?, draw_key()?, self.home(&new.key.space)?);
        let Identity { publisher, number } = new.identity;
        let spread::Revision { number: of_revision, root } = new.revision;
        let publish = |tx: &mut Tx| {
            if !home.map_or(Ok(true), |home| home.is_home(tx))? {
                return Ok(Err(FilesError::OtherHome));
            }
            let sites: SiteMap = tx.map(ROOT)?;
            let mut record = match sites.get(tx, site.as_str())? {
                Some(record) => record,
                None => SiteRecord::create(tx, SiteSettings::default(), key)?,
            };
            let made = Made { publisher, number, revision: of_revision.count };
            // A transaction whose outcome was unknown may have taken place.
            if !record.publishes.contains(&made) {
                let size = match new.size {
                    NewSize::Whole(size) => (size.files, size.bytes),
                    NewSize::Grown(growth) => {
                        let head = record.revisions.get(tx, &record.head)?;
                        head.map_or((0, 0), |head| head.grown(growth))
                    }
                };
                let mut revision = Revision::new(of_revision, root, new.note.clone(), size, new.of);
                // A restored store publishes its head again, and knows no more of it than the record.
                if let Some(of) = new.of.filter(|_| size == (0, 0))
                    && let Some(before) = record.revisions.get(tx, &of)?
                    && before.root() == root
                {
                    (revision.files, revision.bytes) = (before.files, before.bytes);
                }
                record.switch(tx, &revision)?;
                for number in &new.drops {
                    record.revisions.remove(tx, &number.count)?;
                }
                record.publishes.push(made);
                let extra = record.publishes.len().saturating_sub(PUBLISHES_REMEMBERED);
                record.publishes.drain(..extra);
                sites.insert(tx, site.as_str(), &record)?;
            }
            Ok(Ok(record.settings()))
        };
        match db.transact(publish) {
            Err(objects::Error::OutcomeUnknown(_)) => db.transact(publish)?,
            published => published?,
        }
    }

    /// Drops revisions of a site.
    pub(super) fn drop_revisions(&mut self, key: &SiteKey, numbers: &[Number]) -> Result<(), FilesError> {
        let (db, site) = (self.space(&key.space)?, SiteName::parse(&key.name)?);
        Records::of_home(db, self.home(&key.space)?).with(&site, |tx, record| {
            for number in numbers {
                record.revisions.remove(tx, &number.count)?;
            }
            Ok(())
        })
    }

    /// Changes a site. Returns one that was created.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::IsThere`], and the store's.
    pub(super) fn change(&mut self, key: &SiteKey, change: SiteChange) -> Result<Option<SiteState>, FilesError> {
        let site = SiteName::parse(&key.name)?;
        let is_there = self.db()?.spaces()?.iter().any(|space| space.name == key.space);
        if change.kind != ChangeKind::Create && !is_there {
            return Err(FilesError::NoSite(site.to_string()));
        }
        let records = Records::of_home(self.space(&key.space)?, self.home(&key.space)?);
        match change.kind {
            ChangeKind::Create => {
                records.create(&site, change.settings)?;
                Ok(Some(records.with(&site, |tx, record| state(tx, key.clone(), &record))?))
            }
            ChangeKind::Set => records.set(&site, change.settings).map(|()| None),
            ChangeKind::Remove => records.remove(&site).map(|()| None),
        }
    }
}
