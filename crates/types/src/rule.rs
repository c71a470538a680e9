//! The rules that a test can take out of the code, to see that the checkers notice (mutation of the checker).
//!
//! A role asks `self.broken.is(Rule::X)` where it follows rule X. Without the feature `mutants` that is the constant
//! `false`, and the compiler removes the question.

/// A rule of `docs/protocol.md`, by its name there. Rules that only matter where a page can come from somebody else than
/// its master are not here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A slot that is not in *recent* is current only if the evidence reaches `pruned` or the page's version.
    PruneCheck,
    /// The holder is listed before the page is sent.
    ListHolderFirst,
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
    /// A reply is preceded by the notices that it depends on.
    NoticesBeforeReply,
    /// A commit is acknowledged only when it is durable.
    LogBeforeReply,
    /// A commit request that was answered before gets the same answer.
    OneOutcome,
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
}

impl Rule {
    /// All rules, in the order of the documents.
    pub const ALL: [Self; 15] = [
        Self::PruneCheck,
        Self::ListHolderFirst,
        Self::ReleaseAfterFetch,
        Self::DoomOnNotice,
        Self::FreezeEvidence,
        Self::PrepareLocks,
        Self::NeverBack,
        Self::NoticesBeforeReply,
        Self::LogBeforeReply,
        Self::OneOutcome,
        Self::RejoinBeforeHorizon,
        Self::RevalidateOnRejoin,
        Self::DropWorkspace,
        Self::PlaceOnRecovery,
        Self::FreeAfterHome,
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
