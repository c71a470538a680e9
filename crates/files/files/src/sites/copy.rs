//! Copies: the revisions of a site in another store, as a backup or from one.
//!
//! ```text
//!   list the source --> hold a revision --> descend: ask the copy, fetch what it lacks --> switch --> the next one
//! ```
//! A revision is in the copy when all of its chunks are, so an interrupted copy has whole revisions only, and the next
//! one finds the chunks that have arrived.

mod transfer;

pub(crate) use transfer::{Transfer, is_lost};

use super::Sites;
use crate::depot::NewTree;
use crate::error::FilesError;
use crate::record::{Revision, SiteName};
use std::ops::ControlFlow;

/// The settings of a copy.
#[derive(Clone, Debug)]
pub struct SiteCopy {
    /// The name of the site in the other store.
    pub name: SiteName,
    /// The only revision to copy. The default is every revision that is kept, the oldest first.
    pub revision: Option<u64>,
    /// Whether the chunks of the other store are read, also those of revisions that it has, and damaged ones are
    /// written again.
    pub repair: bool,
}

/// The progress of a copy, and its outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Revisions that the other store has got.
    pub revisions: u64,
    /// The newest revision there, by its number there.
    pub head: Option<u64>,
    /// Revisions that were removed from the source before they were read.
    pub gone: u64,
    /// Chunks that were transferred: those that the other store lacked or, to be repaired, all.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Sites {
    /// Copies the revisions of a site to another store, where the site is created if it is not there. Those behind the
    /// newest one there are copied; each is complete there before the next one begins. `on` is called behind each
    /// chunk, and may end the copy before the switch.
    ///
    /// In a directory, revisions keep their numbers and times. A server gives them numbers of its own.
    ///
    /// # Errors
    /// [`FilesError::Diverged`], [`FilesError::NotWhole`] for a revision that cannot be read, and those of both stores.
    /// Revisions that were copied before stay.
    pub fn copy(
        &self,
        site: &SiteName,
        to: &Self,
        settings: &SiteCopy,
        on: &mut dyn FnMut(&Copied) -> ControlFlow<()>,
    ) -> Result<Copied, FilesError> {
        let log = self.oldest_first(site, settings.revision)?;
        let there = self.destination(site, to, &settings.name)?;
        let copied = Copied { head: there.last().map(|head| head.number), ..Copied::default() };
        let mut copier = Copier { from: self, site, to, settings, there, copied, on };
        if settings.repair {
            copier.repair(&log)?;
        }
        let mut left = copier.left(log)?;
        while !left.is_empty() {
            let mut is_newest_there = true;
            for revision in &left {
                is_newest_there = copier.copy(revision)?;
            }
            if is_newest_there {
                break;
            }
            // A publisher was faster: the source has dropped what it had listed, and has newer ones.
            left = copier.left(self.oldest_first(site, settings.revision)?)?;
        }
        Ok(copier.copied)
    }

    /// The revisions to copy, as the source has them.
    fn oldest_first(&self, site: &SiteName, only: Option<u64>) -> Result<Vec<Revision>, FilesError> {
        if let Some(number) = only {
            return Ok(vec![self.revision(site, number)?]);
        }
        let mut log = self.log(site)?;
        log.reverse();
        Ok(log)
    }

    /// The revisions that the other store has, the oldest first. A site that is not there is created as this one is.
    fn destination(&self, site: &SiteName, to: &Self, name: &SiteName) -> Result<Vec<Revision>, FilesError> {
        let there = match to.oldest_first(name, None) {
            Err(FilesError::NoSite(_)) => {
                to.create(name, self.settings(site)?.into())?;
                Vec::new()
            }
            there => there?,
        };
        // Visitors of a restored site keep their sessions, and so the order of what they see.
        if there.is_empty() && to.keeps_numbers() && site == name {
            to.records.set_visitor_key(name, self.visitor_key(site)?)?;
        }
        Ok(there)
    }

    /// Whether a copy here has the numbers of its source. A server counts by itself.
    fn keeps_numbers(&self) -> bool {
        self.directory().is_some()
    }
}

/// A copy under way.
struct Copier<'a> {
    from: &'a Sites,
    site: &'a SiteName,
    to: &'a Sites,
    settings: &'a SiteCopy,
    /// The revisions that the other store has, the oldest first.
    there: Vec<Revision>,
    copied: Copied,
    on: &'a mut dyn FnMut(&Copied) -> ControlFlow<()>,
}

impl Copier<'_> {
    /// The revisions that the other store lacks: those behind its newest one.
    fn left(&self, mut log: Vec<Revision>) -> Result<Vec<Revision>, FilesError> {
        let (Some(head), Some(newest)) = (self.there.last(), log.last()) else { return Ok(log) };
        if !self.to.keeps_numbers() {
            let same = log.iter().rposition(|it| it.root() == head.root());
            return Ok(log.split_off(same.map_or(0, |at| at + 1)));
        }
        let diverged =
            || FilesError::Diverged { site: self.settings.name.to_string(), head: head.number, newest: newest.number };
        let same = log.iter().find(|it| it.number == head.number);
        if same.is_some_and(|same| same.root() != head.root())
            || newest.number < head.number && newest.root() != head.root()
        {
            return Err(diverged());
        }
        let at = log.partition_point(|it| it.number <= head.number);
        // The later one of two stores may have begun with an older copy: its numbers follow in another order.
        if log.get(at).is_some_and(|next| next.full_number() <= head.full_number()) {
            return Err(diverged());
        }
        Ok(log.split_off(at))
    }

    /// Copies a revision. Returns whether the source still had it.
    fn copy(&mut self, revision: &Revision) -> Result<bool, FilesError> {
        let to = self.to;
        let _publishing = to.depot.begin();
        let older = self.there.last().map(Revision::root);
        if !self.transfer(revision, older)? {
            self.copied.gone += 1;
            return Ok(false);
        }
        if (self.on)(&self.copied).is_break() {
            return Err(FilesError::Interrupted);
        }
        self.switch(revision)?;
        Ok(true)
    }

    /// Holds a revision and transfers its chunks. Returns whether the source still had it.
    fn transfer(&mut self, revision: &Revision, older: Option<tree::ChunkHash>) -> Result<bool, FilesError> {
        let Self { from, site, to, settings: SiteCopy { name, repair, revision: only }, copied, on, .. } = self;
        let mut on = |bytes: usize| {
            copied.chunks += 1;
            copied.bytes += bytes as u64;
            if on(copied).is_break() { Err(FilesError::Interrupted) } else { Ok(()) }
        };
        let transferred = from.depot.hold(site, revision).and_then(|()| {
            let transfer = Transfer { from: &*from.depot, to: &*to.depot, site: name, repairs: *repair };
            transfer.revision(site, revision, older, &mut on)
        });
        match transferred {
            Ok(()) => Ok(true),
            Err(FilesError::NoRevision(..)) if only.is_none() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a revision whose chunks are there the newest one of the copy.
    fn switch(&mut self, revision: &Revision) -> Result<(), FilesError> {
        let (name, base) = (&self.settings.name, self.there.last());
        let made = if self.to.keeps_numbers() {
            self.to.changing(|_| self.to.records.adopt(name, base, revision))?;
            revision.clone()
        } else {
            let of = self.number_there(revision.of);
            if of.is_none() && base.is_some_and(|base| base.root() == revision.root()) {
                return Ok(());
            }
            let Revision { files, bytes, note, .. } = revision.clone();
            let (root, locks) = (revision.root(), Vec::new());
            let new = NewTree { root, of, files, bytes, note, waits: false, merges: false, locks, ends_locks: false };
            self.to.switch(name, base, new)?.revision
        };
        self.copied.revisions += 1;
        self.copied.head = Some(made.number);
        self.there.push(made);
        Ok(())
    }

    /// The number in the copy of a revision that a rollback has brought back in the source.
    fn number_there(&self, of: Option<u64>) -> Option<u64> {
        let brought_back = self.from.revision(self.site, of?).ok()?;
        self.there.iter().rfind(|it| it.root() == brought_back.root()).map(|it| it.number)
    }

    /// Writes damaged chunks of the revisions again that both have.
    fn repair(&mut self, log: &[Revision]) -> Result<(), FilesError> {
        let to = self.to;
        let _publishing = to.depot.begin();
        let is_there = |it: &&Revision| self.there.iter().any(|there| there.root() == it.root());
        for revision in log.iter().filter(is_there).cloned().collect::<Vec<_>>() {
            self.transfer(&revision, None)?;
        }
        Ok(())
    }
}
