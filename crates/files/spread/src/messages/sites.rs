//! Care of sites: settings, collections, surveys.

use super::fields::{Perhaps, one_of};
use crate::number::Number;
use alloc::string::String;
use alloc::vec::Vec;
use framing::{Field, Meta, Reader, Rest, Text, WireError, fields, messages};
use types::limits::{HASHES_PER_MESSAGE_MAX, SITE_NAME_BYTES_MAX, SPACE_NAME_BYTES_MAX};

messages! {
    /// A change of a site's settings.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Change {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The change.
        pub kind: ChangeKind,
        /// How many of the newest revisions are kept from now on.
        pub keep: Option<u32> as Perhaps,
        /// The length of leases from now on, in milliseconds.
        pub lease_ms: Option<u32> as Perhaps,
        /// The consistency from now on.
        pub consistency: Option<Consistency> as Perhaps,
        /// Whether servers serve a revision that may be stale, from now on.
        pub when_stale: Option<WhenStale> as Perhaps,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
    }

    /// A change is durable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Changed {
        /// The publisher's number for the request.
        pub ticket: u64,
    }

    /// Asks for the removal of unused chunks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Collect {
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

    /// Asks for a site's head and subscribers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Survey {
        /// The asker's number for the request.
        pub ticket: u64,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
    }

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

/// The kinds of changes of a site's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A site without a revision is created.
    Create,
    /// Settings are changed.
    Set,
    /// The site is removed with all its revisions.
    Remove,
}

impl Field for ChangeKind {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        one_of(&[Self::Create, Self::Set, Self::Remove], what, reader)
    }
}

/// The consistency that readers of a site see (the Publish paper, "Locking for Content Distribution").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Each revision is pushed to all subscribers: reads never wait, and see a revision that was the newest at most a
    /// lease ago.
    #[default]
    Publish,
    /// Subscribers are told that there is a newer revision, and fetch it for the next reader, as in AFS.
    Callback,
    /// A revision is published when no subscriber serves the one before: readers see the newest one, always.
    Sequential,
}

impl Consistency {
    /// Each of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Publish, Self::Callback, Self::Sequential];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Callback => "callback",
            Self::Sequential => "sequential",
        }
    }

    /// Whether a subscriber fetches a revision only for a reader.
    pub fn is_lazy(self) -> bool {
        self != Self::Publish
    }
}

impl Field for Consistency {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        one_of(&Self::ALL, what, reader)
    }
}

/// The choice of a server that cannot know whether the revision it has is still the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenStale {
    /// The revision is served, with the time since which there may be a newer one.
    #[default]
    Serve,
    /// Visitors are refused.
    Refuse,
}

impl WhenStale {
    /// Each of them, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Serve, Self::Refuse];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Refuse => "refuse",
        }
    }
}

impl Field for WhenStale {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (*self as u32).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        one_of(&Self::ALL, what, reader)
    }
}

fields! {
    /// The state of a subscriber.
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
