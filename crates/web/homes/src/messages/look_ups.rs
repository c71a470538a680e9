//! The family of lookups: a cache of another machine reads words of a home's table.
//!
//! ```text
//!   cache                         responder, beside the home
//!     | Read{id, slots} ------------> |
//!     | <------------- Words{id, ..}  |   the words, and what says whether they count
//! ```
//! A home whose table can be read without its processor says behind its first answer where ([`Window`]).
//!
//! A cache has several of them under way, which are answered in their order. The answer has what a reader of the table
//! would have read: the lease, loaded before the words, and the home's clock, read after them. Whether a response is
//! current is decided by the cache, by these alone: its own clock has no part in it.
//!
//! | end | whose | hears | says |
//! |---|---|---|---|
//! | [`TABLE`] | the responder beside a home | `ToTable` | `FromTable` |
//! | [`CACHE`] | a cache | `FromTable` | `ToTable` |

use alloc::vec::Vec;
use framing::{Codec, End, Rest, Tail, family, fields, messages};
use machine::Goodbye;
use types::Time;
use types::limits::{ENDPOINT_NAME_BYTES_MAX, LOOK_UPS_PER_MESSAGE_MAX};

messages! {
    /// Asks for words of the table.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Read {
        /// The cache's number for the question.
        pub id: u64,
        /// The words' places.
        pub slots: Vec<u32> as Rest<LOOK_UPS_PER_MESSAGE_MAX>,
    }

    /// The answer to [`Read`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Words {
        /// The cache's number for the question.
        pub id: u64,
        /// The head of the table, as it was with these words.
        pub head: Head,
        /// The words, in the order of the question.
        pub words: Vec<u64> as Rest<LOOK_UPS_PER_MESSAGE_MAX>,
    }

    /// Where the table can be read by libfabric.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Window {
        /// Where the table begins, as the provider counts.
        pub base: u64,
        /// The key to it.
        pub key: u64,
        /// The slots that it has.
        pub slots: u32,
        /// The name of the home's endpoint.
        pub name: Vec<u8> as Tail<ENDPOINT_NAME_BYTES_MAX>,
    }
}

fields! {
    /// The words of a table that are not of a response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Head {
        /// The home's life.
        pub life: u64,
        /// The table's generation.
        pub generation: u64,
        /// When the home's lease is over, by its clock: loaded before the words.
        pub lease: Time,
        /// The time by that clock: read after the words.
        pub now: Time,
        /// The home's fill clock, for tickets; zero while none are given.
        pub fills: u64,
    }
}

family! {
    of "lookups";

    /// The messages of a cache to a table.
    pub enum ToTable, heard by "version table", in order {
        /// Wants words.
        1 Read,
        /// Ends the session, with the reason.
        39 Goodbye,
    }

    /// The messages of a table to a cache.
    pub enum FromTable, heard by "cache that looks up", in order {
        /// The words.
        2 Words,
        /// Ends the session, with the reason.
        39 Goodbye,
        /// Where they can be read.
        4 Window,
    }
}

/// The responder's end of a link.
pub const TABLE: &dyn Codec = End::<ToTable, FromTable>::CODEC;

/// The cache's end.
pub const CACHE: &dyn Codec = End::<FromTable, ToTable>::CODEC;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use framing::{Batch, Direction, Field, Inbox, Layout, WireError, frames_of};
    use machine::Parcel;

    fn passed(says: &'static dyn Codec, hears: &'static dyn Codec, parcel: &Parcel) -> Parcel {
        let bytes = frames_of(says, parcel).unwrap();
        Inbox::within_session(hears).next(&mut &bytes[..]).unwrap().unwrap()
    }

    fn opening() -> FromTable {
        let head = Head { life: 0, generation: 0, lease: Time(0), now: Time(0), fills: 0 };
        Words { id: 1, head, words: vec![] }.into()
    }

    #[test]
    fn messages_arrive_as_they_were_said() {
        for count in [0, 1, LOOK_UPS_PER_MESSAGE_MAX] {
            let read = Parcel::new(ToTable::from(Read { id: 7, slots: vec![u32::MAX; count] }));
            assert_eq!(passed(CACHE, TABLE, &read), read);
            let head = Head { life: 1, generation: u64::MAX, lease: Time(2), now: Time(3), fills: 4 };
            let words = Parcel::new(FromTable::from(Words { id: 7, head, words: vec![u64::MAX; count] }));
            assert_eq!(passed(TABLE, CACHE, &words), words);
        }
        for bytes in [0, ENDPOINT_NAME_BYTES_MAX] {
            let window = FromTable::from(Window { name: vec![7; bytes], base: u64::MAX, key: 2, slots: u32::MAX });
            let (words, window) = (Parcel::new(opening()), Parcel::new(window));
            let bytes = [frames_of(TABLE, &words).unwrap(), frames_of(TABLE, &window).unwrap()].concat();
            let (mut inbox, mut arrived) = (Inbox::within_session(CACHE), &bytes[..]);
            assert_eq!(inbox.next(&mut arrived), Ok(Some(words)));
            assert_eq!(inbox.next(&mut arrived), Ok(Some(window)));
        }
    }

    #[test]
    fn the_name_of_a_window_is_bounded() {
        let name = vec![7; ENDPOINT_NAME_BYTES_MAX + 1];
        let long = FromTable::from(Window { name, base: 1, key: 2, slots: 3 }).encode(&mut Batch::default());
        assert!(matches!(long, Err(WireError::Count { .. })));
    }

    #[test]
    fn too_many_at_a_time_are_not_sent_and_not_taken() {
        let read = ToTable::from(Read { id: 1, slots: vec![0; LOOK_UPS_PER_MESSAGE_MAX + 1] });
        assert!(matches!(read.encode(&mut Batch::default()), Err(WireError::Count { .. })));
        assert!(!Read::LIMITS.allow(u64::BYTES + (LOOK_UPS_PER_MESSAGE_MAX + 1) * u32::BYTES, 0));
    }
}
