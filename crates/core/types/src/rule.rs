//! The rules that a test can take out of the code, to see that the checkers notice (mutation of the checker).
//!
//! A role asks `self.broken.is(Rule::X)` where it follows rule X. Without the feature `mutants` that is the constant
//! `false`, and the compiler removes the question.

#[cfg(not(feature = "mutants"))]
use core::marker::PhantomData;

/// A rule of `docs/protocol.md`, by its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A slot that is not in *recent* is current only if the evidence reaches `pruned` or the page's version.
    PruneCheck,
    /// The holder is listed before the page is sent.
    ListHolderFirst,
    /// A reader of a page that does not exist is listed for it: its creation is a change like any other.
    ListAbsent,
    /// A page is released only when no fetch of it is outstanding.
    ReleaseAfterFetch,
    /// A page that left the cache is released once, however many transactions had read of it.
    ReleaseOnce,
    /// Only a page that the session does not hold follows one that was fetched.
    FollowUnheld,
    /// A page that fills holes is at least as recent as what made them, and as everything that its reader has learned
    /// of.
    FetchAtLeast,
    /// A transaction that has to see everything reads of a shard once its node has told that.
    StartAtLeast,
    /// A session to which a reply stands for the changes of a commit has the reply before any answer that shows the
    /// commit's count.
    ReplyFirst,
    /// A client that releases a page that was just granted to it means an earlier generation of the page, and continues
    /// holding it.
    KeepGranted,
    /// A granted page that was written to is nobody's to claim.
    ClaimUnused,
    /// A client that is told that a granted page was filled does not take it for empty any more.
    LoseFilled,
    /// Only a page is granted in which nothing is, nor is about to be.
    GrantEmpty,
    /// A page that is granted again keeps its version over its generations.
    KeepVersion,
    /// A page is granted behind all changes that it has had.
    HearBeforeGrant,
    /// A granted page is the empty one as of its holder's horizon.
    EmptyAtHorizon,
    /// An invalidation for what a running transaction has read dooms it.
    DoomOnInvalidation,
    /// A page that is dropped unseen dooms the transactions that have read of it.
    DoomOnDrop,
    /// A page that takes the place of an older frame dooms the transactions that have read a slot in which the two
    /// differ.
    DoomOnInstall,
    /// Evidence of an evicted page is frozen at its eviction.
    FreezeEvidence,
    /// Prepared transactions are in the way of others.
    PrepareLocks,
    /// A commit that waits for a prepared one is not overtaken by later ones that write what it has read.
    KeepTurns,
    /// A client that has lost several times in a row keeps its place in line, for a short time, until it comes again.
    KeepPlace,
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
    /// Only a page without slots that are ahead of its version is sent to a peer.
    HelpInSequence,
    /// In a store of several nodes the reads of a prepared transaction are in the way of writers.
    PrepareReads,
    /// In a store of several nodes a read-only transaction waits for prepared writes of what it has read.
    ReadersMeetPrepared,
    /// A commit that another master has prepared goes before those in line, which may wait for it.
    HeldPasses,
    /// A transaction that is decided and not applied keeps none waiting: a read of what it writes is stale.
    WaitUndecided,
    /// A master applies the decisions of a shard in the order of their counts.
    ApplyInOrder,
    /// A gap below a decided count is void once every transaction that was prepared then is decided or released.
    VoidBehindPrepared,
    /// Each count of an epoch is above all counts of earlier ones.
    EpochInCount,
    /// A coordinator takes no count at or below the highest one that a master has seen.
    CountAboveVotes,
    /// A master at which a commit has only read is told that it is over.
    ReleaseReaders,
    /// A shard opens when every node has told what its log holds for it.
    AwaitAllLogs,
    /// Before a node tells what its log holds for a shard that opens, it gives up the commits that were prepared under
    /// an earlier opening and are not in its log.
    FencePrepared,
    /// A node tells what its log holds for a shard that opens once all records on their way there are durable.
    AwaitAppended,
    /// A shard that opens compares the deltas of the logs with the versions in its page home.
    CompareWithHome,
    /// A coordinator that is back has a master let go of what it has prepared unless its log holds that.
    ForgetAfterDecide,
    /// A shard closes in order when nothing is prepared there and all of it is written back.
    CleanClose,
    /// A transaction whose shard moves is asked for again when a master serves the shard.
    AskWhenServed,
    /// A master forgets what it has prepared and not voted on when the link to its coordinator is lost.
    ReleaseUnvoted,
    /// A master to which a shard comes back forgets which slots it has seen changing there.
    ForgetMoved,
    /// A shard that moves opens at its new node with everything that was written back as it closed.
    CopyAfterClose,
    /// A shard that moves is closed when the published sites that go with it are at its new node.
    SitesBeforeClose,
    /// Changes of a shard that has moved wait until the leases of its last master have run out.
    LeasesOutliveOpening,
    /// A node that has closed a shard gives no lease before it has told where the shard is.
    PlaceBeforeLease,
    /// A client drops the pages of a shard that has moved to another node.
    DropMoved,
    /// A master answers a decision of what it does not have prepared: it has applied it, or gets it from the log.
    AcknowledgeAgain,
    /// A master names a shard to a fresh transaction when everything that was prepared there is applied or released.
    FreshSettled,
    /// A node whose lease is over answers nothing that comes after that.
    AnswerWithinLease,
    /// A commit request is sent to one node, and again to that one alone.
    OneCoordinator,
    /// No copy in a group counts as whole that lacks a change of which the redirector has heard by a reply.
    HearReply,
    /// The count of a shard in a horizon moves with the `through` of its own master, and with nothing else.
    OwnHorizon,
    /// A change that a master leaves to another stream to tell holds back the master's own `through` until it was heard
    /// of.
    HoldThrough,
    /// A message passes only what yields to it, on its way to the other end of a link.
    KeepOrder,
    /// The new values of a batch that is cut in parts are not shown before all of it has come.
    ShowWhole,
    /// A reply is preceded by the invalidations that it depends on.
    InvalidationsBeforeReply,
    /// A commit is applied and acknowledged only when it is durable.
    LogBeforeReply,
    /// A commit request without an outcome is sent again when its session is resumed.
    SendAgain,
    /// A commit request that was answered before gets the same answer.
    OneOutcome,
    /// A refused request stays refused when a copy of it comes.
    StayRefused,
    /// Whether a request has committed whose outcome may have been forgotten, nobody knows.
    AnswerUnknown,
    /// A slot is a hole if a transaction has written it of which it is unknown whether it committed.
    PunctureUnknown,
    /// A commit request that was sent to an earlier incarnation of the store, and has no outcome, has lapsed.
    LapseWithStore,
    /// A copy that has lapsed is told that alone, also where it is unknown what became of the copies before it.
    LapseAlone,
    /// A resumed session lists its pages before its horizon moves.
    ResumeBeforeHorizon,
    /// A resumed session's changed pages are made known to it.
    RevalidateOnResume,
    /// A member that brings anything to be compared asks for pages only when it has joined.
    JoinBeforeFetch,
    /// An aborted transaction's writes leave no trace.
    DropWorkspace,
    /// The record of a commit carries its count, and recovery takes it from there.
    CountsInRecord,
    /// Space in the log is freed only when what it held is home.
    FreeAfterHome,
    /// An invalidation for a page under way is applied to the page when it arrives.
    KeepInvalidations,
    /// Only a page without holes is sent to a peer.
    HelpWhole,
    /// A peer's page answers the fetch that it was sent for, and no later one.
    OneFetch,
    /// A peer's page is installed when everything that it reflects has been learned of.
    HearFirst,
    /// A redirector lists a member as holder before it has a page sent to it.
    ListMemberFirst,
    /// A redirector asks a peer for a page only if it has itself learned of everything that the page must reflect.
    HelpRecent,
    /// A page that was asked for as recent as a count comes behind everything through that count.
    HearAtLeast,
    /// A copy on its way between members while its page changes is not whole when it arrives.
    SpoilCopies,
    /// A member stays listed for a page that was granted to it, although a prefetch of the page is left out.
    ListGranted,
    /// A member stays listed for a page that a peer was asked to send to it, although a prefetch of it is left out.
    ListHelped,
    /// A redirector releases a page only when no member holds it and no fetch of it is outstanding.
    GroupRelease,
    /// A peer's page that comes after the store was asked for it answers the member's fetch all the same.
    CountLateHelp,
    /// A redirector tells every member that holds a page of its changes.
    TellMembers,
    /// A change made while the upstream session was broken is told to the members that know of everything before it.
    TellMissed,
    /// A page whose changes nobody knows slot by slot any more is dropped by the members that hold it.
    TellDropped,
    /// A member that comes with a cache has it compared with the store before its horizon moves.
    RevalidateMember,
    /// A change made while a member is compared is kept for it.
    KeepForComing,
    /// A member that has learned of anything is compared before it joins, also one that brings no pages.
    CompareAhead,
    /// All answers about what a member brings are of one session with the store: when that breaks, all is compared
    /// again.
    CompareAgain,
    /// The cache that a member brings counts as whole when the member has joined.
    WholeWhenJoined,
    /// A commit's own changes are passed on to the members that hold the page as what has been committed, and only
    /// then.
    UpdateOnCommit,
    /// A transaction that only reads commits without asking only if the store has answered a fetch sent since it began.
    FreshCommit,
    /// Only the store's page is fresh: not a peer's, nor the standby cache's.
    FreshFromStore,
    /// A page is fresh for those members alone whose fetch came before the store was asked.
    FreshSinceAsked,
    /// A commit's reply stands for its invalidation in the session that has sent the request, and in no other.
    ReplyToSession,
    /// A client that asks for the outcome of a request that is on its way is answered by the request's reply.
    AnswerByReply,
    /// A redirector that has only asked for an outcome is notified of what was written by invalidation.
    TellAskers,
    /// It hears that before it hears the outcome.
    HearBeforeAnswer,
    /// A reply that was only asked for moves no horizon.
    AskedMovesNothing,
    /// A client that sends another request under the identity of one under way is told nothing of the outcome of that
    /// one.
    SameWrites,
    /// A reply stands for the invalidations only where its count is ahead of everything that was heard.
    ReplyAhead,
    /// A member whose redirector has no room for what it wants committed comes back there.
    ComeBack,
    /// A commit is sent again over a new upstream session only for a member that is still there.
    ResendForPresent,
    /// A granted page that was taken to be filled stays in the cache until its commit has been decided.
    KeepTaken,
    /// Of what was granted to a member that comes back it has what it says, and no more.
    KeepClaimed,
    /// A commit waits until every group that holds what it changes under a lease has promised to ask, or its lease has
    /// run out.
    AwaitPromises,
    /// The reads of a waiting commit are in the way of writers.
    WaitLocks,
    /// A group that comes to hold a page under a lease hears first of what is about to change there.
    WarnHolders,
    /// A group that gets its lease, or more of it, hears first of what is about to change in what it holds.
    WarnLeased,
    /// A promise made before a group was given more of its lease is made again to any commit that comes after that.
    PromiseAnew,
    /// A redirector keeps to what it has promised until it is given more of its lease.
    KeepPromise,
    /// A watcher's promise is for the commit that it was asked for, and for no other.
    PromiseOnce,
    /// A watcher that was asked about a transaction learns that a master has released it.
    TellAbandoned,
    /// A lease lasts as long as it was given for, whether its session does or not.
    LeasesOutliveSession,
    /// After a restart commits wait for the leases that may have been given before.
    LeasesOutliveStore,
    /// The store counts a lease longer, by how much its clock may be the faster one.
    AllowDrift,
    /// A redirector validates itself only what nobody is about to change.
    AskIfContested,
    /// A page that a redirector's resent commits write is about to change, in the new session as in the one before.
    ContestAgain,
    /// A page that a redirector's own member is to change is contested from when the redirector passes on the commit.
    ContestOwn,
    /// A redirector validates itself only while its lease lasts.
    LeaseEnds,
    /// A redirector validates itself only what was read of a page since its group holds it.
    JudgeSinceHeld,
    /// With its session a redirector's lease is over, and everything that it knows by it.
    LeaseWithUpstream,
    /// By a lease only changes are judged that were told since it began.
    LeaseFromNow,
    /// The clock that leases are measured with runs on while a process's machine sleeps.
    RunOnAsleep,
    /// A store that was started again waits for the leases that it gave before, however it is configured now.
    AwaitEarlierLives,
    /// The news learned of a store counts with a copy of it only as far as the two are one.
    KnowLineage,
}

impl Rule {
    /// All rules, in the order of the documents.
    pub const ALL: [Self; 132] = [
        Self::PruneCheck,
        Self::ListHolderFirst,
        Self::ListAbsent,
        Self::ReleaseAfterFetch,
        Self::ReleaseOnce,
        Self::FollowUnheld,
        Self::FetchAtLeast,
        Self::StartAtLeast,
        Self::ReplyFirst,
        Self::KeepGranted,
        Self::ClaimUnused,
        Self::LoseFilled,
        Self::GrantEmpty,
        Self::KeepVersion,
        Self::HearBeforeGrant,
        Self::EmptyAtHorizon,
        Self::DoomOnInvalidation,
        Self::DoomOnDrop,
        Self::DoomOnInstall,
        Self::FreezeEvidence,
        Self::PrepareLocks,
        Self::KeepTurns,
        Self::KeepPlace,
        Self::NeverBack,
        Self::InSequence,
        Self::RememberAhead,
        Self::JoinUp,
        Self::InstallCovers,
        Self::HelpInSequence,
        Self::PrepareReads,
        Self::ReadersMeetPrepared,
        Self::HeldPasses,
        Self::WaitUndecided,
        Self::ApplyInOrder,
        Self::VoidBehindPrepared,
        Self::EpochInCount,
        Self::CountAboveVotes,
        Self::ReleaseReaders,
        Self::AwaitAllLogs,
        Self::FencePrepared,
        Self::AwaitAppended,
        Self::CompareWithHome,
        Self::ForgetAfterDecide,
        Self::CleanClose,
        Self::AskWhenServed,
        Self::ReleaseUnvoted,
        Self::ForgetMoved,
        Self::CopyAfterClose,
        Self::SitesBeforeClose,
        Self::LeasesOutliveOpening,
        Self::PlaceBeforeLease,
        Self::DropMoved,
        Self::AcknowledgeAgain,
        Self::FreshSettled,
        Self::AnswerWithinLease,
        Self::OneCoordinator,
        Self::HearReply,
        Self::OwnHorizon,
        Self::HoldThrough,
        Self::KeepOrder,
        Self::ShowWhole,
        Self::InvalidationsBeforeReply,
        Self::LogBeforeReply,
        Self::SendAgain,
        Self::OneOutcome,
        Self::StayRefused,
        Self::AnswerUnknown,
        Self::PunctureUnknown,
        Self::LapseWithStore,
        Self::LapseAlone,
        Self::ResumeBeforeHorizon,
        Self::RevalidateOnResume,
        Self::JoinBeforeFetch,
        Self::DropWorkspace,
        Self::CountsInRecord,
        Self::FreeAfterHome,
        Self::KeepInvalidations,
        Self::HelpWhole,
        Self::OneFetch,
        Self::HearFirst,
        Self::ListMemberFirst,
        Self::HelpRecent,
        Self::HearAtLeast,
        Self::SpoilCopies,
        Self::ListGranted,
        Self::ListHelped,
        Self::GroupRelease,
        Self::CountLateHelp,
        Self::TellMembers,
        Self::TellMissed,
        Self::TellDropped,
        Self::RevalidateMember,
        Self::KeepForComing,
        Self::CompareAhead,
        Self::CompareAgain,
        Self::WholeWhenJoined,
        Self::UpdateOnCommit,
        Self::FreshCommit,
        Self::FreshFromStore,
        Self::FreshSinceAsked,
        Self::ReplyToSession,
        Self::AnswerByReply,
        Self::TellAskers,
        Self::HearBeforeAnswer,
        Self::AskedMovesNothing,
        Self::SameWrites,
        Self::ReplyAhead,
        Self::ComeBack,
        Self::ResendForPresent,
        Self::KeepTaken,
        Self::KeepClaimed,
        Self::AwaitPromises,
        Self::WaitLocks,
        Self::WarnHolders,
        Self::WarnLeased,
        Self::PromiseAnew,
        Self::KeepPromise,
        Self::PromiseOnce,
        Self::TellAbandoned,
        Self::LeasesOutliveSession,
        Self::LeasesOutliveStore,
        Self::AllowDrift,
        Self::AskIfContested,
        Self::ContestAgain,
        Self::ContestOwn,
        Self::LeaseEnds,
        Self::JudgeSinceHeld,
        Self::LeaseWithUpstream,
        Self::LeaseFromNow,
        Self::RunOnAsleep,
        Self::AwaitEarlierLives,
        Self::KnowLineage,
    ];
}

/// Which rule is taken out, if any: one of [`Rule`], or of the rules `R` of another door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken<R = Rule> {
    #[cfg(feature = "mutants")]
    rule: Option<R>,
    #[cfg(not(feature = "mutants"))]
    rule: PhantomData<R>,
}

impl<R> Broken<R> {
    /// All rules stand.
    pub const NONE: Self = Self {
        #[cfg(feature = "mutants")]
        rule: None,
        #[cfg(not(feature = "mutants"))]
        rule: PhantomData,
    };
}

impl<R: Copy + PartialEq> Broken<R> {
    /// Takes `rule` out.
    #[cfg(feature = "mutants")]
    pub const fn rule(rule: R) -> Self {
        Self { rule: Some(rule) }
    }

    /// Whether `rule` is taken out.
    #[inline]
    pub fn is(self, rule: R) -> bool {
        #[cfg(feature = "mutants")]
        return self.rule == Some(rule);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = (rule, self.rule);
            false
        }
    }
}

impl<R> Default for Broken<R> {
    fn default() -> Self {
        Self::NONE
    }
}
