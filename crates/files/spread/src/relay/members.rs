//! The members of a relay: joins, leases, holds, offers.

use super::{FOLLOWED_FOR, Newest, Relay, Site};
use crate::holders::{Admitted, Asks, Holders, Seat, Shares, ToOffer};
use crate::messages::{
    Acquire, Ahead, Consistency, Held, Hold, Invalidate, Join, Joined, Lapsed, NotJoined, NotNow, Offer, Renew,
    Renewed, Revoke,
};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use crate::taker::Taker;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use machine::{Output, Port};
use tree::ChunkHash;
use types::limits::{HOLDS_PER_SUBSCRIBER_MAX, SITES_PER_SESSION_MAX};
use types::{GoodbyeReason, Time};

impl Relay {
    pub(super) fn join(&mut self, port: Port, join: Join) {
        let Join { slot, asked, life, at, seen, space, site: name, held } = join;
        let key = SiteKey { space, name };
        if !at.is_sound() || !seen.is_sound() {
            // The file server would end the session of the whole group.
            return self.end(port, GoodbyeReason::Malformed, "a number that no revision has");
        }
        let on_port = self.seats.range((port, 0)..=(port, u32::MAX)).count();
        let is_full = self.sites.len() >= SITES_PER_SESSION_MAX && !self.sites.contains_key(&key);
        if is_full || on_port >= SITES_PER_SESSION_MAX && !self.seats.contains_key(&(port, slot)) {
            return self.say(port, NotJoined { slot, why: NotNow::Full });
        }
        let now = self.now;
        let from_memory = self.is_broken(Way::FromMemory);
        let site = self.follow(&key);
        site.wanted_until = now + FOLLOWED_FOR;
        let newest = site.newest.as_ref().map(|newest| newest.revision.number);
        site.seen = site.seen.max(seen).max(at);
        if newest.is_some_and(|newest| site.seen > newest) {
            site.taker.ask_for(now, site.seen);
        }
        let Some(Newest { revision, keep, key: visitor_key, .. }) =
            site.newest.clone().filter(|_| site.taker.is_joined() && site.taker.is_leased(now))
        else {
            let why = site.refused.unwrap_or(NotNow::NotYet);
            return self.say(port, NotJoined { slot, why });
        };
        let (seat, span) = (Seat { port, slot }, site.taker.rest(now));
        let taker = &site.taker;
        let is_above = |number| taker.holds(number) || from_memory;
        let others = held.iter().copied().filter(|number| !is_above(*number));
        let others: Vec<Number> = others.take(HOLDS_PER_SUBSCRIBER_MAX.saturating_sub(site.asks.len())).collect();
        let asked_for = (held.into_iter().chain([revision.number]), is_above);
        let may_share = match (site.taker.has_share(), site.is_revoked) {
            (true, false) => Shares::Newest,
            (true, true) => Shares::Kept,
            (false, _) => Shares::Nothing(site.known()),
        };
        let joined = site.members.join(now, (seat, life), at, asked_for, (span, may_share));
        let Some(Admitted { lease_ms, held, shares, may_serve }) = joined else {
            return self.say(port, NotJoined { slot, why: NotNow::Full });
        };
        let (consistency, when_stale, known) = (site.taker.consistency(), site.taker.when_stale(), site.known());
        let is_revoked = may_serve && may_share != Shares::Newest;
        let mut holds = Vec::new();
        for number in others {
            let waiting = site.asks.entry(number).or_default();
            if waiting.is_empty() {
                holds.push(site.taker.ask_for_hold(number));
            }
            if !waiting.contains(&seat) {
                waiting.push(seat);
            }
        }
        self.seats.insert((port, slot), key);
        let Revision { number, root } = revision;
        self.say(
            port,
            Joined {
                slot,
                asked,
                lease_ms,
                number,
                root,
                keep,
                key: visitor_key,
                consistency,
                when_stale,
                shares,
                held,
            },
        );
        if is_revoked && consistency == Consistency::Callback {
            self.say(port, Invalidate { slot, number: known, reports: true });
        } else if is_revoked {
            self.say(port, Revoke { slot });
        }
        for hold in holds {
            self.ask(hold);
        }
    }

    pub(super) fn release(&mut self, port: Port, slot: u32) {
        if let Some(site) = self.seats.get(&(port, slot)).and_then(|key| self.sites.get_mut(key)) {
            site.members.release(Seat { port, slot });
        }
    }

    pub(super) fn acquire(&mut self, port: Port, Acquire { slot, at, shares }: Acquire) {
        let now = self.now;
        let key = self.seats.get(&(port, slot)).cloned();
        let Some(site) = key.as_ref().and_then(|key| self.sites.get_mut(key)) else {
            return self.say(port, Lapsed { slot });
        };
        if !site.members.acquire(now, Asks { seat: Seat { port, slot }, has: at, shares }) {
            return self.say(port, Lapsed { slot });
        }
        if let Some(key) = &key {
            self.grant(key);
        }
    }

    /// Offers the newest revision to the members that ask for it, if it is shared with the relay.
    pub(super) fn grant(&mut self, key: &SiteKey) {
        let (now, from_memory) = (self.now, self.is_broken(Way::ShareReleased));
        let shares = |site: &Site| site.taker.shares(now) && !site.is_revoked || from_memory;
        let Some(site) = self.sites.get_mut(key).filter(|site| shares(site)) else { return };
        let Some(newest) = site.newest.clone() else { return };
        let Newest { revision: Revision { number, root }, base, from, reports, edits, .. } = newest;
        let asking = site.members.asking(now);
        for asks in &asking {
            site.members.grant(*asks, number);
        }
        for Asks { seat: Seat { port, slot }, has, .. } in asking {
            let edits = if has == from { edits.clone() } else { Bytes::new() };
            self.say(port, Offer { slot, number, root, base, reports, answers: true, edits });
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }

    /// The site, which is followed from now on.
    pub(super) fn follow(&mut self, key: &SiteKey) -> &mut Site {
        let (life, broken) = (self.config.life, self.config.broken);
        if !self.sites.contains_key(key) {
            self.last_slot += 1;
            self.slots.insert(self.last_slot, key.clone());
        }
        let slot = self.last_slot;
        self.sites.entry(key.clone()).or_insert_with(|| Site {
            taker: Taker::new(key.clone(), slot, life, broken),
            newest: None,
            invalidated: Number::NONE,
            is_revoked: false,
            seen: Number::NONE,
            members: Holders::new(broken),
            asks: BTreeMap::new(),
            told: Number::NONE,
            refused: None,
            wanted_until: Time::ZERO,
        })
    }

    pub(super) fn renew(&mut self, port: Port, renew: &Renew) {
        let &Renew { slot, asked, at, ref released } = renew;
        let (seat, now) = (Seat { port, slot }, self.now);
        let key = self.seats.get(&(port, slot)).cloned();
        let Some(site) = key.as_ref().and_then(|key| self.sites.get_mut(key)) else {
            return self.say(port, Lapsed { slot });
        };
        let newest = site.newest_number();
        let released: Vec<Number> = released.iter().copied().filter(|number| *number != newest).collect();
        site.members.report(seat, at, &released);
        let is_awaited = site.is_revoked && site.members.shares(now, seat);
        if !site.taker.is_joined() || !site.taker.is_leased(now) || is_awaited {
            // There is nothing to give: it asks again while its lease lasts.
            return;
        }
        let Some(lease_ms) = site.members.renew(now, seat, site.taker.rest(now)) else {
            return self.say(port, Lapsed { slot });
        };
        let owed = site.members.owed(now, seat, newest);
        if let (Some(to), Some(key)) = (owed, &key) {
            self.say_offers(key, Vec::from([to]));
        }
        self.say(port, Renewed { slot, asked, lease_ms });
    }

    pub(super) fn hold(&mut self, port: Port, Hold { slot, number }: Hold) {
        let (seat, now) = (Seat { port, slot }, self.now);
        let Some(site) = self.seats.get(&(port, slot)).and_then(|key| self.sites.get_mut(key)) else {
            return self.say(port, Held { slot, number, is_held: false });
        };
        if site.taker.holds(number) {
            let is_held = site.members.hold(now, seat, number);
            return self.say(port, Held { slot, number, is_held });
        }
        if site.asks.len() >= HOLDS_PER_SUBSCRIBER_MAX && !site.asks.contains_key(&number) {
            return self.say(port, Held { slot, number, is_held: false });
        }
        let waiting = site.asks.entry(number).or_default();
        let hold = waiting.is_empty().then(|| site.taker.ask_for_hold(number));
        if !waiting.contains(&seat) {
            waiting.push(seat);
        }
        if let Some(hold) = hold {
            self.ask(hold);
        }
    }

    pub(super) fn leave(&mut self, port: Port, slot: u32) {
        if let Some(site) = self.seats.remove(&(port, slot)).and_then(|key| self.sites.get_mut(&key)) {
            site.members.leave(Seat { port, slot });
        }
    }

    pub(super) fn say_offers(&mut self, key: &SiteKey, to: Vec<ToOffer>) {
        let Some(newest) = self.sites.get(key).and_then(|site| site.newest.clone()) else { return };
        let Newest { revision: Revision { number, root }, base, reports, edits, .. } = newest;
        for ToOffer { seat: Seat { port, slot }, with_edits } in to {
            let edits = if with_edits { edits.clone() } else { Bytes::new() };
            self.say(port, Offer { slot, number, root, base, reports, answers: false, edits });
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }

    /// Passes on which chunks of an upload are durable. They are fetched for the first member that wants them.
    pub(super) fn announce(&mut self, key: &SiteKey, chunks: &[(ChunkHash, u32)]) {
        let now = self.now;
        let is_pushed = |site: &&mut Site| site.taker.consistency() == Consistency::Publish;
        let Some(site) = self.sites.get_mut(key).filter(is_pushed) else { return };
        for (Seat { port, slot }, chunks) in site.members.announce(now, chunks) {
            self.say(port, Ahead { slot, chunks });
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }

    pub(super) fn lost(&mut self, port: Port) {
        self.sites.values_mut().for_each(|site| site.members.lost(port));
        self.seats.retain(|(of, _), _| *of != port);
        self.chunks.lost(port);
    }
}
