//! The file server of a relay: the subscription of each site.

use super::{NO_SITE_AGAIN_AFTER, Newest, Relay, Site};
use crate::holders::Seat;
use crate::messages::{
    Consistency, Held, Hold, Invalidate, Joined, Lapsed, Leave, NotJoined, NotNow, Offer, Revoke, ToFileServer,
};
use crate::number::{Number, Revision};
use crate::rule::Way;
use crate::taker::AGAIN_AFTER;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use bytes::Bytes;

impl Relay {
    pub(super) fn joined(&mut self, joined: &Joined) {
        let now = self.now;
        let Some(key) = self.slots.get(&joined.slot).cloned() else { return };
        let Some(site) = self.sites.get_mut(&key) else { return };
        site.refused = None;
        let revision = Revision { number: joined.number, root: joined.root };
        let before = (site.taker.consistency(), site.taker.when_stale());
        site.taker.joined(now, joined);
        // Members join again, and learn the settings.
        let is_told = (joined.consistency, joined.when_stale) != before;
        let told: Vec<Seat> = site.members.seats().filter(|_| is_told).map(|(seat, _)| seat).collect();
        // A member holds only revisions that are held above.
        let lost: Vec<(Seat, Number)> = site
            .members
            .seats()
            .flat_map(|(seat, holds)| holds.iter().map(move |number| (seat, *number)))
            .filter(|(_, number)| !site.taker.holds(*number))
            .collect();
        for (_, number) in &lost {
            site.members.drop_hold(*number);
        }
        let asks: Vec<Hold> = site.asks.keys().map(|number| site.taker.ask_for_hold(*number)).collect();
        let is_newer = revision.number > site.newest_number();
        let mut newest = site.newest.take().filter(|_| !is_newer).unwrap_or(Newest {
            revision,
            base: revision.root,
            from: Number::NONE,
            reports: false,
            edits: Bytes::new(),
            keep: joined.keep,
            key: joined.key,
        });
        (newest.keep, newest.key) = (joined.keep, joined.key);
        if site.seen > newest.revision.number {
            // It was seen while the Join was on its way.
            site.taker.ask_for(now, site.seen);
        }
        site.newest = Some(newest);
        site.is_revoked = false;
        let (pushes, is_lost) = (site.taker.consistency() == Consistency::Publish, !site.taker.has_share());
        let to = if is_newer && pushes { site.members.offer(now, revision.number) } else { Vec::new() };
        // Members share no more than the relay does.
        let invalidated =
            if is_newer && !pushes { site.members.invalidate(now, revision.number, false) } else { Vec::new() };
        let revoked = if is_lost { site.members.sharing(now) } else { Vec::new() };
        for (Seat { port, slot }, number) in lost {
            self.say(port, Held { slot, number, is_held: false });
        }
        for Seat { port, slot } in invalidated {
            self.say(port, Invalidate { slot, number: revision.number, reports: false });
        }
        for Seat { port, slot } in revoked {
            self.say(port, Revoke { slot });
        }
        self.say_offers(&key, to);
        self.grant(&key);
        for hold in asks {
            self.ask(hold);
        }
        for Seat { port, slot } in told {
            self.say(port, Lapsed { slot });
        }
    }

    pub(super) fn not_joined(&mut self, NotJoined { slot, why }: NotJoined) {
        let at = self.now + if why == NotNow::NoSite { NO_SITE_AGAIN_AFTER } else { AGAIN_AFTER };
        if let Some(site) = self.slots.get(&slot).and_then(|key| self.sites.get_mut(key)) {
            site.refused = Some(why);
            site.taker.ask_at(at);
        }
    }

    pub(super) fn offered(&mut self, offer: Offer) {
        let now = self.now;
        let takes_late = self.is_broken(Way::LateOffer);
        let Some(key) = self.slots.get(&offer.slot).cloned() else { return };
        let Some(site) = self.sites.get_mut(&key) else { return };
        let Offer { number, root, base, reports, answers, edits, .. } = offer;
        site.taker.promised(number);
        if answers {
            site.taker.granted();
        }
        let Some(before) = site.newest.as_ref().filter(|it| number > it.revision.number || takes_late) else {
            return self.grant(&key);
        };
        let (keep, key_of_visitors, from) = (before.keep, before.key, before.revision);
        let revision = Revision { number, root };
        let from = if from.root == base { from.number } else { Number::NONE };
        site.newest = Some(Newest { revision, base, from, reports, edits, keep, key: key_of_visitors });
        if site.taker.consistency() == Consistency::Publish {
            let to = site.members.offer(now, number);
            self.say_offers(&key, to);
        }
        self.grant(&key);
    }

    pub(super) fn invalidated(&mut self, Invalidate { slot, number, reports }: Invalidate) {
        let now = self.now;
        let Some(site) = self.slots.get(&slot).and_then(|key| self.sites.get_mut(key)) else { return };
        site.taker.invalidated();
        site.invalidated = site.invalidated.max(number);
        if let Some(newest) = &mut site.newest {
            newest.reports = reports;
        }
        for Seat { port, slot } in site.members.invalidate(now, number, reports) {
            self.say(port, Invalidate { slot, number, reports });
        }
    }

    pub(super) fn revoked(&mut self, slot: u32) {
        let now = self.now;
        let Some(site) = self.slots.get(&slot).and_then(|key| self.sites.get_mut(key)) else { return };
        site.is_revoked = true;
        for Seat { port, slot } in site.members.sharing(now) {
            self.say(port, Revoke { slot });
        }
    }

    pub(super) fn held(&mut self, Held { slot, number, is_held }: Held) {
        let now = self.now;
        let Some(site) = self.slots.get(&slot).and_then(|key| self.sites.get_mut(key)) else { return };
        if is_held {
            site.taker.promised(number);
        } else {
            site.taker.refused(number);
        }
        let asked = site.asks.remove(&number).unwrap_or_default();
        // A member may have been forgotten in the meantime.
        let hold = |seat: Seat| (seat, is_held && site.members.hold(now, seat, number));
        let answers: Vec<(Seat, bool)> = asked.into_iter().map(hold).collect();
        for (Seat { port, slot }, is_held) in answers {
            self.say(port, Held { slot, number, is_held });
        }
    }

    /// Sends the messages that are due to the file server, and releases unused revisions.
    pub(super) fn pump(&mut self) {
        let now = self.now;
        let (lets_go, keeps) = (self.is_broken(Way::RelayLetsGo), self.is_broken(Way::NeverRelease));
        let releases_early = self.is_broken(Way::ReleaseEarly);
        let mut messages: Vec<ToFileServer> = Vec::new();
        for site in self.sites.values_mut() {
            let newest = site.newest_number();
            if !keeps {
                let mut used = if lets_go { BTreeSet::new() } else { site.members.held(now) };
                used.insert(newest);
                let free = |number: &&Number| !used.contains(number) && !site.asks.contains_key(number);
                let freed: Vec<Number> = site.taker.held().iter().filter(free).copied().collect();
                for number in freed {
                    site.taker.release(number);
                }
            }
            let known = site.known();
            let at = site.members.oldest(now).map_or(known, |oldest| oldest.min(known));
            let reports = site.newest.as_ref().is_some_and(|newest| newest.reports);
            if reports && at == known && site.told < known {
                site.taker.report_now(now);
            }
            if !self.is_up {
                continue;
            }
            if site.is_revoked && (!site.members.is_shared(now) || releases_early) {
                site.is_revoked = false;
                messages.extend(site.taker.release_share().map(ToFileServer::from));
            }
            if !site.is_revoked && !site.members.asking(now).is_empty() {
                messages.extend(site.taker.acquire(now, newest, true).map(ToFileServer::from));
            }
            let read = site.taker.held().clone();
            let read: Vec<Number> = read.into_iter().chain(site.members.held(now)).collect();
            if let Some(join) = site.taker.join(now, (at, site.seen.max(known)), read.into_iter()) {
                messages.push(join.into());
            }
            if let Some(renew) = site.taker.renewal(now, at) {
                site.told = renew.at;
                messages.push(renew.into());
            }
        }
        for message in messages {
            self.ask(message);
        }
        self.ask_for_chunks();
    }

    /// Leaves the sites that no member follows.
    pub(super) fn leave_unused(&mut self) {
        let now = self.now;
        let is_unused = |site: &Site| site.members.is_empty() && now >= site.wanted_until;
        let unused = self.sites.iter().filter(|(_, site)| is_unused(site));
        for (key, slot) in unused.map(|(key, site)| (key.clone(), site.taker.slot())).collect::<Vec<_>>() {
            self.sites.remove(&key);
            self.slots.remove(&slot);
            self.ask(Leave { slot });
        }
    }
}
