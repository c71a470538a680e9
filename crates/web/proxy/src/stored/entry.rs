//! A stored response in memory, with all of its content, or without if that is on disk.
//!
//! Most responses are small, and a cache holds millions of them: what an entry takes above its own bytes is most of
//! what a small one takes. So there are two pieces of memory for it: this structure with its counts, of 128 bytes, and
//! all of the bytes.

use crate::stored::coherence::Claim;
use crate::stored::content::Content;
use crate::stored::s3fifo::{Meter, Queued};
use bytes::Bytes;
use diskcache::{Held, Source};
use responses::{Key, KeyBytes, Stored, Validity};
use std::sync::Arc;

/// The largest content that is kept with the fields, in bytes. A larger one takes little above its own.
pub(crate) const SMALL_BYTES_MAX: u64 = 4096;

/// The memory that an entry takes above its bytes, as `thorp bench entries` measures it: its structure and those of the
/// map, of the queues and of the home, with a dependency of its own.
const ENTRY_BYTES: usize = 300;

/// A stored response.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its own bytes are those of [`write_own`].
    pub(crate) stored: Stored,
    /// Its content, if that is not small.
    large: Option<Box<Content>>,
    proof: Proof,
    pub(crate) meter: Meter,
}

/// The place of a response at its home.
#[derive(Debug)]
enum Proof {
    /// It has none: it is for a single answer.
    None,
    Own(Claim),
    /// It is on disk as well, and its record has the claim.
    OfRecord(Arc<Held<Claim>>),
}

/// With the counts of its [`Arc`] an entry fills a piece of memory whose size is common to allocators.
const _: () = assert!(size_of::<Entry>() + 2 * size_of::<usize>() <= 128);

impl Entry {
    /// One under a key. The queues have it under `number`.
    pub(crate) fn new(key: &Key, stored: Stored, content: &Content, claim: Claim, number: u16) -> Self {
        Self { proof: Proof::Own(claim), ..Self::of(key.as_bytes(), stored, content, number) }
    }

    /// One that is not among the others, for a single answer.
    pub(crate) fn alone(stored: Stored, content: &Content) -> Self {
        Self::of(&[], stored, content, 0)
    }

    /// One whose record was read.
    pub(crate) fn of_record(
        key: &[u8],
        stored: Stored,
        content: &Content,
        held: Arc<Held<Claim>>,
        number: u16,
    ) -> Self {
        Self { proof: Proof::OfRecord(held), ..Self::of(key, stored, content, number) }
    }

    fn of(key: &[u8], stored: Stored, content: &Content, number: u16) -> Self {
        let is_small = content.bytes() <= SMALL_BYTES_MAX && content.disk_content().is_none();
        let small = content.only_piece().filter(|_| is_small).map_or(&[][..], |piece| piece);
        let large = (!is_small).then(|| Box::new(content.clone()));
        Self { stored: write_own(stored, key, small), large, proof: Proof::None, meter: Meter::new(number) }
    }

    /// Its key.
    pub(crate) fn key(&self) -> KeyBytes<'_> {
        KeyBytes::new(read_own(&self.stored).0)
    }

    fn small(&self) -> &[u8] {
        read_own(&self.stored).1
    }

    /// Its content.
    pub(crate) fn content(self: &Arc<Self>) -> Content {
        match &self.large {
            Some(large) => Content::clone(large),
            None => Content::of_piece(Bytes::from_owner(Small(self.clone()))),
        }
    }

    /// Its content, for a record of its own: it does not keep this alive.
    pub(crate) fn source(&self) -> Source {
        match &self.large {
            Some(large) => large.source(),
            None => Source::Memory(vec![Bytes::copy_from_slice(self.small())]),
        }
    }

    /// The size of its content.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.large.as_ref().map_or(self.small().len() as u64, |large| large.bytes())
    }

    /// The word of the home on it, as far as that shows at once: a home on another machine has to be asked. A request
    /// that it should answer has come before.
    pub(crate) fn validity_at_once(&self) -> Validity {
        validity(self.claim().is_some_and(Claim::is_current))
    }

    /// The word of the home on it. A request that it should answer has come before.
    pub(crate) async fn validity(&self) -> Validity {
        match self.claim() {
            Some(claim) => validity(claim.look().await),
            None => Validity::Invalidated,
        }
    }

    /// Its place at the home, if it has one.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        match &self.proof {
            Proof::None => None,
            Proof::Own(claim) => Some(claim),
            Proof::OfRecord(held) => held.claim(),
        }
    }

    /// Its record, if it is on disk as well, or was.
    pub(crate) fn held(&self) -> Option<&Arc<Held<Claim>>> {
        match &self.proof {
            Proof::OfRecord(held) => Some(held),
            Proof::None | Proof::Own(_) => None,
        }
    }

    /// Its claim, if it has one of its own.
    pub(crate) fn into_claim(self) -> Option<Claim> {
        match self.proof {
            Proof::Own(claim) => Some(claim),
            Proof::None | Proof::OfRecord(_) => None,
        }
    }

    /// Whether it may answer again some time, as far as that shows at once.
    pub(crate) fn is_of_use(&self) -> bool {
        let is_proved = |claim: &Claim| claim.proof_now().is_none_or(|now| now == claim.proof());
        self.stored.has_strong_validator() || self.claim().is_some_and(is_proved)
    }

    /// It does not answer any more without the origin's word.
    pub(crate) fn lapse(&self) {
        if let Some(claim) = self.claim() {
            claim.lapse();
        }
    }
}

fn validity(is_current: bool) -> Validity {
    if is_current { Validity::Current } else { Validity::Invalidated }
}

impl Queued for Entry {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.stored.text_bytes() + self.large.as_ref().map_or(0, |large| large.memory_bytes())
    }
}

/// The content of a small entry, which it keeps alive.
struct Small(Arc<Entry>);

impl AsRef<[u8]> for Small {
    fn as_ref(&self) -> &[u8] {
        self.0.small()
    }
}

/// Puts a key and a small content behind the fields: the key's size, the key, the content.
fn write_own(stored: Stored, key: &[u8], content: &[u8]) -> Stored {
    // Of 16 bits: a target that is longer is refused before.
    stored.with_own(&[&(key.len() as u16).to_le_bytes(), key, content])
}

/// The key and the small content.
fn read_own(stored: &Stored) -> (&[u8], &[u8]) {
    let (size, rest) = stored.own().split_first_chunk().expect("it was written with the key's size");
    rest.split_at(u16::from_le_bytes(*size).into())
}
