//! The way home of a takeover: a thread that does what home is called for, one call after another.

use crate::extents::BLOCK;
use crate::far::{FarError, FarHome};
use crate::home::{PIECE_BYTES_MAX, Piece};
use machines::{Content, Epoch, HostId, Record, Stamp, messages::home::Begin};
use std::io;
use std::sync::mpsc::Receiver;
use vfs::{Doing, FileError};

/// A call of home.
#[derive(Debug)]
pub(super) enum Call {
    /// The newest epoch should be told, and the revision of the registry's entry that it keeps.
    Ask,
    /// A newer epoch begins, of this host.
    Fence(Epoch, HostId),
    /// A write-back.
    Write {
        /// The epoch of the host that takes over.
        epoch: Epoch,
        /// The last write that it has a part of.
        through: Stamp,
        /// Whether it is installed whole or not at all.
        is_joined: bool,
        /// Its parts. It is given up when they end without [`Part::End`].
        parts: Receiver<Part>,
    },
}

/// A part of a write-back.
#[derive(Debug)]
pub(super) enum Part {
    /// A write: later ones go over earlier ones.
    Write(Record),
    /// That was all of it.
    End,
}

/// The outcome of a call, or how far it is.
#[derive(Debug)]
pub(super) enum Told {
    /// This is the newest epoch, and it has kept the registry's entry of this revision.
    Keeps(Epoch, u64),
    /// The epoch has begun, and everything up to here is home; home has kept the registry's entry of this revision.
    Fenced(Stamp, u64),
    /// One more write was taken.
    Took,
    /// The write-back up to here is durable.
    Durable(Stamp),
    /// A newer epoch has begun.
    Ended(Epoch),
    /// Home is not as it was when this began.
    WentBack(String),
    /// Home has not done it.
    Failed(String),
}

/// Calls home until there are no more calls. Each has a number, which comes back with its result.
pub(super) fn go_home(home: &FarHome, calls: &Receiver<(u64, Call)>, tell: &dyn Fn(u64, Told)) {
    for (number, call) in calls {
        let told = match call {
            Call::Ask => home.opened().and_then(|opened| Ok(Told::Keeps(opened.epoch, kept_revision(home)?))),
            Call::Fence(epoch, host) => {
                home.fence(epoch, host.0).and_then(|mark| Ok(Told::Fenced(mark, kept_revision(home)?)))
            }
            Call::Write { epoch, through, is_joined, parts } => {
                let begin = Begin { epoch, through, is_joined };
                write_home(home, begin, &parts, &|| tell(number, Told::Took)).map(|_| Told::Durable(through))
            }
        };
        tell(
            number,
            told.unwrap_or_else(|error| match error {
                FarError::Ended(epoch) => Told::Ended(epoch),
                error @ FarError::WentBack(..) => Told::WentBack(error.to_string()),
                error => Told::Failed(error.to_string()),
            }),
        );
    }
}

/// The revision of the registry's entry that home has kept; 0 if it has none.
fn kept_revision(home: &FarHome) -> Result<u64, FarError> {
    Ok(home.kept()?.map_or(0, |kept| kept.view.revision))
}

fn write_home(home: &FarHome, begin: Begin, parts: &Receiver<Part>, took: &dyn Fn()) -> Result<Stamp, FarError> {
    home.write_back_once(begin, &mut |put| {
        loop {
            match parts.recv() {
                Ok(Part::Write(record)) => {
                    put_record(&record, home.size(), put)?;
                    took();
                }
                Ok(Part::End) => return Ok(()),
                Err(_) => return Err(io::Error::from(io::ErrorKind::Interrupted)).doing("write", || "home".into()),
            }
        }
    })
}

/// Puts a write home, as far as the volume reaches: behind its end there are copies of before it became smaller.
fn put_record(
    record: &Record,
    size: u64,
    put: &mut dyn FnMut(Piece) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let Record { stamp, extent, content } = record;
    let end = extent.end().unwrap_or(u64::MAX).min(size);
    if !extent.offset.is_multiple_of(BLOCK as u64) || !extent.len.is_multiple_of(BLOCK as u64) {
        let what = format!("expected whole blocks, got {extent:?} for write {}.{}", stamp.epoch.0, stamp.sequence.0);
        return Err(FileError::Corrupt { file: "a holder's copy".into(), offset: extent.offset, what });
    }
    if extent.offset >= end {
        return Ok(());
    }
    let blocks = (extent.offset / BLOCK as u64) as u32..(end / BLOCK as u64) as u32;
    match content {
        Content::Trim => put(Piece::Zeros { blocks, is_hole: true }),
        Content::Zero => put(Piece::Zeros { blocks, is_hole: false }),
        Content::Data(bytes) => blocks.clone().step_by(PIECE_BYTES_MAX / BLOCK).try_for_each(|first| {
            let from = (first - blocks.start) as usize * BLOCK;
            let until = (blocks.len() * BLOCK).min(from + PIECE_BYTES_MAX);
            put(Piece::Bytes(first, bytes.slice(from..until)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::{Extent, FlushEpoch, Sequence};

    fn put(extent: Extent, content: Content, size: u64) -> Result<Vec<String>, FileError> {
        let stamp = Stamp { epoch: Epoch(1), sequence: Sequence(2), flush: FlushEpoch(3) };
        let mut pieces = Vec::new();
        put_record(&Record { stamp, extent, content }, size, &mut |piece| {
            pieces.push(match piece {
                Piece::Bytes(first, bytes) => format!("{first}+{}", bytes.len() / BLOCK),
                Piece::Zeros { blocks, is_hole } => format!("{blocks:?} {is_hole}"),
            });
            Ok(())
        })?;
        Ok(pieces)
    }

    #[test]
    fn a_copy_goes_home_as_far_as_the_volume_reaches() {
        let block = BLOCK as u64;
        let extent = |first: u64, blocks: u64| Extent { offset: first * block, len: blocks * block };
        let data = |blocks: usize| Content::Data(vec![1; blocks * BLOCK].into());
        assert_eq!(put(extent(3, 2), data(2), 10 * block).unwrap(), ["3+2"]);
        assert_eq!(put(extent(3, 2), data(2), 4 * block).unwrap(), ["3+1"]);
        assert_eq!(put(extent(3, 2), data(2), 3 * block).unwrap(), [""; 0]);
        assert_eq!(put(extent(3, 1 << 40), Content::Trim, 10 * block).unwrap(), ["3..10 true"]);
        assert_eq!(put(extent(0, 600), data(600), 1 << 30).unwrap(), ["0+256", "256+256", "512+88"]);
        let torn = put(Extent { offset: 512, len: block }, data(1), 1 << 30).unwrap_err();
        assert!(torn.to_string().contains("expected whole blocks"), "{torn}");
    }
}
