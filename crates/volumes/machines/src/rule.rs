//! The rules of the volumes front end, each of which a test can take out to see that the checkers notice.

/// A rule of write-back volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A holder counts a copy when it is on stable media.
    CountStable,
    /// A write is answered when W copies of it are counted, the owner's own among them, or when it is written back.
    AckAtW,
    /// An owner whose log has failed counts no copy of its own of what is written from then on: that is answered when
    /// it is home.
    LostLogUncounted,
    /// An owner counts copies of holders that are in the registry: the registry learns of a holder before its copies
    /// count.
    HoldersKnown,
    /// The registry forgets a holder only when everything that it counted for has as many copies elsewhere.
    ReplaceThenForget,
    /// A list counts only if it is of the partition that is in the registry: one that lost its device is another.
    SamePartition,
    /// A holder that has seen a newer epoch refuses copies of older ones.
    HoldersRefuse,
    /// A holder's directory begins a life only from the latest one that the registry knows: a copy of it, or an older
    /// state, has not everything that was counted.
    LatestLife,
    /// A holder starts only with a log that ends no earlier than its last known durable write. So does the cache of a
    /// volume of one host, whose log must reach home's mark.
    WholeLog,
    /// A holder begins no epoch that the registry does not have: whoever reaches it could end a volume's epochs
    /// otherwise.
    EpochRegistered,
    /// A holder answers under a new epoch when that is on stable media, so that it refuses older ones after a crash,
    /// too.
    EpochStable,
    /// An owner sends a holder no more than that has reserved room for.
    CreditFirst,
    /// Nothing of a flush epoch is written home before all of the one before is durable there; several are joined only
    /// if they are installed whole or not at all.
    FlushOrder,
    /// Home refuses what an ended epoch writes.
    FenceHome,
    /// Home installs a joined write-back when all of it is in its journal, and after a crash does so again.
    JournalWhole,
    /// Home marks as home what is durable there.
    MarkDurable,
    /// An owner continues only with the home that it has written to: neither with one whose files were exchanged, nor
    /// with one whose mark was restored from an older copy.
    HomeStays,
    /// Holders free what is home, durably.
    FreeAfterHome,
    /// A takeover continues only with a home that has what holders have freed.
    HomeHasFreed,
    /// TRIM and WRITE_ZEROES are writes: they have copies, and go home in order.
    TrimInOrder,
    /// A volume that becomes smaller is trimmed behind its new end first.
    TrimTail,
    /// An owner answers reads only within its lease.
    ReadWithinLease,
    /// A lease counts from when the owner has asked for it.
    LeaseFromAsking,
    /// A takeover waits for the end of the owner's lease.
    WaitOwnerLease,
    /// A host does not wait for the lease of its own earlier attachment only if the process that made it is known to be
    /// dead.
    OwnerKnownDead,
    /// That is so only of an attachment that its cache remembers: each has a number of its own, so a copy of a cache,
    /// or an older state of it, does not know those that were made since. A home of one host rejects such a cache.
    NumberAttachments,
    /// It waits longer than the lease is, by how much its clock may be the faster one.
    AllowDrift,
    /// A takeover asks for lists under the new epoch, when that is in the registry and at home.
    EpochFirst,
    /// A takeover has read the lists of all but W - 2 holders that are in the registry.
    EnoughLists,
    /// A takeover counts a holder's list only if it has every dirty write that the holder has acknowledged through
    /// the owner's last heartbeat. Otherwise the holder counts as missing.
    WholeList,
    /// The log of a host that takes over from itself is one list among several: its device may have lost what it had at
    /// its end.
    OwnLogIsAList,
    /// Copies of what home's mark covers are left alone: home may have newer contents by now.
    PassHome,
    /// A takeover brings nothing home behind a write that no list has: home is an older state then, and never a mixed
    /// one.
    StopAtGap,
    /// An owner whose registry was restored from an older copy puts its entry there again only when home has said that
    /// the owner's epoch is the newest.
    HomeConfirms,
    /// A takeover ends when home knows of a later state of the registry than that which it has taken over from: the
    /// registry was restored from an older copy, and its holders may be others.
    RegistryOnward,
    /// Of several versions of a block the one with the highest stamp is the one that stays.
    NewestWins,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 36] = [
        Self::CountStable,
        Self::AckAtW,
        Self::LostLogUncounted,
        Self::HoldersKnown,
        Self::ReplaceThenForget,
        Self::SamePartition,
        Self::HoldersRefuse,
        Self::LatestLife,
        Self::WholeLog,
        Self::EpochRegistered,
        Self::EpochStable,
        Self::CreditFirst,
        Self::FlushOrder,
        Self::FenceHome,
        Self::JournalWhole,
        Self::MarkDurable,
        Self::HomeStays,
        Self::FreeAfterHome,
        Self::HomeHasFreed,
        Self::TrimInOrder,
        Self::TrimTail,
        Self::ReadWithinLease,
        Self::LeaseFromAsking,
        Self::WaitOwnerLease,
        Self::OwnerKnownDead,
        Self::NumberAttachments,
        Self::AllowDrift,
        Self::EpochFirst,
        Self::EnoughLists,
        Self::WholeList,
        Self::OwnLogIsAList,
        Self::PassHome,
        Self::StopAtGap,
        Self::HomeConfirms,
        Self::RegistryOnward,
        Self::NewestWins,
    ];
}
