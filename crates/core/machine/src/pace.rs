//! The messages that may overtake others on a link.
//!
//! A link is a stream of messages in the order in which they were said, but for what a family lets pass. That is there
//! for slow lines: a large commit takes seconds, and what needs no order with it does not wait.

/// How a message keeps its place among those that were said before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It stands where a session begins: it passes nothing, and nothing passes it.
    Opening,
    /// It goes before everything.
    Urgent,
    /// It keeps its place.
    Ordered,
    /// It lets others pass as long as it has not left as a whole.
    Yielding,
    /// It passes nothing, and lets others pass while it waits for what yields.
    Trailing,
}

impl Pace {
    /// Whether a message of this pace may arrive before one of that pace which was said earlier.
    pub fn may_pass(self, earlier: Self) -> bool {
        match (self, earlier) {
            (_, Self::Opening) | (Self::Opening | Self::Trailing, _) => false,
            (Self::Urgent, earlier) => earlier != Self::Urgent,
            (Self::Ordered | Self::Yielding, earlier) => matches!(earlier, Self::Yielding | Self::Trailing),
        }
    }
}
