//! The holders that a takeover asks for their lists, and how far each list has come.

use crate::acknowledged::{Acknowledged, Due, find};
use crate::messages::holder::{Listed, PartitionId, Stamp};
use alloc::vec::Vec;
use core::time::Duration;
use types::Time;

/// A holder that is in the registry.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) partition: PartitionId,
    pub(super) is_up: bool,
    /// Where its list has come to.
    pub(super) listed: Stamp,
    pub(super) is_listed: bool,
    acknowledged: Option<Acknowledged>,
    /// The acknowledged writes that its list has not shown yet.
    due: Option<Due>,
    /// Another partition answers in its place: it is lost.
    pub(super) is_lost: bool,
    /// Since when it owes an answer.
    waits_since: Option<Time>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Holders(Vec<Holder>);

impl Holders {
    /// The lists of these holders are read again, from here on; of those there were before, sessions that are up stay
    /// so.
    pub(super) fn begin(&mut self, partitions: &[PartitionId], acknowledged: &[Acknowledged], after: Stamp) {
        let up = self.up();
        let holder = |&partition: &PartitionId| Holder {
            partition,
            is_up: up.contains(&partition),
            listed: after,
            is_listed: false,
            acknowledged: find(acknowledged, partition),
            due: find(acknowledged, partition).map(|it| Due::new(it, after)),
            is_lost: false,
            waits_since: None,
        };
        self.0 = partitions.iter().map(holder).collect();
    }

    /// No list of theirs is needed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn find(&mut self, partition: PartitionId) -> Option<&mut Holder> {
        self.0.iter_mut().find(|it| it.partition == partition)
    }

    /// Those with which there is a session.
    pub(super) fn up(&self) -> Vec<PartitionId> {
        self.0.iter().filter(|it| it.is_up).map(|it| it.partition).collect()
    }

    /// Those that have owed an answer for this long.
    pub(super) fn silent(&self, now: Time, silence: Duration) -> Vec<PartitionId> {
        let is_silent = |it: &&Holder| it.waits_since.is_some_and(|since| now >= since + silence);
        self.0.iter().filter(is_silent).map(|it| it.partition).collect()
    }

    /// When the next one will have.
    pub(super) fn silent_at(&self, silence: Duration) -> Option<Time> {
        self.0.iter().filter_map(|it| it.waits_since).map(|since| since + silence).min()
    }
}

impl Holder {
    /// It was asked something.
    pub(super) fn ask(&mut self, now: Time) {
        self.waits_since.get_or_insert(now);
    }

    /// It owes no answer: it has given one, or its session has ended.
    pub(super) fn answered(&mut self) {
        self.waits_since = None;
    }

    /// Whether this is the part of its list that comes next.
    pub(super) fn is_next(&self, listed: &Listed) -> bool {
        !self.is_listed && listed.copies.first().is_none_or(|it| it.stamp > self.listed)
    }

    /// A part of its list has come.
    pub(super) fn list(&mut self, listed: &Listed) {
        if let Some(due) = &mut self.due {
            due.written_back(listed.home);
            due.list(&listed.copies);
        }
        self.listed = listed.copies.last().map_or(self.listed, |it| it.stamp);
        self.is_listed = listed.is_last || listed.copies.is_empty();
    }

    /// Its list is wanted again, from here on.
    pub(super) fn list_again(&mut self, after: Stamp) {
        (self.listed, self.is_listed) = (after, false);
        self.due = self.acknowledged.map(|it| Due::new(it, after));
    }

    /// Whether its list has come, and lacks writes that it has acknowledged.
    pub(super) fn has_gone_back(&self) -> bool {
        self.is_listed && self.due.is_some_and(|due| due.is_left())
    }

    /// Whether its list is not to be waited for: it has come, or will not.
    pub(super) fn is_had(&self) -> bool {
        self.is_listed || self.is_lost || !self.is_up
    }
}
