//! A client and a store in one process.

use client::Client;
use node::Node;
use std::time::Duration;
use store::{Checkpoint, Opened, Store};
use types::{ClientId, ClusterId, Incarnation, Time};

#[test]
fn a_process_that_was_stopped_for_long_goes_on() {
    let opened = Opened {
        cluster: ClusterId(1),
        incarnation: Incarnation(1),
        checkpoint: Checkpoint::default(),
        pages: Vec::new(),
        safe_bytes_free: 1 << 30,
    };
    let store = Store::new(store::Config::default(), opened);
    let client = Client::new(client::Config::default(), ClientId(1));
    let mut node = Node::with_store(store, Some(client));
    let sessions = |node: &mut Node| node.client().expect("it has one").stats().sessions;

    node.start(Time::ZERO);
    node.settle(Time::ZERO);
    assert_eq!(sessions(&mut node), 1);

    // The store looks around first, and takes the client for dead.
    let later = Time::ZERO + Duration::from_secs(60);
    node.store().expect("it has one").handle_timeout(later);
    node.settle(later);
    assert_eq!(sessions(&mut node), 2, "the session has begun anew");
}
