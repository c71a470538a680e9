//! The numbers of the family's messages on the wire.

use crate::PIECE;

/// Numbers kinds from 1 in the order of their names.
macro_rules! kinds {
    ($(#[$of_all:meta])* pub enum Kind { $($name:ident = $number:literal,)+ }) => {
        $(#[$of_all])*
        pub enum Kind {
            $($name = $number,)+
        }

        impl Kind {
            /// All kinds, in the order of their numbers, which count from 1.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$name),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

kinds! {
    /// The kinds of message, by their numbers on the wire.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "each is the message of its name")]
    #[repr(u8)]
    pub enum Kind {
        Hello = 1,
        Welcome = 2,
        Goodbye = 3,
        Rejoin = 4,
        Rejoined = 5,
        Ping = 6,
        Pong = 7,
        Fetch = 8,
        Page = 9,
        LeftOut = 10,
        Released = 11,
        Commit = 12,
        AskOutcome = 13,
        CommitReply = 14,
        Notices = 15,
        Ack = 16,
        Grant = 17,
        Granted = 18,
        Reachable = 19,
        Help = 20,
        NoHelp = 21,
        PeerPage = 22,
        Arrived = 23,
        PeerHello = 24,
        Revalidate = 25,
        Revalidated = 26,
        Departed = 27,
        Lead = 28,
        FindLeader = 29,
        Leader = 30,
        Members = 31,
        Leased = 32,
        Intent = 33,
        Promise = 34,
        AskStatus = 35,
        Status = 36,
    }
}

// The next number is that of a piece: a kind that is added takes one beyond it.
const _: () = assert!(Kind::ALL.len() < PIECE as usize);

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

impl From<Kind> for u8 {
    fn from(kind: Kind) -> Self {
        kind as Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_ones_on_the_wire() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, Kind::from_number(kind as u8)), (i + 1, Some(kind)));
        }
        assert_eq!((Kind::from_number(0), Kind::from_number(PIECE)), (None, None));
    }
}
