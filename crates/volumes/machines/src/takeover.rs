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
//! 1. It begins when it has seen the owner's last heartbeat for longer than that one's lease (**WaitOwnerLease**), or
//!    when nobody has the volume. Its change of the registry expects what it has seen: of two hosts one is refused. A
//!    host that was the owner itself need not wait if the process that had the volume is known to be dead
//!    (**OwnerKnownDead**), and if it is that one's attachment (**NumberAttachments**): a copy of its cache may be
//!    attached elsewhere.
//! 2. The epoch moves in the registry, then at home, then at each holder whose list is read (**EpochFirst**).
//! 3. The lists of all but W - 2 of the holders that are in the registry are enough, since the owner's own copy was
//!    one of the W (**EnoughLists**). Fewer are if the operator accepts what may be lost. The own log of a host that
//!    takes over from itself is one list more, if home's mark is of the epoch that it is of: its device may have lost
//!    the end of it (**OwnLogIsAList**). A list that lacks acknowledged writes does not count (**WholeList**). None is
//!    needed when an earlier takeover had all at home and did not come to say so. With W = 1 no list of a holder is
//!    enough: the log of the owner before has the only copy.
//! 4. The copies behind home's mark go home in the order of their flushes, under the rules of any write-back. Those
//!    that the mark covers are left alone (**PassHome**): a holder that did not hear that it may free a copy has it
//!    still, and home has newer contents by now.
//! 5. A holder that is lost in the meantime has the lists read again, behind the mark. So has a copy that turns out to
//!    be damaged, after a while: another source is considered it, and if no list has one, the damaged one's list counts
//!    as missing. Loss is accepted for one reading of the lists: those that answer again are waited for again. A home
//!    that lacks what a holder was told to be there went back (**HomeHasFreed**): that is lost, and has to be accepted,
//!    too.
//! 6. A registry that was restored from an older copy names holders of before. Home tells: of a later epoch than the
//!    one that was claimed, or of a later revision than the claim was a change of (**RegistryOnward**). It is asked
//!    before the claim, too: the revisions that were lost are given again to changes made since, and do not tell any
//!    more. So does an answer of the registry itself. It ends then, and the entry should be made again.
//! 7. At last home's mark is the begin of the new epoch: no copy of an earlier one counts from then on.
//!
//! | file | what it is |
//! |---|---|
//! | `effect` | the settings, and what it wants done |
//! | `reading`, `holders` | the lists that are read, and the holders that are asked for them |
//! | `way` | copies on their way home |
//!
//! The copies of all lists, and which of them go home, are in [`crate::lists`].

mod effect;
mod holders;
mod reading;
mod way;

use crate::known_home::{HomeState, WentBack};
use crate::lists::{Part, Source};
use crate::messages::holder::{
    Entry, Epoch, Fetch, Free, FromHolder, Kept, List, Listed, PartitionId, Stamp, ToHolder,
};
use crate::registry::{AcceptedLoss, HostId, Registered, Registration, View, wait_for_lease};
use crate::rule::Rule;
use alloc::collections::VecDeque;
use alloc::vec::{self, Vec};
use core::mem;
use holders::Holder;
use reading::{Enough, Reading, Situation};
use types::{GoodbyeReason, Time};
use way::{Came, Way};

pub use effect::{Earlier, TakeOverConfig, TakeOverEffect};

/// A step of a takeover, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The owner may live.
    Watch,
    Claim,
    Fence,
    List,
    WriteHome,
    /// The registry is told that all is written back.
    Finish,
    Over,
}

/// A takeover.
#[derive(Debug)]
pub struct TakeOver {
    config: TakeOverConfig,
    registration: Registration,
    phase: Phase,
    /// The entry that the claim is a change of: whose the volume was, and its revision.
    before: Registered,
    before_revision: u64,
    earlier: Earlier,
    /// The epoch that is taken over to, once it is claimed, and before that the one it is taken from.
    epoch: Epoch,
    /// Since when the owner's last heartbeat is known.
    seen_at: Time,
    mark: Stamp,
    /// The last write that is home, or is brought there.
    last: Stamp,
    reading: Reading,
    parts: vec::IntoIter<Part>,
    under_way: Option<Way>,
    /// The copies of all parts, and those of them that home has taken.
    copies: usize,
    taken: usize,
    /// Home is asked for the revision of the entry that it keeps, and was found to keep a later one than the registry
    /// has.
    is_asking: bool,
    back_since: Option<Time>,
    retry_at: Option<Time>,
    effects: VecDeque<TakeOverEffect>,
}

impl TakeOver {
    /// A takeover of a volume that is in the registry as it was just heard.
    pub fn new(now: Time, config: TakeOverConfig, view: View) -> Self {
        let (epoch, before, before_revision) = (view.entry.epoch, view.entry.clone(), view.revision);
        let mut it = Self {
            config,
            registration: Registration::new(view, config.broken),
            phase: Phase::Watch,
            before,
            before_revision,
            earlier: Earlier::default(),
            epoch,
            seen_at: now,
            mark: Stamp::ZERO,
            last: Stamp::ZERO,
            reading: Reading::new(&config),
            parts: Vec::new().into_iter(),
            under_way: None,
            copies: 0,
            taken: 0,
            is_asking: false,
            back_since: None,
            retry_at: None,
            effects: VecDeque::new(),
        };
        it.watch(now);
        it
    }

    /// The host may have been the owner itself, by these attachments.
    #[must_use]
    pub fn with_earlier(mut self, now: Time, earlier: Earlier) -> Self {
        self.earlier = earlier;
        self.go_on(now);
        self
    }

    /// The host was the owner itself under an epoch, and this is what its log has of it: these writes are not written
    /// back as far as it knows.
    #[must_use]
    pub fn with_own_log(mut self, epoch: Epoch, entries: Vec<Entry>) -> Self {
        self.reading.own(epoch, entries);
        self
    }

    /// The epoch that it claims, or has claimed.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The entry that its claim was a change of.
    pub fn before(&self) -> &Registered {
        &self.before
    }

    /// Whether an owner is this host, or was, by a process that is known to be dead.
    pub fn succeeds(&self, owner: HostId) -> bool {
        let Earlier { hosts, are_dead } = &self.earlier;
        let broken = self.config.broken;
        let is_own = hosts.contains(&owner) || broken.is(Rule::NumberAttachments) && *are_dead;
        owner == self.config.host || is_own && (*are_dead || broken.is(Rule::OwnerKnownDead))
    }

    /// Whether the log of this host is one of the lists: it has what was not written back under the last epoch that
    /// home knows.
    pub fn has_own_log(&self) -> bool {
        self.reading.has_own
    }

    /// Whether this holder's list lacks writes that the holder had acknowledged (**WholeList**).
    pub fn lacks_acknowledged(&self, partition: PartitionId) -> bool {
        let Self { reading, .. } = self;
        reading.holders.iter().any(|it| it.partition == partition && reading.has_gone_back(it))
    }

    /// Whether it has done nothing yet, as the volume has an owner.
    pub fn is_watching(&self) -> bool {
        self.phase == Phase::Watch
    }

    /// How many copies home has taken, and of how many, while they go there: from the last reading of the lists on.
    pub fn progress(&self) -> Option<(usize, usize)> {
        (self.phase == Phase::WriteHome).then_some((self.taken.min(self.copies), self.copies))
    }

    /// Whether nothing more comes of it.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Lists that cannot be had are not waited for, unless they have to be read again.
    pub fn accept_loss(&mut self, now: Time) {
        self.reading.accept_loss();
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
        if self.has_gone_back() {
            return self.over(TakeOverEffect::RegistryBack);
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
                // Others may have continued since, and that was heard first.
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
                if self.has_gone_back() {
                    return self.over(TakeOverEffect::RegistryBack);
                }
                // Also in the middle of watching: the answer to a claim may come when that was given up.
                if matches!(self.phase, Phase::Watch | Phase::Claim) {
                    (self.phase, self.seen_at, self.epoch) = (Phase::Watch, now, epoch);
                }
            }
        }
        self.go_on(now);
    }

    /// Home has kept the registry's entry of this revision: the answer to [`TakeOverEffect::AskHome`], and, of a home
    /// that refuses older epochs now, told before [`TakeOver::home_fenced`].
    pub fn home_keeps(&mut self, now: Time, revision: u64) {
        match self.phase {
            Phase::Watch if mem::take(&mut self.is_asking) => self.hear_kept(now, revision),
            Phase::Fence if revision > self.before_revision && !self.config.broken.is(Rule::RegistryOnward) => {
                self.over(TakeOverEffect::RegistryBack);
            }
            _ => {}
        }
    }

    /// Claims the volume if home knows of no later entry than the registry. The registry's word may come late: it is
    /// waited for.
    fn hear_kept(&mut self, now: Time, revision: u64) {
        if revision <= self.registration.revision() {
            self.back_since = None;
            if self.may_claim(now) {
                self.claim(now);
            }
            return;
        }
        let since = *self.back_since.get_or_insert(now);
        if now >= since + self.config.silence {
            return self.over(TakeOverEffect::RegistryBack);
        }
        self.retry_at = Some(now + self.config.retry);
    }

    /// Home refuses older epochs now, and has everything up to its mark.
    pub fn home_fenced(&mut self, now: Time, mark: Stamp) {
        if self.phase == Phase::Fence {
            (self.mark, self.last) = (mark, mark.max(self.last));
            self.list(now);
        }
    }

    /// Home has taken so many more writes of the write-back under way: there is room for others on their way.
    pub fn home_took(&mut self, now: Time, writes: usize) {
        if let Some(under_way) = &mut self.under_way {
            under_way.took(writes);
            self.taken += writes;
            self.go_on(now);
        }
    }

    /// Home could not be reached, or not written: it is tried again after a while.
    pub fn home_failed(&mut self, now: Time) {
        if matches!(self.phase, Phase::Fence | Phase::WriteHome) || mem::take(&mut self.is_asking) {
            self.retry_at = Some(now + self.config.retry);
        }
    }

    /// Home has refused, as a newer epoch has begun.
    pub fn home_ended(&mut self, epoch: Epoch) {
        // Under the same one it is another host's: both have it from a registry that was restored from an older copy in
        // between.
        let is_others = epoch > self.epoch || epoch == self.epoch && self.phase == Phase::Fence;
        if is_others && matches!(self.phase, Phase::Fence | Phase::WriteHome) {
            self.lose(epoch);
        }
    }

    /// Whether the registry is known to were restored from older copies.
    fn has_gone_back(&self) -> bool {
        let is_before_claim = self.phase > Phase::Claim && self.registration.entry().epoch < self.epoch;
        self.phase != Phase::Over && (is_before_claim || self.registration.back().is_some())
    }

    /// Home has everything up to here.
    pub fn home_durable(&mut self, now: Time, through: Stamp) {
        if self.phase != Phase::WriteHome || self.under_way.as_ref().is_none_or(|it| it.through() != through) {
            return;
        }
        (self.mark, self.under_way) = (through, None);
        if through == Stamp::begin(self.epoch) {
            self.phase = Phase::Finish;
            for partition in self.reading.holders.up() {
                self.send(now, partition, Free { through });
            }
        }
        self.go_on(now);
    }

    /// There is a session with a holder.
    pub fn connected(&mut self, now: Time, partition: PartitionId) {
        let Some(holder) = self.reading.holders.find(partition) else { return };
        holder.is_up = true;
        if self.phase == Phase::List {
            self.reading.mend(partition, self.mark);
        }
        if self.reading.holders.find(partition).is_some_and(|it| !it.is_listed) {
            self.ask_list(now, partition);
        }
    }

    /// There is none any more, or none could be had.
    pub fn disconnected(&mut self, now: Time, partition: PartitionId) {
        let Some(holder) = self.reading.holders.find(partition) else { return };
        holder.answered();
        let is_cut_off = mem::replace(&mut holder.is_up, false) && !holder.is_listed;
        if self.phase == Phase::List && is_cut_off {
            self.reading.spare(now, partition);
        }
        if self.phase == Phase::WriteHome {
            let is_needed = self.under_way.as_ref().is_some_and(|it| it.awaits(Source::Holder(partition)));
            // Others may have what should be asked of it.
            if is_needed {
                return self.list_again();
            }
        }
        self.go_on(now);
    }

    /// A holder has said something.
    pub fn heard(&mut self, now: Time, partition: PartitionId, message: FromHolder) {
        let Some(holder) = self.reading.holders.find(partition) else { return };
        holder.answered();
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

    /// A copy that was asked for has come, or is no longer there.
    pub fn kept(&mut self, now: Time, source: Source, kept: Kept) {
        let (stamp, under_way) = (kept.stamp, self.under_way.as_mut());
        match under_way.map_or(Came::Nothing, |it| it.kept(source, kept)) {
            Came::Copy => self.go_on(now),
            Came::Damage => {
                // Others may have a good one. The rest of this part comes in the meantime.
                self.reading.damaged(stamp, source);
                self.retry_at.get_or_insert(now + self.config.retry);
            }
            Came::Nothing => {}
        }
    }

    /// Its next effect.
    pub fn poll_effect(&mut self) -> Option<TakeOverEffect> {
        self.effects.pop_front()
    }

    /// When [`TakeOver::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let heartbeat = || self.registration.heartbeat_at();
        let silent = self.reading.holders.silent_at(self.config.silence);
        match self.phase {
            Phase::Watch if self.is_asking => None,
            Phase::Watch if self.retry_at.is_some() => self.retry_at,
            Phase::Watch if self.is_free() => heartbeat(),
            Phase::Watch => heartbeat().map(|at| at.max(self.free_at())),
            Phase::Over => None,
            Phase::List => self.reading.say_at.into_iter().chain(heartbeat()).chain(silent).min(),
            _ => self.retry_at.into_iter().chain(heartbeat()).chain(silent).min(),
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        for partition in self.reading.holders.silent(now, self.config.silence) {
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

    /// When the owner's lease is over, if nothing more is learned of it.
    fn free_at(&self) -> Time {
        self.seen_at + wait_for_lease(self.registration.entry().lease, self.config.broken)
    }

    /// Whether nobody is waited for, whose lease it might be. One that was taking the volume over when the entry was
    /// made again may not have waited for the owner before, which nobody knows any more.
    fn is_free(&self) -> bool {
        let entry = self.registration.entry();
        let is_unclear = entry.is_rebuilt && entry.is_taking;
        entry.owner.is_none_or(|owner| self.succeeds(owner) && !is_unclear)
    }

    fn may_claim(&self, now: Time) -> bool {
        (self.is_free() || now >= self.free_at()) && self.registration.may_change(now)
    }

    fn watch(&mut self, now: Time) {
        if !self.may_claim(now) || self.is_asking || self.retry_at.is_some() {
            return;
        }
        if self.config.broken.is(Rule::EpochFirst) && self.phase == Phase::Watch && self.reading.holders.is_empty() {
            self.phase = Phase::List;
            return self.list(now);
        }
        if self.config.broken.is(Rule::RegistryOnward) {
            return self.claim(now);
        }
        self.is_asking = true;
        self.effects.push_back(TakeOverEffect::AskHome);
    }

    fn claim(&mut self, now: Time) {
        self.phase = Phase::Claim;
        (self.before, self.before_revision) = (self.registration.entry().clone(), self.registration.revision());
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

    /// Asks all holders that are in the registry for their lists.
    fn list(&mut self, now: Time) {
        if self.config.broken.is(Rule::EpochFirst) && self.phase == Phase::Fence && !self.reading.holders.is_empty() {
            return self.write_home(now);
        }
        self.phase = Phase::List;
        let (mark, before) = (self.mark, &self.before);
        let is_own = |owner| owner == self.config.host || self.earlier.hosts.contains(&owner);
        let is_own = before.owner.is_some_and(is_own);
        let holders = &self.registration.entry().holders;
        self.reading.begin(now, Situation { mark, before, holders, is_own });
        let asked: Vec<_> = self.reading.holders.iter().map(|it| (it.partition, it.is_up)).collect();
        for (partition, is_up) in asked {
            if is_up {
                self.ask_list(now, partition);
            } else {
                self.effects.push_back(TakeOverEffect::Connect(partition));
            }
        }
        self.go_on(now);
    }

    /// The lists are read again, from home's mark on, which home is asked for: it may have continued by itself.
    fn list_again(&mut self) {
        if self.under_way.take().is_some() {
            self.effects.push_back(TakeOverEffect::Abort);
        }
        self.retry_at = None;
        self.fence_home();
    }

    fn ask_list(&mut self, now: Time, partition: PartitionId) {
        let Some(holder) = self.reading.holders.find(partition) else { return };
        let list = List { volume: self.config.volume, epoch: self.epoch, after: holder.listed };
        self.send(now, partition, list);
    }

    fn listed(&mut self, now: Time, partition: PartitionId, listed: &Listed) {
        let Some(holder) = self.reading.holders.find(partition) else { return };
        let is_same = listed.partition == partition || self.config.broken.is(Rule::SamePartition);
        // One that lost its device and comes back empty is in the registry no more than any other.
        holder.is_lost = !is_same;
        if self.phase == Phase::List && is_same && self.reading.add(partition, listed) {
            self.ask_list(now, partition);
        }
    }

    /// Does what can be done next.
    fn go_on(&mut self, now: Time) {
        match self.phase {
            Phase::Watch => self.watch(now),
            Phase::List => match self.reading.look(now, self.registration.entry().copies, self.mark) {
                Enough::Yes => self.write_home(now),
                Enough::Missing(missing) => self.effects.push_back(TakeOverEffect::Missing(missing)),
                Enough::Older(home) => {
                    let [known, found] = [home, self.mark].map(|mark| HomeState { generation: 0, mark });
                    self.effects.push_back(TakeOverEffect::HomeWentBack(WentBack { known, found }));
                }
                Enough::Wait => {}
            },
            Phase::WriteHome => self.next_part(now),
            Phase::Finish => self.finish(now),
            Phase::Claim | Phase::Fence | Phase::Over => {}
        }
        let is_due = self.registration.heartbeat_at().is_some_and(|at| at <= now);
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
        let parts = self.reading.plan(self.mark, join_bytes);
        self.last = parts.last().map_or(self.last, |part| part.through.max(self.last));
        (self.copies, self.taken) = (parts.iter().map(|it| it.copies.len()).sum(), 0);
        self.parts = parts.into_iter();
        self.next_part(now);
    }

    /// Has the next copies read and written home.
    fn next_part(&mut self, now: Time) {
        if self.retry_at.is_some() {
            return;
        }
        if self.under_way.is_none() {
            let end = Part { copies: Vec::new(), through: Stamp::begin(self.epoch), is_joined: false };
            let part = self.parts.next().unwrap_or(end);
            let is_joined = part.is_joined && !self.config.broken.is(Rule::FlushOrder);
            self.effects.push_back(TakeOverEffect::Begin(part.through, is_joined));
            self.under_way = Some(Way::new(part));
        }
        let Some(under_way) = &mut self.under_way else { return };
        while let Some(record) = under_way.next() {
            self.effects.push_back(TakeOverEffect::Write(record));
        }
        let fetches = under_way.ask(self.config.window);
        if under_way.end() {
            self.effects.push_back(TakeOverEffect::End(under_way.through()));
        }
        // Of one that was lost since it was listed, others may have it.
        let is_lost = |it: &Holder, source| source == Source::Holder(it.partition) && !it.is_up;
        if fetches.iter().any(|&(_, source)| self.reading.holders.iter().any(|it| is_lost(it, source))) {
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
        let written = if keeps { Stamp::begin(self.epoch) } else { self.last };
        let epoch = self.epoch;
        let accepted_loss = self.reading.given_up.clone().map(|lists| AcceptedLoss { epoch, lists });
        let change = self.registration.change(now, |entry| {
            entry.owner = keeps.then_some(host);
            entry.is_taking = false;
            entry.is_rebuilt = false;
            entry.written = written;
            entry.holders.clear();
            entry.acknowledged.clear();
            entry.accepted_loss = accepted_loss.or(entry.accepted_loss.take());
        });
        self.effects.extend(change.map(TakeOverEffect::Change));
    }

    fn send(&mut self, now: Time, partition: PartitionId, message: impl Into<ToHolder>) {
        if let Some(holder) = self.reading.holders.find(partition) {
            holder.ask(now);
        }
        self.effects.push_back(TakeOverEffect::Send(partition, message.into()));
    }

    fn lose(&mut self, epoch: Epoch) {
        self.over(TakeOverEffect::Lost(epoch));
    }

    fn over(&mut self, last: TakeOverEffect) {
        self.phase = Phase::Over;
        self.effects.extend(self.reading.holders.iter().map(|it| TakeOverEffect::Disconnect(it.partition)));
        self.effects.push_back(last);
    }
}
