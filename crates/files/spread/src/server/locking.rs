//! Locks of paths at a file server, and the publishes that meet them (**PExcludes**).
//!
//! ```text
//!   publish: whole, or merged --> comparing --changes no path that another publisher has locked--> goes on
//!               ^                     |
//!               |                  changes some: their locks are recalled
//!               |                     v
//!               +--all released-- put aside          later publishes pass it
//! ```
//! A lock is granted before a publish is compared, which then meets it, or after the publish has ended. Locks of paths
//! that a publish waits for are granted after it, so it waits once for each.

use super::FileServer;
use super::Purpose;
use super::site::{Asked, Next, Stage, UnderWay};
use super::work::{Compare, NotDone, Work};
use crate::locks::Granted;
use crate::messages::{KeepLocks, Lock, LockOver, Locked, LocksKept, RecallLock, Refusal, Token, Unlock};
use crate::number::{Number, SiteKey};
use crate::rule::Way;
use alloc::vec::Vec;
use core::mem;
use machine::Port;
use tree::Path;
use types::Time;
use types::lease::{millis, shorter};

impl FileServer {
    pub(super) fn lock(&mut self, now: Time, port: Port, Lock { identity, space, site: name, path }: Lock) {
        let (key, ticket) = (SiteKey { space, name }, identity.number);
        if !self.sites.get(&key).is_some_and(|site| site.exists && !site.is_leaving) {
            return self.refuse(port, ticket, Refusal::NoSite, "");
        }
        let Some(path) = Path::parse(&path).ok().filter(|path| !path.names().is_empty()) else {
            return self.refuse(port, ticket, Refusal::Malformed, "no file can have the path");
        };
        if self.locks.is_left(port, identity) {
            return;
        }
        // A request that is said again was not answered: a lock that was granted to it is not in use.
        let before = self.locks.unlock(identity);
        let is_first = before.as_ref().is_some_and(|(_, was_held)| *was_held);
        if !self.locks.ask((port, identity), &key, path, is_first) {
            self.refuse(port, ticket, Refusal::NoRoom, "too many locks are held or waited for");
        }
        if let Some((before, _)) = before {
            self.locks_ended(now, &before);
        }
        self.grant_locks(now, &key);
    }

    pub(super) fn keep_locks(&mut self, now: Time, port: Port, KeepLocks { asked, publisher, tokens }: KeepLocks) {
        let span = self.span();
        let (over, recalled) = self.locks.keep((now, now + span), (port, publisher), &tokens);
        self.say_over(over.into_iter().map(|token| (port, token)).collect());
        self.say_recalled(recalled.into_iter().map(|token| (port, token)).collect());
        let lease_ms = millis(if self.is_broken(Way::SameClocks) { span } else { shorter(span) });
        self.say(port, LocksKept { asked, lease_ms });
        for key in self.locks.waited_for(port) {
            self.grant_locks(now, &key);
        }
    }

    pub(super) fn unlock(&mut self, now: Time, Unlock { identity }: Unlock) {
        if let Some((key, _)) = self.locks.unlock(identity) {
            self.locks_ended(now, &key);
        }
    }

    /// Goes on with the publishes and requests that have waited for locks which have ended.
    pub(super) fn locks_ended(&mut self, now: Time, key: &SiteKey) {
        self.begin_next(now, key);
        self.grant_locks(now, key);
    }

    /// Puts the publishes first in line that have waited for locks which have ended.
    pub(super) fn take_up(&mut self, now: Time, key: &SiteKey) {
        let Some(site) = self.sites.get_mut(key).filter(|site| !site.aside.is_empty()) else { return };
        let locks = &self.locks;
        let waits = |asked: &Asked| {
            let held = locks.of_others(now, key, &asked.switch.locks);
            held.iter().any(|path| asked.meets.contains(path))
        };
        let (aside, free): (Vec<Asked>, Vec<Asked>) = mem::take(&mut site.aside).into_iter().partition(waits);
        site.aside = aside;
        for asked in free.into_iter().rev() {
            site.queue.push_front(asked);
        }
    }

    /// Grants the free locks of a site, unless a publish that is under way may change their paths, and recalls those
    /// that others wait for.
    pub(super) fn grant_locks(&mut self, now: Time, key: &SiteKey) {
        if self.locks.is_empty() {
            return;
        }
        let grants_early = self.is_broken(Way::GrantEarly);
        let Some(site) = self.sites.get(key) else { return };
        if site.grants_locks() || grants_early {
            let (number, root) = site.head().map_or((Number::NONE, None), |head| (head.number, Some(head.root)));
            let granted = self.locks.grant(now, key, |path| site.is_waited_for(path));
            for Granted { port, ticket, token } in granted {
                self.say(port, Locked { ticket, token, number, root });
            }
        }
        let recalled = self.locks.recall_wanted(now, key);
        self.say_recalled(recalled);
    }

    /// Goes on with a publish that is going to make this revision, if it changes no path that another publisher has
    /// locked.
    pub(super) fn meet_locks(&mut self, now: Time, key: &SiteKey, next: Next) {
        let (takes_old, passes) = (self.is_broken(Way::OldToken), self.is_broken(Way::SiteOverP));
        let Some(site) = self.sites.get_mut(key) else { return };
        let base = site.head().map(|head| head.root);
        let Some(UnderWay { asked, stage }) = &mut site.under_way else { return };
        let own = &asked.switch.locks;
        if !takes_old && own.iter().any(|token| !self.locks.is_of(now, key, *token)) {
            let (port, ticket) = (asked.port, asked.switch.ticket);
            site.under_way = None;
            if let Some(port) = port {
                self.refuse(
                    port,
                    ticket,
                    Refusal::LockOver,
                    "the lock has ended, and others may have changed its file",
                );
            }
            return self.begin_next(now, key);
        }
        let paths = self.locks.of_others(now, key, own);
        let is_ignored = if own.is_empty() { passes } else { takes_old };
        if paths.is_empty() || is_ignored {
            return self.revoke(now, key, next);
        }
        let root = next.revision.root;
        *stage = Stage::Comparing(next);
        let id = self.work_for(Purpose::Publish(key.clone()));
        self.work(Work::Compare(id, Compare { base, root, paths }));
    }

    /// The disk has compared the publish under way with the locked paths.
    pub(super) fn compared(&mut self, now: Time, key: &SiteKey, compared: Result<Vec<Path>, NotDone>) {
        let Some(site) = self.sites.get_mut(key) else { return };
        let Some(UnderWay { mut asked, stage: Stage::Comparing(next) }) =
            site.under_way.take_if(|it| matches!(it.stage, Stage::Comparing(_)))
        else {
            return;
        };
        let changed = match compared {
            Ok(changed) => changed,
            Err(why) => {
                if let Some(port) = asked.port {
                    self.refuse_for(port, asked.switch.ticket, why);
                }
                return self.begin_next(now, key);
            }
        };
        let mut met = self.locks.of_others(now, key, &asked.switch.locks);
        met.retain(|path| changed.contains(path));
        if asked.switch.ends_locks {
            let ended = self.locks.end_all(key, &met);
            self.say_over(ended);
            met.clear();
        }
        let Some(site) = self.sites.get_mut(key) else { return };
        if met.is_empty() {
            site.under_way = Some(UnderWay { asked, stage: Stage::Comparing(next.clone()) });
            return self.revoke(now, key, next);
        }
        let recalled = self.locks.recall(now, key, &met);
        asked.meets.extend(met);
        site.aside.push(asked);
        self.say_recalled(recalled);
        self.begin_next(now, key);
    }

    /// Ends the locks of a site that was removed.
    pub(super) fn end_locks(&mut self, key: &SiteKey) {
        let ended = self.locks.end_site(key);
        self.say_over(ended);
        for (port, ticket) in self.locks.take_waiting(key) {
            self.refuse(port, ticket, Refusal::NoSite, "the site was removed");
        }
    }

    fn say_over(&mut self, ended: Vec<(Port, Token)>) {
        for (port, token) in ended {
            self.say(port, LockOver { token });
        }
    }

    fn say_recalled(&mut self, recalled: Vec<(Port, Token)>) {
        for (port, token) in recalled {
            self.say(port, RecallLock { token });
        }
    }
}
