//! Invariant 6: every holder of a page, with a session that both ends believe in, is listed for it: a client by its
//! store or redirector, and a group by its store.

use crate::violation::{Check, ensure};
use client::Client;
use redirector::Redirector;
use store::Store;
use types::{PageId, SessionId};

/// Checks all pages that a client holds, if the session with its store lives at both ends.
pub(crate) fn client(client: &Client, store: &Store, session: SessionId) -> Check {
    if !client.is_live() || !store.has_session(session) {
        return Ok(());
    }
    let pages = client.cache().frames().map(|(page, _)| page);
    listed(session, pages, |page| store.lists(session, page))
}

/// The same for a member and its redirector.
pub(crate) fn member(client: &Client, redirector: &Redirector, session: SessionId) -> Check {
    if !client.is_live() || !redirector.has_session(session) {
        return Ok(());
    }
    let pages = client.cache().frames().map(|(page, _)| page);
    listed(session, pages, |page| redirector.lists(session, page))
}

/// Checks all pages that the cache of a group's member holds, if the session of its redirector with the store lives at
/// both ends, and the member's own.
pub(crate) fn group(
    client: &Client,
    redirector: &Redirector,
    of_member: SessionId,
    store: &Store,
    upstream: SessionId,
    is_restored: bool,
) -> Check {
    let lives = client.is_live() && redirector.has_session(of_member);
    if !lives || !redirector.is_live() || !store.has_session(upstream) {
        return Ok(());
    }
    let pages = client.cache().frames().map(|(page, _)| page);
    // A restored store may know less of pages than were granted before. Beyond a bound they should be dropped, and
    // before a member has heard that, its horizon does not move.
    listed(upstream, pages, |page| store.lists(upstream, page) || (is_restored && !store.has_page(page)))
}

fn listed(session: SessionId, mut pages: impl Iterator<Item = PageId>, lists: impl Fn(PageId) -> bool) -> Check {
    let unknown = pages.find(|&page| !lists(page));
    ensure(unknown.is_none(), "holders", || format!("{session:?} holds {unknown:?}, and is not listed for it"))
}
