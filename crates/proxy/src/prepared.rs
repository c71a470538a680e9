//! The fields of answers that are given again and again, ready to be copied.
//!
//! To make a map of an entry's fields takes longer than all else that the proxy does for a hit, and to keep one with each
//! entry takes more memory than most entries. So each thread keeps those that it has used last, in places that an entry's
//! address gives.

use crate::entry::Entry;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Places on each thread: about a kilobyte each, when it is taken.
const PLACES: usize = 4096;

/// Entries lie at least so far from each other.
const ENTRY_ALIGN: usize = size_of::<Entry>() + 2 * size_of::<usize>();

/// The fields of an entry. The weak reference keeps its address from being given to another.
struct Prepared {
    of: Weak<Entry>,
    fields: HeaderMap,
}

thread_local! {
    static PREPARED: RefCell<Vec<Option<Prepared>>> = const { RefCell::new(Vec::new()) };
}

/// The fields of an answer with all of an entry, but for those that the proxy says of itself.
pub(crate) fn fields_of(entry: &Arc<Entry>) -> HeaderMap {
    PREPARED.with_borrow_mut(|places| {
        places.resize_with(PLACES, || None);
        let place = &mut places[Arc::as_ptr(entry).addr() / ENTRY_ALIGN % PLACES];
        match place {
            Some(prepared) if prepared.of.as_ptr() == Arc::as_ptr(entry) => prepared.fields.clone(),
            _ => {
                let fields = make(entry);
                *place = Some(Prepared { of: Arc::downgrade(entry), fields: fields.clone() });
                fields
            }
        }
    })
}

fn make(entry: &Entry) -> HeaderMap {
    let mut fields = entry.stored.fields().to_map();
    if !entry.stored.status().is_informational() && entry.stored.status() != StatusCode::NO_CONTENT {
        fields.insert(CONTENT_LENGTH, entry.content_bytes().into());
    }
    fields
}
