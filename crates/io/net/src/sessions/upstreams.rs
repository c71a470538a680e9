//! The upstream sessions of a machine.

use crate::lock::{Lock, Rank};
use crate::sessions::state::{SessionState, UpstreamState};
use machine::UpstreamId;
use std::sync::Arc;
use types::Map;

/// The sessions of a machine with its servers, by the numbers that the machine gives them.
#[derive(Debug)]
pub(super) struct Upstreams(Lock<Map<UpstreamId, Arc<SessionState>>>);

impl Upstreams {
    pub(super) fn new() -> Self {
        Self(Lock::new(Rank::Upstreams, Map::default()))
    }

    /// The state of a session, which is about to be opened if it is new.
    pub(super) fn state(&self, upstream: UpstreamId) -> Arc<SessionState> {
        Arc::clone(self.0.lock().entry(upstream).or_insert_with(|| Arc::new(SessionState::new())))
    }

    /// How it stands with a session; one that was closed is as one that has yet to be opened.
    pub(super) fn get(&self, upstream: UpstreamId) -> UpstreamState {
        self.0.lock().get(&upstream).map_or(UpstreamState::Connecting, |state| state.get())
    }

    /// Opens a session no more.
    pub(super) fn close(&self, upstream: UpstreamId) {
        if let Some(state) = self.0.lock().remove(&upstream) {
            state.close();
        }
    }
}
