//! Every statement of a store is true: the pages that it sends, how it says that pages moved, and how far it says it
//! is.
//!
//! No invariant of its own, but where most of the others would break first.

use crate::check::no_visible_abort;
use crate::ledger::{self, Ledger, PageHistory};
use crate::violation::{Check, Violation, ensure};
use messages::{Advance, Notice, Outcome, Page, ToClient};
use types::{ObjectId, ObjectPage, PageId, TxnId, Version};

/// Checks a message that leaves a store.
pub(crate) fn message(ledger: &Ledger, message: &ToClient) -> Check {
    match message {
        ToClient::Page(m) => page(ledger, m),
        ToClient::Notices(m) => {
            m.items.iter().try_for_each(|item| notice(ledger, item))?;
            through(ledger, m.through)
        }
        ToClient::Welcome(m) => through(ledger, m.through),
        ToClient::Rejoined(m) => through(ledger, m.through),
        ToClient::CommitReply(m) => match (&m.outcome, ledger.version_of(m.txn)) {
            (Outcome::Committed { pages }, Some(version)) => advances(ledger, m.txn, version, pages),
            (Outcome::Committed { pages }, None) => ensure(pages.is_empty(), "answers", || {
                format!("{:?} is told to have moved {pages:?}, and no durable record holds it", m.txn)
            }),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Nothing can be learned of that is not durable.
fn through(ledger: &Ledger, through: Version) -> Check {
    ensure(through <= ledger.count(), "answers", || {
        format!("a horizon of {through:?} is given out, and {:?} is durable", ledger.count())
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
fn notice(ledger: &Ledger, notice: &Notice) -> Check {
    if notice.txn == Notice::SEVERAL {
        let version = ledger.page(notice.page).map(|page| page.version_at(ledger.count()));
        return ensure(version >= Some(notice.version), "answers", || {
            format!("{:?} is told to be at {:?}, and is at {version:?}", notice.page, notice.version)
        });
    }
    ensure(ledger.txn_at(notice.version) == Some(notice.txn), "answers", || {
        format!("{:?} is told to be {:?}, which is {:?}", notice.version, notice.txn, ledger.txn_at(notice.version))
    })?;
    let slots = ledger.page(notice.page).and_then(|page| page.slots_at(notice.version));
    ensure(slots == Some(&notice.slots), "answers", || {
        format!("{:?} at {:?} is told to change {:?}, and changed {slots:?}", notice.page, notice.version, notice.slots)
    })?;
    moved(ledger, notice.page, notice.prev, notice.version)?;
    for change in notice.data.iter().flatten() {
        no_visible_abort::bytes(ledger, ObjectId::new(notice.page, change.slot), change.value.as_deref())?;
    }
    Ok(())
}

/// A commit has moved just the pages that it wrote, each from where it was.
pub(crate) fn advances(ledger: &Ledger, txn: TxnId, version: Version, pages: &[Advance]) -> Check {
    for advance in pages {
        ensure(advance.version == version, "answers", || {
            format!("{txn:?} is told to have moved {:?} to {:?}, and is {version:?}", advance.page, advance.version)
        })?;
        moved(ledger, advance.page, advance.prev, advance.version)?;
    }
    let wrote = ledger.pages().filter(|(_, page)| page.slots_at(version).is_some()).map(|(page, _)| page);
    ensure(wrote.eq(pages.iter().map(|advance| advance.page)), "answers", || {
        format!("{txn:?} at {version:?} is told to have moved {pages:?}, and wrote others")
    })
}

fn moved(ledger: &Ledger, page: PageId, prev: Version, version: Version) -> Check {
    let truth = ledger.page(page).map(|history| history.version_at(Version(version.0 - 1)));
    ensure(truth == Some(prev), "answers", || {
        format!("{page:?} is told to have been at {prev:?} before {version:?}, and was at {truth:?}")
    })
}
