//! The subscribers of a site at a file server or relay: their leases, the revisions they hold, and their sessions.
//!
//! ```text
//!   Join ------> leased ------ Renew -----> leased          its holds protect revisions
//!                  |  session lost: the lease runs on       (EndByLease)
//!                  +--- no renewal in time ---> over        its holds are gone, and a renewal is answered with Lapsed
//! ```
//! One table for both levels (**HoldUnion**): a giver grants only holds that it has from above, and a hold ends by
//! release or with the lease. A lease is counted longer here than at its holder (**LeaseWithin**).
//!
//! A subscriber whose lease runs *shares* the newest revision: it may serve it as such, until it releases it
//! (**RevokeFirst**).

use crate::announced::{Announced, Told};
use crate::messages::Standing;
use crate::number::Number;
use crate::rule::Way;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use machine::Port;
use tree::ChunkHash;
use types::lease::{millis, shorter};
use types::limits::{HOLDS_PER_SUBSCRIBER_MAX, SUBSCRIBERS_MAX};
use types::{Broken, Time};

/// The number of a subscriber at this giver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HolderId(u64);

/// Where a subscriber is reached: a port, and its number for the site there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) port: Port,
    pub(crate) slot: u32,
}

/// A subscriber.
#[derive(Debug)]
struct Holder {
    life: u64,
    /// None while it has no session.
    seat: Option<Seat>,
    holds: BTreeSet<Number>,
    /// The revision that it has reported.
    at: Number,
    /// The end of its lease, by the clock here.
    until: Time,
    /// Whether everything sent to it has left: an offer may carry content.
    is_reading: bool,
    /// Whether an offer of the newest revision is due, which was not made while it did not read.
    is_owed: bool,
    share: Share,
    asks: Option<Asks>,
    /// The chunks of uploads that were announced to it.
    told: Told,
}

/// A question for the newest revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) seat: Seat,
    /// The revision that the subscriber has.
    pub(crate) has: Number,
    /// Whether it shares the newest from then on.
    pub(crate) shares: bool,
}

/// Whether a subscriber may serve a revision as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// The newest: it is told when that ends.
    Told,
    /// An older one: the message that this is the newest may still be on its way.
    Untold(Number),
    /// None.
    Released,
}

/// The subscribers of a site.
#[derive(Debug)]
pub(crate) struct Holders {
    all: BTreeMap<HolderId, Holder>,
    last: u64,
    announced: Announced,
    broken: Broken<Way>,
}

/// The revision that a subscriber that joins may serve as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shares {
    /// The newest one.
    Newest,
    /// The one that it has not released, which is about to be revoked.
    Kept,
    /// None, as this is the newest, which it has to ask for. It is told so once more, and counts until it has answered
    /// if it has not released the one before.
    Nothing(Number),
}

/// The outcome of a join.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// The lease as a message has it.
    pub(crate) lease_ms: u32,
    /// The revisions that are held.
    pub(crate) held: Vec<Number>,
    /// Whether the newest revision is shared.
    pub(crate) shares: bool,
    /// Whether it counts as one that may serve a revision as the newest.
    pub(crate) may_serve: bool,
}

/// A subscriber to offer a revision to.
#[derive(Debug)]
pub(crate) struct ToOffer {
    pub(crate) seat: Seat,
    /// With the edits that lead to it.
    pub(crate) with_edits: bool,
}

impl Holders {
    pub(crate) fn new(broken: Broken<Way>) -> Self {
        Self { all: BTreeMap::new(), last: 0, announced: Announced::default(), broken }
    }

    /// Admits a subscriber under a lease that the giver counts as `span`. It holds the revisions that it asks for or
    /// was promised before, as far as they are held above (`is_above`). None if there are too many subscribers.
    pub(crate) fn join(
        &mut self,
        now: Time,
        (seat, life): (Seat, u64),
        at: Number,
        (asked, is_above): (impl Iterator<Item = Number>, impl Fn(Number) -> bool),
        (span, shares): (Duration, Shares),
    ) -> Option<Admitted> {
        let known = self.find(seat).or_else(|| {
            let is_same =
                |(id, holder): (&HolderId, &Holder)| (holder.seat.is_none() && holder.life == life).then_some(*id);
            self.all.iter().find_map(is_same)
        });
        if self.broken.is(Way::NewRelay) {
            self.all.retain(|id, holder| holder.seat.is_some() || Some(*id) == known);
        }
        if known.is_none() && self.all.len() >= SUBSCRIBERS_MAX {
            // A subscriber whose lease has ended joins again when it renews.
            self.all.retain(|_, holder| now < holder.until);
            if self.all.len() >= SUBSCRIBERS_MAX {
                return None;
            }
        }
        let id = known.unwrap_or_else(|| {
            self.last += 1;
            HolderId(self.last)
        });
        let mut holds: BTreeSet<Number> = asked.collect();
        let before = self.all.remove(&id).filter(|before| now < before.until);
        // It may not hear that its lease is a shorter one now.
        let until = before
            .as_ref()
            .filter(|_| !self.broken.is(Way::CutLease))
            .map_or(now + span, |before| before.until.max(now + span));
        let was_serving = before.as_ref().is_some_and(|before| !before.has_released());
        let share = match shares {
            Shares::Newest => Share::Told,
            Shares::Kept if was_serving => Share::Told,
            Shares::Nothing(newest) if was_serving => Share::Untold(newest),
            Shares::Kept | Shares::Nothing(_) => Share::Released,
        };
        // It may have been promised more since it wrote its list.
        if let Some(before) = before.filter(|_| !self.broken.is(Way::OldList)) {
            holds.extend(before.holds);
        }
        holds.retain(|number| is_above(*number));
        let lease_ms = self.lease_ms(span);
        let held = holds.iter().rev().take(HOLDS_PER_SUBSCRIBER_MAX).copied().collect();
        let seat = Some(seat);
        let (shares, may_serve) = (share == Share::Told, share != Share::Released);
        let (is_reading, is_owed, asks) = (true, false, None);
        let told = self.announced.begin();
        self.all.insert(id, Holder { life, seat, holds, at, until, is_reading, is_owed, share, asks, told });
        Some(Admitted { lease_ms, held, shares, may_serve })
    }

    /// The lease that a subscriber is told, which is over before the giver's span is.
    fn lease_ms(&self, span: Duration) -> u32 {
        millis(if self.broken.is(Way::SameClocks) { span } else { shorter(span) })
    }

    /// A subscriber reports the revision that it serves, and those that it no longer needs.
    pub(crate) fn report(&mut self, seat: Seat, at: Number, released: &[Number]) {
        let Some(holder) = self.of(seat) else { return };
        holder.at = holder.at.max(at);
        if matches!(holder.share, Share::Untold(number) if number <= at) {
            holder.share = Share::Released;
        }
        for number in released {
            holder.holds.remove(number);
        }
    }

    /// A subscriber renews its lease. Returns its lease as a message has it; none if it is over.
    pub(crate) fn renew(&mut self, now: Time, seat: Seat, span: Duration) -> Option<u32> {
        let lease_ms = self.lease_ms(span);
        let [is_late_allowed, cuts] = [Way::LateRenewal, Way::CutLease].map(|way| self.broken.is(way));
        let holder = self.of(seat)?;
        if now >= holder.until && !is_late_allowed {
            return None;
        }
        holder.until = if cuts { now + span } else { holder.until.max(now + span) };
        Some(lease_ms)
    }

    /// Holds a revision for a subscriber. Returns whether its lease lets it.
    pub(crate) fn hold(&mut self, now: Time, seat: Seat, number: Number) -> bool {
        let Some(holder) = self.of(seat) else { return false };
        let holds = now < holder.until && holder.holds.len() < HOLDS_PER_SUBSCRIBER_MAX;
        if holds {
            holder.holds.insert(number);
        }
        holds
    }

    /// Ends the shares of all subscribers, as there is a newer revision. Returns those to be told: again, if a
    /// publisher waits until they have heard it.
    pub(crate) fn invalidate(&mut self, now: Time, newest: Number, waits: bool) -> Vec<Seat> {
        let serving = self.all.values_mut().filter(|holder| holder.may_serve(now));
        let tell = |holder: &mut Holder| {
            let is_due = holder.share == Share::Told || waits;
            if is_due {
                holder.share = Share::Untold(newest);
            }
            holder.seat.filter(|_| is_due)
        };
        serving.filter_map(tell).collect()
    }

    /// The connected subscribers that share the newest revision.
    pub(crate) fn sharing(&self, now: Time) -> Vec<Seat> {
        self.all.values().filter(|holder| holder.may_serve(now)).filter_map(|holder| holder.seat).collect()
    }

    /// Whether a subscriber may serve the newest revision as such, or an older one.
    pub(crate) fn is_shared(&self, now: Time) -> bool {
        self.all.values().any(|holder| holder.may_serve(now))
    }

    /// Whether a subscriber may serve the newest revision as such.
    pub(crate) fn shares(&self, now: Time, seat: Seat) -> bool {
        self.all.values().any(|holder| holder.seat == Some(seat) && holder.may_serve(now))
    }

    /// A subscriber serves no revision as the newest from now on.
    pub(crate) fn release(&mut self, seat: Seat) {
        if let Some(holder) = self.of(seat) {
            holder.share = Share::Released;
        }
    }

    /// A subscriber asks for the newest revision. Returns whether its lease lets it.
    pub(crate) fn acquire(&mut self, now: Time, asks: Asks) -> bool {
        let Some(holder) = self.of(asks.seat).filter(|holder| now < holder.until) else { return false };
        holder.asks = Some(asks);
        true
    }

    /// The questions for the newest revision of those who read what is sent to them.
    pub(crate) fn asking(&self, now: Time) -> Vec<Asks> {
        let reading = self.all.values().filter(|holder| now < holder.until && holder.is_reading);
        reading.filter_map(|holder| holder.asks.filter(|asks| holder.seat == Some(asks.seat))).collect()
    }

    /// A subscriber that has asked for it is offered the newest revision.
    pub(crate) fn grant(&mut self, asks: Asks, newest: Number) {
        if let Some(holder) = self.of(asks.seat) {
            (holder.asks, holder.is_reading) = (None, false);
            holder.holds.insert(newest);
            if asks.shares {
                holder.share = Share::Told;
            }
        }
    }

    /// Returns the subscribers to offer the newest revision to, and holds it for each of them (**HeldAbove**). A
    /// subscriber that has yet to read earlier messages is offered it afterwards, and one that has released the one
    /// before when it asks.
    pub(crate) fn offer(&mut self, now: Time, number: Number) -> Vec<ToOffer> {
        // The tree names its chunks.
        self.announced.forget_told([].into_iter());
        let pins = !self.broken.is(Way::PinLater);
        let leased = self.all.values_mut().filter(|holder| holder.may_serve(now));
        let offer = |holder: &mut Holder| {
            let seat = holder.seat?;
            if !holder.is_reading {
                holder.is_owed = true;
                return None;
            }
            if pins {
                holder.holds.insert(number);
            }
            (holder.is_reading, holder.share) = (false, Share::Told);
            Some(ToOffer { seat, with_edits: true })
        };
        leased.filter_map(offer).collect()
    }

    /// Announces chunks of an upload. Returns the subscribers to tell, and the chunks for each: those that are offered
    /// each revision, and read what is sent to them. The others are told when they have read, or by the next offer.
    pub(crate) fn announce(&mut self, now: Time, chunks: &[(ChunkHash, u32)]) -> Vec<(Seat, Vec<(ChunkHash, u32)>)> {
        self.announced.add(chunks);
        let is_offered = |holder: &Holder| holder.may_serve(now) && holder.seat.is_some();
        let reading = self.all.values_mut().filter(|holder| is_offered(holder) && holder.is_reading);
        let tell = reading.filter_map(|holder| Some((holder.seat?, self.announced.tell(&mut holder.told))));
        let tell = tell.filter(|(_, chunks)| !chunks.is_empty()).collect();
        self.announced.forget_told(self.all.values().filter(|holder| is_offered(holder)).map(|holder| &holder.told));
        tell
    }

    /// Notes that everything sent on a port has left. Returns its subscribers that are owed an offer.
    pub(crate) fn has_room(&mut self, now: Time, port: Port, newest: Number) -> Vec<ToOffer> {
        let on_port = self.all.values_mut().filter(|holder| holder.seat.is_some_and(|seat| seat.port == port));
        on_port
            .filter_map(|holder| {
                holder.is_reading = true;
                holder.told.has_room();
                holder.pay(now, newest)
            })
            .collect()
    }

    /// The offer that is owed to a subscriber, which goes before its renewal.
    pub(crate) fn owed(&mut self, now: Time, seat: Seat, newest: Number) -> Option<ToOffer> {
        self.of(seat)?.pay(now, newest)
    }

    /// A port is gone, with the sessions there. Leases run on (**EndByLease**).
    pub(crate) fn lost(&mut self, port: Port) {
        let is_there = |holder: &Holder| holder.seat.is_some_and(|seat| seat.port == port);
        if self.broken.is(Way::ForgetAtOnce) {
            self.all.retain(|_, holder| !is_there(holder));
        }
        self.all.values_mut().filter(|holder| is_there(holder)).for_each(|holder| holder.seat = None);
    }

    /// A subscriber leaves, with its holds.
    pub(crate) fn leave(&mut self, seat: Seat) {
        if let Some(id) = self.find(seat) {
            self.all.remove(&id);
        }
    }

    /// Ends the holds of expired leases, and forgets their subscribers if they have no session.
    pub(crate) fn forget(&mut self, now: Time) {
        self.all.retain(|_, holder| now < holder.until || holder.seat.is_some());
        self.all.values_mut().filter(|holder| now >= holder.until).for_each(|holder| holder.holds.clear());
    }

    /// When a lease is over next.
    pub(crate) fn next_end(&self, now: Time) -> Option<Time> {
        self.all.values().map(|holder| holder.until).filter(|until| *until > now).min()
    }

    /// When the last lease is over; none without a subscriber.
    pub(crate) fn last_end(&self) -> Option<Time> {
        self.all.values().map(|holder| holder.until).max()
    }

    /// The revisions that are held.
    pub(crate) fn held(&self, now: Time) -> BTreeSet<Number> {
        let leased = self.all.values().filter(|holder| now < holder.until);
        leased.flat_map(|holder| holder.holds.iter().copied()).collect()
    }

    /// Returns the oldest revision that a subscriber may serve as the newest: all count whose lease runs
    /// (**WaitCountsAll**), but for those that have released it. None without such a subscriber.
    pub(crate) fn oldest(&self, now: Time) -> Option<Number> {
        let counts_connected = self.broken.is(Way::CountConnected);
        let counts = |holder: &&Holder| holder.may_serve(now) && (holder.seat.is_some() || !counts_connected);
        self.all.values().filter(counts).map(|holder| holder.at).min()
    }

    /// Returns whether there is neither a session nor a lease to come back to.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of those with a session.
    pub(crate) fn connected(&self) -> usize {
        self.all.values().filter(|holder| holder.seat.is_some()).count()
    }

    /// How each stands.
    pub(crate) fn standings(&self, now: Time) -> Vec<Standing> {
        let standing = |holder: &Holder| Standing {
            life: holder.life,
            at: holder.at,
            lease_ms: millis(holder.until.since(now)),
            holds: holder.holds.len() as u32,
            is_connected: holder.seat.is_some(),
        };
        self.all.values().map(standing).collect()
    }

    /// The sessions of all that hold a revision.
    pub(crate) fn seats(&self) -> impl Iterator<Item = (Seat, &BTreeSet<Number>)> {
        self.all.values().filter_map(|holder| Some((holder.seat?, &holder.holds)))
    }

    /// Ends all holds on a revision, which is not held above.
    pub(crate) fn drop_hold(&mut self, number: Number) {
        self.all.values_mut().for_each(|holder| {
            holder.holds.remove(&number);
        });
    }

    fn find(&self, seat: Seat) -> Option<HolderId> {
        self.all.iter().find_map(|(id, holder)| (holder.seat == Some(seat)).then_some(*id))
    }

    fn of(&mut self, seat: Seat) -> Option<&mut Holder> {
        self.all.values_mut().find(|holder| holder.seat == Some(seat))
    }
}

impl Holder {
    /// Whether it may serve a revision as the newest.
    fn may_serve(&self, now: Time) -> bool {
        now < self.until && !self.has_released()
    }

    fn has_released(&self) -> bool {
        self.share == Share::Released
    }

    fn pay(&mut self, now: Time, newest: Number) -> Option<ToOffer> {
        if !self.is_owed || now >= self.until {
            return None;
        }
        (self.is_owed, self.is_reading, self.share) = (false, false, Share::Told);
        self.holds.insert(newest);
        Some(ToOffer { seat: self.seat?, with_edits: false })
    }
}
