//! The records of sites as a file server needs them: all of them at its start, and one at each publish.

use crate::error::FilesError;
use crate::record::{Made, ROOT, Revision, SiteMap, SiteName, SiteRecord};
use crate::records::{Records, all_sites, draw_key, revisions};
use objects::{Db, Tx};
use spread::messages::{ChangeKind, Identity};
use spread::server_work::{NewRevision, NewSize, Settings, SiteChange, SiteState};
use spread::{Number, SiteKey, SiteSettings};
use std::collections::HashMap;
use types::limits::PUBLISHES_REMEMBERED;

/// The sites of all spaces.
pub(super) fn load(db: &Db) -> Result<Vec<SiteState>, FilesError> {
    all_sites(db, |tx, space, name, record| state(tx, SiteKey { space: space.to_owned(), name }, &record))
}

fn state(tx: &mut Tx, key: SiteKey, record: &SiteRecord) -> objects::Result<SiteState> {
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
    db: Db,
    spaces: HashMap<String, Db>,
}

impl Spaces {
    pub(super) fn new(db: Db) -> Self {
        Self { db, spaces: HashMap::new() }
    }

    fn space(&mut self, name: &str) -> Result<Db, FilesError> {
        if let Some(db) = self.spaces.get(name) {
            return Ok(db.clone());
        }
        let db = self.db.space(name)?;
        self.spaces.insert(name.to_owned(), db.clone());
        Ok(db)
    }

    /// Makes a revision the head, and drops others, in one transaction.
    pub(super) fn publish(&mut self, new: &NewRevision) -> Result<Settings, FilesError> {
        let site = SiteName::parse(&new.key.name)?;
        let (db, key) = (self.space(&new.key.space)?, draw_key()?);
        let Identity { publisher, number } = new.identity;
        let spread::Revision { number: of_revision, root } = new.revision;
        let publish = |tx: &mut Tx| {
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
            Ok(record.settings())
        };
        match db.transact(publish) {
            Err(objects::Error::OutcomeUnknown(_)) => Ok(db.transact(publish)?),
            published => Ok(published?),
        }
    }

    /// Drops revisions of a site.
    pub(super) fn drop_revisions(&mut self, key: &SiteKey, numbers: &[Number]) -> Result<(), FilesError> {
        let (db, site) = (self.space(&key.space)?, SiteName::parse(&key.name)?);
        Records::new(db, 0).with(&site, |tx, record| {
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
        let is_there = self.db.spaces()?.iter().any(|space| space.name == key.space);
        if change.kind != ChangeKind::Create && !is_there {
            return Err(FilesError::NoSite(site.to_string()));
        }
        let records = Records::new(self.space(&key.space)?, 0);
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
