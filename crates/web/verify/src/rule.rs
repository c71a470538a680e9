//! The rules of the helper, each of which `tests/promise.rs` takes out to see that its checker notices.

/// A rule by which a server's own cache is coherent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The ticket of a response is taken when its request has come to the helper, before it goes to the application.
    TicketAtLook,
    /// A version is good only while every response holds that was stored under it: it is unknown which of them a server
    /// has.
    AllHold,
    /// A key whose version is no longer good gets one that it has never had: what a server has under the old one it
    /// finds no more.
    NewVersion,
    /// A server keeps a response under a version only if the helper has said that it is stored under it.
    KeepStored,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::TicketAtLook, Self::AllHold, Self::NewVersion, Self::KeepStored];
}
