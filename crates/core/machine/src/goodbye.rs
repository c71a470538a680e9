//! The message that ends a session, which every family has in both directions.

use alloc::string::String;
use types::GoodbyeReason;

/// Ends a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// Why, by name.
    pub reason: GoodbyeReason,
    /// Why, for a person: what was expected and what came.
    pub text: String,
}

impl Goodbye {
    /// A message broke the protocol: the text says what was expected and what came.
    pub fn malformed(text: String) -> Self {
        Self { reason: GoodbyeReason::Malformed, text }
    }

    /// A bound on what a peer can make grow was passed.
    pub fn too_much(text: String) -> Self {
        Self { reason: GoodbyeReason::TooMuch, text }
    }
}
