//! The TLS handshake of a client's connection, which costs memory and processor time before the first request.
//!
//! Its time is bounded, and so is the number of those that a thread has under way: one more displaces the oldest. A
//! client that means it is through within a few round trips, so it is those that hold handshakes open who lose theirs.

use crate::limits::HANDSHAKES_MAX;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::Error;
use tokio_rustls::server::TlsStream;

/// The type of a record that begins a handshake, which is the first byte of a connection.
const HANDSHAKE_RECORD: u8 = 22;

/// The answer to a client that speaks HTTP without TLS.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 43\r\nConnection: close\r\n\r\nplain-http: this port is for https:// URLs\n";

/// Why a handshake came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The handshake took too long.
    Timeout,
    /// There were too many, and it was the oldest.
    Displaced,
    /// The client has gone.
    Closed,
    /// The client does not speak TLS.
    Plain,
    /// Client and server have no version, cipher or protocol in common.
    NothingInCommon,
    /// The client has refused, most often the certificate.
    RefusedByClient,
    /// The client has broken the protocol.
    Protocol,
}

impl HandshakeFailure {
    /// All, in the order of their counts.
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Displaced,
        Self::Closed,
        Self::Plain,
        Self::NothingInCommon,
        Self::RefusedByClient,
        Self::Protocol,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Displaced => "displaced",
            Self::Closed => "closed",
            Self::Plain => "plain-http",
            Self::NothingInCommon => "nothing-in-common",
            Self::RefusedByClient => "refused-by-client",
            Self::Protocol => "protocol",
        }
    }
}

/// The handshakes that a thread has under way.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    next: u64,
    /// By number, the oldest first. Dropping a sender displaces its handshake.
    ends: BTreeMap<u64, oneshot::Sender<Infallible>>,
}

/// The place of one of them.
struct Place<'a> {
    all: &'a Handshakes,
    number: u64,
}

impl Handshakes {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, and gives what ends when it is lost.
    fn begin(&self) -> (Place<'_>, oneshot::Receiver<Infallible>) {
        let (end, displaced) = oneshot::channel();
        let mut under_way = self.lock();
        let number = under_way.next;
        under_way.next += 1;
        if under_way.ends.len() >= HANDSHAKES_MAX {
            under_way.ends.pop_first();
        }
        under_way.ends.insert(number, end);
        (Place { all: self, number }, displaced)
    }

    /// Brings a connection's handshake to its end.
    pub(crate) async fn accept(
        &self,
        acceptor: &TlsAcceptor,
        stream: TcpStream,
        within: Duration,
    ) -> Result<TlsStream<TcpStream>, HandshakeFailure> {
        let (place, displaced) = self.begin();
        let accepted = tokio::select! {
            accepted = timeout(within, accept(acceptor, stream)) => accepted,
            _ = displaced => return Err(HandshakeFailure::Displaced),
        };
        drop(place);
        accepted.map_err(|_| HandshakeFailure::Timeout)?
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.all.lock().ends.remove(&self.number);
    }
}

async fn accept(acceptor: &TlsAcceptor, stream: TcpStream) -> Result<TlsStream<TcpStream>, HandshakeFailure> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first[0] == HANDSHAKE_RECORD => acceptor.accept(stream).await.map_err(|error| failure(&error)),
        // No request of HTTP begins with another byte.
        Ok(1) if first[0].is_ascii_uppercase() => {
            // A client that does not read it knows no less than before.
            let _ = explain(stream).await;
            Err(HandshakeFailure::Plain)
        }
        Ok(1) => Err(HandshakeFailure::Protocol),
        Ok(_) | Err(_) => Err(HandshakeFailure::Closed),
    }
}

/// Tells a client without TLS what this port is for.
async fn explain(mut stream: TcpStream) -> io::Result<()> {
    // Its request is read first: a connection that is closed with bytes unread is reset, and the answer lost.
    let _ = stream.try_read(&mut [0; 4096]);
    stream.write_all(PLAIN_ANSWER).await?;
    stream.shutdown().await
}

fn failure(error: &io::Error) -> HandshakeFailure {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(_)) => HandshakeFailure::RefusedByClient,
        Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => HandshakeFailure::NothingInCommon,
        Some(_) => HandshakeFailure::Protocol,
        None => HandshakeFailure::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_handshake_too_many_displaces_the_oldest() {
        let handshakes = Handshakes::default();
        let mut begun: Vec<_> = (0..HANDSHAKES_MAX).map(|_| handshakes.begin()).collect();
        let is_displaced = |receiver: &mut oneshot::Receiver<Infallible>| {
            matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Closed))
        };
        // A finished handshake makes room.
        drop(begun.pop());
        let _room = handshakes.begin();
        assert!(!begun.iter_mut().any(|(_, displaced)| is_displaced(displaced)));
        let _more = handshakes.begin();
        let displaced: Vec<_> = begun.iter_mut().map(|(_, displaced)| is_displaced(displaced)).collect();
        assert!(displaced[0] && !displaced[1..].contains(&true));
    }

    #[test]
    fn the_answer_without_tls_is_well_formed() {
        let text = std::str::from_utf8(PLAIN_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
