//! A registry in this process, which several hosts share: each has a clone of it.

use super::{HolderName, Life, Lived, MEMBERS_MAX, Registrant, Registry, RegistryError, SILENCE, Volume};
use machines::{Change, PartitionId, Registered, Restore, View, VolumeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A registry in this process. Each clone is the handle of another party.
pub struct MemoryRegistry {
    shared: Arc<Shared>,
    /// The changes that this party has waited for.
    seen: AtomicU64,
    is_cut_off: AtomicBool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    volumes: BTreeMap<VolumeId, View>,
    /// Members, and when they had their last heartbeat.
    members: BTreeMap<PartitionId, (Registrant, Instant)>,
    /// The lives of members, also of those that are none any more.
    lives: BTreeMap<PartitionId, Lived>,
    /// Members, also those that are none any more.
    names: BTreeMap<PartitionId, HolderName>,
    /// Where the homes of all volumes are reached.
    homes: String,
    /// Counts all changes.
    changes: u64,
}

impl State {
    /// A member is in this life, and was in that one.
    fn live(&mut self, partition: PartitionId, from: Life, to: Life) -> Result<(), RegistryError> {
        let lived = self.lives.get(&partition);
        if lived.is_some_and(|it| !it.life.is_within(from)) {
            return Err(RegistryError::Replaced(partition));
        }
        let heartbeat = lived.map_or(0, |it| it.heartbeat + 1);
        self.lives.insert(partition, Lived { life: to, heartbeat, is_gone: false });
        Ok(())
    }
}

impl MemoryRegistry {
    /// A registry without volumes and without members.
    pub fn new() -> Self {
        Self { shared: Arc::default(), seen: AtomicU64::new(0), is_cut_off: AtomicBool::new(false) }
    }

    /// A new volume, or one in the place of that under this number.
    pub fn create(&self, volume: VolumeId, entry: Registered) {
        self.change_state(|state| {
            let revision = state.changes + 1;
            state.volumes.insert(volume, View { revision, entry });
        });
    }

    /// The homes of all volumes are reached here.
    pub fn homes_are_at(&self, address: &str) {
        self.change_state(|state| address.clone_into(&mut state.homes));
    }

    /// Cuts this party off from the registry, or lets it reach it again.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, SeqCst);
    }

    /// A volume's entry is as it was once: the registry goes back.
    pub fn go_back(&self, volume: VolumeId, view: View) {
        self.change_state(|state| state.volumes.insert(volume, view));
    }

    /// Changes an entry; to this revision, if that is given.
    #[expect(clippy::result_large_err, reason = "the entry as it stands is no error of the registry, but its answer")]
    fn change_to(&self, volume: VolumeId, change: Change, revision: Option<u64>) -> Result<View, Option<View>> {
        self.check().map_err(|_| None)?;
        self.change_state(|state| {
            let Some(view) = state.volumes.get_mut(&volume) else { return Err(None) };
            if view.revision != change.expects || view.entry.epoch > change.entry.epoch {
                return Err(Some(view.clone()));
            }
            let revision = revision.unwrap_or(view.revision + 1);
            *view = View { revision, entry: change.entry };
            Ok(view.clone())
        })
    }

    fn check(&self) -> Result<(), RegistryError> {
        let is_cut_off = self.is_cut_off.load(SeqCst);
        if is_cut_off { Err(RegistryError::Unreachable("this host is cut off from it".to_owned())) } else { Ok(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let changed = change(&mut state);
        state.changes += 1;
        drop(state);
        self.shared.changed.notify_all();
        changed
    }
}

impl Registry for MemoryRegistry {
    fn view(&self, volume: VolumeId) -> Result<View, RegistryError> {
        self.check()?;
        self.state().volumes.get(&volume).cloned().ok_or(RegistryError::NoSuchVolume(volume))
    }

    fn change(&self, volume: VolumeId, change: Change) -> Result<View, Option<View>> {
        self.change_to(volume, change, None)
    }

    fn restore(&self, volume: VolumeId, restore: Restore) -> Result<View, Option<View>> {
        self.change_to(volume, restore.change, Some(restore.revision))
    }

    fn named(&self, volume: VolumeId) -> Result<Volume, RegistryError> {
        let (view, holders) = (self.view(volume)?, self.holders(volume)?);
        let (name, place) = (format!("v{:016x}", volume.0), String::new());
        Ok(Volume { id: volume, name, view, place, holders, said_at: None, gone_without: None })
    }

    fn holders(&self, volume: VolumeId) -> Result<Vec<HolderName>, RegistryError> {
        let holders = self.view(volume)?.entry.holders;
        let state = self.state();
        Ok(holders.iter().filter_map(|it| state.names.get(it).cloned()).collect())
    }

    fn home_address(&self, volume: VolumeId) -> Result<String, RegistryError> {
        self.view(volume)?;
        Ok(self.state().homes.clone())
    }

    fn members(&self) -> Result<Vec<Registrant>, RegistryError> {
        self.check()?;
        let state = self.state();
        let alive = state.members.values().filter(|(_, heartbeat)| heartbeat.elapsed() < SILENCE);
        Ok(alive.map(|(member, _)| member.clone()).collect())
    }

    fn life(&self, partition: PartitionId) -> Result<Option<Lived>, RegistryError> {
        self.check()?;
        Ok(self.state().lives.get(&partition).copied())
    }

    fn begin(&self, partition: PartitionId, from: Life, to: Life) -> Result<(), RegistryError> {
        self.check()?;
        self.change_state(|state| state.live(partition, from, to))
    }

    fn enter(&self, member: &Registrant) -> Result<(), RegistryError> {
        member.check()?;
        self.check()?;
        self.change_state(|state| {
            state.members.retain(|_, (_, heartbeat)| heartbeat.elapsed() < SILENCE);
            let partition = member.member.partition;
            state.live(partition, member.life, member.life)?;
            if state.members.len() >= MEMBERS_MAX && !state.members.contains_key(&partition) {
                return Err(RegistryError::TooManyMembers);
            }
            state.members.insert(partition, (member.clone(), Instant::now()));
            state.names.insert(partition, HolderName::from(member));
            Ok(())
        })
    }

    fn leave(&self, partition: PartitionId) -> Result<(), RegistryError> {
        self.check()?;
        self.change_state(|state| {
            state.members.remove(&partition);
            state.lives.get_mut(&partition).into_iter().for_each(|it| it.is_gone = true);
        });
        Ok(())
    }

    fn wait(&self, within: Duration) {
        let seen = self.seen.load(SeqCst);
        let is_seen = |state: &mut State| state.changes == seen;
        let waited = self.shared.changed.wait_timeout_while(self.state(), within, is_seen);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.seen.store(state.changes, SeqCst);
    }
}

impl Clone for MemoryRegistry {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), ..Self::new() }
    }
}

impl Default for MemoryRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegistry").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::{HostId, Member};

    const VOLUME: VolumeId = VolumeId(7);

    fn registry() -> MemoryRegistry {
        let registry = MemoryRegistry::new();
        registry.create(VOLUME, Registered::new(1 << 20, 2, Duration::from_secs(3)));
        registry
    }

    fn claim(view: &View, host: u64) -> Change {
        let entry = Registered { owner: Some(HostId(host)), ..view.entry.clone() };
        Change { expects: view.revision, entry }
    }

    #[test]
    fn of_two_changes_that_expect_the_same_one_is_made() {
        let one = registry();
        let other = one.clone();
        let seen = one.view(VOLUME).unwrap();
        let made = one.change(VOLUME, claim(&seen, 1)).unwrap();
        assert!(made.revision > seen.revision);
        assert_eq!(other.change(VOLUME, claim(&seen, 2)), Err(Some(made.clone())));
        assert_eq!(other.view(VOLUME).unwrap(), made);
    }

    #[test]
    fn who_is_cut_off_is_told_nothing_and_changes_nothing() {
        let one = registry();
        let other = one.clone();
        let seen = one.view(VOLUME).unwrap();
        one.cut_off(true);
        assert!(matches!(one.view(VOLUME), Err(RegistryError::Unreachable(_))));
        assert_eq!(one.change(VOLUME, claim(&seen, 1)), Err(None));
        assert_eq!(other.view(VOLUME).unwrap(), seen);
    }

    #[test]
    fn each_party_hears_of_a_change_once() {
        let one = registry();
        let other = one.clone();
        let long = Duration::from_secs(60);
        one.wait(long);
        other.wait(long);
        let waiting = std::thread::spawn(move || other.wait(long));
        let begun = Instant::now();
        one.create(VolumeId(8), Registered::new(1 << 20, 1, Duration::from_secs(3)));
        waiting.join().unwrap();
        one.wait(long);
        assert!(begun.elapsed() < long);
        one.wait(Duration::ZERO);
        assert_eq!(one.view(VolumeId(9)), Err(RegistryError::NoSuchVolume(VolumeId(9))));
    }

    #[test]
    fn members_enter_and_leave() {
        let registry = registry();
        let (partition, domain) = (PartitionId(3), super::super::domain("rack 1"));
        let member = Member { partition, domain, free: 9, copies: 0, is_nearly_full: false };
        let life = Life { incarnation: 2, number: 7 };
        let member = Registrant {
            member,
            life,
            address: "127.0.0.1:9".into(),
            name: "peer".into(),
            domain: String::new(),
            is_disk_full: false,
        };
        registry.enter(&member).unwrap();
        let renewed = Registrant { member: Member { free: 5, ..member.member }, ..member.clone() };
        registry.enter(&renewed).unwrap();
        assert_eq!(registry.members().unwrap(), [renewed]);
        let nameless = Registrant { name: "a b".into(), ..member };
        assert!(matches!(registry.enter(&nameless), Err(RegistryError::Registrant(_))));
        registry.leave(PartitionId(3)).unwrap();
        assert_eq!(registry.members().unwrap(), []);
    }
}
