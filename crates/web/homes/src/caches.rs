//! The caches of other processes at a home: their sessions, the slots that each has, and the changes that they report.
//!
//! 1. A cache says `Attach` first, and again when it wants to know whether the home is there.
//! 2. A slot belongs to the session that it was given in, until it is given back, its response is changed, or the
//!    session is over.
//! 3. A change is announced to the hub by the home's process, and answered when it is released. A cache has
//!    [`CHANGES_PER_CACHE_MAX`] under way; one that reports more is sent away. Names beyond what a hub keeps are everything.
//! 4. A cache that does not take its answers is owed [`ANSWERS_BYTES_MAX`] of them, and sent away then.

use crate::messages::caches::{Attach, Attached, Changed, Count, Describe, Free, FromHome, Proof, Store, ToHome};
use crate::messages::hub::{Dependency, Released};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use machine::{Output, Parcel, Port, Waiter};
use types::GoodbyeReason;
use types::limits::{CHANGES_PER_CACHE_MAX, MARKED_BYTES_MAX};

/// The number under which the caller of a home waits that announces the changes of its caches.
pub const CHANGES: Waiter = Waiter(0);

/// The bytes of answers to a cache that may not have left: some of the longest descriptions.
const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// Behind so many it is asked whether they have left.
const ANSWERS_BYTES_ASKED: usize = 64 << 10;

/// The bytes of an answer beside names.
const ANSWER_BYTES: usize = 64;

/// The session of a cache, and the cache's number for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeId {
    port: Port,
    id: u64,
}

/// A change that a cache has told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number, for the answer.
    pub id: ChangeId,
    /// Everything that it changes.
    pub dependencies: Vec<Dependency>,
}

/// A message that is the home's to carry out.
#[derive(Debug)]
pub(crate) enum Heard {
    Store(Store),
    Free(Proof),
    Describe(Describe),
    Count(Count),
}

/// The caches of a home.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// The changes of each that are under way.
    sessions: BTreeMap<Port, usize>,
    /// The bytes of the answers to each that may not have left.
    owed: BTreeMap<Port, usize>,
    /// The session that has each slot.
    owners: Vec<Option<Port>>,
    changes: Vec<Change>,
    /// The names in them, in bytes.
    changes_bytes: usize,
}

impl Caches {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn count(&self) -> usize {
        self.sessions.len()
    }

    /// A message of a cache. One that is not the home's to carry out is answered here.
    pub(crate) fn hear(
        &mut self,
        port: Port,
        message: ToHome,
        life: u64,
        outputs: &mut VecDeque<Output>,
    ) -> Option<Heard> {
        let begins = matches!(message, ToHome::Attach(_) | ToHome::Goodbye(_));
        if !begins && !self.sessions.contains_key(&port) {
            let text = format!("expected Attach before anything else, got {message:?}");
            outputs.push_back(Output::End(port, GoodbyeReason::Malformed, text));
            return None;
        }
        match message {
            ToHome::Attach(Attach { asked }) => {
                self.sessions.entry(port).or_default();
                self.answer(port, Attached { asked, life }, 0, outputs);
                None
            }
            ToHome::Store(store) => Some(Heard::Store(store)),
            // That of another's slot is late: the slot has another response now.
            ToHome::Free(Free { proof }) => (self.owner(proof.slot) == Some(port)).then_some(Heard::Free(proof)),
            ToHome::Describe(describe) => Some(Heard::Describe(describe)),
            ToHome::Count(count) => Some(Heard::Count(count)),
            ToHome::Changed(changed) => {
                self.change(port, changed, outputs);
                None
            }
            ToHome::Goodbye(_) => {
                outputs.push_back(Output::End(port, GoodbyeReason::Done, "goodbye".into()));
                None
            }
        }
    }

    /// Answers a question, with this many bytes of names.
    pub(crate) fn answer(
        &mut self,
        port: Port,
        message: impl Into<FromHome>,
        names: usize,
        outputs: &mut VecDeque<Output>,
    ) {
        let owed = self.owed.entry(port).or_default();
        let before = *owed;
        *owed += ANSWER_BYTES + names;
        if *owed > ANSWERS_BYTES_MAX {
            let text = format!("a cache takes its answers: it is owed at most {ANSWERS_BYTES_MAX} bytes of them");
            return outputs.push_back(Output::End(port, GoodbyeReason::TooMuch, text));
        }
        let is_asked = before < ANSWERS_BYTES_ASKED && *owed >= ANSWERS_BYTES_ASKED;
        say(port, message, outputs);
        if is_asked {
            outputs.push_back(Output::AwaitRoom(port));
        }
    }

    /// A cache was sent all its answers.
    pub(crate) fn has_room(&mut self, port: Port) {
        self.owed.remove(&port);
    }

    fn change(&mut self, port: Port, Changed { id, dependencies }: Changed, outputs: &mut VecDeque<Output>) {
        let Some(under_way) = self.sessions.get_mut(&port) else { return };
        if *under_way >= CHANGES_PER_CACHE_MAX {
            let text = format!("a cache has at most {CHANGES_PER_CACHE_MAX} changes under way");
            return outputs.push_back(Output::End(port, GoodbyeReason::TooMuch, text));
        }
        *under_way += 1;
        let bytes = dependencies.iter().map(|dependency| dependency.name().len()).sum::<usize>();
        let dependencies = if self.changes_bytes + bytes > MARKED_BYTES_MAX {
            Vec::from([Dependency::ALL])
        } else {
            self.changes_bytes += bytes;
            dependencies
        };
        self.changes.push(Change { id: ChangeId { port, id }, dependencies });
        outputs.push_back(Output::Wake(CHANGES));
    }

    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.changes_bytes = 0;
        mem::take(&mut self.changes)
    }

    pub(crate) fn released(&mut self, ChangeId { port, id }: ChangeId, outputs: &mut VecDeque<Output>) {
        // A cache whose session was lost reports it again.
        let Some(under_way) = self.sessions.get_mut(&port) else { return };
        *under_way = under_way.saturating_sub(1);
        say(port, Released { id }, outputs);
    }

    /// A slot was given to a response of a cache.
    pub(crate) fn own(&mut self, port: Port, slot: u32) {
        let at = slot as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, None);
        }
        self.owners[at] = Some(port);
    }

    fn owner(&self, slot: u32) -> Option<Port> {
        *self.owners.get(slot as usize)?
    }

    /// A slot has no response any more.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(owner) = self.owners.get_mut(slot as usize) {
            *owner = None;
        }
    }

    /// None has.
    pub(crate) fn forget_all(&mut self) {
        self.owners = Vec::new();
    }

    /// A session is over; gives the slots that it had.
    pub(crate) fn end(&mut self, port: Port) -> Vec<u32> {
        self.sessions.remove(&port);
        self.owed.remove(&port);
        let slots = self.owners.iter().enumerate().filter(|(_, owner)| **owner == Some(port));
        slots.map(|(slot, _)| slot as u32).collect()
    }
}

/// Says something to a cache.
fn say(port: Port, message: impl Into<FromHome>, outputs: &mut VecDeque<Output>) {
    outputs.push_back(Output::Send(port, Parcel::new(message.into()), None));
}
