//! A web site in processes of its own, for the demo of the web front end and the ActiveCache paper's experiments: a
//! database, the parts that `thorp` has, and visitors.

mod visitors;

pub use visitors::{Load, LoadOptions, Tally};
