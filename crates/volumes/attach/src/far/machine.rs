//! The machine of a home elsewhere: the questions and the one command of its owner, over sessions that come and go.
//!
//! ```text
//!   away --connected/Open--> opening --Opened--> open --lost--> away
//! ```
//! 1. A read is asked again in each session until it is answered: it changes nothing.
//! 2. A command is of one session. If that is lost it is unknown what became of it: its owner asks, or does it again.
//! 3. Of a write-back, no more is on its way than the window.
//! 4. A home that went back is asked nothing any more (**HomeStays**).
//! 5. While anything is waited for, home is asked whether it is there, and left if it is silent.

use super::line::Awaited;
use bytes::Bytes;
use machine::{Due, Keepalive, Machine, Output, Parcel, Port, Waiter};
use machines::messages::holder::{Extent, Stamp, VolumeId};
use machines::messages::home::{
    Answered, BlockSums, Create, Durable, Fenced, FromHome, Map, NotDone, Open, Opened, Put, Read, Recall, Recalled,
    Run, Runs, Scrub, Scrubbed, ToHome, Took, Unread,
};
use machines::{HomeState, KnownHome, WentBack};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::limits::VOLUME_READS_PER_SESSION_MAX;
use types::{Broken, GoodbyeReason, Time};

/// How often home is asked whether it is there while something is waited for, and how long it may be silent then.
const ASK_EVERY: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(10);

/// The number under which the one waits who has begun a command, or for the session.
pub(super) const COMMAND: Waiter = Waiter(0);

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The bytes of an extent, of no more than a part.
    Bytes(Extent),
    /// The checksums of its blocks.
    Sums(Extent),
    /// Its runs.
    Runs(Extent),
    /// The registry's entry of the volume.
    Entry,
}

/// Its answer; nothing in it if home could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Bytes(Bytes),
    Sums(Vec<BlockSums>),
    /// Home cannot read them, and why.
    Unread(String),
    Runs(Vec<Run>),
    Entry(Bytes),
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done; with home's mark, if that is what it says.
    Done(Option<Stamp>),
    /// Not done.
    Refused(NotDone),
    /// Nobody knows: the session was lost.
    Lost,
}

/// The command of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Command {
    #[default]
    None,
    UnderWay,
    Over(Outcome),
}

/// How it stands with home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no session.
    Away,
    /// The volume is open.
    Open(Opened),
    /// Home does not open it.
    Refused(NotDone),
    /// Home is not as it was left.
    WentBack(WentBack),
}

#[derive(Debug)]
struct Asked {
    question: Question,
    answer: Option<Answer>,
}

/// A home elsewhere.
#[derive(Debug)]
pub(super) struct Far {
    volume: VolumeId,
    /// It is made with this size.
    create: Option<u64>,
    is_connected: bool,
    standing: Standing,
    known: KnownHome,
    /// The bytes of parts that were sent in this session, and those that home has taken.
    sent: u64,
    taken: u64,
    command: Command,
    last: u64,
    questions: BTreeMap<u64, Asked>,
    /// Those that home was not asked in this session.
    unsaid: VecDeque<u64>,
    /// Those that home was asked in this session, and has not answered.
    asked: usize,
    keepalive: Keepalive,
    is_over: bool,
    outputs: VecDeque<Output>,
}

impl Far {
    /// A home that was not learned of yet.
    pub(super) fn new(volume: VolumeId, create: Option<u64>) -> Self {
        Self {
            volume,
            create,
            is_connected: false,
            standing: Standing::Away,
            known: KnownHome::new(Broken::NONE),
            sent: 0,
            taken: 0,
            command: Command::None,
            last: COMMAND.0,
            questions: BTreeMap::new(),
            unsaid: VecDeque::new(),
            asked: 0,
            keepalive: Keepalive::new(ASK_EVERY, SILENCE),
            is_over: false,
            outputs: VecDeque::new(),
        }
    }

    /// How it stands with home.
    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Home as it was learned of last.
    pub(super) fn known(&self) -> Option<HomeState> {
        self.known.state()
    }

    /// Home has everything up to here, as was heard otherwise.
    pub(super) fn is_home(&mut self, mark: Stamp) {
        self.known.is_home(mark);
    }

    /// Asks; gives the question's number, under which a caller waits.
    pub(super) fn ask(&mut self, now: Time, question: Question) -> u64 {
        self.last += 1;
        self.questions.insert(self.last, Asked { question, answer: None });
        self.unsaid.push_back(self.last);
        self.say_questions();
        self.watch(now);
        self.last
    }

    /// The answer to a question, once.
    pub(super) fn take(&mut self, id: u64) -> Option<Answer> {
        let answer = self.questions.get_mut(&id)?.answer.take()?;
        self.questions.remove(&id);
        Some(answer)
    }

    /// Nobody waits for the answer to a question any more. Home answers it all the same, if it was asked.
    pub(super) fn forget(&mut self, id: u64) {
        self.questions.remove(&id);
    }

    /// Whether no command is under way: one that its caller has given up continues at home.
    pub(super) fn is_free(&self) -> bool {
        self.command != Command::UnderWay
    }

    /// Begins a command, when none is under way. Returns whether there is a session for it.
    pub(super) fn command(&mut self, now: Time, message: impl Into<ToHome>) -> bool {
        let is_open = matches!(self.standing, Standing::Open(_));
        if is_open {
            self.command = Command::UnderWay;
            self.say(message);
            self.watch(now);
        }
        is_open
    }

    /// The outcome of the command, once.
    pub(super) fn outcome(&mut self) -> Option<Outcome> {
        match std::mem::take(&mut self.command) {
            Command::Over(outcome) => Some(outcome),
            before => {
                self.command = before;
                None
            }
        }
    }

    /// Sends parts of the write-back, those that the window has room for; all if the write-back is over already, which
    /// takes no more. Returns whether there were such.
    pub(super) fn put(&mut self, unsent: &mut VecDeque<Put>) -> bool {
        let window = match self.standing {
            Standing::Open(Opened { window, .. }) if self.command == Command::UnderWay => window,
            _ => {
                unsent.clear();
                return true;
            }
        };
        let before = unsent.len();
        while unsent.front().is_some_and(|put| self.sent - self.taken + put.cost() <= window) {
            let put = unsent.pop_front().expect("it is the first");
            self.sent += put.cost();
            self.say(put);
        }
        unsent.len() < before
    }

    /// Returns what belongs to the command under way.
    pub(super) fn go_on(&mut self, message: impl Into<ToHome>) {
        if self.command == Command::UnderWay && matches!(self.standing, Standing::Open(_)) {
            self.say(message);
        }
    }

    /// The bytes of parts that were sent, and that home has not taken.
    pub(super) fn under_way_bytes(&self) -> u64 {
        self.sent - self.taken
    }

    fn finish(&mut self, outcome: Outcome) {
        if self.command == Command::UnderWay {
            self.command = Command::Over(outcome);
            self.outputs.push_back(Output::Wake(COMMAND));
        }
    }

    fn answer(&mut self, id: u64, answer: Answer) {
        self.asked = self.asked.saturating_sub(1);
        // An answer of the other kind is none.
        let is_one = |asked: &&mut Asked| {
            matches!(
                (&asked.question, &answer),
                (Question::Bytes(_), Answer::Bytes(_) | Answer::Unread(_))
                    | (Question::Sums(_), Answer::Sums(_) | Answer::Unread(_))
                    | (Question::Runs(_), Answer::Runs(_))
                    | (Question::Entry, Answer::Entry(_))
            )
        };
        if let Some(asked) = self.questions.get_mut(&id).filter(is_one) {
            asked.answer = Some(answer);
            self.outputs.push_back(Output::Wake(Waiter(id)));
        }
        self.say_questions();
    }

    /// Asks home what it was not asked in this session, as much as it takes.
    fn say_questions(&mut self) {
        if !matches!(self.standing, Standing::Open(_)) {
            return;
        }
        while self.asked < VOLUME_READS_PER_SESSION_MAX
            && let Some(id) = self.unsaid.pop_front()
        {
            let Some(asked) = self.questions.get(&id) else { continue };
            self.asked += 1;
            let message = match asked.question {
                Question::Bytes(extent) => ToHome::Read(Read { id, extent }),
                Question::Sums(extent) => ToHome::Scrub(Scrub { id, extent }),
                Question::Runs(extent) => ToHome::Map(Map { id, extent }),
                Question::Entry => ToHome::Recall(Recall { id }),
            };
            self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message), None));
        }
    }

    fn stand(&mut self, standing: Standing) {
        self.standing = standing;
        self.outputs.push_back(Output::Wake(COMMAND));
    }

    fn opened(&mut self, opened: Opened) {
        // From now on it is there: whoever makes it again finds it so.
        self.create = None;
        let Opened { generation, mark, .. } = opened;
        match self.known.hear(HomeState { generation, mark }) {
            Err(back) => {
                self.finish(Outcome::Lost);
                self.stand(Standing::WentBack(back));
                let waiting: Vec<u64> = self.questions.keys().copied().collect();
                self.outputs.extend(waiting.into_iter().map(|id| Output::Wake(Waiter(id))));
            }
            Ok(()) => match &mut self.standing {
                Standing::Open(before) => *before = opened,
                Standing::WentBack(_) => {}
                Standing::Away | Standing::Refused(_) => {
                    self.stand(Standing::Open(opened));
                    self.say_questions();
                }
            },
        }
    }

    fn open(&mut self) {
        let volume = self.volume;
        match self.create {
            Some(size) => self.say(Create { volume, size }),
            None => self.say(Open { volume }),
        }
    }

    /// Asks whether home is there, as long as something is waited for.
    fn watch(&mut self, now: Time) {
        let waits = self.standing == Standing::Away
            || self.command == Command::UnderWay
            || self.questions.values().any(|asked| asked.answer.is_none());
        self.keepalive.watch(now, self.is_connected && waits);
    }

    fn lose(&mut self, now: Time) {
        (self.is_connected, self.sent, self.taken, self.asked) = (false, 0, 0, 0);
        self.keepalive.watch(now, false);
        let waits = self.questions.iter().filter(|(_, asked)| asked.answer.is_none());
        self.unsaid = waits.map(|(id, _)| *id).collect();
        self.finish(Outcome::Lost);
        if !matches!(self.standing, Standing::Refused(_) | Standing::WentBack(_)) {
            self.stand(Standing::Away);
        }
    }

    fn say(&mut self, message: impl Into<ToHome>) {
        self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
    }
}

impl Awaited for Far {
    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Machine for Far {
    fn connected(&mut self, now: Time, _: Port) {
        self.is_connected = true;
        self.open();
        self.watch(now);
    }

    fn disconnected(&mut self, now: Time, _: Port) {
        self.lose(now);
    }

    fn heard(&mut self, now: Time, _: Port) {
        self.keepalive.heard(now);
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        match message.open() {
            Ok(FromHome::Opened(opened)) => self.opened(opened),
            Ok(FromHome::Fenced(Fenced { mark, .. }) | FromHome::Durable(Durable { mark })) => {
                self.known.is_home(mark);
                self.finish(Outcome::Done(Some(mark)));
            }
            Ok(FromHome::Done(_)) => self.finish(Outcome::Done(None)),
            Ok(FromHome::NotDone(why)) => match self.standing {
                Standing::Open(_) => self.finish(Outcome::Refused(why)),
                Standing::Away | Standing::Refused(_) => self.stand(Standing::Refused(why)),
                Standing::WentBack(_) => {}
            },
            Ok(FromHome::Took(Took { bytes })) => {
                // More than was sent is no room.
                self.taken = bytes.clamp(self.taken, self.sent);
                self.outputs.push_back(Output::Wake(COMMAND));
            }
            Ok(FromHome::Answered(Answered { id, data })) => self.answer(id, Answer::Bytes(data)),
            Ok(FromHome::Scrubbed(Scrubbed { id, sums })) => self.answer(id, Answer::Sums(sums)),
            Ok(FromHome::Unread(Unread { id, why })) => self.answer(id, Answer::Unread(why)),
            Ok(FromHome::Runs(Runs { id, runs })) => self.answer(id, Answer::Runs(runs)),
            Ok(FromHome::Recalled(Recalled { id, entry })) => self.answer(id, Answer::Entry(entry)),
            Ok(FromHome::Homes(_) | FromHome::Goodbye(_)) | Err(_) => {}
        }
        self.keepalive.heard(now);
        self.watch(now);
    }

    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.finish(Outcome::Lost);
        let questions = std::mem::take(&mut self.questions);
        self.outputs = questions.into_keys().map(|id| Output::Wake(Waiter(id))).collect();
        self.outputs.push_back(Output::Wake(COMMAND));
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
            Due::Ask => self.say(Open { volume: self.volume }),
            Due::Leave => {
                self.lose(now);
                let text = String::from("nothing was heard of home");
                self.outputs.push_back(Output::End(Port::SERVER, GoodbyeReason::Silent, text));
            }
        }
    }
}
