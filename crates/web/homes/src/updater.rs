//! An updater: a process that makes updates visible, as the client of a hub elsewhere.
//!
//! ```text
//!   update --Update--> waiting --Released--> released --visible--> Visible, and forgotten
//!                         ^                     |
//!                         +-- the lease is over +
//! ```
//! 1. A release stands within the updater's lease from its hub: after that the hub may have unmarked the update, and
//!    its release is asked for again (**ReleaseWithinLease**). The lease counts like that of a home.
//! 2. An update under way is said again when a session was lost: a hub that knows it continues, and a new one marks it
//!    again, also if an earlier one had released it. One that is visible in the meantime is said again too, so that
//!    homes drop what they may have stored behind it.
//! 3. A source, which speaks for everything that changes in one place, says in each session that it has caught up, once
//!    it has and behind all updates that it has under way: until then everything is marked (**StarWithoutSource**). It
//!    gives the number that it has there (**FenceSources**), and says it again when it has got hold of the source
//!    again.
//! 4. The hub is notified of [`UPDATES_PER_UPDATER_MAX`] at a time; further ones wait.

use crate::messages::hub::{
    CaughtUp, Dependency, Fence, FromHub, Introduce, Lease, Released, Renew, SourceName, ToHub, Update, Visible,
};
use crate::rule::Rule;
use crate::tables::UPDATER;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use machine::{Machine, Output, Parcel, Port, Waiter};
use types::limits::{DEPENDENCIES_PER_UPDATE_MAX, UPDATES_PER_UPDATER_MAX};
use types::{Broken, GoodbyeReason, Time};

/// How long a hub may take to answer an updater that comes.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// An updater.
#[derive(Debug)]
pub struct Updater {
    life: u64,
    /// The source that it speaks for, and its number there since that has caught up.
    source: Option<SourceName>,
    fence: Fence,
    last: u64,
    under_way: BTreeMap<u64, UnderWay>,
    /// Those that the hub was notified of in this session, and the last of them.
    announced: usize,
    announced_through: u64,
    /// When releases stand no more.
    lease: Time,
    link: Link,
    is_over: bool,
    outputs: VecDeque<Output>,
    broken: Broken<Rule>,
}

#[derive(Debug)]
struct UnderWay {
    dependencies: Vec<Dependency>,
    /// The hub of this session has said so, or that of the last one while there is none.
    is_released: bool,
    /// Some hub has.
    was_released: bool,
    /// Its updater has said so when there was no session to say it on.
    is_visible: bool,
}

/// The session with the hub.
#[derive(Debug, Default)]
struct Link {
    is_up: bool,
    /// The number with which the hub has been told that the source has caught up.
    told: Fence,
    renew_at: Option<Time>,
    silent_at: Option<Time>,
}

impl Updater {
    /// An updater in this life, whose number is drawn at random: two lives have different ones.
    pub fn new(life: u64) -> Self {
        Self::without(life, None, Broken::NONE)
    }

    /// One that speaks for a source: it announces everything that changes there.
    pub fn of_source(life: u64, source: SourceName) -> Self {
        Self::without(life, Some(source), Broken::NONE)
    }

    /// Either without a rule.
    pub fn without(life: u64, source: Option<SourceName>, broken: Broken<Rule>) -> Self {
        let (under_way, link, outputs) = Default::default();
        Self {
            life,
            source,
            fence: Fence::NONE,
            last: 0,
            under_way,
            announced: 0,
            announced_through: 0,
            lease: Time::ZERO,
            link,
            is_over: false,
            outputs,
            broken,
        }
    }

    /// An update of these dependencies is about to become visible; gives the updater's number for it. It may when it is
    /// released, of which a caller under that number ([`Waiter`]) is told. More than an update may name are everything.
    pub fn update(&mut self, mut dependencies: Vec<Dependency>) -> u64 {
        if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX {
            dependencies = Vec::from([Dependency::ALL]);
        }
        self.last += 1;
        let under_way = UnderWay { dependencies, is_released: false, was_released: false, is_visible: false };
        self.under_way.insert(self.last, under_way);
        self.announce();
        self.last
    }

    /// Whether an update may become visible at this moment.
    pub fn is_released(&self, now: Time, id: u64) -> bool {
        let is_leased = now < self.lease || self.broken.is(Rule::ReleaseWithinLease);
        is_leased && self.under_way.get(&id).is_some_and(|under_way| under_way.is_released)
    }

    /// Whether nothing should be had of a hub any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// An update is visible to every new reader, or does not take place.
    pub fn visible(&mut self, id: u64) {
        let Some(under_way) = self.under_way.get_mut(&id) else { return };
        let is_announced = self.link.is_up && id <= self.announced_through;
        // One that was never released is not to take place, and needs no word of it later.
        if !is_announced && under_way.was_released {
            under_way.is_visible = true;
            return;
        }
        self.under_way.remove(&id);
        if is_announced {
            self.say(Visible { id });
            self.announced -= 1;
            self.announce();
        }
    }

    /// Everything that has become visible at the source before is announced, or was before anybody had learned of the
    /// source. An updater that gets hold of the source later has a greater number.
    pub fn caught_up(&mut self, fence: Fence) {
        self.fence = self.fence.max(fence);
        self.announce();
    }

    /// Tells the hub of updates that it was not told of, as many as it takes.
    fn announce(&mut self) {
        while self.link.is_up && self.announced < UPDATES_PER_UPDATER_MAX {
            let Some((&id, under_way)) = self.under_way.range(self.announced_through + 1..).next() else { break };
            let (dependencies, is_visible) = (under_way.dependencies.clone(), under_way.is_visible);
            self.announced_through = id;
            self.say(Update { id, dependencies });
            if is_visible {
                self.under_way.remove(&id);
                self.say(Visible { id });
            } else {
                self.announced += 1;
            }
        }
        let is_all = self.under_way.range(self.announced_through + 1..).next().is_none();
        let fence = self.fence;
        if self.link.is_up && is_all && self.source.is_some() && fence > self.link.told {
            self.link.told = fence;
            self.say(CaughtUp { fence });
        }
    }

    fn renew(&mut self, now: Time, lease: Lease) {
        // The hub says the updater's own time again: nothing was ever asked at one that is still to come.
        if lease.asked > now {
            return;
        }
        let length = Duration::from_millis(lease.lease_ms.into());
        self.lease = self.lease.max(lease.asked + length);
        self.link.renew_at = Some(now + length / 3);
        self.link.silent_at = Some(self.lease);
    }

    fn say(&mut self, message: impl Into<ToHub>) {
        self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
    }
}

impl Machine for Updater {
    fn connected(&mut self, now: Time, _: Port) {
        self.link = Link { is_up: true, told: Fence::NONE, renew_at: None, silent_at: Some(now + ANSWER_WITHIN) };
        (self.announced, self.announced_through) = (0, 0);
        // A hub that still has what it has released says so again.
        self.under_way.values_mut().for_each(|under_way| under_way.is_released = false);
        self.say(Introduce { life: self.life, asked: now, source: self.source.clone(), fence: self.fence });
        self.announce();
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.link = Link::default();
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        match message.open() {
            Ok(FromHub::Released(Released { id })) => {
                if let Some(under_way) = self.under_way.get_mut(&id) {
                    (under_way.is_released, under_way.was_released) = (true, true);
                    self.outputs.push_back(Output::Wake(Waiter(id)));
                }
            }
            Ok(FromHub::Lease(lease)) => self.renew(now, lease),
            // Such as where another updater speaks for the source.
            Ok(FromHub::Goodbye(goodbye)) if goodbye.reason.is_final() => self.stop(&goodbye.text),
            Ok(_) | Err(_) => {}
        }
    }

    /// Its callers find that nothing is released any more.
    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs.clear();
        self.outputs.extend(self.under_way.keys().map(|&id| Output::Wake(Waiter(id))));
        self.under_way.clear();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.link.renew_at.into_iter().chain(self.link.silent_at).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.link.silent_at.is_some_and(|at| at <= now) {
            // The hub may have let go of its updates: they are said again in the next session.
            self.link = Link::default();
            let text = String::from("nothing was heard of the hub");
            self.outputs.push_back(Output::End(Port::SERVER, GoodbyeReason::Silent, text));
        } else if self.link.renew_at.is_some_and(|at| at <= now) {
            self.link.renew_at = None;
            self.say(Renew { asked: now });
        }
    }

    fn has_callers(&self) -> bool {
        true
    }

    fn status(&self) -> Vec<machine::Table> {
        Vec::from([UPDATER.one([("life", self.life.into()), ("updates_under_way", self.under_way.len().into())])])
    }
}
