//! The machine that serves: it writes down what it hears, and lives on when its disk fails.

use crate::messages::{Count, Heard, Shout, ToCaller, ToEcho};
use machine::{Append, Appended, DiskDone, Machine, Opaque, Output, Parcel, Port};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use types::{GoodbyeReason, Position, Time};

/// How often callers are told the count.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Texts that may wait for the disk to work again.
const WAITING_MAX: usize = 1000;

/// An echo: it says a text again when that is durable.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    callers: BTreeSet<Port>,
    /// Records in its log, and those of them that are durable.
    written: u64,
    durable: u64,
    /// The texts that have come in since the disk has failed; `None` while it works.
    waiting: Option<VecDeque<(Port, String)>>,
    tell_at: Option<Time>,
    outputs: VecDeque<Output>,
}

impl Echo {
    /// An echo whose log holds this many records.
    pub(crate) fn recovered(records: u64) -> Self {
        Self { written: records, durable: records, ..Self::default() }
    }

    /// How many texts are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    fn say(&mut self, port: Port, message: ToCaller, after: Option<Position>) {
        self.outputs.push_back(Output::Send(port, Parcel::new(message), after));
    }

    fn write(&mut self, port: Port, text: String) {
        self.written += 1;
        let position = Position(self.written);
        self.outputs.push_back(Output::Disk(Opaque::new(Append(position, text.clone()))));
        // It leaves when the record is durable.
        self.say(port, Heard { count: self.written, text }.into(), Some(position));
    }

    /// Keeps a text until the disk works again.
    fn keep(waiting: &mut VecDeque<(Port, String)>, port: Port, text: String) -> Option<Output> {
        if waiting.len() == WAITING_MAX {
            return Some(Output::End(port, GoodbyeReason::NoRoom, "the disk does not work".to_owned()));
        }
        waiting.push_back((port, text));
        None
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
        if let Some(waiting) = &mut self.waiting {
            waiting.retain(|(of, _)| *of != port);
        }
    }

    fn handle(&mut self, _: Time, port: Port, message: Parcel) {
        let Ok(ToEcho::Shout(Shout { text })) = message.open() else { return };
        match &mut self.waiting {
            Some(waiting) => self.outputs.extend(Self::keep(waiting, port, text)),
            None => self.write(port, text),
        }
    }

    fn disk(&mut self, _: Time, done: DiskDone) {
        self.durable = done.durable().map_or(self.durable, |Position(through)| self.durable.max(through));
        if let Ok(Appended::Reopened(_)) = done.open() {
            self.written = self.durable;
            for (port, text) in self.waiting.take().into_iter().flatten() {
                self.write(port, text);
            }
        }
    }

    /// The callers whose texts were being written come back and shout again.
    fn disk_failed(&mut self, _: Time, _: &str) -> bool {
        self.waiting.get_or_insert_default();
        true
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
