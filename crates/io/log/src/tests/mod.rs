//! A log over records that are no store's, the bytes of its format, and flushes that are torn.

mod golden;
pub(crate) mod notes;
mod torn;
