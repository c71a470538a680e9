//! A process that is killed while it puts and sweeps, on the real disk.

use super::{Temporary, assert_has, chunk, large};
use crate::{Chunks, Condition};
use bytes::Bytes;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tree::ChunkHash;

const DIRECTORY: &str = "CHUNKS_TEST_DIRECTORY";
const ROUNDS: u64 = 3;
/// The batches that a process puts before it is killed.
const ACKNOWLEDGED: u64 = 4;

fn batch(number: u64) -> Vec<(ChunkHash, Bytes)> {
    (0..4).flat_map(|at| [large(number * 100 + at), chunk(500, number * 100 + at)]).collect()
}

/// The process: puts batches until it is killed, and prints the number of each that is durable.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let store = Chunks::open(Path::new(&dir)).unwrap();
    let begin = store.size().unwrap().0;
    for number in 0.. {
        store.put(&batch(begin * 1000 + number)).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nput {}", begin * 1000 + number).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let dir = Temporary::new("kill");
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["tests::kill::child", "--exact", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("put ")?.parse::<u64>().ok());
        let mut put = 0;
        for number in numbers {
            acknowledged.push(number);
            put += 1;
            if put == ACKNOWLEDGED + round {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(put >= ACKNOWLEDGED, "round {round}: the process ended by itself");
        let store = Chunks::open(dir.path()).unwrap();
        for number in &acknowledged {
            assert_has(&store, &batch(*number), &format!("round {round}, batch {number}"));
        }
        store.verify(|hash, condition| assert_eq!(condition, Condition::Whole, "{hash}")).unwrap();
    }
}
