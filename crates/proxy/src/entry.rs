//! A stored response in memory.
//!
//! Most responses are small, and a cache holds millions of them: what an entry takes above its own bytes is most of what
//! a small one takes. So there are two pieces of memory for it: this structure with its counts, of 128 bytes, and all of
//! the bytes.

use crate::coherence::Claim;
use crate::content::Content;
use crate::s3fifo::{Meter, Queued};
use bytes::Bytes;
use responses::{Key, KeyBytes, Stored, Validity};
use std::sync::Arc;

/// The largest content that is kept with the fields, in bytes. A larger one takes little above its own.
const SMALL_BYTES_MAX: u64 = 4096;

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
    /// None for one that is not among the others.
    claim: Option<Claim>,
    pub(crate) meter: Meter,
}

/// With the counts of its [`Arc`] an entry fills a piece of memory whose size is common to allocators.
const _: () = assert!(size_of::<Entry>() + 2 * size_of::<usize>() <= 128);

impl Entry {
    /// One under a key. The queues have it under `number`.
    pub(crate) fn new(key: &Key, stored: Stored, content: &Content, claim: Claim, number: u16) -> Self {
        Self { claim: Some(claim), ..Self::of(key.as_bytes(), stored, content, number) }
    }

    /// One that is not among the others, for a single answer.
    pub(crate) fn alone(stored: Stored, content: &Content) -> Self {
        Self::of(&[], stored, content, 0)
    }

    fn of(key: &[u8], stored: Stored, content: &Content, number: u16) -> Self {
        let is_small = content.bytes() <= SMALL_BYTES_MAX;
        let small = content.only_piece().filter(|_| is_small).map_or(&[][..], |piece| piece);
        let large = (!is_small).then(|| Box::new(content.clone()));
        Self { stored: write_own(stored, key, small), large, claim: None, meter: Meter::new(number) }
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

    /// The size of its content.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.large.as_ref().map_or(self.small().len() as u64, |large| large.bytes())
    }

    /// The word of the home on it. A request that it is to answer has come before.
    pub(crate) fn validity(&self) -> Validity {
        let is_current = self.claim.as_ref().is_some_and(Claim::is_current);
        if is_current { Validity::Current } else { Validity::Invalidated }
    }

    /// Its place at the home, if it has one.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// It does not answer any more without the origin's word.
    pub(crate) fn lapse(&self) {
        if let Some(claim) = &self.claim {
            claim.lapse();
        }
    }
}

impl Queued for Entry {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.stored.text_bytes() + self.large.as_ref().map_or(0, |large| large.bytes() as usize)
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
