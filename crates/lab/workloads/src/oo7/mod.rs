//! OO7, the benchmark of object databases (Carey, DeWitt and Naughton, 1993) that the BuddyCache paper measures with.
//!
//! ```text
//!   Module --> Assembly (7 levels, fan-out 3) --> base assembly --> 3 CompositeParts of 500
//!                                                                     |-- Document (20,000 bytes)
//!                                                                     `-- 200 AtomicParts, 3 Connections each
//! ```
//! Each composite part lies in pages of its own, its document behind it. An atomic part is connected with the next one
//! in a ring, so that all are reached, and with others at random.
//!
//! The paper's transaction is one traversal of one composite part that is found by a random way down the assemblies:
//! [`Module::pick`], then [`traverse`].

mod build;
mod schema;
mod traverse;

pub use build::{Progress, build};
pub use schema::{
    Assembly, AtomicPart, BaseAssembly, ComplexAssembly, CompositePart, Connection, Document, Manual, Module, Size,
};
pub use traverse::{Traversal, Visited, composite_parts, traverse, traverse_module};

#[cfg(test)]
mod tests;
