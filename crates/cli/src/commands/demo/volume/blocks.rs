//! The workload on raw blocks, where no file system can be mounted: each block is written again and again with its
//! version, by NBD, and flushed now and then. The promised versions are remembered here, outside of the volume.

use super::account::Checked;
use super::files::random;
use crate::Result;
use fixtures::nbd_client::{Client, Command};
use nbd::Address;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

/// The blocks that are written.
const BLOCKS: u64 = 8192;

/// A flush comes behind so many writes.
const FLUSH_EVERY: u64 = 16;

/// Of each block the version that was written last, and that which is safe.
#[derive(Clone, Debug, Default)]
struct Versions {
    written: BTreeMap<u64, u64>,
    safe: BTreeMap<u64, u64>,
    flushes: u64,
}

pub(super) struct Work {
    versions: Arc<Mutex<Versions>>,
    trouble: Arc<Mutex<Option<String>>>,
    ended: Receiver<()>,
    begun: Instant,
}

impl Work {
    pub(super) fn start(socket: &Path, is_dead: Arc<AtomicBool>) -> Result<Self> {
        let mut client = Client::connect(&Address::Unix(socket.to_owned()), "")?;
        let (versions, trouble) = (Arc::<Mutex<Versions>>::default(), Arc::<Mutex<Option<String>>>::default());
        let (shared, told) = (versions.clone(), trouble.clone());
        let (end, ended) = channel();
        thread::spawn(move || {
            let written = write(&mut client, &shared, &is_dead);
            if let Err(error) = written.map_err(|error| error.to_string())
                && !is_dead.load(SeqCst)
            {
                told.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            drop(end);
        });
        Ok(Self { versions, trouble, ended, begun: Instant::now() })
    }

    /// Why it writes no more, if that is not because its host is dead.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until nobody writes any more, now that the host is dead.
    pub(super) fn end(self, within: Duration) -> Result<Written> {
        match self.ended.recv_timeout(within) {
            Err(RecvTimeoutError::Disconnected) => {}
            _ => return Err(format!("the program still waits for the dead volume after {} s", within.as_secs()).into()),
        }
        if let Some(why) = self.trouble() {
            return Err(format!("the workload has failed before anything was killed: {why}").into());
        }
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Written { versions, took: self.begun.elapsed() })
    }
}

fn write(client: &mut Client, versions: &Mutex<Versions>, is_dead: &AtomicBool) -> Result {
    let versions = || versions.lock().unwrap_or_else(PoisonError::into_inner);
    for version in 1.. {
        let block = random(7, version) % BLOCKS;
        versions().written.insert(block, version);
        let data = version.to_le_bytes().repeat(BLOCK / 8);
        call(client, &Command::Write { offset: block * BLOCK as u64, data: &data, fua: false })?;
        if version % FLUSH_EVERY == 0 {
            let before = versions().written.clone();
            call(client, &Command::Flush)?;
            let mut versions = versions();
            versions.safe = before;
            versions.flushes += 1;
        }
        if is_dead.load(SeqCst) {
            break;
        }
    }
    Ok(())
}

fn call(client: &mut Client, command: &Command<'_>) -> Result<Vec<u8>> {
    let reply = client.call(command)?;
    if reply.error == 0 { Ok(reply.data) } else { Err(format!("the volume answers with error {}", reply.error).into()) }
}

/// Everything that was promised before the host died.
pub(super) struct Written {
    versions: Versions,
    took: Duration,
}

impl Written {
    pub(super) fn flushes(&self) -> u64 {
        self.versions.flushes
    }

    /// Each block has, whole, a version that is no older than the one that is safe.
    pub(super) fn check(&self, socket: &Path) -> Result<Checked> {
        let mut client = Client::connect(&Address::Unix(socket.to_owned()), "")?;
        let Versions { written, safe, flushes } = &self.versions;
        let mut checked = Checked::new(*flushes, self.took);
        for (block, safe) in safe {
            let read = Command::Read { offset: block * BLOCK as u64, len: BLOCK as u32, whole: true };
            let data = call(&mut client, &read)?;
            let version = u64::from_le_bytes(data[..8].try_into()?);
            let is_whole = data.chunks(8).all(|part| part == version.to_le_bytes());
            let is_right = is_whole && (*safe..=written[block]).contains(&version);
            checked.compare(BLOCK as u64, is_right, || {
                format!("block {block} has version {version}, and {safe} was safe")
            });
        }
        Ok(checked)
    }
}
