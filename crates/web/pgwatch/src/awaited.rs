//! Whether commits wait for the watcher that has the slot.
//!
//! ```text
//!   not listed --the list names this watcher--> proving --a commit of our own is held--> proven
//!       ^                                          |                                       |
//!       +---- the list does not, or it is not held +---------------------------------------+
//! ```
//! The server's list can be changed at any time, and then commits are visible at once. So the list is read with each
//! question about the slot, and everything is marked while it does not require this watcher. That the list does is not
//! enough: the server's processes read it one by one, and a server that begins may let commits go before the first has.
//! A commit of our own, which nobody confirms in the meantime, shows that it is held.

use crate::config::WatchConfig;
use crate::error::WatchError;
use crate::required::commit_is_held;
use crate::session::client;
use crate::standbys::Standbys;
use std::future::{self, Future};
use std::pin::Pin;

type Proof = Pin<Box<dyn Future<Output = Result<Option<u64>, WatchError>>>>;

/// The state of a connection's server, as far as it is known.
pub(crate) struct Awaited {
    config: WatchConfig,
    state: State,
    /// Why commits do not wait, if that is so.
    why_not: Option<String>,
}

enum State {
    NotListed,
    Proving(Proof),
    Proven,
}

impl Awaited {
    /// Nothing is known yet.
    pub(crate) fn new(config: WatchConfig) -> Self {
        Self { config, state: State::NotListed, why_not: None }
    }

    /// The server's list of standbys was read. Returns whether commits wait no more that did, or were about to be shown
    /// to.
    pub(crate) fn listed(&mut self, names: &str) -> bool {
        if let Some(why_not) = Standbys::why_not(names, &self.config.slot) {
            let was_listed = !matches!(self.state, State::NotListed);
            (self.state, self.why_not) = (State::NotListed, Some(why_not));
            return was_listed;
        }
        if matches!(self.state, State::NotListed) {
            self.state = State::Proving(prove(self.config.clone()));
        }
        false
    }

    /// Whether nothing may be confirmed: a commit of our own should be held.
    pub(crate) fn is_proving(&self) -> bool {
        matches!(self.state, State::Proving(_))
    }

    /// Ends with a number when commits wait for this watcher: all transactions with smaller ones may not have. `None`
    /// if they do not, and the list should be read again.
    pub(crate) async fn proof(&mut self) -> Result<Option<u64>, WatchError> {
        let State::Proving(proof) = &mut self.state else { return future::pending().await };
        let next = proof.await?;
        if next.is_some() {
            (self.state, self.why_not) = (State::Proven, None);
        } else {
            self.state = State::NotListed;
            self.why_not = Some("the server has not held a commit that was made to see whether it does".to_owned());
        }
        Ok(next)
    }

    /// Why commits do not wait for this watcher, if that is known.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }
}

fn prove(config: WatchConfig) -> Proof {
    Box::pin(async move {
        let client = client(&config).await?;
        if !commit_is_held(&client, &config).await? {
            return Ok(None);
        }
        let row = client.query_one("SELECT pg_current_xact_id()::text", &[]).await?;
        let next = row.try_get::<_, &str>(0)?.parse().map_err(|_| WatchError::Unexpected("what is no number"))?;
        Ok(Some(next))
    })
}
