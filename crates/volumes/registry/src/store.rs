//! The registry as objects in a store: changed by transactions, read from the cache, of whose changes an invalidation
//! tells.
//!
//! 1. A change is a transaction that reads the entry and writes it: of two that expect one revision, the store refuses
//!    one.
//! 2. A read is answered from the cache, and may be behind by an invalidation that is under way, or by more while the
//!    store is not to be had. A host is wrong by that about what it sees, and by nothing else: what it then asks for
//!    expects what it saw.
//! 3. A call ends within the client's patience; a change whose outcome is not known by then may still be made.

use super::entries::{Directory, Entry, Listed, MemberEntry, PLACE_BYTES_MAX, VolumeEntry};
use super::heartbeats::Heartbeats;
use super::step::{Failed, Spaces, Step};
use super::{
    Enlisted, HolderName, HomeNode, Life, Lived, MEMBERS_MAX, NAME_BYTES_MAX, Registrant, Registry, RegistryError,
    VOLUMES_MAX, Volume,
};
use bytes::Bytes;
use database::{Cure, Database, Error, MEMBERS_SPACE, Transaction, Tries, VOLUMES_SPACE, block_on};
use machines::{Change, PartitionId, Registered, Restore, View, VolumeId};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use types::{GoodbyeReason, NodeId};

/// How long a call waits for the store.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long the first connection to it is tried.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A store that is another one is connected to again within this time, or later.
const CONNECT_AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// The registry's objects are few.
const CACHE_BYTES: usize = 4 << 20;

/// A registry in a store. Each party has one of its own.
pub struct StoreRegistry {
    /// The store's client; another one when the store is another one.
    database: Mutex<Arc<Database>>,
    /// Where the store is reached, if it is elsewhere.
    addresses: Option<String>,
    /// Where this party is, for people.
    place: String,
    seen: Mutex<Seen>,
}

/// Everything that this party has seen.
#[derive(Default)]
struct Seen {
    heartbeats: Heartbeats,
    /// The volumes that were asked for.
    asked: BTreeSet<VolumeId>,
    /// The state of it when it was waited last.
    last: Vec<Option<Bytes>>,
}

impl StoreRegistry {
    /// Connects to the store at these addresses. `place` says where this party is, for people.
    ///
    /// # Errors
    /// [`RegistryError::Unreachable`].
    pub fn connect(addresses: &str, place: &str) -> Result<Self, RegistryError> {
        Self::connect_within(addresses, place, CONNECT_WITHIN)
    }

    /// The same; each address is tried once, and then again for this long.
    ///
    /// # Errors
    /// [`RegistryError::Unreachable`].
    pub fn connect_within(addresses: &str, place: &str, within: Duration) -> Result<Self, RegistryError> {
        let database = connect(addresses, within)?;
        Ok(Self { addresses: Some(addresses.to_owned()), ..Self::over(database, place)? })
    }

    /// The registry of an open store.
    ///
    /// # Errors
    /// [`RegistryError::Unreachable`].
    pub fn over(database: Arc<Database>, place: &str) -> Result<Self, RegistryError> {
        let place = place.chars().filter(|it| !it.is_control()).collect::<String>();
        let place = place.chars().take(PLACE_BYTES_MAX / 4).collect();
        let (database, addresses, seen) = (Mutex::new(database), None, Mutex::default());
        let registry = Self { database, addresses, place, seen };
        registry.store()?;
        Ok(registry)
    }

    /// The nodes of the store that have an address, the one that has answered first before the others. A store of one
    /// node is reached where this party has connected to.
    ///
    /// # Errors
    /// Why the store has not said.
    pub fn nodes(&self) -> Result<Vec<HomeNode>, RegistryError> {
        // A node says where the others are before it answers anything.
        let (database, _) = self.store()?;
        let known = database.look(|client| client.store_nodes());
        if known.is_empty() {
            let address = self.addresses.clone().unwrap_or_default();
            return Ok(vec![HomeNode { node: NodeId(0), address }]);
        }
        Ok(known.into_iter().map(|(node, address)| HomeNode { node, address }).collect())
    }

    /// The node that keeps the home of a volume.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchVolume`], [`RegistryError::NoSuchNode`], or why the store has not said.
    pub fn home(&self, volume: VolumeId) -> Result<HomeNode, RegistryError> {
        let node = self.look(|step| Ok(step.listed(volume)?.home()))?;
        self.nodes()?.into_iter().find(|it| it.node == node).ok_or(RegistryError::NoSuchNode(node))
    }

    fn database(&self) -> Arc<Database> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store's client, and its spaces of volumes and of members, which are made if they are not there. A store that
    /// was lost is another one: its client is over, and its spaces may have other numbers.
    fn store(&self) -> Result<(Arc<Database>, Spaces), RegistryError> {
        let database = self.database();
        match (spaces(&database), &self.addresses) {
            (Err(Error::SessionEnded(GoodbyeReason::WrongCluster, _)), Some(addresses)) => {
                let mut current = self.database.lock().unwrap_or_else(PoisonError::into_inner);
                if Arc::ptr_eq(&current, &database) {
                    *current = connect(addresses, CONNECT_AGAIN_WITHIN)?;
                }
                let found = spaces(&current).map_err(|error| unreachable(&error))?;
                Ok((current.clone(), found))
            }
            (found, _) => Ok((database, found.map_err(|error| unreachable(&error))?)),
        }
    }

    /// Makes a volume of this name, whose home this node keeps.
    ///
    /// # Errors
    /// [`RegistryError::Name`], [`RegistryError::NameTaken`], [`RegistryError::TooManyVolumes`], or why the store has
    /// not done it.
    pub fn create(&self, name: &str, volume: VolumeId, entry: &Registered, home: NodeId) -> Result<(), RegistryError> {
        check_name(name)?;
        self.transact(|step| {
            let root = step.volumes();
            let mut directory = step.read_or_default::<Directory>(root)?;
            // It is made again if the outcome of making it was not known.
            if directory.entries.iter().any(|it| it.name == name && it.id == volume.0) {
                return Ok(());
            }
            if directory.entries.iter().any(|it| it.name == name || it.id == volume.0) {
                return Err(RegistryError::NameTaken(name.to_owned()).into());
            }
            if directory.entries.len() >= VOLUMES_MAX {
                return Err(RegistryError::TooManyVolumes.into());
            }
            let view = View { revision: 1, entry: entry.clone() };
            let object = step.create(step.spaces.volumes, &VolumeEntry::new(&view, "", SystemTime::now()))?;
            directory.entries.push(Listed::new(volume.0, name, object).at(home));
            step.write(root, &directory)
        })
    }

    /// The volume of this name.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchName`], or why the store has not said.
    pub fn find(&self, name: &str) -> Result<Volume, RegistryError> {
        let found = self.transact(|step| {
            let directory = step.read_or_default::<Directory>(step.volumes())?;
            directory.entries.iter().find(|it| it.name == name).map(|it| step.volume(it)).transpose()
        });
        found?.ok_or_else(|| RegistryError::NoSuchName(name.to_owned()))
    }

    /// All volumes.
    ///
    /// # Errors
    /// Why the store has not said.
    pub fn list(&self) -> Result<Vec<Volume>, RegistryError> {
        self.transact(|step| {
            let directory = step.read_or_default::<Directory>(step.volumes())?;
            directory.entries.iter().map(|it| step.volume(it)).collect()
        })
    }

    /// All members, those that are silent among them.
    ///
    /// # Errors
    /// Why the store has not said.
    pub fn enlisted(&self) -> Result<Vec<Enlisted>, RegistryError> {
        let members = self.transact(|step| step.member_entries(|_| true))?;
        Ok(members.into_iter().filter(|it| !it.lived().is_gone).map(MemberEntry::enlisted).collect())
    }

    /// Puts an entry in the place of the one of this revision, or of none, which was lost. This node has the home.
    ///
    /// # Errors
    /// [`RegistryError::Changed`], [`RegistryError::NameTaken`], [`RegistryError::TooManyVolumes`], or why the store
    /// has not done it.
    pub fn rebuild(&self, volume: &Volume, home: NodeId, instead_of: Option<u64>) -> Result<(), RegistryError> {
        let Volume { id, name, view, place, .. } = volume;
        check_name(name)?;
        let entry = VolumeEntry::new(view, place, SystemTime::now()).with_names(&volume.holders);
        self.transact(|step| {
            let root = step.volumes();
            let mut directory = step.read_or_default::<Directory>(root)?;
            let at = directory.entries.iter().position(|it| it.id == id.0);
            let listed = at.map(|at| directory.entries[at].clone());
            let standing = listed.as_ref().map(|it| step.expect::<VolumeEntry>(it.object())).transpose()?;
            let standing = standing.map(|it| it.view());
            // It is made again if the outcome of making it was not known.
            if standing.as_ref() == Some(view) {
                return Ok(());
            }
            if standing.map(|it| it.revision) != instead_of {
                return Err(RegistryError::Changed(name.clone()).into());
            }
            if let Some((at, listed)) = at.zip(listed) {
                step.write(listed.object(), &entry)?;
                if listed.home() == home {
                    return Ok(());
                }
                directory.entries[at] = listed.at(home);
                return step.write(root, &directory);
            }
            if directory.entries.iter().any(|it| it.name == *name) {
                return Err(RegistryError::NameTaken(name.clone()).into());
            }
            if directory.entries.len() >= VOLUMES_MAX {
                return Err(RegistryError::TooManyVolumes.into());
            }
            let object = step.create(step.spaces.volumes, &entry)?;
            directory.entries.push(Listed::new(id.0, name, object).at(home));
            step.write(root, &directory)
        })
    }

    /// Removes a volume that nobody has attached, and whose copies are all home.
    ///
    /// # Errors
    /// [`RegistryError::NoSuchName`], [`RegistryError::Attached`], or why the store has not done it.
    pub fn remove(&self, name: &str) -> Result<VolumeId, RegistryError> {
        self.transact(|step| {
            let root = step.volumes();
            let mut directory = step.read_or_default::<Directory>(root)?;
            let found = directory.entries.iter().position(|it| it.name == name);
            let at = found.ok_or_else(|| RegistryError::NoSuchName(name.to_owned()))?;
            let listed = directory.entries.remove(at);
            let volume = step.volume(&listed)?;
            if volume.view.entry.owner.is_some() || !volume.view.entry.holders.is_empty() {
                return Err(RegistryError::Attached(name.to_owned(), volume.place).into());
            }
            step.delete(listed.object())?;
            step.write(root, &directory)?;
            Ok(volume.id)
        })
    }

    /// Ends the session with the store.
    pub fn close(&self) {
        // An error says that it has ended already.
        let _ = self.database().close();
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `steps` in a transaction that takes effect as a whole, as often as it takes.
    fn transact<R>(&self, mut steps: impl FnMut(&Step<'_>) -> Result<R, Failed>) -> Result<R, RegistryError> {
        let (database, spaces) = self.store()?;
        let mut tries = Tries::begin(&database);
        loop {
            let transaction = Transaction::begin(&database).map_err(|error| unreachable(&error))?;
            let txn = transaction.handle();
            let step = Step { database: &database, txn, spaces };
            let done = match steps(&step) {
                // A refusal is true of what was read, so that should be current, too, which a doomed transaction is
                // not.
                Err(Failed::Final(error)) => match step.is_read_only() {
                    Ok(true) => Ok(Err(error)),
                    Ok(false) => return Err(error),
                    Err(doomed) => Err(doomed),
                },
                Err(Failed::Store(error)) => Err(error),
                Ok(done) => Ok(Ok(done)),
            };
            let done = done.and_then(|done| block_on(transaction.commit(Some(&tries))).map(|_| done));
            let error = match done {
                Ok(done) => return done,
                Err(error) => error,
            };
            let cure = Cure::of(&error).filter(|&cure| block_on(tries.pause(cure, txn)).is_ok());
            cure.ok_or_else(|| unreachable(&error))?;
        }
    }

    /// Reads what the cache has, without asking whether it is the newest; unless something is missing there.
    fn look<R>(&self, mut steps: impl FnMut(&Step<'_>) -> Result<R, Failed>) -> Result<R, RegistryError> {
        let (database, spaces) = self.store()?;
        loop {
            let transaction = Transaction::begin(&database).map_err(|error| unreachable(&error))?;
            match steps(&Step { database: &database, txn: transaction.handle(), spaces }) {
                Ok(done) => return Ok(done),
                Err(Failed::Store(Error::Doomed)) => {}
                Err(Failed::Store(error)) => return Err(unreachable(&error)),
                Err(Failed::Final(_)) => return self.transact(steps),
            }
        }
    }

    /// Changes an entry to this revision.
    #[expect(clippy::result_large_err, reason = "the entry as it stands is no error of the registry, but its answer")]
    fn change_to(&self, volume: VolumeId, change: Change, revision: u64) -> Result<View, Option<View>> {
        let Change { expects, entry } = change;
        let made = View { revision, entry };
        let written = VolumeEntry::new(&made, &self.place, SystemTime::now());
        if !written.is_sound() {
            return Err(None);
        }
        let is_holder = |id| made.entry.holders.iter().any(|it| it.0 == id);
        // From the cache: with what members say all the time the change would be refused as often.
        let members = self.look(|step| step.member_entries(is_holder)).map_err(|_| None)?;
        let standing = self.transact(|step| {
            let object = step.place_of(volume)?;
            let standing = step.expect::<VolumeEntry>(object)?;
            // An epoch never goes back: a registry that has may have come to the same revision by other changes.
            let stands = standing.view();
            if stands.revision != expects || stands.entry.epoch > made.entry.epoch {
                return Ok(Some(stands));
            }
            // Names are for people: a page without room for them has it for the rest.
            let named = written.clone().behind(&standing).with_holders(&members, &standing);
            if !step.write_if_room(object, &named)? {
                step.write(object, &written)?;
            }
            Ok(None)
        });
        match standing {
            Ok(None) => Ok(made),
            // Also if it stands as it was to be: the change that did that was asked for earlier than this one.
            Ok(Some(view)) => Err(Some(view)),
            Err(_) => Err(None),
        }
    }

    /// Removes the members that have been silent for long. A member that comes back enters again.
    fn forget_silent(&self) -> Result<(), RegistryError> {
        let silent = self.seen().heartbeats.long_silent(Instant::now());
        silent.into_iter().try_for_each(|partition| {
            let is_needed = self.look(|step| {
                let is_gone = step.member_entries(|id| id == partition.0)?.iter().all(|it| it.lived().is_gone);
                Ok(is_gone && step.is_counted_on(partition)?)
            })?;
            if is_needed { Ok(()) } else { self.leave(partition) }
        })
    }
}

impl Registry for StoreRegistry {
    fn view(&self, volume: VolumeId) -> Result<View, RegistryError> {
        self.seen().asked.insert(volume);
        self.look(|step| Ok(step.expect::<VolumeEntry>(step.place_of(volume)?)?.view()))
    }

    fn change(&self, volume: VolumeId, change: Change) -> Result<View, Option<View>> {
        let revision = change.expects + 1;
        self.change_to(volume, change, revision)
    }

    fn restore(&self, volume: VolumeId, restore: Restore) -> Result<View, Option<View>> {
        self.change_to(volume, restore.change, restore.revision)
    }

    fn named(&self, volume: VolumeId) -> Result<Volume, RegistryError> {
        self.look(|step| step.volume(&step.listed(volume)?))
    }

    fn holders(&self, volume: VolumeId) -> Result<Vec<HolderName>, RegistryError> {
        self.look(|step| Ok(step.expect::<VolumeEntry>(step.place_of(volume)?)?.holders()))
    }

    fn members(&self) -> Result<Vec<Registrant>, RegistryError> {
        let members = self.look(|step| step.member_entries(|_| true))?;
        let mut seen = self.seen();
        let heartbeats = members.iter().map(|it| (it.partition(), it.heartbeat));
        let alive = seen.heartbeats.hear(Instant::now(), heartbeats);
        let is_alive = |it: &MemberEntry| alive.contains(&it.partition()) && !it.lived().is_gone;
        Ok(members.into_iter().filter(is_alive).map(MemberEntry::registrant).collect())
    }

    fn life(&self, partition: PartitionId) -> Result<Option<Lived>, RegistryError> {
        self.transact(|step| Ok(step.member_entry(partition)?.map(|(_, entry)| entry.lived())))
    }

    fn begin(&self, partition: PartitionId, from: Life, to: Life) -> Result<(), RegistryError> {
        self.transact(|step| {
            let Some((object, entry)) = step.member_entry(partition)? else { return Ok(()) };
            // It is made again if the outcome of making it was not known.
            if entry.lived().life == to {
                return Ok(());
            }
            step.write(object, &entry.live(from, to).ok_or(RegistryError::Replaced(partition))?)
        })
    }

    fn enter(&self, member: &Registrant) -> Result<(), RegistryError> {
        member.check()?;
        let partition = member.member.partition;
        self.transact(|step| {
            let root = step.members();
            let mut directory = step.read_or_default::<Directory>(root)?;
            if let Some(listed) = directory.entries.iter().find(|it| it.id == partition.0) {
                let entry = step.expect::<MemberEntry>(listed.object())?;
                let entry = entry.live(member.life, member.life).ok_or(RegistryError::Replaced(partition))?;
                return step.write(listed.object(), &MemberEntry::new(member, entry.heartbeat, SystemTime::now()));
            }
            if directory.entries.len() >= MEMBERS_MAX {
                return Err(RegistryError::TooManyMembers.into());
            }
            let object = step.create(step.spaces.members, &MemberEntry::new(member, 0, SystemTime::now()))?;
            directory.entries.push(Listed::new(partition.0, &member.name, object));
            step.write(root, &directory)
        })?;
        // The others' heartbeats are looked at now and then, so that their silence is noticed.
        self.members()?;
        self.forget_silent()
    }

    fn leave(&self, partition: PartitionId) -> Result<(), RegistryError> {
        self.transact(|step| {
            let root = step.members();
            let mut directory = step.read_or_default::<Directory>(root)?;
            let Some(at) = directory.entries.iter().position(|it| it.id == partition.0) else { return Ok(()) };
            if step.is_counted_on(partition)? {
                let object = directory.entries[at].object();
                return step.write(object, &step.expect::<MemberEntry>(object)?.gone());
            }
            step.delete(directory.entries.remove(at).object())?;
            step.write(root, &directory)
        })
    }

    fn home_address(&self, volume: VolumeId) -> Result<String, RegistryError> {
        Ok(self.home(volume)?.address)
    }

    fn wait(&self, within: Duration) {
        let until = Instant::now() + within;
        let asked = self.seen().asked.clone();
        loop {
            let store = self.store().ok().and_then(|(database, spaces)| {
                let transaction = Transaction::begin(&database).ok()?;
                Some((database, spaces, transaction))
            });
            let Some((database, spaces, transaction)) = store else {
                return std::thread::sleep(until.saturating_duration_since(Instant::now()));
            };
            let txn = transaction.handle();
            let found = Step { database: &database, txn, spaces }.watched(&asked);
            let left = until.saturating_duration_since(Instant::now());
            match found {
                Ok(found) => {
                    let last = std::mem::replace(&mut self.seen().last, found.clone());
                    if last != found || left.is_zero() {
                        return;
                    }
                    // A transaction waits for no longer than the client is patient.
                    let until = database.now() + left.min(PATIENCE / 2);
                    // It is looked again, whatever has ended the wait.
                    let _ = block_on(database.await_doom(txn, until));
                }
                Err(_) if left.is_zero() => return,
                Err(Failed::Store(Error::Doomed)) => {}
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(200))),
            }
        }
    }
}

impl fmt::Debug for StoreRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRegistry").field("place", &self.place).finish_non_exhaustive()
    }
}

/// A name is a word wherever it may stand.
fn check_name(name: &str) -> Result<(), RegistryError> {
    database::check_name(name)
        .ok()
        .filter(|()| name.len() <= NAME_BYTES_MAX)
        .ok_or_else(|| RegistryError::Name(name.to_owned()))
}

fn connect(addresses: &str, within: Duration) -> Result<Arc<Database>, RegistryError> {
    let mut config = database::Config { connect_within: within, ..database::Config::default() };
    config.client = client::Config { cache_bytes_limit: CACHE_BYTES, patience: PATIENCE, ..config.client };
    Database::connect(addresses, &config).map_err(|error| unreachable(&error))
}

fn spaces(database: &Arc<Database>) -> Result<Spaces, Error> {
    let space = |name| block_on(database.space(name, true));
    Ok(Spaces { volumes: space(VOLUMES_SPACE)?, members: space(MEMBERS_SPACE)? })
}

fn unreachable(error: &Error) -> RegistryError {
    RegistryError::Unreachable(error.to_string())
}
