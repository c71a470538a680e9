//! The receiving side of one connection.

use crate::counters::Counters;
use crate::host::Host;
use crate::link::Link;
use protocol::{Goodbye, Message};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::task::AbortHandle;
use types::GoodbyeReason;
use wire::{End, Inbox, WireError};

/// How long an ended connection is kept for its last words to arrive, and how much is read meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// The receiving side of one connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    half: OwnedReadHalf,
    inbox: Inbox,
    buffer: Box<[u8]>,
}

/// Why nothing more is received.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The peer has closed the connection, or it broke.
    Lost(Option<io::Error>),
    /// What came is not Thorp's protocol, or breaks it.
    Malformed(WireError),
    /// This end does not want it: the reason's name, what the peer is told, and the text for a person.
    Refused(&'static str, GoodbyeReason, String),
    /// This end is done with it.
    Here,
}

impl Receiver {
    /// Reads with a buffer of so many bytes; what is larger than that is received in place.
    pub(crate) fn new(half: OwnedReadHalf, end: End, buffer_bytes: usize) -> Self {
        Self { half, inbox: Inbox::new(end), buffer: vec![0; buffer_bytes].into() }
    }

    /// Waits until something comes, and appends the messages that are complete with it.
    pub(crate) async fn receive(&mut self, counters: &Counters, messages: &mut Vec<Message>) -> Result<(), Ended> {
        let mut arrived = &self.buffer[..0];
        let bytes = if let Some(mut room) = self.inbox.direct() {
            self.half.read_buf(&mut room).await
        } else {
            let bytes = self.half.read(&mut self.buffer).await;
            arrived = &self.buffer[..*bytes.as_ref().unwrap_or(&0)];
            bytes
        };
        match bytes {
            Ok(0) => return Err(Ended::Lost(None)),
            Ok(bytes) => counters.bytes_in.fetch_add(bytes as u64, Relaxed),
            Err(error) => return Err(Ended::Lost(Some(error))),
        };
        while let Some(message) = self.inbox.next(&mut arrived).map_err(Ended::Malformed)? {
            messages.push(message);
        }
        Ok(())
    }

    /// Gives `handle` what comes, until the connection ends at either side or `handle` says so. Something must come
    /// within `first_within`.
    pub(crate) async fn run(
        &mut self,
        link: &Link,
        counters: &Counters,
        first_within: Duration,
        mut handle: impl FnMut(&mut Vec<Message>) -> bool,
    ) -> Ended {
        let (ended, silence) = (link.ended(), tokio::time::sleep(first_within));
        tokio::pin!(ended, silence);
        let (mut messages, mut first) = (Vec::new(), true);
        loop {
            let received = tokio::select! {
                received = self.receive(counters, &mut messages) => received,
                () = &mut ended => return Ended::Here,
                () = &mut silence, if first => {
                    let text = format!("nothing was said within {} ms", first_within.as_millis());
                    return Ended::Refused("silent", GoodbyeReason::Silent, text);
                }
            };
            first &= messages.is_empty();
            let go_on = messages.is_empty() || handle(&mut messages);
            match received {
                Err(ended) => return ended,
                Ok(()) if !go_on => return Ended::Here,
                Ok(()) => {}
            }
        }
    }

    /// Lets the last words of an ended connection arrive: who closes a socket with unread bytes in it takes back what
    /// he has just sent.
    async fn linger(&mut self) {
        let drain = async {
            let mut left = LINGER_BYTES_MAX;
            while let Ok(bytes @ 1..) = self.half.read(&mut self.buffer).await {
                left = left.saturating_sub(bytes);
                if left == 0 {
                    return;
                }
            }
        };
        // Either the peer has closed its side, or it had its time.
        let _ = tokio::time::timeout(LINGER, drain).await;
    }
}

/// Starts the task that finishes what a flush could not.
pub(crate) fn spawn_writer(link: &Arc<Link>) -> AbortHandle {
    let link = Arc::clone(link);
    tokio::spawn(async move { link.run_writer().await }).abort_handle()
}

/// Ends a connection: tells the peer why, if it is this end that ends it, and lets that arrive.
pub(crate) async fn finish(host: &Weak<Host>, link: &Link, ended: Ended, mut receiver: Receiver) {
    let (name, reason, text) = match ended {
        Ended::Lost(_) => return link.abandon(),
        Ended::Here => return receiver.linger().await,
        Ended::Malformed(error) => (error.name(), GoodbyeReason::Malformed, error.to_string()),
        Ended::Refused(name, reason, text) => (name, reason, text),
    };
    if let Some(host) = host.upgrade() {
        host.counters().refused(name);
    }
    link.end(Goodbye { reason, text });
    receiver.linger().await;
}
