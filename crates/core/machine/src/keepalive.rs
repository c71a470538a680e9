//! Whether a server is there, for a machine that waits for something of it.
//!
//! While anything is waited for, the server is asked now and then, so that it has something to say; when nothing at all
//! was learned of it for long, it is considered gone. While nothing is waited for nobody is asked.

use core::time::Duration;
use types::Time;

/// The two times of a session with a server.
#[derive(Clone, Debug)]
pub struct Keepalive {
    ask_every: Duration,
    silence: Duration,
    ask_at: Option<Time>,
    silent_at: Option<Time>,
}

/// An action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// To ask the server whether it is there.
    Ask,
    /// To end the session: the server is silent.
    Leave,
}

impl Keepalive {
    /// Asks so often, and takes a server for gone that has been silent for this long.
    pub const fn new(ask_every: Duration, silence: Duration) -> Self {
        Self { ask_every, silence, ask_at: None, silent_at: None }
    }

    /// Something is waited for of a server with which there is a session, or nothing is.
    pub fn watch(&mut self, now: Time, waits: bool) {
        if !waits {
            (self.ask_at, self.silent_at) = (None, None);
        } else if self.ask_at.is_none() {
            (self.ask_at, self.silent_at) = (Some(now + self.ask_every), Some(now + self.silence));
        }
    }

    /// Something was learned of the server.
    pub fn heard(&mut self, now: Time) {
        self.silent_at = self.ask_at.map(|_| now + self.silence);
    }

    /// When something is due, if anything will be.
    pub fn due_at(&self) -> Option<Time> {
        self.ask_at.into_iter().chain(self.silent_at).min()
    }

    /// The action that is due now.
    pub fn due(&mut self, now: Time) -> Due {
        if self.silent_at.is_some_and(|at| at <= now) {
            return Due::Leave;
        }
        if self.ask_at.is_none_or(|at| at > now) {
            return Due::Nothing;
        }
        self.ask_at = Some(now + self.ask_every);
        Due::Ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_waited_for_is_asked_and_left_when_it_is_silent() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut keepalive = Keepalive::new(Duration::from_secs(2), Duration::from_secs(5));
        keepalive.heard(at(0));
        assert_eq!((keepalive.due_at(), keepalive.due(at(100))), (None, Due::Nothing));
        keepalive.watch(at(100), true);
        assert_eq!((keepalive.due_at(), keepalive.due(at(101))), (Some(at(102)), Due::Nothing));
        assert_eq!((keepalive.due(at(102)), keepalive.due_at()), (Due::Ask, Some(at(104))));
        // More that is waited for does not put it off.
        keepalive.watch(at(103), true);
        keepalive.heard(at(104));
        assert_eq!((keepalive.due(at(106)), keepalive.due(at(108))), (Due::Ask, Due::Ask));
        assert_eq!((keepalive.due_at(), keepalive.due(at(109))), (Some(at(109)), Due::Leave));
        keepalive.watch(at(109), false);
        assert_eq!(keepalive.due_at(), None);
    }
}
