//! The messages of the volumes front end: two families.

pub mod holder;
pub mod home;
