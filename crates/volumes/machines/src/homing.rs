//! The way home of dirty data: what goes next, and when.

use crate::config::OwnerConfig;
use crate::dirty::Dirty;
use crate::effect::WriteBack;
use crate::messages::holder::{Sequence, Stamp};
use crate::request::RequestId;
use crate::rule::Rule;
use alloc::collections::VecDeque;
use types::Time;

/// The write-back of one owner: at most one command at a time.
#[derive(Debug)]
pub(crate) struct Homing {
    under_way: Option<WriteBack>,
    /// Everything up to here is home.
    through: Stamp,
    /// Home has failed, or nothing that is due could go there: it is tried again then.
    retry_at: Option<Time>,
    /// Whether home has failed: until then it is let alone.
    has_failed: bool,
    /// Requests that wait until everything through a write is home, in the order of these.
    waiting: VecDeque<(Sequence, RequestId)>,
}

impl Homing {
    pub(crate) fn new(through: Stamp) -> Self {
        Self { under_way: None, through, retry_at: None, has_failed: false, waiting: VecDeque::new() }
    }

    /// A request waits until everything through this write is home.
    pub(crate) fn wait(&mut self, through: Sequence, request: RequestId) {
        self.waiting.push_back((through, request));
    }

    /// Whether somebody waits for what is not written back.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next request for which all is written back.
    pub(crate) fn take(&mut self) -> Option<RequestId> {
        let &(through, request) = self.waiting.front()?;
        if through > self.through.sequence {
            return None;
        }
        self.waiting.pop_front();
        Some(request)
    }

    /// All requests, which wait no more.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = RequestId> {
        self.waiting.drain(..).map(|(_, request)| request)
    }

    /// Whether a command may go there now.
    pub(crate) fn is_free(&self) -> bool {
        self.under_way.is_none() && !self.has_failed
    }

    /// The next command, of flush epochs that are closed and end at or before `ready`. Where the own log was lost,
    /// those that it has are not joined with later ones: a start that finds it again brings home what it has, and
    /// nothing else. The first command of later ones is installed whole or not at all, so that home's mark says that
    /// the log is not all there is as soon as home has anything of them.
    pub(crate) fn next(
        &mut self,
        config: &OwnerConfig,
        dirty: &Dirty,
        ready: Sequence,
        log_lost_at: Option<Sequence>,
    ) -> Option<WriteBack> {
        if !self.is_free() {
            return None;
        }
        let (mut taken, mut bytes, mut through) = (0, 0, None);
        let is_later = |it: Sequence| log_lost_at.is_some_and(|logged| it > logged);
        for it in dirty.closed().take_while(|it| it.last.sequence <= ready) {
            bytes += it.bytes;
            let is_same = through.is_none_or(|last: Stamp| is_later(last.sequence) == is_later(it.last.sequence));
            let is_joinable = bytes <= config.join_bytes && is_same;
            if taken > 0 && !is_joinable {
                break;
            }
            taken += 1;
            through = Some(it.last);
        }
        let is_first_later = through.is_some_and(|it| is_later(it.sequence)) && !is_later(self.through.sequence);
        let is_joined = taken > 1 && !config.broken.is(Rule::FlushOrder) || is_first_later;
        self.under_way = through.map(|through| WriteBack { after: self.through, through, is_joined });
        self.under_way
    }

    /// The command under way is done, if it is this one.
    pub(crate) fn done(&mut self, through: Stamp) -> bool {
        let is_it = self.under_way.is_some_and(|it| it.through == through);
        if is_it {
            let waiting = core::mem::take(&mut self.waiting);
            *self = Self { waiting, ..Self::new(through) };
        }
        is_it
    }

    /// The command under way has failed.
    pub(crate) fn failed(&mut self, now: Time, config: &OwnerConfig) {
        if self.under_way.take().is_some() {
            (self.retry_at, self.has_failed) = (Some(now + config.retry), true);
        }
    }

    /// When home should be looked after, with what is dirty for this long.
    pub(crate) fn due(&self, config: &OwnerConfig, since: Option<Time>) -> Option<Time> {
        if self.under_way.is_some() {
            return None;
        }
        self.retry_at.or_else(|| since.map(|since| since + config.age_max / 2))
    }

    /// It is due. Writes that are not counted yet cannot go home: there is nothing to do before they are.
    pub(crate) fn look_again(&mut self, at: Time) {
        (self.retry_at, self.has_failed) = (Some(at), false);
    }
}
