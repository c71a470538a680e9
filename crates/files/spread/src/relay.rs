//! The relay of a group for the sites of a space: one subscription of each site for all members, and one fetch of each
//! chunk.
//!
//! ```text
//!   file server <--Join, Renew, Want-- relay <--Join, Renew, Want-- members
//!               --Offer, Chunk------->       --Offer, Chunk------->
//! ```
//! 1. A relay holds what is held below it and the newest revision, and nothing else (**HoldUnion**). A member's hold is
//!    granted only if it is held above, for which the file server is asked (**HeldAbove**).
//! 2. A member's lease is what is left of the relay's own (**LeaseWithin**), and runs on when its session is lost
//!    (**EndByLease**).
//! 3. The relay reports the oldest revision that a member with a lease serves (**WaitCountsAll**).
//! 4. The newest revision is shared with members only while the file server shares it with the relay, which releases it
//!    when no member serves it (**RevokeFirst**).
//! 5. A chunk is compared with its name before it is kept or passed on (**VerifyChunk**).
//!
//! A relay is soft state: one that was restarted is another subscriber, and what the one before it held is held until
//! its lease is over.

mod cache;
mod chunks;
mod members;
mod upstream;

use self::cache::ChunkCache;
use crate::holders::{Holders, Seat};
use crate::messages::{
    Ahead, Chunk, Elsewhere, FromFileServer, Gone, Lapsed, Leave, LockOver, NotNow, Refusal, Refused, Release, Revoke,
    ToFileServer, Unread, VisitorKey, Want,
};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use crate::taker::Taker;
use crate::wants::Wants;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;
use machine::{Machine, Output, Parcel, Port, UpstreamId};
use tree::ChunkHash;
use types::{Broken, GoodbyeReason, Time};

/// How long a site is followed that no member has joined.
const FOLLOWED_FOR: Duration = Duration::from_secs(10);

/// How soon a site is asked for again that is not there.
const NO_SITE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The settings of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// The number of this run, drawn at random.
    pub life: u64,
    /// The bytes of chunks that it keeps.
    pub cache_bytes: usize,
    /// The rule that is broken, if any.
    pub broken: Broken<Way>,
}

/// A relay.
#[derive(Debug)]
pub struct Relay {
    config: RelayConfig,
    is_up: bool,
    /// Where the server before has said that the sites are.
    way: Option<String>,
    sites: BTreeMap<SiteKey, Site>,
    /// The sites by the relay's own numbers in its session.
    slots: BTreeMap<u32, SiteKey>,
    last_slot: u32,
    /// The sites by the members' numbers in theirs.
    seats: BTreeMap<(Port, u32), SiteKey>,
    chunks: Chunks,
    now: Time,
    /// When it was last looked whose lease is over.
    checked_at: Time,
    outputs: VecDeque<Output>,
}

/// The figures of a relay's status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) sites: usize,
    pub(crate) members: usize,
    pub(crate) chunks: usize,
    pub(crate) chunk_bytes: usize,
    pub(crate) fetched: u64,
}

impl Figures {
    /// The figures of two relays together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            sites: self.sites + other.sites,
            members: self.members + other.members,
            chunks: self.chunks + other.chunks,
            chunk_bytes: self.chunk_bytes + other.chunk_bytes,
            fetched: self.fetched + other.fetched,
        }
    }
}

/// A site that members follow.
#[derive(Debug)]
struct Site {
    taker: Taker,
    newest: Option<Newest>,
    /// The newest revision of which it was told no more than the number.
    invalidated: Number,
    /// Whether the file server waits for the members to release the newest revision.
    is_revoked: bool,
    /// The newest revision that a member has seen.
    seen: Number,
    members: Holders,
    /// Revisions that the file server is asked to hold, and for whom.
    asks: BTreeMap<Number, Vec<Seat>>,
    /// The revision that was reported.
    told: Number,
    /// Why it is not joined, if the file server has said so.
    refused: Option<NotNow>,
    /// The end of its time without a member: a member that was not joined yet may come again.
    wanted_until: Time,
}

/// The newest revision of a site, as it was offered.
#[derive(Clone, Debug)]
struct Newest {
    revision: Revision,
    base: ChunkHash,
    /// The revision whose tree that is, if it was the newest before.
    from: Number,
    reports: bool,
    edits: Bytes,
    keep: u32,
    key: VisitorKey,
}

/// The chunks of all sites.
#[derive(Debug)]
struct Chunks {
    cache: ChunkCache,
    wants: Wants,
    /// Chunks that the file server was asked for, and those that it will be.
    asked: BTreeSet<ChunkHash>,
    queue: VecDeque<ChunkHash>,
    fetched: u64,
}

impl Relay {
    /// A relay that follows nothing yet. Its only upstream session is with the file server.
    pub fn new(config: RelayConfig) -> Self {
        let chunks = Chunks {
            cache: ChunkCache::new(config.cache_bytes),
            wants: Wants::default(),
            asked: BTreeSet::new(),
            queue: VecDeque::new(),
            fetched: 0,
        };
        Self {
            config,
            is_up: false,
            way: None,
            sites: BTreeMap::new(),
            slots: BTreeMap::new(),
            last_slot: 0,
            seats: BTreeMap::new(),
            chunks,
            now: Time::ZERO,
            checked_at: Time::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// Whether no site is followed.
    pub(crate) fn is_unused(&self) -> bool {
        self.sites.is_empty()
    }

    /// Keeps at most so many bytes of chunks from now on.
    pub(crate) fn keep_bytes(&mut self, bytes_max: usize) {
        self.chunks.cache.keep_bytes(bytes_max);
    }

    /// The figures of its status.
    pub(crate) fn figures(&self) -> Figures {
        let (chunks, chunk_bytes) = self.chunks.cache.size();
        let members = self.sites.values().map(|site| site.members.connected()).sum::<usize>();
        Figures { sites: self.sites.len(), members, chunks, chunk_bytes, fetched: self.chunks.fetched }
    }

    fn is_broken(&self, way: Way) -> bool {
        self.config.broken.is(way)
    }

    fn say(&mut self, port: Port, message: impl Into<FromFileServer>) {
        self.outputs.push_back(Output::Send(port, Parcel::new(message.into()), None));
    }

    fn ask(&mut self, message: impl Into<ToFileServer>) {
        if self.is_up {
            self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
        }
    }

    fn end(&mut self, port: Port, reason: GoodbyeReason, why: &str) {
        self.outputs.push_back(Output::End(port, reason, why.to_owned()));
        self.lost(port);
    }
}

impl Site {
    fn newest_number(&self) -> Number {
        self.newest.as_ref().map_or(Number::NONE, |newest| newest.revision.number)
    }

    /// The newest revision that the file server has named.
    fn known(&self) -> Number {
        self.newest_number().max(self.invalidated)
    }
}

impl Chunks {
    fn lost(&mut self, port: Port) {
        self.wants.lost(port);
        let wants = &self.wants;
        self.queue.retain(|hash| wants.is_wanted(hash));
    }

    /// The file server is gone: what was asked for and is still wanted is asked for again.
    fn ask_again(&mut self) {
        let asked = core::mem::take(&mut self.asked);
        asked.into_iter().filter(|hash| self.wants.is_wanted(hash)).for_each(|hash| self.queue.push_back(hash));
    }
}

impl Machine for Relay {
    fn start(&mut self, now: Time) {
        self.now = now;
    }

    fn connected(&mut self, now: Time, port: Port) {
        self.now = now;
        if port == Port::SERVER {
            self.is_up = true;
            self.pump();
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        self.now = now;
        if port == Port::SERVER {
            self.is_up = false;
            self.sites.values_mut().for_each(|site| site.taker.lost());
            self.chunks.ask_again();
        } else {
            self.lost(port);
        }
    }

    fn has_room(&mut self, port: Port) {
        self.chunks.wants.has_room(port);
        self.read_for(port);
        let keys: Vec<SiteKey> = self.seats.range((port, 0)..=(port, u32::MAX)).map(|(_, key)| key.clone()).collect();
        for key in keys {
            let Some(site) = self.sites.get_mut(&key) else { continue };
            let newest = site.newest_number();
            let to = site.members.has_room(self.now, port, newest);
            self.say_offers(&key, to);
            self.grant(&key);
            self.announce(&key, &[]);
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        self.now = now;
        if port == Port::SERVER {
            match message.expect::<FromFileServer>() {
                FromFileServer::Joined(joined) => self.joined(&joined),
                FromFileServer::NotJoined(not_joined) => self.not_joined(not_joined),
                FromFileServer::Offer(offer) => self.offered(offer),
                FromFileServer::Ahead(Ahead { slot, chunks }) => {
                    if let Some(key) = self.slots.get(&slot).cloned() {
                        self.announce(&key, &chunks);
                    }
                }
                FromFileServer::Renewed(renewed) => {
                    if let Some(site) = self.slots.get(&renewed.slot).and_then(|key| self.sites.get_mut(key)) {
                        site.taker.renewed(now, &renewed);
                    }
                }
                FromFileServer::Lapsed(Lapsed { slot }) => {
                    if let Some(site) = self.slots.get(&slot).and_then(|key| self.sites.get_mut(key)) {
                        site.taker.ask_at(now);
                    }
                }
                FromFileServer::Held(held) => self.held(held),
                FromFileServer::Invalidate(invalidate) => self.invalidated(invalidate),
                FromFileServer::Revoke(Revoke { slot }) => self.revoked(slot),
                // Chunks change no lease and no hold.
                FromFileServer::Chunk(Chunk { hash, bytes }) => return self.arrived(hash, Some(bytes)),
                FromFileServer::Gone(Gone { hash }) => return self.arrived(hash, None),
                FromFileServer::Unread(Unread { hash, text }) => return self.unread(hash, text),
                FromFileServer::Elsewhere(Elsewhere { address }) => self.way = Some(address),
                _ => {}
            }
        } else {
            let refused = |ticket| Refused { ticket, why: Refusal::Relay, head: Number::NONE, text: String::new() };
            match message.expect::<ToFileServer>() {
                ToFileServer::Join(join) => self.join(port, join),
                ToFileServer::Renew(renew) => self.renew(port, &renew),
                ToFileServer::Hold(hold) => self.hold(port, hold),
                ToFileServer::Leave(Leave { slot }) => self.leave(port, slot),
                ToFileServer::Acquire(acquire) => self.acquire(port, acquire),
                ToFileServer::Release(Release { slot }) => self.release(port, slot),
                ToFileServer::Want(Want { hashes }) => return self.want(port, hashes),
                ToFileServer::Have(have) => self.say(port, refused(have.ticket)),
                ToFileServer::Put(put) => self.say(port, refused(put.ticket)),
                ToFileServer::Switch(switch) => self.say(port, refused(switch.ticket)),
                ToFileServer::Change(change) => self.say(port, refused(change.ticket)),
                ToFileServer::Collect(collect) => self.say(port, refused(collect.ticket)),
                ToFileServer::Survey(survey) => self.say(port, refused(survey.ticket)),
                ToFileServer::Lock(lock) => self.say(port, refused(lock.identity.number)),
                ToFileServer::KeepLocks(keep) => {
                    keep.tokens.into_iter().for_each(|token| self.say(port, LockOver { token }));
                }
                ToFileServer::HandOver(hand_over) => self.say(port, refused(hand_over.ticket)),
                ToFileServer::Enter(_) | ToFileServer::Unlock(_) | ToFileServer::Goodbye(_) => {}
            }
        }
        self.pump();
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
        let ends = self.sites.values().filter_map(|site| site.members.next_end(self.checked_at));
        let unused = self.sites.values().filter(|site| site.members.is_empty()).map(|site| site.wanted_until);
        let dues = self.sites.values().map(|site| site.taker.due()).filter(|_| self.is_up);
        ends.chain(unused).chain(dues).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        (self.now, self.checked_at) = (now, now);
        self.sites.values_mut().for_each(|site| site.members.forget(now));
        self.leave_unused();
        self.pump();
    }

    fn way(&mut self, _: Time, _: UpstreamId) -> Option<String> {
        self.way.take()
    }

    fn has_way(&self, _: UpstreamId) -> bool {
        self.way.is_some()
    }
}
