//! The time of questions to the sequencer of another node, in parts.
//!
//! ```text
//!   coordinator: processor, link out --> link in, processor :sequencer
//!                processor, link in  <-- link out, processor
//! ```

use super::costs::Message;
use core::time::Duration;
use messages::ToNode;
use std::collections::BTreeMap;
use types::{Time, TxnId};

/// A part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The question and its answer: the processors at both ends, the way between them, and the bytes.
    Messages,
    /// Other messages on the links.
    Links,
    /// Other things that a processor does first.
    Processors,
    /// The sequencer's work, and that for messages which came together with the question.
    Work,
}

/// The time of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts([Duration; 4]);

impl Parts {
    /// The time of one part.
    pub(super) fn of(&self, part: Part) -> Duration {
        self.0[part as usize]
    }

    /// The time of all parts.
    pub(super) fn sum(&self) -> Duration {
        self.0.iter().sum()
    }
}

/// A question that is under way, whose time is accounted for until then.
#[derive(Debug)]
struct Round {
    parts: Parts,
    through: Time,
}

/// All questions of a run.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    under_way: BTreeMap<TxnId, Round>,
    answered: u64,
    parts: Parts,
}

impl Rounds {
    /// A node begins to send messages, questions or answers among them.
    pub(super) fn begin(&mut self, now: Time, messages: &[Message]) {
        for message in messages {
            if let Message::Node(ToNode::Sequence(sequence)) = message {
                self.under_way.insert(sequence.txn, Round { parts: Parts::default(), through: now });
            }
        }
        self.spend(Part::Work, now, messages);
    }

    /// The messages were so far until now: the time belongs to this part.
    pub(super) fn spend(&mut self, part: Part, now: Time, messages: &[Message]) {
        for message in messages {
            let txn = match message {
                Message::Node(ToNode::Sequence(sequence)) => sequence.txn,
                Message::Node(ToNode::Placed(placed)) => placed.txn,
                _ => continue,
            };
            if let Some(round) = self.under_way.get_mut(&txn) {
                round.parts.0[part as usize] += now.since(round.through);
                round.through = now;
            }
        }
    }

    /// Coordinators have the answers among these messages.
    pub(super) fn end(&mut self, messages: &[Message]) {
        for message in messages {
            if let Message::Node(ToNode::Placed(placed)) = message
                && let Some(round) = self.under_way.remove(&placed.txn)
            {
                self.answered += 1;
                self.parts.0.iter_mut().zip(round.parts.0).for_each(|(sum, part)| *sum += part);
            }
        }
    }

    /// The mean of a part over all answers, in seconds.
    pub(super) fn mean_s(&self, of: impl Fn(&Parts) -> Duration) -> f64 {
        of(&self.parts).as_secs_f64() / self.answered.max(1) as f64
    }
}
