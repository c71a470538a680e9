//! What a connection is, by its first message.
//!
//! ```text
//!   where sessions are taken:     AskStatus      --> Question: answered here, no role hears of it
//!                                 anything else  --> Session: the role judges it as it judges all that follows
//!   where neighbours are taken:   PeerHello{key} --> Neighbour, if it is our key
//!                                 anything else  --> refused
//! ```

use alloc::borrow::ToOwned;
use protocol::{Goodbye, Message};
use types::{GoodbyeReason, PeerKey};

/// Who is let in where somebody listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Whoever opens a session with the store or the redirector there, or asks how it stands.
    Session,
    /// Members of the group that show the key which the redirector has given them.
    Neighbour(PeerKey),
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// A session.
    Session,
    /// A neighbour's, that brings pages.
    Neighbour,
    /// An operator's question, which gets its answer and no more.
    Question,
}

/// Says what a connection is that begins with this message.
///
/// # Errors
/// `Stranger`, and what the other end is told.
pub fn admit(expected: Expected, first: &Message) -> Result<Admitted, Goodbye> {
    match (expected, first) {
        (Expected::Session, Message::AskStatus(_)) => Ok(Admitted::Question),
        (Expected::Session, _) => Ok(Admitted::Session),
        (Expected::Neighbour(key), Message::PeerHello(hello)) if hello.key == key => Ok(Admitted::Neighbour),
        (Expected::Neighbour(_), _) => {
            let text = "expected a neighbour with the key that my redirector gives, got another".to_owned();
            Err(Goodbye { reason: GoodbyeReason::Stranger, text })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{AskStatus, PeerHello, Ping};
    use types::ClientId;

    #[test]
    fn a_neighbour_needs_the_key() {
        let hello = |key| Message::PeerHello(PeerHello { client: ClientId(7), key: PeerKey::new(key) });
        let expected = Expected::Neighbour(PeerKey::new([1; 16]));
        assert_eq!(admit(expected, &hello([1; 16])), Ok(Admitted::Neighbour));
        for other in [hello([2; 16]), Message::Ping(Ping { nonce: 1 }), Message::AskStatus(AskStatus)] {
            assert_eq!(admit(expected, &other).unwrap_err().reason, GoodbyeReason::Stranger);
        }
    }

    #[test]
    fn a_question_is_no_session() {
        assert_eq!(admit(Expected::Session, &Message::AskStatus(AskStatus)), Ok(Admitted::Question));
        assert_eq!(admit(Expected::Session, &Message::Ping(Ping { nonce: 1 })), Ok(Admitted::Session));
    }
}
