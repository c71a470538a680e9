//! The copies of what is dirty: sessions with holders, reads of the own log for those that are behind, and the
//! registry, which the owner asks by threads of their own, as its calls block.
//!
//! ```text
//!   write --> state: Owner --Send--> Line --settle--> holder              (the thread of the write, or the one that flushes it)
//!                 ^   |                                  |
//!                 |   +--Read, Connect--> volume-links   |
//!                 |   +--Change --------> volume-change  +--Counted--> news --> answers   (the thread that reads it)
//!                 +--view, members------- volume-watch
//! ```
//! A write's payload is shared by the log, the copies and the memory in which it came; nothing of it is copied on its
//! way.

use super::{Core, State};
use crate::cache::Kept;
use crate::extents::{BLOCK, Blocks};
use crate::far::FarHome;
use crate::home::Home;
use crate::links::{Link, Listener, News};
use bytes::Bytes;
use machines::messages::holder::{Content, Extent, PartitionId, Record, Sequence, Stamp, ToHolder, VolumeId};
use machines::{Change, Circle, Degraded, Epoch, Found, HomeSays, HostId, Read, Restore, View};
use net::Runtime;
use registry::{Registrant, Registry};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};
use types::GoodbyeReason;
use vfs::{FileError, contain};

/// How often the registry is looked at, unless it says that something has changed.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// Copies of this many bytes leave by the thread that has taken their writes, whoever waits for them: the keeper would
/// send them before it flushes, and the log's disk would wait for the line.
const MUCH_BYTES: u64 = 1 << 20;

/// The wait before the own log is read again where it could not be.
const READ_AGAIN: Duration = Duration::from_millis(500);

/// How a volume that is in a registry is attached, when a takeover has brought home what was dirty before.
#[derive(Clone, Debug)]
pub struct CopiesConfig {
    /// The registry. Its handle is this attachment's alone.
    pub registry: Arc<dyn Registry>,
    /// The threads of the sessions with holders.
    pub runtime: Runtime,
    /// The volume.
    pub volume: VolumeId,
    /// This host, which the registry has as its owner.
    pub host: HostId,
    /// The failure domain of this host.
    pub domain: u64,
    /// The registry's word, under whose epoch it is attached.
    pub view: View,
    /// Holders beyond those that W takes: with one, a write continues without a pause when a holder is lost.
    pub spare_holders: u8,
    /// A write gets another copy for each so many times that one of its blocks was written before since it was written
    /// back, as far as there are holders for it; never with 0.
    pub more_copies_after: u8,
    /// The way to continue with fewer copies than there should be.
    pub degraded: Degraded,
    /// A holder that counts nothing for longer is considered lost: sooner, if it has been faster by far.
    pub silence: Duration,
    /// A holder that is lost for longer is replaced.
    pub replace_after: Duration,
    /// So long a request waits while the registry does not say that the volume is this host's: it is refused then.
    pub lease_patience: Duration,
}

/// The answer to what was asked.
enum Told {
    Registry(Result<View, Option<View>>),
    Home(HomeSays),
}

/// Something that is done without the state's lock.
#[derive(Debug)]
pub(super) enum Task {
    /// Open a link, if one is still wanted.
    Open(PartitionId),
    /// Let go of one.
    Close(Arc<Link>),
    /// Read the own log for a holder.
    Read(Read),
}

/// Something that the registry is asked for, or home about it.
#[derive(Debug)]
pub(super) enum Asked {
    Change(Change),
    /// The registry was restored from an older copy: home is asked whose the volume is.
    Home,
    Restore(Restore),
}

/// The sessions with holders, as the owner wants them.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    links: BTreeMap<PartitionId, Arc<Link>>,
    wanted: BTreeSet<PartitionId>,
    members: Vec<Registrant>,
    /// Those that are wanted by name and address, as they were known last: a member that is silent is none any more.
    names: BTreeMap<PartitionId, (String, String)>,
    /// Those to which something was pushed.
    pushed: Vec<Arc<Link>>,
    /// The bytes of copies among that.
    pushed_bytes: u64,
    tasks: VecDeque<Task>,
    asked: VecDeque<Asked>,
    /// Since when the registry has answered nothing that it was asked for.
    pub(super) unanswered_since: Option<Instant>,
}

impl Sessions {
    pub(super) fn connect(&mut self, partition: PartitionId) {
        self.wanted.insert(partition);
        self.tasks.push_back(Task::Open(partition));
    }

    pub(super) fn disconnect(&mut self, partition: PartitionId) {
        self.wanted.remove(&partition);
        self.names.remove(&partition);
        self.close(partition);
    }

    /// One that turned out to be another partition is looked for again by the watch: its address may have changed.
    pub(super) fn reconnect(&mut self, partition: PartitionId, reason: GoodbyeReason) {
        if reason == GoodbyeReason::WrongCluster {
            return self.close(partition);
        }
        if let Some(link) = self.links.get(&partition) {
            link.line().end(reason);
            self.pushed.push(link.clone());
        }
    }

    pub(super) fn send(&mut self, partition: PartitionId, message: ToHolder) {
        if let Some(link) = self.links.get(&partition) {
            if let ToHolder::Copy(copy) = &message {
                self.pushed_bytes += copy.record.content.len();
            }
            link.line().push(message);
            if !self.pushed.iter().any(|pushed| Arc::ptr_eq(pushed, link)) {
                self.pushed.push(link.clone());
            }
        }
    }

    pub(super) fn read(&mut self, read: Read) {
        self.tasks.push_back(Task::Read(read));
    }

    pub(super) fn ask(&mut self, asked: Asked) {
        self.asked.push_back(asked);
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Whether there is so much that it should leave now.
    pub(super) fn is_much(&self) -> bool {
        self.pushed_bytes >= MUCH_BYTES
    }

    pub(super) fn take_pushed(&mut self) -> Vec<Arc<Link>> {
        self.pushed_bytes = 0;
        std::mem::take(&mut self.pushed)
    }

    /// A link is open. It is given back if it is no longer wanted: one that stayed would never be heard to come up when
    /// it is wanted again.
    fn opened(&mut self, partition: PartitionId, link: Arc<Link>) -> Option<Arc<Link>> {
        if !self.wanted.contains(&partition) {
            return Some(link);
        }
        self.links.insert(partition, link);
        None
    }

    fn close(&mut self, partition: PartitionId) {
        self.tasks.extend(self.links.remove(&partition).map(Task::Close));
    }

    /// The name and the address of a holder, as they were known last.
    pub(super) fn member(&self, partition: PartitionId) -> Option<(String, String)> {
        let member = self.members.iter().find(|it| it.member.partition == partition);
        member.map(name).or_else(|| self.names.get(&partition).cloned())
    }

    /// Whether a holder says that its disk is full.
    pub(super) fn is_disk_full(&self, partition: PartitionId) -> bool {
        self.members.iter().any(|it| it.member.partition == partition && it.is_disk_full)
    }

    fn address(&self, partition: PartitionId) -> Option<String> {
        self.members.iter().find(|it| it.member.partition == partition).map(|it| it.address.clone())
    }

    /// The members are these now: links that are missing are opened, and those to another address are opened again.
    fn has_members(&mut self, members: Vec<Registrant>) {
        self.members = members;
        let wanted = self.members.iter().filter(|it| self.wanted.contains(&it.member.partition));
        self.names.extend(wanted.map(|it| (it.member.partition, name(it))));
        for partition in self.wanted.clone() {
            let Some(address) = self.address(partition) else { continue };
            if self.links.get(&partition).is_some_and(|link| link.address() != address) {
                self.close(partition);
            }
            if !self.links.contains_key(&partition) {
                self.tasks.push_back(Task::Open(partition));
            }
        }
    }
}

/// A member's name and address.
fn name(of: &Registrant) -> (String, String) {
    (of.name.clone(), of.address.clone())
}

/// Sends what was pushed. The caller holds no lock.
pub(super) fn settle(pushed: Vec<Arc<Link>>) {
    for link in pushed {
        link.settle();
    }
}

impl Listener for Core {
    fn news(&self, partition: PartitionId) {
        let heard = contain(|| {
            self.hear(partition);
            Ok(())
        });
        if let Err(error) = heard {
            self.fail(error.to_string());
        }
    }
}

impl Core {
    /// Sends the copies of a batch.
    pub(super) fn send_copies(&self) {
        if self.copies.is_some() {
            let pushed = self.state().sessions.take_pushed();
            settle(pushed);
        }
    }

    fn hear(&self, partition: PartitionId) {
        let mut state = self.state();
        let Some(link) = state.sessions.links.get(&partition).cloned() else { return };
        let mut is_turn = false;
        for news in link.line().take() {
            let now = self.now();
            match news {
                News::Up => state.owner.up(now, partition),
                News::Down => state.owner.down(now, partition),
                News::Heard(message) => {
                    state.owner.heard(now, partition, &message);
                    continue;
                }
            }
            is_turn = true;
        }
        if is_turn {
            // Something may be due earlier than it was.
            self.keep.notify_one();
        }
        self.carry_out(state, None);
    }

    /// The thread that opens links, and reads the log for holders.
    pub(super) fn tend_links(self: &Arc<Self>) {
        let Some(copies) = &self.copies else { return };
        while let Some(task) = self.next_task() {
            match task {
                Task::Open(partition) => self.open_link(partition, &copies.runtime),
                Task::Close(link) => link.close(),
                Task::Read(read) => {
                    let found = self.find_copies(read);
                    let mut state = self.state();
                    let now = self.now();
                    state.owner.found(now, read.number, found);
                    // The back stream continues at some time.
                    self.keep.notify_one();
                    self.carry_out(state, None);
                }
            }
        }
        let links = std::mem::take(&mut self.state().sessions.links);
        for link in links.into_values() {
            link.close();
        }
    }

    fn next_task(&self) -> Option<Task> {
        let waits = |state: &mut State| state.sessions.tasks.is_empty() && !state.is_closing && state.failed.is_none();
        let mut state = self.tasks.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.is_closing || state.failed.is_some() { None } else { state.sessions.tasks.pop_front() }
    }

    fn open_link(self: &Arc<Self>, partition: PartitionId, runtime: &Runtime) {
        let address = {
            let state = self.state();
            let is_wanted = state.sessions.wanted.contains(&partition);
            if !is_wanted || state.sessions.links.contains_key(&partition) {
                return;
            }
            // The watch opens it when the registry says where it is.
            let Some(address) = state.sessions.address(partition) else { return };
            address
        };
        let listener: Weak<Self> = Arc::downgrade(self);
        let link = Link::open(partition, address, runtime, listener);
        let unwanted = self.state().sessions.opened(partition, link);
        if let Some(link) = unwanted {
            return link.close();
        }
        // It may have come up before anybody could find it.
        self.news(partition);
    }

    /// Writes of the own log, for a holder.
    fn find_copies(&self, read: Read) -> Found {
        let mut found = Found { records: Vec::new(), through: read.through };
        let (mut sequence, mut bytes) = (read.from, 0);
        while sequence <= read.through && bytes < read.bytes.max(1) {
            match self.find_copy(sequence) {
                Ok(Some(record)) => {
                    bytes += record.content.len();
                    found.records.push(record);
                }
                // It is written back.
                Ok(None) => {}
                Err(error) => {
                    self.note(&error);
                    std::thread::sleep(READ_AGAIN);
                    break;
                }
            }
            sequence = sequence.next();
        }
        found.through = sequence.before();
        found
    }

    /// A write of the own log; `None` if it is written back.
    pub(super) fn find_copy(&self, sequence: Sequence) -> Result<Option<Record>, FileError> {
        let position = self.base + sequence.0;
        let (stamp, blocks, kept) = {
            let state = self.state();
            let Some(write) = state.dirty.find(position) else { return Ok(None) };
            let stamp = Stamp { epoch: state.owner.epoch(), sequence, flush: write.flush };
            (stamp, write.blocks.clone(), write.kept.clone())
        };
        let content = match kept {
            Kept::Memory(bytes) => Content::Data(bytes),
            Kept::Zeros { is_hole: true } => Content::Trim,
            Kept::Zeros { is_hole: false } => Content::Zero,
            Kept::Log => {
                let mut bytes = vec![0; blocks.len() * BLOCK];
                if !self.read_log(position, &blocks, &blocks, &mut bytes)? {
                    return Ok(None);
                }
                Content::Data(Bytes::from(bytes))
            }
        };
        Ok(Some(Record { stamp, extent: extent_of(&blocks), content }))
    }

    /// The thread that changes the registry.
    pub(super) fn change_registry(&self) {
        let Some(copies) = &self.copies else { return };
        let waits = |state: &mut State| state.sessions.asked.is_empty() && !state.is_closing && state.failed.is_none();
        loop {
            let mut state = self.changes.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
            if state.is_closing || state.failed.is_some() {
                return;
            }
            let Some(asked) = state.sessions.asked.pop_front() else { continue };
            drop(state);
            let (registry, volume, asked_at) = (&copies.registry, copies.volume, Instant::now());
            let heard = match asked {
                Asked::Change(change) => Told::Registry(registry.change(volume, change)),
                Asked::Restore(restore) => Told::Registry(registry.restore(volume, restore)),
                Asked::Home => Told::Home(self.ask_home(copies)),
            };
            let mut state = self.state();
            let now = self.now();
            if let Told::Registry(outcome) = &heard {
                let is_silent = matches!(outcome, Err(None));
                let since = state.sessions.unanswered_since;
                state.sessions.unanswered_since = is_silent.then(|| since.unwrap_or(asked_at));
            }
            match heard {
                Told::Registry(outcome) => state.owner.changed(now, outcome),
                Told::Home(says) => state.owner.home_says(now, says),
            }
            self.keep.notify_one();
            self.room.notify_all();
            self.carry_out(state, None);
        }
    }

    /// Asks home whose the volume is, in a session of its own: what an open one was told may be old.
    fn ask_home(&self, copies: &CopiesConfig) -> HomeSays {
        // A home of this host is locked by this process.
        let Home::Far(home) = &self.home else { return HomeSays::Own(Stamp::begin(Epoch(u64::MAX))) };
        let epoch = self.state().owner.epoch();
        let opened = FarHome::connect(home.address(), copies.volume, &copies.runtime).and_then(|home| home.opened());
        match opened {
            Ok(it) if it.epoch == epoch && it.owner == copies.host.0 => HomeSays::Own(it.mark),
            Ok(it) if it.epoch >= epoch => HomeSays::Other(it.epoch),
            // One that was restored from an older copy knows nothing.
            Ok(_) | Err(_) => HomeSays::Nothing,
        }
    }

    /// The thread that watches the registry.
    pub(super) fn watch_registry(&self) {
        let Some(copies) = &self.copies else { return };
        let mut members = Vec::new();
        loop {
            let (view, found) = (copies.registry.view(copies.volume), copies.registry.members());
            let mut state = self.state();
            if state.is_closing || state.failed.is_some() {
                return;
            }
            let now = self.now();
            state.registry_error = view.as_ref().err().map(ToString::to_string);
            if let Ok(found) = found {
                if found != members {
                    members.clone_from(&found);
                    state.owner.members(now, Circle::new(found.iter().map(|it| it.member).collect()));
                }
                state.sessions.has_members(found);
            }
            if let Ok(view) = view {
                state.owner.hear_registry(now, view);
            }
            self.keep.notify_one();
            self.carry_out(state, None);
            self.check_home();
            copies.registry.wait(WATCH_EVERY);
        }
    }
}

/// The bytes that blocks are.
pub(super) fn extent_of(blocks: &Blocks) -> Extent {
    Extent { offset: u64::from(blocks.start) * BLOCK as u64, len: blocks.len() as u64 * BLOCK as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_nobody_wants_any_more_when_it_is_open_is_given_back() {
        let (mut sessions, partition) = (Sessions::default(), PartitionId(1));
        let nobody: Weak<Core> = Weak::new();
        let link = Link::open(partition, "127.0.0.1:1".to_owned(), &Runtime::start().unwrap(), nobody);
        sessions.connect(partition);
        sessions.disconnect(partition);
        assert!(sessions.opened(partition, link.clone()).is_some() && sessions.links.is_empty());
        sessions.connect(partition);
        assert!(sessions.opened(partition, link).is_none() && sessions.links.contains_key(&partition));
    }
}
