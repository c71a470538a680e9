//! A directory in memory that behaves like the worst that a file system may do: what was not synced may be there, in
//! whole or in part, in any order, or not; a sync that fails forgets what it was to keep and says so only once.

mod blocks;

use self::blocks::Blocks;
use crate::aligned::BLOCK;
use crate::files::{File, Files, How, Lock};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// The unit that a torn write is torn in, in bytes.
const SECTOR: usize = 512;

/// A fault at an operation, counted from the first one.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// That one fails, and so many after it.
    Error(u64, Errno, u64),
    /// Nothing happens from then on.
    Crash(u64),
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
    Bytes(usize, Vec<u8>),
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

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    durable_names: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    pending_names: Vec<NameChange>,
    operations: u64,
    fault: Option<Fault>,
    crashed: bool,
    locked: bool,
}

/// The directory.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<State>>);

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

    /// The same directory for another process, after this one has been killed: nothing is lost.
    pub fn after_kill(&self) -> Self {
        let state = self.state();
        let copy = State {
            inodes: state.inodes.clone(),
            durable_names: state.durable_names.clone(),
            names: state.names.clone(),
            pending_names: state.pending_names.clone(),
            ..State::default()
        };
        Self(Arc::new(Mutex::new(copy)))
    }

    /// The directory after a power failure: of what was not synced, the dice decide what is there.
    pub fn after_power_failure(&self, dice: &mut Dice) -> Self {
        let state = self.state();
        let mut names = state.durable_names.clone();
        let survive = dice.roll(state.pending_names.len() as u64 + 1) as usize;
        for change in &state.pending_names[..survive] {
            match change {
                NameChange::Put(name, inode) => drop(names.insert(name.clone(), *inode)),
                NameChange::Gone(name) => drop(names.remove(name)),
            }
        }
        let mood = dice.roll(4);
        let inodes = state.inodes.iter().map(|inode| torn(inode, mood, dice)).collect();
        let copy = State { inodes, durable_names: names.clone(), names, ..State::default() };
        Self(Arc::new(Mutex::new(copy)))
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
        let inode = &mut state.inodes[inode];
        let mut bytes = inode.current.to_vec();
        damage(&mut bytes);
        inode.current = Blocks::from(&bytes[..]);
        inode.durable = inode.current.clone();
    }
}

/// The file that a power failure leaves: nothing, all, or any sectors of what was not synced.
fn torn(inode: &Inode, mood: u64, dice: &mut Dice) -> Inode {
    let mut durable = inode.durable.clone();
    for change in &inode.pending {
        match (mood, change) {
            (0, _) => {}
            (1, _) => apply(&mut durable, change),
            (_, Change::Len(_)) if dice.roll(2) == 0 => {}
            (_, Change::Len(_)) => apply(&mut durable, change),
            (_, Change::Bytes(at, bytes)) => {
                let mut from = *at;
                for sector in bytes.chunks(SECTOR) {
                    if dice.roll(2) == 0 {
                        durable.write(from, sector);
                    }
                    from += sector.len();
                }
            }
        }
    }
    Inode { current: durable.clone(), durable, pending: Vec::new() }
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
        let mut state = self.memory.operation()?;
        let inode = &mut state.inodes[self.inode];
        apply(&mut inode.current, &change);
        inode.pending.push(change);
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
        let change = Change::Bytes(at as usize, bytes.to_vec());
        let will_crash = {
            let state = self.memory.state();
            !state.crashed && matches!(state.fault, Some(Fault::Crash(at)) if at == state.operations)
        };
        if will_crash {
            // A write that was under way when the power failed may have left its traces.
            self.memory.state().inodes[self.inode].pending.push(change.clone());
        }
        self.change(change)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Len(len as usize))
    }

    fn sync(&self) -> io::Result<()> {
        match self.memory.operation() {
            Ok(mut state) => {
                let inode = &mut state.inodes[self.inode];
                inode.durable = inode.current.clone();
                inode.pending.clear();
                Ok(())
            }
            Err(error) => {
                let mut state = self.memory.state();
                if !state.crashed {
                    state.inodes[self.inode].pending.clear();
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
        let mut state = self.operation()?;
        let inode = match (how, state.names.get(name)) {
            (How::Create, _) => {
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.names.insert(name.to_owned(), inode);
                state.pending_names.push(NameChange::Put(name.to_owned(), inode));
                inode
            }
            (_, Some(inode)) => *inode,
            (_, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(MemoryFile { memory: self.clone(), inode, direct: how == How::Direct }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.operation()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        // One change: a rename is atomic. A remainder of the old name does no harm.
        state.pending_names.push(NameChange::Put(to.to_owned(), inode));
        state.pending_names.push(NameChange::Gone(from.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.operation()?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.pending_names.push(NameChange::Gone(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.operation()?;
        state.durable_names = state.names.clone();
        state.pending_names.clear();
        Ok(())
    }

    fn lock(&self, _: &str, _: bool) -> io::Result<Option<Lock>> {
        let mut state = self.operation()?;
        if std::mem::replace(&mut state.locked, true) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock(self.clone()))))
    }
}
