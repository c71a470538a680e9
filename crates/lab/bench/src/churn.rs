//! Objects that are created and deleted without end: they cost the pages of those that exist at a time, and not of all
//! that ever did.

use crate::{Line, Place, Result};
use fixtures::Process;
use machine::Cell;
use objects::{Anywhere, Db, Ref};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The objects that one round creates, and deletes again: a large one, and small ones.
const LARGE_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 100;
const SMALL_COUNT: usize = 1000;

const ROUNDS: u64 = 2000;

/// The rounds after which the store should have found its size.
const EARLY_ROUNDS: u64 = 20;

/// The most by which the store may grow after that.
const OVER_EARLY_MAX: f64 = 1.1;

/// How long the store may take to say how it stands.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The room that a store takes.
struct Size {
    /// Pages that were ever granted. The home knows each for ever, and each that is not used again takes its bytes.
    pages: u64,
    /// The store's files, in MiB.
    files_mib: f64,
}

pub(crate) fn measure(place: &Place, progress: &dyn Fn(&str)) -> Result<Line> {
    let server = place.serve("store")?;
    let db = Db::connect(server.address())?;
    let size = || -> Result<Size> {
        Ok(Size {
            pages: pages(&server)?,
            files_mib: files_bytes(&place.dir.join("store"))? as f64 / f64::from(1 << 20),
        })
    };
    let start = Instant::now();
    progress("find the size");
    (0..EARLY_ROUNDS).try_for_each(|number| round(&db, number))?;
    let early = size()?;
    progress("create and delete");
    (EARLY_ROUNDS..ROUNDS).try_for_each(|number| round(&db, number))?;
    let last = size()?;
    let over_early = last.pages as f64 / early.pages as f64;
    let line = Line::new("churn")
        .count("rounds", ROUNDS)
        .figure("seconds", start.elapsed().as_secs_f64())
        .count("early_pages", early.pages)
        .count("pages", last.pages)
        .figure("early_files_mib", early.files_mib)
        .figure("files_mib", last.files_mib)
        .figure("over_early", over_early)
        .flag("met", over_early <= OVER_EARLY_MAX);
    Ok(line)
}

/// Creates everything in one transaction and deletes it in the next.
fn round(db: &Db, number: u64) -> Result<()> {
    let (large, small) = (vec![number as u8; LARGE_BYTES], vec![number as u8; SMALL_BYTES]);
    let created: Vec<Ref<Vec<u8>>> = db.transact(|tx| {
        let mut created = vec![tx.create(Anywhere, &large)?];
        for _ in 0..SMALL_COUNT {
            created.push(tx.create(Anywhere, &small)?);
        }
        Ok(created)
    })?;
    Ok(db.transact(|tx| created.iter().try_for_each(|&object| tx.delete(object)))?)
}

/// How many pages the store has, by its own words.
fn pages(server: &Process) -> Result<u64> {
    let status = net::ask_status(&server.address().to_string(), ANSWER_WITHIN)?;
    let table = status.tables.iter().find(|table| table.name == "store");
    let cell = table.and_then(|table| {
        let column = table.columns.iter().position(|column| column == "pages")?;
        table.rows.first()?.get(column)
    });
    match cell {
        Some(&Cell::Count(pages)) => Ok(pages),
        other => Err(format!("expected the store to say how many pages it has, got {other:?}").into()),
    }
}

/// The size of all files of a directory on the disk, in bytes.
fn files_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { files_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
