//! The check of a peer's connection, by its first message. The first message of a session is its role's to judge, as
//! everything that follow.

use crate::ToPeer;
use alloc::borrow::ToOwned;
use machine::{Goodbye, Parcel};
use types::{GoodbyeReason, PeerKey};

/// Lets a peer in that begins with the key which the redirector gives to members of the group.
///
/// # Errors
/// `Stranger`, with the text for the other end.
pub fn admit(key: PeerKey, first: &Parcel) -> Result<(), Goodbye> {
    match first.get() {
        Some(ToPeer::PeerHello(hello)) if hello.key == key => Ok(()),
        _ => {
            let text = "expected a peer with the key that my redirector gives, got another".to_owned();
            Err(Goodbye { reason: GoodbyeReason::Stranger, text })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerHello;
    use types::ClientId;

    #[test]
    fn a_peer_needs_the_key() {
        let hello = |key| ToPeer::PeerHello(PeerHello { client: ClientId(7), key: PeerKey::new(key) });
        let goodbye = ToPeer::Goodbye(Goodbye { reason: GoodbyeReason::Full, text: "no more".into() });
        let key = PeerKey::new([1; 16]);
        assert_eq!(admit(key, &Parcel::new(hello([1; 16]))), Ok(()));
        for other in [hello([2; 16]), goodbye] {
            assert_eq!(admit(key, &Parcel::new(other)).unwrap_err().reason, GoodbyeReason::Stranger);
        }
    }
}
