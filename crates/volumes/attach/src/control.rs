//! Questions and commands of an operator to a volume that is attached, or to a holder that runs: over a socket in its
//! folder, which is for its user alone, as HTTP with JSON.
//!
//! | request | answer |
//! |---|---|
//! | `GET /status` | how it stands |
//! | `GET /metrics`, `GET /health` | its figures, for Prometheus; 503 with the reasons while something is wrong |
//! | `POST /bring-home` | of a volume, when everything that was written before is home |
//! | `POST /resize` with `"size": BYTES, "may_shrink": BOOL` | of a volume, when it has that size |
//! | `POST /clean` with `"first": BLOCK, "blocks": COUNT` | of a volume, the clean blocks among these, at most 1024: `[BLOCK, CHECKSUM, CHECKSUM]` for each, as it is kept and as it is read |
//! | `POST /copies` | of a volume, what is not written back compared with the copies at its holders, when all of it has been: `blocks` that were compared, how many are `differing`, the first 1024 `differences`, and the holders `without` a comparison; with `"repairs": true` they are repaired, and `repairs` lists the outcomes |
//! | `POST /repair` with `"blocks": [BLOCK]`, at most 256 | of a volume, when those of them that are damaged at home or in the cache were repaired: `repairs`, each with its `block`, and the place that it is repaired `from`, or `why` it is not |
//! | `POST /snapshot` with `"file": PATH` | of a volume whose home is a file, when that one shares its blocks |
//!
//! A command's body is an object that also says for which volume it is: `"volume": IDENTITY`, as `identity` of its
//! status. A folder may be that of another volume by now. A refusal is `{"error": TEXT}`. A connection is for one
//! request; who hangs up before the answer waits for nothing any more.
//!
//! | file | what it is |
//! |---|---|
//! | `serve` | the socket, and the thread that answers there |
//! | `ask` | the one who asks |
//! | `volume`, `holder` | what they tell, and what they do |
//! | `attaching` | a volume until it is attached |
//! | `live`, `tables` | what a volume tells, by names; the figures among it |

mod ask;
mod attaching;
mod holder;
mod live;
mod serve;
pub mod tables;
mod volume;

pub use ask::{ControlError, ask, clean, copies, order, repair};
pub use attaching::AttachingVolume;
pub use holder::ControlledHolder;
pub use live::{LiveCopies, LiveScrub, LiveVolume, VolumeCounters, VolumeGauges};
pub use serve::{Control, observed};
pub use volume::ControlledVolume;

use crate::scrub::{ComparedCopies, Repair};
use machine::Table;
use machines::messages::home::BlockSums;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The blocks that are repaired by one request.
pub const REPAIRED_MAX: usize = 256;

/// The socket, in the folder of a cache or of a holder's copies.
pub(crate) const CONTROL_NAME: &str = "control";

/// The bytes of a request's body.
const BODY_BYTES_MAX: usize = 4 << 10;

/// The bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How long the head of a request, or its body, may take: those that say nothing do not keep a place for longer than
/// others wait for a status.
const REQUEST_WITHIN: Duration = Duration::from_secs(3);

/// How long a status may take.
const STATUS_WITHIN: Duration = Duration::from_secs(10);

const NOT_ATTACHED: &str = "this is not a volume that is attached";

/// Something that is asked how it stands, and told to do something.
pub trait Controlled: Send + Sync {
    /// Its kind, as `kind` in its status.
    fn kind(&self) -> &'static str;

    /// Which one it is, as `identity` in its status.
    fn identity(&self) -> String;

    /// How it stands: an object.
    fn status(&self) -> Value;

    /// The tables of those fields of its status that are figures.
    fn tables(&self) -> Vec<Table>;

    /// Returns the reasons why it is unhealthy.
    fn troubles(&self) -> Vec<String>;

    /// The clean blocks among so many from this one on, with their checksums: as they are kept, and as they are read.
    ///
    /// # Errors
    /// It has none.
    fn clean(&self, first: u32, blocks: u32) -> Result<Vec<(u32, BlockSums)>, String> {
        let _ = (first, blocks);
        Err(NOT_ATTACHED.to_owned())
    }

    /// Compares dirty data with the copies at holders until it is given up, and repairs it with `repairs`.
    ///
    /// # Errors
    /// It has none.
    fn copies(&self, repairs: bool, is_given_up: &dyn Fn() -> bool) -> Result<ComparedCopies, String> {
        let _ = (repairs, is_given_up);
        Err(NOT_ATTACHED.to_owned())
    }

    /// Repairs those of these blocks that are damaged at home or in the cache, until it is given up.
    ///
    /// # Errors
    /// It has none, or home does not answer.
    fn repair(&self, blocks: &[u32], is_given_up: &dyn Fn() -> bool) -> Result<Vec<Repair>, String> {
        let _ = (blocks, is_given_up);
        Err(NOT_ATTACHED.to_owned())
    }

    /// Does something, for as long as it takes, or until nobody wants it any more.
    ///
    /// # Errors
    /// Why it is not done, for people.
    fn carry_out(&self, action: Action, is_given_up: &dyn Fn() -> bool) -> Result<(), String>;
}

/// Something that an operator wants done with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The volume: the number of one of a store, the path of the home of one of this host.
    pub volume: String,
    /// The thing to be done.
    pub action: Action,
}

/// Something that can be done with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Everything that was written before should be home.
    BringHome,
    /// The volume should have another size.
    Resize {
        /// So many bytes.
        size: u64,
        /// Also if it has more, and loses what is behind that.
        may_shrink: bool,
    },
    /// This file should be made, with everything that was written before; it shares its blocks with a home of this
    /// host.
    Snapshot(PathBuf),
}

impl Order {
    /// The path of its request.
    fn path(&self) -> &'static str {
        match self.action {
            Action::BringHome => "/bring-home",
            Action::Resize { .. } => "/resize",
            Action::Snapshot(_) => "/snapshot",
        }
    }

    /// The body of its request; `None` if a path in it is not text, as JSON takes text alone.
    fn body(&self) -> Option<Value> {
        let volume = &self.volume;
        Some(match &self.action {
            Action::BringHome => json!({"volume": volume}),
            Action::Resize { size, may_shrink } => json!({"volume": volume, "size": size, "may_shrink": may_shrink}),
            Action::Snapshot(file) => json!({"volume": volume, "file": file.to_str()?}),
        })
    }
}

/// The report of a store that has not answered for this long.
fn store_is_silent(silence: Duration) -> String {
    format!("the store has not answered for {} s", silence.as_secs())
}

/// The path by which a socket in a folder can be named: an address has room for 107 bytes, which the folder's own path
/// may not leave. Below `/proc` it is short, for as long as the folder is open.
fn by_descriptor(dir: &Path) -> std::io::Result<(rustix::fd::OwnedFd, PathBuf)> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(CONTROL_NAME);
    Ok((dir, path))
}
