//! Every statement of a store is true: the pages that it sends, how it says that pages moved, and how far it says it
//! is.
//!
//! No invariant of its own, but where most of the others would break first.

use crate::check::no_visible_abort;
use crate::ledger::{self, Ledger, PageHistory};
use crate::violation::{Check, Violation, ensure};
use messages::{Advance, Invalidation, Outcome, Page, ToClient};
use types::{Horizon, ObjectId, ObjectPage, PageId, TxnId, Vector, Version};

/// Checks a message that leaves a store.
pub(crate) fn message(ledger: &Ledger, message: &ToClient) -> Check {
    match message {
        ToClient::Page(m) => page(ledger, m),
        ToClient::Invalidations(m) => {
            m.items.iter().try_for_each(|item| invalidation(ledger, item))?;
            through(ledger, &m.through)
        }
        ToClient::Welcome(m) => through(ledger, &m.through),
        ToClient::Resumed(m) => through(ledger, &m.through),
        ToClient::CommitReply(m) => match (&m.outcome, ledger.counts_of(m.txn)) {
            (Outcome::Committed { pages }, Some(counts)) => advances(ledger, m.txn, counts, pages),
            (Outcome::Committed { pages }, None) => ensure(pages.is_empty(), "answers", || {
                format!("{:?} is told to have moved {pages:?}, and no durable record holds it", m.txn)
            }),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Nothing can be learned of that is not durable.
fn through(ledger: &Ledger, through: &Vector) -> Check {
    ensure(ledger.horizon().reaches(through), "answers", || {
        format!("a horizon of {through:?} is given out, and {:?} is durable", ledger.horizon().counts)
    })
}

/// A page is sent as it was at its version.
fn page(ledger: &Ledger, sent: &Page) -> Check {
    let image = ObjectPage::parse(sent.image.clone()).map_err(|error| Violation {
        checker: "answers",
        text: format!("page {:?} is sent as no page: {error}", sent.page),
    })?;
    let Some(history) = ledger.page(sent.page) else {
        return ensure(sent.version == Version::ZERO && image.is_empty(), "answers", || {
            format!("page {:?}, never written, is sent at {:?}", sent.page, sent.version)
        });
    };
    let version = history.version_at(sent.version);
    ensure(version == sent.version, "answers", || {
        format!("page {:?} is sent at {:?}, and was at {version:?} then", sent.page, sent.version)
    })?;
    image_is(history, sent.page, &image, sent.version)
}

/// Checks that an image shows the page as of `version`.
pub(crate) fn image_is(history: &PageHistory, page: PageId, image: &ObjectPage, version: Version) -> Check {
    for (slot, changes) in history.slots() {
        let object = ObjectId::new(page, slot);
        let seen = image.get(slot).map(|value| ledger::stamp_of(object, value)).transpose()?;
        let truth = ledger::at(changes, version);
        ensure(seen == truth, "answers", || {
            format!("the image of {object:?} as of {version:?} holds {seen:?}, and it was {truth:?}")
        })?;
    }
    let strange = image.objects().find(|(slot, _)| history.slots().all(|(written, _)| written != *slot));
    ensure(strange.is_none(), "answers", || format!("page {page:?} has a slot that nobody wrote: {strange:?}"))
}

/// A page moves as its history says.
fn invalidation(ledger: &Ledger, invalidation: &Invalidation) -> Check {
    if invalidation.txn == Invalidation::SEVERAL {
        let last = ledger.horizon().of(invalidation.page);
        let version = ledger.page(invalidation.page).map(|page| page.version_at(last));
        return ensure(version >= Some(invalidation.version), "answers", || {
            format!("{:?} is told to be at {:?}, and is at {version:?}", invalidation.page, invalidation.version)
        });
    }
    let txn = ledger.txn_at(invalidation.page, invalidation.version);
    ensure(txn == Some(invalidation.txn), "answers", || {
        let Invalidation { page, version, txn: told, .. } = invalidation;
        format!("{version:?} of {page:?} is told to be {told:?}, which is {txn:?}")
    })?;
    let slots = ledger.page(invalidation.page).and_then(|page| page.slots_at(invalidation.version));
    ensure(slots == Some(&invalidation.slots), "answers", || {
        format!(
            "{:?} at {:?} is told to change {:?}, and changed {slots:?}",
            invalidation.page, invalidation.version, invalidation.slots
        )
    })?;
    moved(ledger, invalidation.page, invalidation.prev, invalidation.version)?;
    for change in invalidation.data.iter().flatten() {
        no_visible_abort::bytes(ledger, ObjectId::new(invalidation.page, change.slot), change.value.as_deref())?;
    }
    Ok(())
}

/// A commit has moved just the pages that it wrote, each from where it was.
pub(crate) fn advances(ledger: &Ledger, txn: TxnId, counts: Horizon<'_>, pages: &[Advance]) -> Check {
    for advance in pages {
        ensure(advance.version == counts.of(advance.page), "answers", || {
            let Advance { page, version, .. } = advance;
            format!("{txn:?} is told to have moved {page:?} to {version:?}, and is {:?}", counts.counts)
        })?;
        moved(ledger, advance.page, advance.prev, advance.version)?;
    }
    let wrote = ledger.pages().filter(|(page, history)| history.slots_at(counts.of(*page)).is_some());
    ensure(wrote.map(|(page, _)| page).eq(pages.iter().map(|advance| advance.page)), "answers", || {
        format!("{txn:?} at {:?} is told to have moved {pages:?}, and wrote others", counts.counts)
    })
}

fn moved(ledger: &Ledger, page: PageId, prev: Version, version: Version) -> Check {
    let truth = ledger.page(page).map(|history| history.version_at(Version(version.0 - 1)));
    ensure(truth == Some(prev), "answers", || {
        format!("{page:?} is told to have been at {prev:?} before {version:?}, and was at {truth:?}")
    })
}
