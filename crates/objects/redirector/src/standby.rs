//! The standby cache: pages that the redirector keeps itself, where it has a machine with memory to spare (BuddyCache
//! paper, section 3.4). To the protocol it is one more member's cache, which is asked first.

use alloc::vec::Vec;
use cache::Cache;
use messages::{Invalidation, Page};
use types::{Broken, ObjectPage, PageId, Rule};

/// The standby cache.
#[derive(Debug)]
pub(crate) struct Standby {
    /// None, if it should keep nothing.
    cache: Option<Cache>,
    broken: Broken,
}

impl Standby {
    pub(crate) fn new(bytes_limit: usize, broken: Broken) -> Self {
        Self { cache: (bytes_limit > 0).then(|| Cache::new(bytes_limit, broken)), broken }
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// A page has come from the store, after everything that was told before it.
    pub(crate) fn install(&mut self, page: &Page) {
        let Some(cache) = &mut self.cache else { return };
        // An image that is no page is for its reader to refuse.
        if let Ok(image) = ObjectPage::parse(page.image.clone()) {
            cache.install(page.page, page.version, image, &[]);
        }
    }

    pub(crate) fn apply(&mut self, invalidation: &Invalidation) {
        if let Some(cache) = &mut self.cache {
            cache.apply(invalidation);
        }
    }

    pub(crate) fn remove(&mut self, page: PageId) {
        if let Some(cache) = &mut self.cache {
            cache.remove(page);
        }
    }

    /// Takes those out that are meant; gives which they are.
    pub(crate) fn remove_those(&mut self, are_meant: impl Fn(PageId) -> bool) -> Vec<PageId> {
        let removed: Vec<_> = self.pages().into_iter().filter(|page| are_meant(*page)).collect();
        for &page in &removed {
            self.remove(page);
        }
        removed
    }

    pub(crate) fn holds(&self, page: PageId) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.find(page).is_some())
    }

    /// The page, if it is here whole; it is an answer to the fetch with this number.
    pub(crate) fn whole(&mut self, page: PageId, number: u64) -> Option<Page> {
        let cache = self.cache.as_mut()?;
        let frame = cache.find(page)?;
        cache.count_use(frame);
        let (version, image) = cache.at(frame).whole(self.broken)?;
        let fresh = self.broken.is(Rule::FreshFromStore);
        Some(Page { page, version, number, fresh, behind: Vec::new(), image: image.image().clone() })
    }

    /// A page that should leave, if there are more than may be.
    pub(crate) fn evict(&mut self) -> Option<PageId> {
        self.cache.as_mut()?.evict().map(|evicted| evicted.page)
    }

    /// The pages that are here.
    pub(crate) fn pages(&self) -> Vec<PageId> {
        self.cache.as_ref().map_or_else(Vec::new, |cache| cache.frames().map(|(page, _)| page).collect())
    }

    /// How many pages, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.cache.as_ref().map_or((0, 0), |cache| (cache.len(), cache.bytes()))
    }
}
