//! Invariant 5: a slot's value in a cache never goes back, not even over an eviction.

use crate::branches::BranchId;
use crate::ledger::Change;
use crate::value::Stamp;
use crate::violation::{Check, ensure};
use types::{Map, ObjectId, Version};

/// The latest that one client has shown of each object, on the branch that it is on.
#[derive(Clone, Debug, Default)]
pub(crate) struct NeverBack {
    branch: BranchId,
    latest: Map<ObjectId, Version>,
}

impl NeverBack {
    /// The client is on this branch: what it has shown on another one says nothing here.
    pub(crate) fn be_on(&mut self, branch: BranchId) {
        if self.branch != branch {
            *self = Self { branch, ..Self::default() };
        }
    }

    /// The client has forgotten its store, and what it has shown of it.
    pub(crate) fn begin_anew(&mut self) {
        self.latest.clear();
    }

    /// Checks a slot, which shows `seen`.
    pub(crate) fn slot(&mut self, object: ObjectId, seen: Option<Stamp>, changes: &[Change]) -> Check {
        let latest = self.latest.entry(object).or_default();
        // An object without a value looks alike in all its lives: it is considered the first that does not go back.
        let later = changes.iter().find(|change| change.stamp == seen && change.version >= *latest);
        let unwritten = seen.is_none() && *latest == Version::ZERO;
        ensure(later.is_some() || unwritten, "never_back", || {
            format!("{object:?} shows {seen:?}, and has shown what it became at {latest:?}")
        })?;
        if !unwritten {
            *latest = later.map_or(*latest, |change| change.version);
        }
        Ok(())
    }
}
