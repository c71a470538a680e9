//! One connection: its socket, its two sides, and how it ends.

use crate::transport::counters::Counters;
use crate::transport::poller::{Readiness, SocketId};
use crate::transport::receiver::{Ended, Heard, Receiver, Receiving, Why};
use crate::transport::sender::Sender;
use crate::transport::socket::Socket;
use crate::transport::watched::Watched;
use framing::{Codec, Preface, WireError};
use machine::Goodbye;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::Interest;
use types::GoodbyeReason;

/// How long an ended connection is kept for its last words to arrive, and how much is read in the meantime.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    receiver: Receiver,
    counters: Arc<Counters>,
    /// Everything that was sent has left, as was awaited, and nobody has asked since.
    has_room: AtomicBool,
}

impl Connection {
    /// A connection at this end of a link, which begins with this preface, and where it tells why it has ended.
    pub(crate) fn new(
        socket: Socket,
        codec: &'static dyn Codec,
        preface: &Preface,
        counters: Arc<Counters>,
    ) -> (Arc<Self>, Why) {
        let (receiver, why) = Receiver::new(codec);
        let sender = Sender::new(socket, codec, preface, Arc::clone(&counters));
        (Arc::new(Self { sender, receiver, counters, has_room: AtomicBool::new(false) }), why)
    }

    pub(crate) fn socket(&self) -> &Socket {
        self.sender.socket()
    }

    /// Its number at the poller that watches it; none if a task does.
    pub(crate) fn id(&self) -> Option<SocketId> {
        self.socket().id()
    }

    /// The address of this end.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket().local_address()
    }

    /// The sending side.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Something has happened to the socket; if it has room, [`Connection::go_on`] was called before. Returns whether
    /// there is something to receive.
    pub(crate) fn told(&self, readiness: Readiness) -> bool {
        self.receiver.told(readiness)
    }

    /// The socket has room: continues with what could not be sent.
    pub(crate) fn go_on(&self) {
        self.has_room.fetch_or(self.sender.go_on(), Relaxed);
    }

    /// Whether something has arrived that was not received.
    pub(crate) fn is_waiting(&self) -> bool {
        self.receiver.is_waiting()
    }

    /// Whether nothing more is received.
    pub(crate) fn is_over(&self) -> bool {
        self.receiver.is_over()
    }

    /// Nothing more is received from now on.
    pub(crate) fn end_receiving(&self) {
        self.receiver.end();
    }

    /// Receives what has arrived, unless there is nothing, or another thread is at it. Everything goes to `said`,
    /// which says why no more are wanted, if that is so.
    pub(crate) fn receive(&self, buffer: &mut [u8], said: impl FnMut(Heard) -> Option<Ended>) -> Option<Receiving<'_>> {
        self.receiver.receive(self.socket(), &self.counters, buffer, said)
    }

    /// Whether the peer has shown since the last call that it lives.
    pub(crate) fn take_sign_of_life(&self) -> bool {
        self.receiver.take_sign_of_life()
    }

    /// Whether what was sent has left since the last call, as was awaited, on a thread that was notified of room.
    pub(crate) fn take_room(&self) -> bool {
        self.has_room.swap(false, Relaxed)
    }

    /// Ends the connection: tells the peer why, if it is this end that ends it, and lets that arrive.
    pub(crate) async fn finish(&self, ended: Ended) {
        match ended {
            Ended::Lost(_) => self.sender.abandon(),
            Ended::Here => self.linger().await,
            Ended::Malformed(error) => {
                let is_version = matches!(error, WireError::Protocol { .. });
                let reason = if is_version { GoodbyeReason::Protocol } else { GoodbyeReason::Malformed };
                self.refuse(error.name(), reason, error.to_string()).await;
            }
            Ended::Refused(name, reason, text) => self.refuse(name, reason, text).await,
        }
    }

    async fn refuse(&self, name: &'static str, reason: GoodbyeReason, text: String) {
        self.counters.refused(name);
        self.sender.end(Goodbye { reason, text });
        self.linger().await;
    }

    /// Lets the last words of an ended connection arrive: to close a socket with unread bytes in it takes back what was
    /// just sent.
    async fn linger(&self) {
        let Ok(socket) = self.socket().try_clone().and_then(Watched::new) else { return };
        let drain = async {
            let (mut buffer, mut left) = ([0; 4096], LINGER_BYTES_MAX);
            while poll_fn(|cx| socket.poll_read_ready(cx)).await.is_ok() {
                match socket.try_io(Interest::READABLE, || self.socket().read(&mut buffer)) {
                    Ok(bytes @ 1..) if left > bytes => left -= bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return,
                }
            }
        };
        // Either the peer has closed its side, or it had its time.
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}
