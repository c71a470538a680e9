//! The machine of an operator who asks about all homes at an address: which there are, and to remove one.
//!
//! ```text
//!   connected --ListHomes--> Homes *, until the last --> ready --RemoveHome--> Done or NotDone
//! ```
//! A list that was interrupted is asked for again. Of a removal that was interrupted it is unknown what became of it.

use super::line::Awaited;
use super::machine::Outcome;
use machine::{Machine, Output, Parcel, Port, Waiter};
use machines::messages::holder::VolumeId;
use machines::messages::home::{FoundHome, FromHome, Homes, ListHomes, NotDone, RemoveHome, ToHome};
use std::collections::VecDeque;
use std::mem;
use types::Time;
use types::limits::VOLUME_HOMES_MAX;

/// The number under which the operator waits.
pub(super) const ANSWER: Waiter = Waiter(0);

#[derive(Debug, Default)]
enum Asked {
    /// The list; so far these have come.
    #[default]
    List,
    /// The list has come, or homes cannot tell.
    Listed(Result<Vec<FoundHome>, NotDone>),
    /// Nothing.
    Nothing,
    /// To remove one.
    Removal,
    /// It is removed, or not; or nobody knows.
    Removed(Outcome),
}

/// The questions of an operator.
#[derive(Debug, Default)]
pub(super) struct Survey {
    asked: Asked,
    homes: Vec<FoundHome>,
    /// The session is one about all homes, and nothing is asked in it.
    is_ready: bool,
    is_over: bool,
    outputs: VecDeque<Output>,
}

impl Survey {
    /// The homes that there are, when all have come, once.
    pub(super) fn take_homes(&mut self) -> Option<Result<Vec<FoundHome>, NotDone>> {
        match mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Listed(homes) => Some(homes),
            before => {
                self.asked = before;
                None
            }
        }
    }

    /// Has a home removed, to which nothing was written for this many seconds. Returns whether there is a session for
    /// it.
    pub(super) fn remove(&mut self, volume: VolumeId, unwritten_s: u64) -> bool {
        let is_ready = mem::take(&mut self.is_ready);
        if is_ready {
            self.asked = Asked::Removal;
            self.say(RemoveHome { volume, unwritten_s });
        }
        is_ready
    }

    /// The outcome of that, once.
    pub(super) fn take_removed(&mut self) -> Option<Outcome> {
        match mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Removed(outcome) => Some(outcome),
            before => {
                self.asked = before;
                None
            }
        }
    }

    fn say(&mut self, message: impl Into<ToHome>) {
        self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
    }

    fn finish(&mut self, asked: Asked) {
        self.asked = asked;
        self.outputs.push_back(Output::Wake(ANSWER));
    }

    fn removed(&mut self, outcome: Outcome) {
        self.is_ready = true;
        self.finish(Asked::Removed(outcome));
    }

    /// Some homes have come: the next ones are asked for, until those were the last.
    fn add(&mut self, Homes { homes, is_last }: Homes) {
        let next = homes.last().and_then(|last| last.volume.0.checked_add(1));
        self.homes.extend(homes);
        match next {
            Some(next) if !is_last && self.homes.len() < VOLUME_HOMES_MAX => {
                self.say(ListHomes { from: VolumeId(next) });
            }
            _ => {
                let homes = mem::take(&mut self.homes);
                self.is_ready = true;
                self.finish(Asked::Listed(Ok(homes)));
            }
        }
    }
}

impl Awaited for Survey {
    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Machine for Survey {
    fn connected(&mut self, _: Time, _: Port) {
        self.homes.clear();
        // A session is about all homes by its first question, whatever is wanted of it.
        self.say(ListHomes { from: VolumeId(0) });
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.is_ready = false;
        if let Asked::Removal = self.asked {
            self.finish(Asked::Removed(Outcome::Lost));
        }
    }

    fn handle(&mut self, _: Time, _: Port, message: Parcel) {
        match (message.open(), &self.asked) {
            (Ok(FromHome::Homes(homes)), Asked::List) => self.add(homes),
            (Ok(FromHome::Homes(_)), _) => self.is_ready = true,
            (Ok(FromHome::NotDone(why)), Asked::List) => self.finish(Asked::Listed(Err(why))),
            (Ok(FromHome::Done(_)), Asked::Removal) => self.removed(Outcome::Done(None)),
            (Ok(FromHome::NotDone(why)), Asked::Removal) => self.removed(Outcome::Refused(why)),
            _ => {}
        }
    }

    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs = VecDeque::from([Output::Wake(ANSWER)]);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
