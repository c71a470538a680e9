//! How a host stands: asked in its own process, or by an operator in another.
//!
//! ```text
//!   operator                     host
//!     | Preface{wants: status} ---> |   no machine hears of the connection
//!     | <---- Preface, Status, Goodbye(done) |
//! ```
//! Anybody who reaches the host may ask, as often as he likes. So the answer is bounded, asking changes nothing, and
//! the machines are asked only once in a while, whatever comes: their locks are what everybody waits for.

use crate::host::link::Link;
use crate::sessions::host::Host;
use crate::sessions::state::{ConnectError, describe};
use crate::transport::counters::Tally;
use framing::{Answer, Inbox, NODE, OPERATOR, Preface, Wants, preface_frame};
use machine::metrics::{Column, Metrics};
use machine::{Goodbye, Hosted, Parcel, Status, Table};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Weak;
use std::time::{Duration, Instant};
use types::GoodbyeReason;

/// The connections.
pub const LINKS: Metrics<8> = Metrics {
    name: "links",
    what: "the connections of the process",
    columns: [
        Column::new("bytes_in", "total bytes", "received"),
        Column::new("bytes_out", "total bytes", "sent"),
        Column::new("messages_in", "total", "messages received"),
        Column::new("messages_out", "total", "messages sent"),
        Column::new("sessions", "total", "sessions that were opened, on either end"),
        Column::new("peers", "total", "connections with peers that were opened, on either end"),
        Column::new("flushes", "total", "flushes of the log that threads of the network led"),
        Column::new("refused", "total", "connections that were refused or ended here"),
    ],
};

/// How old an answer may be that is given again.
const FRESH: Duration = Duration::from_millis(50);

impl Host {
    /// How the machines and their links stand, and the machines beside them.
    pub fn status(&self) -> Status {
        let mut tables = self.tables();
        let beside = self.beside.get().into_iter().flatten().filter_map(Weak::upgrade);
        tables.extend(beside.flat_map(|host| host.tables()));
        tables.push(links(&self.tally()));
        Status { tables }
    }

    /// Returns a status that is at most [`FRESH`] old: for callers who may ask too often.
    pub fn recent_status(&self) -> Status {
        let mut last = self.last_status.lock();
        match &*last {
            Some((at, status)) if at.elapsed() < FRESH => status.clone(),
            _ => last.insert((Instant::now(), self.status())).1.clone(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        let status = |hosted: &mut Hosted| if hosted.is_over() { Vec::new() } else { hosted.look().status() };
        let of = |role| self.core.with_role(role, status).unwrap_or_default();
        self.core.roles().iter().flat_map(of).collect()
    }

    /// Answers an operator, and ends the connection.
    pub(super) fn tell_status(&self, link: &Link) {
        let status = self.recent_status();
        let sender = link.connection().sender();
        sender.speak(NODE);
        if let Err(reason) = sender.push(&Parcel::new(Answer::from(status))) {
            self.core.counters().refused(reason);
        }
        sender.end(Goodbye { reason: GoodbyeReason::Done, text: "that is how it stands".into() });
    }
}

fn links(tally: &Tally) -> Table {
    let Tally { bytes_in, bytes_out, messages_in, messages_out, sessions, peers, flushes, refusals } = tally;
    let counts = [
        ("bytes_in", *bytes_in),
        ("bytes_out", *bytes_out),
        ("messages_in", *messages_in),
        ("messages_out", *messages_out),
        ("sessions", *sessions),
        ("peers", *peers),
        ("flushes", *flushes),
        ("refused", refusals.values().sum()),
    ];
    LINKS.one(counts.map(|(name, count)| (name, count.into())))
}

/// Asks the store or redirector at an address how it stands. It has this long for the answer.
pub fn ask_status(address: &str, within: Duration) -> Result<Status, ConnectError> {
    let deadline = Instant::now() + within;
    let no_server = |error: io::Error| ConnectError::NoServer { address: address.into(), why: describe(&error) };
    let not_thorp = |why: String| ConnectError::NotThorp { address: address.into(), why };
    let mut stream = reach(address, deadline).map_err(no_server)?;
    let answer = ask(&mut stream, deadline).map_err(|why| match why {
        NoAnswer::Malformed(error) => not_thorp(error.to_string()),
        NoAnswer::Lost => not_thorp("it closes the connection without an answer".into()),
        NoAnswer::Failed(error) if is_late(&error) => {
            let why = format!("nothing was said within {} ms", within.as_millis());
            ConnectError::Silent { address: address.into(), why }
        }
        NoAnswer::Failed(error) => ConnectError::Lost { address: address.into(), why: describe(&error) },
    });
    match answer?.open() {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(Answer::Goodbye(Goodbye { reason, text })) => {
            Err(ConnectError::Refused { address: address.into(), reason, text })
        }
        Err(other) => Err(not_thorp(format!("expected a status, got {other:?}"))),
    }
}

/// Why nobody has answered.
enum NoAnswer {
    Malformed(framing::WireError),
    Lost,
    Failed(io::Error),
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Connects to the first of the places that an address stands for.
fn reach(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut why = io::Error::new(ErrorKind::NotFound, "the name stands for no address");
    for place in address.to_socket_addrs()?.collect::<Vec<SocketAddr>>() {
        match TcpStream::connect_timeout(&place, left(deadline)) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn ask(stream: &mut TcpStream, deadline: Instant) -> Result<Parcel, NoAnswer> {
    let question = preface_frame(OPERATOR, &Preface { wants: Wants::Status, ..Preface::of(OPERATOR) });
    stream.write_all(&question).map_err(NoAnswer::Failed)?;
    let (mut inbox, mut buffer) = (Inbox::new(OPERATOR), vec![0; 64 * 1024]);
    loop {
        stream.set_read_timeout(Some(left(deadline))).map_err(NoAnswer::Failed)?;
        let bytes = match stream.read(&mut buffer) {
            Ok(0) => return Err(NoAnswer::Lost),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(NoAnswer::Failed(error)),
        };
        if let Some(message) = inbox.next(&mut &buffer[..bytes]).map_err(NoAnswer::Malformed)? {
            return Ok(message);
        }
    }
}

/// The time that is left; the system does not take zero for a time.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
