//! The rules that a test can take out of the code, to see that the checkers notice (mutation of the checker).
//!
//! A role asks `self.broken.is(Rule::X)` where it follows rule X. Without the feature `mutants` that is the constant
//! `false`, and the compiler removes the question.

/// A rule of `docs/protocol.md`, by its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A slot that is not in *recent* is current only if the evidence reaches `pruned` or the page's version.
    PruneCheck,
    /// The holder is listed before the page is sent.
    ListHolderFirst,
    /// Who reads of a page that does not exist is listed for it: its creation is a change like any other.
    ListAbsent,
    /// A page is released only when no fetch of it is outstanding.
    ReleaseAfterFetch,
    /// A notice for what a running transaction has read dooms it.
    DoomOnNotice,
    /// Evidence of an evicted page is frozen at its eviction.
    FreezeEvidence,
    /// Prepared transactions stand in the way of others.
    PrepareLocks,
    /// A change with a lower version than the slot's is discarded.
    NeverBack,
    /// A page's version advances only over changes that follow on it.
    InSequence,
    /// A slot that was changed out of sequence has the version of that change, until the page has reached it.
    RememberAhead,
    /// When a gap is closed, the page's version advances over what was heard beyond it.
    JoinUp,
    /// An installed page is newer than what the older frame remembers from at or before its version.
    InstallCovers,
    /// Only a page without slots that are ahead of its version is sent to a neighbour.
    HelpInSequence,
    /// A master's horizon moves with that master's own stream; what another's tells moves pages alone.
    OwnHorizon,
    /// What a master leaves to another stream to tell holds its own `through` back until it has been heard of.
    HoldThrough,
    /// A reply is preceded by the notices that it depends on.
    NoticesBeforeReply,
    /// A commit is acknowledged only when it is durable.
    LogBeforeReply,
    /// A commit request that was answered before gets the same answer.
    OneOutcome,
    /// A commit request that was sent to an earlier incarnation of the store, and has no outcome, has lapsed.
    LapseWithStore,
    /// A resumed session lists its pages before its horizon moves.
    RejoinBeforeHorizon,
    /// A resumed session's changed pages are made known to it.
    RevalidateOnRejoin,
    /// An aborted transaction's writes leave no trace.
    DropWorkspace,
    /// Recovery places what was logged and not placed.
    PlaceOnRecovery,
    /// Space in the safe is freed only when what it held is home.
    FreeAfterHome,
    /// A notice for a page under way is applied to the page when it arrives.
    KeepNotices,
    /// Only a page without holes is sent to a neighbour.
    HelpWhole,
    /// A neighbour's page answers the fetch that it was sent for, and no later one.
    OneFetch,
    /// A neighbour's page is installed when all that it reflects has been heard of.
    HearFirst,
    /// A redirector lists a member as holder before it has a page sent to it.
    ListMemberFirst,
    /// A redirector asks a neighbour for a page only if it has itself heard of all that the page must reflect.
    HelpRecent,
    /// A redirector releases a page only when no member holds it and no fetch of it is outstanding.
    GroupRelease,
    /// A redirector tells every member that holds a page of its changes.
    TellMembers,
    /// A member that comes with a cache has it compared with the store before its horizon moves.
    RevalidateMember,
    /// A commit's own changes are passed on to the members that hold the page as what has been committed, and only then.
    UpdateOnCommit,
    /// A commit waits until every group that holds what it changes under a lease has promised to ask, or its lease has
    /// run out.
    AwaitPromises,
    /// A group that comes to hold a page under a lease hears first of what is about to change there.
    WarnHolders,
    /// A redirector validates itself only what nobody is about to change.
    AskIfContested,
    /// A redirector validates itself only while its lease lasts.
    LeaseEnds,
    /// A redirector validates itself only what was read of a page since its group holds it.
    JudgeSinceHeld,
}

impl Rule {
    /// All rules, in the order of the documents.
    pub const ALL: [Self; 39] = [
        Self::PruneCheck,
        Self::ListHolderFirst,
        Self::ListAbsent,
        Self::ReleaseAfterFetch,
        Self::DoomOnNotice,
        Self::FreezeEvidence,
        Self::PrepareLocks,
        Self::NeverBack,
        Self::InSequence,
        Self::RememberAhead,
        Self::JoinUp,
        Self::InstallCovers,
        Self::HelpInSequence,
        Self::OwnHorizon,
        Self::HoldThrough,
        Self::NoticesBeforeReply,
        Self::LogBeforeReply,
        Self::OneOutcome,
        Self::LapseWithStore,
        Self::RejoinBeforeHorizon,
        Self::RevalidateOnRejoin,
        Self::DropWorkspace,
        Self::PlaceOnRecovery,
        Self::FreeAfterHome,
        Self::KeepNotices,
        Self::HelpWhole,
        Self::OneFetch,
        Self::HearFirst,
        Self::ListMemberFirst,
        Self::HelpRecent,
        Self::GroupRelease,
        Self::TellMembers,
        Self::RevalidateMember,
        Self::UpdateOnCommit,
        Self::AwaitPromises,
        Self::WarnHolders,
        Self::AskIfContested,
        Self::LeaseEnds,
        Self::JudgeSinceHeld,
    ];
}

/// Which rule is taken out, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken {
    #[cfg(feature = "mutants")]
    rule: Option<Rule>,
}

impl Broken {
    /// All rules stand.
    pub const NONE: Self = Self {
        #[cfg(feature = "mutants")]
        rule: None,
    };

    /// Takes `rule` out.
    #[cfg(feature = "mutants")]
    pub const fn rule(rule: Rule) -> Self {
        Self { rule: Some(rule) }
    }

    /// Whether `rule` is taken out.
    #[inline]
    pub fn is(self, rule: Rule) -> bool {
        #[cfg(feature = "mutants")]
        return self.rule == Some(rule);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = rule;
            false
        }
    }
}
