//! The registry of a store, as a command has it that only asks: what stands there, and of whom nothing is heard.
//!
//! A heartbeat in the registry is a number that changes; for people there is also its time, by the clock of whoever
//! gave it. A command that has looked once can go by that alone, and two clocks may differ: so whoever seems silent is
//! looked at a few times more, and is not called so when the number changes.

use ::registry::{Enlisted, HEARTBEAT, RegistryError, SILENCE, StoreRegistry, Volume, host_name};
use attach::PartitionId;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A store that is not there is looked for this long: one that is being started again is found.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// A party that seems silent is looked at again for no longer than this,
const WATCH_MAX: Duration = Duration::from_secs(5);

/// and as often.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// A clock that is ahead by less is as good as this one.
const AHEAD_MAX: Duration = Duration::from_secs(2);

/// The registry in the store at this address: it is said soon that nobody listens there.
pub(super) fn to_ask(address: &str) -> Result<StoreRegistry, RegistryError> {
    StoreRegistry::connect_within(address, &host_name(), LOOK_WITHIN)
}

/// For how long nothing was heard from the owners of some volumes that are silent, by the volumes' numbers.
pub(super) fn silent_owners(
    registry: &StoreRegistry,
    of: impl Fn(&Volume) -> bool,
) -> Result<BTreeMap<u64, Duration>, RegistryError> {
    let sign = |it: &Volume| {
        let entry = &it.view.entry;
        entry.owner?;
        let (every, silent_after) = (entry.lease / 3, entry.lease);
        Some((it.id.0, Sign { number: it.view.revision, given_at: it.said_at?, every, silent_after }))
    };
    silent(|| Ok(registry.list()?.iter().filter(|it| of(it)).filter_map(sign).collect()))
}

/// The same of members, by the numbers of their partitions.
pub(super) fn silent_members(
    registry: &StoreRegistry,
    of: impl Fn(PartitionId) -> bool,
) -> Result<BTreeMap<u64, Duration>, RegistryError> {
    let sign = |it: &Enlisted| {
        let sign = Sign { number: it.heartbeat, given_at: it.said_at?, every: HEARTBEAT, silent_after: SILENCE };
        Some((it.registrant.member.partition.0, sign))
    };
    let is_one = |it: &&Enlisted| of(it.registrant.member.partition);
    silent(|| Ok(registry.enlisted()?.iter().filter(is_one).filter_map(sign).collect()))
}

/// The holders of a volume that are silent, or no members any more, each in words that say which machine that is.
pub(super) fn away(registry: &StoreRegistry, volume: &Volume) -> Result<Vec<String>, RegistryError> {
    let holders = &volume.view.entry.holders;
    let silent = silent_members(registry, |it| holders.contains(&it))?;
    let members: Vec<_> = registry.enlisted()?.into_iter().map(|it| it.registrant.member.partition).collect();
    let word = |it: &PartitionId| {
        let known = volume.holders.iter().find(|known| known.partition == *it);
        let name = known.map_or_else(|| format!("{:016x}", it.0), ToString::to_string);
        match silent.get(&it.0) {
            Some(silence) => Some(format!("{name}, silent for {} s", silence.as_secs())),
            None if members.contains(it) => None,
            None => Some(format!("{name}, which has left the registry")),
        }
    };
    Ok(holders.iter().filter_map(word).collect())
}

/// A heartbeat.
#[derive(Clone, Copy)]
struct Sign {
    /// Changes with each.
    number: u64,
    /// When it was given, by the clock there.
    given_at: SystemTime,
    /// How often one is given.
    every: Duration,
    /// A party that gives none for longer is silent.
    silent_after: Duration,
}

impl Sign {
    /// Whether it is old, or from a clock that says nothing here.
    fn is_suspect(&self, now: SystemTime) -> bool {
        match now.duration_since(self.given_at) {
            Ok(age) => age > self.silent_after,
            Err(ahead) => ahead.duration() > AHEAD_MAX,
        }
    }
}

/// Those of whom nothing is heard, and for how long: at least for as long as they were looked at.
fn silent(
    mut look: impl FnMut() -> Result<BTreeMap<u64, Sign>, RegistryError>,
) -> Result<BTreeMap<u64, Duration>, RegistryError> {
    let (mut suspects, begun) = (look()?, Instant::now());
    suspects.retain(|_, sign| sign.is_suspect(SystemTime::now()));
    // Half as long again as it may take.
    while let Some(longest) = suspects.values().map(|sign| sign.every * 3 / 2).max()
        && begun.elapsed() < longest.min(WATCH_MAX)
    {
        thread::sleep(WATCH_EVERY.min(longest));
        let now = look()?;
        suspects.retain(|id, sign| now.get(id).is_some_and(|it| it.number == sign.number));
    }
    let age = |sign: Sign| sign.given_at.elapsed().unwrap_or_default().max(begun.elapsed());
    Ok(suspects.into_iter().map(|(id, sign)| (id, age(sign))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_gives_a_sign_is_not_silent_whatever_the_clock_there_says() {
        const HOUR: Duration = Duration::from_secs(3600);
        let now = SystemTime::now();
        let mut looks = 0;
        let found = silent(|| {
            looks += 1;
            let (every, silent_after) = (Duration::from_millis(20), Duration::from_secs(5));
            let sign = |number, given_at| Sign { number, given_at, every, silent_after };
            let moving = 7 + looks;
            Ok([
                (1, sign(7, now)),
                (2, sign(7, now - HOUR)),
                (3, sign(moving, now - HOUR)),
                (4, sign(7, now + HOUR)),
                (5, sign(moving, now + HOUR)),
            ]
            .into())
        });
        let found = found.unwrap();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [2, 4]);
        assert!(found[&2] >= HOUR && found[&4] >= Duration::from_millis(30) && found[&4] < HOUR, "{found:?}");
    }

    #[test]
    fn nobody_is_looked_at_twice_where_all_have_spoken_lately() {
        let mut looks = 0;
        let found = silent(|| {
            looks += 1;
            let (every, silent_after) = (Duration::from_secs(60), Duration::from_secs(5));
            Ok([(1, Sign { number: 1, given_at: SystemTime::now(), every, silent_after })].into())
        });
        assert!(found.unwrap().is_empty());
        assert_eq!(looks, 1);
    }
}
