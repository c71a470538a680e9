//! The contents of a volume as a whole: read for an image of it, and written for a volume that is made from one.
//!
//! A volume is filled under its first epoch, batch by batch, each durable at home before the next: one that is
//! interrupted is in no registry, so nobody ever takes it for a volume.

use crate::extents::BLOCK;
use crate::far::{Asked, FarError, FarHome};
use crate::home::{Home, HomeError, PIECE_BYTES_MAX, Piece, open_clean};
use bytes::Bytes;
use machines::messages::holder::{Epoch, Extent, FlushEpoch, Sequence, Stamp};
use machines::messages::home::{Begin, Run};
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::{fmt, io};
use vfs::random;

/// So much is read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Bytes that home is asked for at a time, and parts.
const UNDER_WAY_BYTES: usize = 8 << 20;
const STEPS_MAX: usize = 128;

/// The epoch under which a volume is filled.
const FILLED_UNDER: Epoch = Epoch(1);

/// A write to home whose session was lost is made so often.
const TRIES: u32 = 10;

/// A part of an image, behind the part before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// These bytes.
    Data(&'a [u8]),
    /// So many zeros, which take no room.
    Hole(u64),
}

/// Why an image is not whole.
#[derive(Debug)]
pub enum ImageError {
    /// Home cannot be read.
    Home(HomeError),
    /// The image cannot be written.
    Put(io::Error),
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home(error) => error.fmt(f),
            Self::Put(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Home(error) => Some(error),
            Self::Put(error) => Some(error),
        }
    }
}

/// A volume that nobody changes, as its home has it.
#[derive(Debug)]
pub struct Image {
    home: Home,
    size: u64,
}

impl Image {
    /// A home of this host, which is not attached, and to which no cache has anything to write.
    ///
    /// # Errors
    /// It is attached, or not all is there, or it cannot be read.
    pub fn of_home(path: &Path, beside: Option<&Path>) -> Result<Self, HomeError> {
        let home = open_clean(path, beside)?;
        Ok(Self { size: home.size(), home: Home::File(home) })
    }

    /// A home elsewhere, of a volume of this size: home is longer if a resize was interrupted. The caller knows that
    /// nobody writes to it in the meantime.
    pub fn of_store(home: FarHome, size: u64) -> Self {
        Self { size: size.min(home.size()), home: Home::Far(home) }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns all of it, part by part.
    ///
    /// # Errors
    /// It cannot be read, or `give` has failed.
    pub fn each_part(&self, give: &mut dyn FnMut(Part<'_>) -> io::Result<()>) -> Result<(), ImageError> {
        let (mut at, end) = (0, self.size());
        let mut under_way = UnderWay { home: &self.home, steps: VecDeque::new(), bytes: 0, buffer: Vec::new() };
        while at < end {
            let runs = self.home.runs(Extent { offset: at, len: end - at }, &|| false).map_err(ImageError::Home)?;
            for Run { len, is_hole } in runs {
                let until = at + len.min(end - at);
                if is_hole {
                    under_way.steps.push_back(Step::Hole(until - at));
                    at = until;
                }
                while at < until {
                    // Runs are of whole blocks, but for the last of a file that is not.
                    let len = (until - at).min(READ_BYTES) as usize;
                    under_way.ask((at / BLOCK as u64) as u32, len);
                    at += len as u64;
                    under_way.give_until(UNDER_WAY_BYTES, STEPS_MAX, give)?;
                }
            }
        }
        under_way.give_until(0, 0, give)
    }
}

/// A part of an image that should be given.
enum Step {
    Hole(u64),
    /// Bytes from this block on, which home may have been asked for.
    Data(u32, usize, Option<Asked>),
}

/// The next parts of an image: home is asked for many at a time, as each takes a way there and back.
struct UnderWay<'a> {
    home: &'a Home,
    steps: VecDeque<Step>,
    bytes: usize,
    buffer: Vec<u8>,
}

impl UnderWay<'_> {
    fn ask(&mut self, first: u32, len: usize) {
        let asked = self.home.ask(&(first..first + len.div_ceil(BLOCK) as u32));
        self.steps.push_back(Step::Data(first, len, asked));
        self.bytes += len;
    }

    /// Returns the first parts, until no more than this many bytes in this many steps are left.
    fn give_until(
        &mut self,
        bytes_max: usize,
        steps_max: usize,
        give: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
    ) -> Result<(), ImageError> {
        while self.bytes > bytes_max || self.steps.len() > steps_max {
            match self.steps.pop_front() {
                Some(Step::Data(first, len, asked)) => {
                    self.bytes -= len;
                    self.buffer.resize(len, 0);
                    self.home.read(first, asked, &mut self.buffer, &|| false).map_err(ImageError::Home)?;
                    give(Part::Data(&self.buffer)).map_err(ImageError::Put)?;
                }
                Some(Step::Hole(len)) => give(Part::Hole(len)).map_err(ImageError::Put)?,
                None => break,
            }
        }
        Ok(())
    }
}

/// A volume of a store that is being filled, before anybody knows of it.
#[derive(Debug)]
pub struct Filling {
    home: FarHome,
    batches: u64,
}

impl Filling {
    /// Begins to fill a volume that was made for it.
    ///
    /// # Errors
    /// Home does not take it.
    pub fn begin(home: FarHome) -> Result<Self, FarError> {
        home.fence(FILLED_UNDER, random().map_err(FarError::File)?)?;
        Ok(Self { home, batches: 0 })
    }

    /// Writes whole blocks; those that are all zeros are left alone, as they are zeros. It is durable when this
    /// returns.
    ///
    /// # Errors
    /// Home is unreachable, or full, or cannot write.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), FarError> {
        self.batches += 1;
        let through = Stamp { epoch: FILLED_UNDER, sequence: Sequence(self.batches), flush: FlushEpoch(self.batches) };
        let begin = Begin { epoch: FILLED_UNDER, through, is_joined: false };
        let first = |at: usize| ((offset + at as u64) / BLOCK as u64) as u32;
        let mut tries = 0;
        loop {
            let written = self.home.write_back(begin, &mut |put| {
                let pieces = data_in(bytes).flat_map(|run| split(&run));
                pieces
                    .into_iter()
                    .try_for_each(|run| put(Piece::Bytes(first(run.start), Bytes::copy_from_slice(&bytes[run]))))
            });
            tries += 1;
            match written {
                Err(FarError::Lost(_)) if tries < TRIES => {}
                written => return written.map(drop),
            }
        }
    }

    /// Changes its size.
    ///
    /// # Errors
    /// Why it has the one of before.
    pub fn resize(&self, size: u64) -> Result<(), FarError> {
        self.home.resize(FILLED_UNDER, size)
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.home.size()
    }

    /// The epoch behind which the registry should begin.
    pub fn epoch(&self) -> Epoch {
        FILLED_UNDER
    }

    /// Removes what there is of it.
    ///
    /// # Errors
    /// Why it stays: a file at home that is of no volume.
    pub fn remove(&self) -> Result<(), FarError> {
        self.home.remove(FILLED_UNDER)
    }
}

/// The parts of a run that are no larger than a piece may be.
fn split(run: &Range<usize>) -> Vec<Range<usize>> {
    let end = run.end;
    run.clone().step_by(PIECE_BYTES_MAX).map(|from| from..end.min(from + PIECE_BYTES_MAX)).collect()
}

/// The runs of blocks in which something is not zero.
pub fn data_in(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let blocks = || bytes.chunks(BLOCK).map(|block| block.iter().any(|byte| *byte != 0));
    let (count, mut at) = (bytes.len().div_ceil(BLOCK), 0);
    let kinds: Vec<bool> = blocks().collect();
    std::iter::from_fn(move || {
        at += kinds[at..].iter().take_while(|is_data| !**is_data).count();
        if at == count {
            return None;
        }
        let from = at;
        at += kinds[at..].iter().take_while(|is_data| **is_data).count();
        Some(from * BLOCK..(at * BLOCK).min(bytes.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_what_is_not_zero() {
        let mut bytes = vec![0; 5 * BLOCK + 7];
        assert_eq!(data_in(&bytes).count(), 0);
        for at in [0, BLOCK, 3 * BLOCK + 9, 5 * BLOCK + 6] {
            bytes[at] = 1;
        }
        let found: Vec<_> = data_in(&bytes).collect();
        assert_eq!(found, [0..2 * BLOCK, 3 * BLOCK..4 * BLOCK, 5 * BLOCK..5 * BLOCK + 7]);
        assert_eq!(data_in(&[]).count(), 0);
    }
}
