//! The circle of members: which partitions keep a volume's copies.
//!
//! Members stand on a circle at points that their numbers give, and so does a volume. The next ones behind the volume's
//! point are its candidates: when a member joins or leaves, few volumes have other ones. Of the candidates those with
//! the most benefit are taken, free space / degree of replication (CoopReplica paper, equation 1), and none in a
//! failure domain twice while there is another.

use crate::messages::holder::{PartitionId, VolumeId};
use alloc::vec::Vec;
use core::cmp::Reverse;
use types::splitmix;

/// A member: a partition, as it is known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The partition.
    pub partition: PartitionId,
    /// Its failure domain: what dies with it.
    pub domain: u64,
    /// The room that it has free.
    pub free: u64,
    /// Its degree of replication: the copies that it keeps.
    pub copies: u64,
    /// Whether it wants no more volumes, and copies of those that it has to go elsewhere. See
    /// [`crate::Holder::is_nearly_full`].
    pub is_nearly_full: bool,
}

/// The members that are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) count: usize,
    /// The room that each has free at least.
    pub(crate) bytes: u64,
}

/// Points of a member on the circle: with several, its share is nearer to the others'.
const POINTS: u64 = 16;

/// Candidates for each one that is needed.
const CANDIDATES: usize = 3;

/// The circle.
#[derive(Clone, Debug, Default)]
pub struct Circle {
    members: Vec<Member>,
    /// Points, and the places of their members.
    points: Vec<(u64, usize)>,
}

impl Circle {
    /// A circle of these members.
    pub fn new(members: Vec<Member>) -> Self {
        let point = |partition: PartitionId, number| mix(mix(partition.0) ^ number);
        let points_of = |(place, member): (usize, &Member)| {
            let partition = member.partition;
            (0..POINTS).map(move |number| (point(partition, number), place))
        };
        let mut points: Vec<_> = members.iter().enumerate().flat_map(points_of).collect();
        points.sort_unstable();
        Self { members, points }
    }

    /// Whether this is one of the members.
    pub fn has(&self, partition: PartitionId) -> bool {
        self.members.iter().any(|it| it.partition == partition)
    }

    /// Whether this member says that it is nearly full.
    pub(crate) fn is_nearly_full(&self, partition: PartitionId) -> bool {
        self.members.iter().any(|it| it.partition == partition && it.is_nearly_full)
    }

    /// Up to `count` partitions for copies of a volume, the best first, outside of the failure domain `own` and of
    /// those of the partitions in `taken`, which are none of them.
    pub fn targets(&self, volume: VolumeId, own: u64, taken: &[PartitionId], count: usize) -> Vec<PartitionId> {
        self.targets_with(volume, own, taken, Need { count, bytes: 1 })
    }

    /// The same, of those that have this much room.
    pub(crate) fn targets_with(
        &self,
        volume: VolumeId,
        own: u64,
        taken: &[PartitionId],
        need: Need,
    ) -> Vec<PartitionId> {
        let count = need.count;
        let mut domains: Vec<u64> =
            self.members.iter().filter(|it| taken.contains(&it.partition)).map(|it| it.domain).collect();
        let mut targets = Vec::new();
        let mut candidates = self.candidates(volume, own, taken, Need { count: CANDIDATES * count, ..need });
        while targets.len() < count && !candidates.is_empty() {
            let by = |it: &Member| (!domains.contains(&it.domain), Benefit::of(it));
            let best =
                (0..candidates.len()).max_by_key(|&at| (by(&candidates[at]), Reverse(at))).expect("there are some");
            let member = candidates.remove(best);
            domains.push(member.domain);
            targets.push(member.partition);
        }
        targets
    }

    /// The next members behind the volume's point.
    fn candidates(&self, volume: VolumeId, own: u64, taken: &[PartitionId], need: Need) -> Vec<Member> {
        let point = mix(volume.0);
        let first = self.points.partition_point(|&(at, _)| at < point);
        let (before, behind) = self.points.split_at(first);
        let mut candidates: Vec<Member> = Vec::new();
        for &(_, place) in behind.iter().chain(before) {
            let member = self.members[place];
            let has_room = member.free >= need.bytes && !member.is_nearly_full;
            let is_one = member.domain != own && has_room && !taken.contains(&member.partition);
            if is_one && !candidates.contains(&member) {
                candidates.push(member);
            }
            if candidates.len() == need.count {
                break;
            }
        }
        candidates
    }
}

/// Free space / degree of replication, to be compared without a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Benefit {
    free: u64,
    copies: u64,
}

impl Benefit {
    fn of(member: &Member) -> Self {
        Self { free: member.free, copies: member.copies.max(1) }
    }
}

impl Ord for Benefit {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.free, other.copies).cmp(&product(other.free, self.copies))
    }
}

impl PartialOrd for Benefit {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers side by side are far apart on the circle.
fn mix(mut number: u64) -> u64 {
    splitmix(&mut number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn member(number: u64, domain: u64, free: u64, copies: u64) -> Member {
        Member { partition: PartitionId(number), domain, free, copies, is_nearly_full: false }
    }

    fn even(count: u64) -> Vec<Member> {
        (0..count).map(|number| member(number, number, 100, 0)).collect()
    }

    #[test]
    fn the_best_of_the_candidates_in_other_domains() {
        let members = vec![member(1, 7, 900, 0), member(2, 8, 100, 1), member(3, 9, 400, 8), member(4, 8, 90, 1)];
        let circle = Circle::new(members);
        let targets = |taken: &[PartitionId], count| circle.targets(VolumeId(5), 7, taken, count);
        // The owner's own domain has the most room. 2 and 4 share a domain: 3 goes before 4 although it is worse.
        assert_eq!(targets(&[], 3), [2, 3, 4].map(PartitionId));
        assert_eq!(targets(&[PartitionId(2)], 1), [PartitionId(3)]);
        assert_eq!(targets(&[2, 3, 4].map(PartitionId), 1), []);
    }

    #[test]
    fn a_member_without_room_is_no_target() {
        let circle = Circle::new(vec![member(1, 1, 0, 0), member(2, 2, 1, 50)]);
        assert_eq!(circle.targets(VolumeId(1), 0, &[], 2), [PartitionId(2)]);
        assert_eq!(circle.targets_with(VolumeId(1), 0, &[], Need { count: 2, bytes: 2 }), []);
        let circle = Circle::new(vec![Member { is_nearly_full: true, ..member(1, 1, 9, 0) }, member(2, 2, 1, 50)]);
        assert_eq!(circle.targets(VolumeId(1), 0, &[], 2), [PartitionId(2)]);
    }

    #[test]
    fn few_volumes_move_when_a_member_joins() {
        let (before, after) = (Circle::new(even(10)), Circle::new(even(11)));
        let candidates =
            |circle: &Circle, volume| circle.candidates(VolumeId(volume), u64::MAX, &[], Need { count: 1, bytes: 1 });
        let moved = (0..1000).filter(|&volume| candidates(&before, volume) != candidates(&after, volume)).count();
        assert!((20..250).contains(&moved), "{moved} of 1000 moved to the eleventh");
    }
}
