//! Whether a connection of a neighbour's is one, by its first message. What opens a session its role judges, as it judges
//! all that follows.

use alloc::borrow::ToOwned;
use protocol::{Goodbye, ToPeer};
use types::{GoodbyeReason, PeerKey};

/// Lets in who begins with the key that the redirector gives to members of the group.
///
/// # Errors
/// `Stranger`, and what the other end is told.
pub fn admit(key: PeerKey, first: &ToPeer) -> Result<(), Goodbye> {
    match first {
        ToPeer::PeerHello(hello) if hello.key == key => Ok(()),
        _ => {
            let text = "expected a neighbour with the key that my redirector gives, got another".to_owned();
            Err(Goodbye { reason: GoodbyeReason::Stranger, text })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::PeerHello;
    use types::ClientId;

    #[test]
    fn a_neighbour_needs_the_key() {
        let hello = |key| ToPeer::PeerHello(PeerHello { client: ClientId(7), key: PeerKey::new(key) });
        let goodbye = ToPeer::Goodbye(Goodbye { reason: GoodbyeReason::Full, text: "no more".into() });
        let key = PeerKey::new([1; 16]);
        assert_eq!(admit(key, &hello([1; 16])), Ok(()));
        for other in [hello([2; 16]), goodbye] {
            assert_eq!(admit(key, &other).unwrap_err().reason, GoodbyeReason::Stranger);
        }
    }
}
