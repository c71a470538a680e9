//! A log over records that are no store's, and the bytes of its format.

mod golden;
pub(crate) mod notes;
