//! The hands on a disk: the log, the page home, recovery.
//!
//! A store's directory is opened with [`open`]; its records are taken from the [`Opening`], one by one, and
//! [`Opening::finish`] gives the [`RealDisk`] that carries out a store's [`store::DiskWork`]. [`check`] looks a closed
//! store over without changing it.
//!
//! | to change | see |
//! |---|---|
//! | what a directory looks like, its lock, its creation | `directory.rs`, `marker.rs` |
//! | how commits become durable, torn tails, corruption | `log/mod.rs` |
//! | how records look on disk | `log/record.rs`, `log/frame.rs`, `log/segment.rs` |
//! | where pages live | `home/mod.rs` |
//! | which thread does what | `real.rs` |
//! | what an error of the system means, and what is waited out | `errno.rs`, `patience.rs` |
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

mod aligned;
mod directory;
mod doctor;
mod errno;
mod error;
mod fields;
mod files;
mod home;
mod log;
mod marker;
mod open;
mod patience;
mod real;
mod reserve;
#[cfg(test)]
mod tests;

pub use doctor::{Finding, Report, check};
pub use error::DiskError;
pub use home::catches_panic;
pub use log::Progress;
pub use open::{Config, LOG_OVER_MOB, Opening, open};
pub use real::RealDisk;
