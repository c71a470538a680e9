//! The messages of the web front end: three families.

pub mod caches;
pub mod hub;
pub mod look_ups;
