//! How much comes together: how large pages are, and how many bytes a connection carries in one round trip.
//!
//! Prefetched pages come within the round trip of the page that is waited for: a connection carries little at first,
//! and the rest stands before the next page that is waited for. So the first window of a session is small, and grows as
//! the connection's does: by the bytes that have come together, if they were half of it or more.

use types::limits::PAGE_BYTES_TARGET;

#[derive(Debug)]
pub(crate) struct Window {
    /// The bytes that this session's connection carries in one round trip, as far as is known.
    bytes: usize,
    /// The same for a connection that has carried nothing yet.
    first_bytes: usize,
    /// How large the pages that came last were, in bytes: an average in which each counts a quarter.
    page_bytes: usize,
    /// The pages that have come of the fetch that was answered last.
    answer: Answer,
}

/// The answer to one fetch, as far as it has come.
#[derive(Debug, Default)]
struct Answer {
    number: u64,
    bytes: usize,
    /// The window before it.
    window_bytes: usize,
}

impl Window {
    /// Before any page has come, pages are taken to be as large as creation fills them, but no larger than a cache of
    /// this size is made for.
    pub(crate) fn new(cache_bytes: usize, first_bytes: usize) -> Self {
        let page_bytes = PAGE_BYTES_TARGET.min(cache_bytes / 8);
        Self { bytes: first_bytes, first_bytes, page_bytes, answer: Answer::default() }
    }

    /// The next session has a connection of its own.
    pub(crate) fn link_is_gone(&mut self) {
        (self.bytes, self.answer) = (self.first_bytes, Answer::default());
    }

    /// A page of this many bytes has come in answer to this fetch.
    pub(crate) fn learn(&mut self, number: u64, bytes: usize) {
        self.page_bytes = (3 * self.page_bytes + bytes) / 4;
        if self.answer.number != number {
            self.answer = Answer { number, bytes: 0, window_bytes: self.bytes };
        }
        self.answer.bytes += bytes;
        let Answer { bytes, window_bytes: before, .. } = self.answer;
        if bytes >= before / 2 {
            self.bytes = self.bytes.max(before.saturating_add(bytes));
        }
    }

    /// The bytes that the connection carries in one round trip.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many pages come to so many bytes.
    pub(crate) fn pages_of(&self, bytes: usize) -> usize {
        bytes / self.page_bytes.max(1)
    }

    /// How many bytes so many pages come to.
    pub(crate) fn bytes_of(&self, pages: usize) -> usize {
        pages * self.page_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_small_and_grows_by_what_has_come_together() {
        let mut window = Window::new(64 << 20, 14_000);
        let mut come = |number, bytes| {
            window.learn(number, bytes);
            window.bytes()
        };
        assert_eq!(come(1, 6_000), 14_000);
        assert_eq!(come(2, 8_000), 22_000);
        assert_eq!([come(3, 8_000), come(3, 8_000), come(3, 8_000)], [22_000, 38_000, 46_000]);
        assert_eq!(come(4, 8_000), 46_000, "a connection that has less to carry carries as much as before");
        window.link_is_gone();
        assert_eq!(window.bytes(), 14_000);
    }
}
