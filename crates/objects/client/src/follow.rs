//! Whether it pays to have pages follow those that are fetched: the pages that they refer to may be
//! read next, or never.
//!
//! While less than a third of the pages that followed is read, the store is not asked for it, but for a probe now and
//! then.

use types::{PageId, Set};

/// Pages before their use is judged.
const ISSUED_MIN: u32 = 32;

/// Pages that are remembered; beyond, old ones count half.
const ISSUED_MAX: u32 = 128;

/// While it does not pay, one fetch in this many probes whether it would again.
const PROBE_EVERY: u32 = 32;

/// Pages that were not read yet, of which it is known that they followed; beyond, all count as not read.
const UNREAD_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct Following {
    issued: u32,
    used: u32,
    /// Fetches since it did not pay.
    off_for: u32,
    unread: Set<PageId>,
    /// Something followed the page that was fetched last.
    has_found: bool,
}

impl Following {
    pub(crate) fn new() -> Self {
        Self { issued: 0, used: 0, off_for: 0, unread: Set::default(), has_found: true }
    }

    /// Whether the next fetch should have pages follow.
    pub(crate) fn pays(&mut self) -> bool {
        if self.issued < ISSUED_MIN || self.used * 3 >= self.issued {
            self.off_for = 0;
            return true;
        }
        self.off_for += 1;
        self.off_for.is_multiple_of(PROBE_EVERY)
    }

    /// Whether there is likely to be something that follows.
    pub(crate) fn has_found(&self) -> bool {
        self.has_found
    }

    /// A page was fetched that something follows, or nothing.
    pub(crate) fn found(&mut self, something: bool) {
        self.has_found = something;
    }

    /// The page follows.
    pub(crate) fn issued(&mut self, page: PageId) {
        if self.unread.len() == UNREAD_MAX {
            self.unread.clear();
        }
        self.unread.insert(page);
        self.issued += 1;
        if self.issued > ISSUED_MAX {
            (self.issued, self.used) = (self.issued / 2, self.used / 2);
        }
    }

    /// A page that has come without anybody waiting for it is read for the first time. Returns whether it followed
    /// another.
    pub(crate) fn used(&mut self, page: PageId) -> bool {
        let followed = self.unread.remove(&page);
        self.used += u32::from(followed);
        followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches so often, one page following each time that something may; gives how often that was.
    fn fetch(following: &mut Following, times: u32, is_read: bool) -> u32 {
        let mut asked = 0;
        for number in 0..times {
            if following.pays() {
                asked += 1;
                following.issued(PageId::new(0, number));
                if is_read {
                    assert!(following.used(PageId::new(0, number)));
                }
            }
        }
        asked
    }

    #[test]
    fn pages_that_are_not_read_are_not_asked_for_until_they_are_read_again() {
        let mut following = Following::new();
        assert_eq!(fetch(&mut following, 320, true), 320);
        let in_vain = fetch(&mut following, 3200, false);
        assert!((100..400).contains(&in_vain), "{in_vain} of 3200");
        fetch(&mut following, 6400, true);
        assert_eq!(fetch(&mut following, 100, true), 100);
    }

    #[test]
    fn only_what_followed_counts() {
        let mut following = Following::new();
        assert!(!following.used(PageId::new(0, 1)));
        following.issued(PageId::new(0, 1));
        assert_eq!([following.used(PageId::new(0, 1)), following.used(PageId::new(0, 1))], [true, false]);
    }
}
