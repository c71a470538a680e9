//! Inserts without end: slowed to what write-back bears, and never refused while the disk has room.

use crate::scratch::Scratch;
use objects::{Anywhere, Db};
use std::time::Duration;

/// The bytes that the log may hold, and ten times that are inserted.
const LOG_BYTES: usize = 2 << 20;
const INSERTED_BYTES: usize = 10 * LOG_BYTES;

const THREADS: usize = 4;
const DOCUMENT_BYTES: usize = 1024;
const DOCUMENTS_PER_COMMIT: usize = 32;

#[test]
fn ten_times_what_the_log_holds_goes_in_from_several_threads() {
    let scratch = Scratch::new();
    let builder = Db::builder().log_bytes(LOG_BYTES).mob_bytes(LOG_BYTES / 4).store_cache_bytes(1 << 20);
    let db = builder.patience(Duration::from_secs(300)).open(scratch.path()).unwrap();
    let commits = INSERTED_BYTES / DOCUMENT_BYTES / DOCUMENTS_PER_COMMIT / THREADS;
    let insert = |thread: usize| {
        let mut ids = Vec::new();
        for commit in 0..commits {
            let document = vec![(thread + commit) as u8; DOCUMENT_BYTES];
            let created = db.transact(|tx| {
                (0..DOCUMENTS_PER_COMMIT).map(|_| tx.create_bytes(Anywhere, &document)).collect::<Result<Vec<_>, _>>()
            });
            ids.push(created.unwrap_or_else(|error| panic!("commit {commit} of thread {thread}: {error}")));
        }
        ids
    };
    let ids: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || insert(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    db.close().unwrap();

    let db = Db::open(scratch.path()).unwrap();
    for (thread, commits) in ids.into_iter().enumerate() {
        for (commit, created) in commits.into_iter().enumerate() {
            let read = |id| db.transact(|tx| tx.get_bytes(id)).unwrap();
            assert!(created.into_iter().all(|id| read(id).unwrap() == [(thread + commit) as u8; DOCUMENT_BYTES]));
        }
    }
}
