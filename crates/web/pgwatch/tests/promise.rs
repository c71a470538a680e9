//! The watcher beside a database that makes commits visible by PostgreSQL's rules, and a hub that releases when it
//! likes: connections that are lost, a server that crashes, waiters that are cancelled, a list of standbys that is
//! changed. Whenever a commit becomes visible, what it changes is marked.

use coherence::Dependency;
use pgwatch::pgoutput::Message;
use pgwatch::{Effect, Lsn, MESSAGE_PREFIX, Map, Rule, Server, Watcher, Xid};
use std::collections::BTreeMap;
use types::Broken;

const SERVER: Server = Server { system: 1, timeline: 1 };
const DEPENDENCIES: u64 = 3;
const STEPS: u32 = 250;

/// Numbers that one seed gives.
struct Random(u64);

impl Random {
    fn draw(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[derive(Debug)]
struct Committed {
    end: Lsn,
    /// The dependency that it changes; one that is not published changes none.
    changes: Option<u64>,
    /// Another standby takes its time with it.
    is_slow: bool,
    /// It was made while commits did not wait for the watcher.
    is_free: bool,
    is_visible: bool,
}

#[derive(Debug)]
struct Marked {
    dependencies: Vec<Dependency>,
    is_at_homes: bool,
    is_released: bool,
}

/// A thing that the server sends on a connection.
#[derive(Debug)]
enum Sent {
    Begin(usize),
    Said(usize),
    Commit(usize),
    Keepalive(Lsn),
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the day by itself")]
struct Day {
    random: Random,
    broken: Broken<Rule>,
    watcher: Watcher,
    log: Vec<Committed>,
    /// The end of the log when the last connection was made.
    end_at_connect: Lsn,
    flushed: Lsn,
    is_connected: bool,
    has_crashed: bool,
    /// Commits wait for the watcher, and it has been shown to the watcher of this connection that they do.
    is_required: bool,
    is_proved: bool,
    /// The hub keeps everything marked until its watcher has caught up.
    hub_marks_all: bool,
    /// The commits before are on their way to the watcher, or there.
    sent: usize,
    line: Vec<Sent>,
    /// The watcher's own messages, on their way to the server.
    confirms: Vec<Lsn>,
    asked: bool,
    updates: BTreeMap<u64, Marked>,
}

impl Day {
    fn new(seed: u64, broken: Broken<Rule>) -> Self {
        Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            broken,
            watcher: Watcher::new(Map::everything(), broken),
            log: Vec::new(),
            end_at_connect: Lsn(0),
            flushed: Lsn(0),
            is_connected: false,
            has_crashed: false,
            is_required: true,
            is_proved: false,
            hub_marks_all: true,
            sent: 0,
            line: Vec::new(),
            confirms: Vec::new(),
            asked: false,
            updates: BTreeMap::new(),
        }
    }

    fn end(&self) -> Lsn {
        Lsn(10 * self.log.len() as u64 + 5)
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.draw(100) {
            0..15 => self.commit(),
            15..25 => self.send(),
            25..45 => self.deliver(),
            45..60 => self.release(),
            60..70 => self.confirm(),
            70..85 => self.become_visible()?,
            85..92 => self.answer(),
            92 | 93 => self.cancel()?,
            94 => self.prove(),
            95 => self.lose(),
            96 => self.crash(),
            97 => self.replace(),
            98 if self.random.draw(4) == 0 => self.change_list(),
            _ => self.connect()?,
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        while let Some(effect) = self.watcher.poll_effect() {
            match effect {
                Effect::Update(number, dependencies) => {
                    let marked = Marked { dependencies, is_at_homes: false, is_released: false };
                    self.updates.insert(number, marked);
                }
                Effect::Confirm(lsn) => self.confirms.push(lsn),
                Effect::AskSnapshot => self.asked = true,
                Effect::Visible(number) => drop(self.updates.remove(&number)),
            }
        }
        self.hub_marks_all &= !self.watcher.is_caught_up();
    }

    fn commit(&mut self) {
        if self.has_crashed || self.log.len() > 40 {
            return;
        }
        let changes = Some(self.random.draw(DEPENDENCIES + 1)).filter(|&change| change < DEPENDENCIES);
        let (end, is_slow) = (Lsn(10 * self.log.len() as u64 + 10), self.random.draw(4) == 0);
        self.log.push(Committed { end, changes, is_slow, is_free: !self.is_required, is_visible: false });
    }

    fn send(&mut self) {
        if !self.is_connected {
            return;
        }
        if let Some(commit) = self.log.get(self.sent) {
            match commit.changes {
                Some(_) => self.line.extend([Sent::Begin(self.sent), Sent::Said(self.sent), Sent::Commit(self.sent)]),
                None => self.line.push(Sent::Keepalive(commit.end)),
            }
            self.sent += 1;
        } else {
            self.line.push(Sent::Keepalive(self.end()));
        }
    }

    fn deliver(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let heard = |watcher: &mut Watcher, message: Message<'_>| watcher.hear(&message).expect("it is in order");
        match self.line.remove(0) {
            Sent::Begin(at) => heard(&mut self.watcher, Message::Begin { xid: Xid(at as u32 + 3) }),
            Sent::Said(at) => {
                let content = format!("item:{}", self.log[at].changes.unwrap());
                let prefix = MESSAGE_PREFIX.as_bytes();
                heard(&mut self.watcher, Message::Said { is_transactional: true, prefix, content: content.as_bytes() });
            }
            Sent::Commit(at) => heard(&mut self.watcher, Message::Commit { end: self.log[at].end }),
            Sent::Keepalive(end) => self.watcher.keepalive(end, true),
        }
    }

    /// An update gets a step further at the hub.
    fn release(&mut self) {
        let waiting: Vec<_> = self.updates.iter().filter(|(_, marked)| !marked.is_released).map(|(&n, _)| n).collect();
        if waiting.is_empty() {
            return;
        }
        let number = waiting[self.random.draw(waiting.len() as u64) as usize];
        let marked = self.updates.get_mut(&number).unwrap();
        if marked.is_at_homes {
            marked.is_released = true;
            self.watcher.released(number);
        }
        marked.is_at_homes = true;
    }

    fn confirm(&mut self) {
        if !self.confirms.is_empty() {
            self.flushed = self.flushed.max(self.confirms.remove(0));
        }
    }

    fn show(&mut self, at: usize) -> Result<(), String> {
        self.log[at].is_visible = true;
        let Some(change) = self.log[at].changes else { return Ok(()) };
        let own = Dependency::new(format!("item:{change}")).unwrap();
        let covers = |marked: &Marked| {
            let names = [&own, &Dependency::ALL];
            marked.is_at_homes && marked.dependencies.iter().any(|name| names.contains(&name))
        };
        if self.hub_marks_all || self.updates.values().any(covers) {
            return Ok(());
        }
        Err(format!("commit {at} becomes visible, and {own} is not marked"))
    }

    /// A commit that is confirmed becomes visible, in whatever order.
    fn become_visible(&mut self) -> Result<(), String> {
        let ready: Vec<_> = (0..self.log.len()).filter(|&at| self.may_be_visible(at)).collect();
        if self.has_crashed || ready.is_empty() {
            return Ok(());
        }
        let at = ready[self.random.draw(ready.len() as u64) as usize];
        if self.log[at].is_slow && self.random.draw(40) != 0 { Ok(()) } else { self.show(at) }
    }

    fn may_be_visible(&self, at: usize) -> bool {
        // That commits do not wait is known here at once, and everything is marked at the homes.
        let is_free = self.log[at].is_free && self.updates.values().all(|marked| marked.is_at_homes);
        (self.log[at].end <= self.flushed || is_free) && !self.log[at].is_visible
    }

    /// Commits should wait for the watcher no more, or again.
    fn change_list(&mut self) {
        self.is_required = !self.is_required;
        if self.is_required {
            return;
        }
        self.log.iter_mut().for_each(|commit| commit.is_free = true);
        self.is_proved = false;
        if self.is_connected {
            self.watcher.not_awaited();
        }
    }

    /// A commit is seen to wait.
    fn prove(&mut self) {
        if self.is_connected && self.is_required && !self.is_proved {
            self.is_proved = true;
            self.watcher.awaited(self.log.len() as u64 + 3);
        }
    }

    /// A waiter is cancelled. The promise holds for it from when the mark is made, or everything is marked.
    fn cancel(&mut self) -> Result<(), String> {
        if self.log.is_empty() || self.has_crashed {
            return Ok(());
        }
        let at = self.random.draw(self.log.len() as u64) as usize;
        let is_of_before = self.log[at].end <= self.end_at_connect || !self.is_connected;
        let all_are_marked = self.updates.values().all(|marked| marked.is_at_homes);
        if self.log[at].is_visible || !is_of_before || !all_are_marked || self.log[at].changes.is_none() {
            return Ok(());
        }
        self.show(at)
    }

    /// A snapshot is taken, and heard.
    fn answer(&mut self) {
        if !self.asked || !self.is_connected {
            return;
        }
        self.asked = false;
        let next = self.log.len() + 3;
        let running = (0..self.log.len()).filter(|&at| !self.log[at].is_visible).map(|at| at + 3);
        let running: Vec<_> = running.map(|xid| xid.to_string()).collect();
        let xmin = running.first().cloned().unwrap_or(next.to_string());
        let snapshot = format!("{xmin}:{next}:{}", running.join(",")).parse().unwrap();
        self.watcher.snapshot(&snapshot);
    }

    fn lose(&mut self) {
        self.is_connected = false;
        self.asked = false;
        self.line.clear();
        self.confirms.clear();
        self.watcher.lost();
    }

    /// The watcher is killed, its hub with it, and others begin: no cache has anything, and all is marked.
    fn replace(&mut self) {
        self.lose();
        self.watcher = Watcher::new(Map::everything(), self.broken);
        self.updates.clear();
        self.hub_marks_all = true;
    }

    fn crash(&mut self) {
        self.lose();
        self.has_crashed = true;
    }

    /// The server is there, after a recovery if it has crashed: everything that is in its log is visible then. The
    /// homes have heard by then what the hub had said when it went.
    fn connect(&mut self) -> Result<(), String> {
        if self.is_connected {
            return Ok(());
        }
        if self.has_crashed {
            self.settle();
            self.updates.values_mut().for_each(|marked| marked.is_at_homes = true);
            for at in 0..self.log.len() {
                if !self.log[at].is_visible {
                    self.show(at)?;
                }
            }
        }
        // A slot's position is written down now and then.
        let kept = self.log.iter().filter(|commit| commit.end <= self.flushed).count() as u64;
        self.sent = if self.has_crashed { self.random.draw(kept + 1) } else { kept } as usize;
        (self.has_crashed, self.is_connected, self.end_at_connect) = (false, true, self.end());
        self.is_proved = false;
        self.watcher.connected(SERVER);
        Ok(())
    }

    /// Nothing goes wrong any more, and everything comes to its end.
    fn calm(&mut self) -> Result<(), String> {
        if !self.is_required {
            self.change_list();
        }
        for _ in 0..2000 {
            self.connect()?;
            self.prove();
            self.send();
            self.deliver();
            self.settle();
            self.release();
            self.settle();
            self.confirm();
            self.become_visible()?;
            self.answer();
            self.settle();
        }
        let invisible = self.log.iter().filter(|commit| !commit.is_visible && commit.changes.is_some()).count();
        if invisible > 0 || !self.updates.is_empty() || self.flushed < self.end() || !self.watcher.is_caught_up() {
            return Err(format!("{invisible} commits wait for good, {:?} stay marked", self.updates));
        }
        Ok(())
    }
}

fn day(seed: u64, broken: Broken<Rule>) -> Result<(), String> {
    let mut day = Day::new(seed, broken);
    for _ in 0..STEPS {
        day.step()?;
    }
    day.calm()
}

#[test]
fn what_becomes_visible_is_marked() {
    for seed in 0..5000 {
        day(seed, Broken::NONE).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// Of values, which these transactions have none of: their tests stand beside the code. And of leases, which are of
/// several watchers: `leases.rs`.
const ELSEWHERE: [Rule; 7] = [
    Rule::BothValues,
    Rule::WholeIfUnknown,
    Rule::WholeIfAltered,
    Rule::LeaseFromProof,
    Rule::OutlastLeases,
    Rule::EndAfterLeases,
    Rule::EndOfTheLast,
];

#[test]
fn each_rule_is_missed() {
    for rule in Rule::ALL.into_iter().filter(|rule| !ELSEWHERE.contains(rule)) {
        let caught = (0..20_000).find_map(|seed| Some((seed, day(seed, Broken::rule(rule)).err()?)));
        let (seed, why) = caught.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        println!("{rule:?}: seed {seed}: {why}");
    }
}
