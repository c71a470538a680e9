//! A host: the owner of the volume, or one that takes it over, with its log and everything that is on its way to and
//! from it.

use super::house::{HomeAnswer, HomeCall, WriteCall};
use machines::{
    Change, Earlier, Entry, Epoch, Found, FromHolder, HostId, KnownHome, Owner, PartitionId, Read, Record, RequestId,
    Rule, Sequence, Stamp, TakeOver, ToHolder, View,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Broken, SessionId, Time};

/// A host's part in the volume.
#[derive(Debug)]
pub(crate) enum Role {
    Idle,
    Owner(Box<Owner>),
    TakeOver(Box<TakeOver>),
}

impl Role {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Owner(_) => "owner",
            Self::TakeOver(_) => "taking over",
        }
    }
}

/// The log of an owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnLog {
    pub(crate) epoch: Epoch,
    pub(crate) records: BTreeMap<Sequence, Record>,
    /// Everything through here is on stable media, as far as that keeps what it has.
    pub(crate) durable: Sequence,
    /// Its device has failed, and has nothing behind this write: later ones are in memory.
    pub(crate) failed_at: Option<Sequence>,
}

impl OwnLog {
    pub(crate) fn last(&self) -> Sequence {
        self.records.keys().next_back().copied().unwrap_or_default().max(self.durable)
    }

    /// The answer to a read for a holder.
    pub(crate) fn find(&self, read: Read) -> Found {
        let mut found = Found { records: Vec::new(), through: read.through };
        let mut bytes = 0;
        for (&sequence, record) in self.records.range(read.from..=read.through) {
            if bytes >= read.bytes.max(1) {
                found.through = sequence.before();
                break;
            }
            bytes += record.content.len();
            found.records.push(record.clone());
        }
        found
    }

    /// Keeps what it has up to here, as after a crash.
    pub(crate) fn cut(&mut self, kept: Sequence) {
        self.records.retain(|sequence, _| *sequence <= kept);
        (self.durable, self.failed_at) = (kept, None);
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.records.values().map(|it| Entry { stamp: it.stamp, extent: it.extent }).collect()
    }

    pub(crate) fn by_stamp(&self, stamp: Stamp) -> Option<&Record> {
        self.records.get(&stamp.sequence).filter(|it| it.stamp == stamp)
    }

    /// The newest write of a block.
    pub(crate) fn newest(&self, block: usize) -> Option<&Record> {
        self.records.values().rev().find(|it| super::blocks::blocks(it.extent).contains(&block))
    }
}

/// A host's cache, as somebody copies it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    pub(crate) log: Option<OwnLog>,
    /// The attachments that it remembers, and whether they are known to be dead: not when it is restored elsewhere.
    pub(crate) earlier: Earlier,
}

/// A session with a holder, and the messages on their way.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: usize,
    pub(crate) session: SessionId,
    pub(crate) to_peer: VecDeque<ToHolder>,
    pub(crate) to_host: VecDeque<FromHolder>,
}

/// A read of the own log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnRead {
    ForHolder(Read),
    ForHome(Stamp),
}

/// A change of the registry on its way.
#[derive(Debug)]
pub(crate) struct Proposal {
    /// The life that it is of; none if no request waits for the outcome any more, and the life continues.
    pub(crate) life: Option<u64>,
    /// How often home had been restored by then.
    pub(crate) home_restores: u64,
    pub(crate) change: Change,
    /// The revision that it makes if it puts an entry back.
    pub(crate) revision: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Host {
    /// Thousandths by which its clock is fast.
    pub(crate) drift: i64,
    broken: Broken<Rule>,
    /// Counts its roles.
    pub(crate) life: u64,
    pub(crate) role: Role,
    /// The number of its last attachment.
    pub(crate) id: HostId,
    pub(crate) cache: Cache,
    /// A copy of that, as it was once.
    pub(crate) saved: Option<Cache>,
    /// No call and no message gets through.
    pub(crate) is_cut: bool,
    /// No call gets through, but messages do.
    pub(crate) is_apart: bool,
    pub(crate) asleep_until: Time,
    /// The sessions that are wanted, and those that there are.
    pub(crate) wanted: BTreeSet<PartitionId>,
    pub(crate) links: BTreeMap<PartitionId, Link>,
    /// Each with the life that it is of, and the life of home that its session is with.
    pub(crate) home_calls: VecDeque<(u64, u64, HomeCall)>,
    pub(crate) home_answers: VecDeque<HomeAnswer>,
    pub(crate) changes: VecDeque<Proposal>,
    pub(crate) outcomes: VecDeque<Result<View, Option<View>>>,
    pub(crate) reads: VecDeque<OwnRead>,
    /// Home as it is known in this role, and which start of it the session is of.
    pub(crate) home: KnownHome,
    pub(crate) home_life: u64,
    /// The write-back that waits for home: up to this write.
    pub(crate) homing: Option<Stamp>,
    /// The one that a takeover puts together.
    pub(crate) collected: Option<WriteCall>,
    pub(crate) requests: BTreeSet<RequestId>,
    /// It waits for lists.
    pub(crate) misses: bool,
    /// The newest revision of the registry that it was notified of.
    pub(crate) heard: u64,
}

impl Host {
    pub(crate) fn new(drift: i64, broken: Broken<Rule>) -> Self {
        Self {
            drift,
            home: KnownHome::new(broken),
            home_life: 0,
            broken,
            life: 0,
            role: Role::Idle,
            id: HostId(0),
            cache: Cache::default(),
            saved: None,
            is_cut: false,
            is_apart: false,
            asleep_until: Time::ZERO,
            wanted: BTreeSet::new(),
            links: BTreeMap::new(),
            home_calls: VecDeque::new(),
            home_answers: VecDeque::new(),
            changes: VecDeque::new(),
            outcomes: VecDeque::new(),
            reads: VecDeque::new(),
            homing: None,
            collected: None,
            requests: BTreeSet::new(),
            misses: false,
            heard: 0,
        }
    }

    /// The time by its own clock.
    pub(crate) fn clock(&self, now: Time) -> Time {
        Time(now.0 / 1000 * (1000 + self.drift) as u64)
    }

    pub(crate) fn is_awake(&self, now: Time) -> bool {
        now >= self.asleep_until
    }

    /// Calls home, which is in this life now: in the session that there is, or in a new one.
    pub(crate) fn call_home(&mut self, now: u64, call: HomeCall) {
        let session = if self.home_life == 0 { now } else { self.home_life };
        self.home_calls.push_back((self.life, session, call));
    }

    /// It may be another one by now: an attachment goes by what it finds.
    pub(crate) fn forget_home(&mut self) {
        (self.home, self.home_life) = (KnownHome::new(self.broken), 0);
    }

    pub(crate) fn owner(&mut self) -> Option<&mut Owner> {
        if let Role::Owner(owner) = &mut self.role { Some(owner) } else { None }
    }

    /// Everything that it waits for has no effect: its role is over.
    pub(crate) fn end_role(&mut self) {
        self.role = Role::Idle;
        self.life += 1;
        self.forget_home();
        self.wanted.clear();
        self.home_answers.clear();
        self.outcomes.clear();
        self.reads.clear();
        (self.homing, self.collected, self.misses) = (None, None, false);
    }
}
