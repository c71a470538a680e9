//! The threads that make the log durable. A thread whose request waits for it leads; the keeper flushes what nobody
//! waits for, makes segments ahead of need, tries again what was stuck, and tells the owner of the time.

use super::copies::settle;
use super::requests::Own;
use super::{Core, State};
use log::{Durable, Made};
use machines::messages::holder::Sequence;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use types::Time;
use vfs::{FileError, Pause};

/// A write that no request waits for is in the log after this long.
const FLUSH_AFTER: Duration = Duration::from_millis(20);

/// So many bytes that no request waits for are worth a flush.
const FLUSH_BYTES: u64 = 1 << 20;

/// With so many bytes that are not durable, a writer waits: memory is bounded by it.
const UNFLUSHED_BYTES_MAX: u64 = 32 << 20;

impl Core {
    /// Leads a flush, if there is something to flush and nobody else does. The writes that have come in the meantime
    /// are the keeper's, so that nobody flushes for others for ever.
    pub(super) fn lead(&self, own: Option<&Own<'_>>) {
        let pushed = {
            let mut state = self.state();
            state.unflushed = None;
            state.wants_flush = false;
            state.sessions.take_pushed()
        };
        settle(pushed);
        let more = self.log.flush(0, &mut |result| self.flushed(result, own));
        self.send_copies();
        if let Some(own) = own {
            own.replies.send();
        }
        if more || self.log.take_newly_stuck() {
            self.state().wants_flush |= more;
            self.keep.notify_one();
        }
    }

    fn flushed(&self, result: Result<Durable, FileError>, own: Option<&Own<'_>>) {
        match result {
            Ok(Durable { through, .. }) => {
                let mut state = self.state();
                let was_far_behind = Self::is_far_behind(&state);
                state.dirty.durable(through);
                if was_far_behind {
                    self.room.notify_all();
                }
                let now = self.now();
                state.owner.appended(now, Sequence(through.saturating_sub(self.base)));
                self.carry_out(state, own);
            }
            Err(error) => self.cache_failed(&error),
        }
    }

    /// Counts an appended write. Returns whether the keeper has to know of it, if no request waits for it.
    pub(super) fn count_unflushed(state: &mut State, bytes: u64) -> bool {
        let is_first = state.unflushed.is_none();
        let (unflushed, _) = state.unflushed.get_or_insert_with(|| (0, Instant::now()));
        let before = *unflushed;
        *unflushed += bytes;
        is_first || before < FLUSH_BYTES && *unflushed >= FLUSH_BYTES
    }

    /// Whether writers have to wait for the log.
    pub(super) fn is_far_behind(state: &State) -> bool {
        state.dirty.memory_bytes() >= UNFLUSHED_BYTES_MAX
    }

    /// The keeper's thread.
    pub(super) fn keep(&self) {
        let (mut pause, mut stuck_until) = (Pause::FIRST, None);
        loop {
            if let Err(error) = self.grow() {
                self.cache_failed(&error);
            }
            let state = self.state();
            // A leader that finds it stuck later says so under this lock.
            let is_stuck = self.log.is_stuck();
            if is_stuck {
                self.drained.notify_all();
                stuck_until.get_or_insert_with(|| Instant::now() + pause.grow());
            } else {
                (pause, stuck_until) = (Pause::FIRST, None);
            }
            if state.is_closing || state.failed.is_some() {
                return;
            }
            let Some(mut state) = self.wait_for_work(state, stuck_until) else { continue };
            let now = self.now();
            state.owner.handle_timeout(now);
            let flushes = !is_stuck && is_flush_due(&state);
            self.carry_out(state, None);
            if flushes {
                self.lead(None);
            }
            if stuck_until.is_some_and(|until| until <= Instant::now()) {
                stuck_until = None;
                if self.log.retry(&mut |result| self.flushed(result, None)) {
                    self.state().wants_flush = true;
                }
            }
        }
    }

    /// Waits until there is something to do, or it is time to look again: `None` if it was woken, and looks again.
    fn wait_for_work<'a>(
        &self,
        state: MutexGuard<'a, State>,
        stuck_until: Option<Instant>,
    ) -> Option<MutexGuard<'a, State>> {
        let now = Instant::now();
        let due = |at: Time| now + self.clock.until(at);
        let flush = state.unflushed.map(|(_, since)| since + FLUSH_AFTER);
        let next = [state.owner.poll_timeout().map(due), flush.filter(|_| stuck_until.is_none()), stuck_until];
        let next = next.into_iter().flatten().min();
        if is_flush_due(&state) && stuck_until.is_none() || next.is_some_and(|next| next <= now) {
            return Some(state);
        }
        match next {
            Some(next) => drop(self.keep.wait_timeout(state, next - now)),
            None => drop(self.keep.wait(state)),
        }
        None
    }

    /// Makes a segment ahead of need. That there is no room for it is no failure.
    fn grow(&self) -> Result<(), FileError> {
        while !self.log.has_failed()
            && let Some(name) = self.log.plan_segment()
        {
            if self.log.make_segment(&name)? != Made::Yes {
                break;
            }
        }
        Ok(())
    }
}

fn is_flush_due(state: &State) -> bool {
    state.wants_flush
        || state.unflushed.is_some_and(|(bytes, since)| bytes >= FLUSH_BYTES || since.elapsed() >= FLUSH_AFTER)
}
