//! A store's disk: one directory with a log and a page home, which are opened together and driven by threads of their
//! own.
//!
//! A store's directory is opened with [`open`]; its records are taken from the [`Opening`], one by one, and
//! [`Opening::finish`] gives the [`RealDisk`] that carries out a store's [`store::DiskWork`]. [`check`] looks a closed
//! store over without changing it, and [`salvage`] copies out what is whole of a damaged one.
//!
//! | to change | see |
//! |---|---|
//! | what a directory looks like, its lock, its creation | `directory.rs`, `marker.rs` |
//! | the order of recovery | `open.rs` |
//! | which thread does what | `real.rs` |
//! | what is copied out of a damaged store | `salvage.rs` |
//! | how the records of a store look on disk | `records.rs` |
//! | how records become durable, torn tails, corruption | crate `log` |
//! | where pages live | `page_file.rs` |
//! | what an error of the system means | crate `vfs` |
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = std::env::temp_dir().join(format!("thorp-doc-{}", std::process::id()));
//! let config = disk::Config { segment_bytes: 1 << 20, ..disk::Config::default() };
//! let mut opening = disk::open(&dir, &config)?;
//! while let Some((position, record)) = opening.next_record()? {
//!     println!("{position:?} {record:?}");
//! }
//! opening.finish()?.close()?;
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok(())
//! # }
//! ```

mod config;
mod directory;
mod doctor;
mod error;
mod marker;
mod open;
pub mod page_file;
mod real;
mod records;
mod salvage;
#[cfg(test)]
mod tests;
mod vectors;

pub use config::Config;
pub use doctor::{Finding, Report, check};
pub use error::DiskError;
pub use log::Progress;
pub use open::{LOG_OVER_MOB, NODE_FILE, Opening, open};
pub use page_file::catches_panic;
pub use real::RealDisk;
pub use salvage::{LostPage, Salvaged, salvage};
