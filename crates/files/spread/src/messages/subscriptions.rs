//! Subscriptions: joins, leases, holds, offers and chunks.

use super::fields::{Hash, Hashes, Sizes, VisitorKey, one_of};
use super::sites::{Consistency, WhenStale};
use crate::number::Number;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use framing::{Data, Field, Meta, Reader, Rest, Tail, Text, WireError, messages};
use tree::ChunkHash;
use tree::limits::CHUNK_BYTES_MAX;
use types::Time;
use types::limits::{
    EDITS_BYTES_MAX, HOLDS_PER_SUBSCRIBER_MAX, REFUSAL_BYTES_MAX, SITE_NAME_BYTES_MAX, SPACE_NAME_BYTES_MAX,
};

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
        /// The revision that it serves; of a relay, the oldest that a member behind it serves.
        pub at: Number,
        /// The newest revision that it, or a member behind it, knows of.
        pub seen: Number,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
        /// The revisions that are read at it, and below it.
        pub held: Vec<Number> as Rest<HOLDS_PER_SUBSCRIBER_MAX>,
    }

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
        /// The site's consistency.
        pub consistency: Consistency,
        /// Whether a revision is served when the lease is over.
        pub when_stale: WhenStale,
        /// Whether the subscriber may serve the newest revision as such: it is told before, or when, that ends.
        pub shares: bool,
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

    /// A subscriber asks for more of its lease, and reports.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Renew {
        /// The site.
        pub slot: u32,
        /// When it asks, by its own clock.
        pub asked: Time,
        /// The revision that it serves; of a relay, the oldest that a member behind it serves.
        pub at: Number,
        /// Revisions that it was promised and that have no readers left.
        pub released: Vec<Number> as Rest<HOLDS_PER_SUBSCRIBER_MAX>,
    }

    /// The lease is renewed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Renewed {
        /// The site.
        pub slot: u32,
        /// When the subscriber asked, by its own clock.
        pub asked: Time,
        /// Its lease from then on, in milliseconds by its own clock.
        pub lease_ms: u32,
    }

    /// The lease is over, and its revisions may be gone: the subscriber must join again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lapsed {
        /// The site.
        pub slot: u32,
    }

    /// A relay asks for a hold on a revision, for a member behind it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hold {
        /// The site.
        pub slot: u32,
        /// The revision.
        pub number: Number,
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

    /// A subscriber wants a site no longer: what it held is free.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Leave {
        /// The site.
        pub slot: u32,
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
        /// Whether the subscriber has asked for it.
        pub answers: bool,
        /// The edits, with the chunks that they need; empty if they are too large.
        pub edits: Bytes as Data<EDITS_BYTES_MAX>,
    }

    /// Chunks of an upload that are durable. A switch may make them part of a revision.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ahead {
        /// The site.
        pub slot: u32,
        /// Their names and sizes.
        pub chunks: Vec<(ChunkHash, u32)> as Sizes,
    }

    /// The served revision is no longer the newest. Newer ones are not announced until the subscriber acquires the
    /// newest (callback consistency).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Invalidate {
        /// The site.
        pub slot: u32,
        /// The newest revision.
        pub number: Number,
        /// Whether a publisher waits for the subscriber to report that it serves no older revision.
        pub reports: bool,
    }

    /// There is going to be a newer revision, which waits for the subscriber to release the newest (sequential
    /// consistency).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Revoke {
        /// The site.
        pub slot: u32,
    }

    /// The subscriber serves no revision as the newest until it has acquired the newest again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Release {
        /// The site.
        pub slot: u32,
    }

    /// A subscriber wants the newest revision. The answer is an [`Offer`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Acquire {
        /// The site.
        pub slot: u32,
        /// The revision that it has, from which edits may lead to the newest.
        pub at: Number,
        /// Whether newer ones are announced or offered to it from then on.
        pub shares: bool,
    }

    /// Wants chunks. Each is answered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Want {
        /// Their names.
        pub hashes: Vec<ChunkHash> as Hashes,
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

    /// A chunk that cannot be read at the moment. It is not known to be gone.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Unread {
        /// Its name.
        pub hash: ChunkHash as Hash,
        /// Why, for people.
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
        one_of(&[Self::NoSite, Self::NotYet, Self::Full], what, reader)
    }
}
