//! The family of published files: a file server or a relay, and its subscribers and publishers.
//!
//! ```text
//!   subscriber                     relay or file server                              publisher
//!     | Join{life, asked, held} -----> |                                                 |
//!     | <--- Joined{asked, lease, 17}  | <------------------------------ Have{hashes}    |
//!     |                                |   Missing{hashes} ----------------------------> |
//!     |                                | <------------------------------ Put{chunks} *   |
//!     |                                |   Stored -------------------------------------> |   durable
//!     |                                | <------------------------------ Switch{base, root}
//!     | <--------- Offer{18, edits}    |   Published{18} ------------------------------> |   durable, and the newest
//!     | Want{hashes} ----------------> |                                                 |
//!     | <----------------- Chunk *     |                                                 |
//!     | Renew{asked, at 18, 17} -----> |   18 is served, and 17 is read by nobody        |
//!     | <------ Renewed{asked, lease}  |   Everywhere ---------------------------------> |   to those who wait for it
//! ```
//! A renewal keeps its place behind the offers (**RenewInOrder**), so a lease says nothing of offers that are still on
//! their way. Chunks let everything else pass.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`FILE_SERVER`] | a file server or a relay | `ToFileServer` | `FromFileServer` |
//! | [`SUBSCRIBER`] | a relay, a member, a publisher | `FromFileServer` | `ToFileServer` |

use crate::number::Number;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::check_count;
use framing::{
    Codec, Data, End, Field, FieldLayout, Layout, Limits, Meta, Reader, Rest, Tail, Text, WireError, family, fields,
    messages,
};
use machine::{Goodbye, Message, Pace};
use tree::ChunkHash;
use tree::limits::CHUNK_BYTES_MAX;
use types::Time;
use types::limits::{
    CHUNKS_PER_PUT_MAX, EDITS_BYTES_MAX, HASHES_PER_MESSAGE_MAX, HOLDS_PER_SUBSCRIBER_MAX, NOTE_BYTES_MAX,
    PUT_BYTES_MAX, REFUSAL_BYTES_MAX, SITE_NAME_BYTES_MAX, SPACE_NAME_BYTES_MAX,
};

/// The name of a chunk as a field.
#[derive(Debug)]
pub struct Hash;

impl Hash {
    const BYTES: usize = ChunkHash::BYTES;

    fn read(reader: &mut Reader<'_>) -> Result<ChunkHash, WireError> {
        Ok(ChunkHash::from(*reader.get::<[u8; Self::BYTES]>()?))
    }
}

impl FieldLayout<ChunkHash> for Hash {
    const LIMITS: Limits = Limits::bytes(Self::BYTES);

    fn put(field: &ChunkHash, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(field.as_bytes());
        Ok(())
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<ChunkHash, WireError> {
        Self::read(reader)
    }
}

/// At most [`HASHES_PER_MESSAGE_MAX`] names of chunks, to the end of the meta.
#[derive(Debug)]
pub struct Hashes;

impl FieldLayout<Vec<ChunkHash>> for Hashes {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(HASHES_PER_MESSAGE_MAX * Hash::BYTES);

    fn put(field: &Vec<ChunkHash>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), HASHES_PER_MESSAGE_MAX)?;
        for hash in field {
            meta.put(hash.as_bytes());
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<ChunkHash>, WireError> {
        let count = reader.meta_bytes() / Hash::BYTES;
        check_count(what, count, HASHES_PER_MESSAGE_MAX)?;
        let hashes = reader.list(count, Hash::BYTES, Hash::read)?;
        reader.end()?;
        Ok(hashes)
    }
}

/// The key that signs the cookies of a site's visitors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VisitorKey(pub [u8; Self::BYTES]);

impl VisitorKey {
    const BYTES: usize = 32;
}

impl core::fmt::Debug for VisitorKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("VisitorKey")
    }
}

impl Field for VisitorKey {
    const BYTES: usize = Self::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        meta.put(&self.0);
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self(*reader.get::<[u8; Self::BYTES]>()?))
    }
}

messages! {
    /// A subscriber wants a site. Said again, it begins again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Join {
        /// The subscriber's number for the site in this session.
        pub slot: u32,
        /// When it asks, by its own clock.
        pub asked: Time,
        /// The number of this run of the subscriber, drawn at random: what it holds is known by it when it comes again.
        pub life: u64,
        /// The revision that it serves; of a relay, the oldest that somebody behind it serves.
        pub at: Number,
        /// The newest revision that it knows of, or somebody behind it.
        pub seen: Number,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
        /// The revisions that are read at it, and below it.
        pub held: Vec<Number> as Rest<HOLDS_PER_SUBSCRIBER_MAX>,
    }

    /// A subscriber asks for more of its lease, and reports.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Renew {
        /// The site.
        pub slot: u32,
        /// When it asks, by its own clock.
        pub asked: Time,
        /// The revision that it serves; of a relay, the oldest that somebody behind it serves.
        pub at: Number,
        /// Revisions that it was promised and that nobody reads any more.
        pub released: Vec<Number> as Rest<HOLDS_PER_SUBSCRIBER_MAX>,
    }

    /// A relay asks for a hold on a revision, for somebody behind it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hold {
        /// The site.
        pub slot: u32,
        /// The revision.
        pub number: Number,
    }

    /// A subscriber wants a site no longer: what it held is free.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Leave {
        /// The site.
        pub slot: u32,
    }

    /// Wants chunks. Each is answered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Want {
        /// Their names.
        pub hashes: Vec<ChunkHash> as Hashes,
    }

    /// A publisher is going to need these chunks. From now on none of them is swept while its session lasts.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Have {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// Their names.
        pub hashes: Vec<ChunkHash> as Hashes,
    }
}

/// Chunks that were missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The publisher's number for the request.
    pub ticket: u64,
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

impl Layout for Put {
    const LIMITS: Limits = Limits::bytes(u64::BYTES)
        .and_up_to(CHUNKS_PER_PUT_MAX * (PutHead::BYTES + Hash::BYTES))
        .with_body(PUT_BYTES_MAX);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("chunks", self.chunks.len(), CHUNKS_PER_PUT_MAX)?;
        check_count("bytes of chunks", self.chunks.iter().map(|(_, bytes)| bytes.len()).sum(), PUT_BYTES_MAX)?;
        self.ticket.put(meta);
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
        let count = reader.meta_bytes() / (PutHead::BYTES + Hash::BYTES);
        check_count("chunks", count, CHUNKS_PER_PUT_MAX)?;
        let chunks = reader.list(count, PutHead::BYTES + Hash::BYTES, |reader| {
            let PutHead { bytes } = PutHead::get("chunk", reader)?;
            let hash = Hash::read(reader)?;
            Ok((hash, reader.bytes(bytes as usize)?))
        })?;
        reader.end()?;
        Ok(Self { ticket, chunks })
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
    /// A tree whose chunks are all there is to become the newest revision of a site.
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
        /// Whether the publisher waits until nobody serves an older revision without saying so.
        pub waits: bool,
        /// A note for the log.
        pub note: String as Tail<NOTE_BYTES_MAX>,
    }

    /// A change of a site's settings.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Change {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The change.
        pub kind: ChangeKind,
        /// How many of the newest revisions are kept, where that is part of it.
        pub keep: u32,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
    }

    /// The chunks that no revision needs are to be removed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Collect {
        /// The publisher's number for the request.
        pub ticket: u64,
    }

    /// How does a site stand?
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Survey {
        /// The asker's number for the request.
        pub ticket: u64,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
    }
}

/// A root that a message may lack: a site may have no revision.
#[derive(Debug)]
pub struct MayBe;

impl FieldLayout<Option<ChunkHash>> for MayBe {
    const LIMITS: Limits = Limits::bytes(u32::BYTES + Hash::BYTES);

    fn put(field: &Option<ChunkHash>, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        field.is_some().put(meta);
        meta.put(field.map_or([0; Hash::BYTES], |hash| *hash.as_bytes()).as_slice());
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Option<ChunkHash>, WireError> {
        let is_there = bool::get(what, reader)?;
        let hash = Hash::read(reader)?;
        Ok(is_there.then_some(hash))
    }
}

/// The kinds of changes of a site's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A site without a revision is created.
    Create,
    /// Another number of revisions is kept.
    Keep,
    /// The site is removed with all its revisions.
    Remove,
}

impl Field for ChangeKind {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match u32::get(what, reader)? {
            0 => Ok(Self::Create),
            1 => Ok(Self::Keep),
            2 => Ok(Self::Remove),
            got => Err(WireError::Code { what, got: got.into() }),
        }
    }
}

messages! {
    /// The answer to [`Join`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Joined {
        /// The site.
        pub slot: u32,
        /// When the subscriber asked, by its own clock.
        pub asked: Time,
        /// Its lease from then on, in milliseconds by its own clock.
        pub lease_ms: u32,
        /// The newest revision.
        pub number: Number,
        /// Its tree.
        pub root: ChunkHash as Hash,
        /// How many revisions the site keeps.
        pub keep: u32,
        /// The key that signs the cookies of the site's visitors.
        pub key: VisitorKey,
        /// The revisions that are held for the subscriber, beside the newest.
        pub held: Vec<Number> as Rest<HOLDS_PER_SUBSCRIBER_MAX>,
    }

    /// The other answer to [`Join`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NotJoined {
        /// The site.
        pub slot: u32,
        /// The reason.
        pub why: NotNow,
    }

    /// There is a newer revision, which is held for the subscriber.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Offer {
        /// The site.
        pub slot: u32,
        /// The revision.
        pub number: Number,
        /// Its tree.
        pub root: ChunkHash as Hash,
        /// The tree from which the edits lead to it.
        pub base: ChunkHash as Hash,
        /// Whether a publisher waits for the subscriber to report that it serves the revision.
        pub reports: bool,
        /// The edits, with the chunks that they need; empty if they are too large.
        pub edits: Bytes as Data<EDITS_BYTES_MAX>,
    }

    /// The lease goes on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Renewed {
        /// The site.
        pub slot: u32,
        /// When the subscriber asked, by its own clock.
        pub asked: Time,
        /// Its lease from then on, in milliseconds by its own clock.
        pub lease_ms: u32,
    }

    /// The lease is over, and what it protected may be gone: the subscriber is to join again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lapsed {
        /// The site.
        pub slot: u32,
    }

    /// The answer to [`Hold`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Held {
        /// The site.
        pub slot: u32,
        /// The revision.
        pub number: Number,
        /// Whether it is there, and held from now on.
        pub is_held: bool,
    }

    /// A chunk.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Chunk {
        /// Its name.
        pub hash: ChunkHash as Hash,
        /// Its bytes.
        pub bytes: Bytes as Data<CHUNK_BYTES_MAX>,
    }

    /// A chunk that is not there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gone {
        /// Its name.
        pub hash: ChunkHash as Hash,
    }

    /// The answer to [`Have`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Missing {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// Chunks that are to be put, in the order in which they were named.
        pub hashes: Vec<ChunkHash> as Hashes,
    }

    /// All chunks of a [`Put`] are durable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Stored {
        /// The publisher's number for the request.
        pub ticket: u64,
    }

    /// A revision is durable, and the newest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Published {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The revision.
        pub number: Number,
    }

    /// Nobody serves an older revision without saying so.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Everywhere {
        /// The publisher's number for the request.
        pub ticket: u64,
    }

    /// A change is durable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Changed {
        /// The publisher's number for the request.
        pub ticket: u64,
    }

    /// A collection has ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Collected {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The chunks that were removed.
        pub chunks: u64,
        /// Their bytes.
        pub bytes: u64,
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

/// Why a subscriber cannot join at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// There is no such site, or it has no revision.
    NoSite,
    /// A relay has no lease itself, or a server has yet to find out what it published before.
    NotYet,
    /// There are as many subscribers as it takes.
    Full,
}

impl Field for NotNow {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match u32::get(what, reader)? {
            0 => Ok(Self::NoSite),
            1 => Ok(Self::NotYet),
            2 => Ok(Self::Full),
            got => Err(WireError::Code { what, got: got.into() }),
        }
    }
}

/// Why a request of a publisher was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The newest revision is another one than the publish was made from.
    Overtaken,
    /// Chunks of the tree are missing: they are to be named again.
    Incomplete,
    /// The tree cannot be read.
    Malformed,
    /// There is no such site.
    NoSite,
    /// There is one of this name.
    IsThere,
    /// There is no room.
    NoRoom,
    /// The store failed.
    Failed,
    /// It can be answered by a store alone: this is a relay.
    Relay,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::Overtaken,
        Self::Incomplete,
        Self::Malformed,
        Self::NoSite,
        Self::IsThere,
        Self::NoRoom,
        Self::Failed,
        Self::Relay,
    ];
}

impl Field for Refusal {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let got = u32::get(what, reader)?;
        Self::ALL.get(got as usize).copied().ok_or(WireError::Code { what, got: got.into() })
    }
}

fields! {
    /// How a subscriber stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Standing {
        /// The number of its run.
        pub life: u64,
        /// The revision that it has reported.
        pub at: Number,
        /// The rest of its lease, in milliseconds.
        pub lease_ms: u32,
        /// The revisions that it holds.
        pub holds: u32,
        /// Whether it is connected.
        pub is_connected: bool,
    }
}

messages! {
    /// The answer to [`Survey`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Surveyed {
        /// The asker's number for the request.
        pub ticket: u64,
        /// The newest revision.
        pub head: Number,
        /// The subscribers.
        pub subscribers: Vec<Standing> as Rest<HASHES_PER_MESSAGE_MAX>,
    }
}

family! {
    of "published files";

    /// The messages to a file server or a relay.
    pub enum ToFileServer, heard by "file server or a relay" {
        /// Wants a site.
        1 Join,
        /// Asks for more of its lease.
        2 Renew,
        /// Asks for a hold.
        3 Hold,
        /// Wants a site no longer.
        4 Leave,
        /// Wants chunks.
        5 Want,
        /// Is going to need chunks.
        6 Have,
        /// Chunks.
        7 Put,
        /// A tree is to be the newest revision.
        8 Switch,
        /// Changes settings.
        9 Change,
        /// Wants unused chunks removed.
        10 Collect,
        /// Asks how a site stands.
        11 Survey,
        /// Ends the session, with the reason.
        39 Goodbye,
    }

    /// The messages of a file server or a relay.
    pub enum FromFileServer, heard by "subscriber or a publisher" {
        /// A site, and a lease.
        20 Joined,
        /// None.
        21 NotJoined,
        /// A newer revision.
        22 Offer,
        /// The lease goes on.
        23 Renewed,
        /// The lease is over.
        24 Lapsed,
        /// A hold, or none.
        25 Held,
        /// A chunk.
        26 Chunk,
        /// A chunk that is not there.
        27 Gone,
        /// Chunks to be put.
        28 Missing,
        /// Chunks are durable.
        29 Stored,
        /// A revision is durable.
        30 Published,
        /// Nobody serves an older one without saying so.
        31 Everywhere,
        /// A change is durable.
        32 Changed,
        /// A collection has ended.
        33 Collected,
        /// How a site stands.
        34 Surveyed,
        /// A request was refused.
        35 Refused,
        /// Ends the session, with the reason.
        39 Goodbye,
    }
}

/// The end that takes sessions.
pub const FILE_SERVER: &dyn Codec = End::<ToFileServer, FromFileServer>::CODEC;

/// The end that opens them.
pub const SUBSCRIBER: &dyn Codec = End::<FromFileServer, ToFileServer>::CODEC;

impl Message for ToFileServer {
    fn pace(&self) -> Pace {
        match self {
            Self::Put(_) => Pace::Yielding,
            Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}

impl Message for FromFileServer {
    fn pace(&self) -> Pace {
        match self {
            Self::Chunk(_) => Pace::Yielding,
            Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}
