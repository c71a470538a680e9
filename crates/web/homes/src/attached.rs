//! A home in another process, as a cache has it: its questions, and the changes that it reports.
//!
//! ```text
//!   away --connected/Attach--> attaching --Attached--> attached --lost--> away
//! ```
//! 1. A question is asked while the session is up, and has no answer otherwise: what it would be stored under is gone
//!    with the session.
//! 2. A change is notified of in each session until it is released: it has been made, whatever becomes of the home.
//! 3. The home is notified of [`CHANGES_PER_CACHE_MAX`] changes at a time; further ones wait.
//! 4. While anything is waited for, the home is asked whether it is there, and left if it is silent.
//! 5. A cache of several homes tells all of a change. One that is gone is not waited for when another one has said that
//!    it is released, nor told later: their hub has waited for it.

use crate::messages::caches::{
    Attach, Changed, Count, Counted, Describe, Described, Free, FromHome, NotStored, Proof, Store, Stored, Ticket,
    ToHome,
};
use crate::messages::hub::{Dependency, Released};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use machine::{Due, Keepalive, Machine, Output, Parcel, Port, Waiter};
use types::limits::{CHANGES_PER_CACHE_MAX, DEPENDENCIES_KEPT_MAX, DEPENDENCIES_PER_UPDATE_MAX};
use types::{GoodbyeReason, Time};

/// How often a home is asked whether it is there while something is waited for, and how long it may be silent then.
const ASK_EVERY: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A question to a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Store a response that was asked for under the ticket, with everything that it depends on.
    Store(Ticket, Vec<Dependency>),
    /// What does a stored response depend on?
    Describe(Proof),
    /// How many stored responses depend on it?
    Count(Dependency),
    /// These have changed: say when no cache answers without that.
    Changed(Vec<Dependency>),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Question::Store`].
    Stored(Result<Proof, NotStored>),
    /// To [`Question::Describe`].
    Described(Vec<Dependency>),
    /// To [`Question::Count`].
    Counted(u64),
    /// To [`Question::Changed`].
    Released,
    /// There is no home just now.
    Away,
}

/// A home of another process.
#[derive(Debug)]
pub struct Attached {
    last: u64,
    /// The questions that are under way, and the answers that nobody has taken.
    questions: BTreeMap<u64, Option<Answer>>,
    /// The changes that are not released.
    changes: BTreeMap<u64, Vec<Dependency>>,
    /// Those that the home of this session was notified of, and the last of them.
    told: usize,
    told_through: u64,
    is_up: bool,
    /// The session is there, or is being opened.
    is_connected: bool,
    keepalive: Keepalive,
    is_over: bool,
    outputs: VecDeque<Output>,
}

impl Default for Attached {
    fn default() -> Self {
        Self::new()
    }
}

impl Attached {
    /// A home that is not there yet.
    pub fn new() -> Self {
        Self {
            last: 0,
            questions: BTreeMap::new(),
            changes: BTreeMap::new(),
            told: 0,
            told_through: 0,
            is_up: false,
            is_connected: false,
            keepalive: Keepalive::new(ASK_EVERY, ANSWER_WITHIN),
            is_over: false,
            outputs: VecDeque::new(),
        }
    }

    /// Whether there is a session.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Asks; gives the question's number, under which a caller is woken ([`Waiter`]) when there is an answer.
    pub fn ask(&mut self, now: Time, question: Question) -> u64 {
        self.last += 1;
        let id = self.last;
        self.questions.insert(id, None);
        match question {
            Question::Changed(mut dependencies) => {
                if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX {
                    dependencies = Vec::from([Dependency::ALL]);
                }
                self.changes.insert(id, dependencies);
                self.tell();
            }
            _ if !self.is_up => self.answer(id, Answer::Away),
            Question::Store(_, dependencies) if dependencies.len() > DEPENDENCIES_KEPT_MAX => {
                self.answer(id, Answer::Stored(Err(NotStored::TooMany)));
            }
            Question::Store(ticket, dependencies) => self.say(Store { ticket, id, dependencies }),
            Question::Describe(proof) => self.say(Describe { id, proof }),
            Question::Count(dependency) => self.say(Count { id, dependency }),
        }
        self.watch(now);
        id
    }

    /// The answer to a question, once.
    pub fn take(&mut self, id: u64) -> Option<Answer> {
        if self.is_over {
            return Some(Answer::Away);
        }
        let answer = self.questions.get_mut(&id)?.take()?;
        self.questions.remove(&id);
        Some(answer)
    }

    /// Nobody waits for the answer to a question any more. A change is notified of all the same, if it was not
    /// released.
    pub fn forget(&mut self, id: u64) {
        let answer = self.questions.remove(&id).flatten();
        // The slot of a response that nobody keeps.
        if let Some(Answer::Stored(Ok(proof))) = answer {
            self.free(proof);
        }
    }

    /// Does not report a change any more if the home is gone, and says whether it is: another home with the same hub
    /// has told, and the hub waits for what this one answers.
    pub fn withdraw(&mut self, id: u64) -> bool {
        if !self.is_up {
            self.changes.remove(&id);
        }
        !self.is_up
    }

    /// A stored response is not kept any longer.
    pub fn free(&mut self, proof: Proof) {
        if self.is_up {
            self.say(Free { proof });
        }
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        match (self.questions.get_mut(&id), answer) {
            (Some(place), answer) => {
                *place = Some(answer);
                self.outputs.push_back(Output::Wake(Waiter(id)));
            }
            (None, Answer::Stored(Ok(proof))) => self.free(proof),
            (None, _) => {}
        }
    }

    /// Tells the home of changes that it was not told of, as many as it takes.
    fn tell(&mut self) {
        while self.is_up && self.told < CHANGES_PER_CACHE_MAX {
            let Some((&id, dependencies)) = self.changes.range(self.told_through + 1..).next() else { return };
            let dependencies = dependencies.clone();
            (self.told, self.told_through) = (self.told + 1, id);
            self.say(Changed { id, dependencies });
        }
    }

    /// Asks whether the home is there, as long as something is waited for.
    fn watch(&mut self, now: Time) {
        let waits = !self.is_up || !self.changes.is_empty() || self.questions.values().any(Option::is_none);
        self.keepalive.watch(now, self.is_connected && waits);
    }

    /// The session is over: its questions have no answer.
    fn lose(&mut self, now: Time) {
        (self.is_up, self.is_connected) = (false, false);
        self.watch(now);
        let asked = self.questions.iter().filter(|(_, answer)| answer.is_none());
        for id in asked.map(|(&id, _)| id).collect::<Vec<_>>() {
            if self.changes.contains_key(&id) {
                // A waiting caller may have another home's word.
                self.outputs.push_back(Output::Wake(Waiter(id)));
            } else {
                self.answer(id, Answer::Away);
            }
        }
    }

    fn say(&mut self, message: impl Into<ToHome>) {
        self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
    }
}

impl Machine for Attached {
    fn connected(&mut self, now: Time, _: Port) {
        (self.told, self.told_through) = (0, 0);
        self.is_connected = true;
        self.say(Attach { asked: now });
        self.watch(now);
    }

    fn disconnected(&mut self, now: Time, _: Port) {
        self.lose(now);
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        match message.open() {
            Ok(FromHome::Attached(_)) => {
                self.is_up = true;
                self.tell();
            }
            Ok(FromHome::Stored(Stored { id, outcome })) => self.answer(id, Answer::Stored(outcome)),
            Ok(FromHome::Described(Described { id, dependencies })) => {
                self.answer(id, Answer::Described(dependencies));
            }
            Ok(FromHome::Counted(Counted { id, responses })) => self.answer(id, Answer::Counted(responses)),
            Ok(FromHome::Released(Released { id })) => {
                if self.changes.remove(&id).is_some() {
                    self.told = self.told.saturating_sub(1);
                    self.answer(id, Answer::Released);
                    self.tell();
                }
            }
            Ok(FromHome::Goodbye(_)) | Err(_) => {}
        }
        self.keepalive.heard(now);
        self.watch(now);
    }

    fn stop(&mut self, _: &str) {
        self.is_over = true;
        let questions = mem::take(&mut self.questions);
        self.outputs = questions.into_keys().map(|id| Output::Wake(Waiter(id))).collect();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.keepalive.due_at()
    }

    fn handle_timeout(&mut self, now: Time) {
        match self.keepalive.due(now) {
            Due::Nothing => {}
            Due::Ask => self.say(Attach { asked: now }),
            Due::Leave => {
                self.lose(now);
                let text = String::from("nothing was heard of the home");
                self.outputs.push_back(Output::End(Port::SERVER, GoodbyeReason::Silent, text));
            }
        }
    }
}
