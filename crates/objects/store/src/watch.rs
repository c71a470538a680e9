//! A watcher's session: it holds no page, and counts as one that holds each page of the leased spaces.
//!
//! 1. While it has a lease, no change of a leased space is logged before the watcher has promised, or its lease has run
//!    out: as for a group, but for each commit again (**PromiseOnce**).
//! 2. It is notified of each change when that is applied: whoever asks the store after that sees it.
//! 3. It asks for nothing else, so it is in nobody's way but with its promises.

use crate::{SessionId, Store};
use machine::Goodbye;
use messages::{Resume, ToServer};
use types::{GoodbyeReason, Time};

impl Store {
    /// One message of a watcher's session.
    pub(crate) fn hear_watcher(&mut self, now: Time, from: SessionId, message: ToServer) -> Result<(), Goodbye> {
        match message {
            ToServer::Resume(resume) if holds_nothing(&resume) => self.master.resumed(now, from, &resume),
            ToServer::Ping(ping) => {
                self.ping(now, from, ping);
                Ok(())
            }
            ToServer::Pong(_) => Ok(()),
            ToServer::Promise(promise) => {
                self.master.promise(from, promise);
                Ok(())
            }
            ToServer::Goodbye(_) => Err(Goodbye { reason: GoodbyeReason::Done, text: "the watcher is done".into() }),
            _ => Err(Goodbye::malformed("expected pings and promises alone of a watcher, which holds nothing".into())),
        }
    }
}

fn holds_nothing(resume: &Resume) -> bool {
    resume.pages.is_empty() && resume.grants.is_empty()
}
