//! Identities. All are plain numbers, so that they cost nothing to copy, hash and compare.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The space that every store has, and that a database is opened on if nothing else is said.
pub const MAIN_SPACE: u32 = 0;

/// The space whose first object is the catalog of the others. The last number, which no other space is ever given.
pub const CATALOG_SPACE: u32 = u32::MAX;

/// A page: the unit of transfer, caching and mastership. `(space, number)`, ordered so that pages that were granted
/// together stand side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The space the page belongs to.
    pub space: u32,
    /// The page's number in its space.
    pub number: u32,
}

impl PageId {
    /// The page `number` of `space`.
    pub const fn new(space: u32, number: u32) -> Self {
        Self { space, number }
    }

    /// The id as one number, as it stands on the wire and on disk.
    pub const fn to_bits(self) -> u64 {
        (self.space as u64) << 32 | self.number as u64
    }

    /// The inverse of [`PageId::to_bits`].
    pub const fn from_bits(bits: u64) -> Self {
        Self { space: (bits >> 32) as u32, number: bits as u32 }
    }

    /// Its name in other caches than Thorp's, which stands for all objects in it: `thorp:SPACE/PAGE`.
    pub fn name(self) -> String {
        format!("thorp:{self}")
    }

    /// The page that lies `distance` pages further in the same space, if there can be one.
    pub fn after(self, distance: u32) -> Option<Self> {
        Some(Self { space: self.space, number: self.number.checked_add(distance)? })
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.number)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The place of an object in its page.
pub type SlotNo = u16;

/// An object: a slot of a page. It is the object's permanent name; a reference to an object is its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The page that holds the object.
    pub page: PageId,
    /// Its slot there.
    pub slot: SlotNo,
}

impl ObjectId {
    /// Where a space's named roots are found. The page exists from the space's birth.
    pub const fn root(space: u32) -> Self {
        Self { page: PageId::new(space, 0), slot: 0 }
    }

    /// The object in `slot` of `page`.
    pub const fn new(page: PageId, slot: SlotNo) -> Self {
        Self { page, slot }
    }

    /// Its name in other caches than Thorp's: `thorp:SPACE/PAGE.SLOT`.
    pub fn name(self) -> String {
        format!("thorp:{self}")
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{}", self.page, self.slot)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Consecutive pages of one space, as they are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The first page.
    pub first: PageId,
    /// How many pages.
    pub count: u32,
}

impl PageRange {
    /// Pages that come in order, those side by side together.
    pub fn join(pages: impl IntoIterator<Item = PageId>) -> Vec<Self> {
        let mut ranges = Vec::new();
        for page in pages {
            Self::append(&mut ranges, page);
        }
        ranges
    }

    /// Adds a page to ranges; one that follows the last becomes part of it.
    pub fn append(ranges: &mut Vec<Self>, page: PageId) {
        match ranges.last_mut() {
            Some(last) if last.first.after(last.count) == Some(page) => last.count += 1,
            _ => ranges.push(Self { first: page, count: 1 }),
        }
    }

    /// The pages of the range, in order.
    pub fn pages(self) -> impl Iterator<Item = PageId> {
        (0..self.count).filter_map(move |i| self.first.after(i))
    }

    /// Whether `page` is one of the range.
    pub fn contains(self, page: PageId) -> bool {
        page.space == self.first.space
            && page.number >= self.first.number
            && page.number - self.first.number < self.count
    }
}

/// A store node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// A client, for as long as its cache lives: drawn at random when the client starts, kept over reconnections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{:x}", self.0)
    }
}

/// A store's data set: drawn at random when its directory is created, checked at every hello, so that a cache never
/// meets pages of another store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u64);

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The number of a start of a store node's process: each life's is one higher than the last's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// The place of a record in a log, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// A life of a store node's process, as nobody else can have it: drawn at random when it starts. A copy of a store
/// counts its incarnations on as the store does, and has other lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub u64);

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A transaction: the client that ran it and its number there, counted from 1. The identity makes a commit request
/// safe to send again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId {
    /// The client that ran the transaction.
    pub client: ClientId,
    /// The transaction's number at that client.
    pub number: u64,
}

impl TxnId {
    /// The bits of a number that count. The node that coordinates the transaction stands above them.
    const COUNT_BITS: u32 = 48;

    /// The transaction of this count at its client, which asks this node for it and no other.
    pub const fn at(client: ClientId, coordinator: NodeId, count: u64) -> Self {
        let count = count & ((1 << Self::COUNT_BITS) - 1);
        Self { client, number: (coordinator.0 as u64) << Self::COUNT_BITS | count }
    }

    /// The node that coordinates the transaction, in a store of several.
    pub const fn coordinator(self) -> NodeId {
        NodeId((self.number >> Self::COUNT_BITS) as u16)
    }
}

/// As `client#count`, and behind it the coordinator if that is not the first node.
impl fmt::Debug for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.number & ((1 << Self::COUNT_BITS) - 1);
        write!(f, "{:?}#{count}", self.client)?;
        match self.coordinator() {
            NodeId(0) => Ok(()),
            NodeId(node) => write!(f, "@{node}"),
        }
    }
}

/// One connection of one peer to this process, numbered by its driver; a number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);
