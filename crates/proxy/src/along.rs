//! A response whose home has stored it, and whose body is still arriving: requests that wait for it may read along.
//!
//! The place at the home is taken when the head of the response is there, so from then on an update finds it. A request
//! that waits looks at it as at a stored one, after it has come (rule LookAtHit), and nothing may have been removed under
//! the key since the origin was asked: it is answered with what the cache is about to have, or waits on (rule
//! JoinersNeedStored).

use crate::coherence::Claim;
use crate::collect::Body;
use crate::entries::Removals;
use responses::{Stored, Validity};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A response whose body is arriving.
#[derive(Debug)]
pub(crate) struct Along {
    pub(crate) stored: Stored,
    /// As of before the origin was asked.
    pub(crate) removals: Removals,
    /// Likewise, how often what is stored had lapsed for new settings.
    pub(crate) lapses: u64,
    pub(crate) body: Body,
    /// None when it is stored as all others are, or not any more.
    claim: Mutex<Option<Claim>>,
}

impl Along {
    pub(crate) fn new(stored: Stored, removals: Removals, lapses: u64, body: Body, claim: Claim) -> Self {
        Self { stored, removals, lapses, body, claim: Mutex::new(Some(claim)) }
    }

    fn claim(&self) -> MutexGuard<'_, Option<Claim>> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The word of the home on it, as far as that shows at once: where the home is on another machine, requests wait until it
    /// is stored. A request that it is to answer has come before.
    pub(crate) fn validity_at_once(&self) -> Validity {
        let is_current = self.claim().as_ref().is_some_and(Claim::is_current);
        if is_current { Validity::Current } else { Validity::Invalidated }
    }

    /// Its claim, for the response that is stored; nobody begins to read along after that.
    pub(crate) fn take_claim(&self) -> Option<Claim> {
        self.claim().take()
    }
}
