//! Questions and commands of an operator to a volume that is attached, or to a holder that runs: over a socket in its folder,
//! which is for its user alone, as HTTP with JSON.
//!
//! | request | answer |
//! |---|---|
//! | `GET /status` | how it stands |
//! | `GET /metrics` | its figures, for Prometheus |
//! | `POST /bring-home` | of a volume, when everything that was written before is home |
//! | `POST /resize` with `{"size": BYTES}` | of a volume, when it has that size |
//! | `POST /snapshot` with `{"file": PATH}` | of a volume whose home is a file, when that one shares its blocks |
//!
//! A refusal is `{"error": TEXT}`. A connection is for one request.
//!
//! | file | what it is |
//! |---|---|
//! | `serve` | the socket, and the thread that answers there |
//! | `ask` | the one who asks |
//! | `volume`, `holder` | what they tell, and what they do |

mod ask;
mod holder;
mod serve;
mod volume;

pub use ask::{ControlError, ask, command};
pub use holder::ControlledHolder;
pub use serve::Control;
pub use volume::ControlledVolume;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The socket, in the folder of a cache or of a holder's copies.
pub(crate) const CONTROL_NAME: &str = "control";

/// Connections at a time.
const CONNECTIONS_MAX: usize = 16;

/// The bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The bytes of a request's body.
const BODY_BYTES_MAX: usize = 4 << 10;

/// The bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How long the head of a request, or its body, may take.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// How long a status may take.
const STATUS_WITHIN: Duration = Duration::from_secs(10);

/// Something that is asked how it stands, and told to do something.
pub trait Controlled: Send + Sync {
    /// Its kind, as `kind` in its status and in the names of its figures.
    fn kind(&self) -> &'static str;

    /// How it stands: an object.
    fn status(&self) -> Value;

    /// Those fields of its status that are figures, and whether they only grow.
    fn figures(&self) -> &'static [(&'static str, bool)];

    /// Does something, for as long as it takes.
    ///
    /// # Errors
    /// Why it is not done, for people.
    fn carry_out(&self, command: Command) -> Result<(), String>;
}

/// Something that an operator wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Everything that was written before is to be home.
    BringHome,
    /// The volume is to have so many bytes.
    Resize(u64),
    /// This file is to be made, with all that was written before; it shares its blocks with a home of this host.
    Snapshot(PathBuf),
}

impl Command {
    /// The path of its request.
    fn path(&self) -> &'static str {
        match self {
            Self::BringHome => "/bring-home",
            Self::Resize(_) => "/resize",
            Self::Snapshot(_) => "/snapshot",
        }
    }

    /// The body of its request.
    fn body(&self) -> Value {
        match self {
            Self::BringHome => serde_json::json!({}),
            Self::Resize(size) => serde_json::json!({"size": size}),
            Self::Snapshot(file) => serde_json::json!({"file": file.to_string_lossy()}),
        }
    }
}

/// The path by which a socket in a folder can be named: an address has room for 107 bytes, which the folder's own path may not
/// leave. Below `/proc` it is short, for as long as the folder is open.
fn by_descriptor(dir: &Path) -> std::io::Result<(rustix::fd::OwnedFd, PathBuf)> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(CONTROL_NAME);
    Ok((dir, path))
}
