//! Taking a volume over: a host brings home what the owner before it has left at its holders, and is the owner then, or
//! leaves the volume to nobody.
//!
//! ```text
//!   registry                      home                   holders
//!     | the owner's lease is over   |                       |
//!     | <- Change(epoch + 1)        |                       |
//!     |                             | <- FenceHome          |
//!     |                             |    mark ->            |
//!     |                             |                       | <- List{epoch + 1}, Fetch
//!     |                             | <- Begin, Write *, End|
//!     |                             |    durable ->         |
//!     | <- Change(done)             |                       |
//! ```
//! 1. It begins when it has seen the owner's last sign of life for longer than that one's lease (**WaitOwnerLease**), or
//!    when nobody has the volume. Its change of the registry expects what it has seen: of two hosts one is refused.
//! 2. The epoch moves in the registry, then at home, then at each holder whose list is read (**EpochFirst**).
//! 3. The lists of all but W - 2 of the holders that stand in the registry are enough, since the owner's own copy was one
//!    of the W (**EnoughLists**). Fewer are if the operator accepts what may be lost. The own log of a host that takes over
//!    from itself is enough by itself, if home's mark is of the epoch that it is of. None is needed when an earlier take-over
//!    had all at home and did not come to say so. With W = 1 none is enough: the log of the owner before has the only copy.
//! 4. The copies behind home's mark go home in the order of their flushes, under the rules of any write-back. Those that
//!    the mark covers are left alone (**PassHome**): a holder that did not hear that it may free a copy has it still, and home has
//!    newer contents by now.
//! 5. A holder that is lost meanwhile has the lists read anew, behind the mark. So has a copy that turns out to be damaged,
//!    after a while: another source is taken for it, and if no list has one, the damaged one's list counts as missing.
//!    Loss is accepted for one reading of the lists: those that answer again are waited for again.
//! 6. At last home's mark is the begin of the new epoch: no copy of an earlier one counts from then on.

use crate::lists::{Lists, Part, Source};
use crate::registry::{Change, HostId, Registered, Registration, View, wait_for_lease};
use crate::rule::Rule;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::{self, Vec};
use core::mem;
use core::time::Duration;
use protocol::volumes::{
    Content, Entry, Epoch, Extent, Fetch, Free, FromHolder, Kept, List, Listed, PartitionId, Record, Stamp, ToHolder,
    VolumeId,
};
use types::{Broken, GoodbyeReason, Time};

/// The settings of a take-over.
#[derive(Clone, Copy, Debug)]
pub struct TakeOverConfig {
    /// The volume.
    pub volume: VolumeId,
    /// The host that takes it over.
    pub host: HostId,
    /// Whether it keeps the volume, or only brings it home.
    pub keeps: bool,
    /// Flush epochs are joined as long as they take no more than this: as much as home's journal takes.
    pub join_bytes: u64,
    /// The copies that are asked for, or on their way home and not taken there, at a time.
    pub window: usize,
    /// The wait before something that has failed is tried again.
    pub retry: Duration,
    /// A holder that owes an answer for longer is taken for lost.
    pub silence: Duration,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl TakeOverConfig {
    /// The usual settings.
    pub fn new(volume: VolumeId, host: HostId) -> Self {
        Self {
            volume,
            host,
            keeps: true,
            join_bytes: 64 << 20,
            window: 64,
            retry: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            broken: Broken::NONE,
        }
    }
}

/// An action that a take-over wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOverEffect {
    /// Change the registry, and say [`TakeOver::changed`].
    Change(Change),
    /// Tell home of the epoch, and say [`TakeOver::home_fenced`], or [`TakeOver::home_failed`].
    FenceHome(Epoch),
    /// Open a session with the holder of this partition, and again when it is lost.
    Connect(PartitionId),
    /// End the session with it, for this reason, and open another one.
    Reconnect(PartitionId, GoodbyeReason),
    /// No session with it is needed any more.
    Disconnect(PartitionId),
    /// Send a message to the holder of a partition.
    Send(PartitionId, ToHolder),
    /// Read a copy of the own log, and say [`TakeOver::kept`] with it.
    ReadOwn(Stamp),
    /// A write-back to home begins, up to this write, joined or not.
    Begin(Stamp, bool),
    /// Of it, the next write: later ones go over earlier ones. Say [`TakeOver::home_took`] when home has taken it.
    Write(Record),
    /// That was all of it. When it is durable, say [`TakeOver::home_durable`].
    End(Stamp),
    /// The write-back that has begun comes to no end.
    Abort,
    /// These lists are missing, or have a damaged copy that no other list has a good one for; or, if none is named, the only
    /// copy that counts is in the log of another host, or is damaged. It waits for them, or for
    /// [`TakeOver::accept_loss`]: writes that only their holders have are lost then. It says so once for each time that the
    /// lists are read, and each has to be accepted.
    Missing(Vec<PartitionId>),
    /// It is over: the volume is home, and the registry stands so.
    Done(View),
    /// It is over: another host was first, under this epoch.
    Lost(Epoch),
}

/// A step of a take-over, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The owner may live.
    Watch,
    Claim,
    Fence,
    List,
    WriteHome,
    /// The registry is told that all is home.
    Finish,
    Over,
}

/// A holder that stands in the registry.
#[derive(Debug)]
struct Holder {
    partition: PartitionId,
    is_up: bool,
    /// Where its list has come to.
    listed: Stamp,
    is_listed: bool,
    /// Another partition answers in its place: it is lost.
    is_lost: bool,
    /// Since when it owes an answer.
    waits_since: Option<Time>,
}

/// A copy that was asked for, and has come or not.
#[derive(Debug)]
struct Asked {
    stamp: Stamp,
    source: Source,
    record: Option<(Extent, Content)>,
}

/// A part on its way home.
#[derive(Debug)]
struct UnderWay {
    rest: vec::IntoIter<(Stamp, Source)>,
    asked: VecDeque<Asked>,
    /// Copies that were given to home, and not taken there.
    given: usize,
    through: Stamp,
    is_ended: bool,
}

/// A take-over.
#[derive(Debug)]
pub struct TakeOver {
    config: TakeOverConfig,
    registration: Registration,
    phase: Phase,
    /// The entry that the claim is a change of: whose the volume was.
    before: Registered,
    /// The epoch that is taken over to, once it is claimed, and before that the one it is taken from.
    epoch: Epoch,
    /// Since when the owner's last sign of life is known.
    seen_at: Time,
    mark: Stamp,
    holders: Vec<Holder>,
    lists: Lists,
    /// Whether they are not enough, whatever they have: nobody else counted copies.
    lacks_owner: bool,
    /// Copies that were asked for, and are none.
    damaged: BTreeSet<(Stamp, Source)>,
    /// The own log, and the epoch that it is of.
    own: Option<(Epoch, Vec<Entry>)>,
    parts: vec::IntoIter<Part>,
    under_way: Option<UnderWay>,
    retry_at: Option<Time>,
    /// When lists that are missing are spoken of.
    say_at: Option<Time>,
    accepts_loss: bool,
    /// The holders whose sessions ended in the middle of their lists when loss was accepted, and that were waited for once more.
    spared: BTreeSet<PartitionId>,
    effects: VecDeque<TakeOverEffect>,
}

impl TakeOver {
    /// A take-over of a volume that stands in the registry as it was just heard.
    pub fn new(now: Time, config: TakeOverConfig, view: View) -> Self {
        let (epoch, before) = (view.entry.epoch, view.entry.clone());
        let mut it = Self {
            config,
            registration: Registration::new(view, config.broken),
            phase: Phase::Watch,
            before,
            epoch,
            seen_at: now,
            mark: Stamp::ZERO,
            holders: Vec::new(),
            lists: Lists::default(),
            lacks_owner: false,
            damaged: BTreeSet::new(),
            own: None,
            parts: Vec::new().into_iter(),
            under_way: None,
            retry_at: None,
            say_at: None,
            accepts_loss: false,
            spared: BTreeSet::new(),
            effects: VecDeque::new(),
        };
        it.watch(now);
        it
    }

    /// The host was the owner itself under an epoch, and has the whole log of it: these writes are not home as far as it
    /// knows.
    #[must_use]
    pub fn with_own_log(mut self, epoch: Epoch, entries: Vec<Entry>) -> Self {
        self.own = Some((epoch, entries));
        self
    }

    /// The epoch that it claims, or has claimed.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether it has done nothing yet, as the volume has an owner.
    pub fn is_watching(&self) -> bool {
        self.phase == Phase::Watch
    }

    /// Whether nothing more comes of it.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Lists that cannot be had are not waited for, unless they have to be read anew.
    pub fn accept_loss(&mut self, now: Time) {
        self.accepts_loss = true;
        self.go_on(now);
    }

    /// The entry of the registry is known to stand so.
    pub fn hear_registry(&mut self, now: Time, view: View) {
        let before = self.registration.entry().clone();
        self.registration.hear(view);
        let entry = self.registration.entry();
        if self.phase > Phase::Claim && entry.epoch > self.epoch {
            let epoch = entry.epoch;
            return self.lose(epoch);
        }
        if self.phase == Phase::Watch && *entry != before {
            self.seen_at = now;
        }
        self.go_on(now);
    }

    /// The answer to [`TakeOverEffect::Change`]: see [`Owner::changed`](crate::Owner::changed).
    pub fn changed(&mut self, now: Time, outcome: Result<View, Option<View>>) {
        match outcome {
            Ok(view) => {
                let made = view.clone();
                self.registration.made(now, view);
                // Others may have gone on since, and that was heard first.
                if self.phase == Phase::Claim {
                    self.epoch = made.entry.epoch;
                }
                let epoch = self.registration.entry().epoch;
                match self.phase {
                    _ if epoch > self.epoch => return self.lose(epoch),
                    Phase::Claim => self.fence_home(),
                    Phase::Finish if !made.entry.is_taking => return self.over(TakeOverEffect::Done(made)),
                    _ => {}
                }
            }
            Err(view) => {
                self.registration.not_made(now, view);
                let epoch = self.registration.entry().epoch;
                if self.phase > Phase::Claim && epoch > self.epoch {
                    return self.lose(epoch);
                }
                // Also in the middle of watching: the answer to a claim may come when that was given up.
                if matches!(self.phase, Phase::Watch | Phase::Claim) {
                    (self.phase, self.seen_at, self.epoch) = (Phase::Watch, now, epoch);
                }
            }
        }
        self.go_on(now);
    }

    /// Home refuses older epochs now, and has everything up to its mark.
    pub fn home_fenced(&mut self, now: Time, mark: Stamp) {
        if self.phase == Phase::Fence {
            self.mark = mark;
            self.list(now);
        }
    }

    /// Home has taken so many more writes of the write-back under way: there is room for others on their way.
    pub fn home_took(&mut self, now: Time, writes: usize) {
        if let Some(under_way) = &mut self.under_way {
            under_way.given = under_way.given.saturating_sub(writes);
            self.go_on(now);
        }
    }

    /// Home could not be reached, or not written: it is tried again after a while.
    pub fn home_failed(&mut self, now: Time) {
        if matches!(self.phase, Phase::Fence | Phase::WriteHome) {
            self.retry_at = Some(now + self.config.retry);
        }
    }

    /// Home has refused, as a newer epoch has begun.
    pub fn home_ended(&mut self, epoch: Epoch) {
        if epoch > self.epoch && matches!(self.phase, Phase::Fence | Phase::WriteHome) {
            self.lose(epoch);
        }
    }

    /// Home has everything up to here.
    pub fn home_durable(&mut self, now: Time, through: Stamp) {
        if self.phase != Phase::WriteHome || self.under_way.as_ref().is_none_or(|it| it.through != through) {
            return;
        }
        (self.mark, self.under_way) = (through, None);
        if through == Stamp::begin(self.epoch) {
            self.phase = Phase::Finish;
            for partition in self.up() {
                self.send(now, partition, Free { through });
            }
        }
        self.go_on(now);
    }

    /// There is a session with a holder.
    pub fn connected(&mut self, now: Time, partition: PartitionId) {
        let Some(holder) = self.holders.iter_mut().find(|it| it.partition == partition) else { return };
        holder.is_up = true;
        // It may have been mended.
        let of_it = |it: &&(Stamp, Source)| it.1 == Source::Holder(partition);
        if self.phase == Phase::List && self.damaged.iter().any(|it| of_it(&it)) {
            self.damaged.retain(|it| !of_it(&it));
            (holder.listed, holder.is_listed) = (self.mark, false);
        }
        if !holder.is_listed {
            self.ask_list(now, partition);
        }
    }

    /// There is none any more, or none could be had.
    pub fn disconnected(&mut self, now: Time, partition: PartitionId) {
        let Some(holder) = self.holders.iter_mut().find(|it| it.partition == partition) else { return };
        holder.waits_since = None;
        let is_cut_off = mem::replace(&mut holder.is_up, false) && !holder.is_listed && self.accepts_loss;
        if self.phase == Phase::List && is_cut_off && self.spared.insert(partition) {
            (self.accepts_loss, self.say_at) = (false, Some(now + self.config.silence));
        }
        if self.phase == Phase::WriteHome {
            let of_it = |it: &Asked| it.source == Source::Holder(partition) && it.record.is_none();
            let is_needed = self.under_way.as_ref().is_some_and(|it| it.asked.iter().any(of_it));
            // Others may have what is to be asked of it.
            if is_needed {
                return self.list_again();
            }
        }
        self.go_on(now);
    }

    /// A holder has said something.
    pub fn heard(&mut self, now: Time, partition: PartitionId, message: FromHolder) {
        let Some(holder) = self.holders.iter_mut().find(|it| it.partition == partition) else { return };
        holder.waits_since = None;
        match message {
            FromHolder::Listed(listed) => self.listed(now, partition, &listed),
            FromHolder::Kept(kept) => self.kept(now, Source::Holder(partition), kept),
            FromHolder::Refused(refused) if refused.epoch > self.epoch && self.phase > Phase::Claim => {
                self.lose(refused.epoch);
            }
            _ => {}
        }
        self.go_on(now);
    }

    /// A copy that was asked for has come, or is not there any more.
    pub fn kept(&mut self, now: Time, source: Source, kept: Kept) {
        let Kept { stamp, record } = kept;
        let Some(under_way) = &mut self.under_way else { return };
        let is_it = |it: &&mut Asked| it.stamp == stamp && it.source == source && it.record.is_none();
        let Some(asked) = under_way.asked.iter_mut().find(is_it) else { return };
        if record.is_none() {
            // Others may have a good one. The rest of this part comes meanwhile.
            self.damaged.insert((stamp, source));
            self.retry_at.get_or_insert(now + self.config.retry);
            return;
        }
        asked.record = record;
        self.go_on(now);
    }

    /// Its next effect.
    pub fn poll_effect(&mut self) -> Option<TakeOverEffect> {
        self.effects.pop_front()
    }

    /// When [`TakeOver::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let pulse = || self.registration.pulse_at();
        let silent = self.holders.iter().filter_map(|it| it.waits_since).map(|since| since + self.config.silence);
        match self.phase {
            Phase::Watch if self.registration.entry().owner.is_none() => pulse(),
            Phase::Watch => Some(self.free_at()),
            Phase::Over => None,
            Phase::List => self.say_at.into_iter().chain(pulse()).chain(silent).min(),
            _ => self.retry_at.into_iter().chain(pulse()).chain(silent).min(),
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        let silence = self.config.silence;
        let is_silent = |it: &&Holder| it.waits_since.is_some_and(|since| now >= since + silence);
        let silent: Vec<_> = self.holders.iter().filter(is_silent).map(|it| it.partition).collect();
        for partition in silent {
            self.effects.push_back(TakeOverEffect::Reconnect(partition, GoodbyeReason::Silent));
            self.disconnected(now, partition);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            match self.phase {
                Phase::Fence => self.effects.push_back(TakeOverEffect::FenceHome(self.epoch)),
                Phase::WriteHome => self.list_again(),
                _ => {}
            }
        }
        self.go_on(now);
    }

    /// The holders with which there is a session.
    fn up(&self) -> Vec<PartitionId> {
        self.holders.iter().filter(|it| it.is_up).map(|it| it.partition).collect()
    }

    /// When the owner's lease is over, if nothing more is heard of it.
    fn free_at(&self) -> Time {
        self.seen_at + wait_for_lease(self.registration.entry().lease, self.config.broken)
    }

    fn watch(&mut self, now: Time) {
        let is_own = self.registration.entry().owner == Some(self.config.host);
        let is_free = self.registration.entry().owner.is_none() || is_own || now >= self.free_at();
        if !is_free || !self.registration.may_change(now) {
            return;
        }
        if self.config.broken.is(Rule::EpochFirst) && self.phase == Phase::Watch && self.holders.is_empty() {
            self.phase = Phase::List;
            return self.list(now);
        }
        self.claim(now);
    }

    fn claim(&mut self, now: Time) {
        self.phase = Phase::Claim;
        self.before = self.registration.entry().clone();
        let host = self.config.host;
        let change = self.registration.change(now, |entry| {
            entry.epoch = entry.epoch.next();
            entry.owner = Some(host);
            entry.is_taking = true;
        });
        self.effects.extend(change.map(TakeOverEffect::Change));
    }

    fn fence_home(&mut self) {
        self.phase = Phase::Fence;
        self.effects.push_back(TakeOverEffect::FenceHome(self.epoch));
    }

    /// Asks all holders that stand in the registry for their lists.
    fn list(&mut self, now: Time) {
        if self.config.broken.is(Rule::EpochFirst) && self.phase == Phase::Fence && !self.holders.is_empty() {
            return self.write_home(now);
        }
        self.phase = Phase::List;
        self.lists = Lists::default();
        self.accepts_loss = false;
        self.spared.clear();
        self.say_at = Some(now + self.config.silence);
        let after = if self.config.broken.is(Rule::PassHome) { Stamp::ZERO } else { self.mark };
        let connected = self.up();
        let holder = |&partition: &PartitionId| Holder {
            partition,
            is_up: connected.contains(&partition),
            listed: after,
            is_listed: false,
            is_lost: false,
            waits_since: None,
        };
        self.holders = self.registration.entry().holders.iter().map(holder).collect();
        let (is_home, own) = (self.is_home(), self.own.as_ref().filter(|(epoch, _)| *epoch == self.mark.epoch));
        let is_behind = |it: &(Stamp, Source)| it.1 == Source::Own && it.0 > self.mark;
        let has_own = own.is_some() && !self.damaged.iter().any(is_behind);
        if let Some((_, own)) = own {
            self.lists.add(Source::Own, own, &self.damaged);
        }
        self.lacks_owner = !is_home && !has_own && (own.is_some() || self.had_other_owner()) && self.before.copies < 2;
        if is_home || has_own {
            self.holders.clear();
        }
        for at in 0..self.holders.len() {
            let Holder { partition, is_up, .. } = self.holders[at];
            if is_up {
                self.ask_list(now, partition);
            } else {
                self.effects.push_back(TakeOverEffect::Connect(partition));
            }
        }
        self.go_on(now);
    }

    /// Whether the host before was taking over, too, and had all at home: it wrote nothing, as it did not come to say so.
    fn is_home(&self) -> bool {
        self.before.is_taking && self.mark == Stamp::begin(self.before.epoch)
    }

    /// Whether another host may have had the volume, and has not detached it. Home hears of the epoch of each one that has.
    fn had_other_owner(&self) -> bool {
        let Registered { owner, is_taking, .. } = self.before;
        self.mark.epoch > Epoch(0) && owner.is_some_and(|owner| owner != self.config.host || is_taking)
    }

    /// The lists are read anew, from home's mark on, which home is asked for: it may have gone on by itself.
    fn list_again(&mut self) {
        if self.under_way.take().is_some() {
            self.effects.push_back(TakeOverEffect::Abort);
        }
        self.retry_at = None;
        self.fence_home();
    }

    fn ask_list(&mut self, now: Time, partition: PartitionId) {
        let Some(holder) = self.holders.iter().find(|it| it.partition == partition) else { return };
        let list = List { volume: self.config.volume, epoch: self.epoch, after: holder.listed };
        self.send(now, partition, list);
    }

    fn listed(&mut self, now: Time, partition: PartitionId, listed: &Listed) {
        let Some(holder) = self.holders.iter_mut().find(|it| it.partition == partition) else { return };
        let is_same = listed.partition == partition || self.config.broken.is(Rule::SamePartition);
        // One that lost its device and comes back empty stands in the registry no more than any other.
        holder.is_lost = !is_same;
        let is_next = listed.copies.first().is_none_or(|it| it.stamp > holder.listed);
        if self.phase != Phase::List || holder.is_listed || !is_same || !is_next {
            return;
        }
        if !self.lists.add(Source::Holder(partition), &listed.copies, &self.damaged) {
            return;
        }
        holder.listed = listed.copies.last().map_or(holder.listed, |it| it.stamp);
        holder.is_listed = listed.is_last || listed.copies.is_empty();
        if !holder.is_listed {
            self.ask_list(now, partition);
        }
    }

    /// The lists that are missing, if they are too many. One with a damaged copy that no other has a good one for is none.
    fn missing(&self) -> Option<Vec<PartitionId>> {
        let is_missing = |it: &&Holder| !it.is_listed || self.has_lost(it.partition);
        let missing = self.holders.iter().filter(is_missing).map(|it| it.partition).collect::<Vec<_>>();
        let without = usize::from(self.registration.entry().copies).saturating_sub(2);
        let without = without + usize::from(self.config.broken.is(Rule::EnoughLists));
        (missing.len() > without || self.lacks_owner).then_some(missing)
    }

    /// Whether a holder has a damaged copy of what no list has.
    fn has_lost(&self, partition: PartitionId) -> bool {
        let is_lost = |stamp| stamp > self.mark && !self.lists.has(stamp);
        self.damaged.iter().any(|&(stamp, source)| source == Source::Holder(partition) && is_lost(stamp))
    }

    /// Does what can be done next.
    fn go_on(&mut self, now: Time) {
        match self.phase {
            Phase::Watch => self.watch(now),
            Phase::List => {
                let is_had = |it: &Holder| it.is_listed || it.is_lost || !it.is_up;
                match self.missing() {
                    Some(_) if self.accepts_loss && self.holders.iter().all(is_had) => self.write_home(now),
                    Some(missing) if self.say_at.take_if(|at| *at <= now).is_some() => {
                        self.effects.push_back(TakeOverEffect::Missing(missing));
                    }
                    Some(_) => {}
                    None => self.write_home(now),
                }
            }
            Phase::WriteHome => self.next_part(now),
            Phase::Finish => self.finish(now),
            Phase::Claim | Phase::Fence | Phase::Over => {}
        }
        let is_due = self.registration.pulse_at().is_some_and(|at| at <= now);
        if is_due && matches!(self.phase, Phase::Fence | Phase::List | Phase::WriteHome) {
            let change = self.registration.change(now, |_| {});
            self.effects.extend(change.map(TakeOverEffect::Change));
        }
    }

    fn write_home(&mut self, now: Time) {
        if self.config.broken.is(Rule::EpochFirst) && self.phase == Phase::List {
            return self.claim(now);
        }
        self.phase = Phase::WriteHome;
        let TakeOverConfig { join_bytes, broken, .. } = self.config;
        let join_bytes = if broken.is(Rule::FlushOrder) { u64::MAX } else { join_bytes };
        self.parts = self.lists.plan(self.mark, join_bytes, broken).into_iter();
        self.next_part(now);
    }

    /// Has the next copies read and written home.
    fn next_part(&mut self, now: Time) {
        if self.retry_at.is_some() {
            return;
        }
        if self.under_way.is_none() {
            let end = Part { copies: Vec::new(), through: Stamp::begin(self.epoch), is_joined: false };
            let Part { copies, through, is_joined } = self.parts.next().unwrap_or(end);
            let is_joined = is_joined && !self.config.broken.is(Rule::FlushOrder);
            self.effects.push_back(TakeOverEffect::Begin(through, is_joined));
            let rest = copies.into_iter();
            self.under_way = Some(UnderWay { rest, asked: VecDeque::new(), given: 0, through, is_ended: false });
        }
        let mut fetches = Vec::new();
        let Some(under_way) = &mut self.under_way else { return };
        while under_way.asked.front().is_some_and(|it| it.record.is_some()) {
            let Some(Asked { stamp, record: Some((extent, content)), .. }) = under_way.asked.pop_front() else { break };
            self.effects.push_back(TakeOverEffect::Write(Record { stamp, extent, content }));
            under_way.given += 1;
        }
        while under_way.asked.len() + under_way.given < self.config.window {
            let Some((stamp, source)) = under_way.rest.next() else { break };
            under_way.asked.push_back(Asked { stamp, source, record: None });
            fetches.push((stamp, source));
        }
        let has_more = !under_way.asked.is_empty() || !under_way.rest.as_slice().is_empty();
        if !has_more && !mem::replace(&mut under_way.is_ended, true) {
            self.effects.push_back(TakeOverEffect::End(under_way.through));
        }
        // Of one that was lost since it was listed, others may have it.
        let is_lost = |it: &Holder, source| source == Source::Holder(it.partition) && !it.is_up;
        if fetches.iter().any(|&(_, source)| self.holders.iter().any(|it| is_lost(it, source))) {
            return self.list_again();
        }
        for (stamp, source) in fetches {
            match source {
                Source::Own => self.effects.push_back(TakeOverEffect::ReadOwn(stamp)),
                Source::Holder(partition) => self.send(now, partition, Fetch { stamp }),
            }
        }
    }

    fn finish(&mut self, now: Time) {
        let TakeOverConfig { host, keeps, .. } = self.config;
        let change = self.registration.change(now, |entry| {
            entry.owner = keeps.then_some(host);
            entry.is_taking = false;
            entry.holders.clear();
        });
        self.effects.extend(change.map(TakeOverEffect::Change));
    }

    fn send(&mut self, now: Time, partition: PartitionId, message: impl Into<ToHolder>) {
        if let Some(holder) = self.holders.iter_mut().find(|it| it.partition == partition) {
            holder.waits_since.get_or_insert(now);
        }
        self.effects.push_back(TakeOverEffect::Send(partition, message.into()));
    }

    fn lose(&mut self, epoch: Epoch) {
        self.over(TakeOverEffect::Lost(epoch));
    }

    fn over(&mut self, last: TakeOverEffect) {
        self.phase = Phase::Over;
        self.effects.extend(self.holders.iter().map(|it| TakeOverEffect::Disconnect(it.partition)));
        self.effects.push_back(last);
    }
}
