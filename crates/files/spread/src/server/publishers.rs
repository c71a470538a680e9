//! Publishers at a file server: uploads, switches, changes of sites.

use super::site::{Asked, LastOffer, Next, Site, Stage, UnderWay, Waiting};
use super::work::{
    Check, Checked, Merged, MergedTree, NewRevision, NewSize, NotDone, Settings, SiteChange, SiteState, Work,
};
use super::{FileServer, Purpose};
use crate::announced::announced_of;
use crate::holders::Seat;
use crate::messages::{
    Change, ChangeKind, Changed, Consistency, Have, Identity, Lapsed, Published, Put, Refusal, Refused, Revoke, Size,
    Survey, Surveyed, Switch,
};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use crate::settings::SiteSettings;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use machine::Port;
use tree::Sides;
use types::limits::{HASHES_PER_MESSAGE_MAX, PUBLISHER_REQUESTS_MAX};
use types::{GoodbyeReason, Time};

/// The note of a revision that a restored store publishes again.
const RESTORED: &str = "published again, as the store was restored from an older copy";

impl FileServer {
    pub(super) fn have(&mut self, now: Time, port: Port, Have { ticket, hashes }: Have) {
        if !self.uploads.add(port, &hashes) {
            return self.refuse(port, ticket, Refusal::NoRoom, "one publish names too many chunks");
        }
        self.condemned.spare(&hashes);
        let id = self.work_for(Purpose::Request(port, ticket));
        self.work(Work::Missing(id, hashes));
        self.bound_requests(now, port);
    }

    pub(super) fn put(&mut self, now: Time, port: Port, Put { ticket, space, site: name, chunks }: Put) {
        self.condemned.spare(chunks.iter().map(|(hash, _)| hash));
        let announced = announced_of(&chunks, self.config.announces_over);
        let id = self.work_for(Purpose::Put(port, ticket, SiteKey { space, name }, announced));
        self.work(Work::Put(id, chunks));
        self.bound_requests(now, port);
    }

    /// Ends the session of a publisher with more requests under way than [`PUBLISHER_REQUESTS_MAX`].
    pub(super) fn bound_requests(&mut self, now: Time, port: Port) {
        let of_port = |purpose: &&Purpose| match purpose {
            Purpose::Request(of, _) | Purpose::Put(of, ..) | Purpose::Change(of, ..) | Purpose::HandOver(of, ..) => {
                *of == port
            }
            Purpose::Publish(_) | Purpose::Edits(..) => false,
        };
        let collectors = self.collectors.iter().chain(&self.next_collectors).filter(|(of, _)| *of == port).count();
        let of_site = |site: &Site| site.publishes_of(port);
        let publishes: usize = self.sites.values().map(of_site).sum();
        if self.under_way.values().filter(of_port).count() + collectors + publishes > PUBLISHER_REQUESTS_MAX {
            self.end(now, port, GoodbyeReason::Protocol, "more requests than were answered");
        }
    }

    pub(super) fn switch(&mut self, now: Time, port: Port, switch: Switch) {
        let key = SiteKey { space: switch.space.clone(), name: switch.site.clone() };
        let broken = self.config.broken;
        let site = self.sites.entry(key.clone()).or_insert_with(|| Site::new(broken));
        let (identity, ticket) = (switch.identity, switch.ticket);
        if let Some(revision) = site.made_by(identity).filter(|_| !broken.is(Way::AnyIdentity)) {
            self.tell_published(port, &key, &switch, revision, true);
            return self.report(now, &key);
        }
        if site.is_leaving {
            return self.refuse(port, ticket, Refusal::Failed, "the site is being removed: try again");
        }
        if site.is_left(port, identity) {
            return;
        }
        let mut asked = Asked::new(Some(port), switch);
        match &mut site.under_way {
            // A repeated request gets the answer; the tree is the one that was checked.
            Some(UnderWay { asked: before, .. }) if before.switch.identity == identity => {
                before.port = asked.port;
                (before.switch.ticket, before.switch.waits) = (ticket, asked.switch.waits);
            }
            _ if site.queue.len() + site.aside.len() >= PUBLISHER_REQUESTS_MAX => {
                self.refuse(port, ticket, Refusal::NoRoom, "too many publishes of this site are under way");
            }
            _ => {
                site.queue.retain(|it| it.switch.identity != identity);
                if let Some(at) = site.aside.iter().position(|it| it.switch.identity == identity) {
                    asked.meets = site.aside.remove(at).meets;
                }
                site.queue.push_back(asked);
            }
        }
        self.begin_next(now, &key);
        self.bound_requests(now, port);
    }

    /// Begins the next publish of a site that can be made.
    pub(super) fn begin_next(&mut self, now: Time, key: &SiteKey) {
        self.take_up(now, key);
        loop {
            let Some(site) = self.sites.get_mut(key) else { return };
            if site.under_way.is_some() {
                return;
            }
            self.grant_locks(now, key);
            let Some(site) = self.sites.get_mut(key) else { return };
            let Some(asked) = site.queue.pop_front() else { break };
            let head = site.head();
            let (base, root) = (asked.switch.base, asked.switch.root);
            if let Some(head) = head.filter(|head| asked.switch.of == 0 && base == Some(root) && head.root == root) {
                // Nothing has changed. A publisher may wait for the revision that is there.
                if let Some(port) = asked.port {
                    self.tell_published(port, key, &asked.switch, head, false);
                }
                continue;
            }
            if let Some(why) = site.refusal(&asked.switch) {
                if let Some(port) = asked.port {
                    let (ticket, head) = (asked.switch.ticket, head.map_or(Number::NONE, |head| head.number));
                    self.say(port, Refused { ticket, why, head, text: String::new() });
                }
                continue;
            }
            let is_whole = site.is_whole(root);
            site.under_way = Some(UnderWay { asked, stage: Stage::Checking });
            if is_whole || self.is_broken(Way::SwitchBlind) {
                return self.merge(now, key, Bytes::new());
            }
            let id = self.work_for(Purpose::Publish(key.clone()));
            return self.work(Work::Check(id, Check { base: head.map(|head| head.root), root }));
        }
        self.forget_nothing(key);
        self.report(now, key);
    }

    /// Tells a publisher that its revision is durable, and notes that it waits.
    fn tell_published(&mut self, port: Port, key: &SiteKey, switch: &Switch, revision: Revision, is_new: bool) {
        let (ticket, Revision { number, root }) = (switch.ticket, revision);
        self.say(port, Published { ticket, number, root, is_new });
        if let Some(site) = self.sites.get_mut(key).filter(|_| switch.waits) {
            site.wait(Waiting { port, ticket, number });
        }
    }

    /// Publishes the head again above a revision that a subscriber has seen: the store was restored from an older copy
    /// (**NeverBack**).
    pub(super) fn publish_again(&mut self, now: Time, key: &SiteKey, above: Number, head: Revision) {
        self.config.life = self.config.life.max(above.life + 1);
        let Some(site) = self.sites.get_mut(key) else { return };
        if site.under_way.is_some() || site.is_leaving {
            return;
        }
        self.last_own += 1;
        let identity = Identity { publisher: self.config.life, number: self.last_own };
        let (space, name) = (key.space.clone(), key.name.clone());
        let switch = Switch {
            ticket: 0,
            identity,
            space,
            site: name,
            base: Some(head.root),
            root: head.root,
            of: head.number.count,
            size: Size::default(),
            waits: false,
            merges: false,
            ends_locks: false,
            locks: Vec::new(),
            note: RESTORED.to_owned(),
        };
        let count = head.number.count.max(above.count) + 1;
        let revision = Revision { number: Number { life: self.config.life, count }, root: head.root };
        site.under_way = Some(UnderWay { asked: Asked::new(None, switch), stage: Stage::Checking });
        let size = NewSize::Whole(Size::default());
        self.revoke(now, key, Next { revision, size, edits: Bytes::new() });
    }

    pub(super) fn next_number(&self, key: &SiteKey) -> Number {
        let head = self.sites.get(key).map_or(Number::NONE, Site::head_number);
        Number { life: self.config.life.max(head.life), count: head.count + 1 }
    }

    /// Forgets a site whose creation has failed.
    pub(super) fn forget_nothing(&mut self, key: &SiteKey) {
        if self.sites.get(key).is_some_and(Site::is_nothing) {
            self.sites.remove(key);
        }
    }

    pub(super) fn checked(&mut self, now: Time, key: &SiteKey, checked: Result<Checked, NotDone>) {
        let Some(site) = self.sites.get_mut(key) else { return };
        let Some(UnderWay { asked, stage: Stage::Checking }) = &site.under_way else { return };
        let (port, ticket, root) = (asked.port, asked.switch.ticket, asked.switch.root);
        match checked {
            Ok(Checked { lacks, new, edits }) if lacks.is_empty() => {
                self.condemned.spare(&new);
                site.checked(root);
                self.merge(now, key, edits);
            }
            not_whole => {
                site.under_way = None;
                if let Some(port) = port {
                    match not_whole {
                        Ok(Checked { lacks, .. }) => {
                            let text = format!("{} chunks of the tree are missing, {} first", lacks.len(), lacks[0]);
                            self.refuse(port, ticket, Refusal::Incomplete, text);
                        }
                        Err(why) => self.refuse_for(port, ticket, why),
                    }
                }
                self.begin_next(now, key);
            }
        }
        self.sweep();
    }

    /// Goes on with a publish whose tree is whole, and to which these edits lead from the newest one. If it was made
    /// from an older one, its changes are made to the newest (**CompareBase**).
    fn merge(&mut self, now: Time, key: &SiteKey, edits: Bytes) {
        let number = self.next_number(key);
        let Some(site) = self.sites.get(key) else { return };
        let (Some(under_way), head) = (&site.under_way, site.head()) else { return };
        let Switch { base, root, size, .. } = under_way.asked.switch;
        let Some(head) = head.filter(|_| site.merges(&under_way.asked.switch)) else {
            let (revision, size) = (Revision { number, root }, NewSize::Whole(size));
            return self.meet_locks(now, key, Next { revision, size, edits });
        };
        self.set_stage(key, Stage::Merging);
        let id = self.work_for(Purpose::Publish(key.clone()));
        self.work(Work::Merge(id, Sides { base, head: head.root, new: root }));
    }

    fn set_stage(&mut self, key: &SiteKey, stage: Stage) {
        if let Some(under_way) = self.sites.get_mut(key).and_then(|site| site.under_way.as_mut()) {
            under_way.stage = stage;
        }
    }

    pub(super) fn merged(&mut self, now: Time, key: &SiteKey, merged: Result<Merged, NotDone>) {
        let number = self.next_number(key);
        let takes_conflicts = self.is_broken(Way::MergeAnyway);
        let Some(site) = self.sites.get_mut(key) else { return };
        let Some(head) = site.head() else { return };
        let Some(UnderWay { asked, .. }) = site.under_way.take_if(|it| matches!(it.stage, Stage::Merging)) else {
            return;
        };
        let next = match merged {
            Ok(Merged::Tree(MergedTree { root, new, growth, edits })) if root != head.root => {
                self.condemned.spare(&new);
                site.checked(root);
                Some(Next { revision: Revision { number, root }, size: NewSize::Grown(growth), edits })
            }
            // The newest revision has all that it changes.
            Ok(Merged::Tree(_)) => {
                if let Some(port) = asked.port {
                    self.tell_published(port, key, &asked.switch, head, false);
                }
                None
            }
            Ok(Merged::Conflicts(_)) if takes_conflicts => {
                let Switch { root, size, .. } = asked.switch;
                Some(Next { revision: Revision { number, root }, size: NewSize::Whole(size), edits: Bytes::new() })
            }
            Ok(Merged::Conflicts(text)) => {
                if let Some(port) = asked.port {
                    let (ticket, why) = (asked.switch.ticket, Refusal::Conflict);
                    self.say(port, Refused { ticket, why, head: head.number, text });
                }
                None
            }
            Err(why) => {
                if let Some(port) = asked.port {
                    self.refuse_for(port, asked.switch.ticket, why);
                }
                None
            }
        };
        match next {
            Some(next) => {
                if let Some(site) = self.sites.get_mut(key) {
                    site.under_way = Some(UnderWay { asked, stage: Stage::Merging });
                }
                self.meet_locks(now, key, next);
            }
            None => self.begin_next(now, key),
        }
        self.sweep();
    }

    /// Makes the publish that is under way durable. A sequential site waits until no subscriber shares the newest
    /// revision (**RevokeFirst**).
    pub(super) fn revoke(&mut self, now: Time, key: &SiteKey, next: Next) {
        let Some(site) = self.sites.get_mut(key) else { return };
        let is_shared = site.settings.consistency == Consistency::Sequential && site.head().is_some();
        let Some(under_way) = site.under_way.as_mut().filter(|_| is_shared) else {
            return self.make(now, key, next);
        };
        under_way.stage = Stage::Revoking(next);
        for Seat { port, slot } in site.holders.sharing(now) {
            self.say(port, Revoke { slot });
        }
        self.released(now, key);
    }

    /// Goes on with a publish that waits for the newest revision to be released.
    pub(super) fn released(&mut self, now: Time, key: &SiteKey) {
        let knows_all = self.knows_all(now, key) || self.is_broken(Way::ForgetShares);
        let over_shares = self.is_broken(Way::SwitchShared);
        let Some(site) = self.sites.get_mut(key) else { return };
        let is_released = knows_all && !site.holders.is_shared(now) || over_shares;
        if let Some(UnderWay { stage: Stage::Revoking(next), .. }) = &site.under_way
            && is_released
        {
            let next = next.clone();
            self.make(now, key, next);
        }
    }

    /// Makes the publish that is under way durable.
    fn make(&mut self, now: Time, key: &SiteKey, next: Next) {
        let Next { revision, size, .. } = next;
        let opens = now >= self.opens_at || self.is_broken(Way::SweepAtOnce);
        let Some(site) = self.sites.get_mut(key) else { return };
        let base = site.head().map(|head| head.root);
        // From here on a dropped revision is promised to no subscriber.
        let drops = if opens && site.drops.is_empty() { site.take_droppable(now, 1) } else { Vec::new() };
        let dropped = drops.iter().map(|revision| revision.number).collect();
        let Some(under_way) = &mut site.under_way else { return };
        let (stage, port) = (Stage::Publishing { next, drops, base }, under_way.asked.port);
        under_way.stage = stage;
        let switch = &under_way.asked.switch;
        let new = NewRevision {
            key: key.clone(),
            revision,
            identity: switch.identity,
            of: Some(switch.of).filter(|of| *of > 0),
            size,
            note: switch.note.clone(),
            drops: dropped,
        };
        let ticket = switch.ticket;
        if self.is_broken(Way::AckEarly)
            && let Some(port) = port
        {
            self.say(port, Published { ticket, number: revision.number, root: revision.root, is_new: true });
        }
        if self.is_broken(Way::OfferEarly) {
            self.offer(now, key, revision);
        }
        let id = self.work_for(Purpose::Publish(key.clone()));
        self.work(Work::Publish(id, new));
    }

    pub(super) fn made(&mut self, now: Time, key: &SiteKey, made: Result<Settings, NotDone>) {
        let Some(site) = self.sites.get_mut(key) else { return };
        let Some(UnderWay { asked, stage: Stage::Publishing { next, drops, base } }) = site.under_way.take() else {
            return;
        };
        let Next { revision, edits, .. } = next;
        let (port, switch) = (asked.port, asked.switch);
        match made {
            Ok(settings) => {
                let before = site.head().map(|head| head.number);
                site.made(switch.identity, revision);
                (site.exists, site.settings) = (true, settings);
                if let Some(base) = before.filter(|_| !edits.is_empty()) {
                    site.keep_edits(base, edits.clone());
                }
                let base = base.unwrap_or(revision.root);
                site.offer = Some(LastOffer { base, reports: switch.waits, edits });
                if let Some(port) = port.filter(|_| switch.waits) {
                    site.wait(Waiting { port, ticket: switch.ticket, number: revision.number });
                }
                self.published += 1;
                if !drops.is_empty() {
                    self.collect_later(now);
                }
                if !self.is_broken(Way::OfferEarly) {
                    self.offer(now, key, revision);
                }
                if let Some(port) = port {
                    self.uploads.done(port);
                    if !self.is_broken(Way::AckEarly) {
                        let (ticket, Revision { number, root }) = (switch.ticket, revision);
                        self.say(port, Published { ticket, number, root, is_new: true });
                    }
                }
                self.report(now, key);
            }
            // Its publishers ask again where the sites are.
            Err(NotDone::Elsewhere) => return self.forget(now, &key.space),
            Err(why) => {
                if !drops.is_empty() {
                    site.put_back(drops);
                    self.condemned.spoil();
                }
                if let Some(port) = port {
                    self.refuse_for(port, switch.ticket, why);
                }
            }
        }
        self.grant(now, key);
        // Holds may have ended in the meantime.
        self.drop_revisions(now, key);
        self.begin_next(now, key);
    }

    pub(super) fn change(&mut self, now: Time, port: Port, change: Change) {
        let Change { ticket, kind, keep, lease_ms, consistency, when_stale, space, site } = change;
        let lease = lease_ms.map(|lease| Duration::from_millis(lease.into()));
        if lease.is_some_and(|lease| lease.is_zero() || lease > self.config.lease) {
            let longest = self.config.lease.as_millis();
            let why = format!("leases of this store last between 1 and {longest} ms: 'thorp serve --site-lease-ms'");
            return self.refuse(port, ticket, Refusal::Failed, why);
        }
        let settings = SiteSettings { keep, lease, consistency, when_stale };
        let (key, change) = (SiteKey { space, name: site }, SiteChange { kind, settings });
        if let Some(site) = self.sites.get_mut(&key).filter(|_| kind == ChangeKind::Remove) {
            if site.under_way.is_some() {
                return self.refuse(port, ticket, Refusal::Failed, "a publish of the site is under way: try again");
            }
            site.is_leaving = true;
        }
        let id = self.work_for(Purpose::Change(port, ticket, key.clone(), change));
        self.work(Work::Change(id, key, change));
        self.bound_requests(now, port);
    }

    pub(super) fn changed(
        &mut self,
        now: Time,
        (port, ticket): (Port, u64),
        key: SiteKey,
        change: SiteChange,
        changed: Result<Option<SiteState>, NotDone>,
    ) {
        let state = match changed {
            Ok(state) => state,
            Err(NotDone::Elsewhere) => return self.forget(now, &key.space),
            Err(why) => {
                if let Some(site) = self.sites.get_mut(&key).filter(|_| change.kind == ChangeKind::Remove) {
                    site.is_leaving = false;
                }
                return self.refuse_for(port, ticket, why);
            }
        };
        match (change.kind, state) {
            (ChangeKind::Remove, _) => {
                let removed = self.sites.remove(&key);
                // The numbers of a new site of the name are above those that subscribers know.
                let last = removed.as_ref().map_or(Number::NONE, Site::head_number);
                self.config.life = self.config.life.max(last.life) + 1;
                if let Some(until) = removed.as_ref().and_then(|site| site.holders.last_end()) {
                    let served = self.removed.entry(key.clone()).or_insert(until);
                    *served = until.max(*served);
                }
                let (waiting, aside) = removed.map_or_else(Default::default, |site| (site.waiting, site.aside));
                let waiting = waiting.into_iter().map(|it| (it.port, it.ticket));
                let aside = aside.into_iter().filter_map(|it| Some((it.port?, it.switch.ticket)));
                self.end_locks(&key);
                for (port, ticket) in waiting.chain(aside) {
                    self.refuse(port, ticket, Refusal::NoSite, "the site was removed");
                }
                self.seats.retain(|_, of| *of != key);
                self.collect_later(now);
            }
            (ChangeKind::Create, Some(state)) => {
                let broken = self.config.broken;
                let site = self.sites.entry(key).or_insert_with(|| Site::new(broken));
                if !site.exists {
                    site.take_record(state);
                }
            }
            _ => {
                if let Some(site) = self.sites.get_mut(&key) {
                    let before = site.settings;
                    site.settings.set(change.settings);
                    // Subscribers join again, and learn the settings.
                    let is_told = Settings { keep: before.keep, ..site.settings } != before;
                    let seats: Vec<Seat> = site.holders.seats().map(|(seat, _)| seat).collect();
                    for Seat { port, slot } in seats.into_iter().filter(|_| is_told) {
                        self.say(port, Lapsed { slot });
                    }
                }
            }
        }
        self.say(port, Changed { ticket });
    }

    pub(super) fn survey(&mut self, now: Time, port: Port, survey: Survey) {
        let Survey { ticket, space, site } = survey;
        let key = SiteKey { space, name: site };
        let Some(site) = self.sites.get(&key) else {
            return self.refuse(port, ticket, Refusal::NoSite, "");
        };
        let mut subscribers = site.holders.standings(now);
        subscribers.truncate(HASHES_PER_MESSAGE_MAX);
        let head = site.head_number();
        self.say(port, Surveyed { ticket, head, subscribers });
    }
}
