//! Repairs of blocks that a scrub found damaged, by the process that has the volume attached.
//!
//! ```text
//!   block at home    <-- a clean block of the cache with the checksum that home keeps, as a write like any other
//!   clean block      <-- dropped: it is read from home
//!   write in the log <-- a holder's copy, in memory, until it is home (`compare.rs`)
//!   holder's copy    <-- the log: everything is written back, and the copy is not needed any more
//! ```
//! 1. A block at home is restored only from bytes with the checksum that home keeps of its last write, and only while
//!    it is not dirty: the write-back of a newer write repairs it.
//! 2. The owner numbers the repair as it does a client's write, under the lock under which it sees that the block has
//!    not been written. So the repair is written back behind older writes and before newer ones.
//! 3. A repair counts when home, asked again, has what was written.

use super::operate::OperateError;
use super::read::Version;
use super::{Attached, Core};
use crate::extents::sum_of;
use crate::scrub::{AT_HOME, IN_CACHE, NO_COPY, Repair};
use machines::Declined;
use machines::messages::holder::Content;
use machines::messages::home::BlockSums;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A repair is given up when home has taken nothing for this long.
const IN_VAIN_AFTER: Duration = Duration::from_secs(10);

/// The place of a sound copy of a block, for people, and its bytes.
pub(crate) type Copy = (String, Vec<u8>);

/// A way to find a block with a checksum.
type Find<'a> = dyn Fn(u32, u32) -> Option<Copy> + 'a;

/// The names of places.
const LOG: &str = "the owner's log, which has a newer write of it";
const OWN_CACHE: &str = "the clean blocks of the cache";

/// How a repair of a block at home has begun.
enum Begun {
    /// A write is on its way home, from this place.
    Written(String),
    /// Nothing has to be done.
    Sound,
    Left(&'static str),
}

impl Attached {
    /// Repairs those of these blocks that are damaged at home or in the cache, until it is given up.
    ///
    /// # Errors
    /// Something else is under way that an operator wants, or home does not answer.
    pub fn repair(&self, blocks: &[u32], is_given_up: &dyn Fn() -> bool) -> Result<Vec<Repair>, OperateError> {
        let core = &self.core;
        self.repair_from(blocks, &|block, kept| core.clean_copy(block, kept), is_given_up)
    }

    /// Repairs blocks like [`Attached::repair`], from these copies instead of the cache's.
    ///
    /// # Errors
    /// See [`Attached::repair`].
    pub(crate) fn repair_from(
        &self,
        blocks: &[u32],
        find: &Find<'_>,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<Vec<Repair>, OperateError> {
        let _one = self.core.operated.try_lock().map_err(|_| OperateError::Busy)?;
        let mut repairs: Vec<_> = blocks.iter().filter_map(|&block| self.core.repair_clean(block)).collect();
        repairs.extend(self.core.repair_home(blocks, find, is_given_up)?);
        Ok(repairs)
    }
}

impl Core {
    /// The sums of a block at home.
    fn home_sums(&self, block: u32) -> Result<BlockSums, OperateError> {
        let sums = self.home.scrub(&(block..block + 1))?;
        Ok(sums.first().copied().unwrap_or(BlockSums { kept: 0, read: 0 }))
    }

    /// A clean block of the cache, if it has this checksum.
    fn clean_copy(&self, block: u32, kept: u32) -> Option<Copy> {
        let (slot, checksum) = self.state().clean.look(block)?;
        let bytes = self.clean.read_kept(slot, checksum)?;
        let is_it = self.state().clean.is_in(slot, block, checksum) && sum_of(&bytes) == kept;
        is_it.then(|| (OWN_CACHE.to_owned(), bytes))
    }

    /// Drops a clean block that is damaged.
    fn repair_clean(&self, block: u32) -> Option<Repair> {
        let (slot, checksum) = self.state().clean.look(block)?;
        if !self.clean.sums(slot, checksum).is_damaged() {
            return None;
        }
        let mut state = self.state();
        if state.clean.is_in(slot, block, checksum) {
            state.clean.drop_blocks(block..block + 1);
        }
        drop(state);
        Some(match self.home_sums(block) {
            Ok(sums) if !sums.is_damaged() => Repair::restored(block, IN_CACHE, "home, from where it is read"),
            Ok(_) => Repair::left(block, IN_CACHE, "home's is damaged, too"),
            Err(error) => Repair::left(block, IN_CACHE, error.to_string()),
        })
    }

    fn repair_home(
        &self,
        blocks: &[u32],
        find: &Find<'_>,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<Vec<Repair>, OperateError> {
        let (mut written, mut repairs) = (Vec::new(), Vec::new());
        for &block in blocks {
            match self.begin_repair(block, find, is_given_up)? {
                Begun::Written(from) => written.push((block, from)),
                Begun::Sound => {}
                Begun::Left(why) => repairs.push(Repair::left(block, AT_HOME, why)),
            }
        }
        if written.is_empty() {
            return Ok(repairs);
        }
        self.bring_repairs_home(is_given_up)?;
        for (block, from) in written {
            let is_damaged = self.home_sums(block)?.is_damaged();
            repairs.push(if is_damaged {
                Repair::left(block, AT_HOME, "it was written again, and is damaged again: look at home's disk")
            } else {
                Repair::restored(block, AT_HOME, from)
            });
        }
        Ok(repairs)
    }

    /// Writes everything back, unless that fails for a while: a repair holds up other commands of operators.
    pub(super) fn bring_repairs_home(&self, is_given_up: &dyn Fn() -> bool) -> Result<(), OperateError> {
        let stuck_since = Cell::new(None);
        let is_stuck = || {
            let has_error = self.state().home_error.is_some();
            let since: Option<Instant> = stuck_since.get().filter(|_| has_error);
            stuck_since.set(has_error.then(|| since.unwrap_or_else(Instant::now)));
            since.is_some_and(|since| since.elapsed() >= IN_VAIN_AFTER)
        };
        match self.bring_home(&|| is_given_up() || is_stuck()) {
            Err(OperateError::GivenUp) if !is_given_up() => {
                let why = self.state().home_error.clone();
                Err(OperateError::Stuck(why.unwrap_or_else(|| "it takes too long".to_owned())))
            }
            brought => brought,
        }
    }

    fn begin_repair(&self, block: u32, find: &Find<'_>, is_given_up: &dyn Fn() -> bool) -> Result<Begun, OperateError> {
        while !is_given_up() {
            // Before home is asked: a write that comes after this makes it another version.
            let (version, is_dirty) = {
                let state = self.state();
                (state.version(block), state.dirty.newest(block).is_some())
            };
            let sums = self.home_sums(block)?;
            if !sums.is_damaged() {
                return Ok(Begun::Sound);
            }
            if is_dirty {
                return Ok(Begun::Written(LOG.to_owned()));
            }
            let Some((from, bytes)) = find(block, sums.kept) else { return Ok(Begun::Left(NO_COPY)) };
            if self.rewrite(block, bytes, version, is_given_up)? {
                return Ok(Begun::Written(from));
            }
        }
        Err(OperateError::GivenUp)
    }

    /// Writes a block again, if it still has this version. Returns whether it was.
    fn rewrite(
        &self,
        block: u32,
        bytes: Vec<u8>,
        version: Version,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<bool, OperateError> {
        let mut is_it = true;
        let written = self.ask(is_given_up, |state, request| {
            is_it = state.version(block) == version;
            if !is_it {
                return Err(OperateError::Busy);
            }
            let content = Content::Data(bytes.into());
            self.append(state, request, block..block + 1, content, false).map_err(OperateError::Declined)
        });
        match written {
            Err(OperateError::Busy) if !is_it => Ok(false),
            Err(OperateError::Declined(Declined::NoRoom)) => {
                self.bring_repairs_home(is_given_up)?;
                Ok(false)
            }
            written => written.map(|()| true),
        }
    }
}
