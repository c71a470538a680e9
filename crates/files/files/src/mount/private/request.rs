//! `.thorp/publish`: the file by which a command asks a mount to publish private changes.
//!
//! ```text
//!   written   a request as JSON, a line end, and the bytes of the path, which may be the root's: none
//!   read      the state as JSON: running, done or failed
//! ```
//! Closing the file before that ends the publish, unless the store has it already.

use super::branch::Branch;
use super::publish::PrivatePublish;
use crate::error::FilesError;
use crate::line::lock;

use crate::origin::Origin;
use crate::sites::{ConnectSites, Difference};
use bytes::Bytes;
use fuser::Errno;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use tree::Path;

/// A request to a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum PrivateRequest {
    /// Publishes private changes.
    Publish {
        /// A note for the site's log.
        note: String,
        /// Whether to wait until no server shows an older revision without saying so.
        wait: bool,
        /// Whether private entries replace what the site has changed, too.
        overwrite: bool,
    },
    /// Drops private changes.
    Discard,
    /// Lists private changes.
    List,
}

/// The state of a request to a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum PrivateState {
    /// The mount is carrying it out, and has sent this many bytes of content.
    Running {
        /// The bytes.
        bytes: u64,
    },
    /// The mount has carried it out.
    Done {
        /// The site.
        site: String,
        /// The revision that was published, if one was.
        revision: Option<u64>,
        /// The changes that were published, dropped or listed.
        changes: usize,
        /// The changes that were listed: the kind, and the path.
        listed: Vec<(char, String)>,
    },
    /// The mount has refused it.
    Failed {
        /// The name of the reason.
        name: String,
        /// The reason, for people.
        error: String,
    },
}

/// An open request.
#[derive(Debug)]
pub(in crate::mount) struct OpenRequest {
    state: Mutex<Option<PrivateState>>,
    /// The state as it was when a read began.
    read: Mutex<Bytes>,
    is_closed: AtomicBool,
}

impl OpenRequest {
    pub(in crate::mount) fn new() -> Arc<Self> {
        let (state, read) = Default::default();
        Arc::new(Self { state, read, is_closed: AtomicBool::new(false) })
    }

    /// Takes the request, which one write brings, and carries it out on a thread of its own.
    pub(in crate::mount) fn begin(
        self: &Arc<Self>,
        request: &[u8],
        branch: Arc<Branch>,
        connect: ConnectSites,
    ) -> Result<(), Errno> {
        let end = request.iter().position(|byte| *byte == b'\n').ok_or(Errno::EINVAL)?;
        let (line, path) = (&request[..end], &request[end + 1..]);
        let request: PrivateRequest = serde_json::from_slice(line).map_err(|_| Errno::EINVAL)?;
        let path = Path::parse(path).map_err(|_| Errno::EINVAL)?;
        {
            let mut state = lock(&self.state);
            if state.is_some() {
                return Err(Errno::EBUSY);
            }
            *state = Some(PrivateState::Running { bytes: 0 });
        }
        let open = self.clone();
        let run = move || {
            let state = open.run(request, &path, &branch, &connect).unwrap_or_else(|error| PrivateState::Failed {
                name: error.name().to_owned(),
                error: error.to_string(),
            });
            *lock(&open.state) = Some(state);
        };
        thread::Builder::new().name("mount-publish".to_owned()).spawn(run).map_err(Errno::from)?;
        Ok(())
    }

    fn run(
        &self,
        request: PrivateRequest,
        at: &Path,
        branch: &Branch,
        connect: &ConnectSites,
    ) -> Result<PrivateState, FilesError> {
        let (revision, changes, listed) = match request {
            PrivateRequest::Publish { note, wait, overwrite } => {
                let settings = PrivatePublish { overwrites: overwrite, note, waits: wait };
                let mut sent = 0;
                let published = branch.publish(&connect()?, at, &settings, &mut |bytes| {
                    sent += bytes;
                    *lock(&self.state) = Some(PrivateState::Running { bytes: sent });
                    if self.is_closed.load(SeqCst) { Err(FilesError::Interrupted) } else { Ok(()) }
                })?;
                (published.map(|it| it.revision), published.map_or(0, |it| it.changes), Vec::new())
            }
            PrivateRequest::Discard => (None, branch.discard(at)?, Vec::new()),
            PrivateRequest::List => {
                let differences = branch.differences(at);
                let listed = differences.iter().map(|(path, difference)| (sign(*difference), path.to_string()));
                (None, differences.len(), listed.collect())
            }
        };
        Ok(PrivateState::Done { site: branch.site().to_string(), revision, changes, listed })
    }

    /// Reads the state as JSON, which is empty before there is a request. A read at offset 0 takes a copy of the state,
    /// from which reads at other offsets return the rest.
    pub(in crate::mount) fn read(&self, offset: u64, bytes: u32) -> Bytes {
        let mut read = lock(&self.read);
        if offset == 0 {
            let state = lock(&self.state).as_ref().and_then(|state| serde_json::to_vec(state).ok());
            *read = state.unwrap_or_default().into();
        }
        let from = read.len().min(offset as usize);
        read.slice(from..read.len().min(from + bytes as usize))
    }

    /// The file was closed.
    pub(in crate::mount) fn close(&self) {
        self.is_closed.store(true, SeqCst);
    }
}

fn sign(difference: Difference) -> char {
    match difference {
        Difference::Added => '+',
        Difference::Removed => '-',
        Difference::Changed => '~',
        Difference::Conflict => '!',
    }
}
