//! How far a load has come: an object that is written in the transaction of each batch, so that it says neither more
//! nor less than what is in.

use crate::Result;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use thorp::{Map, Tx};

/// The name of the map of marks in the store.
const ROOT: &str = "loads";

/// What a load is known by: the same file, by its contents, into the same collection goes on where it was interrupted.
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
    pub(super) fn new(file: &Path, collection: &str) -> Result<Self> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { key: (collection.to_owned(), name), contents: contents(file)? })
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
    tx.map(ROOT)
}

fn contents(file: &Path) -> Result<(u64, u32)> {
    let (mut file, mut buffer) = (File::open(file)?, vec![0; 1 << 20]);
    let (mut length, mut checksum) = (0, 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((length, checksum)),
            read => {
                length += read as u64;
                checksum = crc32c::crc32c_append(checksum, &buffer[..read]);
            }
        }
    }
}
