//! The requests that wait for the owner's answer.

use machines::{Declined, RequestId};
use nbd::{Answer, Errno, Permit, Replies, Ticket};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Where the answer to a request goes.
#[derive(Clone)]
struct ReplyPort(Arc<dyn Replies>);

impl fmt::Debug for ReplyPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyPort")
    }
}

/// A request that waits: it is answered when all of its writes are.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    replies: ReplyPort,
    writes: u32,
    outcome: Result<(), Errno>,
}

/// A request whose answer should leave.
#[derive(Debug)]
pub(super) struct Answered {
    ticket: Ticket,
    replies: ReplyPort,
    outcome: Result<(), Errno>,
}

/// The requests, by numbers that are used again.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    answered: Vec<Answered>,
}

/// The connection whose thread this is, for the time of one batch.
pub(super) struct Own<'a> {
    pub(super) replies: &'a Arc<dyn Replies>,
    /// Some request of the batch has waited, and so have those behind it: their client may have hung up in that time.
    has_waited: Cell<bool>,
}

impl<'a> Own<'a> {
    pub(super) fn new(replies: &'a Arc<dyn Replies>) -> Self {
        Self { replies, has_waited: Cell::new(false) }
    }

    /// This thread is about to wait.
    pub(super) fn stalls(&self) {
        self.has_waited.set(true);
        self.replies.stalls();
    }

    /// Whether the client has hung up. The system is asked only for requests that have waited: others come straight
    /// from the socket.
    pub(super) fn is_gone(&self) -> bool {
        if self.has_waited.get() { self.replies.has_hung_up() } else { self.replies.is_gone() }
    }

    /// The permission for a request to take effect. It is asked for, and held, under the lock that orders requests.
    pub(super) fn permit(&self) -> Option<Permit<'_>> {
        if self.is_gone() { None } else { Permit::take(&**self.replies) }
    }
}

impl Requests {
    /// A request that is answered when so many writes, or one flush, are.
    pub(super) fn add(&mut self, ticket: Ticket, replies: &Arc<dyn Replies>, writes: u32) -> RequestId {
        let waiting = Waiting { ticket, replies: ReplyPort(replies.clone()), writes, outcome: Ok(()) };
        let index = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[index] = Some(waiting);
        RequestId(index as u64)
    }

    /// One of its writes is done, or will not be.
    pub(super) fn finish(&mut self, request: RequestId, outcome: Result<(), Errno>) {
        let index = request.0 as usize;
        let waiting = self.waiting[index].as_mut().expect("it waits until all of its writes are done");
        waiting.outcome = waiting.outcome.and(outcome);
        waiting.writes -= 1;
        if waiting.writes == 0 {
            let Waiting { ticket, replies, outcome, .. } = self.waiting[index].take().expect("it was there");
            self.free.push(index);
            self.answered.push(Answered { ticket, replies, outcome });
        }
    }

    /// Whether a request is one of this connection.
    pub(super) fn is_of(&self, request: RequestId, replies: &Arc<dyn Replies>) -> bool {
        let waiting = self.waiting.get(request.0 as usize).and_then(Option::as_ref);
        waiting.is_some_and(|waiting| Arc::ptr_eq(&waiting.replies.0, replies))
    }

    /// The answers that should leave.
    pub(super) fn take_answered(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answered)
    }
}

/// Lets answers leave. Those to the own connection do when its thread returns to it.
pub(super) fn deliver(answered: Vec<Answered>, own: Option<&Own<'_>>) {
    let mut others: Vec<ReplyPort> = Vec::new();
    for Answered { ticket, replies, outcome } in answered {
        replies.0.done(ticket, outcome.map(|()| Answer::Done));
        let is = |other: &Arc<dyn Replies>| Arc::ptr_eq(other, &replies.0);
        if own.is_none_or(|own| !is(own.replies)) && !others.iter().any(|other| is(&other.0)) {
            others.push(replies);
        }
    }
    for other in others {
        other.0.send();
    }
}

/// The error that a client gets.
pub(super) fn errno(declined: Declined) -> Errno {
    match declined {
        Declined::NoRoom => Errno::NoSpace,
        Declined::OutOfRange => Errno::Invalid,
        Declined::Degraded
        | Declined::LeaseOver
        | Declined::Resizing
        | Declined::Ended
        | Declined::Detached
        | Declined::Stopped
        | Declined::GivenUp => Errno::Io,
    }
}
