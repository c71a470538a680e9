//! A directory in memory that behaves like the worst that a file system may do: what was not synced may be there, in
//! whole or in part, in any order, or not; a sync that fails forgets what it was to keep and says so only once.

mod blocks;

use self::blocks::Blocks;
use crate::aligned::BLOCK;
use crate::files::{File, Files, How, Lock, Locking};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// The smallest part of a write that a disk keeps or loses, in bytes.
pub const SECTOR: usize = 512;

/// A fault at an operation, counted from the first one.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// That one fails, and so many after it.
    Error(u64, Errno, u64),
    /// Nothing happens from then on.
    Crash(u64),
    /// Nothing can be changed or synced from then on; what is there can be read.
    ReadOnly(u64),
    /// The caller of that one panics.
    Panic(u64),
}

/// Numbers that look random and are the same every time.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number from 0 to `sides - 1`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

#[derive(Clone, Debug)]
enum Change {
    Bytes(usize, Arc<[u8]>),
    Len(usize),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Blocks,
    current: Blocks,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Put(String, usize),
    Gone(String),
}

/// Told of a directory after each change of it.
type Watcher = Arc<dyn Fn(Memory) + Send + Sync>;

#[derive(Default)]
struct State {
    inodes: Vec<Arc<Inode>>,
    durable_names: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    pending_names: Vec<NameChange>,
    operations: u64,
    fault: Option<Fault>,
    crashed: bool,
    locked: bool,
    watcher: Option<Watcher>,
}

impl State {
    fn inode(&mut self, inode: usize) -> &mut Inode {
        Arc::make_mut(&mut self.inodes[inode])
    }

    /// The same directory for another process.
    fn copy(&self) -> Memory {
        let copy = Self {
            inodes: self.inodes.clone(),
            durable_names: self.durable_names.clone(),
            names: self.names.clone(),
            pending_names: self.pending_names.clone(),
            ..Self::default()
        };
        Memory(Arc::new(Mutex::new(copy)))
    }

    /// Something has changed: whoever watches is told before anything else happens here.
    fn changed(&self) {
        if let Some(watcher) = &self.watcher {
            watcher(self.copy());
        }
    }

    /// The directory after a power failure that so many changes of names have survived, and of the files what `torn`
    /// says.
    fn failed(&self, names_survive: usize, torn: impl FnMut(&Arc<Inode>) -> Arc<Inode>) -> Memory {
        let mut names = self.durable_names.clone();
        for change in &self.pending_names[..names_survive] {
            match change {
                NameChange::Put(name, inode) => drop(names.insert(name.clone(), *inode)),
                NameChange::Gone(name) => drop(names.remove(name)),
            }
        }
        let inodes = self.inodes.iter().map(torn).collect();
        Memory(Arc::new(Mutex::new(Self { inodes, durable_names: names.clone(), names, ..Self::default() })))
    }
}

/// The directory.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

fn apply(bytes: &mut Blocks, change: &Change) {
    match change {
        Change::Len(len) => bytes.resize(*len),
        Change::Bytes(at, new) => bytes.write(*at, new),
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The same for an operation that changes something, or syncs it.
    fn changing(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.operation()?;
        match state.fault {
            Some(Fault::ReadOnly(at)) if state.operations > at => Err(Errno::IO.into()),
            _ => Ok(state),
        }
    }

    /// Counts an operation, and lets happen to it what was planned.
    fn operation(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        let now = state.operations;
        state.operations += 1;
        match state.fault {
            _ if state.crashed => Err(io::Error::other("crashed")),
            Some(Fault::Error(at, errno, more)) if (at..=at.saturating_add(more)).contains(&now) => Err(errno.into()),
            Some(Fault::Crash(at)) if at == now => {
                state.crashed = true;
                drop(state);
                Err(io::Error::other("crashed"))
            }
            Some(Fault::Panic(at)) if at == now => {
                drop(state);
                panic!("operation {at}")
            }
            _ => Ok(state),
        }
    }

    /// Plans a fault, and counts from here.
    pub fn plan(&self, fault: Option<Fault>) {
        let mut state = self.state();
        (state.fault, state.operations) = (fault, 0);
    }

    /// How many operations there were since the last plan.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Has `watcher` told of this directory after each change, as a copy of its own. It is called under this
    /// directory's lock, so changes are told in the order in which they happen.
    pub fn watch(&self, watcher: impl Fn(Self) + Send + Sync + 'static) {
        self.state().watcher = Some(Arc::new(watcher));
    }

    /// The same directory for another process, after this one has been killed: nothing is lost.
    pub fn after_kill(&self) -> Self {
        self.state().copy()
    }

    /// The directory after a power failure: of what was not synced, the dice decide what is there.
    pub fn after_power_failure(&self, dice: &mut Dice) -> Self {
        self.after_power_failure_of(SECTOR, dice)
    }

    /// Returns the directory after a power failure of a disk that keeps or loses `sector` bytes of a write at a time.
    pub fn after_power_failure_of(&self, sector: usize, dice: &mut Dice) -> Self {
        let state = self.state();
        let survive = dice.roll(state.pending_names.len() as u64 + 1) as usize;
        let mood = dice.roll(4);
        state.failed(
            survive,
            |inode| if inode.pending.is_empty() { inode.clone() } else { torn(inode, mood, sector, dice) },
        )
    }

    /// The directory after each power failure that there can be, as far as writes are whole or not at all; `None` if
    /// more than `changes_max` changes are not synced. Names survive in the order in which they were changed.
    pub fn after_each_power_failure(&self, changes_max: u32) -> Option<Vec<Self>> {
        let state = self.state();
        let changes: usize = state.inodes.iter().map(|inode| inode.pending.len()).sum();
        if changes > changes_max as usize {
            return None;
        }
        let some = |survive, which: u32| {
            let mut next = 0;
            state.failed(survive, |inode| {
                let mut durable = inode.durable.clone();
                for change in &inode.pending {
                    if which >> next & 1 == 1 {
                        apply(&mut durable, change);
                    }
                    next += 1;
                }
                Arc::new(Inode { current: durable.clone(), durable, pending: Vec::new() })
            })
        };
        let each = |survive| (0..1_u32 << changes).map(move |which| (survive, which));
        Some((0..=state.pending_names.len()).flat_map(each).map(|(survive, which)| some(survive, which)).collect())
    }

    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.inodes[state.names[name]].current.to_vec()
    }

    /// The names of the files; no operation.
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// Changes the bytes of a file, durably.
    pub fn damage(&self, name: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let inode = state.names[name];
        let inode = state.inode(inode);
        let mut bytes = inode.current.to_vec();
        damage(&mut bytes);
        inode.current = Blocks::from(&bytes[..]);
        inode.durable = inode.current.clone();
    }
}

/// The file that a power failure leaves: nothing, all, or any sectors of what was not synced.
fn torn(inode: &Inode, mood: u64, sector: usize, dice: &mut Dice) -> Arc<Inode> {
    let mut durable = inode.durable.clone();
    for change in &inode.pending {
        match (mood, change) {
            (0, _) => {}
            (1, _) => apply(&mut durable, change),
            (_, Change::Len(_)) if dice.roll(2) == 0 => {}
            (_, Change::Len(_)) => apply(&mut durable, change),
            (_, Change::Bytes(at, bytes)) => {
                let mut from = *at;
                for sector in bytes.chunks(sector) {
                    if dice.roll(2) == 0 {
                        durable.write(from, sector);
                    }
                    from += sector.len();
                }
            }
        }
    }
    Arc::new(Inode { current: durable.clone(), durable, pending: Vec::new() })
}

#[derive(Debug)]
struct MemoryFile {
    memory: Memory,
    inode: usize,
    direct: bool,
}

impl MemoryFile {
    /// Past the page cache only whole blocks travel, between places at a block's boundary.
    fn check_aligned(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let aligned = at.is_multiple_of(BLOCK as u64)
            && bytes.len().is_multiple_of(BLOCK)
            && bytes.as_ptr().align_offset(BLOCK) == 0;
        if self.direct && !aligned { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.memory.changing()?;
        let inode = state.inode(self.inode);
        apply(&mut inode.current, &change);
        inode.pending.push(change);
        state.changed();
        Ok(())
    }
}

impl File for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.memory.operation()?.inodes[self.inode].current.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.check_aligned(at, into)?;
        let state = self.memory.operation()?;
        state.inodes[self.inode].current.read(at as usize, into).ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_aligned(at, bytes)?;
        let change = Change::Bytes(at as usize, bytes.into());
        let will_crash = {
            let state = self.memory.state();
            !state.crashed && matches!(state.fault, Some(Fault::Crash(at)) if at == state.operations)
        };
        if will_crash {
            // A write that was under way when the power failed may have left its traces.
            self.memory.state().inode(self.inode).pending.push(change.clone());
        }
        self.change(change)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Len(len as usize))
    }

    fn sync(&self) -> io::Result<()> {
        match self.memory.changing() {
            Ok(mut state) => {
                let inode = state.inode(self.inode);
                inode.durable = inode.current.clone();
                inode.pending.clear();
                state.changed();
                Ok(())
            }
            Err(error) => {
                let mut state = self.memory.state();
                if !state.crashed {
                    state.inode(self.inode).pending.clear();
                }
                Err(error)
            }
        }
    }
}

#[derive(Debug)]
struct MemoryLock(Memory);

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}

impl Files for Memory {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("memory").join(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.operation()?.names.keys().cloned().collect())
    }

    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>> {
        let mut state = if how == How::Create { self.changing()? } else { self.operation()? };
        let inode = match (how, state.names.get(name)) {
            (How::Create, _) => {
                state.inodes.push(Arc::default());
                let inode = state.inodes.len() - 1;
                state.names.insert(name.to_owned(), inode);
                state.pending_names.push(NameChange::Put(name.to_owned(), inode));
                state.changed();
                inode
            }
            (_, Some(inode)) => *inode,
            (_, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(MemoryFile { memory: self.clone(), inode, direct: matches!(how, How::Direct | How::ReadDirect) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.changing()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        // One change: a rename is atomic. A remainder of the old name does no harm.
        state.pending_names.push(NameChange::Put(to.to_owned(), inode));
        state.pending_names.push(NameChange::Gone(from.to_owned()));
        state.changed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.changing()?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.pending_names.push(NameChange::Gone(name.to_owned()));
        state.changed();
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.changing()?;
        state.durable_names = state.names.clone();
        state.pending_names.clear();
        state.changed();
        Ok(())
    }

    fn lock(&self, _: &str, _: Locking) -> io::Result<Option<Lock>> {
        let mut state = self.operation()?;
        if std::mem::replace(&mut state.locked, true) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock(self.clone()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_power_failure_leaves_another_part_of_what_was_not_synced() {
        let memory = Memory::default();
        let file = memory.open("file", How::Create).unwrap();
        file.write_at(0, &[1; 4]).unwrap();
        file.sync().unwrap();
        let told = Arc::new(Mutex::new(0));
        let count = told.clone();
        memory.watch(move |now| {
            assert!(!now.names().is_empty());
            *count.lock().unwrap() += 1;
        });
        let left = |memory: &Memory| -> Vec<_> {
            let left = memory.after_each_power_failure(2).unwrap();
            left.iter().map(|left| (!left.names().is_empty()).then(|| left.bytes("file"))).collect()
        };
        assert_eq!(left(&memory), [None, Some(vec![1; 4])], "its name is not synced");
        memory.sync_dir().unwrap();
        file.write_at(0, &[2; 2]).unwrap();
        file.write_at(1, &[3; 2]).unwrap();
        let bytes = [[1, 1, 1, 1], [2, 2, 1, 1], [1, 3, 3, 1], [2, 3, 3, 1]];
        assert_eq!(left(&memory), bytes.map(|bytes| Some(bytes.to_vec())));
        file.set_len(1).unwrap();
        assert!(memory.after_each_power_failure(2).is_none(), "there are too many");
        file.sync().unwrap();
        assert_eq!(left(&memory), [Some(vec![2])]);
        assert_eq!(*told.lock().unwrap(), 5);
    }
}
