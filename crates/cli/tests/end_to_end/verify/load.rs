//! Readers and writers of a site whose server keeps responses of its own, and the check of what the readers are shown.

use crate::web::PATIENCE;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::scope;
use std::time::Instant;

/// The items of the site. Each has a writer of its own.
pub(super) const ITEMS: usize = 2;

const READERS: usize = 3;

/// So many of each have been seen when a load ends.
const HITS: u64 = 200;
const UPDATES: u64 = 40;

/// A page as a reader was shown it: its item's value, and whether the server had it.
pub(super) struct Shown {
    pub(super) value: u64,
    pub(super) is_hit: bool,
}

/// Reads and writes until enough has been seen. No page lacks an update that its writer had been told is done when the
/// page was asked for.
pub(super) fn check(read: impl Fn(usize) -> Shown + Sync, write: impl Fn(usize, u64) + Sync) {
    let done: [AtomicU64; ITEMS] = Default::default();
    let (hits, updates, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    scope(|threads| {
        for (item, done) in done.iter().enumerate() {
            let (write, updates, is_over) = (&write, &updates, &is_over);
            threads.spawn(move || {
                for value in 1.. {
                    if is_over.load(SeqCst) {
                        return;
                    }
                    write(item, value);
                    done.store(value, SeqCst);
                    updates.fetch_add(1, SeqCst);
                    // Readers should find pages that are good for a while.
                    std::thread::sleep(std::time::Duration::from_millis(value % 13));
                }
            });
        }
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (read, done, hits, updates, is_over) = (&read, &done, &hits, &updates, &is_over);
                threads.spawn(move || {
                    for number in reader.. {
                        if is_over.load(SeqCst) {
                            return None;
                        }
                        let item = number % ITEMS;
                        let floor = done[item].load(SeqCst);
                        let shown = read(item);
                        let is_enough = hits.load(SeqCst) >= HITS && updates.load(SeqCst) >= UPDATES;
                        let why = if shown.value < floor {
                            Some(format!("item {item} is shown with {}, and {floor} was done", shown.value))
                        } else if begun.elapsed() > PATIENCE {
                            Some(format!("{hits:?} hits, {updates:?} updates"))
                        } else {
                            None
                        };
                        hits.fetch_add(shown.is_hit.into(), SeqCst);
                        if why.is_some() || is_enough {
                            is_over.store(true, SeqCst);
                            return why;
                        }
                    }
                    None
                })
            })
            .collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), None);
        }
    });
}
