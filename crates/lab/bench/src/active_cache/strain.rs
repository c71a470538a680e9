//! The load on a home's machine, or on the back end: computation and communication, as in section 4.1 of the paper.

use crate::{Error, Result};
use fixtures::{Process, Program};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

/// The bytes of a message, and the rounds of computation for each: some 0.2 ms.
const MESSAGE_BYTES: usize = 1024;
const ROUNDS: u64 = 200_000;

/// Pairs of busy threads. Each pair is a process, as anything else there is: where the system shares its processors
/// among sessions and not among threads (`sched_autogroup`), a pair has what a server has. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Strain {
    _pairs: Vec<Process>,
}

impl Strain {
    /// Starts them, where the calling thread may run.
    pub(super) fn start(program: &Program, pairs: u32) -> Result<Self> {
        let start = |_| {
            let mut command = program.command();
            command.args(["strain", "--json"]);
            Process::spawn(command, "a busy process")
        };
        Ok(Self { _pairs: (0..pairs).map(start).collect::<Result<_>>()? })
    }
}

/// Has two threads compute and send each other messages, of which one always computes, until the process ends.
///
/// # Errors
/// The system gives no socket or thread.
pub fn strain() -> Result<()> {
    let (mut one, other) = UnixStream::pair()?;
    one.write_all(&[1; MESSAGE_BYTES])?;
    let partner = thread::Builder::new().spawn(|| work(other))?;
    work(one)?;
    partner.join().map_err(|_| Error::from("a busy thread has panicked"))??;
    Ok(())
}

fn work(mut line: UnixStream) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        line.read_exact(&mut message)?;
        let sum = (0..ROUNDS).fold(u64::from(message[0]), |sum, round| black_box(sum.wrapping_mul(31) ^ round));
        message[0] = sum as u8;
        line.write_all(&message)?;
    }
}
