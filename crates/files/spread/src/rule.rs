//! The rules of published files, in the ways in which a test can break them to see that the checkers notice.
//!
//! The machines do not have all rules. **RenewInOrder**, that a renewal keeps its place behind the offers, is the pace
//! of the messages (`crate::messages`). The machines' disks publish in one transaction (**OneSwitch**), and compare a
//! chunk that they read with its name (**VerifyChunk**).

/// A way to break a rule. The name of the rule is in bold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// **OneSwitch**: a publish that is asked for again is made again.
    AnyIdentity,
    /// **DurableFirst**: a publish is acknowledged before it is durable.
    AckEarly,
    /// **DurableFirst**: subscribers are offered a revision before it is durable.
    OfferEarly,
    /// **CompareBase**: a switch does not compare the revision that it was made from with the newest.
    AnyBase,
    /// **CompareBase**: a publish that changes paths which the newest revision has changed too is taken as it is.
    MergeAnyway,
    /// **PExcludes**: a publish is taken under a lock that has ended.
    OldToken,
    /// **PExcludes**: a publish or a rollback changes a path that another publisher has locked.
    SiteOverP,
    /// **PExcludes**: a lock is granted while a publish that changes its path is under way.
    GrantEarly,
    /// **SwitchHasAll**: a switch is taken without a look at the chunks of its tree.
    SwitchBlind,
    /// **SwitchHasAll**: a tree counts as whole after its last revision was dropped.
    TrustDropped,
    /// **SwitchHasAll**: a chunk that was unused before a switch is swept after it.
    SweepAnyway,
    /// **NeverBack**: a restored store continues the numbers of its copy.
    RestoreBack,
    /// **NeverBack**: a late offer counts as the newest.
    LateOffer,
    /// **NeverBack**: a member serves a revision before it is sure to come back with it.
    ForgetSwitch,
    /// **NeverBack**: a member serves a visitor an older revision than another member did.
    NoFloor,
    /// **HoldUnion**: a relay lets go of a revision when it has a newer one, whatever its members read.
    RelayLetsGo,
    /// **HoldUnion**: a member lets go of a revision when it serves a newer one, whatever its visitors read.
    MemberLetsGo,
    /// **HoldUnion**: a member lets go of a revision after the time of a page, whatever files of it are open.
    SessionsLapse,
    /// **HoldUnion**: a member that keeps a part of the content makes room with directories of revisions in use.
    CacheLetsGo,
    /// **HoldUnion**: a relay keeps its holds for ever.
    NeverRelease,
    /// **HoldUnion**: a member keeps chunks of an upload that was given up.
    KeepAhead,
    /// **HeldAbove**: a file server holds a revision for a subscriber only when that asks for it.
    PinLater,
    /// **HeldAbove**: a relay answers for a hold from its own memory.
    FromMemory,
    /// **EndByLease**: a subscriber's holds end when its session has ended and another one joins.
    NewRelay,
    /// **EndByLease**: a subscriber that comes again is held what it lists, and nothing else.
    OldList,
    /// **EndByLease**: a file server that was restarted sweeps before those that it does not know could come again.
    SweepAtOnce,
    /// **EndByLease**: a lease that is over is renewed as if its holds were still there.
    LateRenewal,
    /// **EndByLease**: a subscriber is forgotten when its connection is lost.
    ForgetAtOnce,
    /// **LeaseWithin**: leases count from the answer, and not from the question.
    CountFromAnswer,
    /// **LeaseWithin**: a lease that is shorter now ends at once the longer one that was given before.
    CutLease,
    /// **LeaseWithin**: leases count as if all clocks ran equally fast.
    SameClocks,
    /// **LeaseWithin**: a relay gives whole leases, whatever is left of its own.
    WholeLease,
    /// **SayWhenOver**: a member does not say that its revision may not be the newest.
    Silent,
    /// **SayWhenOver**: a member takes an offer that was on its way for the answer to its question.
    TakeForAnswer,
    /// **SayWhenOver**: a member that keeps a part of the content serves a revision that is not held as if it were.
    UnheldAsHeld,
    /// **WaitCountsAll**: a publisher is told *everywhere* when all connected subscribers have the revision.
    CountConnected,
    /// **WaitCountsAll**: a file server that was restarted does not count those that it does not know.
    ForgetEarlier,
    /// **RevokeFirst**: a revision of a sequential site is published before the one before is released.
    SwitchShared,
    /// **RevokeFirst**: a file server that was restarted does not wait for the releases of those it does not know.
    ForgetShares,
    /// **RevokeFirst**: a relay releases a revision before its members have.
    ReleaseEarly,
    /// **RevokeFirst**: a member serves a revision as the newest after its release.
    ServeReleased,
    /// **RevokeFirst**: a relay shares what it has released.
    ShareReleased,
    /// **SwitchWhole**: a member serves a revision of which it has only a part.
    SwitchPart,
    /// **SessionKeepsView**: a page that is open moves to the newest revision.
    MoveSessions,
    /// **VerifyChunk**: a relay believes what it is sent.
    BelieveChunk,
    /// **FinishOne**: each newer offer ends the fetch of the one before.
    StartOver,
    /// **HandOverAtRest**: a space is handed over while a publish of it is under way.
    HandOverEarly,
}

impl Way {
    /// Each way once.
    pub const ALL: [Self; 47] = [
        Self::AnyIdentity,
        Self::AckEarly,
        Self::OfferEarly,
        Self::AnyBase,
        Self::MergeAnyway,
        Self::OldToken,
        Self::SiteOverP,
        Self::GrantEarly,
        Self::SwitchBlind,
        Self::TrustDropped,
        Self::SweepAnyway,
        Self::RestoreBack,
        Self::LateOffer,
        Self::ForgetSwitch,
        Self::NoFloor,
        Self::RelayLetsGo,
        Self::MemberLetsGo,
        Self::SessionsLapse,
        Self::CacheLetsGo,
        Self::NeverRelease,
        Self::KeepAhead,
        Self::PinLater,
        Self::FromMemory,
        Self::NewRelay,
        Self::OldList,
        Self::SweepAtOnce,
        Self::LateRenewal,
        Self::ForgetAtOnce,
        Self::CountFromAnswer,
        Self::CutLease,
        Self::SameClocks,
        Self::WholeLease,
        Self::Silent,
        Self::TakeForAnswer,
        Self::UnheldAsHeld,
        Self::CountConnected,
        Self::ForgetEarlier,
        Self::SwitchShared,
        Self::ForgetShares,
        Self::ReleaseEarly,
        Self::ServeReleased,
        Self::ShareReleased,
        Self::SwitchPart,
        Self::MoveSessions,
        Self::BelieveChunk,
        Self::StartOver,
        Self::HandOverEarly,
    ];
}
