//! The owner of a volume: it numbers writes, answers them when enough copies of them are counted, and has what is dirty
//! written home in the order of its flushes.
//!
//! ```text
//!   driver                              Owner                          holders
//!     | write(request, ..) -> Stamp       |
//!     |   (appends it to the own log)     | Copy --------------------->  |
//!     | appended(through) --------------> |                              |
//!     |                                   | <---------------- Counted --- |
//!     | <------------- Answer(request)    |   W copies of it, the own one among them
//!     | <------------- WriteHome{..}      |   closed flush epochs, oldest first
//!     | home_durable(through) ----------> |   the own log is free through here
//!     |                                   | Free --------------------->  |
//! ```
//! All numbers are cumulative: a log and a link keep their order. The owner has an entry for each flush epoch that is
//! not home and each request that waits, and nothing of a write besides.
//!
//! 1. A write is answered when W copies of it are counted, the own one among them, or when it is written back
//!    (**AckAtW**). With
//!    [`Ack::Flush`] it is answered at once, and a flush when that is true of all writes before it.
//! 2. A flush closes the flush epoch. So does a write with FUA: the ones after its answer may rely on it, so home has
//!    it before any of them.
//! 3. Flush epochs go home one after another, and each is durable there before the next begins; several may be joined,
//!    if home installs them whole or not at all (**FlushOrder**). Only what W copies count goes home, so that a host
//!    that takes over finds everything that home has a part of; but with fewer holders than that, all of the own log
//!    does.
//! 4. With fewer than W - 1 holders an owner is *degraded*: everything goes home at once, and a write is answered when
//!    it is there; or no write is taken. With as many again it is as before. An owner whose own log has failed is
//!    degraded from then on: the log's copies count as far as it got, and none of what comes later does
//!    (**LostLogUncounted**). A holder that is nearly full is replaced before it comes to that, by one that has room
//!    for twice what is dirty. So is a holder that is short, by one with room for twice the most that was dirty when it
//!    had none. While there is no such holder, it stays.
//! 5. With a registry, the owner has a lease on its epoch. When it is over, reads are not answered
//!    (**ReadWithinLease**) and no write is taken. Writes that were taken are answered all the same: they are fenced by
//!    those who count them.

use crate::acknowledged::of_holders;
use crate::circle::{Circle, Need};
use crate::config::{Ack, Degraded, OwnerConfig};
use crate::dirty::Dirty;
use crate::effect::{Effect, Found, HomeSays};
use crate::holders::{Heard, Holders};
use crate::homing::Homing;
use crate::messages::holder::{
    Content, Epoch, Extent, FlushEpoch, FromHolder, PartitionId, Record, Sequence, Stamp, VolumeId,
};
use crate::registry::{HostId, Registered, Registration, View};
use crate::request::{Declined, RequestId, Write};
use crate::rule::Rule;
use crate::standing::Standing;
use crate::waiting::Waiting;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use types::Time;
use types::limits::VOLUME_COPIES_MAX;

/// A flush epoch that was found in the own log, and is not written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Its last write.
    pub last: Stamp,
    /// The room that its writes take in the log.
    pub bytes: u64,
}

/// The registry's part in an owner's life.
#[derive(Debug)]
struct Attached {
    host: HostId,
    registration: Registration,
    circle: Circle,
    /// The failure domain of this host.
    domain: u64,
    /// Home was asked whose the volume is, and has not said.
    asks_home: bool,
}

impl Attached {
    /// Up to so many new holders: struck ones that are there again before all others. The place of one that was lost
    /// lately is kept for it.
    fn fresh(&self, now: Time, volume: VolumeId, holders: &Holders, need: Need) -> Vec<PartitionId> {
        let count = need.count;
        let mut fresh: Vec<_> = holders.returned().take(count).collect();
        let (missed, awaited) = holders.missed(now);
        let taken: Vec<_> = self.registration.entry().holders.iter().chain(&fresh).chain(&missed).copied().collect();
        let count = (count - fresh.len()).saturating_sub(awaited);
        fresh.extend(self.circle.targets_with(volume, self.domain, &taken, Need { count, ..need }));
        fresh
    }
}

/// A resize that is under way.
#[derive(Debug)]
struct Resizing {
    request: RequestId,
    size: u64,
    /// The write that trims what is behind the new end.
    trimmed: Sequence,
}

/// The owner of a volume.
#[derive(Debug)]
pub struct Owner {
    config: OwnerConfig,
    volume: VolumeId,
    epoch: Epoch,
    /// The last write.
    last: Sequence,
    dirty: Dirty,
    holders: Holders,
    waiting: Waiting,
    homing: Homing,
    attached: Option<Attached>,
    resizing: Option<Resizing>,
    /// The room at holders that a write was declined for.
    declined: Option<u64>,
    /// Everything should go home.
    is_draining: bool,
    is_detaching: bool,
    over: Option<Declined>,
    effects: VecDeque<Effect>,
}

impl Owner {
    /// An owner without holders and without a registry, under this epoch, with nothing dirty.
    pub fn new(config: OwnerConfig, epoch: Epoch) -> Self {
        Self::resume(Time::ZERO, config, epoch, Stamp::begin(epoch), &[])
    }

    /// The same, which continues with its own log under a new epoch: everything up to `home` is home, and these flush
    /// epochs are not, oldest first. The numbers of writes and flushes continue from there.
    ///
    /// An owner with holders has no such log: it is a [`TakeOver`](crate::TakeOver) from itself that brings home what
    /// is in its log, so nothing that a holder has of an earlier epoch means anything in the next.
    pub fn resume(now: Time, config: OwnerConfig, epoch: Epoch, home: Stamp, recovered: &[Recovered]) -> Self {
        let last = recovered.last().map_or(home, |it| it.last);
        let volume = VolumeId(0);
        let mut dirty = Dirty::new(FlushEpoch(last.flush.0 + 1));
        for it in recovered {
            dirty.recover(now, it.last, it.bytes);
        }
        Self {
            config,
            volume,
            epoch,
            last: last.sequence,
            dirty,
            holders: Holders::new(config, volume, epoch, home, last.sequence),
            waiting: Waiting::new(),
            homing: Homing::new(home),
            attached: None,
            resizing: None,
            declined: None,
            is_draining: false,
            is_detaching: false,
            over: None,
            effects: VecDeque::new(),
        }
    }

    /// An owner under the epoch that the registry has given to `host`, which is in the failure domain `domain`, when a
    /// takeover has brought home everything of the epochs before. W and the size are the registry's.
    pub fn attach(now: Time, config: OwnerConfig, volume: VolumeId, host: HostId, domain: u64, view: View) -> Self {
        let Registered { epoch, copies, size, ref holders, .. } = view.entry;
        let config = OwnerConfig { copies: copies.clamp(1, VOLUME_COPIES_MAX), size, ..config };
        let mut owner = Self::new(config, epoch);
        owner.volume = volume;
        owner.holders = Holders::new(config, volume, epoch, Stamp::begin(epoch), Sequence(0));
        owner.holders.set(now, view.revision, holders, &mut owner.effects);
        let registration = Registration::new(view, config.broken);
        owner.attached = Some(Attached { host, registration, circle: Circle::default(), domain, asks_home: false });
        owner.go_on(now);
        owner
    }

    /// Its epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The size of the volume.
    pub fn size(&self) -> u64 {
        self.config.size
    }

    /// The room that dirty writes take in the own log.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty.bytes()
    }

    /// When the oldest write came that is not written back.
    pub fn dirty_since(&self) -> Option<Time> {
        self.dirty.since()
    }

    /// The holders that are in the registry, and those that are about to be forgotten.
    pub fn holders(&self) -> Vec<Standing> {
        self.holders.standings()
    }

    /// W: the copies that a write should have, the own one among them.
    pub fn copies(&self) -> u8 {
        self.config.copies
    }

    /// The requests that wait for their answer.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether W copies cannot be had now.
    pub fn is_degraded(&self) -> bool {
        self.holders.is_degraded()
    }

    /// Whether everything is written back.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Why it is over, if it is.
    pub fn over(&self) -> Option<Declined> {
        self.over
    }

    /// Whether a read may be answered.
    pub fn may_read(&self, now: Time) -> bool {
        self.over.is_none() && (self.is_leased(now) || self.config.broken.is(Rule::ReadWithinLease))
    }

    /// Takes a write, and gives its place. The driver appends it to the own log under this stamp, before or together
    /// with later ones.
    ///
    /// # Errors
    /// Why it is not taken. It has no effect then and gets no other answer.
    pub fn write(&mut self, now: Time, write: Write<'_>) -> Result<Stamp, Declined> {
        let Write { request, extent, content, is_fua, copies } = write;
        self.check(now, extent, content)?;
        if !self.has_room(content) {
            self.declined = Some(content.copy_bytes());
            self.go_on(now);
            return Err(Declined::NoRoom);
        }
        let stamp = self.take(now, extent, content);
        if is_fua || self.config.ack == Ack::Write {
            let copies = copies.min(self.holders.live() + 1).max(self.config.copies).min(VOLUME_COPIES_MAX);
            self.waiting.add(copies, stamp.sequence, request);
        } else {
            self.answer(request, Ok(()));
        }
        if is_fua {
            self.dirty.close();
        }
        self.go_on(now);
        Ok(stamp)
    }

    /// All writes that were answered before should be safe.
    pub fn flush(&mut self, now: Time, request: RequestId) {
        if let Some(over) = self.over {
            return self.answer(request, Err(over));
        }
        self.dirty.close();
        match self.config.ack {
            // An answer was a promise already.
            Ack::Write => self.answer(request, Ok(())),
            Ack::Flush => self.waiting.add(self.config.copies, self.last, request),
        }
        self.settle(now);
    }

    /// Answers the requests that `is_of` names and that wait for copies or for home: their client has hung up, and
    /// wants no answer. Their writes stay.
    pub fn give_up(&mut self, is_of: impl FnMut(RequestId) -> bool) {
        for request in self.waiting.take_of(is_of) {
            self.answer(request, Err(Declined::GivenUp));
        }
    }

    /// Everything that was written before goes home now, and the request is answered when it is there.
    pub fn bring_home(&mut self, now: Time, request: RequestId) {
        if let Some(over) = self.over {
            return self.answer(request, Err(over));
        }
        self.dirty.close();
        self.homing.wait(self.last, request);
        self.settle(now);
    }

    /// Returns the volume another size. One that becomes smaller is trimmed behind its new end first (**TrimTail**):
    /// what is dirty there must not come back when it grows again. That is the write that is given, for the own log.
    ///
    /// # Errors
    /// Why it is not done.
    pub fn resize(&mut self, now: Time, request: RequestId, size: u64) -> Result<Option<Record>, Declined> {
        if self.resizing.is_some() {
            return Err(Declined::Resizing);
        }
        let old = self.config.size;
        let tail = Extent { offset: size.min(old), len: old.saturating_sub(size) };
        if tail.len > 0 {
            self.check(now, tail, &Content::Trim)?;
        } else if let Some(over) = self.over {
            return Err(over);
        }
        self.config.size = size.min(old);
        let mut trim = None;
        if tail.len > 0 && !self.config.broken.is(Rule::TrimTail) {
            let stamp = self.take(now, tail, &Content::Trim);
            self.dirty.close();
            trim = Some(Record { stamp, extent: tail, content: Content::Trim });
        }
        let trimmed = trim.as_ref().map_or(Sequence(0), |trim| trim.stamp.sequence);
        self.resizing = Some(Resizing { request, size, trimmed });
        self.go_on(now);
        Ok(trim)
    }

    /// The own log is durable through this write.
    pub fn appended(&mut self, now: Time, through: Sequence) {
        self.holders.append(through);
        self.settle(now);
    }

    /// The own log takes nothing any more, as its device has failed; what it has can be read, maybe. The driver keeps
    /// in memory what is written from now on, and what was not durable there, until it is written back.
    ///
    /// Returns the last write that the log counts for: everything through it goes home before anything later does.
    pub fn lose_log(&mut self, now: Time) -> Sequence {
        let logged = self.holders.lose_log();
        self.dirty.cut(self.holders.home(), logged);
        self.settle(now);
        logged
    }

    /// Home has everything up to here, durably. The own log is free up to here.
    pub fn home_durable(&mut self, now: Time, through: Stamp) {
        if !self.homing.done(through) {
            return;
        }
        self.dirty.home(through);
        self.holders.home_durable(through, &mut self.effects);
        self.settle(now);
    }

    /// Home could not be written: it is told to again after a while.
    pub fn home_failed(&mut self, now: Time) {
        self.homing.failed(now, &self.config);
    }

    /// Home has refused a write-back, as a newer epoch has begun.
    pub fn home_ended(&mut self, epoch: Epoch) {
        if epoch > self.epoch && self.over.is_none() {
            self.ended(epoch);
        }
    }

    /// Everything that is dirty goes home now; see [`Owner::is_clean`].
    pub fn drain(&mut self, now: Time) {
        self.is_draining = true;
        self.go_on(now);
    }

    /// Everything goes home, and the registry is told that the volume is nobody's; [`Effect::Detached`] ends that. No
    /// write is taken any more.
    pub fn detach(&mut self, now: Time) {
        self.is_detaching = true;
        self.drain(now);
    }

    /// It ends for a reason of the driver's own, such as a failed log: no request is answered any more but by a
    /// refusal.
    pub fn stop(&mut self) {
        self.end(Declined::Stopped);
    }

    /// There is a session with a holder.
    pub fn up(&mut self, now: Time, partition: PartitionId) {
        self.holders.up(now, partition, &mut self.effects);
    }

    /// There is none any more, or none could be had.
    pub fn down(&mut self, now: Time, partition: PartitionId) {
        self.holders.down(now, partition);
        self.settle(now);
    }

    /// A holder has said something.
    pub fn heard(&mut self, now: Time, partition: PartitionId, message: &FromHolder) {
        match self.holders.heard(now, partition, message, &mut self.effects) {
            Heard::Nothing => self.settle(now),
            Heard::Ended(epoch) => self.ended(epoch),
        }
    }

    /// The answer to [`Effect::Read`].
    pub fn found(&mut self, now: Time, number: u64, found: Found) {
        self.holders.found(now, number, found, &mut self.effects);
        self.settle(now);
    }

    /// The answer to [`Effect::Change`]: the entry as it stands now, whether that is the change or not, or `None` if
    /// the registry could not be asked.
    pub fn changed(&mut self, now: Time, outcome: Result<View, Option<View>>) {
        let Some(attached) = &mut self.attached else { return };
        match outcome {
            Ok(view) => attached.registration.made(now, view),
            Err(view) => attached.registration.not_made(now, view),
        }
        self.registered(now);
    }

    /// The entry of the registry is known to stand so.
    pub fn hear_registry(&mut self, now: Time, view: View) {
        if let Some(attached) = &mut self.attached {
            attached.registration.hear(view);
            self.registered(now);
        }
    }

    /// The registry's entry, as the owner has it, and as it is in a registry that was restored from an older copy,
    /// if it has.
    pub fn registered_as(&self) -> Option<(&Registered, Option<&View>)> {
        let registration = &self.attached.as_ref()?.registration;
        Some((registration.entry(), registration.back()))
    }

    /// The answer to [`Effect::AskHome`]. A home that was restored from an older copy, too, does not know whose the
    /// volume was: the entry is not put back by its word.
    pub fn home_says(&mut self, now: Time, says: HomeSays) {
        let Some(attached) = &mut self.attached else { return };
        attached.asks_home = false;
        match says {
            HomeSays::Other(epoch) => {
                if self.over.is_none() {
                    self.ended(epoch.max(self.epoch));
                }
            }
            HomeSays::Own(mark) if mark >= self.holders.home_mark() => {
                let restore = attached.registration.restore(now);
                self.effects.extend(restore.map(Effect::Restore));
            }
            HomeSays::Own(_) | HomeSays::Nothing => attached.registration.wait(now),
        }
    }

    /// The members that there should keep copies.
    pub fn members(&mut self, now: Time, circle: Circle) {
        if let Some(attached) = &mut self.attached {
            self.holders.keep_struck(|it| circle.has(it), &mut self.effects);
            attached.circle = circle;
            self.go_on(now);
        }
    }

    /// Its next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Owner::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.over.is_some() {
            return None;
        }
        let home = self.homing.due(&self.config, self.dirty.since());
        let heartbeat = self.attached.as_ref().filter(|it| !it.asks_home).and_then(|it| it.registration.heartbeat_at());
        home.into_iter().chain(heartbeat).chain(self.holders.poll_timeout()).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.holders.handle_timeout(now, &mut self.effects);
        if self.homing.due(&self.config, self.dirty.since()).is_some_and(|at| at <= now) {
            self.homing.look_again(now + self.config.retry);
        }
        self.go_on(now);
    }

    fn check(&self, now: Time, extent: Extent, content: &Content) -> Result<(), Declined> {
        if let Some(over) = self.over {
            return Err(over);
        }
        if self.is_detaching {
            return Err(Declined::Detached);
        }
        if !self.is_leased(now) {
            return Err(Declined::LeaseOver);
        }
        if !content.fits(extent) || extent.end().is_none_or(|end| end > self.config.size) {
            return Err(Declined::OutOfRange);
        }
        let is_refused = self.config.degraded == Degraded::Refuse && self.holders.is_degraded();
        if is_refused { Err(Declined::Degraded) } else { Ok(()) }
    }

    fn is_leased(&self, now: Time) -> bool {
        self.attached.as_ref().is_none_or(|it| it.registration.is_leased(now))
    }

    /// Whether the own log has room for a write, and the holders that it takes do. A write that is alone is always
    /// taken.
    fn has_room(&self, content: &Content) -> bool {
        let bytes = content.len() + self.config.record_bytes;
        let fits = self.dirty.bytes() + bytes <= self.config.log_bytes;
        let is_taken = self.holders.is_degraded() || self.holders.have_room(content.copy_bytes());
        self.dirty.is_empty() || fits && is_taken
    }

    /// Returns a write its place, and sends its copies.
    fn take(&mut self, now: Time, extent: Extent, content: &Content) -> Stamp {
        self.last = self.last.next();
        let stamp = Stamp { epoch: self.epoch, sequence: self.last, flush: self.dirty.flush() };
        self.dirty.write(now, stamp, content.len() + self.config.record_bytes);
        let record = Record { stamp, extent, content: content.clone() };
        self.holders.write(now, &record, &mut self.effects);
        stamp
    }

    fn answer(&mut self, request: RequestId, outcome: Result<(), Declined>) {
        self.effects.push_back(Effect::Answer(request, outcome));
    }

    /// Answers the requests that have waited long enough, and continues.
    fn settle(&mut self, now: Time) {
        if self.over.is_some() {
            return;
        }
        let Self { holders, waiting, effects, .. } = self;
        holders.note_safe();
        // A write that wants more copies than W waits for no more than there are holders for.
        let most = (holders.live() + 1).max(self.config.copies);
        while let Some(request) = waiting.take(|copies| holders.counted(copies.min(most))) {
            effects.push_back(Effect::Answer(request, Ok(())));
        }
        while let Some(request) = self.homing.take() {
            effects.push_back(Effect::Answer(request, Ok(())));
        }
        let has_room = |bytes| self.dirty.bytes() <= self.config.log_bytes / 2 && self.holders.have_room(bytes);
        if self.declined.is_some_and(|bytes| self.dirty.is_empty() || self.holders.is_degraded() || has_room(bytes)) {
            self.declined = None;
            self.effects.push_back(Effect::Room);
        }
        self.go_on(now);
    }

    /// Has written home what is due, and the registry changed.
    fn go_on(&mut self, now: Time) {
        if self.over.is_some() {
            return;
        }
        self.holders.go_on(now, &mut self.effects);
        self.holders.note_short(now, self.dirty.bytes(), self.declined);
        self.write_home(now);
        self.change_registry(now);
    }

    fn write_home(&mut self, now: Time) {
        let is_degraded = self.holders.is_degraded();
        let room = self.config.log_bytes / 1000 * u64::from(self.config.dirty_permille);
        let is_old = self.dirty.since().is_some_and(|since| now >= since + self.config.age_max / 2);
        let is_wanted = self.declined.is_some() || self.is_draining || self.homing.is_waited_for();
        let is_due = is_old || is_degraded || is_wanted || self.dirty.bytes() > room;
        if !is_due || self.dirty.is_empty() {
            return;
        }
        // Where nothing is closed, or somebody waits for the rest, the boundary is the owner's own: of everything that
        // has come while home was busy.
        if self.homing.is_free() && (!self.dirty.has_closed() || is_degraded || self.is_draining) {
            self.dirty.close();
        }
        let ready = if is_degraded { self.holders.at_hand() } else { self.holders.counted(self.config.copies) };
        if let Some(back) = self.homing.next(&self.config, &self.dirty, ready, self.holders.log_lost_at()) {
            self.effects.push_back(Effect::WriteHome(back));
            if self.config.broken.is(Rule::FreeAfterHome) {
                self.holders.free(back.through, &mut self.effects);
            }
        }
    }

    /// The registry's entry stands otherwise than before, maybe.
    fn registered(&mut self, now: Time) {
        let Some(attached) = &self.attached else { return };
        let entry = attached.registration.entry();
        if entry.epoch > self.epoch {
            let epoch = entry.epoch;
            return self.ended(epoch);
        }
        if self.is_detaching && entry.owner.is_none() {
            self.effects.push_back(Effect::Detached);
            return self.end(Declined::Detached);
        }
        let (size, holders, revision) = (entry.size, entry.holders.clone(), attached.registration.revision());
        if self.resizing.as_ref().is_some_and(|it| it.size == size)
            && let Some(Resizing { request, .. }) = self.resizing.take()
        {
            self.config.size = size;
            self.answer(request, Ok(()));
        }
        self.holders.set(now, revision, &holders, &mut self.effects);
        self.settle(now);
    }

    /// Proposes the next change of the registry, if there is one to be made.
    fn change_registry(&mut self, now: Time) {
        let is_safe = |it: &Resizing| it.trimmed <= self.holders.counted(self.config.copies);
        let resized = self.resizing.as_ref().filter(|it| is_safe(it)).map(|it| it.size);
        let Some(attached) = &mut self.attached else {
            if let Some(size) = resized
                && let Some(Resizing { request, .. }) = self.resizing.take()
            {
                self.config.size = size;
                self.answer(request, Ok(()));
            }
            return;
        };
        if attached.registration.back().is_some() {
            return self.restore(now);
        }
        if !attached.registration.may_change(now) {
            return;
        }
        let entry = attached.registration.entry();
        let is_failing = |partition: &&PartitionId| self.holders.is_failing(now, **partition);
        let failing = entry.holders.iter().find(is_failing).copied();
        let is_short = |it: PartitionId| self.holders.short(now, it).is_some();
        let is_full = |it: &&PartitionId| (is_short(**it) || attached.circle.is_nearly_full(**it)) && !is_failing(it);
        let full = entry.holders.iter().find(is_full).copied();
        let sound = entry.holders.len() - entry.holders.iter().filter(is_failing).count();
        let wanted = usize::from(self.config.holders);
        let count = wanted.saturating_sub(sound);
        if count == 0 {
            self.holders.dismiss(&mut self.effects);
        }
        let need = if full.is_some() && sound == wanted {
            // With twice the room of what is dirty another one is not nearly full by it, which would send it back.
            let lacked = full.and_then(|it| self.holders.short(now, it)).unwrap_or(0);
            Need { count: 1, bytes: (2 * self.dirty.bytes().max(lacked)).max(1) }
        } else {
            Need { count, bytes: 1 }
        };
        let fresh = attached.fresh(now, self.volume, &self.holders, need);
        // One that is lost goes as soon as it may, one that fails otherwise when it is replaced; one too many, when it
        // is not needed.
        let is_dead = |it: &&PartitionId| self.holders.is_dead(now, **it) && self.holders.may_forget(**it);
        let dead = entry.holders.iter().find(is_dead).copied();
        let surplus = full.or(entry.holders.last().copied()).filter(|_| sound > wanted);
        let failing = failing.filter(|_| fresh.is_empty()).or(surplus).filter(|it| self.holders.may_forget(*it));
        let gone = dead.or(failing);
        let is_done = self.is_detaching && self.dirty.is_empty();
        let is_due = attached.registration.heartbeat_at().is_some_and(|at| at <= now);
        if !is_due && !is_done && fresh.is_empty() && gone.is_none() && resized.is_none() {
            return;
        }
        if let Some(gone) = gone {
            self.holders.end(gone, attached.registration.revision());
        }
        if self.config.broken.is(Rule::HoldersKnown) {
            for &partition in &fresh {
                self.holders.add(now, partition, &mut self.effects);
            }
        }
        if is_done {
            attached.registration.give_up();
        }
        let (host, acknowledged) = (attached.host, self.holders.acknowledged());
        let change = attached.registration.change(now, |entry| {
            entry.owner = (!is_done).then_some(host);
            entry.size = resized.unwrap_or(entry.size);
            entry.holders.extend(fresh);
            entry.holders.retain(|it| Some(*it) != gone && !is_done);
            entry.acknowledged = of_holders(acknowledged, &entry.holders);
        });
        self.effects.extend(change.map(Effect::Change));
    }

    /// The registry was restored from an older copy. Home is asked first: nobody else may have had the volume since
    /// (**HomeConfirms**).
    fn restore(&mut self, now: Time) {
        let Some(attached) = self.attached.as_mut().filter(|it| it.registration.may_ask(now) && !it.asks_home) else {
            return;
        };
        if self.config.broken.is(Rule::HomeConfirms) {
            let restore = attached.registration.restore(now);
            return self.effects.extend(restore.map(Effect::Restore));
        }
        attached.asks_home = true;
        self.effects.push_back(Effect::AskHome);
    }

    fn ended(&mut self, epoch: Epoch) {
        self.effects.push_back(Effect::Ended(epoch));
        self.end(Declined::Ended);
    }

    fn end(&mut self, over: Declined) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(over);
        let resizing = self.resizing.take().map(|it| it.request);
        let waiting: Vec<_> = self.waiting.take_all().chain(self.homing.take_all()).chain(resizing).collect();
        self.effects.extend(waiting.into_iter().map(|request| Effect::Answer(request, Err(over))));
        self.effects.extend(self.holders.partitions().map(Effect::Disconnect));
    }
}
