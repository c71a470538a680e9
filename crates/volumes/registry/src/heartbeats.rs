//! Which members live, as one party sees it: each has said something new lately, by this party's own clock.

use super::SILENCE;
use machines::PartitionId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A member that was silent for this long is struck off the registry.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The heartbeats of members: the last one of each, and when it was first seen.
#[derive(Debug, Default)]
pub(super) struct Heartbeats(BTreeMap<PartitionId, (u64, Instant)>);

impl Heartbeats {
    /// The heartbeats of all members, as they are seen now; gives those that live. One that was never seen before does:
    /// it has its time to say something.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        heartbeats: impl Iterator<Item = (PartitionId, u64)>,
    ) -> BTreeSet<PartitionId> {
        let before = std::mem::take(&mut self.0);
        self.0 = heartbeats
            .map(|(partition, heartbeat)| {
                let known = before.get(&partition).filter(|(last, _)| *last == heartbeat);
                (partition, (heartbeat, known.map_or(now, |(_, since)| *since)))
            })
            .collect();
        let lives = |since: Instant| now.saturating_duration_since(since) < SILENCE;
        self.0.iter().filter(|(_, (_, since))| lives(*since)).map(|(partition, _)| *partition).collect()
    }

    /// Those that have said nothing for this long that they can be forgotten.
    pub(super) fn long_silent(&self, now: Instant) -> Vec<PartitionId> {
        let is_gone = |since: Instant| now.saturating_duration_since(since) >= FORGOTTEN_AFTER;
        self.0.iter().filter(|(_, (_, since))| is_gone(*since)).map(|(partition, _)| *partition).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_ends_a_member_and_a_word_brings_it_back() {
        let (one, other) = (PartitionId(1), PartitionId(2));
        let begun = Instant::now();
        let mut heartbeats = Heartbeats::default();
        let mut hear = |after: Duration, heard: &[(PartitionId, u64)]| {
            let alive = heartbeats.hear(begun + after, heard.iter().copied());
            (alive.into_iter().collect::<Vec<_>>(), heartbeats.long_silent(begun + after))
        };
        assert_eq!(hear(Duration::ZERO, &[(one, 7), (other, 7)]).0, [one, other]);
        assert_eq!(hear(SILENCE / 2, &[(one, 8), (other, 7)]).0, [one, other]);
        assert_eq!(hear(SILENCE, &[(one, 8), (other, 7)]).0, [one]);
        assert_eq!(hear(SILENCE * 2, &[(one, 8), (other, 8)]).0, [other]);
        // One that has left is not remembered.
        assert_eq!(hear(FORGOTTEN_AFTER, &[(other, 8)]), (vec![], vec![]));
        assert_eq!(hear(FORGOTTEN_AFTER * 2, &[(one, 8), (other, 8)]), (vec![one], vec![other]));
    }
}
