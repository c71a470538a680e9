//! Null requests: how long it takes to reach a process and to hear from it, with nothing to be done there (BuddyCache
//! section 6.3.1).
//!
//! ```text
//!   member <==== tap ====> redirector
//!     <-- Ping, Pong --> | <-- Pong, Ping -->
//! ```
//! A tap lies on a member's connection to its redirector. It hands on what they say to each other, and puts `Ping`s of
//! its own in between, which are answered as soon as they are heard. The answers to those end at the tap.

use crate::Result;
use framing::{HEADER_BYTES, Header, frames_of};
use machine::Parcel;
use messages::{CLIENT, Ping, ToServer};
use objects::Db;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The bit that marks the nonces of the tap's own pings. Members and redirectors take the time since they began, in
/// nanoseconds.
const NONCE: u64 = 1 << 63;

/// Longer than any answer takes.
const WITHIN: Duration = Duration::from_secs(10);

/// A member of a group behind a tap.
pub(crate) struct Tapped {
    pub(crate) member: Db,
    /// Where a null request to the member is put in, and where one to its redirector.
    pub(crate) to_member: End,
    pub(crate) to_redirector: End,
}

impl Tapped {
    /// Has a member connect to its redirector by way of a tap.
    pub(crate) fn connect(redirector: SocketAddr, connect: impl FnOnce(SocketAddr) -> Result<Db>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let tap = thread::spawn(move || tap(&listener, redirector));
        let member = connect(address)?;
        let [to_member, to_redirector] = tap.join().map_err(|_| "the tap panicked")??;
        Ok(Self { member, to_member, to_redirector })
    }
}

/// One side of a tap.
pub(crate) struct End {
    out: Arc<Mutex<TcpStream>>,
    /// When an answer has come.
    answers: Receiver<Instant>,
}

impl End {
    /// Does a null request; gives how long it took.
    pub(crate) fn null_request(&self) -> Result<Duration> {
        let bytes = frames_of(CLIENT, &Parcel::new(ToServer::Ping(Ping { nonce: NONCE })))
            .map_err(|error| error.to_string())?;
        let begun = Instant::now();
        self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes)?;
        Ok(self.answers.recv_timeout(WITHIN)?.saturating_duration_since(begun))
    }
}

/// Takes the member's connection, and makes the one to its redirector.
fn tap(listener: &TcpListener, redirector: SocketAddr) -> io::Result<[End; 2]> {
    let (member, _) = listener.accept()?;
    let redirector = TcpStream::connect(redirector)?;
    member.set_nodelay(true)?;
    redirector.set_nodelay(true)?;
    let out = [&member, &redirector].map(|stream| stream.try_clone().map(|stream| Arc::new(Mutex::new(stream))));
    let [to_member, to_redirector] = out;
    let (to_member, to_redirector) = (to_member?, to_redirector?);
    let (of_member, from_member) = channel();
    let (of_redirector, from_redirector) = channel();
    hand_on(member, Arc::clone(&to_redirector), of_member);
    hand_on(redirector, Arc::clone(&to_member), of_redirector);
    Ok([End { out: to_member, answers: from_member }, End { out: to_redirector, answers: from_redirector }])
}

/// Passes one direction of the connection on until it ends.
fn hand_on(mut from: TcpStream, to: Arc<Mutex<TcpStream>>, answers: Sender<Instant>) {
    thread::spawn(move || {
        // It ends with either side, and when nobody asks any more.
        while let Ok(frame) = read_frame(&mut from) {
            let is_ours = frame.is_answer();
            if is_ours && answers.send(Instant::now()).is_err()
                || !is_ours && to.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame.bytes).is_err()
            {
                break;
            }
        }
        let _ = to.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
    });
}

struct Frame {
    kind: u8,
    bytes: Vec<u8>,
}

impl Frame {
    /// Whether it answers a ping of ours.
    fn is_answer(&self) -> bool {
        CLIENT.known(self.kind).is_some_and(|kind| kind.name == "Pong")
            && self.bytes[HEADER_BYTES..] == NONCE.to_le_bytes()
    }
}

fn read_frame(from: &mut TcpStream) -> io::Result<Frame> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let parsed = Header::parse(&header).map_err(|error| io::Error::other(error.to_string()))?;
    let mut bytes = header.to_vec();
    bytes.resize(parsed.frame_bytes(), 0);
    from.read_exact(&mut bytes[HEADER_BYTES..])?;
    Ok(Frame { kind: parsed.kind, bytes })
}
