//! Subscribers at a file server: joins, leases, holds, offers, chunks.

use super::site::{LastOffer, Site, Waiting};
use super::work::Settings;
use super::work::Work;
use super::{FileServer, Purpose};
use crate::holders::{Admitted, Asks, Seat, Shares, ToOffer};
use crate::messages::{
    Acquire, Ahead, Consistency, Everywhere, Held, Hold, Invalidate, Join, Joined, Lapsed, NotJoined, NotNow, Offer,
    Renew, Renewed, Revoke,
};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use machine::{Output, Port};
use tree::ChunkHash;
use types::limits::SITES_PER_SESSION_MAX;
use types::{GoodbyeReason, Time};

impl FileServer {
    pub(super) fn join(&mut self, now: Time, port: Port, join: Join) {
        let Join { slot, asked, life, at, seen, space, site: name, held } = join;
        let key = SiteKey { space, name };
        if !at.is_sound() || !seen.is_sound() {
            return self.end(now, port, GoodbyeReason::Malformed, "a number that no revision has");
        }
        let on_port = self.seats.range((port, 0)..=(port, u32::MAX)).count();
        if on_port >= SITES_PER_SESSION_MAX && !self.seats.contains_key(&(port, slot)) {
            return self.say(port, NotJoined { slot, why: NotNow::Full });
        }
        let (span, broken) = (self.span_of(&key), self.config.broken);
        let Some(site) = self.sites.get_mut(&key) else {
            return self.say(port, NotJoined { slot, why: NotNow::NoSite });
        };
        let Some(head) = site.head() else { return self.say(port, NotJoined { slot, why: NotNow::NoSite }) };
        let newer = Some(seen.max(at)).filter(|newer| *newer > head.number && newer.may_follow(head.number, self.born));
        if let Some(newer) = newer.filter(|_| !broken.is(Way::RestoreBack)) {
            self.publish_again(now, &key, newer, head);
            return self.say(port, NotJoined { slot, why: NotNow::NotYet });
        }
        let asked_for = held.into_iter().chain((!broken.is(Way::PinLater)).then_some(head.number));
        let (seat, revisions) = (Seat { port, slot }, &site.revisions);
        let is_there = |number| revisions.contains_key(&number);
        let may_share = if site.is_locked() { Shares::Kept } else { Shares::Newest };
        let joined = site.holders.join(now, (seat, life), at, (asked_for, is_there), (span, may_share));
        let Some(Admitted { lease_ms, held, shares, .. }) = joined else {
            return self.say(port, NotJoined { slot, why: NotNow::Full });
        };
        let Revision { number, root } = head;
        let Settings { keep, visitor_key: key_of_visitors, consistency, when_stale, .. } = site.settings;
        let is_revoked = may_share == Shares::Kept && shares;
        self.seats.insert((port, slot), key);
        let key = key_of_visitors;
        self.say(
            port,
            Joined { slot, asked, lease_ms, number, root, keep, key, consistency, when_stale, shares, held },
        );
        if is_revoked {
            self.say(port, Revoke { slot });
        }
    }

    pub(super) fn release(&mut self, now: Time, port: Port, slot: u32) {
        let Some(key) = self.seat(port, slot) else { return };
        if let Some(site) = self.sites.get_mut(&key) {
            site.holders.release(Seat { port, slot });
        }
        self.released(now, &key);
        self.report(now, &key);
    }

    pub(super) fn acquire(&mut self, now: Time, port: Port, Acquire { slot, at, shares }: Acquire) {
        let Some(key) = self.seat(port, slot) else { return self.say(port, Lapsed { slot }) };
        let Some(site) = self.sites.get_mut(&key) else { return self.say(port, Lapsed { slot }) };
        if !site.holders.acquire(now, Asks { seat: Seat { port, slot }, has: at, shares }) {
            return self.say(port, Lapsed { slot });
        }
        self.grant(now, &key);
    }

    /// Offers the newest revision to those who ask for it, unless another one is about to take its place.
    pub(super) fn grant(&mut self, now: Time, key: &SiteKey) {
        let Some(site) = self.sites.get_mut(key).filter(|site| !site.is_locked()) else { return };
        let Some(head) = site.head() else { return };
        for asks in site.holders.asking(now) {
            let Some(site) = self.sites.get_mut(key) else { return };
            let has = asks.has;
            if let Some((base, edits)) = site.edits_from(has) {
                site.holders.grant(asks, head.number);
                let (Revision { number, root }, Seat { port, slot }) = (head, asks.seat);
                let reports = site.offer.as_ref().is_some_and(|offer| offer.reports);
                self.say(port, Offer { slot, number, root, base, reports, answers: true, edits });
                self.outputs.push_back(Output::AwaitRoom(port));
            } else if let Some(&base) = site.revisions.get(&has)
                && site.look_for_edits(has)
            {
                let id = self.work_for(Purpose::Edits(key.clone(), has, head.number));
                self.work(Work::Edits(id, base, head.root));
            }
        }
    }

    /// The disk has found the edits that lead from one revision to another, which was the newest.
    pub(super) fn found_edits(&mut self, now: Time, key: &SiteKey, (has, newest): (Number, Number), edits: Bytes) {
        if let Some(site) = self.sites.get_mut(key).filter(|site| site.head_number() == newest) {
            site.keep_edits(has, edits);
        }
        self.grant(now, key);
    }

    pub(super) fn seat(&self, port: Port, slot: u32) -> Option<SiteKey> {
        self.seats.get(&(port, slot)).cloned()
    }

    pub(super) fn renew(&mut self, now: Time, port: Port, renew: &Renew) {
        let &Renew { slot, asked, at, ref released } = renew;
        let (seat, key) = (Seat { port, slot }, self.seat(port, slot));
        let span = key.as_ref().map_or(Duration::ZERO, |key| self.span_of(key));
        let Some(site) = key.as_ref().and_then(|key| self.sites.get_mut(key)) else {
            return self.say(port, Lapsed { slot });
        };
        // The newest revision stays held for the subscribers that were offered it.
        let head = site.head_number();
        let released: Vec<Number> = released.iter().copied().filter(|number| *number != head).collect();
        site.holders.report(seat, at, &released);
        if site.is_locked() && site.holders.shares(now, seat) {
            // A publish waits for its release, and no longer than for the lease that it has.
            return;
        }
        let Some(lease_ms) = site.holders.renew(now, seat, span) else {
            return self.say(port, Lapsed { slot });
        };
        let owed = site.holders.owed(now, seat, head);
        if let (Some(to), Some(key)) = (owed, &key) {
            self.say_offers(key, Vec::from([to]));
        }
        self.say(port, Renewed { slot, asked, lease_ms });
        if let Some(key) = &key {
            self.report(now, key);
            if !released.is_empty() {
                self.drop_revisions(now, key);
            }
        }
    }

    pub(super) fn hold(&mut self, now: Time, port: Port, Hold { slot, number }: Hold) {
        let site = self.seat(port, slot).and_then(|key| self.sites.get_mut(&key));
        let is_held = site.is_some_and(|site| {
            site.revisions.contains_key(&number) && site.holders.hold(now, Seat { port, slot }, number)
        });
        self.say(port, Held { slot, number, is_held });
    }

    pub(super) fn leave(&mut self, now: Time, port: Port, slot: u32) {
        let Some(key) = self.seats.remove(&(port, slot)) else { return };
        if let Some(site) = self.sites.get_mut(&key) {
            site.holders.leave(Seat { port, slot });
        }
        self.released(now, &key);
        self.report(now, &key);
        self.drop_revisions(now, &key);
    }

    /// Offers a site's newest revision, or says that there is one.
    pub(super) fn offer(&mut self, now: Time, key: &SiteKey, revision: Revision) {
        let Some(site) = self.sites.get_mut(key) else { return };
        match site.settings.consistency {
            Consistency::Publish => {
                let to = site.holders.offer(now, revision.number);
                self.say_offers_of(key, to, revision);
            }
            Consistency::Callback => {
                let (number, reports) = (revision.number, site.offer.as_ref().is_some_and(|offer| offer.reports));
                for Seat { port, slot } in site.holders.invalidate(now, number, reports) {
                    self.say(port, Invalidate { slot, number, reports });
                }
            }
            // No subscriber shares it yet; those who ask are offered it.
            Consistency::Sequential => {}
        }
    }

    pub(super) fn say_offers(&mut self, key: &SiteKey, to: Vec<ToOffer>) {
        if let Some(head) = self.head(key) {
            self.say_offers_of(key, to, head);
        }
    }

    pub(super) fn say_offers_of(&mut self, key: &SiteKey, to: Vec<ToOffer>, Revision { number, root }: Revision) {
        let last = self.sites.get(key).and_then(|site| site.offer.clone());
        let LastOffer { base, reports, edits } =
            last.unwrap_or(LastOffer { base: root, reports: false, edits: Bytes::new() });
        for ToOffer { seat: Seat { port, slot }, with_edits } in to {
            let edits = if with_edits { edits.clone() } else { Bytes::new() };
            self.say(port, Offer { slot, number, root, base, reports, answers: false, edits });
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }

    /// Announces chunks of an upload that are durable, to those that are offered each revision.
    pub(super) fn announce(&mut self, now: Time, key: &SiteKey, chunks: &[(ChunkHash, u32)]) {
        let is_pushed = |site: &&mut Site| site.settings.consistency == Consistency::Publish;
        let Some(site) = self.sites.get_mut(key).filter(is_pushed) else { return };
        for (Seat { port, slot }, chunks) in site.holders.announce(now, chunks) {
            self.say(port, Ahead { slot, chunks });
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }

    /// Whether this life of the server knows every subscriber that may serve a revision of a site as the newest.
    pub(super) fn knows_all(&self, now: Time, key: &SiteKey) -> bool {
        now >= self.removed.get(key).map_or(self.opens_at, |until| self.opens_at.max(*until))
    }

    /// Sends *everywhere* to the publishers whose wait is over.
    pub(super) fn report(&mut self, now: Time, key: &SiteKey) {
        if !self.knows_all(now, key) && !self.is_broken(Way::ForgetEarlier) {
            return;
        }
        let Some(site) = self.sites.get_mut(key) else { return };
        for Waiting { port, ticket, .. } in site.take_reported(now) {
            self.say(port, Everywhere { ticket });
        }
    }

    pub(super) fn want(&mut self, now: Time, port: Port, hashes: Vec<ChunkHash>) {
        if !self.wants.want(port, hashes) {
            return self.end(now, port, GoodbyeReason::Protocol, "more chunks are asked for than were answered");
        }
        self.read_for(port);
    }

    pub(super) fn read_for(&mut self, port: Port) {
        for hash in self.wants.begin(port) {
            self.work(Work::Read(hash));
        }
    }
}
