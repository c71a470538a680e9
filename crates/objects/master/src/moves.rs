//! A shard moves to another node: its master lists its pages and has them copied, and closes it; the other node's
//! master takes the copies into its page home.
//!
//! ```text
//!   old master    serves ............................ closing ---- closed     what is prepared is decided,
//!                   | list, copy | list, copy | ...      |            |       and written back
//!   new master      install        install               |      list, copy, install: all of it, as of the close
//! ```
//! 1. Pages are copied as they are in the page home. The old master writes the shard back at once while it moves, so
//!    that little is left to copy when it closes.
//! 2. A list names everything that was written back since the list before. It returns the count through which the shard
//!    was written back: pages that are written back later have higher versions.
//! 3. A shard is closed in order (**CleanClose**), so its next opening asks no log.
//! 4. A transaction that comes while its shard is about to close, or has yet to open here, holds nothing: its
//!    coordinator keeps it until a master serves the shard (`coordinator::peers`).
//! 5. Until it is opened here, nothing is served from the copies. A copy takes the place of an older one, and of what
//!    was set aside when an older one could not be read.

use crate::Master;
use crate::images::Waiter;
use crate::leases::EarlierLeases;
use crate::outputs::{HomeImage, Output};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use messages::{CommitRequest, CopiedPage, Elsewhere, Held, NotCopied, Openings};
use types::{NodeId, ObjectPage, Opening, PageId, Rule, Shard, Version};

/// Shards that move.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The shards of this node that move: they are written back at once.
    leaving: BTreeSet<Shard>,
    /// The shards of other nodes that move here.
    arriving: BTreeSet<Shard>,
    /// Whether they may have something that is not written back.
    may_be_dirty: bool,
    /// Copies that wait for the page home.
    copies: VecDeque<HomeImage>,
    bytes: usize,
}

impl Moves {
    /// Whether the shard is written back without delay.
    pub(crate) fn is_leaving(&self, shard: Shard) -> bool {
        self.leaving.contains(&shard)
    }

    /// Whether the shard moves, to this node or from it.
    pub(crate) fn has(&self, shard: Shard) -> bool {
        self.leaving.contains(&shard) || self.arriving.contains(&shard)
    }

    /// Something was applied in this shard.
    pub(crate) fn has_applied(&mut self, shard: Shard) {
        self.may_be_dirty |= self.is_leaving(shard);
    }

    /// Whether copies wait for the page home.
    pub(crate) fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Takes copies for a batch: up to this many bytes, or one page.
    pub(crate) fn take_batch(&mut self, bytes_max: usize) -> Vec<HomeImage> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(copy) = self.copies.front()
            && (bytes == 0 || bytes + copy.image.len() <= bytes_max)
        {
            bytes += copy.image.len();
            batch.extend(self.copies.pop_front());
        }
        self.bytes -= bytes;
        batch
    }

    /// There was no room for a batch: it comes first the next time.
    pub(crate) fn put_back(&mut self, batch: Vec<HomeImage>) {
        for copy in batch.into_iter().rev() {
            self.bytes += copy.image.len();
            self.copies.push_front(copy);
        }
    }
}

impl Master {
    /// These shards of the node move, and no others: one that was about to close and does not move is served as before.
    pub fn set_leaving(&mut self, leaving: BTreeSet<Shard>) {
        let ends: Vec<_> = self.shards.closing().filter(|shard| !leaving.contains(shard)).collect();
        for shard in ends {
            self.keep_shard(shard);
        }
        self.moves.may_be_dirty = !leaving.is_empty();
        self.moves.leaving = leaving;
    }

    /// These shards of other nodes move here, and no others.
    pub fn set_arriving(&mut self, arriving: BTreeSet<Shard>) {
        self.moves.arriving = arriving;
    }

    /// Whether a part of a transaction that cannot be judged now can be once its shards have moved.
    pub(crate) fn awaits_move(&self, openings: &Openings) -> bool {
        openings.iter().all(|&(shard, opening)| self.shards.judges(shard, opening) || self.moves.has(shard))
    }

    /// Whether a shard that moves has something that is not written back.
    pub(crate) fn has_leaving_pages(&mut self) -> bool {
        self.moves.may_be_dirty = self.moves.may_be_dirty && self.leaving_pages().next().is_some();
        self.moves.may_be_dirty
    }

    /// The pages that wait for write-back of shards that move, those with the oldest deltas first.
    pub(crate) fn leaving_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.pages.mob().oldest_pages().filter(|page| self.moves.is_leaving(self.config.sharding.of(*page)))
    }

    /// The pages of a shard whose home version is above this one, and the count through which the shard is written
    /// back: what is written back later has a higher version.
    pub fn list_pages(&self, shard: Shard, above: Version) -> (Vec<Held>, Version) {
        let pages = self.pages.home_versions(shard).filter(|held| held.version > above).collect();
        (pages, self.pages.home_through().of(shard))
    }

    /// Another node wants copies of pages. Each has an answer of its own.
    pub fn copy_pages(&mut self, to: NodeId, pages: Vec<PageId>) {
        let mut missing = Vec::new();
        for page in pages {
            if !self.copy_page(to, page) {
                missing.push((page, Waiter::Copy(to)));
            }
        }
        self.pages.read(missing, &mut self.out);
    }

    /// Sends a copy, or a refusal if the page is damaged. Returns false if the image must be read first.
    pub(crate) fn copy_page(&mut self, to: NodeId, page: PageId) -> bool {
        if let Some(why) = self.pages.damage(page) {
            self.out.push(Output::NotCopied(to, NotCopied { page, why: Some(String::from(why)) }));
            return true;
        }
        let Some(image) = self.pages.home_image(page) else { return false };
        let (version, image) = (self.pages.home_version(page), image.image().clone());
        self.out.push(Output::Copied(to, CopiedPage { page, version, image }));
        true
    }

    /// A shard is about to close: nothing more is prepared there, and those that wait are asked for again when it has
    /// moved.
    pub fn close_shard(&mut self, shard: Shard) {
        self.shards.set_closing(shard, true);
        let sharding = self.config.sharding;
        let touches = |request: &CommitRequest| request.pages().any(|page| sharding.of(page) == shard);
        for ticket in self.take_waiting(|ticket| ticket.writes() && touches(&ticket.request)) {
            self.is_moving(&ticket);
        }
    }

    /// A shard that was about to close is served as before.
    pub fn keep_shard(&mut self, shard: Shard) {
        if self.shards.closes(shard) {
            self.shards.set_closing(shard, false);
            self.out.push(Output::Serving(shard));
        }
    }

    /// The nodes that coordinate what is prepared in a shard.
    pub fn coordinators_in(&self, shard: Shard) -> BTreeSet<NodeId> {
        self.pages.prepared_in(shard).map(|prepared| prepared.coordinator).collect()
    }

    /// Closes a shard for good, if it is about to close, nothing is prepared there, and everything is written back.
    /// Returns the opening in which it was served, and the count at which it is closed.
    pub fn end_shard(&mut self, shard: Shard) -> Option<(Opening, Version)> {
        let has_prepared = self.pages.prepared_in(shard).next().is_some();
        let must_wait = has_prepared && !self.config.broken.is(Rule::CleanClose);
        if !self.shards.closes(shard) || must_wait || (self.has_leaving_pages() && self.pages.is_dirty(shard)) {
            return None;
        }
        let opening = self.shards.remove(shard)?;
        Some((opening, self.pages.applied().of(shard)))
    }

    /// Another node has the shard. Only the pages in the page home remain here.
    pub fn forget_shard(&mut self, shard: Shard) {
        self.shards.remove(shard);
        self.pages.forget_shard(shard);
        let sharding = self.config.sharding;
        self.grants.end_grants(|page| sharding.of(page) == shard);
        for (session, page, number) in self.fetches.take_at_least(|page| sharding.of(page) == shard) {
            self.answer(session, Elsewhere { page, number });
        }
        self.fetches.has_applied();
    }

    /// Whether the page home lacks this version of a page.
    pub fn lacks(&self, held: Held) -> bool {
        self.pages.home_version(held.page) < held.version
    }

    /// Takes a copy of a page of a shard that is not served here.
    ///
    /// # Errors
    /// If the image is malformed, or its shard is served here.
    pub fn take_copy(&mut self, copied: CopiedPage) -> Result<(), String> {
        let CopiedPage { page, version, image } = copied;
        if self.shards.serves(self.config.sharding.of(page)) {
            return Err(alloc::format!("page {page} is served here"));
        }
        ObjectPage::parse(image.clone()).map_err(|error| alloc::format!("page {page}: {error}"))?;
        self.moves.bytes += image.len();
        self.moves.copies.push_back(HomeImage { page, version, image });
        Ok(())
    }

    /// How many copies are not in the page home yet.
    pub fn copies_waiting(&self) -> usize {
        self.moves.copies.len() + self.writeback.copies_installing()
    }

    /// The bytes of those that nothing was done about yet.
    pub fn copy_bytes_waiting(&self) -> usize {
        self.moves.bytes
    }

    /// Copies are in the page home.
    pub(crate) fn copies_are_home(&mut self, copies: &[HomeImage]) {
        for copy in copies {
            self.pages.copied(copy);
            self.grants.granted_below(copy.page.space, copy.page.number.saturating_add(1));
        }
    }

    /// Leases of the last master of a shard may last.
    pub fn outlast(&mut self, leases: EarlierLeases) {
        self.earlier.join(leases);
    }

    /// A shard has moved here. All pages of its space below `next` were granted by the master before; those that
    /// nothing is in are granted again as they are come upon. Returns whether more pages exist than was known here.
    pub fn granted_before(&mut self, space: u32, next: u32) -> bool {
        let is_more = self.grants.granted_below(space, next);
        if self.unclaimed.is_none() {
            self.grants.give_back_unclaimed();
        }
        is_more
    }
}
