//! The traits that a front end implements: its part for the process, and the part that each thread has.

use crate::activity::{Overdue, UnderWay};
use crate::answered::{AnswerBody, Answered};
use crate::handshake::HandshakeFailure;
use crate::limits::Limits;
use http::{Request, Response};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use tokio::sync::mpsc::{Sender, WeakSender};

/// A front end, for the whole process.
pub trait Service: Send + Sync + 'static {
    /// The part that answers requests, one for each thread.
    type Answer: Answer;
    /// State that a thread holds as long as it serves, and that does not leave it.
    type Local;

    /// Opens the part of a thread; called there, inside its runtime.
    fn open(&self, end: ThreadEnd) -> (Self::Answer, Self::Local);

    /// The limits of a connection that begins now.
    fn limits(&self) -> Limits;

    /// Counts an event of a connection.
    fn record(&self, event: ConnectionEvent);
}

/// The part of a front end that answers the requests of a thread's connections.
pub trait Answer: Send + Sync + 'static {
    /// The body of an answer.
    type Body: AnswerBody<Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;
    /// An answer, at once or later.
    type Answering: Future<Output = Result<Response<Answered<Self::Body>>, Infallible>> + Send + 'static;

    /// Answers a request of the client at this address.
    fn answer(&self, peer: SocketAddr, under_way: UnderWay, request: Request<Incoming>) -> Self::Answering;
}

/// An event of a client's connection, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// A connection begins, behind its TLS handshake.
    Begun,
    /// A connection is closed at once: its address has as many as it may have.
    Refused,
    /// A TLS handshake failed.
    HandshakeFailed(HandshakeFailure),
    /// The server ended a connection.
    Ended(Overdue),
}

/// The end of a thread, as its part of the front end sees it.
#[derive(Clone, Debug)]
pub struct ThreadEnd(WeakSender<Infallible>);

impl ThreadEnd {
    pub(crate) fn new(alive: WeakSender<Infallible>) -> Self {
        Self(alive)
    }

    /// Delays it, for work that no request waits for; none if the thread ends already.
    pub fn delay(&self) -> Option<Delay> {
        self.0.upgrade().map(Delay)
    }
}

/// Keeps a thread that is told to stop from ending, as long as a request does.
#[derive(Debug)]
pub struct Delay(#[expect(dead_code, reason = "the thread waits until all senders are dropped")] Sender<Infallible>);
