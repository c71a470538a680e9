//! The load on the back end: computation and communication, as in section 4.1 of the paper.

use crate::Result;
use crate::web::Cores;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

/// The bytes of a message, and the rounds of computation for each: some 0.2 ms.
const MESSAGE_BYTES: usize = 1024;
const ROUNDS: u64 = 200_000;

/// Pairs of threads that compute and send each other messages, of which one always computes. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Strain {
    lines: Vec<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Strain {
    pub(super) fn start(cores: &Cores, pairs: u32) -> Result<Self> {
        cores.run_on_servers(|| {
            let mut strain = Self { lines: Vec::new(), threads: Vec::new() };
            for _ in 0..pairs {
                let (mut one, other) = UnixStream::pair()?;
                strain.lines.push(one.try_clone()?);
                one.write_all(&[1; MESSAGE_BYTES])?;
                for line in [one, other] {
                    // It ends with its line.
                    strain.threads.push(thread::spawn(|| drop(work(line))));
                }
            }
            Ok(strain)
        })
    }
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

impl Drop for Strain {
    fn drop(&mut self) {
        for line in &self.lines {
            // An error means that it has ended already.
            let _ = line.shutdown(std::net::Shutdown::Both);
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
