//! Subscribers at a file server: joins, leases, holds, offers, chunks.

use super::FileServer;
use super::site::{LastOffer, Waiting};
use super::work::Settings;
use super::work::Work;
use crate::holders::{Seat, ToOffer};
use crate::messages::{Everywhere, Held, Hold, Join, Joined, Lapsed, NotJoined, NotNow, Offer, Renew, Renewed};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use alloc::vec::Vec;
use bytes::Bytes;
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
        let (span, broken) = (self.span(), self.config.broken);
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
        let joined = site.holders.join(now, (seat, life), at, (asked_for, is_there), span);
        let Some((lease_ms, held)) = joined else {
            return self.say(port, NotJoined { slot, why: NotNow::Full });
        };
        let Revision { number, root } = head;
        let Settings { keep, visitor_key } = site.settings;
        self.seats.insert((port, slot), key);
        self.say(port, Joined { slot, asked, lease_ms, number, root, keep, key: visitor_key, held });
    }

    pub(super) fn seat(&self, port: Port, slot: u32) -> Option<SiteKey> {
        self.seats.get(&(port, slot)).cloned()
    }

    pub(super) fn renew(&mut self, now: Time, port: Port, renew: &Renew) {
        let &Renew { slot, asked, at, ref released } = renew;
        let (seat, span) = (Seat { port, slot }, self.span());
        let key = self.seat(port, slot);
        let Some(site) = key.as_ref().and_then(|key| self.sites.get_mut(key)) else {
            return self.say(port, Lapsed { slot });
        };
        // The newest revision stays held for the subscribers that were offered it.
        let head = site.head_number();
        let released: Vec<Number> = released.iter().copied().filter(|number| *number != head).collect();
        site.holders.report(seat, at, &released);
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
        self.report(now, &key);
        self.drop_revisions(now, &key);
    }

    /// Offers a site's newest revision.
    pub(super) fn offer(&mut self, now: Time, key: &SiteKey, revision: Revision) {
        let Some(site) = self.sites.get_mut(key) else { return };
        let to = site.holders.offer(now, revision.number);
        self.say_offers_of(key, to, revision);
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
            self.say(port, Offer { slot, number, root, base, reports, edits });
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }

    /// Sends *everywhere* to the publishers whose wait is over.
    pub(super) fn report(&mut self, now: Time, key: &SiteKey) {
        let until = self.removed.get(key).map_or(self.opens_at, |until| self.opens_at.max(*until));
        if now < until && !self.is_broken(Way::ForgetEarlier) {
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
