//! The home of an attached volume, which is here or elsewhere.

use super::error::HomeError;
use super::file::FileHome;
use super::pieces::Pieces;
use crate::extents::{BLOCK, Blocks};
use crate::far::{Asked, FarHome};
use machines::messages::holder::{Epoch, Extent};
use machines::messages::home::{Begin, BlockSums, Run};
use machines::{HomeState, WriteBack};
use std::path::Path;

/// The home of an attached volume.
#[derive(Debug)]
pub(crate) enum Home {
    /// A file or a device of this host.
    File(FileHome),
    /// In another process.
    Far(FarHome),
}

impl Home {
    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::File(home) => home.size(),
            Self::Far(home) => home.size(),
        }
    }

    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::File(home) => home.path().display().to_string(),
            Self::Far(home) => home.address().to_owned(),
        }
    }

    /// Which volume it is, for those who may mean another one: the number of one of a store, the path of one of this
    /// host.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::File(_) => self.place(),
            Self::Far(home) => format!("{:016x}", home.volume().0),
        }
    }

    /// Changes its size, durably; one elsewhere may be given up, which may do it all the same.
    pub(crate) fn resize(&self, epoch: Epoch, size: u64, is_given_up: &dyn Fn() -> bool) -> Result<(), HomeError> {
        match self {
            Self::File(home) => home.resize(size),
            Self::Far(home) => Ok(home.resize_unless(epoch, size, is_given_up)?),
        }
    }

    /// Makes another file with what a home of this host has; `None` if it is elsewhere, which does that itself.
    pub(crate) fn share(&self, to: &Path) -> Option<Result<(), HomeError>> {
        match self {
            Self::File(home) => Some(home.share(to)),
            Self::Far(_) => None,
        }
    }

    /// Begins to read whole blocks, where that takes a way there and back: the answers to many come together.
    pub(crate) fn ask(&self, blocks: &Blocks) -> Option<Asked> {
        match self {
            Self::File(_) => None,
            Self::Far(home) => Some(home.ask(blocks.start, blocks.len())),
        }
    }

    /// Reads whole blocks, some of which may have been asked for before. Home is waited for, unless they are unwanted.
    pub(crate) fn read(
        &self,
        first: u32,
        asked: Option<Asked>,
        into: &mut [u8],
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<(), HomeError> {
        match (self, asked) {
            (Self::File(home), _) => Ok(home.read(first, into)?),
            (Self::Far(home), Some(asked)) => Ok(home.answer(asked, into, is_unwanted)?),
            (Self::Far(home), None) => Ok(home.read_unless(first, into, is_unwanted)?),
        }
    }

    /// The number of its volume; of one of this host 0 if it never was attached.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::File(home) => home.ownership().volume,
            Self::Far(home) => home.volume().0,
        }
    }

    /// The checksums of blocks, as they are kept and as they are read now: no more of them than home tells at a time.
    pub(crate) fn scrub(&self, blocks: &Blocks) -> Result<Vec<BlockSums>, HomeError> {
        match self {
            Self::File(home) => Ok(home.scrub(blocks)?),
            Self::Far(home) => {
                let extent =
                    Extent { offset: u64::from(blocks.start) * BLOCK as u64, len: blocks.len() as u64 * BLOCK as u64 };
                Ok(home.scrub(extent)?)
            }
        }
    }

    /// The runs of data and holes from the begin of an extent on: some of them, one at least.
    /// Home is waited for, unless the runs are unwanted.
    pub(crate) fn runs(&self, extent: Extent, is_unwanted: &dyn Fn() -> bool) -> Result<Vec<Run>, HomeError> {
        match self {
            Self::File(home) => Ok(home.runs(extent)?),
            Self::Far(home) => Ok(home.runs_unless(extent, is_unwanted)?),
        }
    }

    /// Writes; it is durable when this returns. Of what is not joined a crash may leave any part.
    pub(crate) fn install(
        &self,
        epoch: Epoch,
        back: WriteBack,
        is_joined: bool,
        pieces: Pieces<'_>,
    ) -> Result<(), HomeError> {
        match self {
            Self::File(home) => Ok(home.install(back.through, is_joined, pieces)?),
            Self::Far(home) => {
                home.write_back(Begin { epoch, through: back.through, is_joined }, pieces)?;
                Ok(())
            }
        }
    }

    /// Its volume, and its state as it was learned last.
    pub(crate) fn known(&self) -> Option<(u64, HomeState)> {
        match self {
            Self::File(home) => Some((home.ownership().volume, home.state())),
            Self::Far(home) => home.known().map(|state| (home.volume().0, state)),
        }
    }

    /// Why nothing can be done with it any more, if it is not as it was left. The file of this host is locked while it
    /// is attached.
    pub(crate) fn went_back(&self) -> Option<HomeError> {
        match self {
            Self::File(_) => None,
            Self::Far(home) => home.went_back().map(HomeError::from),
        }
    }

    /// Nobody wants anything of it any more: nothing waits for a home elsewhere from now on.
    pub(crate) fn close(&self) {
        match self {
            Self::File(_) => {}
            Self::Far(home) => home.close(),
        }
    }

    /// The cache which it is attached with should be no part of it any more, whatever that has.
    pub(crate) fn forget_cache(&self) -> Result<(), HomeError> {
        match self {
            Self::File(home) => Ok(home.forget_cache()?),
            // Its mark says what that lacks.
            Self::Far(_) => Ok(()),
        }
    }

    /// The cache which it is attached with has nothing that is not here.
    pub(crate) fn release(&self) -> Result<(), HomeError> {
        match self {
            Self::File(home) => Ok(home.release()?),
            // Its mark says so.
            Self::Far(_) => Ok(()),
        }
    }
}
