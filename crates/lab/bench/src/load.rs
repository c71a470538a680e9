//! Inserts without end: documents from several threads, against a sequential writer of as many bytes and syncs.

use crate::{Line, Place, Result};
use objects::{Anywhere, Db};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use workloads::Random;

/// A document, and the documents that one transaction inserts.
const DOCUMENT_BYTES: usize = 1024;
const DOCUMENTS_PER_COMMIT: usize = 1024;

/// The threads that insert at the same time, each with a connection of its own.
const THREADS: u64 = 4;

/// The least share of the sequential writer's rate.
const OVER_SEQUENTIAL_MIN: f64 = 0.4;

pub(crate) fn measure(place: &Place, gib: f64, progress: &dyn Fn(&str)) -> Result<Line> {
    let commit_mib = (DOCUMENT_BYTES * DOCUMENTS_PER_COMMIT) as f64 / f64::from(1 << 20);
    let commits = (gib * 1024.0 / commit_mib / THREADS as f64).ceil() as u64;
    let mib = (THREADS * commits) as f64 * commit_mib;
    progress("insert");
    let server = place.serve("store")?;
    let start = Instant::now();
    let failures = insert(server.address(), commits)?;
    let mib_per_s = mib / start.elapsed().as_secs_f64();
    progress("write");
    let start = Instant::now();
    write(&place.dir, THREADS * commits)?;
    let sequential_mib_per_s = mib / start.elapsed().as_secs_f64();
    let over_sequential = mib_per_s / sequential_mib_per_s;
    let line = Line::new("load")
        .figure("mib", mib)
        .count("commits", THREADS * commits)
        .count("failures", failures)
        .figure("mib_per_s", mib_per_s)
        .figure("sequential_mib_per_s", sequential_mib_per_s)
        .figure("over_sequential", over_sequential)
        .flag("met", failures == 0 && over_sequential >= OVER_SEQUENTIAL_MIN);
    Ok(line)
}

/// Lets all threads insert; how many of their transactions failed.
fn insert(address: SocketAddr, commits: u64) -> Result<u64> {
    let thread = |thread: u64| -> Result<u64> {
        let db = Db::connect(address)?;
        let mut document = [0; DOCUMENT_BYTES];
        let mut failures = 0;
        for commit in 0..commits {
            fill(&mut document, thread * commits + commit);
            let inserted = db.transact(|tx| {
                (0..DOCUMENTS_PER_COMMIT).try_for_each(|_| tx.create_bytes(Anywhere, &document).map(drop))
            });
            failures += u64::from(inserted.is_err());
        }
        Ok(failures)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || thread(number))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread that inserts has panicked")?).sum()
    })
}

/// Writes a file from its beginning to its end, with a sync after each transaction's documents.
fn write(dir: &Path, commits: u64) -> Result<()> {
    let path = dir.join("sequential");
    let mut file = File::create(&path)?;
    let mut bytes = vec![0; DOCUMENT_BYTES * DOCUMENTS_PER_COMMIT];
    for commit in 0..commits {
        fill(&mut bytes, commit);
        file.write_all(&bytes)?;
        file.sync_data()?;
    }
    drop(file);
    Ok(std::fs::remove_file(path)?)
}

/// Bytes that a disk that would like to compress them cannot.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut random = Random::new(seed);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]);
    }
}
