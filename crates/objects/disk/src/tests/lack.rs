//! Resources that the system lacks for a while, and what is done about it.

use crate::config::Config;
use crate::open::Opening;
use crate::tests::node::{Node, Promises, SEGMENT_BYTES, config};
use crate::tests::real::Scratch;
use bytes::Bytes;
use machine::Disk;
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use store::{CommitRecord, DiskDone, DiskWork, Position, Record};
use types::{ClientId, Delta, PageId, SlotChange, TxnId, Version};
use vfs::memory::{Fault, Memory};
use vfs::{File, Files, How, Lock, Locking};

/// Files that cannot be opened, or not be written to, for as long as the system lacks something.
#[derive(Clone, Debug)]
pub(crate) struct Lacking {
    files: Memory,
    /// Bytes of the page home that cannot be read.
    bad_sectors: Arc<Mutex<Vec<u64>>>,
    lack: Arc<Mutex<Option<(&'static str, Errno)>>>,
    refused: Arc<AtomicU64>,
}

impl Lacking {
    fn new() -> Self {
        Self::over(Memory::default())
    }

    pub(crate) fn over(files: Memory) -> Self {
        Self { files, bad_sectors: Arc::default(), lack: Arc::default(), refused: Arc::default() }
    }

    pub(crate) fn set_bad_sectors(&self, at: Vec<u64>) {
        *self.bad_sectors.lock().unwrap() = at;
    }

    fn check_sectors(&self, at: u64, bytes: usize) -> io::Result<()> {
        let bad = self.bad_sectors.lock().unwrap();
        let is_bad = bad.iter().any(|bad| (at..at + bytes as u64).contains(bad));
        if is_bad { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn set(&self, lack: Option<(&'static str, Errno)>) {
        *self.lack.lock().unwrap() = lack;
        self.refused.store(0, SeqCst);
    }

    fn check(&self, call: &str) -> io::Result<()> {
        match *self.lack.lock().unwrap() {
            Some((lacking, errno)) if lacking == call => {
                self.refused.fetch_add(1, SeqCst);
                Err(errno.into())
            }
            _ => Ok(()),
        }
    }

    /// Waits until a call was refused, and again after that.
    fn wait_refused(&self) {
        while self.refused.load(SeqCst) < 2 {
            std::thread::yield_now();
        }
    }

    /// Calls are refused from now on, until it was tried again.
    fn lack_until_refused(&self, call: &'static str, errno: Errno) -> JoinHandle<()> {
        self.set(Some((call, errno)));
        let files = self.clone();
        std::thread::spawn(move || {
            files.wait_refused();
            files.set(None);
        })
    }
}

#[derive(Debug)]
struct LackingFile(Lacking, Arc<dyn File>, bool);

impl File for LackingFile {
    fn size(&self) -> io::Result<u64> {
        self.1.size()
    }
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.check("read")?;
        if self.2 {
            self.0.check_sectors(at, into.len())?;
        }
        self.1.read_at(at, into)
    }
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.check("write")?;
        self.1.write_at(at, bytes)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.1.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.check("sync")?;
        self.1.sync()
    }
}

impl Files for Lacking {
    fn path(&self, name: &str) -> PathBuf {
        self.files.path(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }
    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>> {
        self.check("open")?;
        Ok(Arc::new(LackingFile(self.clone(), self.files.open(name, how)?, name == crate::page_file::NAME)))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(name)
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.files.sync_dir()
    }
    fn lock(&self, name: &str, locking: Locking) -> io::Result<Option<Lock>> {
        self.files.lock(name, locking)
    }
}

/// More than the ring holds is appended while no segment can be made: the records wait, and are durable when one can.
#[test]
fn commits_wait_while_no_segment_can_be_made() {
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT] {
        let (files, mut promises) = (Lacking::new(), Promises::default());
        let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config()).unwrap();
        let relieve = files.lack_until_refused("open", errno);
        // Four segments' worth and more; the ring has three.
        node.append(&mut promises, 100).unwrap_or_else(|stopped| panic!("{errno:?}: {}", stopped.0));
        relieve.join().unwrap();
        node.append(&mut promises, 3).unwrap();
        drop(node);
        Node::open(&files.files.after_kill(), &mut promises).unwrap();
    }
}

/// The log and the home wait out what passes.
#[test]
fn work_waits_while_files_take_no_writes() {
    for errno in [Errno::NOMEM, Errno::AGAIN] {
        let (files, mut promises) = (Lacking::new(), Promises::default());
        let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config()).unwrap();
        for appends in [true, false] {
            let relieve = files.lack_until_refused("write", errno);
            if appends {
                node.append(&mut promises, 3).unwrap();
            } else {
                assert!(node.install(&mut promises, 40, Version(99)).unwrap());
            }
            relieve.join().unwrap();
        }
        drop(node);
        Node::open(&files.files.after_kill(), &mut promises).unwrap();
    }
}

#[test]
fn reads_wait_while_files_give_none() {
    // Nothing is cached.
    let config = Config { home_cache_bytes: 0, ..config() };
    for errno in [Errno::NOMEM, Errno::AGAIN] {
        let (files, mut promises) = (Lacking::new(), Promises::default());
        let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config).unwrap();
        node.install(&mut promises, 40, Version(99)).unwrap();
        let relieve = files.lack_until_refused("read", errno);
        let pages: Vec<_> = (0..40).map(|number| PageId::new(1, number)).collect();
        assert!(node.read(pages).unwrap().iter().all(|(_, found)| found.is_some()));
        relieve.join().unwrap();
    }
}

#[test]
fn a_sync_that_fails_ends_the_disk_whatever_the_error() {
    for errno in [Errno::MFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOSPC, Errno::DQUOT, Errno::IO] {
        let (files, mut promises) = (Lacking::new(), Promises::default());
        let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config()).unwrap();
        files.set(Some(("sync", errno)));
        assert!(node.append(&mut promises, 1).is_err(), "{errno:?}");
    }
}

/// Nothing is waited for at the start, and the user is told what to do.
#[test]
fn a_start_without_descriptors_says_what_to_do() {
    let files = Memory::default();
    files.plan(Some(Fault::Error(0, Errno::MFILE, u64::MAX)));
    let error = Opening::begin(Arc::new(files), &config()).map(drop).unwrap_err().to_string();
    assert!(error.contains("ulimit -n"), "{error}");
}

/// A disk whose log is stuck can be dropped; nothing that was durable is lost.
#[test]
fn a_stuck_disk_ends_when_it_is_dropped() {
    let (files, mut promises) = (Lacking::new(), Promises::default());
    let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config()).unwrap();
    node.append(&mut promises, 1).unwrap();
    files.set(Some(("write", Errno::NOSPC)));
    node.submit_only(&mut promises, 1);
    files.wait_refused();
    drop(node);
    Node::open(&files.files.after_kill(), &mut promises).unwrap();
}

/// On a real directory, with the descriptors of a real process all taken: in a process of its own, which has few.
#[test]
fn a_process_without_descriptors_goes_on() {
    const TEST: &str = "tests::lack::a_process_without_descriptors_goes_on";
    const DIR: &str = "THORP_TEST_LACK_DIR";
    // More than the two segments hold that there are.
    const RECORDS: u64 = 60;
    let Some(dir) = std::env::var_os(DIR) else {
        let scratch = Scratch::new("lack");
        let exe = std::env::current_exe().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(exe).args([TEST, "--exact", "--nocapture"]);
        let output = shell.env(DIR, &scratch.0).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    let config = Config { segment_bytes: 2 * SEGMENT_BYTES, ..Config::default() };
    let disk = crate::open(dir.as_ref(), &config).unwrap().finish().unwrap();
    let (durable, heard) = channel();
    let failed = Arc::new(AtomicBool::new(false));
    let tell = durable.clone();
    disk.on_done(Box::new(move |done| drop(tell.send(done))));
    let flag = failed.clone();
    disk.on_failed(Box::new(move |_| flag.store(true, SeqCst)));
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    for number in 1..=RECORDS {
        let change = SlotChange { slot: 0, value: Some(Bytes::from(vec![7; 4000])) };
        let deltas = vec![Delta { page: PageId::new(0, 1), changes: vec![change] }];
        let txn = TxnId { client: ClientId(1), number };
        let record = CommitRecord { txn, counts: Version(number).into(), answered: 1, deltas };
        disk.submit(DiskWork::Append(Position(number), Record::Commit(record)));
        disk.flush(&mut |done| drop(durable.send(done)));
    }
    assert!(!failed.load(SeqCst), "a lack of descriptors is no failed disk");
    drop(taken);
    let is_last = |done: DiskDone| matches!(done, DiskDone::Durable { through, .. } if through == Position(RECORDS));
    assert!(heard.into_iter().any(is_last));
    disk.close().unwrap();
}
