//! The fields of answers that are given again and again, ready to be copied.
//!
//! To make a map of an entry's fields takes longer than all else that the proxy does for a hit, and to keep one with each
//! entry takes more memory than most entries. So each thread keeps those that it has used last, in places that an entry's
//! address gives.

use crate::config::BrowserCache;
use crate::entry::Entry;
use crate::shared::Shared;
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
    /// The setting that they were made under.
    browser_cache: BrowserCache,
    fields: HeaderMap,
}

thread_local! {
    static PREPARED: RefCell<Vec<Option<Prepared>>> = const { RefCell::new(Vec::new()) };
}

/// The fields of an answer with all of an entry, but for those that the proxy says of itself.
pub(crate) fn fields_of(entry: &Arc<Entry>, shared: &Shared) -> HeaderMap {
    let browser_cache = shared.config.browser_cache;
    let is_of =
        |prepared: &Prepared| prepared.of.as_ptr() == Arc::as_ptr(entry) && prepared.browser_cache == browser_cache;
    PREPARED.with_borrow_mut(|places| {
        places.resize_with(PLACES, || None);
        let place = &mut places[Arc::as_ptr(entry).addr() / ENTRY_ALIGN % PLACES];
        match place {
            Some(prepared) if is_of(prepared) => prepared.fields.clone(),
            _ => {
                let fields = make(entry, shared);
                *place = Some(Prepared { of: Arc::downgrade(entry), browser_cache, fields: fields.clone() });
                fields
            }
        }
    })
}

fn make(entry: &Entry, shared: &Shared) -> HeaderMap {
    let mut fields = entry.stored.fields().to_map();
    shared.for_clients(&mut fields);
    if !entry.stored.status().is_informational() && entry.stored.status() != StatusCode::NO_CONTENT {
        fields.insert(CONTENT_LENGTH, entry.content_bytes().into());
    }
    fields
}
