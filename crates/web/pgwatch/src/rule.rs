//! The rules of a watcher, each of which a test can take out to see that the checkers notice.

/// A rule of watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A commit is confirmed only when its update is released.
    ConfirmReleased,
    /// A position in the log confirms every commit before it, so it is confirmed only when all of those are released.
    ConfirmInOrder,
    /// The position of a keepalive is confirmed only behind the commits that were heard before it, although the server
    /// may ask for an answer at once.
    KeepaliveBehind,
    /// An update is visible when a snapshot of the database has its transaction. That the commit was confirmed is not
    /// enough: the server lets go of it some time later.
    UnmarkWhenVisible,
    /// Everything is marked as soon as the connection is lost: a server that crashes makes commits visible that were
    /// not confirmed.
    StarWhenLost,
    /// Everything stays marked until all transactions have ended that ran when the connection was made: this watcher or
    /// another may have confirmed one before that is not visible yet, and that is not told again.
    AwaitRunning,
    /// Everything is marked while commits do not wait for the watcher, and until all transactions have ended that ran
    /// when they began to.
    StarUnlessAwaited,
    /// The leases of homes at a watcher's own hub count from when the server was asked that has answered that the
    /// watcher has the slot: one that is cut off would continue giving leases while another watcher has it.
    LeaseFromProof,
    /// A watcher that gets the slot confirms nothing until the leases are over that another one's hub may have given.
    OutlastLeases,
    /// A watcher says that it has ended only when the leases are over that it gave its hub, and those of another one's
    /// hub that it had to outlast: the next one does not wait then.
    EndAfterLeases,
    /// Its word counts for the watcher that gets the slot next, and for no later one.
    EndOfTheLast,
    /// A row that changes concerns the responses that depend on its old values, and those that depend on its new ones.
    BothValues,
    /// A change whose values are not known concerns the whole table.
    WholeIfUnknown,
    /// A change of a table's schema concerns the whole table.
    WholeIfAltered,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ConfirmReleased,
        Self::ConfirmInOrder,
        Self::KeepaliveBehind,
        Self::UnmarkWhenVisible,
        Self::StarWhenLost,
        Self::AwaitRunning,
        Self::StarUnlessAwaited,
        Self::LeaseFromProof,
        Self::OutlastLeases,
        Self::EndAfterLeases,
        Self::EndOfTheLast,
        Self::BothValues,
        Self::WholeIfUnknown,
        Self::WholeIfAltered,
    ];
}
