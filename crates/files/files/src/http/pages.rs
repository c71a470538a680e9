//! The pages that were served lately, by revision and path: a path is resolved once, with its variants and fields.
//! Trees never change, so nothing here can be stale.

use crate::http::page::Page;
use crate::http::rules::SiteFields;
use foldhash::fast::RandomState;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};
use std::fmt;
use std::sync::Arc;
use tree::ChunkHash;

/// The share of the server's memory for these.
const SHARE: usize = 16;

/// The bytes of a usual entry, by which the table is made, and of its table.
const ENTRY_BYTES_USUAL: usize = 600;
const ENTRY_BYTES: usize = 150;

/// The table has shards with a lock each.
const SHARD_BYTES: usize = 256 * 1024;
const SHARDS_MAX: usize = 64;

/// A page at a path, with the fields that its site adds there.
#[derive(Debug)]
pub(crate) struct FoundPage {
    pub(crate) page: Page,
    pub(crate) fields: SiteFields,
}

/// The pages of paths to which no forced redirect applies.
pub(crate) struct Pages(Cache<Place, Arc<FoundPage>, Weight, RandomState>);

/// The root of a revision, and a path as a request has it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place(ChunkHash, Box<str>);

/// A place that is looked up.
#[derive(Hash)]
struct PlaceRef<'a>(ChunkHash, &'a str);

impl Equivalent<Place> for PlaceRef<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.0 == place.0 && *self.1 == *place.1
    }
}

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<Place, Arc<FoundPage>> for Weight {
    fn weight(&self, place: &Place, found: &Arc<FoundPage>) -> u64 {
        (ENTRY_BYTES + place.1.len() + found.page.weight() + found.fields.weight()) as u64
    }
}

impl Pages {
    /// Pages in their share of this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = bytes / SHARE;
        let options = OptionsBuilder::new()
            .weight_capacity(bytes as u64)
            .estimated_items_capacity(bytes / ENTRY_BYTES_USUAL)
            .shards((bytes / SHARD_BYTES).clamp(1, SHARDS_MAX))
            .build()
            .expect("the weight and the number of entries are given");
        Self(Cache::with_options(options, Weight, RandomState::default(), DefaultLifecycle::default()))
    }

    /// The page at a path, if it is here.
    pub(crate) fn get(&self, root: ChunkHash, path: &str) -> Option<Arc<FoundPage>> {
        self.0.get(&PlaceRef(root, path))
    }

    /// Keeps the page at a path.
    pub(crate) fn insert(&self, root: ChunkHash, path: &str, page: Arc<FoundPage>) {
        self.0.insert(Place(root, path.into()), page);
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("len", &self.0.len()).finish_non_exhaustive()
    }
}
