//! Two watchers of a database in virtual time, each with a hub and a home of its own: one is cut off from the server,
//! which gives the slot to the other, and both continue; or one ends, and says so; or it is killed with its hub, and
//! begins again, or the hub does alone; and a home may stand still, with a table that can be read. Each answer from a
//! cache has everything that was done before the request came.

use coherence::Dependency;
use homes::{Home, HomeConfig, Hub, HubConfig, Proof, Table, UpdateId};
use machine::{Machine, Node, RoleId};
use pgwatch::{Rule, Slot, Word};
use sim::{Family, Line, Processes};
use std::sync::Arc;
use std::time::Duration;
use types::{Broken, Time};

const HUB: Family = Family { client: homes::messages::hub::HOME, server: homes::messages::hub::HUB };
const HUBS: [&str; 2] = ["hub 0", "hub 1"];
const HOMES: [&str; 2] = ["home 0", "home 1"];
const LEASE: Duration = Duration::from_millis(60);
const STEPS: u32 = 1500;

/// The rule that is taken out, if any: of the watcher, or of its hub.
#[derive(Clone, Copy, Debug, Default)]
struct Without {
    watcher: Broken<Rule>,
    hub: Broken<homes::Rule>,
    succeeds_nobody: Succeeds,
}

/// When a watcher says to its hub that no home has a lease of an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Succeeds {
    /// Once, when it has heard that none is out.
    #[default]
    WhenHeard,
    /// Whenever it gives the hub a lease.
    Always,
    Never,
}

/// A question whether the slot is the watcher's, on its way to the server; and the server's answer.
#[derive(Debug)]
struct Question {
    arrives: Time,
    answer: Option<(Time, bool)>,
}

#[derive(Debug)]
struct Watching {
    /// The number of its connection, if it has one, as far as it knows.
    connection: Option<u64>,
    slot: Slot,
    question: Option<Question>,
    star: Option<UpdateId>,
    /// The update of the commit that is under way, if it has learned of it.
    update: Option<UpdateId>,
    /// Nothing passes between it and the server.
    is_cut: bool,
    /// When its hub began.
    hub_begun: Time,
}

impl Watching {
    fn new(now: Time, without: Without) -> Self {
        Self {
            connection: None,
            slot: Slot::got(now, LEASE, LEASE, without.watcher),
            question: None,
            star: None,
            update: None,
            is_cut: false,
            hub_begun: now,
        }
    }
}

struct Day {
    world: Processes,
    without: Without,
    watchers: [Watching; 2],
    /// The connection that has the slot, as the server has it, and its watcher.
    holder: Option<(usize, u64)>,
    connections: u64,
    /// The words of watchers in the server's log, each with the number of its connection; and those that are before
    /// what was confirmed, which nobody hears again.
    words: Vec<(u64, Word)>,
    confirmed: usize,
    /// A commit waits.
    is_committing: bool,
    /// The commits that a reader of the database sees, and a writer was notified of.
    done: u32,
    tables: Vec<Arc<Table>>,
    entries: [Option<(Proof, u32)>; 2],
    is_home_still: [bool; 2],
    hits: u32,
    /// Watchers that knew that no lease was out.
    at_once: u32,
    /// Commits that a hub let go which had begun less than a lease ago.
    early: u32,
}

fn alone(machine: impl Machine) -> Node {
    let mut node = Node::new();
    node.add(machine);
    node
}

fn item() -> Dependency {
    Dependency::new("item").unwrap()
}

impl Day {
    fn new(seed: u64, without: Without) -> Self {
        let mut world = Processes::new(seed, Line { delay: Duration::from_micros(100), rate: None });
        for (at, (hub, home)) in HUBS.into_iter().zip(HOMES).enumerate() {
            world.add(hub, move |_| {
                let config =
                    HubConfig { lease: LEASE, succeeds: Some(LEASE), within_source: true, ..HubConfig::default() };
                alone(Hub::new(HubConfig { broken: without.hub, ..config }))
            });
            world.add(home, move |_| alone(Home::new(HomeConfig { slots: 2, ..HomeConfig::new(at as u64 + 1) })));
            world.connect((home, RoleId::ONLY), (hub, RoleId::ONLY), HUB);
        }
        let tables = HOMES.map(|home| world.look::<Home>(home).unwrap().table()).into();
        let watchers = [(), ()].map(|()| Watching::new(Time::ZERO, without));
        let (holder, entries, is_home_still) = Default::default();
        Self {
            world,
            without,
            watchers,
            holder,
            connections: 0,
            words: Vec::new(),
            confirmed: 0,
            is_committing: false,
            done: 0,
            tables,
            entries,
            is_home_still,
            hits: 0,
            at_once: 0,
            early: 0,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        for at in 0..2 {
            self.prove(at);
            self.end_star(at);
        }
        let at = self.world.draw(2) as usize;
        match self.world.draw(84) {
            0..20 => self.commit(at),
            20..36 => self.fill(at),
            36..68 => self.look(at)?,
            68..72 => self.connect(at),
            72 | 73 => self.forget_holder(),
            74 | 75 => self.watchers[at].is_cut ^= true,
            76 => self.watchers[at].slot.leave(),
            77 if self.world.draw(8) == 0 => self.begin_anew(at),
            78 if self.world.draw(8) == 0 => self.hub_begins_anew(at),
            79 => self.let_home_run(at, false),
            80..83 => self.let_home_run(at, true),
            _ => {}
        }
        let length = self.world.draw(2000);
        self.world.run_for(Duration::from_micros(length));
        Ok(())
    }

    fn hub<R>(&mut self, at: usize, call: impl FnOnce(&mut Hub, Time) -> R) -> R {
        self.world.call(HUBS[at], call).expect("a hub that ends begins again")
    }

    /// The question whether a watcher has the slot gets a step further.
    fn prove(&mut self, at: usize) {
        let now = self.world.now();
        let delays = [1, 1, 1, 40].map(Duration::from_millis);
        let delay = delays[self.world.draw(4) as usize];
        let it = &mut self.watchers[at];
        let Some(connection) = it.connection else { return };
        if it.slot.is_doubtful(now) {
            return self.lose(at);
        }
        if it.slot.is_due() {
            it.slot.ask(now);
            it.question = Some(Question { arrives: now + delay, answer: None });
        }
        let Some(question) = it.question.as_mut().filter(|_| !it.is_cut) else { return };
        match question.answer {
            None if question.arrives <= now => {
                question.answer = Some((now + delay, self.holder == Some((at, connection))));
            }
            Some((arrives, false)) if arrives <= now => self.lose(at),
            Some((arrives, true)) if arrives <= now => {
                it.question = None;
                if let Some(until) = it.slot.proved(now) {
                    self.hub(at, |hub, now| hub.source_lease(now, until));
                }
                if self.without.succeeds_nobody == Succeeds::Always {
                    self.hub(at, Hub::succeeds_nobody);
                }
            }
            _ => {}
        }
        self.end(at, connection);
    }

    /// A watcher that should end says so when it may, and another process is begun in its place. The server takes its
    /// word only while it has the slot.
    fn end(&mut self, at: usize, connection: u64) {
        let it = &self.watchers[at];
        let may_end = it.slot.ends_at().is_some_and(|at| at <= self.world.now());
        if it.connection != Some(connection) || it.is_cut || !may_end {
            return;
        }
        if self.holder == Some((at, connection)) {
            self.words.push((connection, Word::Ended));
            self.holder = None;
        }
        self.begin_anew(at);
    }

    /// The process of a watcher and its hub is gone, and another one there, which knows nothing.
    fn begin_anew(&mut self, at: usize) {
        self.restart_hub(at);
        let is_cut = self.watchers[at].is_cut;
        self.watchers[at] = Watching { is_cut, ..Watching::new(self.world.now(), self.without) };
    }

    /// A hub begins again, and is told what its watcher has under way.
    fn hub_begins_anew(&mut self, at: usize) {
        self.restart_hub(at);
        let Watching { star, update, .. } = self.watchers[at];
        self.watchers[at].star = star.map(|_| self.hub(at, |hub, now| hub.update(now, vec![Dependency::ALL])));
        self.watchers[at].update = update.map(|_| self.hub(at, |hub, now| hub.update(now, vec![item()])));
    }

    fn restart_hub(&mut self, at: usize) {
        self.world.crash(HUBS[at]);
        self.world.start(HUBS[at]);
        self.watchers[at].hub_begun = self.world.now();
    }

    /// A home continues, or stands still and learns of nothing.
    fn let_home_run(&mut self, at: usize, runs: bool) {
        self.is_home_still[at] = !runs;
        if runs { self.world.go_on(HOMES[at]) } else { self.world.stop(HOMES[at]) }
    }

    fn lose(&mut self, at: usize) {
        let (star, update) = (self.watchers[at].star, self.watchers[at].update.take());
        let star = star.unwrap_or_else(|| self.hub(at, |hub, now| hub.update(now, vec![Dependency::ALL])));
        self.watchers[at].star = Some(star);
        self.watchers[at].connection = None;
        self.watchers[at].question = None;
        if let Some(update) = update {
            self.hub(at, |hub, _| hub.visible(update));
        }
    }

    fn end_star(&mut self, at: usize) {
        let Watching { star, connection: Some(_), .. } = self.watchers[at] else { return };
        if let Some(star) = star {
            if !self.hub(at, |hub, _| hub.is_released(star)) {
                return;
            }
            self.watchers[at].star = None;
            self.hub(at, |hub, _| hub.visible(star));
        }
        self.hub(at, |hub, _| hub.caught_up());
    }

    fn connect(&mut self, at: usize) {
        if self.holder.is_some() || self.watchers[at].is_cut || self.watchers[at].connection.is_some() {
            return;
        }
        self.lose(at);
        self.connections += 1;
        self.holder = Some((at, self.connections));
        self.watchers[at].connection = Some(self.connections);
        self.words.push((self.connections, Word::Begun));
        let mut slot = Slot::got(self.world.now(), LEASE, LEASE, self.without.watcher);
        let mut is_alone = false;
        for &(connection, word) in &self.words[self.confirmed..] {
            is_alone |= slot.heard(word, connection == self.connections);
        }
        self.watchers[at].slot = slot;
        self.at_once += u32::from(is_alone);
        if is_alone && self.without.succeeds_nobody != Succeeds::Never {
            self.hub(at, Hub::succeeds_nobody);
        }
    }

    /// The server believes a watcher gone of which it has heard nothing.
    fn forget_holder(&mut self) {
        if let Some((at, connection)) = self.holder
            && (self.watchers[at].is_cut || self.watchers[at].connection != Some(connection))
        {
            self.holder = None;
        }
    }

    /// A commit gets a step further: it waits for the watcher that has the slot.
    fn commit(&mut self, at: usize) {
        self.is_committing = true;
        let it = &self.watchers[at];
        if it.is_cut || it.connection.is_none() || self.holder.map(|(_, connection)| connection) != it.connection {
            return;
        }
        let (confirms, update) = (it.slot.confirms_at() <= self.world.now(), it.update);
        match update {
            None => self.watchers[at].update = Some(self.hub(at, |hub, now| hub.update(now, vec![item()]))),
            Some(update) if confirms && self.hub(at, |hub, _| hub.is_released(update)) => {
                self.done += 1;
                self.early += u32::from(self.world.now() < self.watchers[at].hub_begun + LEASE);
                self.confirmed = self.words.len();
                self.is_committing = false;
                self.watchers[at].update = None;
                self.hub(at, |hub, _| hub.visible(update));
            }
            Some(_) => {}
        }
    }

    fn fill(&mut self, at: usize) {
        if self.is_home_still[at] {
            return;
        }
        let Some(ticket) = self.tables[at].ticket(self.world.now()) else { return };
        let store = |home: &mut Home, now| home.store(now, ticket, &[item()]).ok();
        if let Some(proof) = self.world.call(HOMES[at], store).flatten()
            && let Some((earlier, _)) = self.entries[at].replace((proof, self.done))
        {
            self.world.call(HOMES[at], |home: &mut Home, _| home.free(earlier));
        }
    }

    fn look(&mut self, at: usize) -> Result<(), String> {
        let Some((proof, body)) = self.entries[at] else { return Ok(()) };
        if !self.tables[at].is_current(&proof, || self.world.now()) {
            return Ok(());
        }
        self.hits += 1;
        let lacks = self.done - body;
        if lacks > 0 { Err(format!("a hit at {} lacks {lacks} commits", HOMES[at])) } else { Ok(()) }
    }
}

/// The counts of a day (hits, commits, watchers that did not wait, commits that a young hub let go), or the answer that
/// was stale.
fn day(seed: u64, without: Without) -> Result<[u32; 4], String> {
    let mut day = Day::new(seed, without);
    for _ in 0..STEPS {
        day.step()?;
    }
    Ok([day.hits, day.done, day.at_once, day.early])
}

fn days(without: Without) -> [u32; 4] {
    let mut all = [0; 4];
    for seed in 0..400 {
        let of_day = day(seed, without).unwrap_or_else(|stale| panic!("seed {seed}: {stale}"));
        all = std::array::from_fn(|at| all[at] + of_day[at]);
    }
    all
}

#[test]
fn no_home_of_a_watcher_that_lost_the_slot_answers() {
    let [hits, commits, at_once, early] = days(Without::default());
    assert!(hits > 2000 && commits > 2000, "{hits} hits, {commits} commits");
    assert!(at_once > 300 && early > 200, "{at_once} at once, {early} early");
}

#[test]
fn a_hub_that_is_not_told_that_it_succeeds_nobody_lets_no_commit_go_early() {
    let [_, commits, at_once, early] = days(Without { succeeds_nobody: Succeeds::Never, ..Without::default() });
    assert!(commits > 2000 && at_once > 300, "{commits} commits, {at_once} at once");
    assert_eq!(early, 0);
}

/// For each rule a seed that notices when it is taken out. If one does not any more, days are drawn in another way, and
/// another seed is due.
#[test]
fn each_rule_is_missed() {
    let of_watcher = |rule| Without { watcher: Broken::rule(rule), ..Without::default() };
    let of_hub = |rule| Without { hub: Broken::rule(rule), ..Without::default() };
    let kept = [
        (764, of_watcher(Rule::LeaseFromProof)),
        (83, of_watcher(Rule::OutlastLeases)),
        (446, of_watcher(Rule::EndAfterLeases)),
        (2196, of_watcher(Rule::EndOfTheLast)),
        (362, of_hub(homes::Rule::LeaseWithinSource)),
        (1421, of_hub(homes::Rule::HubWaits)),
        (610, Without { succeeds_nobody: Succeeds::Always, ..Without::default() }),
    ];
    let mut others = Vec::new();
    for (seed, without) in kept {
        day(seed, Without::default()).unwrap_or_else(|stale| panic!("seed {seed}: {stale}"));
        if day(seed, without).is_ok() {
            others.push((without, (0..10_000).find(|&seed| day(seed, without).is_err())));
        }
    }
    assert!(others.is_empty(), "kept seeds do not notice any more what is missing, and these do: {others:?}");
}
