//! The messages that may overtake others on a link of the store: by their [`Pace`](machine::Pace).
//!
//! | pace | messages | passes |
//! |---|---|---|
//! | opening | `Hello`, `Welcome`, `Resume`, `Resumed` | nothing, and nothing passes it |
//! | urgent | `Ping`, `Pong` | everything |
//! | yielding | `Commit` | commits, and what trails them |
//! | trailing | `Ack`, `AskOutcome`, `Goodbye` | nothing |
//! | ordered | all others | commits, and what trails them |
//!
//! # Why that is sound
//! - *Commits* bring their evidence with them, so it does not matter for what they are worth when they arrive. A client
//!   does not build on a commit without having its outcome, and every request names the lowest number whose outcome it
//!   lacks, that of a commit which was passed among them: nothing of that is forgotten early.
//! - *`Fetch`, `Grant`, `Promise`, `NoHelp`, `Arrived`, `PeerPage`, `Reachable`, `Revalidate`, `Lead`, `FindLeader`*
//!   say nothing of a commit under way. A page that is fetched while a commit which changes it is on the line comes as
//!   it was before, and the reply changes it, as if it had been there all the time.
//! - *`Released`* passes, because it must not change places with `Fetch`. The pages that a commit fills are kept until
//!   its reply; one that is released all the same is a granted page without contents, and its release is considered
//!   that of an earlier generation.
//! - *`Departed`* passes too: a commit that it has passed names its client again.
//! - *`Ack`* trails: what it lets the store forget may be what a commit before it is judged by, which would be refused
//!   without need. (It decides nothing, so it may be late.)
//! - *`AskOutcome`* trails: a question that overtakes its request is told that nobody knows of it
//!   (**AskBehindCommit**).
//! - *`Hello` and `Resume`* are at the beginning of a stream, where there is nothing to pass, and nothing passes
//!   them.
//! - *`Ping` and `Pong`* prove that somebody is there, and nothing else.
//!
//! From a store to a client nothing yields: every reply stays behind the invalidations that it depends on.

#[cfg(test)]
mod tests {
    use crate::{Ack, AskOutcome, CommitRequest, Fetch, FindLeader, Hello, Ping, ToServer};
    use machine::Message;
    use types::{ClientId, Incarnation, PageId, TxnId, Vector, Version};

    #[test]
    fn only_what_needs_no_order_loses_it() {
        let txn = TxnId { client: ClientId(1), number: 1 };
        let commit = ToServer::Commit(CommitRequest {
            txn,
            incarnation: Incarnation(1),
            answered: 1,
            reads: [].into(),
            writes: [].into(),
        });
        let fetch = ToServer::Fetch(Fetch {
            pages: [PageId::new(1, 1)].into(),
            at_least: Vector::new(),
            number: 1,
            follow: None,
        });
        let (ack, ask) = (ToServer::Ack(Ack { through: Version(1).into() }), ToServer::AskOutcome(AskOutcome { txn }));
        let (ping, find) =
            (ToServer::Ping(Ping { nonce: 1 }), ToServer::FindLeader(FindLeader { group: "site".into() }));
        let hello = ToServer::Hello(Hello { features: 0, cluster: None, client: txn.client, epoch: 1 });
        let all = [&ping, &fetch, &commit, &ack, &ask, &find, &hello];
        let passed_by = |earlier: &ToServer| all.map(|later| later.pace().may_pass(earlier.pace()));
        assert_eq!(passed_by(&commit), [true, true, true, false, false, true, false]);
        assert_eq!(passed_by(&ask), [true, true, true, false, false, true, false]);
        assert_eq!(passed_by(&fetch), [true, false, false, false, false, false, false]);
        assert_eq!(passed_by(&find), [true, false, false, false, false, false, false]);
        assert_eq!(passed_by(&ping), [false; 7]);
        assert_eq!(passed_by(&hello), [false; 7]);
    }
}
