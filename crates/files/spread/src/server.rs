//! A file server: it makes publishes durable in one order, and offers each to its subscribers.
//!
//! ```text
//!   Switch --> queue --the base is the head, or kept--> checking --whole--> publishing --durable--> head: offered,
//!                |                                       |    |              ^    |                  acknowledged
//!            Overtaken,                         Incomplete    +--> merging --+  Failed
//!             NotKept                                                 |
//!                                                                 Conflict
//! ```
//! 1. A site's publishes are made one after the other. Each has an identity, and is made once (**OneSwitch**); it names
//!    the tree that it was made from, which must be the newest one's. Of a publish that is merged, each path that it
//!    changes must be in the newest tree as it was in that one (**CompareBase**).
//! 2. All chunks of its tree are there, durably, before it is made (**SwitchHasAll**). Nothing is acknowledged or
//!    offered before it is durable (**DurableFirst**).
//! 3. Numbers increase (**NeverBack**). A subscriber that has a later revision than the head shows that the store was
//!    restored from an older copy: the head is published again, under a number above the subscriber's.
//! 4. A revision is dropped when it is neither held nor among the newest ones, which are kept. A restarted server knows
//!    of no hold, so it drops nothing for as long as a lease lasts (**EndByLease**).
//! 5. Unused chunks, those of ended uploads included, are removed while publishes are made (`crate::condemned`). A
//!    restarted server waits for a lease: it knows of no upload either.
//! 6. The server waits for a subscriber until its lease ends, and no longer. A subscriber that does not read is offered
//!    only the newest revision when it does.
//! 7. Subscribers that are offered each revision are told which chunks of an upload have become durable. These have no
//!    number, and can be gone by the time a subscriber asks.
//! 8. Subscribers of a site with callback consistency are told once that there is a newer revision, and ask for it. A
//!    publish of a sequential site revokes the newest revision first, and waits until it is released everywhere, or the
//!    leases are over (**RevokeFirst**).
//! 9. While a publisher has the lock of a path, it alone changes the path (**PExcludes**; `locking`).
//! 10. A node of a store of several has the sites of some spaces. Sessions for others are told where to go (`spaces`).

mod collections;
mod locking;
mod publishers;
mod site;
mod spaces;
mod subscribers;
mod uploads;
pub mod work;

use self::site::Site;
use self::spaces::Spaces;
use self::uploads::Uploads;
use self::work::{Done, NotDone, SiteChange, SiteState, Work, WorkId};
use crate::condemned::Condemned;
use crate::locks::Locks;
use crate::messages::{FromFileServer, Leave, Missing, Refusal, Refused, Release, Stored, ToFileServer, Want};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use crate::tables::FILE_SERVER;
use crate::wants::Wants;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use machine::{DiskDone, Machine, Opaque, Output, Parcel, Port, Table};
use tree::ChunkHash;
use types::lease::longer;
use types::limits::OFFER_CONTENT_BYTES_MAX;
use types::{Broken, GoodbyeReason, Time};

/// The settings of a file server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// How long a subscriber is believed to serve what it was told, without a word from it. A site can have a shorter
    /// lease.
    pub lease: Duration,
    /// The life of the store: greater than that of every revision that it knows.
    pub life: u64,
    /// How long after revisions were dropped unused chunks are removed.
    pub collect_after: Duration,
    /// Chunks that a publisher sends in messages of more bytes are announced to subscribers.
    pub announces_over: usize,
    /// Whether this process is the whole store, so that the server has the sites of all spaces. A node has those that
    /// it adopts ([`FileServer::adopt`]).
    pub is_alone: bool,
    /// The rule that is broken, if any.
    pub broken: Broken<Way>,
}

impl ServerConfig {
    /// The usual settings.
    pub fn new(life: u64) -> Self {
        let (lease, collect_after) = (Duration::from_secs(10), Duration::from_secs(600));
        Self {
            lease,
            life,
            collect_after,
            announces_over: OFFER_CONTENT_BYTES_MAX,
            is_alone: true,
            broken: Broken::NONE,
        }
    }
}

/// A file server.
#[derive(Debug)]
pub struct FileServer {
    config: ServerConfig,
    spaces: Spaces,
    sites: BTreeMap<SiteKey, Site>,
    /// The sites of subscribers, by their own numbers.
    seats: BTreeMap<(Port, u32), SiteKey>,
    /// Sites that were removed, and until when a subscriber may serve one as fresh. A new site of the name waits for
    /// that (**WaitCountsAll**).
    removed: BTreeMap<SiteKey, Time>,
    uploads: Uploads,
    locks: Locks,
    wants: Wants,
    condemned: Condemned,
    /// The publishers that wait for the collection under way, and those that asked after it had begun.
    collectors: Vec<(Port, u64)>,
    next_collectors: Vec<(Port, u64)>,
    /// When one is due.
    collect_at: Option<Time>,
    /// When a publisher last needed the disk, and when it last removed chunks.
    busy_at: Time,
    swept_at: Time,
    under_way: BTreeMap<WorkId, Purpose>,
    last_work: WorkId,
    /// The number of the last publish of the server's own.
    last_own: u64,
    /// The life with which it began.
    born: u64,
    /// Until then subscribers may hold what this life of the server knows nothing of.
    opens_at: Time,
    now: Time,
    /// When it was last looked what is due.
    checked_at: Time,
    published: u64,
    outputs: VecDeque<Output>,
}

/// The purpose of a piece of work.
#[derive(Debug)]
enum Purpose {
    Request(Port, u64),
    /// Chunks for a site, some of which are announced once they are durable.
    Put(Port, u64, SiteKey, Vec<(ChunkHash, u32)>),
    Publish(SiteKey),
    /// The edits from one revision to another.
    Edits(SiteKey, Number, Number),
    Change(Port, u64, SiteKey, SiteChange),
    /// A space that another node wants.
    HandOver(Port, u64, String),
}

impl FileServer {
    /// A file server of these sites.
    pub fn new(config: ServerConfig, sites: Vec<SiteState>) -> Self {
        let broken = config.broken;
        let sites = sites.into_iter().map(|state| (state.key.clone(), Site::recovered(state, broken))).collect();
        Self {
            born: config.life,
            locks: Locks::new(config.life),
            spaces: Spaces::new(config.is_alone),
            config,
            sites,
            seats: BTreeMap::new(),
            removed: BTreeMap::new(),
            uploads: Uploads::default(),
            wants: Wants::default(),
            condemned: Condemned::new(broken),
            collectors: Vec::new(),
            next_collectors: Vec::new(),
            collect_at: None,
            busy_at: Time::ZERO,
            swept_at: Time::ZERO,
            under_way: BTreeMap::new(),
            last_work: WorkId(0),
            last_own: 0,
            opens_at: Time::ZERO,
            now: Time::ZERO,
            checked_at: Time::ZERO,
            published: 0,
            outputs: VecDeque::new(),
        }
    }

    /// The newest revision of a site.
    pub fn head(&self, key: &SiteKey) -> Option<Revision> {
        self.sites.get(key)?.head()
    }

    /// The revisions of a site that are kept, the oldest first.
    pub fn revisions(&self, key: &SiteKey) -> impl Iterator<Item = Revision> {
        let revisions = self.sites.get(key).into_iter().flat_map(|site| site.revisions.iter());
        revisions.map(|(&number, &root)| Revision { number, root })
    }

    fn is_broken(&self, way: Way) -> bool {
        self.config.broken.is(way)
    }

    /// The longest lease as it is counted here.
    fn span(&self) -> Duration {
        self.counted(self.config.lease)
    }

    /// The lease of a site as it is counted here. It is at most the server's, for which a restarted server waits.
    fn span_of(&self, key: &SiteKey) -> Duration {
        let lease = self.sites.get(key).and_then(|site| site.settings.lease);
        self.counted(lease.map_or(self.config.lease, |lease| lease.min(self.config.lease)))
    }

    fn counted(&self, lease: Duration) -> Duration {
        if self.is_broken(Way::SameClocks) { lease } else { longer(lease) }
    }

    fn say(&mut self, port: Port, message: impl Into<FromFileServer>) {
        self.outputs.push_back(Output::Send(port, Parcel::new(message.into()), None));
    }

    fn refuse(&mut self, port: Port, ticket: u64, why: Refusal, text: impl Into<String>) {
        self.say(port, Refused { ticket, why, head: Number::NONE, text: text.into() });
    }

    fn refuse_for(&mut self, port: Port, ticket: u64, why: NotDone) {
        let (why, text) = match why {
            NotDone::Malformed(text) => (Refusal::Malformed, text),
            NotDone::NoRoom(text) => (Refusal::NoRoom, text),
            NotDone::NoSite => (Refusal::NoSite, String::new()),
            NotDone::IsThere => (Refusal::IsThere, String::new()),
            NotDone::Elsewhere => (Refusal::Failed, "its sites have another home by now: try again".to_owned()),
            NotDone::Failed(text) => (Refusal::Failed, text),
        };
        self.refuse(port, ticket, why, text);
    }

    fn end(&mut self, now: Time, port: Port, reason: GoodbyeReason, why: &str) {
        self.outputs.push_back(Output::End(port, reason, why.to_owned()));
        self.disconnected(now, port);
    }

    fn work(&mut self, work: Work) {
        self.outputs.push_back(Output::Disk(Opaque::new(work)));
    }

    fn work_for(&mut self, purpose: Purpose) -> WorkId {
        self.last_work.0 += 1;
        self.busy_at = self.now;
        self.under_way.insert(self.last_work, purpose);
        self.last_work
    }

    /// Hears a message of a session whose sites are here.
    fn hear(&mut self, now: Time, port: Port, message: ToFileServer) {
        match message {
            ToFileServer::Join(join) => self.join(now, port, join),
            ToFileServer::Renew(renew) => self.renew(now, port, &renew),
            ToFileServer::Hold(hold) => self.hold(now, port, hold),
            ToFileServer::Leave(Leave { slot }) => self.leave(now, port, slot),
            ToFileServer::Acquire(acquire) => self.acquire(now, port, acquire),
            ToFileServer::Release(Release { slot }) => self.release(now, port, slot),
            ToFileServer::Want(Want { hashes }) => self.want(now, port, hashes),
            ToFileServer::Have(have) => self.have(now, port, have),
            ToFileServer::Put(put) => self.put(now, port, put),
            ToFileServer::Switch(switch) => self.switch(now, port, switch),
            ToFileServer::Change(change) => self.change(now, port, change),
            ToFileServer::Collect(collect) => self.collect(now, port, collect.ticket),
            ToFileServer::Survey(survey) => self.survey(now, port, survey),
            ToFileServer::Lock(lock) => self.lock(now, port, lock),
            ToFileServer::KeepLocks(keep) => self.keep_locks(now, port, keep),
            ToFileServer::Unlock(unlock) => self.unlock(now, unlock),
            ToFileServer::HandOver(hand_over) => self.hand_over(port, hand_over),
            ToFileServer::Enter(_) | ToFileServer::Goodbye(_) => {}
        }
    }
}

impl Machine for FileServer {
    fn start(&mut self, now: Time) {
        self.now = now;
        // Also one without sites: it may have been put back from a copy that had none.
        self.opens_at = now + self.span();
    }

    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, now: Time, port: Port) {
        self.sites.values_mut().for_each(|site| site.lost(port));
        self.seats.retain(|(of, _), _| *of != port);
        self.uploads.end(port, now + self.span());
        self.locks.lost(port);
        self.wants.lost(port);
        self.collectors.retain(|(of, _)| *of != port);
        self.next_collectors.retain(|(of, _)| *of != port);
        self.spaces.lost(port);
        self.under_way.retain(|_, purpose| match purpose {
            Purpose::Request(of, _) | Purpose::Put(of, ..) | Purpose::HandOver(of, ..) => *of != port,
            Purpose::Publish(_) | Purpose::Edits(..) | Purpose::Change(..) => true,
        });
        // Publishes of the session may have waited for locks.
        for key in self.locks.sites() {
            self.grant_locks(now, &key);
        }
    }

    fn has_room(&mut self, port: Port) {
        self.wants.has_room(port);
        self.read_for(port);
        let keys: Vec<SiteKey> = self.seats.range((port, 0)..=(port, u32::MAX)).map(|(_, key)| key.clone()).collect();
        for key in keys {
            let Some(site) = self.sites.get_mut(&key) else { continue };
            let newest = site.head_number();
            let to = site.holders.has_room(self.now, port, newest);
            self.say_offers(&key, to);
            self.grant(self.now, &key);
            self.announce(self.now, &key, &[]);
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        self.now = now;
        self.take(now, port, message.expect());
    }

    fn disk(&mut self, now: Time, done: DiskDone) {
        let Ok(done) = done.open::<Done>() else { return };
        self.now = now;
        if matches!(
            done,
            Done::Missing(..)
                | Done::Put(..)
                | Done::Checked(..)
                | Done::Merged(..)
                | Done::Compared(..)
                | Done::Published(..)
        ) {
            self.busy_at = now;
        }
        match done {
            Done::Missing(id, missing) => {
                let Some(Purpose::Request(port, ticket)) = self.under_way.remove(&id) else { return };
                match missing {
                    Ok(hashes) => self.say(port, Missing { ticket, hashes }),
                    Err(why) => self.refuse_for(port, ticket, why),
                }
            }
            Done::Put(id, put) => {
                let Some(Purpose::Put(port, ticket, key, chunks)) = self.under_way.remove(&id) else { return };
                match put {
                    Ok(()) => {
                        self.say(port, Stored { ticket });
                        self.announce(now, &key, &chunks);
                    }
                    Err(why) => self.refuse_for(port, ticket, why),
                }
            }
            Done::Checked(id, checked) => {
                if let Some(Purpose::Publish(key)) = self.under_way.remove(&id) {
                    self.checked(now, &key, checked);
                }
            }
            Done::Merged(id, merged) => {
                if let Some(Purpose::Publish(key)) = self.under_way.remove(&id) {
                    self.merged(now, &key, merged);
                }
            }
            Done::Compared(id, compared) => {
                if let Some(Purpose::Publish(key)) = self.under_way.remove(&id) {
                    self.compared(now, &key, compared);
                }
            }
            Done::Edits(id, edits) => {
                if let Some(Purpose::Edits(key, has, newest)) = self.under_way.remove(&id) {
                    self.found_edits(now, &key, (has, newest), edits);
                }
            }
            Done::Published(id, made) => {
                if let Some(Purpose::Publish(key)) = self.under_way.remove(&id) {
                    self.made(now, &key, made);
                }
            }
            Done::Changed(id, changed) => {
                if let Some(Purpose::Change(port, ticket, key, change)) = self.under_way.remove(&id) {
                    self.changed(now, (port, ticket), key, change, changed);
                }
            }
            Done::Located(space, place) => self.located(now, &space, place),
            Done::HandOver(id, term) => {
                if let Some(Purpose::HandOver(port, ticket, space)) = self.under_way.remove(&id) {
                    self.may_hand_over(now, (port, ticket), space, term);
                }
            }
            Done::Dropped(key, numbers) => self.dropped(now, &key, &numbers),
            Done::Marked(unused) => self.marked(unused),
            Done::Swept(swept) => self.swept(swept),
            Done::Read(hash, bytes) => {
                for port in self.wants.read(hash, bytes.as_ref(), &mut self.outputs) {
                    self.read_for(port);
                }
            }
            Done::Unread(hash, why) => {
                for port in self.wants.unread(hash, why, &mut self.outputs) {
                    self.read_for(port);
                }
            }
        }
        self.tell_left();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn stop(&mut self, _: &str) {
        self.outputs.clear();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let leases = self.sites.values().filter_map(|site| site.holders.next_end(self.checked_at));
        let removed = self.removed.values().copied();
        let ends = leases.chain(removed).chain([self.opens_at]).chain(self.uploads.next_end()).chain(self.collect_at);
        let ends = ends.chain(self.sweep_at()).chain(self.locks.next_end());
        ends.filter(|at| *at > self.checked_at).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        (self.now, self.checked_at) = (now, now);
        if self.uploads.forget(now) {
            self.collect_later(now);
        }
        self.sites.values_mut().for_each(|site| site.holders.forget(now));
        self.removed.retain(|_, until| now < *until);
        for key in self.locks.forget(now) {
            self.locks_ended(now, &key);
        }
        let spaces = &self.spaces;
        for key in self.sites.keys().filter(|key| spaces.has(&key.space)).cloned().collect::<Vec<_>>() {
            self.released(now, &key);
            self.drop_revisions(now, &key);
            self.report(now, &key);
        }
        if self.collect_at.is_some_and(|at| at <= now) {
            // A collection under way misses the chunks of revisions that were dropped since it began.
            self.collect_at = (!self.condemned.is_idle()).then(|| now + self.config.collect_after);
            self.begin_collection();
        }
        self.sweep();
    }

    fn status(&self) -> Vec<Table> {
        let subscribers = self.sites.values().map(|site| site.holders.connected()).sum::<usize>();
        Vec::from([FILE_SERVER.one([
            ("sites", self.sites.len().into()),
            ("subscribers", subscribers.into()),
            ("published", self.published.into()),
        ])])
    }
}
