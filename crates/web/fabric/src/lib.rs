//! Reads of another machine's memory without its processor, by libfabric.
//!
//! ```text
//!   home: Shim::share -> Shared, which has a Window ----> the window travels by other means
//!   cache: Shim::open(window) -> Reader::read             words of the home's memory, eight bytes each
//! ```
//! libfabric is no need of whoever builds or runs a program that has this: a small library in C that calls it,
//! `shim/thorp_fabric.c`, is loaded where somebody wants it ([`Shim::load`]). `docs/decisions/0030-libfabric.md` says
//! why.
//!
//! | module | duty |
//! |---|---|
//! | `window` | what a reader has to know of memory |
//! | `shim` | the library in C, and all unsafe code |

mod shim;
mod window;

pub use shim::{FabricError, READS_MAX, Reader, SHIM, Shared, Shim};
pub use window::{NAME_BYTES_MAX, Window};
