//! A day that a seed draws, and the checks of everything that is seen on it.

use crate::locks::Lock;
use crate::reads::Read;
use crate::trees::{FILES, VALUES, grow};
use crate::truth::{Asked, Truth};
use machine::{Machine, Node, RoleId};
use sim::sites::{Chunks, Happened, MemberDisk, ServerDisk};
use sim::{Family, Fault, Line, Processes};
use spread::messages::{ChangeKind, Consistency, FILE_SERVER, Identity, Refusal, SUBSCRIBER, Size, Token};
use spread::{
    Answer, Client, FileServer, Member, MemberConfig, Number, Opened, Relay, RelayConfig, Request, Revision,
    ServerConfig, SiteKey, SiteSettings, Ticket, Visit, Way,
};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tree::{ChunkHash, Parts};
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, Time};

const FAMILY: Family = Family { client: SUBSCRIBER, server: FILE_SERVER };
pub(crate) const ONE: RoleId = RoleId::ONLY;
pub(crate) const STORE: &str = "store";
const RELAYS: [&str; 2] = ["relay 0", "relay 1"];
pub(crate) const MEMBERS: [&str; 3] = ["member 0", "member 1", "member 2"];
pub(crate) const PUBLISHERS: [&str; 2] = ["publisher 0", "publisher 1"];
const STEPS: u32 = 400;

/// Files that are open at a time, and for how many looks.
const FILES_OPEN: usize = 4;
const LOOKS_PER_FILE: u32 = 150;

/// How long a visitor waits at most after the last fault: a member tries again each second.
const PATIENCE: Duration = Duration::from_secs(6);

/// Counts of a day's events, which show that the checks had something to check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) published: usize,
    pub(crate) views: usize,
    /// Views of a page that was opened before.
    pub(crate) pages: usize,
    pub(crate) stale: usize,
    /// Views that were waited for.
    pub(crate) waits: usize,
    /// Files that were open at a member when it served a newer revision, until they were closed.
    pub(crate) files: usize,
    pub(crate) switches: usize,
    pub(crate) everywhere: usize,
    pub(crate) swept: u64,
    pub(crate) restores: usize,
    pub(crate) rotten: usize,
    /// Publishes that were merged, and those that could not be.
    pub(crate) merged: usize,
    pub(crate) conflicts: usize,
    /// Locks that were granted, recalled, and over before their release; publishes under a lock, and those that were
    /// refused as it was over.
    pub(crate) locked: usize,
    /// Changes of the length of leases.
    pub(crate) leases: usize,
    pub(crate) recalled: usize,
    pub(crate) locks_over: usize,
    pub(crate) under_locks: usize,
    pub(crate) refused_locks: usize,
    /// Reads of content at members that keep a part, fetches for them, and content that was gone.
    pub(crate) reads: usize,
    pub(crate) fetched: usize,
    pub(crate) missing: usize,
}

impl Seen {
    pub(crate) fn add(&mut self, more: &Self) {
        self.published += more.published;
        self.views += more.views;
        self.pages += more.pages;
        self.stale += more.stale;
        self.waits += more.waits;
        self.files += more.files;
        self.switches += more.switches;
        self.everywhere += more.everywhere;
        self.swept += more.swept;
        self.restores += more.restores;
        self.rotten += more.rotten;
        self.merged += more.merged;
        self.conflicts += more.conflicts;
        self.locked += more.locked;
        self.leases += more.leases;
        self.recalled += more.recalled;
        self.locks_over += more.locks_over;
        self.under_locks += more.under_locks;
        self.refused_locks += more.refused_locks;
        self.reads += more.reads;
        self.fetched += more.fetched;
        self.missing += more.missing;
    }
}

/// A publish, as its publisher has it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(crate) struct Job {
    identity: Option<Identity>,
    base: Option<ChunkHash>,
    root: ChunkHash,
    chunks: Chunks,
    of: Option<u64>,
    waits: bool,
    merges: bool,
    locks: Vec<Token>,
    ends_locks: bool,
    /// It says that it has put what it has not.
    lies: bool,
    stage: Step,
    ticket: Ticket,
    number: Option<Number>,
}

impl Job {
    fn asked(&self) -> Asked {
        Asked { base: self.base, root: self.root, merges: self.merges, ends_locks: self.ends_locks }
    }

    /// Whether it is published under a lock.
    pub(crate) fn has(&self, lock: Token) -> bool {
        self.locks.contains(&lock)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Have,
    Put,
    Publish,
}

/// A visitor: the revision of the page that is open, where, since when nothing was asked for it.
#[derive(Clone, Copy, Debug, Default)]
struct Visitor {
    seen: Option<Number>,
    page: Option<(usize, u32, Time)>,
    waits: Option<Wait>,
}

/// A request that waits for the newest revision: at this run of a member, since then by the member's clock and by the
/// time of the day.
#[derive(Clone, Copy, Debug)]
struct Wait {
    at: usize,
    run: u32,
    since: Time,
    began: Time,
    navigates: bool,
}

/// A file of a revision that is open at this run of a member, and is closed after so many looks.
#[derive(Clone, Copy, Debug)]
struct OpenFile {
    at: usize,
    run: u32,
    revision: Revision,
    looks: u32,
}

/// The kind of a day: its site's consistency, how many revisions without a visitor members are offered, and how it is
/// published.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(crate) struct Kind {
    pub(crate) consistency: Consistency,
    pub(crate) idle_after: Option<u32>,
    /// Whether publishes are merged.
    pub(crate) merges: bool,
    /// Whether publishers lock files.
    pub(crate) locks: bool,
    /// Whether members keep a part of the content, in some of their runs.
    pub(crate) parts: bool,
    /// Whether the site has leases of its own, of lengths that change.
    pub(crate) leases: bool,
}

impl Kind {
    /// Whether members fetch revisions only for visitors.
    fn is_lazy(self) -> bool {
        self.consistency.is_lazy() || self.idle_after.is_some()
    }
}

pub(crate) struct Day {
    pub(crate) world: Processes,
    pub(crate) lease: Duration,
    kind: Kind,
    visit: Duration,
    happened: Rc<Happened>,
    pub(crate) truth: Truth,
    pub(crate) jobs: [Option<Job>; 2],
    pub(crate) locks: Vec<Lock>,
    /// Whether all faults have ended.
    pub(crate) is_resting: bool,
    collecting: Option<Ticket>,
    setting: Option<Ticket>,
    /// The lives of publishers, and how many publishes each has asked for.
    pub(crate) publishers: [Rc<Cell<u64>>; 2],
    visitors: [Visitor; 3],
    files: Vec<OpenFile>,
    pub(crate) reads: Vec<Read>,
    /// The bytes of content that each member keeps; none if it keeps all.
    pub(crate) content: [Rc<Cell<Option<u64>>>; 3],
    /// Whether a disk may have failed or lied.
    pub(crate) may_fail: bool,
    /// The numbers of the members' runs, and the last revision that each has served.
    pub(crate) runs: [u32; 3],
    served: [Number; 3],
    groups: [usize; 3],
    backup: Option<(ServerDisk, Number)>,
    /// The newest revision of which a publisher was told *everywhere*, and when.
    waited: (Number, Time),
    down: Vec<&'static str>,
    parted: Vec<(&'static str, &'static str)>,
    harms: u64,
    restores: bool,
    /// Chunks that a disk has lost. Nothing promises them until they are repaired.
    pub(crate) rotten: Vec<ChunkHash>,
    pub(crate) seen: Seen,
}

fn alone(machine: impl Machine) -> Node {
    let mut node = Node::new();
    node.add(machine);
    node
}

pub(crate) fn key() -> SiteKey {
    SiteKey { space: "main".to_owned(), name: "shop".to_owned() }
}

impl Day {
    fn new(seed: u64, kind: Kind, broken: Broken<Way>) -> Self {
        let Kind { consistency, idle_after, .. } = kind;
        let mut world = Processes::new(seed, Line { delay: Duration::from_micros(100), rate: None });
        let lease = Duration::from_millis([60, 150][world.draw(2) as usize]);
        let visit = lease / 2;
        let happened = Rc::new(Happened::of(consistency, 2));
        let lives = Rc::new(Cell::new(0_u64));
        let next = move || {
            lives.set(lives.get() + 1);
            lives.get()
        };
        let of_store = next.clone();
        world.add(STORE, move |disks| {
            let sites = disks.content::<ServerDisk>(ONE).map(|disk| disk.sites.values().cloned().collect());
            let usual = ServerConfig::new(of_store());
            let config = ServerConfig { lease, collect_after: 3 * lease, announces_over: 0, broken, ..usual };
            alone(FileServer::new(config, sites.unwrap_or_default()))
        });
        world.add_disk(STORE, ONE, ServerDisk::new(happened.clone()));
        for relay in RELAYS {
            let next = next.clone();
            world.add(relay, move |_| alone(Relay::new(RelayConfig { life: next(), cache_bytes: 4000, broken })));
            world.connect((relay, ONE), (STORE, ONE), FAMILY);
            let delay = Duration::from_millis([1, 2, 4][world.draw(3) as usize]);
            world.set_line(relay, STORE, Line { delay, rate: None });
        }
        let content = [(); 3].map(|()| Rc::new(Cell::new(None)));
        for keeps in content.iter().filter(|_| kind.parts) {
            keeps.set([Some(0), Some(800), Some(1500)][world.draw(3) as usize]);
        }
        for (at, member) in MEMBERS.into_iter().enumerate() {
            let (next, keeps) = (next.clone(), content[at].clone());
            world.add(member, move |disks| {
                let state = disks.content::<MemberDisk>(ONE).and_then(|disk| disk.state.clone());
                let (collect_after, patience, content_bytes, key) = (2 * lease, lease, keeps.get(), key());
                let life = next();
                let config =
                    MemberConfig { key, life, visit, collect_after, patience, idle_after, content_bytes, broken };
                alone(Member::new(config, state))
            });
            world.add_disk(member, ONE, MemberDisk::new(happened.clone()));
            let server = if at < 2 { RELAYS[at] } else { STORE };
            world.connect((member, ONE), (server, ONE), FAMILY);
            if world.draw(4) == 0 {
                // A chunk takes longer than the member's patience.
                let rate = Some(600_000 / lease.as_millis() as u64);
                world.set_line(member, server, Line { delay: Duration::from_micros(100), rate });
            }
        }
        let publishers = [(), ()].map(|()| Rc::new(Cell::new(0)));
        for (publisher, life) in PUBLISHERS.into_iter().zip(&publishers) {
            let (next, life) = (next.clone(), life.clone());
            world.add(publisher, move |_| {
                life.set(next());
                alone(Client::new(life.get()))
            });
            world.connect((publisher, ONE), (STORE, ONE), FAMILY);
        }
        for process in [STORE].into_iter().chain(RELAYS).chain(MEMBERS) {
            let fast_permille = [-1, 0, 1][world.draw(3) as usize] * i64::from(LEASE_DRIFT_PERMILLE) / 2;
            world.set_clock(process, fast_permille);
        }
        for publisher in PUBLISHERS.into_iter().filter(|_| kind.locks) {
            let fast_permille = [-1, 0, 1][world.draw(3) as usize] * i64::from(LEASE_DRIFT_PERMILLE) / 2;
            world.set_clock(publisher, fast_permille);
        }
        let harms = [0, 2, 6][world.draw(3) as usize];
        let restores = world.draw(4) == 0;
        Self {
            world,
            lease,
            kind,
            visit,
            happened,
            truth: Truth::default(),
            jobs: [None, None],
            locks: Vec::new(),
            is_resting: false,
            collecting: None,
            setting: None,
            publishers,
            visitors: [Visitor::default(); 3],
            files: Vec::new(),
            reads: Vec::new(),
            content,
            may_fail: false,
            runs: [0; 3],
            served: [Number::NONE; 3],
            groups: [0, 1, 2],
            backup: None,
            waited: (Number::NONE, Time::ZERO),
            down: Vec::new(),
            parted: Vec::new(),
            harms,
            restores,
            rotten: Vec::new(),
            seen: Seen::default(),
        }
    }

    pub(crate) fn draw(&mut self, bound: usize) -> usize {
        self.world.draw(bound as u64) as usize
    }

    fn pass(&mut self, length: Duration) -> Result<(), String> {
        let length = self.world.draw(length.as_micros() as u64 + 1);
        self.world.run_for(Duration::from_micros(length));
        self.look()
    }

    pub(crate) fn is_down(&self, process: &str) -> bool {
        self.down.contains(&process)
    }

    /// Looks at everything after some time.
    fn look(&mut self) -> Result<(), String> {
        let published: Vec<_> = self.happened.published.borrow_mut().drain(..).collect();
        for new in published {
            self.truth.published(self.world.now(), &new)?;
            self.seen.published += 1;
            let lacks = self.world.content(STORE, ONE, |disk: &mut ServerDisk| disk.chunks.lacks(new.revision.root));
            let is_head = self.truth.head() == Some(new.revision);
            if let Some(hash) = lacks.filter(|hash| is_head && !self.rotten.contains(hash)) {
                return Err(format!("6: the newest revision {:?} lacks chunk {hash}", new.revision));
            }
        }
        for at in 0..MEMBERS.len() {
            self.look_at_member(at)?;
        }
        for at in 0..PUBLISHERS.len() {
            self.go_on(at)?;
        }
        self.look_at_locks()?;
        for who in 0..self.visitors.len() {
            self.visit_again(who)?;
        }
        self.look_at_reads()?;
        self.look_at_files()
    }

    fn look_at_member(&mut self, at: usize) -> Result<(), String> {
        let clock = self.world.clock(MEMBERS[at]);
        let Some(member) = self.world.look::<Member>(MEMBERS[at]) else { return Ok(()) };
        let (current, held) = (member.current(), member.held_above(clock).collect::<Vec<_>>());
        if let Some(current) = current {
            if current.number < self.served[at] {
                return Err(format!("5: member {at} served {:?}, and now {current:?}", self.served[at]));
            }
            self.seen.switches += usize::from(current.number > self.served[at]);
            self.served[at] = current.number;
        }
        for number in held {
            let Some(root) = self.truth.find(number).filter(|it| !it.is_lost).map(|it| it.revision.root) else {
                continue;
            };
            let lacks = self.world.content(STORE, ONE, |disk: &mut ServerDisk| disk.chunks.lacks(root));
            if let Some(hash) = lacks.filter(|hash| !self.rotten.contains(hash)) {
                return Err(format!("6: chunk {hash} of {number:?} was freed, and member {at} holds that"));
            }
        }
        Ok(())
    }

    /// Something happens.
    fn step(&mut self) -> Result<(), String> {
        if self.kind.locks {
            self.lock_or_unlock();
        }
        if self.kind.leases && self.draw(10) == 0 {
            let part = [1, 2, 3][self.draw(3)];
            self.set_lease(self.lease / part);
        }
        match self.draw(100) {
            0..14 => self.publish(),
            14..17 => self.roll_back(),
            17..19 => self.collect(),
            19..55 => self.visit(true)?,
            55..80 => self.visit(false)?,
            80..84 => self.pass(Duration::from_millis(5))?,
            84 => self.pass(self.lease)?,
            85 => self.pass(3 * self.lease)?,
            at if at < 86 + self.harms as usize => self.harm(),
            92 if self.restores => self.back_up_or_restore()?,
            94 => self.happened.fails.set(self.harms > 2 && !self.happened.fails.get()),
            93 => self.happened.lies.set(self.harms > 2 && !self.happened.lies.get()),
            95 if self.harms > 2 && self.draw(2) == 0 => self.rot(),
            _ => {}
        }
        self.may_fail |= self.happened.fails.get() || self.happened.lies.get();
        self.pass(Duration::from_micros(300))
    }

    // Publishers.

    fn begin(&mut self, at: usize, root: ChunkHash, chunks: Chunks, base: Option<ChunkHash>, of: Option<u64>) {
        let (waits, lies) = (self.draw(3) == 0, self.draw(24) == 0);
        let hashes: Vec<ChunkHash> = chunks.0.keys().copied().collect();
        let ask = |client: &mut Client, _| client.ask(Request::Have(hashes));
        let Some(ticket) = self.world.call(PUBLISHERS[at], ask) else { return };
        let (stage, identity, number) = (Step::Have, None, None);
        let merges = self.kind.merges && of.is_none();
        let ends_locks = self.kind.locks && self.draw(8) == 0;
        let locks = Vec::new();
        self.jobs[at] = Some(Job {
            identity,
            base,
            root,
            chunks,
            of,
            waits,
            merges,
            locks,
            ends_locks,
            lies,
            stage,
            ticket,
            number,
        });
    }

    fn publish(&mut self) {
        let at = self.draw(PUBLISHERS.len());
        if self.jobs[at].is_some() || self.is_down(PUBLISHERS[at]) {
            return;
        }
        let mut base = self.truth.head().map(|head| head.root);
        if self.kind.merges && self.draw(2) == 0 && !self.truth.all.is_empty() {
            // It is merged with all that was published since, if it can be.
            let newer = self.draw(self.truth.all.len().min(3));
            base = self.truth.all.iter().rev().nth(newer).map(|it| it.revision.root);
        }
        let mut tree = base.map_or([0; FILES], |base| self.truth.tree(base));
        let own: Vec<Lock> = self.locks.iter().filter(|it| it.at == at && it.token().is_some()).copied().collect();
        let own = if own.is_empty() || self.draw(3) == 0 { Vec::new() } else { own };
        for lock in &own {
            tree[lock.file] = self.world.draw(VALUES);
        }
        // A few change other files, too.
        let others = if own.is_empty() { 1 + self.draw(2) } else { usize::from(self.draw(6) == 0) };
        for _ in 0..others {
            let file = self.draw(FILES);
            tree[file] = self.world.draw(VALUES);
        }
        let (root, chunks) = grow(tree);
        self.truth.trees.insert(root, tree);
        if !self.kind.merges && self.draw(8) == 0 && !self.truth.all.is_empty() {
            // It was made from an older one.
            let older = self.draw(self.truth.all.len());
            base = Some(self.truth.all[older].revision.root);
        }
        self.begin(at, root, chunks, base, None);
        if let Some(job) = &mut self.jobs[at] {
            job.locks = own.iter().filter_map(Lock::token).collect();
            self.seen.under_locks += usize::from(!own.is_empty());
        }
    }

    /// An older revision that is kept is published again, without its chunks.
    fn roll_back(&mut self) {
        let at = self.draw(PUBLISHERS.len());
        let kept = self.world.content(STORE, ONE, |disk: &mut ServerDisk| {
            disk.sites.get(&key()).map_or(Vec::new(), |site| site.revisions.clone())
        });
        let Some((older, head)) = kept.first().zip(self.truth.head()).map(|(it, head)| (*it, head)) else { return };
        if self.jobs[at].is_some() || self.is_down(PUBLISHERS[at]) || older.root == head.root {
            return;
        }
        self.begin(at, older.root, Chunks::default(), Some(head.root), Some(older.number.count));
    }

    fn collect(&mut self) {
        if self.collecting.is_none() && !self.is_down(PUBLISHERS[0]) {
            self.collecting = self.world.call(PUBLISHERS[0], |client: &mut Client, _| client.ask(Request::Collect));
        }
    }

    fn set_lease(&mut self, lease: Duration) {
        if self.setting.is_none() && !self.is_down(PUBLISHERS[0]) {
            let settings = SiteSettings { lease: Some(lease), ..SiteSettings::default() };
            let ask = |client: &mut Client, _| client.ask(Request::Change(key(), ChangeKind::Set, settings));
            self.setting = self.world.call(PUBLISHERS[0], ask);
        }
    }

    /// Takes a publisher's answers, and asks for the next step.
    fn go_on(&mut self, at: usize) -> Result<(), String> {
        let take = |ticket: Ticket| move |client: &mut Client, _: Time| client.take(ticket);
        if at == 0
            && let Some(ticket) = self.setting
            && let Some(answer) = self.world.call(PUBLISHERS[0], take(ticket)).flatten()
        {
            self.setting = None;
            self.seen.leases += usize::from(matches!(answer, Answer::Changed));
        }
        if at == 0
            && let Some(ticket) = self.collecting
            && let Some(answer) = self.world.call(PUBLISHERS[0], take(ticket)).flatten()
        {
            self.collecting = None;
            self.seen.swept += if let Answer::Collected(swept) = answer { swept.chunks } else { 0 };
        }
        let Some(ticket) = self.jobs[at].as_ref().map(|job| job.ticket) else { return Ok(()) };
        let Some(answer) = self.world.call(PUBLISHERS[at], take(ticket)).flatten() else { return Ok(()) };
        let Some(mut job) = self.jobs[at].take() else { return Ok(()) };
        let (request, stage) = match (job.stage, answer) {
            (Step::Have, Answer::Missing(missing)) if !missing.is_empty() && !job.lies => {
                let chunks = missing.iter().map(|hash| (*hash, job.chunks.0[hash].clone())).collect();
                (Request::Put(key(), chunks), Step::Put)
            }
            (Step::Have, Answer::Missing(_)) | (Step::Put, Answer::Stored) => {
                let (base, root, of, waits) = (job.base, job.root, job.of, job.waits);
                let (merges, size, note) = (job.merges, Size::default(), String::new());
                let (ends_locks, locks, key) = (job.ends_locks, job.locks.clone(), key());
                let request = Request::Publish { key, base, root, of, size, waits, merges, ends_locks, locks, note };
                (request, Step::Publish)
            }
            (Step::Publish, Answer::Published { revision, is_new }) => {
                self.truth.acknowledged(revision, &job.asked())?;
                self.seen.merged += usize::from(is_new && revision.root != job.root);
                if job.waits {
                    job.number = Some(revision.number);
                    self.jobs[at] = Some(job);
                }
                return Ok(());
            }
            (Step::Publish, Answer::Everywhere) => {
                self.seen.everywhere += 1;
                let number = job.number.filter(|number| self.truth.find(*number).is_some_and(|it| !it.is_lost));
                self.waited = self.waited.max((number.unwrap_or_default(), self.world.now()));
                return Ok(());
            }
            (Step::Publish, Answer::Refused(why @ (Refusal::Conflict | Refusal::NotKept), ..)) => {
                self.seen.conflicts += usize::from(why == Refusal::Conflict);
                return Ok(());
            }
            (Step::Publish, Answer::Refused(Refusal::LockOver, ..)) => {
                self.seen.refused_locks += 1;
                return Ok(());
            }
            (Step::Publish, Answer::Refused(Refusal::Incomplete, ..)) if !job.lies && job.of.is_none() => {
                (Request::Have(job.chunks.0.keys().copied().collect()), Step::Have)
            }
            _ => return Ok(()),
        };
        let is_publish = stage == Step::Publish;
        let ask = |client: &mut Client, _| client.ask(request);
        if let Some(ticket) = self.world.call(PUBLISHERS[at], ask) {
            (job.ticket, job.stage) = (ticket, stage);
            if is_publish {
                let identity = Identity { publisher: self.publishers[at].get(), number: ticket.0 };
                job.identity = Some(identity);
                self.truth.asked(identity, job.asked());
            }
            self.jobs[at] = Some(job);
        }
        Ok(())
    }

    // Visitors.

    fn visit(&mut self, navigates: bool) -> Result<(), String> {
        let who = self.draw(self.visitors.len());
        let Visitor { seen, page, waits } = self.visitors[who];
        if waits.is_some() {
            return Ok(());
        }
        // A page's parts come from where it is, at most times.
        let at = match page.filter(|_| !navigates && self.draw(4) > 0) {
            Some((at, ..)) => at,
            None => self.draw(MEMBERS.len()),
        };
        let began = self.world.now();
        let visit = Visit { seen, navigates, ..Visit::default() };
        let Some(opened) = self.world.call(MEMBERS[at], |member: &mut Member, now| member.open(now, visit)) else {
            return Ok(());
        };
        self.opened(who, at, opened, (began, navigates))
    }

    /// A visitor who waits looks again.
    fn visit_again(&mut self, who: usize) -> Result<(), String> {
        let Visitor { seen, waits: Some(Wait { at, run, since, began, navigates }), .. } = self.visitors[who] else {
            return Ok(());
        };
        let is_last = self.world.now() > began + 3 * self.lease;
        let visit = Visit { seen, navigates, since: Some(since), is_last };
        let opened = self.world.call(MEMBERS[at], |member: &mut Member, now| member.open(now, visit));
        match opened.filter(|_| self.runs[at] == run) {
            Some(Opened::Later(_)) if is_last => Err(format!("10: a visitor of member {at} waits for ever")),
            Some(Opened::Later(_)) => Ok(()),
            Some(opened) => {
                self.visitors[who].waits = None;
                self.seen.waits += 1;
                self.opened(who, at, opened, (began, navigates))
            }
            None => {
                self.visitors[who].waits = None;
                Ok(())
            }
        }
    }

    fn opened(
        &mut self,
        who: usize,
        at: usize,
        opened: Opened,
        (began, navigates): (Time, bool),
    ) -> Result<(), String> {
        let Visitor { seen, page, .. } = self.visitors[who];
        let is_here = page.filter(|(of, run, _)| (*of, *run) == (at, self.runs[at]));
        match opened {
            Opened::View { revision, moves, stale } => self.view(who, at, revision, (began, navigates, moves), stale),
            Opened::Later(since) => {
                self.visitors[who].waits = Some(Wait { at, run: self.runs[at], since, began, navigates });
                Ok(())
            }
            Opened::Gone => match is_here {
                Some((.., last)) if self.world.now() < last + self.visit * 9 / 10 => {
                    Err(format!("2: {seen:?} is gone at member {at}, where a page of it is open"))
                }
                _ => {
                    self.visitors[who].page = None;
                    Ok(())
                }
            },
            Opened::Behind if is_here.is_some() && !navigates => {
                Err(format!("2: member {at} does not know {seen:?}, of which it has served a page"))
            }
            Opened::Behind | Opened::Nothing => Ok(()),
        }
    }

    fn view(
        &mut self,
        who: usize,
        at: usize,
        revision: Revision,
        (began, navigates, moves): (Time, bool, bool),
        stale: Option<Duration>,
    ) -> Result<(), String> {
        let (now, seen) = (self.world.now(), self.visitors[who].seen);
        self.seen.views += 1;
        self.seen.pages += usize::from(!navigates && seen.is_some());
        self.seen.stale += usize::from(stale.is_some());
        let Some(published) = self.truth.find(revision.number).copied() else {
            return Err(format!("3: member {at} serves {revision:?}, which was not published"));
        };
        if published.revision != revision {
            return Err(format!("3: member {at} serves {revision:?}, and {:?} was published", published.revision));
        }
        if let Some(hash) = self.lacks(at, revision.root) {
            return Err(format!("3: member {at} serves {revision:?}, and lacks chunk {hash}"));
        }
        if seen.is_some_and(|seen| seen > revision.number) {
            return Err(format!("5: a visitor has seen {seen:?}, and is served {revision:?} by member {at}"));
        }
        let has_pages = self.kind.consistency != Consistency::Sequential;
        if has_pages && !navigates && seen.is_some_and(|seen| seen != revision.number) {
            return Err(format!("2: a page of {seen:?} is served {revision:?} by member {at}"));
        }
        if stale.is_none() {
            let lease = self.lease * 103 / 100 + Duration::from_micros(300);
            if let Some(over) = published.over.filter(|over| now > *over + lease) {
                let since = now.since(over);
                return Err(format!("4: member {at} serves {revision:?} as fresh, which is over since {since:?}"));
            }
            if let Some(over) = published.over.filter(|over| !has_pages && !published.is_lost && *over < began) {
                let since = began.since(over);
                return Err(format!("4: member {at} serves {revision:?}, which was over {since:?} before the visit"));
            }
            // A page that was open before stays as it is.
            let is_new = navigates || seen.is_none();
            let (waited, since) = self.waited;
            if is_new && revision.number < waited && began >= since {
                return Err(format!("9: member {at} serves {revision:?} as fresh, and {waited:?} is everywhere"));
            }
        }
        let visitor = &mut self.visitors[who];
        if moves || navigates {
            visitor.seen = Some(revision.number);
        }
        if visitor.seen == Some(revision.number) {
            visitor.page = Some((at, self.runs[at], now));
        }
        if self.keeps_part(at) {
            self.read_some(at, revision, stale.is_some())?;
        }
        // Not drawn: days without files would not be the same.
        if self.seen.views.is_multiple_of(5) && self.files.len() < FILES_OPEN {
            self.open_file(at, revision)?;
        }
        Ok(())
    }

    /// The parts of revisions that a member has.
    pub(crate) fn parts(&self, at: usize) -> Parts {
        if self.keeps_part(at) { Parts::Directories } else { Parts::Whole }
    }

    fn keeps_part(&self, at: usize) -> bool {
        self.content[at].get().is_some()
    }

    /// A chunk of the parts of a tree that a member should have, and has not.
    fn lacks(&mut self, at: usize, root: ChunkHash) -> Option<ChunkHash> {
        let parts = self.parts(at);
        let lacks = self.world.content(MEMBERS[at], ONE, |disk: &mut MemberDisk| disk.chunks.lacks_of(parts, root));
        lacks.filter(|hash| !self.rotten.contains(hash))
    }

    // Open files.

    fn open_file(&mut self, at: usize, revision: Revision) -> Result<(), String> {
        let began = self.world.call(MEMBERS[at], |member: &mut Member, _| member.begin(revision.number));
        if began != Some(Some(revision.root)) {
            return Err(format!("2: member {at} serves {revision:?}, and no file of it can be opened: {began:?}"));
        }
        self.files.push(OpenFile { at, run: self.runs[at], revision, looks: LOOKS_PER_FILE });
        Ok(())
    }

    /// An open file can be read, whatever is served in the meantime.
    fn look_at_files(&mut self) -> Result<(), String> {
        for mut file in std::mem::take(&mut self.files) {
            let OpenFile { at, run, revision, .. } = file;
            if self.runs[at] != run {
                continue;
            }
            if let Some(hash) = self.lacks(at, revision.root) {
                return Err(format!("6: chunk {hash} of {revision:?} was freed at member {at}, where a file is open"));
            }
            file.looks -= 1;
            if file.looks > 0 {
                self.files.push(file);
            } else {
                self.seen.files += usize::from(self.served[at] > revision.number);
                self.world.call(MEMBERS[at], |member: &mut Member, _| member.end(revision.number));
            }
        }
        Ok(())
    }

    fn close_files(&mut self) -> Result<(), String> {
        self.files.iter_mut().for_each(|file| file.looks = 1);
        self.look_at_files()
    }

    // Trouble.

    fn harm(&mut self) {
        let processes: Vec<&str> = [STORE].into_iter().chain(RELAYS).chain(MEMBERS).chain(PUBLISHERS).collect();
        let process = processes[self.draw(processes.len())];
        if self.is_down(process) {
            self.rise(process);
            return;
        }
        match self.draw(5) {
            0 | 1 => {
                self.fall(process);
                if self.draw(2) == 0 {
                    self.rise(process);
                }
            }
            2 => {
                let server = self.server_of(process);
                self.world.cut(process, server);
            }
            3 => {
                let server = self.server_of(process);
                match self.parted.iter().position(|it| *it == (process, server)) {
                    Some(at) => {
                        self.parted.remove(at);
                        self.world.mend(process, server);
                    }
                    None if process != server => {
                        self.parted.push((process, server));
                        self.world.part(process, server);
                    }
                    None => {}
                }
            }
            _ => {
                // A member goes to the other group, which may be behind.
                let at = self.draw(2);
                self.groups[at] = 1 - self.groups[at];
                self.world.connect_elsewhere((MEMBERS[at], ONE), (RELAYS[self.groups[at]], ONE));
            }
        }
    }

    fn server_of(&self, process: &'static str) -> &'static str {
        match MEMBERS.iter().position(|it| *it == process) {
            Some(at) if at < 2 => RELAYS[self.groups[at]],
            _ => STORE,
        }
    }

    fn fall(&mut self, process: &'static str) {
        self.world.crash(process);
        self.down.push(process);
        if let Some(at) = PUBLISHERS.iter().position(|it| *it == process) {
            self.jobs[at] = None;
            self.locks.retain(|lock| lock.at != at);
            if at == 0 {
                (self.collecting, self.setting) = (None, None);
            }
        }
        if let Some(at) = MEMBERS.iter().position(|it| *it == process) {
            self.runs[at] += 1;
            if self.kind.parts && self.draw(4) == 0 {
                let keeps = [None, Some(0), Some(800), Some(1500)][self.draw(4)];
                self.content[at].set(keeps);
            }
        }
    }

    fn rise(&mut self, process: &'static str) {
        self.down.retain(|it| *it != process);
        self.world.start(process);
    }

    /// An operator copies the store's disk, or puts the copy in its place.
    fn back_up_or_restore(&mut self) -> Result<(), String> {
        self.look()?;
        let newest = self.truth.head().map_or(Number::NONE, |head| head.number);
        match self.backup.take() {
            None => {
                let copy = self.world.content(STORE, ONE, |disk: &mut ServerDisk| disk.clone());
                self.backup = Some((copy, newest));
            }
            Some((copy, newest)) => {
                if !self.is_down(STORE) {
                    self.fall(STORE);
                }
                self.look()?;
                self.world.content(STORE, ONE, |disk: &mut ServerDisk| *disk = copy);
                self.truth.restored(self.world.now(), newest);
                self.waited = (Number::NONE, Time::ZERO);
                self.jobs = [None, None];
                for publisher in PUBLISHERS {
                    if !self.is_down(publisher) {
                        self.fall(publisher);
                        self.rise(publisher);
                    }
                }
                self.rise(STORE);
                self.seen.restores += 1;
            }
        }
        Ok(())
    }

    /// A disk loses a chunk, which a member may notice.
    fn rot(&mut self) {
        let at = self.draw(MEMBERS.len() + 1);
        let which = self.world.draw(1 << 20) as usize;
        let lose = move |chunks: &mut Chunks| {
            let hash = *chunks.0.keys().nth(which % chunks.0.len().max(1))?;
            chunks.0.remove(&hash).map(|_| hash)
        };
        let lost = match MEMBERS.get(at) {
            Some(name) => self.world.content(name, ONE, |disk: &mut MemberDisk| lose(&mut disk.chunks)),
            None => self.world.content(STORE, ONE, |disk: &mut ServerDisk| lose(&mut disk.chunks)),
        };
        let Some(hash) = lost else { return };
        self.rotten.push(hash);
        self.seen.rotten += 1;
        if at < MEMBERS.len() && self.draw(2) == 0 {
            self.world.call(MEMBERS[at], |member: &mut Member, _| member.damaged(hash));
        }
    }

    /// Mends what disks have lost: the site is published again, whole, until no older revision is kept; visitors ask
    /// members for what they lack.
    fn mend(&mut self) -> Result<(), String> {
        if self.rotten.is_empty() {
            return Ok(());
        }
        for value in 0..VALUES {
            let tree = [value; FILES];
            let (root, chunks) = grow(tree);
            self.truth.trees.insert(root, tree);
            let base = self.truth.head().map(|head| head.root);
            self.begin(0, root, chunks, base, None);
            if let Some(job) = &mut self.jobs[0] {
                (job.lies, job.waits) = (false, false);
            }
            for _ in 0..60 {
                self.pass(self.lease)?;
            }
            if self.truth.head().map(|head| head.root) != Some(root) {
                return Err(format!("10: {value} cannot be published again: {:?}", self.jobs[0]));
            }
            if self.kind.is_lazy() {
                self.reach_all()?;
                self.world.run_for(6 * self.lease);
            }
        }
        self.rotten.clear();
        for (at, name) in MEMBERS.into_iter().enumerate() {
            for round in 0.. {
                let roots = self.world.look::<Member>(name).map(Member::roots).unwrap_or_default();
                let parts = self.parts(at);
                let lacks = |disk: &mut MemberDisk| roots.iter().find_map(|root| disk.chunks.lacks_of(parts, *root));
                let Some(hash) = self.world.content(name, ONE, lacks) else { break };
                if round > 20 {
                    return Err(format!("10: member {at} does not mend chunk {hash}"));
                }
                self.world.call(name, |member: &mut Member, _| member.damaged(hash));
                self.pass(self.lease)?;
            }
        }
        Ok(())
    }

    /// Ends all faults, and checks that everything comes to rest.
    fn rest(&mut self) -> Result<(), String> {
        self.world.calm();
        self.is_resting = true;
        self.happened.lies.set(false);
        self.happened.fails.set(false);
        for (one, other) in std::mem::take(&mut self.parted) {
            self.world.mend(one, other);
        }
        for process in self.down.clone() {
            self.rise(process);
        }
        for _ in 0..40 {
            self.pass(self.lease)?;
        }
        self.world.run_for(Duration::from_secs(6));
        self.look()?;
        if self.kind.leases {
            // A lease that is shorter than an answer takes is over when it comes.
            self.set_lease(self.lease);
            self.pass(self.lease)?;
        }
        self.close_files()?;
        self.mend()?;
        if let Some(job) = self.jobs.iter().flatten().next() {
            return Err(format!("10: a publish has no answer: {job:?}"));
        }
        self.all_locks_are_granted()?;
        // Chunks that a publisher has named are protected while its session lasts.
        for publisher in PUBLISHERS {
            self.fall(publisher);
            self.rise(publisher);
        }
        self.world.run_for(2 * self.lease);
        if self.kind.is_lazy() {
            self.reach_all()?;
            // A relay without members holds the last revision of theirs for some seconds.
            self.world.run_for(Duration::from_secs(12));
        }
        self.collect();
        for _ in 0..20 {
            self.pass(self.lease)?;
        }
        let Some(head) = self.truth.head() else { return Ok(()) };
        for (at, name) in MEMBERS.into_iter().enumerate() {
            let member = self.world.look::<Member>(name).expect("it runs");
            if member.current() != Some(head) {
                let trouble = member.trouble();
                return Err(format!("10: member {at} stays at {:?}, not {head:?}: {trouble:?}", member.current()));
            }
            let roots = member.roots();
            let (parts, most) = (self.parts(at), self.content[at].get().unwrap_or_default());
            let unused = self.world.content(name, ONE, |disk: &mut MemberDisk| disk.chunks.unused_bytes(parts, &roots));
            if unused > most {
                return Err(format!("10: {unused} unused bytes stay at member {at}, which may keep {most}"));
            }
        }
        if self.collecting.is_some() {
            return Err("10: a collection does not end".to_owned());
        }
        let (kept, unused) = self.world.content(STORE, ONE, |disk: &mut ServerDisk| {
            let kept = &disk.sites[&key()].revisions;
            let roots: Vec<ChunkHash> = kept.iter().map(|it| it.root).collect();
            (kept.clone(), disk.chunks.unused_of(&roots))
        });
        // Members that keep a part hold what their readers may come back to.
        let held: Vec<Number> = (0..MEMBERS.len())
            .filter(|at| self.keeps_part(*at))
            .filter_map(|at| self.world.look::<Member>(MEMBERS[at]))
            .flat_map(|member| member.kept().map(|it| it.number).collect::<Vec<_>>())
            .collect();
        let kept: Vec<Revision> = kept.into_iter().filter(|it| !held.contains(&it.number)).collect();
        if kept.len() > 2 || unused > 0 {
            return Err(format!("10: {kept:?} are kept, and {unused} unused chunks"));
        }
        for (at, name) in MEMBERS.into_iter().enumerate() {
            let opened = self.reach(at)?;
            let Opened::View { revision, stale: None, .. } = opened else {
                return Err(format!("10: member {at} ({name}) serves {opened:?}"));
            };
            self.view(0, at, revision, (self.world.now(), true, true), None)?;
            self.read_all(at, revision)?;
        }
        Ok(())
    }

    /// Visitors of all members wait for the newest revision, if there is one.
    fn reach_all(&mut self) -> Result<(), String> {
        let members = if self.truth.head().is_some() { MEMBERS.len() } else { 0 };
        (0..members).try_for_each(|at| self.reach(at).map(drop))
    }

    /// A new visitor opens a page at a member, and waits for the newest revision.
    fn reach(&mut self, at: usize) -> Result<Opened, String> {
        self.visitors[0] = Visitor::default();
        let mut visit = Visit { navigates: true, ..Visit::default() };
        let patient_until = self.world.now() + PATIENCE;
        loop {
            let opened = self.world.call(MEMBERS[at], |member: &mut Member, now| member.open(now, visit));
            match opened {
                Some(opened @ Opened::View { stale: None, .. }) => return Ok(opened),
                Some(Opened::Later(since)) => visit.since = Some(since),
                _ => {}
            }
            if self.world.now() > patient_until {
                return Err(format!("10: member {at} answers a visitor: {opened:?}"));
            }
            self.pass(self.lease)?;
        }
    }
}

/// Returns the counts of a day, or the promise that was broken.
pub(crate) fn day(seed: u64, kind: Kind, broken: Broken<Way>) -> Result<Seen, String> {
    let mut day = Day::new(seed, kind, broken);
    day.pass(Duration::from_millis(20))?;
    if day.harms > 0 && day.draw(3) == 0 {
        let faults = [Fault::Cut, Fault::Sever, Fault::Stall, Fault::Pause];
        day.world.storm(&faults.map(|fault| (fault, 2 * day.lease)), 3 * day.lease);
    }
    for _ in 0..STEPS {
        day.step()?;
    }
    day.rest()?;
    Ok(day.seen)
}
