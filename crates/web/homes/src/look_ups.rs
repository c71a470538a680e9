//! Lookups in the table of a home on another machine: many in a message, and several messages under way.
//!
//! ```text
//!   lookups --> waiting --Read, while fewer than READS_MAX are under way--> under way --Words--> answered
//! ```
//! 1. A lookup is answered by a message that leaves after it was asked for (**ReadAfterAsking**): so the word is read
//!    after the request came.
//! 2. A lone one leaves at once. While [`READS_MAX`] messages are under way, those that come share the next one: the
//!    busier the cache, the more of them.
//! 3. A lookup without an answer proves nothing: the session was lost, the table is silent for [`ANSWER_WITHIN`], or
//!    too many wait. Each has its answer or none within twice that time. None waits before the table has answered in
//!    its session: a machine that hangs takes connections.
//! 4. A cache that does not take its answers is owed [`READS_PER_CACHE_MAX`] of them, and sent away then.
//! 5. A table that can be read without its home's processor is read within the home's lease as it is by the reader's
//!    clock: what was left of the lease when the responder has told of it counts from when it was asked
//!    (**LeaseFromAsking**), and shorter than the home counts it (**AllowDrift**). A cache that reads like that asks
//!    again before it is over.
//! 6. The responder loads the lease, then the words, and reads its clock after them (**ClockAfterWord**). So it is the
//!    one machine that has a clock: the time of an event is from before its words are read.

use crate::messages::caches::{Proof, Ticket};
use crate::messages::look_ups::{FromTable, Head, Read, ToTable, Window, Words};
use crate::rule::Rule;
use crate::table::{Memory, Table};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use core::{fmt, mem};
use machine::{Machine, Output, Parcel, Port, Waiter};
use types::limits::{LEASE_DRIFT_PERMILLE, LOOK_UPS_PER_MESSAGE_MAX, LOOK_UPS_WAITING_MAX, READS_PER_CACHE_MAX};
use types::{Broken, GoodbyeReason, Time};

/// Messages that are under way at a time. All that may wait goes with the next so many.
const READS_MAX: usize = 4;

const _: () = assert!(LOOK_UPS_WAITING_MAX <= READS_MAX * LOOK_UPS_PER_MESSAGE_MAX && READS_MAX <= READS_PER_CACHE_MAX);

/// How long a table may take to answer a message.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How often a cache that reads the table itself asks for the home's lease: four times in what is left of it.
const ASK_EVERY_MIN: Duration = Duration::from_millis(20);
const ASK_EVERY_MAX: Duration = Duration::from_secs(1);

/// The clock of a responder's machine.
pub type Clock = Box<dyn Fn() -> Time + Send>;

/// Answers lookups in a table, without its home.
pub struct Responder<M> {
    table: Arc<Table<M>>,
    clock: Clock,
    /// Where else the table can be read.
    window: Option<Window>,
    /// The caches that were notified of that.
    told: BTreeSet<Port>,
    /// The answers to each cache that may not have left.
    owed: BTreeMap<Port, usize>,
    outputs: VecDeque<Output>,
}

impl<M: Memory> Responder<M> {
    /// One for this table, with the clock that its home has.
    pub fn new(table: Arc<Table<M>>, clock: Clock) -> Self {
        let (told, owed, outputs) = Default::default();
        Self { table, clock, window: None, told, owed, outputs }
    }

    /// The same, of a table that can be read there, too.
    pub fn with_window(self, window: Window) -> Self {
        Self { window: Some(window), ..self }
    }

    fn answer(&mut self, port: Port, Read { id, slots }: &Read) {
        let owed = self.owed.entry(port).or_default();
        *owed += 1;
        if *owed > READS_PER_CACHE_MAX {
            let text = format!("a cache has at most {READS_PER_CACHE_MAX} messages under way, and takes their answers");
            return self.outputs.push_back(Output::End(port, GoodbyeReason::TooMuch, text));
        }
        let is_first = *owed == 1;
        let (head, words) = self.table.read(slots, &self.clock);
        let answer = Parcel::new(FromTable::from(Words { id: *id, head, words }));
        self.outputs.push_back(Output::Send(port, answer, None));
        if let Some(window) = self.window.as_ref().filter(|_| self.told.insert(port)) {
            let window = Parcel::new(FromTable::from(window.clone()));
            self.outputs.push_back(Output::Send(port, window, None));
        }
        if is_first {
            self.outputs.push_back(Output::AwaitRoom(port));
        }
    }
}

impl<M: Memory> Machine for Responder<M> {
    fn connected(&mut self, _: Time, _: Port) {}

    fn disconnected(&mut self, _: Time, port: Port) {
        self.owed.remove(&port);
        self.told.remove(&port);
    }

    fn has_room(&mut self, port: Port) {
        self.owed.remove(&port);
    }

    fn handle(&mut self, _: Time, port: Port, message: Parcel) {
        match message.open() {
            Ok(ToTable::Read(read)) => self.answer(port, &read),
            Ok(ToTable::Goodbye(_)) => {
                self.outputs.push_back(Output::End(port, GoodbyeReason::Done, "goodbye".into()));
            }
            Err(_) => {}
        }
    }

    fn stop(&mut self, _: &str) {
        self.outputs.clear();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

impl<M> fmt::Debug for Responder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").finish_non_exhaustive()
    }
}

/// A question to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Is this response current?
    Look(Proof),
    /// A ticket.
    Ticket,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// To [`Wanted::Look`]: whether it is proven that the response is current.
    Current(bool),
    /// To [`Wanted::Ticket`].
    Ticket(Option<Ticket>),
}

/// The table of a home on another machine, as a cache has it.
#[derive(Debug)]
pub struct LookUps {
    last: u64,
    last_read: u64,
    waiting: Vec<(u64, Wanted)>,
    under_way: VecDeque<UnderWay>,
    /// The answers that nobody has taken; none for those that are still to come.
    answers: BTreeMap<u64, Option<Found>>,
    /// Where else the table of this session can be read, and until when: by the clock of this end.
    window: Option<Window>,
    leased_until: Time,
    /// Whether it is, and when the lease is asked for next.
    reads_window: bool,
    ask_at: Option<Time>,
    session: Session,
    is_over: bool,
    broken: Broken<Rule>,
    outputs: VecDeque<Output>,
}

/// The session with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    /// There is none, or none any more.
    Away,
    /// The table has been greeted.
    Greeted,
    /// It has answered.
    Up,
}

/// A message, and those that it asks for.
#[derive(Debug)]
struct UnderWay {
    read: u64,
    /// The slots that it names: in order, each once.
    slots: Vec<u32>,
    wanted: Vec<(u64, Wanted)>,
    asked: Time,
}

impl UnderWay {
    fn due(&self) -> Time {
        self.asked + ANSWER_WITHIN
    }
}

impl LookUps {
    /// In a table that is not there yet.
    pub fn new() -> Self {
        Self::without(Broken::NONE)
    }

    /// The same without a rule.
    pub fn without(broken: Broken<Rule>) -> Self {
        let (waiting, under_way, answers, outputs) = Default::default();
        Self {
            last: 0,
            last_read: 0,
            waiting,
            under_way,
            answers,
            window: None,
            leased_until: Time::ZERO,
            reads_window: false,
            ask_at: None,
            session: Session::Away,
            is_over: false,
            broken,
            outputs,
        }
    }

    /// The same for one who reads the table without its home's processor, too, where that can be: see
    /// [`LookUps::window`].
    pub fn reading_window(self) -> Self {
        Self { reads_window: true, ..self }
    }

    /// Whether lookups have an answer, as far as is known.
    pub fn is_up(&self) -> bool {
        self.session == Session::Up
    }

    /// Where the table can be read without its home's processor, and until when: a word that is read before that, by
    /// the clock of this end and after this call, is read within the home's lease.
    pub fn window(&self) -> Option<(&Window, Time)> {
        Some((self.window.as_ref()?, self.leased_until))
    }

    /// Looks up; gives the number under which a caller is woken ([`Waiter`]) when there is an answer.
    pub fn look(&mut self, now: Time, wanted: Wanted) -> u64 {
        self.last += 1;
        let id = self.last;
        let is_taken = self.session == Session::Up && self.waiting.len() < LOOK_UPS_WAITING_MAX;
        self.answers.insert(id, (!is_taken).then(|| wanted.without_proof()));
        if !is_taken {
            return id;
        }
        let asks_already = |read: &&mut UnderWay| wanted.slot().is_some_and(|slot| read.slots.contains(&slot));
        match self.under_way.iter_mut().find(asks_already) {
            Some(read) if self.broken.is(Rule::ReadAfterAsking) => read.wanted.push((id, wanted)),
            _ => {
                self.waiting.push((id, wanted));
                self.send(now);
            }
        }
        id
    }

    /// The answer, once.
    pub fn take(&mut self, id: u64) -> Option<Found> {
        if self.is_over {
            return Some(Found::Current(false));
        }
        let found = (*self.answers.get(&id)?)?;
        self.answers.remove(&id);
        Some(found)
    }

    /// Nobody waits for it any more.
    pub fn forget(&mut self, id: u64) {
        self.answers.remove(&id);
    }

    /// Sends what waits, if not too much is under way.
    fn send(&mut self, now: Time) {
        while self.under_way.len() < READS_MAX && !self.waiting.is_empty() {
            let count = self.waiting.len().min(LOOK_UPS_PER_MESSAGE_MAX);
            let wanted: Vec<_> = self.waiting.drain(..count).collect();
            let mut slots: Vec<_> = wanted.iter().filter_map(|(_, wanted)| wanted.slot()).collect();
            slots.sort_unstable();
            slots.dedup();
            self.last_read += 1;
            let read = self.last_read;
            let message = ToTable::from(Read { id: read, slots: slots.clone() });
            self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message), None));
            self.under_way.push_back(UnderWay { read, slots, wanted, asked: now });
        }
    }

    /// The answer to the first message that is under way; says whether it is one.
    fn hear(&mut self, now: Time, Words { id, head, words }: Words) -> bool {
        let is_answer = |read: &UnderWay| read.read == id && read.slots.len() == words.len();
        if !self.under_way.front().is_some_and(is_answer) {
            return false;
        }
        let Some(UnderWay { slots, wanted, asked, .. }) = self.under_way.pop_front() else { return false };
        self.renew(now, asked, &head);
        for (id, wanted) in wanted {
            let found = match wanted {
                Wanted::Look(proof) => {
                    let word = slots.binary_search(&proof.slot).ok().map(|at| words[at]);
                    Found::Current(word.is_some_and(|word| is_current(&head, &proof, word)))
                }
                Wanted::Ticket => Found::Ticket(ticket(&head)),
            };
            self.answer(id, found);
        }
        true
    }

    /// The home has told of its lease.
    fn renew(&mut self, now: Time, asked: Time, head: &Head) {
        let left = head.lease.since(head.now);
        let asked = if self.broken.is(Rule::LeaseFromAsking) { now } else { asked };
        let drift = if self.broken.is(Rule::AllowDrift) { 0 } else { LEASE_DRIFT_PERMILLE };
        self.leased_until = self.leased_until.max(asked + left * 1000 / (1000 + drift));
        if self.reads_window {
            self.ask_at = Some(now + (left / 4).clamp(ASK_EVERY_MIN, ASK_EVERY_MAX));
        }
    }

    fn answer(&mut self, id: u64, found: Found) {
        if let Some(place) = self.answers.get_mut(&id) {
            *place = Some(found);
            self.outputs.push_back(Output::Wake(Waiter(id)));
        }
    }

    /// Asks for what every answer tells. Nobody waits for this one, and none is needed where others wait.
    fn ask(&mut self, now: Time) {
        if self.waiting.is_empty() {
            self.last += 1;
            self.waiting.push((self.last, Wanted::Ticket));
            self.send(now);
        }
    }

    /// The session is over: nothing is proven.
    fn lose(&mut self) {
        (self.session, self.window, self.leased_until, self.ask_at) = (Session::Away, None, Time::ZERO, None);
        let under_way = mem::take(&mut self.under_way).into_iter().flat_map(|read| read.wanted);
        for (id, wanted) in under_way.chain(mem::take(&mut self.waiting)).collect::<Vec<_>>() {
            self.answer(id, wanted.without_proof());
        }
    }

    fn end(&mut self, reason: GoodbyeReason, text: &str) {
        self.lose();
        self.outputs.push_back(Output::End(Port::SERVER, reason, text.into()));
    }
}

impl Default for LookUps {
    fn default() -> Self {
        Self::new()
    }
}

impl Wanted {
    fn slot(&self) -> Option<u32> {
        if let Self::Look(proof) = self { Some(proof.slot) } else { None }
    }

    fn without_proof(self) -> Found {
        match self {
            Self::Look(_) => Found::Current(false),
            Self::Ticket => Found::Ticket(None),
        }
    }
}

/// Whether a response was current when its word was read: all of it by the home's own clock.
fn is_current(head: &Head, proof: &Proof, word: u64) -> bool {
    word == proof.word && head.generation == proof.generation && head.now < head.lease
}

fn ticket(head: &Head) -> Option<Ticket> {
    let Head { life, fills, lease, now, .. } = *head;
    (fills != 0 && now < lease).then_some(Ticket { life, clock: fills })
}

impl Machine for LookUps {
    fn connected(&mut self, now: Time, _: Port) {
        self.session = Session::Greeted;
        // It should say that it is there.
        self.ask(now);
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.lose();
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        match message.open() {
            Ok(FromTable::Words(words)) if self.session != Session::Away => {
                if self.hear(now, words) {
                    self.session = Session::Up;
                    self.send(now);
                } else {
                    self.end(GoodbyeReason::Malformed, "words that were not asked for");
                }
            }
            Ok(FromTable::Window(window)) if self.session == Session::Up => self.window = Some(window),
            Ok(_) | Err(_) => {}
        }
    }

    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs = mem::take(&mut self.answers).into_keys().map(|id| Output::Wake(Waiter(id))).collect();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.under_way.front().map(UnderWay::due).into_iter().chain(self.ask_at).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.under_way.front().is_some_and(|read| read.due() <= now) {
            self.end(GoodbyeReason::Silent, "the table does not answer");
        } else if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_at = None;
            self.ask(now);
        }
    }
}
