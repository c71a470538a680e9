//! A link that is received from until it ends, by the reactor's threads or by a task.

use crate::host::link::Link;
use crate::threads::reactor::Reactor;
use crate::threads::read_batch::ReadBatch;
use crate::transport::connection::Connection;
use crate::transport::poller::Readiness;
use crate::transport::receiver::{Ended, Why};
use crate::transport::watched::Watched;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::slice;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use types::GoodbyeReason;

/// A link, and its receiver.
#[derive(Debug)]
pub(crate) struct Serving {
    link: Arc<Link>,
    why: Why,
    /// The reactor, if it is not a task that receives.
    reactor: Option<Arc<Reactor>>,
}

impl Serving {
    pub(crate) fn new((link, why): (Arc<Link>, Why), reactor: Option<Arc<Reactor>>) -> Self {
        Self { link, why, reactor }
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    fn connection(&self) -> &Connection {
        self.link.connection()
    }

    /// Has the link received from until it ends. Something must come within `first_within`, if that is given.
    /// Afterwards nothing is received any more.
    pub(crate) async fn run(&mut self, first_within: Option<Duration>) -> Ended {
        let (link, why) = (&self.link, &mut self.why);
        let ended = match self.reactor.as_ref().map(|reactor| reactor.watch(link)) {
            Some(Ok(())) => ended(link, why, first_within).await,
            Some(Err(error)) => Ended::Lost(Some(error)),
            None => tokio::select! {
                ended = ended(link, why, first_within) => ended,
                error = receive(link) => Ended::Lost(error.err()),
            },
        };
        self.connection().end_receiving();
        ended
    }

    /// Ends the connection: tells the peer why, if it is this end that ends it, and lets that arrive.
    pub(crate) async fn finish(self, ended: Ended) {
        self.connection().finish(ended).await;
        if let Some(reactor) = &self.reactor {
            reactor.forget(&self.link);
        }
    }
}

/// Waits until nothing more should be received from a link.
async fn ended(link: &Link, why: &mut Why, first_within: Option<Duration>) -> Ended {
    tokio::select! {
        // The receiver goes only with the reactor, which goes only with the runtime.
        ended = why => ended.unwrap_or(Ended::Here),
        () = link.connection().sender().ended() => Ended::Here,
        silent = silent(link, first_within) => silent,
    }
}

/// Waits for nothing to have come within a time; for ever if something has.
async fn silent(link: &Link, first_within: Option<Duration>) -> Ended {
    if let Some(within) = first_within {
        tokio::time::sleep(within).await;
        if !link.is_heard() {
            let text = format!("nothing was said within {} ms", within.as_millis());
            return Ended::Refused("silent", GoodbyeReason::Silent, text);
        }
    }
    pending().await
}

/// Receives as a task of the application's runtime, as long as it is polled.
async fn receive(link: &Arc<Link>) -> io::Result<()> {
    let connection = link.connection();
    // The runtime watches a handle of its own; all reading and writing goes by the socket's.
    let (watched, mut batch) = (Watched::new(connection.socket().try_clone()?)?, ReadBatch::new());
    let mut room = pin!(has_room(connection, &watched));
    while !connection.is_over() {
        if connection.is_waiting() {
            // So much has come that others had their turn; now it is theirs here.
            tokio::task::yield_now().await;
        } else {
            let edge = poll_fn(|context| match room.as_mut().poll(context) {
                Poll::Ready(room) => Poll::Ready(room.map(|()| Interest::WRITABLE)),
                Poll::Pending => watched.poll_read_ready(context).map_ok(|()| Interest::READABLE),
            });
            let edge = edge.await?;
            expect_edge(&watched, edge);
            if edge.is_writable() {
                room.set(has_room(connection, &watched));
            }
            let readiness =
                Readiness { readable: edge.is_readable(), writable: edge.is_writable(), ..Readiness::default() };
            link.told(readiness);
        }
        batch.take(slice::from_ref(link), || ());
    }
    // Why it is over is told elsewhere.
    pending().await
}

/// Waits until the socket has been full and has room again.
async fn has_room(connection: &Connection, watched: &Watched) -> io::Result<()> {
    connection.socket().is_full().await;
    watched.writable().await
}

/// Has the runtime report the socket's next edge. To be called before it is seen what there is: what comes after that
/// is notified of.
fn expect_edge(watched: &Watched, interest: Interest) {
    let _ = watched.try_io(interest, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}
