//! The workload on a file system, as programs do that must lose nothing: whole files that are replaced (written under
//! another name, fsynced, renamed, and their folder fsynced), and journals that are appended to and fsynced. Everything
//! that was acknowledged is remembered here, outside of the volume.

use super::account::Checked;
use crate::Result;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Programs, and the files that each replaces.
const WRITERS: u64 = 3;
const FILES: u64 = 40;

/// Every so many steps a file is replaced; the others append to the journal.
const REPLACES_EVERY: u64 = 3;

const FILE_BYTES_MAX: u64 = 96 << 10;
const APPEND_BYTES_MAX: u64 = 12 << 10;

/// A journal does not grow beyond this, so that the volume has room.
const JOURNAL_BYTES_MAX: u64 = 24 << 20;

/// Everything that one program was told is safe.
#[derive(Clone, Debug, Default)]
struct Acknowledged {
    /// Of each file, the last version that is safe, and the last that was begun.
    files: Vec<(u64, u64)>,
    /// The bytes of the journal.
    journal: u64,
    fsyncs: u64,
}

/// A workload that runs.
pub(super) struct Work {
    shared: Arc<Shared>,
    ended: Receiver<()>,
    begun: Instant,
}

struct Shared {
    dir: PathBuf,
    is_dead: Arc<AtomicBool>,
    acknowledged: Vec<Mutex<Acknowledged>>,
    trouble: Mutex<Option<String>>,
}

impl Work {
    /// Begins to write into the file system. Errors are expected when its host is dead.
    pub(super) fn start(dir: &Path, is_dead: Arc<AtomicBool>) -> Result<Self> {
        let fresh = || Mutex::new(Acknowledged { files: vec![(0, 0); FILES as usize], ..Acknowledged::default() });
        let shared = Arc::new(Shared {
            dir: dir.to_owned(),
            is_dead,
            acknowledged: (0..WRITERS).map(|_| fresh()).collect(),
            trouble: Mutex::default(),
        });
        let (end, ended) = channel();
        for writer in 0..WRITERS {
            fs::create_dir(folder(dir, writer))?;
            // The folder's own name should be safe before anything in it is.
            File::open(dir)?.sync_all()?;
            let (shared, end) = (shared.clone(), end.clone());
            thread::spawn(move || {
                shared.write(writer);
                drop(end);
            });
        }
        Ok(Self { shared, ended, begun: Instant::now() })
    }

    /// Why it writes no more, if that is not because its host is dead.
    pub(super) fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until nobody writes any more, now that the host is dead.
    pub(super) fn end(self, within: Duration) -> Result<Written> {
        match self.ended.recv_timeout(within) {
            Err(RecvTimeoutError::Disconnected) => {}
            _ => return Err(format!("programs still wait for the dead volume after {} s", within.as_secs()).into()),
        }
        if let Some(why) = self.trouble() {
            return Err(format!("the workload has failed before anything was killed: {why}").into());
        }
        let of = |it: &Mutex<Acknowledged>| it.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Written { acknowledged: self.shared.acknowledged.iter().map(of).collect(), took: self.begun.elapsed() })
    }
}

impl Shared {
    fn write(&self, writer: u64) {
        for step in 0.. {
            let done = if step % REPLACES_EVERY == 0 {
                self.replace(writer, step / REPLACES_EVERY)
            } else {
                self.append(writer, step)
            };
            match done {
                Ok(()) if !self.is_dead.load(SeqCst) => {}
                Ok(()) => return,
                Err(_) if self.is_dead.load(SeqCst) => return,
                Err(error) => {
                    let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
                    trouble.get_or_insert(error.to_string());
                    return;
                }
            }
        }
    }

    fn replace(&self, writer: u64, step: u64) -> io::Result<()> {
        let (number, version) = (step % FILES, step / FILES + 1);
        let dir = folder(&self.dir, writer);
        self.with(writer, |it| it.files[number as usize].1 = version);
        let part = dir.join("part");
        let mut file = File::create(&part)?;
        file.write_all(&contents(writer, number, version))?;
        file.sync_all()?;
        fs::rename(&part, dir.join(number.to_string()))?;
        File::open(&dir)?.sync_all()?;
        self.with(writer, |it| {
            it.files[number as usize].0 = version;
            it.fsyncs += 2;
        });
        Ok(())
    }

    fn append(&self, writer: u64, step: u64) -> io::Result<()> {
        let at = self.with(writer, |it| it.journal);
        let len = 1 + random(writer, step) % APPEND_BYTES_MAX;
        if at + len > JOURNAL_BYTES_MAX {
            return Ok(());
        }
        let mut file = File::options().create(true).append(true).open(folder(&self.dir, writer).join("journal"))?;
        let bytes: Vec<u8> = (at..at + len).map(|at| journal_byte(writer, at)).collect();
        file.write_all(&bytes)?;
        file.sync_all()?;
        if at == 0 {
            File::open(folder(&self.dir, writer))?.sync_all()?;
        }
        self.with(writer, |it| {
            it.journal = at + len;
            it.fsyncs += 1;
        });
        Ok(())
    }

    fn with<R>(&self, writer: u64, change: impl FnOnce(&mut Acknowledged) -> R) -> R {
        change(&mut self.acknowledged[writer as usize].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Everything that was acknowledged before the host died.
pub(super) struct Written {
    acknowledged: Vec<Acknowledged>,
    took: Duration,
}

impl Written {
    pub(super) fn fsyncs(&self) -> u64 {
        self.acknowledged.iter().map(|it| it.fsyncs).sum()
    }

    /// Holds what is there against what was acknowledged. A file may have the version that was begun after that, whole.
    pub(super) fn check(&self, dir: &Path) -> Checked {
        let mut checked = Checked::new(self.fsyncs(), self.took);
        for (writer, it) in (0..).zip(&self.acknowledged) {
            let folder = folder(dir, writer);
            for (number, &(safe, begun)) in (0..).zip(&it.files) {
                if safe > 0 {
                    let found = read(&folder.join(u64::to_string(&number)));
                    let is = |version| found == contents(writer, number, version);
                    let len = contents(writer, number, safe).len() as u64;
                    let what = || format!("file {number} of program {writer} is not version {safe}");
                    checked.compare(len, is(safe) || begun > safe && is(begun), what);
                }
            }
            if it.journal > 0 {
                let found = read(&folder.join("journal"));
                let right = (0..it.journal).zip(&found).take_while(|(at, byte)| journal_byte(writer, *at) == **byte);
                let count = right.count() as u64;
                let what = || {
                    format!("the journal of program {writer} is right to byte {count}, and was safe to {}", it.journal)
                };
                checked.compare(it.journal, count == it.journal, what);
            }
        }
        checked
    }
}

/// A file that is not there has nothing.
fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        // As far as it can be read.
        let _ = file.read_to_end(&mut bytes);
    }
    bytes
}

fn folder(dir: &Path, writer: u64) -> PathBuf {
    dir.join(format!("program-{writer}"))
}

fn contents(writer: u64, number: u64, version: u64) -> Vec<u8> {
    let seed = random(writer * FILES + number, version);
    let words = (1 + seed % FILE_BYTES_MAX).div_ceil(8);
    (0..words).flat_map(|word| random(seed, word).to_le_bytes()).collect()
}

fn journal_byte(writer: u64, at: u64) -> u8 {
    random(writer, at / 8).to_le_bytes()[at as usize % 8]
}

/// The same again and again.
pub(super) fn random(seed: u64, number: u64) -> u64 {
    let mut state = seed;
    state = types::splitmix(&mut state).wrapping_add(number);
    types::splitmix(&mut state)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check finds a byte of a journal that is missing, and a file that is older than what was acknowledged.
    #[test]
    fn the_check_finds_what_is_lost() {
        let dir = std::env::temp_dir().join(format!("thorp-demo-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let is_dead = Arc::new(AtomicBool::new(false));
        let work = Work::start(&dir, is_dead.clone()).unwrap();
        let enough = |it: &Mutex<Acknowledged>| it.lock().unwrap().files[0].0 > 0 && it.lock().unwrap().journal > 0;
        let begun = Instant::now();
        while !work.shared.acknowledged.iter().all(enough) {
            assert!(work.trouble().is_none() && begun.elapsed() < Duration::from_secs(60), "{:?}", work.trouble());
            thread::yield_now();
        }
        is_dead.store(true, SeqCst);
        let written = work.end(Duration::from_secs(60)).unwrap();
        let lost = || written.check(&dir).lost_bytes();
        assert_eq!(lost(), 0);
        let journal = File::options().write(true).open(folder(&dir, 1).join("journal")).unwrap();
        journal.set_len(written.acknowledged[1].journal - 1).unwrap();
        assert_eq!(lost(), written.acknowledged[1].journal);
        fs::write(folder(&dir, 0).join("0"), contents(0, 0, 0)).unwrap();
        assert!(lost() > written.acknowledged[1].journal);
        fs::remove_dir_all(&dir).unwrap();
    }
}
