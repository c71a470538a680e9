//! The control socket: programs in the lab change its lines and heal them. `docs/lab.md` is what users read.
//!
//! ```text
//!   > cut 1          < done          from and to site 1 nothing passes, also not what is under way
//!   > cut 1 up       < done          nothing passes from site 1; `down`: nothing passes to it
//!   > loss 1 2.5     < done          of 1000 packets from or to site 1, 25 are lost
//!   > rate 1 10      < done          10 Mbit/s go from site 1, and as much to it
//!   > heal 1         < done          its line is as it was made
//!   > anything else  < error: what was said, and what would have been understood
//! ```
//! One thread serves a few connections, each with a line's worth of memory. A connection that sends too long a line, or
//! does not read its answers, is closed.

use super::network::{Change, Direction, Place};
use super::options::{LOSS_PERCENT, MBIT_S};
use super::relay::Shared;
use super::worker::Worker;
use crate::Result;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::ops::RangeInclusive;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Connections at a time; further ones wait for one of them to end.
const CONNECTIONS_MAX: usize = 16;

/// The longest line, with its end.
const LINE_BYTES_MAX: usize = 128;

/// Starts to listen at this path.
pub(super) fn start(path: &Path, network: Shared) -> Result<Worker> {
    let cannot = |error| format!("lab: cannot listen at {}: {error}", path.display());
    let listener = UnixListener::bind(path).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    Worker::start("control", move |stop| {
        if let Err(error) = serve(&stop, &listener, &network) {
            eprintln!("lab: the control socket has ended: {error}");
        }
    })
}

fn serve(stop: &PipeReader, listener: &UnixListener, network: &Shared) -> io::Result<()> {
    let mut connections: Vec<Connection> = Vec::new();
    while wait(stop, listener, &connections)? {
        // Each is asked, whether or not it was what woke this thread: they are few, and none of them waits.
        connections.retain_mut(|connection| connection.receive(network));
        while connections.len() < CONNECTIONS_MAX
            && let Some(connection) = Connection::accept(listener)?
        {
            connections.push(connection);
        }
    }
    Ok(())
}

/// Waits until somebody wants something. Returns whether to continue.
fn wait(stop: &PipeReader, listener: &UnixListener, connections: &[Connection]) -> io::Result<bool> {
    let mut sources = vec![PollFd::new(stop, PollFlags::IN)];
    sources.extend(connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)));
    if connections.len() < CONNECTIONS_MAX {
        sources.push(PollFd::new(listener, PollFlags::IN));
    }
    match poll(&mut sources, None) {
        Ok(_) => Ok(sources[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

struct Connection {
    stream: UnixStream,
    /// The bytes of a line that is not at its end.
    line: Vec<u8>,
}

impl Connection {
    fn accept(listener: &UnixListener) -> io::Result<Option<Self>> {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(Self { stream, line: Vec::new() }))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Does what it is told. Returns whether there may be more.
    fn receive(&mut self, network: &Shared) -> bool {
        let mut buffer = [0; LINE_BYTES_MAX];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => buffer[..length].iter().all(|&byte| self.take(byte, network)),
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn take(&mut self, byte: u8, network: &Shared) -> bool {
        if byte == b'\n' {
            let line = std::mem::take(&mut self.line);
            return self.say(&answer(&String::from_utf8_lossy(&line), network));
        }
        self.line.push(byte);
        if self.line.len() < LINE_BYTES_MAX {
            return true;
        }
        self.say(&format!("error: a line has at most {LINE_BYTES_MAX} bytes"));
        false
    }

    fn say(&mut self, answer: &str) -> bool {
        self.stream.write_all(format!("{answer}\n").as_bytes()).is_ok()
    }
}

fn answer(line: &str, network: &Shared) -> String {
    let mut network = network.lock();
    match understand(line, network.sites()) {
        Some((site, change)) => {
            network.change(site, change);
            "done".to_owned()
        }
        None => format!("error: `{line}`: understood are {ORDERS}; N is from 1 to {}", network.sites()),
    }
}

/// The orders that are understood, for the answer to any other.
const ORDERS: &str = "`cut N`, `cut N up`, `cut N down`, `loss N PERCENT`, `rate N MBIT_S`, `heal N`";

/// The site, counted from 1, and what becomes of its line.
fn understand(line: &str, sites: usize) -> Option<(Place, Change)> {
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let number = |word: &str, range: &RangeInclusive<f64>| word.parse().ok().filter(|number| range.contains(number));
    let (&order, site, rest) = (words.first()?, words.get(1)?, &words[2..]);
    let site = site.parse().ok().filter(|site| (1..=sites).contains(site))?;
    let change = match (order, rest) {
        ("cut", []) => Change::Cut(None),
        ("cut", ["up"]) => Change::Cut(Some(Direction::Up)),
        ("cut", ["down"]) => Change::Cut(Some(Direction::Down)),
        ("loss", [percent]) => Change::Loss(number(percent, &LOSS_PERCENT)?),
        ("rate", [mbit_s]) => Change::Rate(number(mbit_s, &MBIT_S)? * 1e6),
        ("heal", []) => Change::Heal,
        _ => return None,
    };
    Some((site, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_is_understood() {
        assert_eq!(understand("cut 1", 2), Some((1, Change::Cut(None))));
        assert_eq!(understand("cut 2 up", 2), Some((2, Change::Cut(Some(Direction::Up)))));
        assert_eq!(understand("cut 2 down", 2), Some((2, Change::Cut(Some(Direction::Down)))));
        assert_eq!(understand("loss 1 2.5", 2), Some((1, Change::Loss(2.5))));
        assert_eq!(understand("rate 1 10", 2), Some((1, Change::Rate(10e6))));
        assert_eq!(understand("heal 2\r", 2), Some((2, Change::Heal)));
        let nonsense = [
            "",
            "cut",
            "cut 0",
            "cut 3",
            "cut -1",
            "cut 1 2",
            "Cut 1",
            "cut 1 up down",
            "loss 1",
            "loss 1 -1",
            "loss 1 101",
            "loss 1 NaN",
            "rate 1 0",
            "rate 1 inf",
            "heal 1 up",
            "cut 99999999999999999999",
            "stop 1",
        ];
        for line in nonsense {
            assert_eq!(understand(line, 2), None, "{line}");
        }
    }

    #[test]
    fn the_orders_of_the_documents_are_understood() {
        let text = std::fs::read_to_string(crate::root().join("docs/lab.md")).unwrap();
        let orders: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|row| row.0).collect();
        let orders: Vec<&str> = orders.into_iter().filter(|order| order.contains(" N")).collect();
        assert_eq!(orders.iter().map(|order| format!("`{order}`")).collect::<Vec<_>>().join(", "), ORDERS);
        for order in orders {
            let line = order.replace(" N", " 1").replace("PERCENT", "0.5").replace("MBIT_S", "0.5");
            assert!(understand(&line, 1).is_some(), "{line}");
        }
    }
}
