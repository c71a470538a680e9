//! Its client: shouts again after a session was lost, until it has been heard.

use crate::messages::{Count, Heard, Shout, ToCaller, ToEcho};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use machine::{Machine, Output, Parcel, Port, Waiter};
use types::Time;

/// The number under which the application waits for a text to be heard.
const HEARD: Waiter = Waiter(1);

/// A caller of an echo.
#[derive(Debug, Default)]
pub struct Caller {
    is_up: bool,
    /// Texts that were not heard yet, in order.
    shouts: VecDeque<String>,
    /// Texts that were, each with the count that it was given.
    heard: Vec<(u64, String)>,
    /// The last count that was told without being asked for.
    count: Option<u64>,
    outputs: VecDeque<Output>,
}

impl Caller {
    /// Has a text written down.
    pub fn shout(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.is_up {
            self.say(text.clone());
        }
        self.shouts.push_back(text);
    }

    /// The texts that were heard, with their counts.
    pub fn heard(&self) -> &[(u64, String)] {
        &self.heard
    }

    /// Whether all were.
    pub fn is_heard(&self) -> bool {
        self.shouts.is_empty()
    }

    /// The last count that the echo has told.
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    fn say(&mut self, text: String) {
        self.outputs.push_back(Output::Send(Port::Server, Parcel::new(ToEcho::from(Shout { text })), None));
    }
}

impl Machine for Caller {
    fn connected(&mut self, _: Time, _: Port) {
        self.is_up = true;
        // A text that was said before the session was lost may have been heard or not: it is said again.
        for text in self.shouts.clone() {
            self.say(text);
        }
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.is_up = false;
    }

    fn handle(&mut self, _: Time, _: Port, message: Parcel) {
        match message.open() {
            Ok(ToCaller::Heard(Heard { count, text })) => {
                self.shouts.retain(|shout| *shout != text);
                self.heard.push((count, text));
                self.outputs.push_back(Output::Wake(HEARD));
            }
            Ok(ToCaller::Count(Count { count })) => self.count = Some(count),
            Ok(ToCaller::Goodbye(_)) | Err(_) => {}
        }
    }

    /// Its application finds that nothing is heard any more.
    fn stop(&mut self, _: &str) {
        *self = Self::default();
        self.outputs.push_back(Output::Wake(HEARD));
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn has_callers(&self) -> bool {
        true
    }
}
