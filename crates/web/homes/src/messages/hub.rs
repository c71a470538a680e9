//! The family of the web front end: the hub of an origin with its homes and its updaters.
//!
//! ```text
//!   home                         hub                         updater or source
//!     | Join{life} -------------> |                             |
//!     | <-- Reset, Mark{u}*, Joined{lease}                      |
//!     |                           | <------- Introduce{life, source?, fence}
//!     |                           | Lease --------------------> |   for what is released to it
//!     |                           | <------- Update{id, deps}   |   the hub gives it the next number u
//!     | <------------- Mark{u}    |                             |
//!     | Marked{u} --------------> |  all homes have             |
//!     |                           |  Released{id} ------------> |   the update may become visible
//!     |                           | <------- Visible{id}        |   it is: every new reader sees it
//!     | <----------- Unmark{u}    |                             |
//!     |                           | <------- CaughtUp{fence}    |   of a source: what is to come, it announces
//!     | Renew{asked} -----------> |                             |
//!     | <-- Lease{asked, length}  |   behind the marks that the hub has told of before
//!     | Leave ------------------> |   its table answers nothing any more: it is waited for no longer
//! ```
//! A home hears everything from its hub in one order, renewals of its lease among them: one that is behind with its
//! marks is never renewed past what it has not heard (**RenewInOrder**).
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`HUB`] | a hub | `ToHub` | `FromHub` |
//! | [`HOME`] | a home, or an updater | `FromHub` | `ToHub` |

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use framing::field::{check_count, get_text, put_text};
use framing::{
    Codec, End, Field, FieldLayout, Limits, Meta, Reader, WireError, family, fields, messages, number_fields,
};
use machine::Goodbye;
use types::Time;
use types::limits::{DEPENDENCIES_KEPT_MAX, DEPENDENCY_BYTES_MAX, SOURCE_NAME_BYTES_MAX};

/// A name that web responses depend on and updates change, such as `item:42` or `table:items`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency(Bytes);

impl Dependency {
    /// The name of everything that an origin serves.
    pub const ALL: Self = Self(Bytes::from_static(b"*"));

    /// A dependency of this name, which is `None` if it is empty or longer than
    /// [`DEPENDENCY_BYTES_MAX`](types::limits::DEPENDENCY_BYTES_MAX).
    pub fn new(name: impl Into<Bytes>) -> Option<Self> {
        let name = name.into();
        (1..=DEPENDENCY_BYTES_MAX).contains(&name.len()).then_some(Self(name))
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The name of a source: a place that data changes in, such as a database, of whose changes a hub should be told before
/// they are visible.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName(String);

impl SourceName {
    /// A name of a source, which is `None` if it is empty, longer than
    /// [`SOURCE_NAME_BYTES_MAX`](types::limits::SOURCE_NAME_BYTES_MAX) or has control characters.
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let is_one = (1..=SOURCE_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
        is_one.then_some(Self(name))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fields! {
    /// The fencing number of a source: whoever gets hold of the source later has a greater one, so that one who was
    /// stopped in the meantime is known by his. The term counts first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Fence {
        /// Such as the timeline of a database.
        pub term: u64,
        /// Such as a position in its log.
        pub number: u64,
    }
}

impl Fence {
    /// That of an updater which has never got hold of its source.
    pub const NONE: Self = Self { term: 0, number: 0 };
}

/// The number of an update of an origin, which its hub has given it; they count up within a life of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateId(pub u64);

messages! {
    /// A home's first message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Join {
        /// The number of this life of the home, drawn at random: two lives have different ones.
        pub life: u64,
        /// When the home has asked, by its own clock.
        pub asked: Time,
    }

    /// A home or an updater asks for more of its lease.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Renew {
        /// When it has asked, by its own clock.
        pub asked: Time,
    }

    /// No response that depends on what this update changes is used any more, at this home.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Marked {
        /// The update.
        pub update: UpdateId,
    }
}

messages! {
    /// A home ends: it has taken back the lease of its table, which nobody believes any more (**LeaveWhenRevoked**).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leave;
}

messages! {
    /// An updater's first message.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Introduce {
        /// The number of this life of the updater, drawn at random: its updates under way are known by it when it comes
        /// again.
        pub life: u64,
        /// When the updater has asked, by its own clock.
        pub asked: Time,
        /// Its number there, once it has caught up.
        pub fence: Fence,
        /// The name of the source that it speaks for, if it does for one.
        pub source: Option<SourceName> as MaySpeakFor,
    }

    /// A source has announced everything that has become visible before, or that may become so by what it released
    /// before: from here on its own updates tell all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CaughtUp {
        /// Its number there.
        pub fence: Fence,
    }

    /// An updater is about to make these changes visible.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Update {
        /// The updater's number for it.
        pub id: u64,
        /// Everything that it changes.
        pub dependencies: Vec<Dependency> as Names,
    }

    /// Every new reader sees the update.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Visible {
        /// The updater's number for it.
        pub id: u64,
    }
}

messages! {
    /// The home's earlier marks mean nothing any more, nor does what it has stored: it begins again with what follows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Reset;
}

messages! {
    /// An update is about to become visible.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Mark {
        /// Its number.
        pub update: UpdateId,
        /// Everything that it changes.
        pub dependencies: Vec<Dependency> as Names,
    }

    /// An update is visible to all.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unmark {
        /// Its number.
        pub update: UpdateId,
    }

    /// A home answers for its table for this long, from when it has asked; the first one says that it has learned of
    /// all outstanding marks. To an updater, releases stand for this long.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lease {
        /// When it has asked, by its own clock.
        pub asked: Time,
        /// For how long, in milliseconds.
        pub lease_ms: u32,
    }

    /// No cache uses any more what the update changes: it may become visible.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Released {
        /// The updater's number for it.
        pub id: u64,
    }
}

number_fields! { UpdateId(u64) }

/// The source that an updater speaks for: an empty name says that it does for none.
#[derive(Debug)]
pub struct MaySpeakFor;

impl FieldLayout<Option<SourceName>> for MaySpeakFor {
    const LIMITS: Limits = Limits::NOTHING.and_text(SOURCE_NAME_BYTES_MAX);

    fn put(source: &Option<SourceName>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_text(meta, what, source.as_ref().map_or("", SourceName::as_str), SOURCE_NAME_BYTES_MAX)
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Option<SourceName>, WireError> {
        let name = get_text(reader, what, SOURCE_NAME_BYTES_MAX)?;
        if name.is_empty() { Ok(None) } else { SourceName::new(name).map(Some).ok_or(WireError::Text) }
    }
}

/// Dependencies: each its length and its bytes, to the end of the meta. A response has the most of them; an update of
/// as many is one of everything.
#[derive(Debug)]
pub struct Names;

impl FieldLayout<Vec<Dependency>> for Names {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(DEPENDENCIES_KEPT_MAX * (u16::BYTES + DEPENDENCY_BYTES_MAX));

    fn put(names: &Vec<Dependency>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, names.len(), DEPENDENCIES_KEPT_MAX)?;
        for dependency in names {
            put_name(dependency, meta);
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<Dependency>, WireError> {
        let mut names = Vec::new();
        while !reader.is_at_end() {
            check_count(what, names.len() + 1, DEPENDENCIES_KEPT_MAX)?;
            names.push(get_name(what, reader)?);
        }
        Ok(names)
    }
}

/// A single dependency, as one of [`Names`].
#[derive(Debug)]
pub struct OneName;

impl FieldLayout<Dependency> for OneName {
    const LIMITS: Limits = Limits::bytes(u16::BYTES).and_up_to(DEPENDENCY_BYTES_MAX);

    fn put(name: &Dependency, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_name(name, meta);
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Dependency, WireError> {
        get_name(what, reader)
    }
}

fn put_name(dependency: &Dependency, meta: &mut Meta<'_>) {
    (dependency.name().len() as u16).put(meta);
    meta.put(dependency.name());
}

fn get_name(what: &'static str, reader: &mut Reader<'_>) -> Result<Dependency, WireError> {
    let len = u16::get(what, reader)?;
    let name = Bytes::copy_from_slice(reader.many::<u8>(len.into())?);
    Dependency::new(name).ok_or(WireError::Code { what: "length of a dependency", got: len.into() })
}

family! {
    of "hub";

    /// The messages to a hub.
    pub enum ToHub, heard by "hub", in order {
        /// A home begins.
        1 Join,
        /// Wants its lease renewed.
        2 Renew,
        /// Has marked an update.
        3 Marked,
        /// An updater begins.
        4 Introduce,
        /// Wants to make an update visible.
        5 Update,
        /// It is visible.
        6 Visible,
        /// Ends the session, with the reason.
        39 Goodbye,
        /// Everything of its source before is announced.
        13 CaughtUp,
        /// A home answers nothing any more.
        14 Leave,
    }

    /// The messages of a hub, to its homes and its updaters.
    pub enum FromHub, heard by "home or updater", in order {
        /// Begin again.
        7 Reset,
        /// An update is about to become visible.
        8 Mark,
        /// It is.
        9 Unmark,
        /// A lease.
        10 Lease,
        /// An updater may continue.
        11 Released,
        /// Ends the session, with the reason.
        39 Goodbye,
    }
}

/// The hub's end of a link.
pub const HUB: &dyn Codec = End::<ToHub, FromHub>::CODEC;

/// The end of a home, or of an updater.
pub const HOME: &dyn Codec = End::<FromHub, ToHub>::CODEC;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use framing::{Batch, Direction, HEADER_BYTES, Inbox, frames_of};
    use machine::{Message, Parcel};
    use types::GoodbyeReason;

    fn pass<M: Direction + Clone>(says: &'static dyn Codec, hears: &'static dyn Codec, opening: M, message: M) {
        for message in [opening, message] {
            let parcel = || Parcel::new(message.clone());
            let bytes = frames_of(says, &parcel()).unwrap();
            let mut inbox = Inbox::within_session(hears);
            assert_eq!(inbox.next(&mut &bytes[..]), Ok(Some(parcel())));
        }
    }

    fn names() -> Vec<Dependency> {
        [&b"*"[..], b"item:42", &[7; DEPENDENCY_BYTES_MAX]].map(|name| Dependency::new(name.to_vec()).unwrap()).into()
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        let fence = Fence { term: 2, number: u64::MAX };
        let to: Vec<ToHub> = vec![
            Renew { asked: Time(9) }.into(),
            Marked { update: UpdateId(7) }.into(),
            Introduce { life: 5, asked: Time(6), source: None, fence: Fence::NONE }.into(),
            Introduce { life: 5, asked: Time(6), source: SourceName::new("s".repeat(SOURCE_NAME_BYTES_MAX)), fence }
                .into(),
            CaughtUp { fence }.into(),
            Leave.into(),
            Update { id: 3, dependencies: names() }.into(),
            Visible { id: 3 }.into(),
            Goodbye { reason: GoodbyeReason::Done, text: "ends".into() }.into(),
        ];
        for message in to {
            pass(HOME, HUB, Join { life: u64::MAX, asked: Time(1) }.into(), message);
        }
        let from: Vec<FromHub> = vec![
            Mark { update: UpdateId(1), dependencies: names() }.into(),
            Mark { update: UpdateId(2), dependencies: vec![] }.into(),
            Unmark { update: UpdateId(1) }.into(),
            Lease { asked: Time(5), lease_ms: 700 }.into(),
            Released { id: 3 }.into(),
        ];
        for message in from {
            pass(HUB, HOME, Reset.into(), message);
        }
    }

    #[test]
    fn an_update_of_too_many_names_is_not_sent() {
        let dependencies = vec![Dependency::ALL; DEPENDENCIES_KEPT_MAX + 1];
        let update = ToHub::from(Update { id: 1, dependencies });
        assert!(matches!(update.encode(&mut Batch::default()), Err(WireError::Count { .. })));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let mark = Mark { update: UpdateId(1), dependencies: names() };
        let bytes = frames_of(HUB, &Parcel::new(FromHub::from(mark))).unwrap();
        let length_at = HEADER_BYTES + u64::BYTES;
        for (length, error) in [
            (0, WireError::Code { what: "length of a dependency", got: 0 }),
            (DEPENDENCY_BYTES_MAX + 1, WireError::Code { what: "length of a dependency", got: 257 }),
            (0xFFFF, WireError::Short { kind: "Mark" }),
        ] {
            let mut bytes = bytes.clone();
            bytes[length_at..][..2].copy_from_slice(&(length as u16).to_le_bytes());
            assert_eq!(Inbox::within_session(HOME).next(&mut &bytes[..]), Err(error));
        }
    }

    #[test]
    fn every_goodbye_is_known_for_one() {
        let goodbye = Goodbye { reason: GoodbyeReason::Done, text: "ends".into() };
        assert!(ToHub::from(goodbye.clone()).goodbye().is_some() && FromHub::from(goodbye).goodbye().is_some());
    }

    /// **RenewInOrder**: no message to a home passes another.
    #[test]
    fn a_lease_does_not_pass_a_mark() {
        let all: Vec<FromHub> = vec![
            Reset.into(),
            Mark { update: UpdateId(1), dependencies: vec![Dependency::ALL] }.into(),
            Unmark { update: UpdateId(1) }.into(),
            Lease { asked: Time(1), lease_ms: 1 }.into(),
        ];
        for message in &all {
            assert!(all.iter().all(|earlier| !message.pace().may_pass(earlier.pace())), "{message:?}");
        }
    }

    #[test]
    fn a_name_has_bytes_and_not_too_many() {
        assert!(Dependency::new("").is_none());
        assert!(Dependency::new(vec![b'a'; DEPENDENCY_BYTES_MAX + 1]).is_none());
        assert_eq!(Dependency::new("*"), Some(Dependency::ALL));
    }
}
