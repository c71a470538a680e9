//! A coordinator whose log has room for everything.

use coordinator::{Coordinator, Output};
use messages::CommitRequest;
use types::SessionId;

/// Everything that it wants done, each in a few words.
pub(crate) fn wants(coordinator: &mut Coordinator, word: impl Fn(Output) -> String) -> Vec<String> {
    let mut wants = Vec::new();
    while let Some(output) = coordinator.poll_output() {
        match output {
            Output::GiveBack(_) => {}
            output => wants.push(word(output)),
        }
    }
    wants
}

/// A session wants a transaction committed.
pub(crate) fn commit(coordinator: &mut Coordinator, from: SessionId, request: CommitRequest) {
    if let Some(request) = coordinator.commit(from, request) {
        coordinator.reserved(request.txn);
    }
}
