//! How a session begins: a client says who it is, and learns which store this is.

use crate::sessions::Greeting;
use crate::{SessionId, Store};
use alloc::format;
use machine::Goodbye;
use master::Kind;
use messages::{GROUP, Hello, SessionLimits, WATCH, Welcome};
use types::limits::WATCHERS_MAX;
use types::{GoodbyeReason, Time};

impl Store {
    /// A client says who it is.
    pub(crate) fn hello(&mut self, now: Time, from: SessionId, hello: &Hello) -> Result<(), Goodbye> {
        if self.sessions.client(from).is_some() {
            return Err(Goodbye::malformed(format!("expected one hello, got another of {:?}", hello.client)));
        }
        hello.agree(self.cluster)?;
        let (features, kind) = match hello.features {
            features if features & GROUP != 0 => (GROUP, Kind::Group),
            features if features & WATCH != 0 => (WATCH, Kind::Watcher),
            _ => (0, Kind::Client),
        };
        if kind == Kind::Watcher && self.sessions.is_full_of_watchers() {
            let text = format!("expected {WATCHERS_MAX} watchers at most, got one more: stop one that is not needed");
            return Err(Goodbye { reason: GoodbyeReason::Full, text });
        }
        if self.config.has_peers() {
            self.check_open()?;
        }
        let greeting = Greeting { client: hello.client, epoch: hello.epoch, kind };
        let superseded = self.sessions.hello(from, greeting).map_err(|newer| Goodbye {
            reason: GoodbyeReason::Superseded,
            text: format!("expected an epoch of {:?} after {newer}, got {}", hello.client, hello.epoch),
        })?;
        if let Some(old) = superseded {
            let text = format!("{:?} has a newer session, of epoch {}", hello.client, hello.epoch);
            self.end(now, old, Goodbye { reason: GoodbyeReason::Superseded, text });
        }
        self.coordinator.connected(from);
        self.master.connected(from, hello.client, kind);
        let welcome = self.welcome(features);
        self.out.send_after(from, welcome, Some(self.lives.first_record()));
        if self.config.has_peers() {
            self.tell_placement(from);
        }
        Ok(())
    }

    fn welcome(&self, features: u64) -> Welcome {
        Welcome {
            features,
            cluster: self.cluster,
            node: self.config.node,
            incarnation: self.incarnation,
            lineage: self.lives.lineage().clone(),
            sharding: self.config.sharding,
            through: self.master.applied().clone(),
            limits: SessionLimits {
                fetches: self.config.limits.fetches_per_session as u32,
                commits: self.config.limits.commits_per_session as u32,
                silence_ms: u32::try_from(self.config.silence.as_millis()).unwrap_or(u32::MAX),
            },
        }
    }
}
