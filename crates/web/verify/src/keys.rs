//! The keys that servers have asked for: of each its version, and what was stored under that.
//!
//! A server keeps responses under key and version. It asks the helper for the version at every request, so a response
//! that has changed is no longer looked for: its key has another version. Nothing has to be removed at the server.
//!
//! Memory is bounded in keys and in their bytes. A key that was not asked for since the hand came by last is forgotten
//! when there is no room; it gets a new version at its next look, and what a server has under the old one is lost.

use crate::limits::KINDS_PER_VERSION_MAX;
use crate::rule::Rule;
use coherence::Claim;
use std::collections::HashMap;
use std::sync::Arc;
use types::Broken;

/// A version of a key. No other key ever has it, and its own never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version(pub(crate) u64);

/// Where a key is, and the version that it had when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    pub(crate) version: Version,
}

/// Why a response that its home has stored does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// The key has another version in the meantime, or is forgotten.
    Superseded,
    /// As many responses with other dependencies are stored under the version as may be.
    TooManyKinds,
}

/// A key that is known.
#[derive(Debug)]
struct Record {
    key: Arc<[u8]>,
    version: Version,
    stored: Vec<Stored>,
    /// It was asked for since the hand came by.
    is_used: bool,
}

/// A response, or several with the same dependencies. Its home may have to be asked whether it holds.
#[derive(Debug)]
struct Stored {
    /// A hash of its dependencies.
    kind: u64,
    claim: Arc<Claim>,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Keys {
    by_key: HashMap<Arc<[u8]>, u32>,
    records: Vec<Option<Record>>,
    free: Vec<u32>,
    /// The next record that is looked at when there is no room.
    hand: usize,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
    last_version: u64,
    /// Claims that are given back to the home when nobody holds the lock.
    lapsed: Vec<Stored>,
    broken: Broken<Rule>,
}

/// Responses that were taken out of the keys. Their claims are given back to the home when this is dropped.
#[derive(Debug)]
#[must_use = "it is dropped when the lock on the keys is free"]
pub(crate) struct Lapsed(#[expect(dead_code, reason = "it is there to be dropped")] Vec<Stored>);

impl Keys {
    pub(crate) fn new(count_max: usize, bytes_max: usize, broken: Broken<Rule>) -> Self {
        Self {
            by_key: HashMap::new(),
            records: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            count_max: count_max.max(1),
            bytes_max,
            last_version: 0,
            lapsed: Vec::new(),
            broken,
        }
    }

    /// The version of a key, and the claims of everything that is stored under it.
    pub(crate) fn find(&mut self, key: &[u8]) -> (Place, Vec<Arc<Claim>>) {
        let known = self.by_key.get(key).copied();
        let Some((slot, record)) = known.and_then(|slot| Some((slot, self.records[slot as usize].as_mut()?))) else {
            return (self.add(key), Vec::new());
        };
        record.is_used = true;
        let claims = record.stored.iter().map(|stored| stored.claim.clone()).collect();
        (Place { slot, version: record.version }, claims)
    }

    /// Returns a key another version if it has this one still, something of which does not hold; gives the one that it
    /// has.
    pub(crate) fn renew(&mut self, key: &[u8], place: Place) -> Place {
        self.renew_at(place);
        self.find(key).0
    }

    fn renew_at(&mut self, place: Place) {
        let Some(record) = at(&mut self.records, place) else { return };
        self.lapsed.append(&mut record.stored);
        if !self.broken.is(Rule::NewVersion) {
            self.last_version += 1;
            record.version = Version(self.last_version);
        }
    }

    /// The claim of a response that is stored there with the same dependencies.
    pub(crate) fn of_kind(&mut self, place: Place, kind: u64) -> Option<Arc<Claim>> {
        let stored = &at(&mut self.records, place)?.stored;
        stored.iter().find(|stored| stored.kind == kind).map(|stored| stored.claim.clone())
    }

    /// Counts a response that its home has stored. Without a claim of its own one stands for it that was stored before
    /// with the same dependencies, and still held when this one was stored: none of them has changed between the two.
    pub(crate) fn store(&mut self, place: Place, kind: u64, claim: Option<Claim>) -> Result<(), NotKept> {
        let stored = claim.map(|claim| Stored { kind, claim: Arc::new(claim) });
        let Some(record) = at(&mut self.records, place) else {
            self.lapsed.extend(stored);
            return Err(NotKept::Superseded);
        };
        let is_full = record.stored.len() >= KINDS_PER_VERSION_MAX;
        match stored {
            Some(stored) if is_full => {
                self.lapsed.push(stored);
                self.renew_at(place);
                Err(NotKept::TooManyKinds)
            }
            stored => {
                record.stored.extend(stored);
                Ok(())
            }
        }
    }

    /// Forgets a key; gives whether it was known.
    pub(crate) fn forget(&mut self, key: &[u8]) -> bool {
        let slot = self.by_key.get(key).copied();
        slot.is_some_and(|slot| self.remove(slot as usize))
    }

    /// Forgets a key that is asked for seldom, because the home has no room.
    pub(crate) fn make_room(&mut self) {
        while !self.by_key.is_empty() {
            let hand = self.hand;
            self.hand = if hand + 1 < self.records.len() { hand + 1 } else { 0 };
            match self.records.get_mut(hand).and_then(Option::as_mut) {
                Some(record) if record.is_used => record.is_used = false,
                Some(_) => {
                    self.remove(hand);
                    return;
                }
                None => {}
            }
        }
    }

    /// How many keys are known, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.by_key.len(), self.bytes)
    }

    pub(crate) fn take_lapsed(&mut self) -> Lapsed {
        Lapsed(std::mem::take(&mut self.lapsed))
    }

    fn add(&mut self, key: &[u8]) -> Place {
        while !self.by_key.is_empty()
            && (self.by_key.len() >= self.count_max || self.bytes + key.len() > self.bytes_max)
        {
            self.make_room();
        }
        self.last_version += 1;
        let version = Version(self.last_version);
        let key: Arc<[u8]> = key.into();
        self.bytes += key.len();
        let record = Record { key: key.clone(), version, stored: Vec::new(), is_used: false };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            (self.records.len() - 1) as u32
        });
        self.records[slot as usize] = Some(record);
        self.by_key.insert(key, slot);
        Place { slot, version }
    }

    fn remove(&mut self, slot: usize) -> bool {
        let Some(record) = self.records.get_mut(slot).and_then(Option::take) else { return false };
        self.bytes -= record.key.len();
        self.by_key.remove(&record.key);
        self.free.push(slot as u32);
        self.lapsed.extend(record.stored);
        true
    }
}

/// The key at a place, if it has that version still.
fn at(records: &mut [Option<Record>], place: Place) -> Option<&mut Record> {
    records.get_mut(place.slot as usize)?.as_mut().filter(|record| record.version == place.version)
}
