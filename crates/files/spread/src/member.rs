//! A member of a site: it fetches each revision as it is published, whole or its directories, and serves one to each
//! visitor.
//!
//! ```text
//!   Offer --edits--> descend --missing--> fetch --stored--> descend ... --whole--> switch --durable--> served
//! ```
//! 1. A revision is served when all of it is here, and the record that says so is durable (**SwitchWhole**,
//!    **NeverBack**). A fetch is finished before that of a newer revision begins (**FinishOne**).
//! 2. A visitor's page has one revision (**SessionKeepsView**). It is kept here while the page may ask for more, or a
//!    file of it is open (**HoldUnion**). A visitor who has seen a newer one at another member is not served an older
//!    one (**NeverBack**). Above a member that keeps a part of the content, every revision is held that it can
//!    serve. It says that another one may be stale (**SayWhenOver**): the content may be gone.
//! 3. A revision was the newest within the lease that was running when the member learned of a newer one, or that runs
//!    now. After it the member says that there may be a newer one (**SayWhenOver**).
//! 4. Reads never wait for the network: all of a served revision is here, unless the member keeps a part of the content
//!    (`content`). At a site with callback or sequential consistency, they wait for the newest revision, which is
//!    fetched for them; a sequential site has no pages. An unread revision is forgotten when its chunks are damaged and
//!    cannot be fetched.
//! 5. Chunks of an upload are fetched before its switch while nothing else is. They stay until a revision relies on
//!    them, or their time is over.
//! 6. A server that is silent, or cannot let it join, is left for the next one of its addresses. It goes back to an
//!    earlier address that answers again.

mod ahead;
mod chunks;
mod collection;
mod content;
mod fetch;
mod freshness;
mod kept;
mod patience;
mod revisions;
pub mod work;

use self::ahead::Ahead;
use self::content::Content;
use self::fetch::Fetch;
use self::freshness::Freshness;
use self::kept::Kept;
use self::patience::Patience;
use self::work::{Done, Edited, State, Work};
use crate::condemned::Condemned;
use crate::messages::{
    Chunk, Consistency, Elsewhere, FromFileServer, Gone, Held, Invalidate, Lapsed, NotJoined, NotNow, Revoke,
    ToFileServer, Unread, VisitorKey, WhenStale,
};
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use crate::tables::MEMBER;
use crate::taker::{AGAIN_AFTER, Taker};
use crate::window::Window;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use machine::{DiskDone, Machine, Opaque, Output, Parcel, Port, Table, UpstreamId, Waiter};
use tree::{ChunkHash, Parts};
use types::{Broken, GoodbyeReason, Time};

/// The callers that wait for the member to have a revision.
pub const READY: Waiter = Waiter(0);

/// How soon something is tried again that its disk or its server could not do.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a server may take to answer before the member leaves it.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// The settings of a member.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// The site.
    pub key: SiteKey,
    /// The number of this run, drawn at random.
    pub life: u64,
    /// How long a page may ask for more after its last request.
    pub visit: Duration,
    /// How long after a switch unused chunks are removed.
    pub collect_after: Duration,
    /// How long a server may take to answer: [`PATIENCE`].
    pub patience: Duration,
    /// The number of unread revisions after which it is offered no more of them, and fetches the newest for the next
    /// visitor, who waits. None has it offered every revision.
    pub idle_after: Option<u32>,
    /// The bytes of content that it keeps, beside the directories of its revisions. None has it keep all content.
    pub content_bytes: Option<u64>,
    /// The rule that is broken, if any.
    pub broken: Broken<Way>,
}

/// A visitor's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// The revision of the visitor's page, as the visitor's cookie has it.
    pub seen: Option<Number>,
    /// Whether a page is opened, which moves the visitor to the newest revision.
    pub navigates: bool,
    /// Since when the visitor waits, as an earlier answer had it: [`Opened::Later`].
    pub since: Option<Time>,
    /// Whether the visitor waits no longer.
    pub is_last: bool,
}

/// The revision for a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A view.
    View {
        /// The revision.
        revision: Revision,
        /// Whether the visitor moves to it.
        moves: bool,
        /// For how long it may not have been the newest, if that is so.
        stale: Option<Duration>,
    },
    /// The visitor has seen a newer revision than there is here.
    Behind,
    /// The revision of the visitor's page is no longer here.
    Gone,
    /// There is no revision yet.
    Nothing,
    /// The newest revision is being fetched for the visitor, who waits since then: to be opened again when the callers
    /// of [`READY`] are woken, or at the end of the visitor's patience.
    Later(Time),
}

/// The state of content that a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedContent {
    /// The fetch is under way.
    Later,
    /// The disk has it, and keeps it until the reader lets go.
    Here,
    /// The server does not have it.
    Gone,
    /// The disk could not store it.
    Unkept,
}

/// A member.
#[derive(Debug)]
pub struct Member {
    config: MemberConfig,
    taker: Taker,
    is_up: bool,
    /// Where the server before has said that the site is.
    way: Option<String>,
    /// Its start: nothing is known of leases before it.
    began: Time,
    patience: Patience,
    visitor_key: Option<VisitorKey>,
    when_stale: WhenStale,
    kept: Kept,
    /// The newest revision that it was offered.
    newest: Option<Revision>,
    freshness: Freshness,
    /// The newest revision that a visitor has seen elsewhere.
    seen: Number,
    fetch: Option<Fetch>,
    /// The looks of ended fetches that are still at the disk.
    lost_looks: usize,
    /// The offer of the newest revision, until its fetch begins.
    offered: Option<Edited>,
    report: Report,
    /// Chunks that were asked for, that wait to be asked for, and that are being stored, with their bytes.
    wanted: BTreeSet<ChunkHash>,
    queue: VecDeque<ChunkHash>,
    storing: BTreeMap<ChunkHash, u32>,
    /// Chunks that are here and damaged.
    mending: BTreeSet<ChunkHash>,
    window: Window,
    ahead: Ahead,
    content: Content,
    fetched: (u64, u64),
    condemned: Condemned,
    collect_at: Option<Time>,
    /// Whether unused chunks are removed before the next fetch, as the disk could not store the last one.
    needs_room: bool,
    retry_at: Option<Time>,
    /// The obstacle to a fetch or a collection, for people.
    trouble: Option<String>,
    is_over: bool,
    now: Time,
    outputs: VecDeque<Output>,
}

/// The report of the newest revision.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    /// Whether a publisher waits for it.
    is_awaited: bool,
    /// The revision that was reported last.
    told: Number,
}

impl Member {
    /// A member with what its record has.
    pub fn new(config: MemberConfig, state: Option<State>) -> Self {
        let broken = config.broken;
        let taker = Taker::new(config.key.clone(), 0, config.life, broken);
        let visitor_key = state.as_ref().map(|state| state.visitor_key);
        let when_stale = state.as_ref().map_or(WhenStale::default(), |state| state.when_stale);
        let keeps_all = config.content_bytes.is_none();
        let is_part = state.as_ref().is_some_and(|state| state.parts == Parts::Directories);
        let content = Content::new(config.content_bytes, state.is_none() || is_part);
        // A member that keeps all content can serve no revision of which its record has only directories.
        let (kept, seen) = match state {
            Some(state) if is_part && keeps_all => (Vec::new(), state.revisions.last().map(|last| last.number)),
            Some(state) => (state.revisions, None),
            None => (Vec::new(), None),
        };
        let kept = Kept::new(kept);
        let newest = kept.current();
        Self {
            taker,
            is_up: false,
            way: None,
            began: Time::ZERO,
            patience: Patience::new(config.patience),
            visitor_key,
            when_stale,
            kept,
            newest,
            freshness: Freshness::default(),
            seen: seen.unwrap_or(Number::NONE),
            fetch: None,
            lost_looks: 0,
            offered: None,
            report: Report::default(),
            wanted: BTreeSet::new(),
            queue: VecDeque::new(),
            storing: BTreeMap::new(),
            mending: BTreeSet::new(),
            window: Window::default(),
            ahead: Ahead::default(),
            content,
            fetched: (0, 0),
            condemned: Condemned::new(broken),
            collect_at: None,
            needs_room: false,
            retry_at: None,
            trouble: None,
            is_over: false,
            now: Time::ZERO,
            outputs: VecDeque::new(),
            config,
        }
    }

    /// The revision that is served.
    pub fn current(&self) -> Option<Revision> {
        self.kept.current()
    }

    /// Returns the newest revision that it was offered.
    pub fn newest(&self) -> Option<Revision> {
        self.newest
    }

    /// The key that signs the cookies of visitors, once there is a revision.
    pub fn visitor_key(&self) -> Option<VisitorKey> {
        self.visitor_key
    }

    /// Whether the site wants its servers to serve a revision that may be stale.
    pub fn when_stale(&self) -> WhenStale {
        self.when_stale
    }

    /// The revisions that are here as a whole, the oldest first.
    pub fn kept(&self) -> impl Iterator<Item = Revision> {
        self.kept.all()
    }

    /// The trees whose chunks are here and stay.
    pub fn roots(&self) -> Vec<ChunkHash> {
        self.kept.roots()
    }

    /// The revisions that are held above for this member.
    pub fn held_above(&self, now: Time) -> impl Iterator<Item = Number> {
        let is_leased = self.taker.is_leased(now);
        self.taker.held().iter().copied().filter(move |_| is_leased)
    }

    /// Returns the obstacle to a fetch or a collection, for people.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// For how long the revision that is served may not have been the newest, if that is so.
    pub fn stale(&self, now: Time) -> Option<Duration> {
        let until = self.fresh_until();
        let is_over = now >= until || !self.is_readable(now, self.current_number());
        (is_over && !self.is_broken(Way::Silent)).then(|| self.unknown_for(now, until))
    }

    /// Whether all of a revision can be read: its content is here, or held above.
    fn is_readable(&self, now: Time, number: Number) -> bool {
        let is_held = self.taker.is_leased(now) && self.taker.holds(number);
        is_held || self.parts() == Parts::Whole || self.is_broken(Way::UnheldAsHeld)
    }

    /// How long ago a lease ended; since the start for one of an earlier run.
    fn unknown_for(&self, now: Time, until: Time) -> Duration {
        now.since(until.max(self.began))
    }

    /// Chooses the revision for a visitor, which is kept while the page may ask for more.
    pub fn open(&mut self, now: Time, visit: Visit) -> Opened {
        let Some(current) = self.kept.current() else { return Opened::Nothing };
        let Visit { seen, navigates, since, is_last } = visit;
        self.freshness.demand.visited();
        let since = since.unwrap_or(now);
        let may_wait = !is_last && self.may_wait();
        if let Some(seen) = seen.filter(|seen| *seen > current.number)
            && !self.is_broken(Way::NoFloor)
        {
            // There may be a newer one that this member was not offered: the server is asked, once for each.
            self.seen = self.seen.max(seen);
            if seen > self.newest_number() {
                self.taker.ask_for(now, seen);
            }
            return if may_wait { self.later(now, since) } else { Opened::Behind };
        }
        let until = now + self.config.visit;
        let has_pages = self.consistency() != Consistency::Sequential;
        let stays = seen.filter(|_| !navigates && has_pages && !self.is_broken(Way::MoveSessions));
        if let Some(number) = stays.filter(|number| *number != current.number) {
            let Some((root, fresh_until)) = self.kept.visit(number, until) else { return Opened::Gone };
            let is_over = now >= fresh_until || !self.is_readable(now, number);
            let is_stale = is_over && !self.is_broken(Way::Silent);
            let stale = is_stale.then(|| self.unknown_for(now, fresh_until));
            return Opened::View { revision: Revision { number, root }, moves: false, stale };
        }
        let is_sure = self.is_sure(now, since);
        if !is_sure && may_wait {
            return self.later(now, since);
        }
        self.kept.visit(current.number, until);
        let stale = if is_sure && self.is_readable(now, current.number) { None } else { self.stale(now) };
        Opened::View { revision: current, moves: navigates && seen != Some(current.number), stale }
    }

    /// A revision that is kept here is read: it stays for as long as a page of it would. Returns its tree.
    pub fn visit(&mut self, now: Time, number: Number) -> Option<ChunkHash> {
        self.kept.visit(number, now + self.config.visit).map(|(root, _)| root)
    }

    /// Begins to read a revision that is kept here, as an open file does: it stays until [`Member::end`], unless newer
    /// ones that are read need its place. Returns its tree.
    pub fn begin(&mut self, number: Number) -> Option<ChunkHash> {
        if self.is_broken(Way::SessionsLapse) {
            return self.visit(self.now, number);
        }
        self.kept.begin(number)
    }

    /// Ends what [`Member::begin`] began.
    pub fn end(&mut self, number: Number) {
        self.kept.end(number);
    }

    /// A chunk that is here was found damaged: it is fetched again.
    pub fn damaged(&mut self, hash: ChunkHash) {
        self.ahead.remove(&hash);
        self.content.rely_on(&[hash]);
        if self.mending.insert(hash) && !self.wanted.contains(&hash) && !self.storing.contains_key(&hash) {
            self.queue.push_back(hash);
            self.ask_for_chunks();
        }
    }

    fn is_broken(&self, way: Way) -> bool {
        self.config.broken.is(way)
    }

    fn ask(&mut self, message: impl Into<ToFileServer>) {
        if self.is_up {
            self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
        }
    }

    fn work(&mut self, work: Work) {
        self.outputs.push_back(Output::Disk(Opaque::new(work)));
    }

    fn current_number(&self) -> Number {
        self.kept.current().map_or(Number::NONE, |current| current.number)
    }

    fn consistency(&self) -> Consistency {
        self.taker.consistency()
    }

    fn newest_number(&self) -> Number {
        self.newest.map_or(Number::NONE, |newest| newest.number)
    }

    /// The revisions that are read here, or about to be. A member that keeps a part of the content can read the others
    /// only if they are held, too.
    fn held_for_readers(&self) -> BTreeSet<Number> {
        let target = self.fetch.as_ref().map(|fetch| fetch.revision.number);
        let ends = [self.current_number(), self.newest_number()];
        let kept = self.kept.all().map(|it| it.number).filter(|_| self.parts() == Parts::Directories);
        self.kept
            .visited(self.now)
            .chain(kept)
            .chain(ends)
            .chain(target)
            .filter(|number| *number != Number::NONE)
            .collect()
    }
}

impl Member {
    /// Sends the messages that are due to the server.
    fn pump(&mut self) {
        // A batch may have waited for a look of a fetch that has ended.
        self.sweep();
        self.settle();
        self.make_room_for_content();
        let (now, used) = (self.now, self.held_for_readers());
        let freed: Vec<Number> = self.taker.held().iter().filter(|number| !used.contains(number)).copied().collect();
        for number in freed {
            self.taker.release(number);
        }
        if !self.is_up {
            return;
        }
        let at = self.serves_from();
        if self.report.is_awaited && at >= self.newest_number() && self.report.told < at {
            self.taker.report_now(now);
        }
        let seen = self.seen.max(self.newest_number()).max(self.freshness.invalidated);
        if let Some(join) = self.taker.join(now, (at, seen), used.into_iter()) {
            self.ask_server(join);
        }
        if let Some(renew) = self.taker.renewal(now, at) {
            self.report.told = renew.at;
            self.ask_server(renew);
        }
        // The revision that is being fetched is for those who wait since before it was offered.
        let has = self.current_number();
        let may_ask = self.fetch.is_none() && self.freshness.asks_at.is_none();
        let wants = self.freshness.is_wanted && may_ask && self.is_lazy();
        let shares = self.freshness.demand.is_frequent();
        if let Some(acquire) = wants.then(|| self.taker.acquire(now, has, shares)).flatten() {
            self.ask_server(acquire);
        }
        self.fetch_ahead();
    }

    /// Asks for a lease, which the server answers in time or is left.
    fn ask_server(&mut self, message: impl Into<ToFileServer>) {
        self.patience.asks(self.now);
        self.ask(message);
    }

    /// When the server is left if it does not answer.
    fn leaves_at(&self) -> Option<Time> {
        self.patience.ends(self.taker.until(), !self.wanted.is_empty()).filter(|_| self.is_up)
    }

    fn leave(&mut self) {
        self.patience.rest();
        let text = "it grants no lease".to_owned();
        self.outputs.push_back(Output::End(Port::SERVER, GoodbyeReason::Silent, text));
    }

    fn hear_message(&mut self, message: FromFileServer) {
        let now = self.now;
        match message {
            FromFileServer::NotJoined(NotJoined { why: NotNow::NotYet, .. }) => self.patience.put_off(),
            _ => self.patience.rest(),
        }
        match message {
            FromFileServer::Joined(joined) => {
                let revision = Revision { number: joined.number, root: joined.root };
                self.visitor_key = Some(joined.key);
                if mem::replace(&mut self.when_stale, joined.when_stale) != joined.when_stale {
                    // The record is written again by a collection.
                    self.collect_at = Some(now);
                }
                // Before the lease, which says nothing of what was before.
                self.hear(revision, None, false);
                if !joined.shares {
                    self.freeze();
                }
                self.taker.joined(now, &joined);
                if self.seen > self.newest_number() {
                    self.taker.ask_for(now, self.seen);
                }
                self.freshness.demand.is_idle &= !joined.shares;
                self.confirm();
                self.trouble = None;
            }
            FromFileServer::NotJoined(NotJoined { why, .. }) => {
                let after = match why {
                    NotNow::NotYet => AGAIN_AFTER,
                    NotNow::NoSite | NotNow::Full => RETRY_AFTER,
                };
                self.taker.ask_at(now + after);
                self.trouble = match why {
                    NotNow::NotYet => self.trouble.take(),
                    NotNow::NoSite => {
                        Some(format!("the store has no site '{}', or no revision of it", self.config.key))
                    }
                    NotNow::Full => Some("the store or relay has as many members as it takes".to_string()),
                };
            }
            FromFileServer::Offer(offer) => {
                self.taker.promised(offer.number);
                let (base, root, edits) = (offer.base, offer.root, offer.edits);
                let edited = (!edits.is_empty()).then_some(Edited { base, root, parts: self.parts(), edits });
                let answers = offer.answers || self.is_broken(Way::TakeForAnswer);
                match answers.then(|| self.taker.granted()).flatten() {
                    Some(asked) => self.acquired(offer.number, asked),
                    None => self.pushed(),
                }
                self.hear(Revision { number: offer.number, root }, edited, offer.reports);
                self.confirm();
            }
            FromFileServer::Ahead(ahead) => self.announced(ahead.chunks),
            FromFileServer::Invalidate(Invalidate { number, reports, .. }) => {
                self.freeze();
                self.taker.invalidated();
                self.freshness.invalidated = self.freshness.invalidated.max(number);
                self.report.is_awaited = reports;
            }
            FromFileServer::Revoke(Revoke { .. }) => {
                self.release();
            }
            FromFileServer::Renewed(renewed) => self.taker.renewed(now, &renewed),
            FromFileServer::Lapsed(Lapsed { .. }) => self.taker.ask_at(now),
            FromFileServer::Held(Held { number, is_held, .. }) if is_held => self.taker.promised(number),
            FromFileServer::Held(Held { number, .. }) => self.taker.refused(number),
            FromFileServer::Chunk(Chunk { hash, bytes }) => self.arrived(hash, bytes),
            FromFileServer::Gone(Gone { hash }) => self.gone(hash),
            FromFileServer::Unread(Unread { hash, text }) => self.unread(hash, &text),
            FromFileServer::Elsewhere(Elsewhere { address }) => self.way = Some(address),
            _ => {}
        }
    }
}

impl Machine for Member {
    fn start(&mut self, now: Time) {
        (self.now, self.began) = (now, now);
        // A member that keeps a part of the content looks at once what is here.
        let after = if self.parts() == Parts::Whole { self.config.collect_after } else { Duration::ZERO };
        self.collect_at = Some(now + after);
    }

    fn connected(&mut self, now: Time, _: Port) {
        (self.now, self.is_up) = (now, true);
        self.ask_for_chunks();
        self.pump();
    }

    fn disconnected(&mut self, now: Time, _: Port) {
        (self.now, self.is_up) = (now, false);
        self.patience.rest();
        self.taker.lost();
        if mem::take(&mut self.freshness.is_wanted) {
            // Its visitors are served what is here.
            self.outputs.push_back(Output::Wake(READY));
        }
        let wanted = mem::take(&mut self.wanted);
        for hash in wanted.into_iter().rev() {
            if !self.ahead.ask_again(hash) && !self.content.ask_again(hash) {
                self.queue.push_front(hash);
            }
        }
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        self.now = now;
        self.hear_message(message.expect());
        self.pump();
    }

    fn disk(&mut self, now: Time, done: DiskDone) {
        let Ok(done) = done.open::<Done>() else { return };
        self.now = now;
        match done {
            Done::Applied(applied) => self.applied(applied),
            Done::Descended(found) => self.descended(found),
            Done::Put(hash, stored) => self.stored(hash, stored),
            Done::Switched(number, switched) => self.switched(number, switched),
            Done::Marked(Ok(unused)) => self.marked(unused),
            Done::Swept(swept) if self.parts() == Parts::Directories => {
                self.content_removed(swept.map(drop));
            }
            Done::Swept(Ok(swept)) => self.condemned.removed(swept),
            Done::Marked(Err(why)) => {
                // Perhaps a node is damaged.
                self.kept.doubt();
                self.give_up_collection(why);
            }
            Done::Swept(Err(why)) => self.give_up_collection(why),
        }
        self.pump();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs.clear();
        self.outputs.push_back(Output::Wake(READY));
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let due = Some(self.taker.due()).filter(|_| self.is_up);
        let own = [self.collect_at, self.retry_at, self.ahead.until(), self.leaves_at(), self.freshness.asks_at];
        own.into_iter().chain([due]).flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.leaves_at().is_some_and(|at| at <= now) {
            self.leave();
        }
        self.freshness.asks_at.take_if(|at| *at <= now);
        if self.retry_at.take_if(|at| *at <= now).is_some() {
            if let Some(fetch) = &mut self.fetch {
                fetch.again();
            }
            self.descend();
            self.content.ask_for_unread();
            self.ask_for_chunks();
        }
        self.end_ahead();
        if self.collect_at.is_some_and(|at| at <= now) {
            self.begin_collection();
        }
        self.pump();
    }

    fn way(&mut self, _: Time, _: UpstreamId) -> Option<String> {
        self.way.take()
    }

    fn has_way(&self, _: UpstreamId) -> bool {
        self.way.is_some()
    }

    fn looks_back(&self, _: UpstreamId) -> bool {
        self.is_up
    }

    fn go_back(&mut self, _: UpstreamId) {
        let text = "an address that comes before this one answers again".to_owned();
        self.outputs.push_back(Output::End(Port::SERVER, GoodbyeReason::Done, text));
    }

    fn status(&self) -> Vec<Table> {
        let missing = self.fetch.as_ref().map_or(0, Fetch::missing);
        let (content_bytes, content_bytes_max) = self.content.bytes();
        Vec::from([MEMBER.one([
            ("revision", self.current_number().count.into()),
            ("newest", self.newest_number().count.into()),
            ("is_stale", u64::from(self.stale(self.now).is_some()).into()),
            ("missing", missing.into()),
            ("ahead", self.ahead.here().count().into()),
            ("held", self.kept.len().into()),
            ("fetched", self.fetched.0.into()),
            ("fetched_bytes", self.fetched.1.into()),
            ("content_bytes", content_bytes.into()),
            ("content_bytes_max", content_bytes_max.into()),
            ("waiting", self.content.waiting().into()),
            ("removed", self.content.removed.into()),
        ])])
    }
}
