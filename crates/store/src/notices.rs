//! One ordered stream of notices for each session.
//!
//! 1. All changes through a batch's `through` to pages that the session holds are in that batch or an earlier one.
//! 2. A batch leaves before every reply, or when its first notice has waited for `delay`.
//! 3. Nobody is visited for a commit but the holders of what it changed; the others' `through` moves with their next
//!    batch.

use crate::{Position, SessionId, Store};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use protocol::{Message, Notice, Notices};
use types::limits::NOTICES_PER_MESSAGE_MAX;
use types::{Map, Rule, Time, Version};

/// A batch without notices is only worth its bytes when it moves the horizon this far: the acknowledgement that it
/// brings lets *recent* be pruned.
const QUIET_COUNTS: u64 = 1024;

#[derive(Debug, Default)]
struct Stream {
    items: Vec<Notice>,
    sent: Version,
    /// Stands in the queue of what is due.
    queued: bool,
}

/// All sessions' streams.
#[derive(Debug)]
pub(crate) struct Streams {
    by_session: Map<SessionId, Stream>,
    /// In the order of time, since all wait equally long.
    due: VecDeque<(Time, SessionId)>,
    delay: Duration,
}

/// Which batches are worth sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Those with notices, and those that move the horizon far.
    Worthwhile,
    /// Whatever moves the horizon at all.
    All,
}

impl Streams {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { by_session: Map::default(), due: VecDeque::new(), delay }
    }

    pub(crate) fn open(&mut self, session: SessionId) {
        self.by_session.insert(session, Stream::default());
    }

    pub(crate) fn close(&mut self, session: SessionId) {
        self.by_session.remove(&session);
    }

    /// Adds a notice to the session's next batch.
    pub(crate) fn push(&mut self, now: Time, session: SessionId, notice: Notice) {
        let Some(stream) = self.by_session.get_mut(&session) else { return };
        stream.items.push(notice);
        if !stream.queued {
            stream.queued = true;
            self.due.push_back((now + self.delay, session));
        }
    }

    /// The session's next batches, up to `through`. Of a batch that is cut in parts only the last moves the horizon.
    pub(crate) fn take(&mut self, session: SessionId, through: Version, urgency: Urgency) -> Vec<Notices> {
        let Some(stream) = self.by_session.get_mut(&session) else { return Vec::new() };
        let moves = through.0.saturating_sub(stream.sent.0);
        if stream.items.is_empty() && (moves == 0 || (urgency == Urgency::Worthwhile && moves < QUIET_COUNTS)) {
            return Vec::new();
        }
        let mut items = core::mem::take(&mut stream.items);
        let mut batches = Vec::new();
        while items.len() > NOTICES_PER_MESSAGE_MAX {
            let rest = items.split_off(NOTICES_PER_MESSAGE_MAX);
            batches.push(Notices { through: stream.sent, items });
            items = rest;
        }
        stream.sent = stream.sent.max(through);
        batches.push(Notices { through: stream.sent, items });
        batches
    }

    /// The session's horizon is at `through` by other means than a batch.
    pub(crate) fn resume(&mut self, session: SessionId, through: Version) {
        if let Some(stream) = self.by_session.get_mut(&session) {
            stream.sent = stream.sent.max(through);
        }
    }

    /// A session whose batch has waited long enough.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<SessionId> {
        while self.due.front().is_some_and(|(due, _)| *due <= now) {
            let (_, session) = self.due.pop_front().expect("just seen");
            let Some(stream) = self.by_session.get_mut(&session) else { continue };
            stream.queued = false;
            if !stream.items.is_empty() {
                return Some(session);
            }
        }
        None
    }

    /// When the next batch is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.front().map(|(due, _)| *due)
    }
}

impl Store {
    /// Sends an answer, and before it the notices that it depends on.
    pub(crate) fn reply(&mut self, session: SessionId, message: Message, after: Option<Position>) {
        if self.sessions.client(session).is_none() {
            return;
        }
        if !self.config.broken.is(Rule::NoticesBeforeReply) {
            self.flush(session, Urgency::Worthwhile);
        }
        self.out.send_after(session, message, after);
    }

    /// Sends the session's notices.
    pub(crate) fn flush(&mut self, session: SessionId, urgency: Urgency) {
        let through = self.sessions.horizon(session, self.master.applied());
        for batch in self.notices.take(session, through, urgency) {
            self.out.send(session, Message::Notices(batch));
        }
    }
}
