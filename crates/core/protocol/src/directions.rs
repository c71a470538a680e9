//! The store's family, by direction.

use crate::order::Pace;
use crate::{
    Ack, Arrived, AskOutcome, AskStatus, CommitReply, CommitRequest, Departed, Fetch, FindLeader, Goodbye, Grant,
    Granted, Hello, Help, Intent, Lead, Leader, Leased, LeftOut, Members, Message, NoHelp, Notices, Page, PeerHello,
    PeerPage, Ping, Pong, Promise, Reachable, Rejoin, Rejoined, Released, Revalidate, Revalidated, Status, Welcome,
};

/// Defines an enum of messages, and `From` for each of them.
macro_rules! messages {
    (
        $(#[$of_all:meta])*
        pub enum $direction:ident { $($(#[$of_one:meta])* $name:ident($message:ty),)+ }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $direction {
            $($(#[$of_one])* $name($message),)+
        }

        $(impl From<$message> for $direction {
            fn from(message: $message) -> Self {
                Self::$name(message)
            }
        })+
    };
}

/// The same of a direction in which no message passes another, and one is a goodbye.
macro_rules! ordered_messages {
    ($(#[$of_all:meta])* pub enum $direction:ident { $($messages:tt)+ }) => {
        $crate::directions::messages! {
            $(#[$of_all])*
            pub enum $direction { $($messages)+ }
        }

        impl $crate::Message for $direction {
            const IS_ORDERED: bool = true;

            fn pace(&self) -> $crate::order::Pace {
                $crate::order::Pace::Ordered
            }

            fn goodbye(&self) -> Option<&$crate::Goodbye> {
                if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
            }
        }
    };
}

pub(crate) use {messages, ordered_messages};

messages! {
    /// The messages to a store or a redirector, from the end that has opened the link.
    pub enum ToServer {
        /// Opens a session.
        Hello(Hello),
        /// Ends it, with the reason.
        Goodbye(Goodbye),
        /// The pages that a client still holds from an earlier session.
        Rejoin(Rejoin),
        /// Are you there?
        Ping(Ping),
        /// Yes.
        Pong(Pong),
        /// Wants pages.
        Fetch(Fetch),
        /// Pages that the sender no longer holds.
        Released(Released),
        /// Wants a transaction committed.
        Commit(CommitRequest),
        /// Wants to know what became of a commit request.
        AskOutcome(AskOutcome),
        /// Changes through here have been applied.
        Ack(Ack),
        /// Wants pages to create objects in.
        Grant(Grant),
        /// Where peers reach the sender.
        Reachable(Reachable),
        /// The sender cannot help.
        NoHelp(NoHelp),
        /// A page for a peer that is not reached directly.
        PeerPage(PeerPage),
        /// Pages from peers have arrived.
        Arrived(Arrived),
        /// What of a member's pages has changed?
        Revalidate(Revalidate),
        /// A member has left the group.
        Departed(Departed),
        /// A redirector takes a group over.
        Lead(Lead),
        /// Who leads a group?
        FindLeader(FindLeader),
        /// The group knows what is about to change.
        Promise(Promise),
        /// How does the node stand?
        AskStatus(AskStatus),
    }
}

messages! {
    /// The messages of a store or a redirector, to the end that has opened the link.
    pub enum ToClient {
        /// Accepts a session.
        Welcome(Welcome),
        /// Ends it, with the reason.
        Goodbye(Goodbye),
        /// Everything that the client holds has been listed again.
        Rejoined(Rejoined),
        /// Are you there?
        Ping(Ping),
        /// Yes.
        Pong(Pong),
        /// A page.
        Page(Page),
        /// A page that was to be prefetched was left out.
        LeftOut(LeftOut),
        /// The outcome of a commit request.
        CommitReply(CommitReply),
        /// The changes.
        Notices(Notices),
        /// Pages to create objects in.
        Granted(Granted),
        /// Asks for pages to be sent to a peer.
        Help(Help),
        /// A page from the cache of a peer that does not reach the client directly.
        PeerPage(PeerPage),
        /// The changes of a member's pages.
        Revalidated(Revalidated),
        /// The leader of a group.
        Leader(Leader),
        /// The members of the group.
        Members(Members),
        /// A lease for a group.
        Leased(Leased),
        /// A transaction is about to change what a group holds.
        Intent(Intent),
        /// How the node stands.
        Status(Status),
    }
}

messages! {
    /// The messages between peers.
    pub enum ToPeer {
        /// Opens the connection.
        PeerHello(PeerHello),
        /// A page from a peer's cache.
        PeerPage(PeerPage),
        /// Ends the connection, with the reason.
        Goodbye(Goodbye),
    }
}

impl Message for ToServer {
    fn pace(&self) -> Pace {
        match self {
            Self::Hello(_) | Self::Rejoin(_) => Pace::Opening,
            Self::Ping(_) | Self::Pong(_) => Pace::Urgent,
            Self::Commit(_) => Pace::Yielding,
            Self::Ack(_) | Self::AskOutcome(_) | Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }

    fn asks_status(&self) -> bool {
        matches!(self, Self::AskStatus(_))
    }
}

impl Message for ToClient {
    fn pace(&self) -> Pace {
        match self {
            Self::Welcome(_) | Self::Rejoined(_) => Pace::Opening,
            Self::Ping(_) | Self::Pong(_) => Pace::Urgent,
            Self::Goodbye(_) => Pace::Trailing,
            _ => Pace::Ordered,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }

    fn status(status: Status) -> Option<Self> {
        Some(Self::Status(status))
    }
}

impl Message for ToPeer {
    fn pace(&self) -> Pace {
        if let Self::Goodbye(_) = self { Pace::Trailing } else { Pace::Ordered }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}
