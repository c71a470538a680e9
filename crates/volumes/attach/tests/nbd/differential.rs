//! The same operations to this server and to nbdkit's memory plugin: contents, extents and errors have to be the same.

use crate::rig::{Folder, Random, Rig, program};
use fixtures::nbd_client::{Client, Command, Reply};
use fixtures::{MemoryDevice, Process, until};
use nbd::Address;
use nbd::numbers::flag;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const SIZE: u64 = 4 << 20;

/// A server of others that ends with the test.
fn start_nbdkit(address: &Address) -> Option<Process> {
    let Address::Unix(path) = address else { return None };
    let mut nbdkit = program("nbdkit")?;
    nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(path).args(["memory", &SIZE.to_string()]);
    let process = Process::spawn(nbdkit, "nbdkit").unwrap();
    until("nbdkit listens", || UnixStream::connect(path).is_ok());
    Some(process)
}

/// The next operation: some of them lie beyond the end, some are empty. Of two things that are wrong with one request
/// each server may find another first, so there is one at most.
fn draw<'a>(random: &mut Random, data: &'a [u8]) -> Command<'a> {
    let offset = match random.below(4) {
        0 => random.below(128) << 15,
        1 => random.below(SIZE / 512) << 9,
        2 => SIZE - random.below(100_000),
        _ => random.below(SIZE),
    };
    let len = match random.below(4) {
        0 => 1 << 15,
        1 => random.below(100_000),
        2 => random.below(200) << 9,
        _ => random.below(3),
    } as u32;
    let fua = random.below(5) == 0;
    match random.below(10) {
        0..4 => Command::Write { offset, data: &data[..len as usize], fua },
        4..6 => Command::Read { offset, len, whole: fua },
        6 => Command::Trim { offset, len: len * 2, fua },
        7 => Command::Zero { offset, len: len * 2, flags: random.below(32) as u16 & (flag::FUA | flag::FAST_ZERO) },
        8 => Command::Extents { offset, len: len * 3, one: fua },
        _ if fua => Command::Flush,
        _ => Command::Cache { offset, len },
    }
}

fn is_empty(command: &Command<'_>) -> bool {
    match command {
        Command::Write { data, .. } => data.is_empty(),
        Command::Flush => false,
        Command::Read { len, .. }
        | Command::Trim { len, .. }
        | Command::Zero { len, .. }
        | Command::Cache { len, .. }
        | Command::Extents { len, .. } => *len == 0,
    }
}

/// Extents up to the end of the range, peers of a kind as one.
fn clipped(reply: &Reply, command: &Command<'_>) -> Vec<(u32, u32)> {
    let Command::Extents { len, .. } = command else { return Vec::new() };
    let mut left = *len;
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for (len, flags) in &reply.extents {
        let len = left.min(*len);
        left -= len;
        match joined.last_mut() {
            Some(last) if last.1 == *flags => last.0 += len,
            _ if len > 0 => joined.push((len, *flags)),
            _ => {}
        }
    }
    joined
}

#[test]
fn nbdkit_says_the_same() {
    let folder = Folder::new();
    let theirs = Address::Unix(folder.path("nbdkit"));
    let Some(_nbdkit) = start_nbdkit(&theirs) else { return };
    let rig = Rig::new(Arc::new(MemoryDevice::new(SIZE)));
    let (mut theirs, mut ours) = (Client::connect(&theirs, "").unwrap(), rig.connect());
    assert!(theirs.info().structured && theirs.info().allocation);
    let mut random = Random(3);
    let data = random.bytes(200_000);
    for step in 0..3000 {
        let from = random.below(100_000) as usize;
        let command = draw(&mut random, &data[from..]);
        let (their, our) = (theirs.call(&command).unwrap(), ours.call(&command).unwrap());
        let what = || format!("step {step}: {}", format!("{command:?}").split("data").next().unwrap_or_default());
        // The specification does not say what an empty range is.
        let (our_error, their_error) =
            if is_empty(&command) { (our.error.min(1), their.error.min(1)) } else { (our.error, their.error) };
        assert_eq!(our_error, their_error, "{}: ours {}, theirs {}", what(), our.text, their.text);
        assert!(our.data == their.data, "{}", what());
        assert_eq!(clipped(&our, &command), clipped(&their, &command), "{}", what());
    }
    for offset in (0..SIZE).step_by(1 << 20) {
        let part = Command::Read { offset, len: 1 << 20, whole: false };
        assert!(theirs.call(&part).unwrap().data == ours.call(&part).unwrap().data, "at {offset}");
    }
}
