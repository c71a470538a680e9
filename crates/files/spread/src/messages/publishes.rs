//! Publishes: uploads and switches, with their answers.

use super::fields::{Counted, Hash, Hashes, MayBe, Token, one_of};
use crate::number::Number;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::check_count;
use framing::{Field, FieldLayout, Layout, Limits, Meta, Reader, Tail, Text, WireError, fields, messages};
use tree::ChunkHash;
use types::limits::{
    CHUNKS_PER_PUT_MAX, LOCKS_PER_PUBLISHER_MAX, NOTE_BYTES_MAX, PUT_BYTES_MAX, REFUSAL_BYTES_MAX, SITE_NAME_BYTES_MAX,
    SPACE_NAME_BYTES_MAX,
};

messages! {
    /// A publisher is going to need these chunks. From now on none of them is swept while its session lasts.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Have {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// Their names.
        pub hashes: Vec<ChunkHash> as Hashes,
    }

    /// The answer to [`Have`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Missing {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The chunks to put, in the order in which they were named.
        pub hashes: Vec<ChunkHash> as Hashes,
    }
}

/// Chunks that were missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The publisher's number for the request.
    pub ticket: u64,
    /// The space of the site that they are for.
    pub space: String,
    /// The site, the subscribers of which may fetch them before the switch.
    pub site: String,
    /// The chunks.
    pub chunks: Vec<(ChunkHash, Bytes)>,
}

fields! {
    /// The head of a chunk in a [`Put`].
    #[derive(Clone, Copy, Debug)]
    struct PutHead {
        bytes: u32,
    }
}

type SpaceName = Text<SPACE_NAME_BYTES_MAX>;
type SiteName = Text<SITE_NAME_BYTES_MAX>;

impl Layout for Put {
    const LIMITS: Limits = Limits::bytes(u64::BYTES)
        .and_text(SPACE_NAME_BYTES_MAX)
        .and_text(SITE_NAME_BYTES_MAX)
        .and_up_to(CHUNKS_PER_PUT_MAX * (PutHead::BYTES + Hash::BYTES))
        .with_body(PUT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("chunks", self.chunks.len(), CHUNKS_PER_PUT_MAX)?;
        check_count("bytes of chunks", self.chunks.iter().map(|(_, bytes)| bytes.len()).sum(), PUT_BYTES_MAX)?;
        self.ticket.put(meta);
        SpaceName::put(&self.space, "space", meta)?;
        SiteName::put(&self.site, "site", meta)?;
        for (hash, bytes) in &self.chunks {
            PutHead { bytes: bytes.len() as u32 }.put(meta);
            meta.put(hash.as_bytes());
        }
        Ok(())
    }

    fn body(&self) -> impl Iterator<Item = &Bytes> {
        self.chunks.iter().map(|(_, bytes)| bytes).filter(|bytes| !bytes.is_empty())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let ticket = u64::get("ticket", reader)?;
        let space = SpaceName::get("space", reader)?;
        let site = SiteName::get("site", reader)?;
        let count = reader.meta_bytes() / (PutHead::BYTES + Hash::BYTES);
        check_count("chunks", count, CHUNKS_PER_PUT_MAX)?;
        let chunks = reader.list(count, PutHead::BYTES + Hash::BYTES, |reader| {
            let PutHead { bytes } = PutHead::get("chunk", reader)?;
            let hash = Hash::read(reader)?;
            Ok((hash, reader.bytes(bytes as usize)?))
        })?;
        reader.end()?;
        Ok(Self { ticket, space, site, chunks })
    }
}

messages! {
    /// All chunks of a [`Put`] are durable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Stored {
        /// The publisher's number for the request.
        pub ticket: u64,
    }
}

fields! {
    /// The identity of a publish: it is made once, however often it is asked for (**OneSwitch**).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Identity {
        /// The publisher, drawn at random.
        pub publisher: u64,
        /// Its number for the publish.
        pub number: u64,
    }
}

fields! {
    /// The size of a revision, for lists.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Size {
        /// Files and links.
        pub files: u64,
        /// The bytes of all files.
        pub bytes: u64,
    }
}

messages! {
    /// Makes a tree whose chunks are all there the newest revision of a site.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Switch {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The publish.
        pub identity: Identity,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site, which is created with its first revision.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
        /// The tree that it was made from, if the site had one.
        pub base: Option<ChunkHash> as MayBe,
        /// The tree.
        pub root: ChunkHash as Hash,
        /// The revision that it brings back, by its count; 0 for content of its own.
        pub of: u64,
        /// Its size.
        pub size: Size,
        /// Whether the publisher waits until every older revision that is served says that it is stale.
        pub waits: bool,
        /// Whether the changes since the base are made to the newest revision, if there is a newer one.
        pub merges: bool,
        /// Whether it ends the locks of paths that it changes, and does not wait for their holders.
        pub ends_locks: bool,
        /// The locks under which it changes paths.
        pub locks: Vec<Token> as Counted<LOCKS_PER_PUBLISHER_MAX>,
        /// A note for the log.
        pub note: String as Tail<NOTE_BYTES_MAX>,
    }

    /// A revision is durable, and the newest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Published {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The revision.
        pub number: Number,
        /// Its tree: that of the [`Switch`], or another one that it was merged into.
        pub root: ChunkHash as Hash,
        /// Whether the publish has made it. It was there before if nothing had changed.
        pub is_new: bool,
    }

    /// Every older revision that is served says that it is stale.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Everywhere {
        /// The publisher's number for the request.
        pub ticket: u64,
    }

    /// A request that was refused. Nothing has changed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Refused {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The reason.
        pub why: Refusal,
        /// The newest revision, where that is the reason.
        pub head: Number,
        /// The reason for people.
        pub text: String as Tail<REFUSAL_BYTES_MAX>,
    }
}

/// Why a request of a publisher was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The publish was not made from the newest revision.
    Overtaken,
    /// Chunks of the tree are missing: the publisher must name them again.
    Incomplete,
    /// The tree cannot be read.
    Malformed,
    /// There is no such site.
    NoSite,
    /// There is a site of this name.
    IsThere,
    /// There is no room.
    NoRoom,
    /// The store failed.
    Failed,
    /// Only a store can answer the request: this is a relay.
    Relay,
    /// The newest revision has changed paths that the publish changes too. The text lists the first ones.
    Conflict,
    /// The revision that the publish was made from is no longer kept, so its changes are not known.
    NotKept,
    /// A lock that the publish names has ended.
    LockOver,
}

impl Refusal {
    const ALL: [Self; 11] = [
        Self::Overtaken,
        Self::Incomplete,
        Self::Malformed,
        Self::NoSite,
        Self::IsThere,
        Self::NoRoom,
        Self::Failed,
        Self::Relay,
        Self::Conflict,
        Self::NotKept,
        Self::LockOver,
    ];
}

impl Field for Refusal {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        one_of(&Self::ALL, what, reader)
    }
}
