//! The machine.

use crate::messages::{Count, Heard, Shout, ToCaller, ToEcho};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use core::time::Duration;
use machine::{Append, DiskDone, Machine, Opaque, Output, Parcel, Port};
use types::{Position, Time};

/// How often callers are told the count.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// An echo: it writes down what it hears, and says it again when that is durable.
#[derive(Debug, Default)]
pub struct Echo {
    callers: BTreeSet<Port>,
    /// Records in its log, and those of them that are durable.
    written: u64,
    durable: u64,
    tell_at: Option<Time>,
    outputs: VecDeque<Output>,
}

impl Echo {
    /// An echo whose log holds so many records.
    pub fn recovered(records: u64) -> Self {
        Self { written: records, durable: records, ..Self::default() }
    }

    /// How many texts are durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    fn say(&mut self, port: Port, message: ToCaller, after: Option<Position>) {
        self.outputs.push_back(Output::Send(port, Parcel::new(message), after));
    }

    fn write(&mut self, port: Port, text: String) {
        self.written += 1;
        let position = Position(self.written);
        self.outputs.push_back(Output::Disk(Opaque::new(Append(position, text.clone()))));
        // It leaves when the record is durable: that is all there should say.
        self.say(port, Heard { count: self.written, text }.into(), Some(position));
    }
}

impl Machine for Echo {
    fn start(&mut self, now: Time) {
        self.tell_at = Some(now + TELL_EVERY);
    }

    fn connected(&mut self, _: Time, port: Port) {
        self.callers.insert(port);
    }

    fn disconnected(&mut self, _: Time, port: Port) {
        self.callers.remove(&port);
    }

    fn handle(&mut self, _: Time, port: Port, message: Parcel) {
        if let Ok(ToEcho::Shout(Shout { text })) = message.open() {
            self.write(port, text);
        }
    }

    fn disk(&mut self, _: Time, done: DiskDone) {
        self.durable = done.durable().map_or(self.durable, |Position(through)| self.durable.max(through));
    }

    fn stop(&mut self, _: &str) {
        *self = Self::default();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.tell_at
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_at = Some(now + TELL_EVERY);
            for port in self.callers.clone() {
                self.say(port, Count { count: self.durable }.into(), None);
            }
        }
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }
}
