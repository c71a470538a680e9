//! How far a load has come: an object that is written in the transaction of each batch, so that it says neither more
//! nor less than what is in.

use super::input::Input;
use crate::Result;
use crate::documents::LOADS;
use serde::{Deserialize, Serialize};
use thorp::{Map, Tx};

/// The identity of a load: the same file, by its contents, into the same collection continues where it was interrupted.
#[derive(Clone, Debug)]
pub(super) struct Load {
    key: (String, String),
    contents: (u64, u32),
}

/// How far it has come.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mark {
    /// The file's length and checksum.
    contents: (u64, u32),
    /// Lines that are in.
    lines: u64,
}

type Marks = Map<(String, String), Mark>;

impl Load {
    /// The load of `file` into `collection`.
    pub(super) fn new(file: &mut Input, collection: &str) -> Result<Self> {
        Ok(Self { key: (collection.to_owned(), file.file_name()), contents: file.contents()? })
    }

    /// The length of the file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.contents.0
    }

    /// How many lines are in already.
    pub(super) fn lines(&self, tx: &mut Tx) -> thorp::Result<u64> {
        let mark = marks(tx)?.get(tx, &self.key)?.filter(|mark| mark.contents == self.contents);
        Ok(mark.map_or(0, |mark| mark.lines))
    }

    /// Notes that so many lines are in once this transaction commits.
    pub(super) fn note(&self, tx: &mut Tx, lines: u64) -> thorp::Result<()> {
        marks(tx)?.insert(tx, &self.key, &Mark { contents: self.contents, lines })?;
        Ok(())
    }

    /// Notes that it is complete: another load of the same file begins at its beginning.
    pub(super) fn complete(&self, tx: &mut Tx) -> thorp::Result<()> {
        marks(tx)?.remove(tx, &self.key)?;
        Ok(())
    }
}

fn marks(tx: &mut Tx) -> thorp::Result<Marks> {
    tx.map(LOADS)
}
