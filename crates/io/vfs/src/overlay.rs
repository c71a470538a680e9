//! Files whose changes stay in memory, for a program that only looks.

use crate::files::{File, Files, How, Lock, Locking};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Files whose changes stay in memory: redb repairs a file when it opens it, and a program that only looks must not
/// change it.
#[derive(Debug)]
pub struct Overlay(pub Arc<dyn Files>);

impl Files for Overlay {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>> {
        if matches!(how, How::Create) {
            // The caller works without another file, as it does on a full disk.
            return Err(Errno::NOSPC.into());
        }
        let file = self.0.open(name, How::Read)?;
        let len = file.size()?;
        Ok(Arc::new(OverlayFile { file, below: len, changed: Mutex::new((len, BTreeMap::new())) }))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str, _: Locking) -> io::Result<Option<Lock>> {
        self.0.lock(name, Locking::Shared)
    }
}

/// Bytes of a run of an overlay.
const RUN: u64 = 4096;

/// A file as it would be: its length, and the runs of it that have changed.
#[derive(Debug)]
struct OverlayFile {
    file: Arc<dyn File>,
    /// How many bytes of the file below still count.
    below: u64,
    changed: Mutex<(u64, BTreeMap<u64, Vec<u8>>)>,
}

impl OverlayFile {
    fn run(&self, changed: &BTreeMap<u64, Vec<u8>>, run: u64) -> io::Result<Vec<u8>> {
        if let Some(bytes) = changed.get(&run) {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; RUN as usize];
        let here = self.below.saturating_sub(run * RUN).min(RUN) as usize;
        self.file.read_at(run * RUN, &mut bytes[..here])?;
        Ok(bytes)
    }
}

/// The runs that `len` bytes from `at` touch: each with where it begins in itself and in the bytes, and how many.
fn runs(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let end = at + len as u64;
    (at / RUN..end.div_ceil(RUN)).map(move |run| {
        let from = at.max(run * RUN);
        let to = end.min((run + 1) * RUN);
        (run, (from - run * RUN) as usize, (from - at) as usize, (to - from) as usize)
    })
}

impl File for OverlayFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.changed.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        if at + into.len() as u64 > changed.0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if changed.1.is_empty() && at + into.len() as u64 <= self.below {
            return self.file.read_at(at, into);
        }
        for (run, within, offset, len) in runs(at, into.len()) {
            into[offset..offset + len].copy_from_slice(&self.run(&changed.1, run)?[within..within + len]);
        }
        Ok(())
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        for (run, within, offset, len) in runs(at, bytes.len()) {
            let mut whole = self.run(&changed.1, run)?;
            whole[within..within + len].copy_from_slice(&bytes[offset..offset + len]);
            changed.1.insert(run, whole);
        }
        changed.0 = changed.0.max(at + bytes.len() as u64);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).0 = len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn waits_for_device(&self) -> bool {
        self.file.waits_for_device()
    }
}
