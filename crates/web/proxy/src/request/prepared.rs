//! The fields of answers that are given again and again, ready to be copied.
//!
//! To make a map of an entry's fields takes longer than all else that the proxy does for a hit, and to keep one with
//! each entry takes more memory than most entries. So each thread keeps those that it has used last, in places that an
//! entry's address gives. They are whole, with what the proxy says of itself: a map that grows after it was copied is
//! built twice.

use crate::shared::Shared;
use crate::stored::entry::Entry;
use http::header::{AGE, CONTENT_LENGTH, VIA};
use http::{HeaderMap, HeaderName, StatusCode};
use responses::CacheStatus;
use std::cell::RefCell;
use std::sync::{Arc, Weak};
use types::splitmix;

pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Sets of places on each thread, and the places of each: about a kilobyte for a place that is taken. Entries whose
/// addresses give the same set do not drive each other out until there are more of them than it has places.
const SETS: usize = 1024;
const WAYS: usize = 4;

/// The fields of an answer with all of an entry.
struct Prepared {
    /// The weak reference keeps its address from being given to another.
    of: Weak<Entry>,
    /// The snapshot of the settings that they were made under.
    snapshot: u64,
    age_s: u64,
    status: CacheStatus,
    fields: HeaderMap,
}

#[derive(Default)]
struct Set {
    places: [Option<Prepared>; WAYS],
    /// The place that is taken next.
    next: usize,
}

thread_local! {
    static PREPARED: RefCell<Vec<Set>> = const { RefCell::new(Vec::new()) };
}

/// The fields of an answer with all of an entry of this age.
pub(crate) fn fields_of(entry: &Arc<Entry>, shared: &Shared, age_s: u64, status: &CacheStatus) -> HeaderMap {
    PREPARED.with_borrow_mut(|sets| {
        sets.resize_with(SETS, Set::default);
        let set = &mut sets[splitmix(&mut (Arc::as_ptr(entry).addr() as u64)) as usize % SETS];
        let found = set.places.iter_mut().flatten().find(|it| it.is_of(entry, shared));
        if let Some(prepared) = found {
            prepared.say(entry, shared, age_s, status);
            return prepared.fields.clone();
        }
        let place = &mut set.places[set.next];
        set.next = (set.next + 1) % WAYS;
        place.insert(Prepared::make(entry, shared, age_s, status)).fields.clone()
    })
}

impl Prepared {
    fn make(entry: &Arc<Entry>, shared: &Shared, age_s: u64, status: &CacheStatus) -> Self {
        let mut fields = entry.stored.fields().to_map();
        shared.for_clients(&mut fields);
        if !entry.stored.status().is_informational() && entry.stored.status() != StatusCode::NO_CONTENT {
            fields.insert(CONTENT_LENGTH, entry.content_bytes().into());
        }
        fields.insert(AGE, age_s.into());
        fields.append(VIA, shared.via.clone());
        fields.append(CACHE_STATUS, status.to_header(&shared.config.policy));
        Self { of: Arc::downgrade(entry), snapshot: shared.snapshot, age_s, status: *status, fields }
    }

    fn is_of(&self, entry: &Arc<Entry>, shared: &Shared) -> bool {
        self.of.as_ptr() == Arc::as_ptr(entry) && self.snapshot == shared.snapshot
    }

    /// Exchanges what is different in each second.
    fn say(&mut self, entry: &Arc<Entry>, shared: &Shared, age_s: u64, status: &CacheStatus) {
        if self.age_s == age_s && self.status == *status {
            return;
        }
        if self.fields.get_all(CACHE_STATUS).iter().nth(1).is_some() {
            // A cache behind this one says its status, too, under the same name.
            *self = Self::make(entry, shared, age_s, status);
            return;
        }
        (self.age_s, self.status) = (age_s, *status);
        self.fields.insert(AGE, age_s.into());
        self.fields.insert(CACHE_STATUS, status.to_header(&shared.config.policy));
    }
}
