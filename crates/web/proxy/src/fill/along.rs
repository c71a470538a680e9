//! A response whose body is still arriving: requests that wait for it may read along.
//!
//! A request that had come before the origin was asked shares it: it is as well answered as the one that asked (rule
//! AskAfterJoining). For one that came later the home has to have stored the response. The place there is taken when
//! the head of the response is there, so from then on an update finds it. The request looks at it as at a stored one,
//! after it has come (rule LookAlong), and nothing may have been removed under the key since the origin was asked: it
//! is answered with what the cache is about to have, or waits on (rule JoinersNeedStored).

use crate::fill::collect::Body;
use crate::stored::coherence::Claim;
use crate::stored::entries::Removals;
use responses::{Stored, Validity};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A response whose body is arriving.
#[derive(Debug)]
pub(crate) struct Along {
    pub(crate) stored: Stored,
    pub(crate) since: Since,
    pub(crate) body: Body,
    /// None when it is stored as all others are, or not any more, or was not to be.
    claim: Mutex<Option<Claim>>,
}

/// As of when the origin was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    pub(crate) removals: Removals,
    /// How often what is stored had lapsed for new settings.
    pub(crate) lapses: u64,
}

impl Along {
    /// One that has a claim if its home has stored it.
    pub(crate) fn new(stored: Stored, since: Since, body: Body, claim: Option<Claim>) -> Self {
        Self { stored, since, body, claim: Mutex::new(claim) }
    }

    fn claim(&self) -> MutexGuard<'_, Option<Claim>> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it answers a request that shares it or not, by the rules of coherent responses and what was removed, as
    /// far as that shows at once: where the home is on another machine, requests that came later wait until it is
    /// stored. `removals` are those of now.
    pub(crate) fn validity_at_once(&self, shares: bool, removals: Removals) -> Validity {
        let is_claimed = || self.claim().as_ref().is_some_and(Claim::is_current);
        let is_current = shares || self.since.removals == removals && is_claimed();
        if is_current { Validity::Current } else { Validity::Invalidated }
    }

    /// Its claim, for the response that is stored; nobody that came later begins to read along after that.
    pub(crate) fn take_claim(&self) -> Option<Claim> {
        self.claim().take()
    }
}
