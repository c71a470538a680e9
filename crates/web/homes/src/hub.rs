//! A hub: it orders the updates of an origin, and releases each when no home answers for what the update changes.
//!
//! ```text
//!   update --Mark to all--> waiting --all homes have, or answer no more--> released --visible--> (Unmark to all) gone
//! ```
//! 1. An update is released when each home has marked it or has no lease by this hub's clock (**ReleaseAfterAll**,
//!    **WaitForLease**), or has left (**LeaveWhenRevoked**). A home that joins in the meantime is one of them.
//! 2. It is unmarked when it is visible to all (**MarkUntilVisible**), as its updater says; or when the updater is gone
//!    and its lease over, within which its releases stand (**ReleaseWithinLease**).
//! 3. A home is told everything in one order, renewals of its lease among it (**RenewInOrder**); a lease is counted
//!    here from when it is said, and longer than at its holder (**AllowDrift**).
//! 4. A home that leaves marks unsaid for as long as a lease is not renewed: it would hold up all updates for good.
//! 5. Everything is marked while a source is away, from when its session has ended, or its lease is over, until it has
//!    come and has caught up (**StarWithoutSource**): what changes there in the meantime, nobody announces. The names
//!    of the sources are settings, so that a hub that begins again knows whom it waits for. An updater that has spoken
//!    for a source does not do so again when another one has got hold of the source since, as their numbers say
//!    (**FenceSources**).
//! 6. Where the source of this process gives a lease itself, as a store does, that of a home ends within it
//!    (**LeaseWithinSource**): the source waits so long for those who watch it, and no longer. Without one no home has
//!    any. The source is told to have given more behind all updates that were learned of before: a home with more has
//!    marked them. A hub that has had none for as long as a lease sends homes away: another one may have the source.
//! 7. A hub that begins again knows of no home, no mark and no release of the hub before it. It releases nothing until
//!    the leases that the other may have given are over (**HubWaits**), and keeps everything marked until what the
//!    other may have released is visible (**StarUntilVisible**).

mod homes;
mod lease;
mod sources;
mod updaters;

use crate::messages::hub::{
    CaughtUp, Dependency, FromHub, Leave, Mark, Marked, Released, Renew, SourceName, ToHub, Unmark, UpdateId, Visible,
};
use crate::rule::Rule;
use crate::tables::HUB;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use homes::{Holder, HolderId};
use lease::longer;
use machine::{Machine, Output, Parcel, Port, Waiter};
use sources::Sources;
use types::limits::{DEPENDENCIES_PER_UPDATE_MAX, MARKED_BYTES_MAX};
use types::{Broken, GoodbyeReason, Time};
use updaters::Updater;

/// The settings of a hub.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// How long a home answers for its table without having learned of its hub. A home that dies holds the updates of
    /// the origin up for as long. A source may be away for as long before everything is marked.
    pub lease: Duration,
    /// How long a release stands whose updater is not learned of: for as long the dependencies of an updater that has
    /// died stay marked.
    pub updater_lease: Duration,
    /// The longest lease that a hub before this one may have given to a home; `None` if there was none, as where all
    /// homes are in the hub's own process.
    pub succeeds: Option<Duration>,
    /// The sources that announce all of their changes before they are visible. No other updater speaks for a source.
    pub sources: Vec<SourceName>,
    /// Whether the source of this process gives a lease, within which those of homes end ([`Hub::source_lease`]).
    pub within_source: bool,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl Default for HubConfig {
    fn default() -> Self {
        let lease = Duration::from_secs(2);
        let (succeeds, sources) = (Some(lease), Vec::new());
        let (within_source, broken) = (false, Broken::NONE);
        Self { lease, updater_lease: Duration::from_secs(10), succeeds, sources, within_source, broken }
    }
}

/// A hub.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    /// Before this nothing is released.
    opens_at: Time,
    /// Where there is one, when the lease of the source of this process is over.
    source_until: Time,
    /// When it began.
    begun: Time,
    /// Homes that have asked for a lease while the source had given none, and when, by their clocks.
    owed: BTreeMap<HolderId, Time>,
    homes: BTreeMap<HolderId, Holder>,
    updaters: BTreeMap<u64, Updater>,
    sources: Sources,
    /// The other ends, as they have introduced themselves.
    peers: BTreeMap<Port, Peer>,
    updates: BTreeMap<UpdateId, UnderWay>,
    /// Those of them that are not released.
    waiting: BTreeSet<UpdateId>,
    /// The names of all of them, in bytes.
    marked_bytes: usize,
    /// When everything is unmarked that an earlier hub may have released.
    earlier: Option<(UpdateId, Time)>,
    last_update: UpdateId,
    last_holder: HolderId,
    released: u64,
    is_over: bool,
    /// When it was last looked what is due.
    checked_at: Time,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    Home(HolderId),
    Updater(u64),
}

#[derive(Debug)]
struct UnderWay {
    dependencies: Vec<Dependency>,
    by: By,
    begun: Time,
    /// The homes that have yet to mark it, as far as they had a lease when that was last looked at.
    awaited: BTreeSet<HolderId>,
}

/// The source of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The process of the hub: the application is woken.
    Here,
    /// An updater, and its number for it.
    Updater(u64, u64),
    /// The hub before this one.
    Earlier,
    /// Nobody, where a source is away.
    Nobody,
}

impl Hub {
    /// A hub that knows of nobody.
    pub fn new(config: HubConfig) -> Self {
        let (homes, updaters, peers, updates, waiting, outputs) = Default::default();
        let sources = Sources::new(&config.sources);
        Self {
            config,
            opens_at: Time::ZERO,
            source_until: Time::ZERO,
            begun: Time::ZERO,
            owed: BTreeMap::new(),
            homes,
            updaters,
            sources,
            peers,
            updates,
            waiting,
            marked_bytes: 0,
            earlier: None,
            last_update: UpdateId(0),
            last_holder: HolderId(0),
            released: 0,
            is_over: false,
            checked_at: Time::ZERO,
            outputs,
        }
    }

    /// An update of these dependencies is about to become visible: it may when it is released, of which a caller of
    /// [`Waiter`] `update.0` is told. More than an update may name are everything.
    pub fn update(&mut self, now: Time, dependencies: Vec<Dependency>) -> UpdateId {
        let update = self.next();
        self.begin(now, update, By::Here, dependencies);
        update
    }

    /// Whether an update is released. One that is no longer known has been.
    pub fn is_released(&self, update: UpdateId) -> bool {
        !self.waiting.contains(&update)
    }

    /// Returns the sources that are away or have not caught up. Until then nothing is stored.
    pub fn sources_away(&self) -> impl Iterator<Item = &SourceName> {
        self.sources.away()
    }

    /// Whether it has ended: nothing is released any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// An update of this process is visible to every new reader, or has not taken place.
    pub fn visible(&mut self, update: UpdateId) {
        self.unmark(update);
    }

    /// Everything is visible that the hub before this one may have released.
    pub fn caught_up(&mut self) {
        if let Some((update, _)) = self.earlier {
            self.unmark(update);
        }
    }

    /// The source of this process gives a lease until then, by this hub's clock. All updates are announced that were
    /// learned of before.
    pub fn source_lease(&mut self, now: Time, until: Time) {
        self.source_until = self.source_until.max(until);
        for (holder, asked) in mem::take(&mut self.owed) {
            self.lease_home(now, holder, asked);
        }
    }

    /// No home has a lease of an earlier hub: updates wait for those of this one alone.
    pub fn succeeds_nobody(&mut self, now: Time) {
        self.opens_at = self.opens_at.min(now);
        self.release_all(now);
    }

    fn next(&mut self) -> UpdateId {
        self.last_update.0 += 1;
        self.last_update
    }

    fn begin(&mut self, now: Time, update: UpdateId, by: By, mut dependencies: Vec<Dependency>) {
        let bytes = bytes_of(&dependencies);
        if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX || self.marked_bytes + bytes > MARKED_BYTES_MAX {
            dependencies = Vec::from([Dependency::ALL]);
        }
        self.marked_bytes += bytes_of(&dependencies);
        self.say_all(&Mark { update, dependencies: dependencies.clone() });
        let awaited = self.homes.iter().filter(|(_, home)| now < home.until).map(|(&holder, _)| holder).collect();
        self.updates.insert(update, UnderWay { dependencies, by, begun: now, awaited });
        self.waiting.insert(update);
        self.release(now, update);
    }

    /// Releases an update if nobody is awaited any more.
    fn release(&mut self, now: Time, update: UpdateId) {
        let Some(under_way) = self.updates.get(&update) else { return };
        let broken = self.config.broken;
        let is_due = now >= self.opens_at && under_way.awaited.is_empty() || broken.is(Rule::ReleaseAfterAll);
        if !is_due || !self.waiting.remove(&update) {
            return;
        }
        self.released += 1;
        match under_way.by {
            By::Here => self.outputs.push_back(Output::Wake(Waiter(update.0))),
            By::Updater(life, id) => {
                if let Some(port) = self.updaters.get(&life).and_then(|updater| updater.port) {
                    self.say(port, Released { id });
                }
            }
            By::Earlier | By::Nobody => {}
        }
        if broken.is(Rule::MarkUntilVisible) {
            self.unmark(update);
        }
    }

    /// Releases what nobody is awaited for any more, as leases are over.
    fn release_all(&mut self, now: Time) {
        for update in self.waiting.iter().copied().collect::<Vec<_>>() {
            let awaited = &mut self.updates.get_mut(&update).expect("one that waits is under way").awaited;
            // One whose lease is given again has learned of the mark before that.
            awaited.retain(|holder| self.homes.get(holder).is_some_and(|home| now < home.until));
            self.release(now, update);
        }
    }

    fn unmark(&mut self, update: UpdateId) {
        let Some(under_way) = self.updates.remove(&update) else { return };
        self.waiting.remove(&update);
        self.marked_bytes -= bytes_of(&under_way.dependencies);
        match under_way.by {
            By::Here | By::Nobody => {}
            By::Updater(life, id) => {
                self.updaters.get_mut(&life).and_then(|updater| updater.updates.remove(&id));
            }
            By::Earlier => self.earlier = None,
        }
        self.say_all(&Unmark { update });
    }

    fn say_all(&mut self, message: &(impl Into<FromHub> + Clone)) {
        for port in self.homes.values().filter_map(|home| home.port) {
            self.outputs.push_back(Output::Send(port, Parcel::new(message.clone().into()), None));
        }
    }

    fn say(&mut self, port: Port, message: impl Into<FromHub>) {
        self.outputs.push_back(Output::Send(port, Parcel::new(message.into()), None));
    }
}

fn bytes_of(dependencies: &[Dependency]) -> usize {
    dependencies.iter().map(|dependency| size_of::<Dependency>() + dependency.name().len()).sum()
}

impl Machine for Hub {
    fn start(&mut self, now: Time) {
        self.begun = now;
        for name in self.config.sources.clone() {
            self.mark_without(now, &name);
        }
        let Some(lease) = self.config.succeeds else { return };
        let broken = self.config.broken;
        if !broken.is(Rule::HubWaits) {
            self.opens_at = now + longer(lease, broken);
        }
        if !broken.is(Rule::StarUntilVisible) {
            let update = self.next();
            self.earlier = Some((update, now + longer(self.config.updater_lease, broken)));
            self.begin(now, update, By::Earlier, Vec::from([Dependency::ALL]));
        }
    }

    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, now: Time, port: Port) {
        match self.peers.remove(&port) {
            Some(Peer::Home(holder)) => {
                let Some(home) = self.homes.get_mut(&holder) else { return };
                home.port = None;
                if self.config.broken.is(Rule::WaitForLease) {
                    home.until = now;
                    self.release_all(now);
                }
            }
            Some(Peer::Updater(life)) => {
                if let Some(updater) = self.updaters.get_mut(&life) {
                    updater.port = None;
                }
                if let Some(name) = self.sources.of(life).cloned() {
                    self.mark_without(now, &name);
                }
            }
            None => {}
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        let Ok(message) = message.open() else { return };
        match (message, self.peers.get(&port).copied()) {
            (ToHub::Join(join), None) => self.join(now, port, join),
            (ToHub::Introduce(introduce), None) => self.introduce(now, port, introduce),
            (ToHub::Renew(Renew { asked }), Some(Peer::Home(holder))) => self.lease_home(now, holder, asked),
            (ToHub::Marked(Marked { update }), Some(Peer::Home(holder))) => {
                if let Some(under_way) = self.updates.get_mut(&update) {
                    under_way.awaited.remove(&holder);
                    self.release(now, update);
                }
            }
            (ToHub::Leave(Leave), Some(Peer::Home(holder))) => {
                self.peers.remove(&port);
                self.leave(now, holder);
            }
            (ToHub::Renew(Renew { asked }), Some(Peer::Updater(life))) => self.lease_updater(now, port, life, asked),
            (ToHub::Update(update), Some(Peer::Updater(life))) => self.updated(now, port, life, update),
            (ToHub::Visible(Visible { id }), Some(Peer::Updater(life))) => {
                let update = self.updaters.get(&life).and_then(|updater| updater.updates.get(&id)).copied();
                if let Some(update) = update {
                    self.unmark(update);
                }
            }
            (ToHub::CaughtUp(CaughtUp { fence }), Some(Peer::Updater(life))) => {
                self.source_caught_up(port, life, fence);
            }
            // A peer whose session this hub has ended may have said something before it learned of that.
            (ToHub::Goodbye(_), _) | (_, None) => {}
            (message, Some(_)) => {
                let text = format!("expected what belongs to how the session began, got {message:?}");
                self.outputs.push_back(Output::End(port, GoodbyeReason::Protocol, text));
            }
        }
    }

    /// Those that wait for a release find that there is none to be had.
    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs.clear();
        let here = self.updates.iter().filter(|(_, under_way)| under_way.by == By::Here);
        self.outputs.extend(here.map(|(update, _)| Output::Wake(Waiter(update.0))));
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let updaters = self.updaters.values().map(|updater| updater.until).min();
        let away = self.owed_apart().next().map(|_| self.without_source_at());
        let end = updaters.into_iter().chain(self.earlier.map(|(_, at)| at)).chain(away).min();
        if self.waiting.is_empty() {
            return end;
        }
        // The leases that were over when it was last looked hold nothing up.
        let leases = self.homes.values().map(|home| home.until).chain([self.opens_at]);
        leases.filter(|&at| at > self.checked_at).chain(end).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.checked_at = now;
        if let Some((update, _)) = self.earlier.filter(|&(_, at)| at <= now) {
            self.unmark(update);
        }
        self.let_updaters_go(now);
        self.send_away(now);
        self.release_all(now);
    }

    fn status(&self) -> Vec<machine::Table> {
        Vec::from([HUB.one([
            ("homes", self.homes.values().filter(|home| home.port.is_some()).count().into()),
            ("updaters", self.updaters.len().into()),
            ("sources_away", self.sources.away().count().into()),
            ("updates_under_way", self.updates.len().into()),
            ("updates_released", self.released.into()),
        ])])
    }
}
