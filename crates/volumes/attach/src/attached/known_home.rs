//! The home of a volume as its cache remembers it, from one attachment to the next (**HomeStays**).
//!
//! ```text
//!   thorp volume home
//!   format 1
//!   volume 0123456789abcdef
//!   generation fedcba9876543210
//!   epoch 0000000000000007
//!   sequence 0000000000000400
//!   flush 0000000000000009
//!   crc32c 89abcdef
//! ```
//! It is written when the volume is attached, and when it is detached. In between the log knows: it frees nothing
//! before that is home.
//!
//! For a home of one host, the sequence is a position in the cache's log.

use super::{AttachError, Core};
use crate::home::HomeError;
use crate::marker::Kind;
use machines::messages::holder::{Epoch, FlushEpoch, Sequence, Stamp};
use machines::messages::home::Opened;
use machines::{HomeState, WentBack};
use vfs::{FileError, Files};

const KNOWN: Kind =
    Kind { title: "thorp volume home", format: 1, fields: &["volume", "generation", "epoch", "sequence", "flush"] };
pub(super) const KNOWN_NAME: &str = "thorp-volume-home";

/// Home as a cache remembers it; `None` if it has none yet of this volume.
pub(super) fn read(files: &dyn Files, volume: u64) -> Result<Option<HomeState>, FileError> {
    let Some(values) = KNOWN.read(files, KNOWN_NAME)? else { return Ok(None) };
    let numbers: Option<Vec<u64>> = values.iter().map(|value| u64::from_str_radix(value, 16).ok()).collect();
    let Some(&[of, generation, epoch, sequence, flush]) = numbers.as_deref() else {
        let what = "a field has a value that was never written".to_owned();
        return Err(FileError::Corrupt { file: files.path(KNOWN_NAME), offset: 0, what });
    };
    let mark = Stamp { epoch: Epoch(epoch), sequence: Sequence(sequence), flush: FlushEpoch(flush) };
    Ok((of == volume).then_some(HomeState { generation, mark }))
}

pub(super) fn write(
    files: &dyn Files,
    volume: u64,
    HomeState { generation, mark }: HomeState,
) -> Result<(), FileError> {
    let Stamp { epoch, sequence, flush } = mark;
    let values = [volume, generation, epoch.0, sequence.0, flush.0].map(|value| format!("{value:016x}"));
    KNOWN.write(files, KNOWN_NAME, &values)
}

/// The state of a home elsewhere.
pub(super) fn of_far(opened: &Opened) -> HomeState {
    HomeState { generation: opened.generation, mark: opened.mark }
}

/// A home as it was found, beside the one that a cache remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// It has the files that were left, and everything that was known to be there.
    Same,
    /// It may have other contents than the clean blocks are of.
    Other,
    /// It lacks what it had.
    Older(WentBack),
}

impl Beside {
    /// Compares them. `floor` is what the cache's log knows to be home, if anything.
    pub(super) fn look(known: Option<HomeState>, floor: Stamp, found: HomeState) -> Self {
        let mark = known.map_or(floor, |known| known.mark.max(floor));
        let generation = known.map_or(0, |known| known.generation);
        let known = HomeState { generation, mark };
        let back = WentBack { known, found };
        match back {
            back if back.is_older() => Self::Older(back),
            _ if known.generation != found.generation => Self::Other,
            _ => Self::Same,
        }
    }

    /// Refuses an older home, unless that should be had all the same.
    pub(super) fn check(self, is_forced: bool) -> Result<(), AttachError> {
        match self {
            Self::Older(back) if !is_forced => Err(AttachError::HomeWentBack(back)),
            _ => Ok(()),
        }
    }
}

impl Core {
    /// Ends it if home is not as it was left.
    pub(super) fn check_home(&self) {
        if let Some(error) = self.home.went_back() {
            self.home_went_back(&error);
        }
    }

    /// Home is not as it was left: nothing that this host knows of it is true any more, and what is dirty is not to be
    /// written over what is there now.
    pub(super) fn home_went_back(&self, error: &HomeError) {
        let (writes, bytes) = {
            let mut state = self.state();
            if state.failed.is_some() || std::mem::replace(&mut state.has_home_gone_back, true) {
                return;
            }
            (state.dirty.len(), state.owner.dirty_bytes())
        };
        // The next start goes by home's generation, if this is in vain.
        let _ = self.clean.forget_all();
        self.fail(format!(
            "{error}. Nothing more is read or written: the clean blocks are dropped, and {writes} writes ({bytes} bytes) that \
             are not home stay in the cache and at holders. Bring back home as it was; or attach the volume again, which says \
             what is missing, with --force to go on with this home and to give up what it lacks"
        ));
    }

    /// The cache remembers home as it is left.
    pub(super) fn remember_home(&self) -> Result<(), FileError> {
        match self.home.known() {
            Some((volume, state)) => write(self.clean.directory(), volume, state),
            None => Ok(()),
        }
    }
}
