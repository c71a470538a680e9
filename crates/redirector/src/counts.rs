//! What counts a member can have heard of.
//!
//! 1. The store names a count only when it has applied all through there. So the highest that it has named to us is one
//!    that it will never take for made up.
//! 2. A member that has joined has heard of no higher one: what it knew when it came was compared with the store, which
//!    told us of everything that it had applied before it answered; and what it has heard since has come by us.
//! 3. A higher one is made up. The store would end the session of whoever names it, or wait for it for ever.

use crate::Redirector;
use alloc::format;
use protocol::{CommitRequest, Goodbye, Message, Outcome, PageReads};
use types::Version;

/// The highest count that a message of the store names.
pub(crate) fn named_in(message: &Message) -> Version {
    match message {
        Message::Notices(notices) => {
            notices.items.iter().map(|notice| notice.version).fold(notices.through, Version::max)
        }
        Message::Page(page) => page.version,
        Message::Rejoined(rejoined) => rejoined.through,
        Message::Revalidated(revalidated) => {
            revalidated.items.iter().map(|notice| notice.version).fold(Version::ZERO, Version::max)
        }
        Message::CommitReply(reply) => match &reply.outcome {
            Outcome::Committed { pages } => {
                pages.iter().map(|advance| advance.version).fold(Version::ZERO, Version::max)
            }
            _ => Version::ZERO,
        },
        _ => Version::ZERO,
    }
}

impl Redirector {
    /// Refuses to go on with a member that has heard of what the store has not named.
    pub(crate) fn check_named(&self, count: Version, what: &str) -> Result<(), Goodbye> {
        let named = self.trunk.named();
        if count > named {
            return Err(Goodbye::malformed(format!("expected counts up to {named} in {what}, got {count}")));
        }
        Ok(())
    }

    /// The same for what a transaction has read.
    pub(crate) fn check_evidence(&self, request: &CommitRequest) -> Result<(), Goodbye> {
        let evidence = request.reads.iter().map(PageReads::newest).fold(Version::ZERO, Version::max);
        self.check_named(evidence, "a commit request")
    }
}
