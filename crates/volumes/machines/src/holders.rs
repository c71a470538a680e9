//! The holders of an owner's copies, as the owner has them.
//!
//! ```text
//!   down --up/Open--> opening --Opened--> behind --all is sent--> live
//!     ^                                     |  reads of the own log, as far as there is credit
//!     +------------- lost, silent ----------+---------------------------------------------------
//! ```
//! 1. A holder's *live* stream begins with the first write that does not have W copies when it becomes one, so it
//!    counts for everything that is still to be answered. It is sent what was written before that in the *back* stream,
//!    at a bounded rate, and is *whole* when it has that.
//! 2. A write is sent at once to the holders that are live. The others are sent it out of the own log, when it is their
//!    turn.
//! 3. Nothing is sent beyond the room that a holder has reserved (**CreditFirst**).
//! 4. A holder may be forgotten when W - 1 others are whole and count everything that was answered, or when all of that
//!    is home (**ReplaceThenForget**). One that is lost is *struck* as soon as it may be, as a takeover waits for every
//!    holder that is in the registry. It is still looked for, and is a holder again when it answers.
//! 5. A holder that has counted everything that it was sent, and takes no more, has too little room for this volume. It
//!    is *short*, and is so until it has had room for as long as a holder may be lost before it is replaced.
//! 6. A holder is considered lost when it counts nothing for longer than it usually takes by far ([`crate::pace`]).

use crate::acknowledged::{Acknowledged, Range};
use crate::config::OwnerConfig;
use crate::copies::Counts;
use crate::effect::{Effect, Found, Read, Reading};
use crate::messages::holder::{
    Copy, Counted, Epoch, Forget, Free, FromHolder, Open, Opened, PartitionId, Record, Sequence, Stamp, Stream,
    VolumeId,
};
use crate::pace::Pace;
use crate::rule::Rule;
use crate::standing::{HolderState, Standing};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use types::{GoodbyeReason, Time};

/// A session with a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Down,
    /// The holder was notified of the epoch.
    Opening,
    Up,
}

/// A holder.
#[derive(Debug)]
struct Target {
    partition: PartitionId,
    session: Session,
    /// Since when it takes no copies.
    lost_since: Option<Time>,
    /// The first write of the live stream, the next one to be sent, and the last one that is counted.
    first: Sequence,
    next: Sequence,
    counted: Sequence,
    /// The same of the back stream, which ends before the first one of the other.
    next_back: Sequence,
    counted_back: Sequence,
    /// The writes that were acknowledged in any session.
    acknowledged: Range,
    /// The bytes that were sent in this session, and those that it takes in all.
    sent: u64,
    credit: u64,
    /// It could not be sent what would have come to this.
    needs: u64,
    /// When it last had no room for a copy, and the most that was dirty at such times.
    short: Option<Short>,
    reading: Option<Reading>,
    /// When the back stream may continue.
    back_at: Time,
    /// Since when something is under way that it has not counted, and how long it takes to count usually.
    waits_since: Option<Time>,
    pace: Pace,
    /// It wants to leave.
    is_leaving: bool,
    /// It is about to be forgotten, and counts no more: by a change of this revision of the registry, which may be made
    /// until there is another one.
    over_at: Option<u64>,
    /// The answer that it owes is to the opening by an owner for which it was lost: it is opened as it stands now after
    /// that.
    opens_again: bool,
}

/// A holder had counted everything that it was sent, and took no more.
#[derive(Clone, Copy, Debug)]
struct Short {
    at: Time,
    dirty: u64,
}

/// A holder that was lost, and is in the registry no more.
#[derive(Clone, Copy, Debug)]
struct Struck {
    partition: PartitionId,
    lost_since: Time,
    is_up: bool,
    /// It has answered in this session.
    answers: bool,
}

impl Target {
    fn is_up(&self) -> bool {
        self.session == Session::Up && self.over_at.is_none()
    }

    fn is_live(&self, last: Sequence) -> bool {
        self.is_up() && self.next > last
    }

    fn standing(&self, last: Sequence, home: Sequence) -> Standing {
        let state = if !self.is_up() {
            HolderState::Away
        } else if self.is_leaving {
            HolderState::Leaving
        } else if self.is_live(last) && self.is_whole(home) {
            HolderState::Whole
        } else {
            HolderState::Filling
        };
        let is_whole = state == HolderState::Whole;
        let through = if is_whole { self.counted } else { Sequence(0) };
        Standing { partition: self.partition, state, room: self.room(), through }
    }

    fn room(&self) -> u64 {
        self.credit.saturating_sub(self.sent)
    }

    /// Extends the acknowledged writes: a whole holder has those of the epoch, and another one those of its live
    /// stream.
    fn acknowledge(&mut self, home: Sequence) {
        let from = if self.is_whole(home) { Sequence(1) } else { self.first };
        self.acknowledged.extend(from, self.counted);
    }

    /// Whether it has everything that is not written back.
    fn is_whole(&self, home: Sequence) -> bool {
        self.counted_back.max(home) >= self.first.before()
    }

    /// Whether everything that it was sent is counted, or home: it is never sent what is home, and has no more to say
    /// of it.
    fn is_quiet(&self, home: Sequence) -> bool {
        self.counted.max(home) >= self.next.before() && self.counted_back.max(home) >= self.next_back.before()
    }
}

/// Something that the owner should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// A newer epoch has begun.
    Ended(Epoch),
}

/// The holders, and what they count.
#[derive(Debug)]
pub(crate) struct Holders {
    config: OwnerConfig,
    volume: VolumeId,
    epoch: Epoch,
    /// The newest revision of the registry, in which the targets stand.
    revision: u64,
    targets: Vec<Target>,
    struck: Vec<Struck>,
    counts: Counts<PartitionId>,
    /// The last write.
    last: Sequence,
    /// Through here W copies have been counted at some time, or home has it: everything that was answered is among it.
    safe: Sequence,
    home: Stamp,
    /// The own log takes nothing any more: what it counted when that was so.
    log_lost_at: Option<Sequence>,
    reads: u64,
    /// When timeouts were looked at last: what was due then is not due again.
    looked_at: Time,
}

type Effects = VecDeque<Effect>;

impl Holders {
    /// None. Everything through `home` is home, and everything through `last` is in the own log.
    pub(crate) fn new(config: OwnerConfig, volume: VolumeId, epoch: Epoch, home: Stamp, last: Sequence) -> Self {
        let (targets, counts) = (Vec::new(), Counts::new(last));
        Self {
            config,
            volume,
            epoch,
            revision: 0,
            targets,
            struck: Vec::new(),
            counts,
            last,
            safe: home.sequence,
            home,
            log_lost_at: None,
            reads: 0,
            looked_at: Time::ZERO,
        }
    }

    /// The write through which `copies` count everything, or home has it.
    pub(crate) fn counted(&self, copies: u8) -> Sequence {
        let copies = if self.config.broken.is(Rule::AckAtW) { copies.saturating_sub(1) } else { copies };
        self.counts.through(copies).max(self.home.sequence)
    }

    /// The write through which the own log is durable, or home has it.
    pub(crate) fn appended(&self) -> Sequence {
        self.counts.own_through().max(self.home.sequence)
    }

    /// The write through which everything may go home where W copies cannot be had: what the own log has, or everything
    /// that there is if that takes nothing any more.
    pub(crate) fn at_hand(&self) -> Sequence {
        if self.log_lost_at.is_some() { self.last } else { self.appended() }
    }

    /// The own log is durable through here.
    pub(crate) fn append(&mut self, through: Sequence) {
        if self.log_lost_at.is_none() {
            self.counts.own(through.min(self.last));
        }
    }

    /// The own log takes nothing any more. Returns what it counts, or home has.
    pub(crate) fn lose_log(&mut self) -> Sequence {
        let appended = self.appended();
        *self.log_lost_at.get_or_insert(appended)
    }

    /// The last write that the own log counted when it was lost, if it was.
    pub(crate) fn log_lost_at(&self) -> Option<Sequence> {
        self.log_lost_at
    }

    /// Home has everything through here.
    pub(crate) fn home(&self) -> Sequence {
        self.home.sequence
    }

    /// Home's mark, as it is known.
    pub(crate) fn home_mark(&self) -> Stamp {
        self.home
    }

    /// Takes down what is counted now.
    pub(crate) fn note_safe(&mut self) {
        self.safe = self.safe.max(self.counted(self.config.copies));
    }

    /// The holders that are there, live or not.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.targets.iter().map(|it| it.partition)
    }

    /// How each of them stands.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        let lost = |it: &Struck| {
            let (state, through) = (HolderState::Lost, Sequence(0));
            Standing { partition: it.partition, state, room: 0, through }
        };
        let targets = self.targets.iter().map(|it| it.standing(self.last, self.home.sequence));
        targets.chain(self.struck.iter().map(lost)).collect()
    }

    /// The writes that each holder has acknowledged.
    pub(crate) fn acknowledged(&self) -> Vec<Acknowledged> {
        self.targets.iter().filter_map(|it| it.acknowledged.of(it.partition, self.epoch)).collect()
    }

    /// The holders that are sent each write at once.
    pub(crate) fn live(&self) -> u8 {
        self.targets.iter().filter(|it| it.is_live(self.last)).count() as u8
    }

    /// Whether fewer than W - 1 are, or the own log is lost, and so W copies cannot be had.
    pub(crate) fn is_degraded(&self) -> bool {
        let is_alone = self.log_lost_at.is_some() && !self.config.broken.is(Rule::LostLogUncounted);
        is_alone || self.live() + 1 < self.config.copies
    }

    /// Whether W - 1 of them have room for a copy of this size; or would not have it if they were empty.
    pub(crate) fn have_room(&self, bytes: u64) -> bool {
        let has_room = |it: &&Target| it.room() >= bytes || self.config.broken.is(Rule::CreditFirst);
        let count = self.targets.iter().filter(|it| it.is_live(self.last)).filter(has_room).count();
        count + 1 >= usize::from(self.config.copies)
    }

    /// Records the holders without room for their next copy, or for that of a write that was declined, and the bytes
    /// that are dirty now.
    pub(crate) fn note_short(&mut self, now: Time, dirty: u64, declined: Option<u64>) {
        let home = self.home.sequence;
        for target in self.targets.iter_mut().filter(|it| it.is_up() && it.is_quiet(home)) {
            let lacks_room = target.needs > target.credit || declined.is_some_and(|bytes| target.room() < bytes);
            if lacks_room {
                let before = target.short.map_or(0, |it| it.dirty);
                target.short = Some(Short { at: now, dirty: dirty.max(before) });
            }
        }
    }

    /// The most that was dirty when this one had no room for it, if it is short.
    pub(crate) fn short(&self, now: Time, partition: PartitionId) -> Option<u64> {
        let target = self.targets.iter().find(|it| it.partition == partition)?;
        let is_short = |it: &Short| now < it.at + self.config.replace_after;
        target.short.filter(is_short).map(|it| it.dirty)
    }

    /// Whether this one is lost for this long that it is replaced, or wants to leave.
    pub(crate) fn is_failing(&self, now: Time, partition: PartitionId) -> bool {
        let is_lost = |since| now >= since + self.config.replace_after;
        let is_it = |it: &&Target| it.partition == partition;
        self.targets.iter().find(is_it).is_some_and(|it| it.is_leaving || it.lost_since.is_some_and(is_lost))
    }

    /// Whether this one has been lost for this long that it is struck as soon as it may be. One that has a session
    /// takes its time to answer; if it takes too long, that ends.
    pub(crate) fn is_dead(&self, now: Time, partition: PartitionId) -> bool {
        let is_it = |it: &&Target| it.partition == partition && it.session == Session::Down && it.over_at.is_none();
        let target = self.targets.iter().find(is_it);
        target.and_then(|it| it.lost_since).is_some_and(|since| now >= since + self.config.strike_after)
    }

    /// The struck holders that answer again.
    pub(crate) fn returned(&self) -> impl Iterator<Item = PartitionId> {
        self.struck.iter().filter(|it| it.answers).map(|it| it.partition)
    }

    /// The struck holders that do not, and how many of them have been lost for no longer than a holder may be before
    /// another one takes its place.
    pub(crate) fn missed(&self, now: Time) -> (Vec<PartitionId>, usize) {
        let missed = || self.struck.iter().filter(|it| !it.answers);
        let is_awaited = |it: &&Struck| now < it.lost_since + self.config.replace_after;
        (missed().map(|it| it.partition).collect(), missed().filter(is_awaited).count())
    }

    /// Struck holders that answer are not needed: they may forget what they have.
    pub(crate) fn dismiss(&mut self, effects: &mut Effects) {
        for it in self.struck.extract_if(.., |it| it.answers) {
            effects.push_back(Effect::Send(it.partition, Forget.into()));
            effects.push_back(Effect::Disconnect(it.partition));
        }
    }

    /// Struck holders that are no longer among the members are not looked for.
    pub(crate) fn keep_struck(&mut self, is_member: impl Fn(PartitionId) -> bool, effects: &mut Effects) {
        let gone = self.struck.extract_if(.., |it| !is_member(it.partition));
        effects.extend(gone.map(|it| Effect::Disconnect(it.partition)));
    }

    /// Whether everything that this one counted for has as many copies elsewhere.
    pub(crate) fn may_forget(&self, partition: PartitionId) -> bool {
        let is_one = |it: &&Target| {
            it.partition != partition
                && it.over_at.is_none()
                && it.is_whole(self.home.sequence)
                && it.counted >= self.safe
        };
        let others = self.targets.iter().filter(is_one).count();
        // Home has everything that was answered: what is not counted yet is answered by those that stay.
        let is_home = self.home.sequence >= self.safe;
        others + 1 >= usize::from(self.config.copies) || is_home || self.config.broken.is(Rule::ReplaceThenForget)
    }

    /// This one is about to be forgotten, by a change of this revision of the registry.
    pub(crate) fn end(&mut self, partition: PartitionId, revision: u64) {
        self.counts.remove(partition);
        if let Some(target) = self.targets.iter_mut().find(|it| it.partition == partition) {
            target.over_at = Some(revision);
        }
    }

    /// The holders that are in this revision of the registry are these.
    pub(crate) fn set(&mut self, now: Time, revision: u64, partitions: &[PartitionId], effects: &mut Effects) {
        self.revision = revision;
        for at in (0..self.targets.len()).rev() {
            let partition = self.targets[at].partition;
            if !partitions.contains(&partition) {
                let target = self.targets.remove(at);
                self.counts.remove(partition);
                if let Some(lost_since) = target.lost_since.filter(|_| !target.is_leaving) {
                    let is_up = target.session != Session::Down;
                    self.struck.push(Struck { partition, lost_since, is_up, answers: false });
                    continue;
                }
                if target.session == Session::Up {
                    effects.push_back(Effect::Send(partition, Forget.into()));
                }
                effects.push_back(Effect::Disconnect(partition));
            }
        }
        // One that was to be forgotten, and can be so no more, counts again.
        for target in self.targets.iter_mut().filter(|it| it.over_at.is_some_and(|at| at < revision)) {
            target.over_at = None;
            self.counts.add(target.partition, target.counted);
        }
        for &partition in partitions {
            self.add(now, partition, effects);
        }
    }

    /// A holder more, if it is none yet.
    pub(crate) fn add(&mut self, now: Time, partition: PartitionId, effects: &mut Effects) {
        if self.partitions().any(|it| it == partition) {
            return;
        }
        let struck = self.struck.extract_if(.., |it| it.partition == partition).next();
        let first = self.safe.next();
        self.counts.add(partition, self.safe);
        self.targets.push(Target {
            partition,
            session: Session::Down,
            lost_since: Some(now),
            first,
            next: first,
            counted: self.safe,
            next_back: self.home.sequence.next(),
            counted_back: Sequence(0),
            acknowledged: Range::default(),
            sent: 0,
            credit: 0,
            needs: 0,
            short: None,
            reading: None,
            back_at: now,
            waits_since: None,
            pace: Pace::default(),
            is_leaving: false,
            over_at: None,
            opens_again: false,
        });
        match struck {
            None => effects.push_back(Effect::Connect(partition)),
            Some(Struck { is_up: true, answers, .. }) if answers => self.up(now, partition, effects),
            Some(Struck { is_up: true, .. }) => {
                if let Some(target) = self.targets.last_mut() {
                    (target.session, target.opens_again, target.waits_since) = (Session::Opening, true, Some(now));
                }
            }
            Some(_) => {}
        }
    }

    /// There is a session with a holder.
    pub(crate) fn up(&mut self, now: Time, partition: PartitionId, effects: &mut Effects) {
        let Self { volume, epoch, revision, home, .. } = *self;
        if let Some(target) = self.targets.iter_mut().find(|it| it.partition == partition) {
            target.session = Session::Opening;
            target.waits_since = Some(now);
            effects.push_back(Effect::Send(partition, Open { volume, epoch, revision, home }.into()));
        } else if let Some(struck) = self.struck.iter_mut().find(|it| it.partition == partition) {
            // Whether it is there tells its answer, not the system that takes a connection for it.
            struck.is_up = true;
            effects.push_back(Effect::Send(partition, Open { volume, epoch, revision, home }.into()));
        }
    }

    /// There is none any more.
    pub(crate) fn down(&mut self, now: Time, partition: PartitionId) {
        if let Some(target) = self.targets.iter_mut().find(|it| it.partition == partition) {
            target.session = Session::Down;
            target.lost_since.get_or_insert(now);
            (target.reading, target.waits_since) = (None, None);
            (target.sent, target.credit, target.needs) = (0, 0, 0);
            target.opens_again = false;
            target.pace.stop();
        } else if let Some(struck) = self.struck.iter_mut().find(|it| it.partition == partition) {
            (struck.is_up, struck.answers) = (false, false);
        }
    }

    /// A holder has said something.
    pub(crate) fn heard(
        &mut self,
        now: Time,
        partition: PartitionId,
        message: &FromHolder,
        effects: &mut Effects,
    ) -> Heard {
        let last = self.last;
        let Some(target) = self.targets.iter_mut().find(|it| it.partition == partition) else {
            return self.heard_struck(partition, message);
        };
        match *message {
            FromHolder::Opened(Opened { partition: other, .. }) if other != partition => {
                // It has lost its device: whatever it counted for is not there.
                effects.push_back(Effect::Reconnect(partition, GoodbyeReason::WrongCluster));
                self.down(now, partition);
            }
            FromHolder::Opened(_) if mem::take(&mut target.opens_again) => self.up(now, partition, effects),
            FromHolder::Opened(Opened { live, back, credit, .. }) if target.session == Session::Opening => {
                (target.session, target.lost_since) = (Session::Up, None);
                (target.sent, target.credit) = (0, credit);
                // Numbers that nobody gave count for nothing.
                target.next = live.min(last).next().max(target.first).max(self.home.sequence.next());
                target.next_back = back.min(last).next().max(self.home.sequence.next());
                // It may have less than it had counted: its directory was put back, or its log has lost its end.
                (target.counted, target.counted_back) = (target.first.before(), Sequence(0));
                self.count(now, partition, live, back);
            }
            FromHolder::Counted(Counted { live, back, credit }) if target.session == Session::Up => {
                target.credit = target.credit.max(credit);
                self.count(now, partition, live, back);
            }
            FromHolder::Refused(refused) if refused.epoch > self.epoch => return Heard::Ended(refused.epoch),
            FromHolder::Leaving(_) => target.is_leaving = true,
            _ => {}
        }
        self.go_on(now, effects);
        Heard::Nothing
    }

    /// A struck holder has said something: it is there, unless it is another partition.
    fn heard_struck(&mut self, partition: PartitionId, message: &FromHolder) -> Heard {
        let Some(struck) = self.struck.iter_mut().find(|it| it.partition == partition) else { return Heard::Nothing };
        match *message {
            FromHolder::Opened(Opened { partition: other, .. }) => struck.answers = other == partition,
            FromHolder::Refused(refused) if refused.epoch > self.epoch => return Heard::Ended(refused.epoch),
            _ => {}
        }
        Heard::Nothing
    }

    /// A holder counts so much.
    fn count(&mut self, now: Time, partition: PartitionId, live: Sequence, back: Sequence) {
        let home = self.home.sequence;
        let Some(target) = self.targets.iter_mut().find(|it| it.partition == partition) else { return };
        let (live, back) = (live.min(target.next.before()), back.min(target.next_back.before()));
        target.pace.counted(now, live);
        target.counted = target.counted.max(live);
        target.counted_back = target.counted_back.max(back);
        target.acknowledge(home);
        target.waits_since = (!target.is_quiet(home)).then_some(now);
        if target.over_at.is_none() {
            self.counts.counted(partition, live);
        }
    }

    /// A write, which is the next: it is sent to the holders that are live and have room.
    pub(crate) fn write(&mut self, now: Time, record: &Record, effects: &mut Effects) {
        let before = self.last;
        self.last = record.stamp.sequence;
        if self.log_lost_at.is_some() && self.config.broken.is(Rule::LostLogUncounted) {
            self.counts.own(self.last);
        }
        let bytes = record.content.copy_bytes();
        for target in self.targets.iter_mut().filter(|it| it.is_live(before)) {
            if target.room() >= bytes || self.config.broken.is(Rule::CreditFirst) {
                send(now, target, Stream::Live, record.clone(), effects);
            }
        }
    }

    /// Home has everything up to here, durably.
    pub(crate) fn home_durable(&mut self, through: Stamp, effects: &mut Effects) {
        self.home = through;
        self.note_safe();
        self.free(through, effects);
    }

    /// Holders are told that these copies are needed no more.
    pub(crate) fn free(&self, through: Stamp, effects: &mut Effects) {
        for target in self.targets.iter().filter(|it| it.session == Session::Up) {
            effects.push_back(Effect::Send(target.partition, Free { through }.into()));
        }
    }

    /// The answer to a read.
    pub(crate) fn found(&mut self, now: Time, number: u64, found: Found, effects: &mut Effects) {
        let is_it = |it: &&mut Target| it.reading.is_some_and(|reading| reading.number == number);
        let Some(target) = self.targets.iter_mut().find(is_it) else { return };
        let Some(Reading { stream, .. }) = target.reading.take() else { return };
        let Found { records, through } = found;
        let mut bytes = 0;
        for record in records {
            let needs = target.sent + record.content.copy_bytes();
            if needs > target.credit && !self.config.broken.is(Rule::CreditFirst) {
                target.needs = needs;
                return;
            }
            bytes += record.content.len();
            send(now, target, stream, record, effects);
        }
        match stream {
            Stream::Live => target.next = target.next.max(through.next()),
            Stream::Back => target.next_back = target.next_back.max(through.next()),
        }
        if stream == Stream::Back {
            let rate = self.config.back_bytes_per_second.max(1);
            target.back_at = now + Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        }
        self.go_on(now, effects);
    }

    /// Has what holders are behind with read, as far as they have room.
    pub(crate) fn go_on(&mut self, now: Time, effects: &mut Effects) {
        let Self { config, targets, last, home, reads, .. } = self;
        let home = home.sequence;
        for target in targets.iter_mut().filter(|it| it.is_up() && it.reading.is_none()) {
            if target.next.min(target.next_back) <= home {
                (target.next, target.next_back) = (target.next.max(home.next()), target.next_back.max(home.next()));
                // The copy that it had no room for may not be needed: the next read tells.
                target.needs = 0;
            }
            if target.credit < target.needs {
                continue;
            }
            let (stream, from, through) = if target.next <= *last {
                (Stream::Live, target.next, *last)
            } else if target.next_back < target.first && now >= target.back_at {
                (Stream::Back, target.next_back, target.first.before())
            } else {
                continue;
            };
            *reads += 1;
            target.reading = Some(Reading { number: *reads, stream });
            let bytes = config.read_bytes.min(target.room());
            effects.push_back(Effect::Read(Read { number: *reads, from, through, bytes }));
        }
    }

    /// When [`Holders::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let silent = self.targets.iter().filter_map(|it| it.silent_at(&self.config));
        let is_slow = |it: &&Target| it.is_up() && it.reading.is_none() && it.credit >= it.needs;
        let behind =
            |it: &&Target| it.next > self.last && it.next_back < it.first && it.home_is_behind(self.home.sequence);
        let slow = self.targets.iter().filter(is_slow).filter(behind).map(|it| it.back_at);
        let OwnerConfig { strike_after, replace_after, .. } = self.config;
        let struck = self.struck.iter().map(|it| it.lost_since);
        let lost = self.targets.iter().filter_map(|it| it.lost_since).chain(struck);
        let lost = lost.flat_map(|since| [since + strike_after, since + replace_after]);
        silent.chain(slow).chain(lost.filter(|&at| at > self.looked_at)).min()
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Time, effects: &mut Effects) {
        self.looked_at = now;
        let is_silent = |it: &Target| it.silent_at(&self.config).is_some_and(|at| now >= at);
        let silent: Vec<_> = self.targets.iter().filter(|it| is_silent(it)).map(|it| it.partition).collect();
        for partition in silent {
            effects.push_back(Effect::Reconnect(partition, GoodbyeReason::Silent));
            self.down(now, partition);
        }
        self.go_on(now, effects);
    }
}

impl Target {
    /// When it is considered lost, if it counts nothing until then.
    fn silent_at(&self, config: &OwnerConfig) -> Option<Time> {
        let OwnerConfig { silence, silence_min, .. } = *config;
        self.waits_since.map(|since| since + self.pace.patience(silence_min, silence))
    }

    /// Whether there is something for the back stream that is not written back.
    fn home_is_behind(&self, home: Sequence) -> bool {
        home < self.first.before()
    }
}

/// Sends a copy, which is the next of its stream.
fn send(now: Time, target: &mut Target, stream: Stream, record: Record, effects: &mut Effects) {
    let next = if stream == Stream::Live { &mut target.next } else { &mut target.next_back };
    *next = record.stamp.sequence.next();
    target.sent += record.content.copy_bytes();
    target.waits_since.get_or_insert(now);
    if stream == Stream::Live {
        target.pace.sent(now, record.stamp.sequence);
    }
    effects.push_back(Effect::Send(target.partition, Copy { stream, record }.into()));
}
