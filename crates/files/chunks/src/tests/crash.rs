//! Kills and power failures after each change of the disks: chunks of puts that returned are there, whole, and no
//! others are damaged.

use super::{Disks, ROOT, assert_has, chunk, hashes, large};
use crate::{Chunks, Condition};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use tree::ChunkHash;
use vfs::memory::{Dice, Memory};

type Batch = Vec<(ChunkHash, Bytes)>;

/// The disks at one moment, the number of batches that were durable, and whether a sweep of the first one had begun.
#[derive(Clone)]
struct Moment {
    disks: Disks,
    put: usize,
    is_sweeping: bool,
}

/// Runs `work` on new disks and returns the moments after each of their changes.
fn moments(work: impl FnOnce(&Chunks, &dyn Fn(usize, bool))) -> Vec<Moment> {
    let disks = Disks::new();
    let now = Moment { disks: disks.map(Memory::after_kill), put: 0, is_sweeping: false };
    let state = Arc::new(Mutex::new((now, Vec::new())));
    for (name, memory) in &disks.0 {
        let (state, name) = (state.clone(), name.clone());
        memory.watch(move |copy| {
            let mut state = state.lock().unwrap();
            state.0.disks.0.insert(name.clone(), copy);
            let now = state.0.clone();
            state.1.push(now);
        });
    }
    let store = disks.open().unwrap();
    work(&store, &|put, is_sweeping| {
        let mut state = state.lock().unwrap();
        (state.0.put, state.0.is_sweeping) = (put, is_sweeping);
    });
    drop(store);
    std::mem::take(&mut state.lock().unwrap().1)
}

fn check(disks: &Disks, moment: &Moment, batches: &[Batch], case: &str) {
    let store = disks.open().unwrap_or_else(|error| panic!("{case}: {error}"));
    let durable = batches.iter().enumerate().filter(|(at, _)| *at < moment.put && (*at > 0 || !moment.is_sweeping));
    for (at, batch) in durable {
        assert_has(&store, batch, &format!("{case}, batch {at}"));
    }
    store.verify(|hash, condition| assert_eq!(condition, Condition::Whole, "{case}: {hash}")).unwrap();
    assert!(disks.files().iter().all(|name| name.len() == 62), "{case}: temporary files stay");
    for batch in batches {
        store.put(batch).unwrap();
    }
    let used = hashes(&batches[1]);
    store.sweep(|hash| used.contains(hash), |_| {}).unwrap();
    assert_has(&store, &batches[1], case);
    let large = batches[1].iter().filter(|(_, bytes)| bytes.len() > crate::SMALL_BYTES_MAX).count();
    assert_eq!((store.size().unwrap().0, disks.files().len()), (batches[1].len() as u64, large), "{case}");
}

/// Asserts that a start after a kill claims no chunks that a power failure could take.
fn check_claims(disks: &Disks, chunks: &[(ChunkHash, Bytes)], case: &str) {
    let store = disks.open().unwrap();
    let missing = store.missing(&hashes(chunks)).unwrap();
    let claimed: Vec<_> = chunks.iter().filter(|(hash, _)| !missing.contains(hash)).cloned().collect();
    for seed in 0..3 {
        let mut dice = Dice(seed);
        let disks = disks.map(|disk| disk.after_power_failure(&mut dice));
        assert_has(&disks.open().unwrap(), &claimed, &format!("claimed after a kill {case}"));
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing_that_was_acknowledged() {
    let batches: [Batch; 3] = [
        vec![large(1), chunk(40_000, 2), chunk(100, 3), chunk(5000, 4)],
        vec![large(5), chunk(200, 6)],
        vec![large(7), chunk(8, 8)],
    ];
    let moments = moments(|store, acknowledge| {
        for (at, batch) in batches.iter().enumerate() {
            store.put(batch).unwrap();
            acknowledge(at + 1, false);
        }
        acknowledge(3, true);
        let gone = hashes(&batches[0]);
        store.sweep(|hash| !gone.contains(hash), |_| {}).unwrap();
    });
    assert!(moments.len() > 60, "{} moments", moments.len());
    for (at, moment) in moments.iter().enumerate() {
        let case = format!("after change {at} of {}", moments.len());
        check(&moment.disks.map(Memory::after_kill), moment, &batches, &format!("killed {case}"));
        check_claims(&moment.disks.map(Memory::after_kill), &batches.concat(), &case);
        let mut dice = Dice(at as u64);
        for _ in 0..2 {
            let disks = moment.disks.map(|disk| disk.after_power_failure(&mut dice));
            check(&disks, moment, &batches, &format!("power failed {case}"));
        }
    }
}

/// A failed sync may have lost its data: afterwards only another process can tell what is durable.
#[test]
fn a_store_whose_table_cannot_be_synced_stops() {
    use rustix::io::Errno;
    use vfs::memory::Fault;
    let batch = [large(1), chunk(100, 2)];
    let operations = {
        let disks = Disks::new();
        let store = disks.open().unwrap();
        disks.root().plan(None);
        store.put(&batch).unwrap();
        disks.root().operations()
    };
    let mut stopped = 0;
    for at in 0..operations {
        let disks = Disks::new();
        let store = disks.open().unwrap();
        let first = [large(3), chunk(100, 4)];
        store.put(&first).unwrap();
        disks.0[ROOT].plan(Some(Fault::Error(at, Errno::IO, 0)));
        let put = store.put(&batch);
        if store.is_stopped() {
            stopped += 1;
            assert!(put.is_err());
            assert_eq!(store.missing(&hashes(&batch)).unwrap_err().name(), "stopped");
            assert_eq!(store.put(&batch).unwrap_err().name(), "stopped");
        }
        drop(store);
        disks.root().plan(None);
        let mut dice = Dice(at);
        let disks = disks.map(|disk| disk.after_power_failure(&mut dice));
        let store = disks.open().unwrap();
        assert_has(&store, &first, "put before");
        if put.is_ok() {
            assert_has(&store, &batch, "acknowledged");
        }
        store.put(&batch).unwrap();
        assert_has(&store, &batch, "put again");
    }
    assert!(stopped > 1, "{stopped} of {operations}");
}
