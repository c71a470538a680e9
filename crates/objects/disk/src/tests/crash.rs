//! Crashes and errors at every operation of a short run: whatever was promised before is there after.

use crate::tests::node::{Node, Promises, Stopped};
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use vfs::memory::{Dice, Fault, Memory};

/// Opens, works, closes; ends at the first thing that fails.
fn run(files: &Memory, promises: &mut Promises, rounds: u64) -> Result<(), String> {
    let node = Node::open(files, promises).map_err(|error| error.to_string())?;
    node.work(promises, rounds).and_then(|()| node.close()).map_err(|Stopped(why)| why)
}

/// Everything that was promised is there, and the store can continue: twice, so that what recovery did is recovered
/// too.
fn check(files: &Memory, promises: &Promises, case: &str) {
    let mut promises = promises.clone();
    for _ in 0..2 {
        run(files, &mut promises, 1).unwrap_or_else(|why| panic!("{why}\n{case}"));
    }
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_promised() {
    let files = Memory::default();
    run(&files, &mut Promises::default(), 5).unwrap();
    let operations = files.operations();
    assert!(operations > 100, "{operations} operations");
    for at in 0..operations {
        let (files, mut promises) = (Memory::default(), Promises::default());
        files.plan(Some(Fault::Crash(at)));
        let _ = run(&files, &mut promises, 5);
        for seed in 0..4 {
            check(
                &files.after_power_failure(&mut Dice(at << 8 | seed)),
                &promises,
                &format!("crash at {at}, seed {seed}"),
            );
        }
        check(&files.after_kill(), &promises, &format!("killed at {at}"));
    }
}

#[test]
fn a_crash_at_any_operation_of_recovery_loses_nothing() {
    let (files, mut promises) = (Memory::default(), Promises::default());
    let node = Node::open(&files, &mut promises).unwrap();
    node.work(&mut promises, 4).unwrap_or_else(|_| panic!("works"));
    // A crash in the middle of a flush, which leaves a torn tail.
    files.plan(Some(Fault::Crash(1)));
    let _ = node.append(&mut promises, 3);
    drop(node);
    for seed in 0..6 {
        let torn = files.after_power_failure(&mut Dice(seed));
        let twin = torn.after_kill();
        run(&twin, &mut promises.clone(), 1).unwrap();
        for at in 0..twin.operations() {
            let (files, mut promises) = (torn.after_kill(), promises.clone());
            files.plan(Some(Fault::Crash(at)));
            let _ = run(&files, &mut promises, 1);
            check(&files.after_power_failure(&mut Dice(at)), &promises, &format!("seed {seed}, crash at {at}"));
        }
    }
}

#[test]
fn an_error_at_any_operation_loses_nothing_that_was_promised() {
    let files = Memory::default();
    run(&files, &mut Promises::default(), 4).unwrap();
    for at in 0..files.operations() {
        for errno in [Errno::NOSPC, Errno::MFILE, Errno::NOMEM, Errno::IO] {
            let (files, mut promises) = (Memory::default(), Promises::default());
            files.plan(Some(Fault::Error(at, errno, 0)));
            let _ = run(&files, &mut promises, 4);
            let case = format!("{errno:?} at {at}");
            check(&files.after_kill(), &promises, &case);
            check(&files.after_power_failure(&mut Dice(at)), &promises, &case);
        }
    }
}

/// On whichever thread: of the disk's own, or of the flush leader. The waiting thread learns of it, and nothing is
/// promised afterwards.
#[test]
fn a_panic_at_any_operation_ends_the_disk_and_loses_nothing_that_was_promised() {
    let files = Memory::default();
    run(&files, &mut Promises::default(), 4).unwrap();
    for at in 0..files.operations() {
        let (files, mut promises) = (Memory::default(), Promises::default());
        files.plan(Some(Fault::Panic(at)));
        // A store is opened on a thread of its own.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(run(&files, &mut promises, 4))));
        assert!(files.operations() > at, "it has come to that");
        let case = format!("panic at {at}");
        check(&files.after_kill(), &promises, &case);
        check(&files.after_power_failure(&mut Dice(at)), &promises, &case);
    }
}

#[test]
fn records_that_a_restart_has_found_survive_a_power_failure_after_it() {
    let files = Memory::default();
    run(&files, &mut Promises::default(), 3).unwrap();
    for at in 0..files.operations() {
        let (files, mut promises) = (Memory::default(), Promises::default());
        files.plan(Some(Fault::Error(at, Errno::IO, 0)));
        let _ = run(&files, &mut promises, 3);
        // The restart finds what the failed sync has left in memory, and from then on it counts as promised.
        let restarted = files.after_kill();
        let node = Node::open(&restarted, &mut promises);
        let node = node.unwrap_or_else(|error| panic!("{error}"));
        check(&restarted.after_power_failure(&mut Dice(at)), &promises, &format!("error at {at}"));
        drop(node);
    }
}
