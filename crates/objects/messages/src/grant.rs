//! How a client comes by pages to create objects in.

use alloc::vec::Vec;
use framing::{Rest, messages};
use types::PageRange;
use types::limits::PAGES_PER_MESSAGE_MAX;

messages! {
    /// Wants pages to create objects in. Pages that are granted together lie side by side where that can be had.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Grant {
        /// The space.
        pub space: u32,
        /// How many pages.
        pub count: u32,
    }

    /// Pages that only the receiver creates objects in, for as long as its session lives or can resume. Each is empty
    /// as of the receiver's horizon, past all changes of its earlier generations, and held from the moment of the
    /// grant.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Granted {
        /// The pages; fewer than wanted, or none, when the store has no more room.
        pub ranges: Vec<PageRange> as Rest<PAGES_PER_MESSAGE_MAX>,
    }
}
