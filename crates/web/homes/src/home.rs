//! A home: it keeps the version of each response that caches near it have stored.
//!
//! ```text
//!   away --connected/Join--> joining --Reset, Mark*, Lease--> joined --the hub is gone--> away
//! ```
//! 1. The home answers for its table within its lease alone, and while its session with its hub continues, as far as it
//!    knows (**SilentWithoutHub**): a database that dies with the hub shows what nobody has released.
//! 2. Tickets are given, and responses stored, only while it has joined and its lease continues: it knows of all
//!    outstanding marks then (**JoinWithMarks**), and answers no longer than its hub knows (**OutlastEarlierLease**).
//! 3. A mark changes the words of everything that depends on it, and only then is acknowledged.
//! 4. A slot is free only when its word has changed (**BumpOnReuse**), or all have.
//! 5. A cache that is a process of its own has a session with the home, and the slots that it was given are free when
//!    that is over: it cannot say any more what it keeps (`caches.rs`).

use crate::caches::{CHANGES, Caches, Change, ChangeId, Heard};
use crate::dependents::Dependents;
use crate::marks::Marks;
use crate::messages::caches::{Counted, Described, NotStored, Proof, Stored, Ticket};
use crate::messages::hub::{Dependency, FromHub, Join, Lease, Leave, Mark, Marked, Renew, ToHub, Unmark};
use crate::rule::Rule;
use crate::table::{Memory, Table};
use crate::tables::HOME;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use machine::{Machine, Output, Parcel, Port};
use types::limits::DEPENDENCIES_KEPT_MAX;
use types::{Broken, GoodbyeReason, Time};

/// The settings of a home.
#[derive(Clone, Copy, Debug)]
pub struct HomeConfig {
    /// The number of this life of the home. Two lives have different ones: it is drawn at random.
    pub life: u64,
    /// The responses that can be stored at a time: eight bytes each.
    pub slots: u32,
    /// The unmarkings that are remembered. A fill is not stored that was under way while there were more.
    pub remembered_max: usize,
    /// Whether some read its table under a lease of their own, which it cannot take back: its hub waits for that when
    /// it ends.
    pub is_read_apart: bool,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl HomeConfig {
    /// The usual settings.
    pub fn new(life: u64) -> Self {
        Self { life, slots: 1 << 20, remembered_max: 1 << 16, is_read_apart: false, broken: Broken::NONE }
    }
}

/// A home, whose table is in memory of this kind.
#[derive(Debug)]
pub struct Home<M = Box<[AtomicU64]>> {
    config: HomeConfig,
    table: Arc<Table<M>>,
    slots: Slots,
    dependents: Dependents,
    marks: Marks,
    caches: Caches,
    link: Link,
    matches: Matches,
    /// It has taken its lease back, and told its hub.
    has_left: bool,
    /// The end of the longest lease that its table had. A reader on another machine may have seen it.
    leased: Time,
    is_over: bool,
    outputs: VecDeque<Output>,
}

/// How updates have named what stored responses depend on, since the home began. An application and a map that spell
/// names in different ways never meet: nothing is updated by that, and nothing fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Updates that named something while responses were stored that name something, [`Dependency::ALL`] left out.
    pub updates: u64,
    /// Updates that named a dependency of a stored response.
    pub matched: u64,
    /// A name of the last one that did not.
    pub unmatched: Option<Dependency>,
}

/// The slots that no response has.
#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    /// From here on none was ever given.
    fresh: u32,
}

/// The session with the hub.
#[derive(Debug, Default)]
struct Link {
    is_joined: bool,
    /// When the lease is asked for next, and when the hub has been silent for too long.
    renew_at: Option<Time>,
    silent_at: Option<Time>,
    lease: Duration,
}

/// The bytes of dependencies that a home keeps for each slot of its table: a response has a name that no other has in
/// about 100 bytes. A small table has room for some of the longest responses.
const DEPENDENTS_BYTES_PER_SLOT: usize = 1024;
const DEPENDENTS_BYTES_MIN: usize = 16 << 20;

/// How long a hub may take to let a home join before the home looks for it again.
const JOIN_WITHIN: Duration = Duration::from_secs(10);

/// How long a hub may be silent at least. Its leases may be short, as they end within its source's: such a hub is no
/// further away than others. It decides nothing about what is safe.
const SILENT_AFTER_MIN: Duration = Duration::from_secs(1);

impl Home {
    /// A home that has stored nothing.
    pub fn new(config: HomeConfig) -> Self {
        Self::over(config, Table::memory(config.slots))
    }
}

impl<M: Memory> Home<M> {
    /// The same with its table in this memory, which is all zero and has [`Table::words`].
    pub fn over(config: HomeConfig, memory: M) -> Self {
        let HomeConfig { life, remembered_max, broken, .. } = config;
        Self {
            config,
            table: Arc::new(Table::new(memory, life, broken)),
            slots: Slots::default(),
            dependents: Dependents::new(),
            marks: Marks::new(remembered_max, broken),
            caches: Caches::new(),
            link: Link::default(),
            matches: Matches::default(),
            has_left: false,
            leased: Time::ZERO,
            is_over: false,
            outputs: VecDeque::new(),
        }
    }

    /// Its table, for the lookup at every hit.
    pub fn table(&self) -> Arc<Table<M>> {
        self.table.clone()
    }

    /// A ticket for a response that is about to be asked for. Without one it is not to be stored.
    pub fn ticket(&self, now: Time) -> Option<Ticket> {
        self.table.ticket(now)
    }

    /// Stores a response that was asked for after the ticket was given, with everything that it depends on:
    /// [`Dependency::ALL`] alone if nothing is known of that.
    ///
    /// # Errors
    /// Why it must not be stored.
    pub fn store(&mut self, now: Time, ticket: Ticket, dependencies: &[Dependency]) -> Result<Proof, NotStored> {
        if !self.answers(now) {
            return Err(NotStored::Away);
        }
        if ticket.life != self.config.life {
            return Err(NotStored::TicketVoid);
        }
        if dependencies.len() > DEPENDENCIES_KEPT_MAX {
            return Err(NotStored::TooMany);
        }
        self.marks.allow(ticket.clock, dependencies)?;
        let bytes_max = (self.config.slots as usize).saturating_mul(DEPENDENTS_BYTES_PER_SLOT);
        if self.dependents.bytes_with(dependencies) > bytes_max.max(DEPENDENTS_BYTES_MIN) {
            return Err(NotStored::Full);
        }
        let slot = self.slots.take(self.table.slots()).ok_or(NotStored::Full)?;
        self.dependents.add(slot, dependencies);
        self.table.proof(slot).ok_or(NotStored::Full)
    }

    /// A response that was stored is not kept any longer. One that an update has changed is freed already.
    pub fn free(&mut self, proof: Proof) {
        if self.is_stored(proof) {
            self.drop_slot(proof.slot);
        }
    }

    /// No response that is stored now is current any more, for a reason of the cache's own.
    pub fn lapse_all(&mut self) {
        self.flush();
    }

    /// The dependencies of a stored response; none if it is not current.
    pub fn dependencies(&self, proof: Proof) -> Vec<Dependency> {
        if self.is_stored(proof) { self.dependents.names(proof.slot).collect() } else { Vec::new() }
    }

    /// The number of stored responses that depend on it.
    pub fn dependents(&self, dependency: &Dependency) -> usize {
        self.dependents.of(dependency).count()
    }

    /// How updates have named what is stored here.
    pub fn matches(&self) -> &Matches {
        &self.matches
    }

    /// A name that stored responses depend on and that an application has given.
    pub fn named_dependency(&self) -> Option<Dependency> {
        self.dependents.named()
    }

    /// The slots of the stored responses that depend on it.
    pub fn slots_of(&self, dependency: &Dependency) -> impl Iterator<Item = u32> {
        self.dependents.of(dependency)
    }

    /// Changes that caches of other processes have made, which should be announced to the hub: callers are woken under
    /// [`CHANGES`] when there are some. Each is answered by [`Home::released`].
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.caches.take_changes()
    }

    /// No cache answers without a change any more.
    pub fn released(&mut self, change: ChangeId) {
        self.caches.released(change, &mut self.outputs);
    }

    /// Whether nothing should be had of it any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_stored(&self, proof: Proof) -> bool {
        self.table.proof(proof.slot) == Some(proof)
    }

    fn is_joined(&self) -> bool {
        self.link.is_joined || self.config.broken.is(Rule::JoinWithMarks)
    }

    fn answers(&self, now: Time) -> bool {
        self.is_joined() && self.table.is_leased(now)
    }

    /// Has the table give tickets of now, if any.
    fn set_clock(&self) {
        self.table.set_clock(self.is_joined().then(|| self.marks.clock()));
    }

    fn drop_slot(&mut self, slot: u32) {
        if !self.config.broken.is(Rule::BumpOnReuse) {
            self.table.bump(slot);
        }
        self.give_back(slot);
    }

    /// A slot whose word has changed is nobody's.
    fn give_back(&mut self, slot: u32) {
        self.dependents.clear(slot);
        self.caches.forget(slot);
        self.slots.free.push(slot);
    }

    /// Drops all responses.
    fn flush(&mut self) {
        self.table.flush();
        self.dependents.clear_all();
        self.caches.forget_all();
        self.slots = Slots::default();
    }

    fn say(&mut self, message: impl Into<ToHub>) {
        self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
    }

    /// Counts whether an update names what is stored here.
    fn compare(&mut self, dependencies: &[Dependency]) {
        let Some(first) = dependencies.first() else { return };
        if dependencies.contains(&Dependency::ALL) || !self.dependents.has_names() {
            return;
        }
        self.matches.updates += 1;
        if dependencies.iter().any(|dependency| self.dependents.of(dependency).next().is_some()) {
            self.matches.matched += 1;
        } else {
            self.matches.unmatched = Some(first.clone());
        }
    }

    fn mark(&mut self, mark: Mark) {
        let Mark { update, dependencies } = mark;
        self.compare(&dependencies);
        for dependency in &dependencies {
            if *dependency == Dependency::ALL {
                self.flush();
            }
            for slot in self.dependents.of(dependency).collect::<Vec<_>>() {
                self.table.bump(slot);
                self.give_back(slot);
            }
        }
        self.marks.mark(update, dependencies);
        self.say(Marked { update });
    }

    fn reset(&mut self) {
        if !self.config.broken.is(Rule::FlushAtJoin) {
            self.flush();
        }
        self.marks.reset();
        self.link.is_joined = false;
    }

    fn renew(&mut self, now: Time, lease: Lease) {
        // The hub says the home's own time again: nothing was ever asked at one that is still to come.
        if lease.asked > now {
            return;
        }
        let asked = if self.config.broken.is(Rule::LeaseFromAsking) { now } else { lease.asked };
        let length = Duration::from_millis(lease.lease_ms.into());
        let until = asked + length;
        let outlasts = until >= self.leased || self.config.broken.is(Rule::OutlastEarlierLease);
        self.leased = self.leased.max(until);
        self.table.extend(until);
        self.link = Link {
            is_joined: self.link.is_joined || outlasts,
            renew_at: Some(now + length / 3),
            silent_at: Some(now + (2 * length).max(SILENT_AFTER_MIN)),
            lease: length,
        };
    }

    fn hear_hub(&mut self, now: Time, message: Parcel) {
        match message.open() {
            Ok(FromHub::Reset(_)) => self.reset(),
            Ok(FromHub::Mark(mark)) => self.mark(mark),
            Ok(FromHub::Unmark(Unmark { update })) => self.marks.unmark(update),
            Ok(FromHub::Lease(lease)) => self.renew(now, lease),
            Ok(FromHub::Released(_) | FromHub::Goodbye(_)) | Err(_) => {}
        }
        self.set_clock();
    }

    /// A cache of another process has something to say.
    fn hear_cache(&mut self, now: Time, port: Port, message: Parcel) {
        let Ok(message) = message.open() else { return };
        match self.caches.hear(port, message, self.config.life, &mut self.outputs) {
            Some(Heard::Store(question)) => {
                let outcome = self.store(now, question.ticket, &question.dependencies);
                if let Ok(proof) = outcome {
                    self.caches.own(port, proof.slot);
                }
                self.caches.answer(port, Stored { id: question.id, outcome }, 0, &mut self.outputs);
            }
            Some(Heard::Free(proof)) => self.free(proof),
            Some(Heard::Describe(question)) => {
                let dependencies = self.dependencies(question.proof);
                let bytes = dependencies.iter().map(|dependency| dependency.name().len()).sum();
                let answer = Described { id: question.id, dependencies };
                self.caches.answer(port, answer, bytes, &mut self.outputs);
            }
            Some(Heard::Count(question)) => {
                let responses = self.dependents(&question.dependency) as u64;
                self.caches.answer(port, Counted { id: question.id, responses }, 0, &mut self.outputs);
            }
            None => {}
        }
    }
}

impl Slots {
    fn take(&mut self, count: u32) -> Option<u32> {
        let fresh = || {
            let slot = self.fresh;
            (slot < count).then(|| {
                self.fresh += 1;
                slot
            })
        };
        self.free.pop().or_else(fresh)
    }
}

impl<M: Memory> Machine for Home<M> {
    fn connected(&mut self, now: Time, port: Port) {
        if port != Port::SERVER || self.has_left {
            return;
        }
        self.link = Link { silent_at: Some(now + JOIN_WITHIN), ..Link::default() };
        self.set_clock();
        self.say(Join { life: self.config.life, asked: now });
    }

    fn disconnected(&mut self, _: Time, port: Port) {
        if port == Port::SERVER {
            if !self.config.broken.is(Rule::SilentWithoutHub) {
                self.table.revoke();
            }
            self.link = Link { is_joined: self.link.is_joined, ..Link::default() };
            return;
        }
        for slot in self.caches.end(port) {
            self.drop_slot(slot);
        }
    }

    fn has_room(&mut self, port: Port) {
        self.caches.has_room(port);
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        match port {
            // A lease that was on its way is none of a home that has left.
            Port::SERVER if self.has_left => {}
            Port::SERVER => self.hear_hub(now, message),
            _ => self.hear_cache(now, port, message),
        }
    }

    /// Its caches find that nothing is current any more.
    fn stop(&mut self, _: &str) {
        self.table.revoke();
        self.link = Link::default();
        self.is_over = true;
        self.outputs = VecDeque::from([Output::Wake(CHANGES)]);
    }

    /// Nobody believes its table from here on, so its hub need not wait for its lease (**LeaveWhenRevoked**). A reader
    /// that looks at this moment has a request that came before everything that the hub releases then.
    fn close(&mut self, _: Time) {
        if !self.config.broken.is(Rule::LeaveWhenRevoked) {
            self.table.revoke();
        }
        if self.link.silent_at.is_some() && !self.config.is_read_apart {
            self.say(Leave);
        }
        self.link = Link::default();
        self.has_left = true;
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
            self.link = Link { is_joined: self.link.is_joined, ..Link::default() };
            let text = String::from("nothing was heard of the hub");
            self.outputs.push_back(Output::End(Port::SERVER, GoodbyeReason::Silent, text));
        } else if self.link.renew_at.is_some_and(|at| at <= now) {
            self.link.renew_at = Some(now + self.link.lease / 3);
            self.say(Renew { asked: now });
        }
    }

    fn status(&self) -> Vec<machine::Table> {
        Vec::from([HOME.one([
            ("life", self.config.life.into()),
            ("joined", u64::from(self.link.is_joined).into()),
            ("responses", u64::from(self.slots.fresh).saturating_sub(self.slots.free.len() as u64).into()),
            ("updates_marked", self.marks.updates().into()),
            ("caches", self.caches.count().into()),
        ])])
    }
}
