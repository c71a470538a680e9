//! A home: it keeps the version of each response that caches near it have stored.
//!
//! ```text
//!   away --connected/Join--> joining --Reset, Mark*, Lease--> joined --the hub is gone--> away
//! ```
//! 1. The home answers for its table within its lease alone, wherever it is in this picture.
//! 2. Tickets are given, and responses stored, only while it has joined and its lease goes on: it knows of all outstanding
//!    marks then (**JoinWithMarks**).
//! 3. A mark changes the words of all that depends on it, and only then is acknowledged.
//! 4. A slot is free only when its word has changed (**BumpOnReuse**), or all have.

use crate::dependents::Dependents;
use crate::marks::{Marks, Ticket};
use crate::refusal::NotStored;
use crate::rule::Rule;
use crate::table::{Proof, Table};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use node::{Machine, Output, Port};
use protocol::homes::{Dependency, FromHub, Join, Lease, Mark, Marked, Renew, ToHub, Unmark};
use protocol::{Cell, Parcel};
use types::limits::DEPENDENCIES_PER_RESPONSE_MAX;
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
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl HomeConfig {
    /// The usual settings.
    pub fn new(life: u64) -> Self {
        Self { life, slots: 1 << 20, remembered_max: 1 << 16, broken: Broken::NONE }
    }
}

/// A home.
#[derive(Debug)]
pub struct Home {
    config: HomeConfig,
    table: Arc<Table>,
    slots: Slots,
    dependents: Dependents,
    marks: Marks,
    link: Link,
    outputs: VecDeque<Output>,
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

/// How long a hub may take to let a home join before the home looks for it again.
const JOIN_WITHIN: Duration = Duration::from_secs(10);

impl Home {
    /// A home that has stored nothing.
    pub fn new(config: HomeConfig) -> Self {
        let HomeConfig { life, slots, remembered_max, broken } = config;
        Self {
            config,
            table: Arc::new(Table::new(slots, life, broken)),
            slots: Slots::default(),
            dependents: Dependents::new(),
            marks: Marks::new(remembered_max, broken),
            link: Link::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Its table, for the look-up at every hit.
    pub fn table(&self) -> Arc<Table> {
        self.table.clone()
    }

    /// A ticket for a response that is about to be asked for. Without one it is not to be stored.
    pub fn ticket(&self, now: Time) -> Option<Ticket> {
        self.answers(now).then(|| Ticket { life: self.config.life, clock: self.marks.clock() })
    }

    /// Stores a response that was asked for after the ticket was given, with all that it depends on:
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
        if dependencies.len() > DEPENDENCIES_PER_RESPONSE_MAX {
            return Err(NotStored::TooMany);
        }
        self.marks.allow(ticket.clock, dependencies)?;
        let slot = self.slots.take(self.table.slots()).ok_or(NotStored::Full)?;
        self.dependents.add(slot, dependencies);
        Ok(self.table.proof(slot))
    }

    /// A response that was stored is not kept any longer. One that an update has changed is freed already.
    pub fn free(&mut self, proof: Proof) {
        if self.table.proof(proof.slot) == proof {
            self.drop_slot(proof.slot);
        }
    }

    /// No response that is stored now is current any more, for a reason of the cache's own.
    pub fn lapse_all(&mut self) {
        self.flush();
    }

    /// The dependencies of a stored response; none if it is not current.
    pub fn dependencies(&self, proof: Proof) -> Vec<Dependency> {
        let is_current = self.table.proof(proof.slot) == proof;
        if is_current { self.dependents.names(proof.slot).collect() } else { Vec::new() }
    }

    /// The number of stored responses that depend on it.
    pub fn dependents(&self, dependency: &Dependency) -> usize {
        self.dependents.of(dependency).count()
    }

    /// The slots of the stored responses that depend on it.
    pub fn slots_of(&self, dependency: &Dependency) -> impl Iterator<Item = u32> {
        self.dependents.of(dependency)
    }

    /// The place of a stored response as it is now: another proof than its own when it is not current.
    pub fn proof_now(&self, proof: Proof) -> Proof {
        self.table.proof(proof.slot)
    }

    fn answers(&self, now: Time) -> bool {
        let is_joined = self.link.is_joined || self.config.broken.is(Rule::JoinWithMarks);
        is_joined && self.table.is_leased(now)
    }

    fn drop_slot(&mut self, slot: u32) {
        if !self.config.broken.is(Rule::BumpOnReuse) {
            self.table.bump(slot);
        }
        self.dependents.clear(slot);
        self.slots.free.push(slot);
    }

    /// Drops all responses.
    fn flush(&mut self) {
        self.table.flush();
        self.dependents.clear_all();
        self.slots = Slots::default();
    }

    fn say(&mut self, message: impl Into<ToHub>) {
        self.outputs.push_back(Output::Send(Port::Server, Parcel::new(message.into()), None));
    }

    fn mark(&mut self, mark: Mark) {
        let Mark { update, dependencies } = mark;
        for dependency in &dependencies {
            if *dependency == Dependency::ALL {
                self.flush();
            }
            for slot in self.dependents.of(dependency).collect::<Vec<_>>() {
                self.table.bump(slot);
                self.dependents.clear(slot);
                self.slots.free.push(slot);
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
    }

    fn renew(&mut self, now: Time, lease: Lease) {
        // The hub says the home's own time again: nothing was ever asked at one that is still to come.
        if lease.asked > now {
            return;
        }
        let asked = if self.config.broken.is(Rule::LeaseFromAsking) { now } else { lease.asked };
        let length = Duration::from_millis(lease.lease_ms.into());
        self.table.extend(asked + length);
        self.link = Link {
            is_joined: true,
            renew_at: Some(now + length / 3),
            silent_at: Some(now + 2 * length),
            lease: length,
        };
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

impl Machine for Home {
    fn connected(&mut self, now: Time, _: Port) {
        self.link = Link { silent_at: Some(now + JOIN_WITHIN), ..Link::default() };
        self.say(Join { life: self.config.life, asked: now });
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.link = Link { is_joined: self.link.is_joined, ..Link::default() };
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        match message.open() {
            Ok(FromHub::Reset(_)) => self.reset(),
            Ok(FromHub::Mark(mark)) => self.mark(mark),
            Ok(FromHub::Unmark(Unmark { update })) => self.marks.unmark(update),
            Ok(FromHub::Lease(lease)) => self.renew(now, lease),
            Ok(FromHub::Released(_) | FromHub::Goodbye(_)) | Err(_) => {}
        }
    }

    /// Its caches find that nothing is current any more.
    fn stop(&mut self, _: &str) {
        self.table.revoke();
        self.link = Link::default();
        self.outputs.clear();
    }

    fn close(&mut self, _: Time) {
        self.table.revoke();
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
            self.outputs.push_back(Output::End(Port::Server, GoodbyeReason::Silent, text));
        } else if self.link.renew_at.is_some_and(|at| at <= now) {
            self.link.renew_at = Some(now + self.link.lease / 3);
            self.say(Renew { asked: now });
        }
    }

    fn status(&self) -> Vec<protocol::Table> {
        let row = [
            ("life", self.config.life.into()),
            ("joined", u64::from(self.link.is_joined).into()),
            ("responses", u64::from(self.slots.fresh).saturating_sub(self.slots.free.len() as u64).into()),
            ("updates_marked", self.marks.updates().into()),
        ];
        let (columns, cells): (Vec<_>, Vec<Cell>) =
            row.into_iter().map(|(name, cell)| (String::from(name), cell)).unzip();
        Vec::from([protocol::Table { name: String::from("home"), columns, rows: Vec::from([cells]) }])
    }
}
