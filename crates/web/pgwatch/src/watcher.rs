//! A watcher, decided: it hears the stream of a database's commits, has the hub release each, and lets the database
//! make it visible.
//!
//! ```text
//!   heard --released, and all before it--> confirmed --a snapshot has it--> visible
//!     |                                       |                                |
//!     Update to the hub                       Confirm to the database          Visible to the hub
//! ```
//! 1. The database keeps a commit invisible until the watcher has confirmed a position behind it. So a commit is
//!    confirmed only when no cache uses any more what it changes: the hub has released its update
//!    (**ConfirmReleased**). A position stands for everything that is before it (**ConfirmInOrder**).
//! 2. A commit that changes nothing of the publication is not sent, and waits all the same. Its position comes with a
//!    keepalive, which is confirmed behind the commits before it (**KeepaliveBehind**), and at once if there are none.
//! 3. An update is marked until a snapshot of the database has its transaction (**UnmarkWhenVisible**).
//! 4. A watcher without a connection hears nothing, while a server that crashes makes visible what was not confirmed.
//!    So everything is marked from the loss of a connection (**StarWhenLost**) until there is one again for which
//!    commits wait (**StarUnlessAwaited**), and all transactions have ended that ran then (**AwaitRunning**): what this
//!    watcher or another has confirmed before may not be visible yet, and is not told again.

use crate::changes::{self, Changes, MESSAGE_PREFIX, Tables};
use crate::lsn::{Lsn, Xid};
use crate::map::Map;
use crate::pgoutput::Message;
use crate::refusal::StreamError;
use crate::rule::Rule;
use crate::snapshot::Snapshot;
use coherence::Dependency;
use std::collections::VecDeque;
use types::Broken;

/// Commits that are under way at a time: until some are visible, no more is read. As many again may be replaced by a
/// mark of everything that is not released yet, and a hub elsewhere takes 4096 of an updater.
const COMMITS_MAX: usize = 1024;

/// A thing that a watcher wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The hub is notified of an update, which has this number of the watcher's.
    Update(u64, Vec<Dependency>),
    /// The database may make everything visible that is before this position.
    Confirm(Lsn),
    /// The database is asked for a snapshot.
    AskSnapshot,
    /// The hub is told that an update is visible.
    Visible(u64),
}

/// The server that a connection has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// The number that its data was given when it was made.
    pub system: u64,
    /// How often it was restored or taken over.
    pub timeline: u32,
}

/// A watcher of one database.
#[derive(Debug)]
pub struct Watcher {
    tables: Tables,
    server: Option<Server>,
    is_connected: bool,
    /// The transaction that is being heard.
    open: Option<Open>,
    /// Commits that are not confirmed, in the order of the log.
    heard: VecDeque<Heard>,
    confirmed: Lsn,
    /// Commits that are confirmed, and were in no snapshot yet.
    awaited: Vec<Awaited>,
    star: Option<Star>,
    /// Updates in whose place everything is marked, as soon as that is released.
    replaced: Vec<u64>,
    last_update: u64,
    is_asking: bool,
    broken: Broken<Rule>,
    effects: VecDeque<Effect>,
}

#[derive(Debug)]
struct Open {
    xid: Xid,
    changes: Changes,
}

#[derive(Debug)]
struct Heard {
    xid: Xid,
    end: Lsn,
    /// The last position that is known to have no other commit before it.
    through: Lsn,
    /// The number of its update, if it changes anything.
    update: Option<u64>,
    is_released: bool,
}

#[derive(Debug)]
struct Awaited {
    xid: Xid,
    /// The number of its update, unless everything is marked in its place.
    update: Option<u64>,
}

/// Everything is marked.
#[derive(Debug)]
struct Star {
    /// The number of its update; none before there was ever a connection, as the hub marks everything until then.
    update: Option<u64>,
    is_released: bool,
    until: Until,
}

/// The end of the mark of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// There is a connection, and commits wait for this watcher.
    Awaited,
    /// All transactions with smaller numbers have ended.
    Ended(u64),
    /// Nothing more.
    Now,
}

impl Watcher {
    /// A watcher that has no connection yet: one that stands by marks nothing, as another may speak for the database.
    pub fn new(map: Map, broken: Broken<Rule>) -> Self {
        Self {
            tables: Tables::new(map, broken),
            server: None,
            is_connected: false,
            open: None,
            heard: VecDeque::new(),
            confirmed: Lsn(0),
            awaited: Vec::new(),
            star: Some(Star { update: None, is_released: false, until: Until::Awaited }),
            replaced: Vec::new(),
            last_update: 0,
            is_asking: false,
            broken,
            effects: VecDeque::new(),
        }
    }

    /// The connection is lost, or there is none.
    pub fn lost(&mut self) {
        self.is_connected = false;
        self.is_asking = false;
        self.open = None;
        self.tables.forget();
        if !self.broken.is(Rule::StarWhenLost) {
            self.mark_all();
        }
        // Commits that were not confirmed come again.
        let unconfirmed = self.heard.drain(..).filter_map(|heard| heard.update);
        let awaited = self.awaited.iter_mut().filter_map(|awaited| awaited.update.take());
        self.replaced.extend(unconfirmed.chain(awaited));
        self.end_replaced();
    }

    /// There is a connection.
    pub fn connected(&mut self, server: Server) {
        if self.server.replace(server) != Some(server) {
            // Another server has other transactions of the same numbers.
            self.awaited.clear();
        }
        self.is_connected = true;
        self.confirmed = Lsn(0);
        self.mark_all();
        if self.star.as_ref().is_some_and(|star| star.update.is_none()) {
            self.star = None;
            self.mark_all();
        }
        self.ask();
    }

    /// Commits wait for this watcher, but for those of transactions with smaller numbers than `next`, and those may
    /// have been confirmed before.
    pub fn awaited(&mut self, next: u64) {
        if let Some(star) = &mut self.star {
            star.until = if self.broken.is(Rule::AwaitRunning) { Until::Now } else { Until::Ended(next) };
        }
        self.ask();
    }

    /// Commits do not wait for this watcher, although there is a connection.
    pub fn not_awaited(&mut self) {
        if !self.broken.is(Rule::StarUnlessAwaited) {
            self.mark_all();
        }
    }

    fn end_replaced(&mut self) {
        if self.star.as_ref().is_none_or(|star| star.is_released) {
            self.effects.extend(self.replaced.drain(..).map(Effect::Visible));
        }
    }

    /// Marks everything, if it is not marked.
    fn mark_all(&mut self) {
        if let Some(star) = &mut self.star {
            star.until = Until::Awaited;
            return;
        }
        let update = Some(self.update(vec![Dependency::ALL]));
        self.star = Some(Star { update, is_released: false, until: Until::Awaited });
    }

    fn update(&mut self, names: Vec<Dependency>) -> u64 {
        self.last_update += 1;
        self.effects.push_back(Effect::Update(self.last_update, names));
        self.last_update
    }

    /// A message of the stream has come.
    ///
    /// # Errors
    /// It makes no sense there: the connection should be given up.
    pub fn hear(&mut self, message: &Message<'_>) -> Result<(), StreamError> {
        match message {
            Message::Begin { xid } => {
                if self.open.is_some() {
                    return Err(StreamError::Order("a transaction inside of another"));
                }
                self.open = Some(Open { xid: *xid, changes: Changes::default() });
                return Ok(());
            }
            Message::Commit { end } => return self.commit(*end),
            // It took effect when it was said, whatever becomes of its transaction: no request waits for it.
            Message::Other | Message::Said { is_transactional: false, .. } => return Ok(()),
            _ => {}
        }
        let changes = &mut self.open.as_mut().ok_or(StreamError::Order("a change without its transaction"))?.changes;
        match message {
            Message::Relation(relation) => self.tables.show(relation, changes),
            Message::Insert { table, new } => self.tables.change(*table, None, Some(new), changes),
            Message::Update { table, old, new } => self.tables.change(*table, Some(old), Some(new), changes),
            Message::Delete { table, old } => self.tables.change(*table, Some(old), None, changes),
            Message::Truncate { tables } => tables.iter().try_for_each(|&table| self.tables.truncate(table, changes)),
            Message::Said { prefix, content, .. } if *prefix == MESSAGE_PREFIX.as_bytes() => {
                changes::said(content, changes);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A message of the transaction was too large to be looked at.
    ///
    /// # Errors
    /// There is no transaction.
    pub fn overlooked(&mut self) -> Result<(), StreamError> {
        let open = self.open.as_mut().ok_or(StreamError::Order("a change without its transaction"))?;
        open.changes.add(Dependency::ALL);
        Ok(())
    }

    fn commit(&mut self, end: Lsn) -> Result<(), StreamError> {
        let Open { xid, changes } = self.open.take().ok_or(StreamError::Order("a commit without its transaction"))?;
        let last = self.heard.back().map_or(self.confirmed, |heard| heard.end);
        if end <= last {
            return Err(StreamError::Backwards);
        }
        let names = changes.into_names();
        let update = (!names.is_empty()).then(|| self.update(names));
        self.heard.push_back(Heard { xid, end, through: end, update, is_released: update.is_none() });
        self.confirm();
        Ok(())
    }

    /// The server has sent all before this position, and may want to hear how far the watcher is.
    ///
    /// A reply that says nothing new is asked for again at once, so there is none while commits are under way: what is
    /// confirmed next is the reply.
    pub fn keepalive(&mut self, end: Lsn, wants_reply: bool) {
        let confirmed = self.confirmed;
        // The end of a transaction that is being heard should come.
        let is_between = self.open.is_none();
        let is_idle = is_between && self.heard.is_empty();
        match self.heard.back_mut() {
            _ if self.broken.is(Rule::KeepaliveBehind) => self.confirmed = confirmed.max(end),
            Some(last) if is_between => last.through = last.through.max(end),
            None if is_between => self.confirmed = confirmed.max(end),
            _ => {}
        }
        if wants_reply && is_idle || self.confirmed > confirmed {
            self.effects.push_back(Effect::Confirm(self.confirmed));
        }
        self.confirm();
    }

    /// The hub has released an update.
    pub fn released(&mut self, update: u64) {
        if let Some(star) = self.star.as_mut().filter(|star| star.update == Some(update)) {
            star.is_released = true;
            self.end_replaced();
        }
        if let Some(at) = self.heard.iter().position(|heard| heard.update == Some(update)) {
            let first = if self.broken.is(Rule::ConfirmInOrder) { 0 } else { at };
            self.heard.range_mut(first..=at).for_each(|heard| heard.is_released = true);
        }
        self.confirm();
    }

    /// Confirms the commits that are released, as far as they follow each other.
    fn confirm(&mut self) {
        let confirmed = self.confirmed;
        let is_blind = self.broken.is(Rule::ConfirmReleased);
        while self.heard.front().is_some_and(|heard| heard.is_released || is_blind) {
            let heard = self.heard.pop_front().expect("just looked at");
            self.confirmed = self.confirmed.max(heard.through);
            match heard.update {
                Some(update) if self.broken.is(Rule::UnmarkWhenVisible) => {
                    self.effects.push_back(Effect::Visible(update));
                }
                Some(_) => self.awaited.push(Awaited { xid: heard.xid, update: heard.update }),
                None => {}
            }
        }
        if self.confirmed > confirmed {
            self.effects.push_back(Effect::Confirm(self.confirmed));
        }
        self.end_star();
        self.ask();
    }

    /// A snapshot that was taken after it was asked for.
    pub fn snapshot(&mut self, snapshot: &Snapshot) {
        self.is_asking = false;
        if let Some(star) = &mut self.star
            && let Until::Ended(next) = star.until
            && snapshot.is_past(next)
        {
            star.until = Until::Now;
        }
        let seen = self.awaited.extract_if(.., |awaited| snapshot.has(awaited.xid));
        self.effects.extend(seen.filter_map(|awaited| awaited.update).map(Effect::Visible));
        self.end_star();
        self.ask();
    }

    /// Ends the mark of everything if everything that it stands for is visible.
    fn end_star(&mut self) {
        let Some(star) = &self.star else { return };
        if star.is_released && star.until == Until::Now {
            self.effects.extend(star.update.map(Effect::Visible));
            self.star = None;
        }
    }

    fn ask(&mut self) {
        let awaits_running = self.star.as_ref().is_some_and(|star| matches!(star.until, Until::Ended(_)));
        let is_worth_it = !self.awaited.is_empty() || awaits_running;
        if self.is_connected && !self.is_asking && is_worth_it {
            self.is_asking = true;
            self.effects.push_back(Effect::AskSnapshot);
        }
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether more of the stream may be heard.
    pub fn has_room(&self) -> bool {
        self.heard.len() + self.awaited.len() < COMMITS_MAX
    }

    /// How far the database may go.
    pub fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// Whether updates are told one by one, and not everything is marked.
    pub fn is_caught_up(&self) -> bool {
        self.star.is_none()
    }

    /// The number before which all transactions have to end until it has caught up, if it waits for some.
    pub fn awaits_before(&self) -> Option<u64> {
        match self.star.as_ref()?.until {
            Until::Ended(next) => Some(next),
            Until::Awaited | Until::Now => None,
        }
    }

    /// Whether everything is marked, and no cache answers with anything of before: by the hub, if there was never a
    /// connection.
    pub fn is_all_marked(&self) -> bool {
        self.star.as_ref().is_some_and(|star| star.is_released || star.update.is_none())
    }

    /// The commits that are not confirmed, and those that are and were in no snapshot yet.
    pub fn under_way(&self) -> (usize, usize) {
        (self.heard.len(), self.awaited.len())
    }
}
