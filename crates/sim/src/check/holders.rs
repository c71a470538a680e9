//! Invariant 6: whoever holds a page, with a session that both ends believe in, is listed for it.

use crate::violation::{Check, ensure};
use client::Client;
use store::{SessionId, Store};

/// Checks all pages that a client holds, if the session lives at both ends.
pub(crate) fn client(client: &Client, store: &Store, session: SessionId) -> Check {
    if !client.is_live() || !store.believes_in(session) {
        return Ok(());
    }
    for (page, frame) in client.cache().frames() {
        ensure(store.lists(session, page), "holders", || {
            format!("{session:?} holds {page:?} at {:?}, and the store does not know", frame.version())
        })?;
    }
    Ok(())
}
