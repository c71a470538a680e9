//! A file or block device as it is: reads and writes by the system's page cache, durable by `fdatasync`.
//!
//! | request | system call |
//! |---|---|
//! | read | `preadv2` with what is in memory; what is not is read by the one thread that waits, or by threads for that if several wait |
//! | write | `pwrite` |
//! | flush, and what is to be durable before its reply | one `fdatasync` for all that wait for one, a few at a time |
//! | trim, zeros | `fallocate`, punching a hole or zeroing a range |
//! | extents | `lseek` to data and to holes |
//!
//! A sync that fails has lost what it was to keep and says so once. So the device has failed from then on: writes and
//! flushes are refused, and reads go on.

use crate::device::{Answer, Device, Errno, Extent, Geometry, Operation, Permit, Replies, Request, Ticket};
use crate::readers::{Readers, read_exact};
use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom, fadvise, fallocate, fdatasync, flock, seek};
use rustix::io::{Errno as SystemError, ReadWriteFlags, preadv2, pwrite};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Seek};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Zeros are written from here, where the file system has no quicker way.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];

/// Syncs at a time. A second one has what has come while the first was under way wait half as long; a disk gains nothing
/// from many.
const SYNCS_MAX: usize = 4;

/// Bytes that are read ahead for a client that says what it will read. It may say so of gigabytes.
const AHEAD_BYTES_MAX: u64 = 32 << 20;

/// Extents that are looked for at a time.
const EXTENTS_MAX: usize = 256;

/// A file or block device.
pub struct FileDevice {
    file: Arc<File>,
    geometry: Geometry,
    readers: Readers,
    syncs: Mutex<Syncs>,
    has_failed: AtomicBool,
}

/// Requests that wait for a sync.
struct Syncs {
    waiting: Vec<Waiting>,
    /// The file as each thread has it that may sync, less those that do. A thread goes on as long as somebody waits.
    idle: Vec<File>,
}

type Waiting = (Arc<dyn Replies>, Ticket);

impl FileDevice {
    /// Opens a file or block device, for nobody else meanwhile.
    ///
    /// # Errors
    /// It cannot be opened, or another process serves it.
    pub fn open(path: &Path, read_only: bool) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        let lock =
            if read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        flock(&file, lock).map_err(|error| match error {
            SystemError::WOULDBLOCK => io::Error::new(io::ErrorKind::ResourceBusy, "another process serves it"),
            error => error.into(),
        })?;
        // A block device has no length, but an end.
        let size = file.seek(io::SeekFrom::End(0))?;
        let geometry = Geometry { read_only, ..Geometry::new(size) };
        // The system tells an error of the disk once to each opening of a file. Two syncs by one could miss it.
        let again =
            || OpenOptions::new().read(true).write(!read_only).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let idle = (0..SYNCS_MAX).map(|_| again()).collect::<io::Result<_>>()?;
        let file = Arc::new(file);
        let readers = Readers::new(Arc::clone(&file));
        let syncs = Mutex::new(Syncs { waiting: Vec::new(), idle });
        Ok(Self { file, geometry, readers, syncs, has_failed: AtomicBool::new(false) })
    }

    /// Carries out an operation as far as that needs no waiting.
    fn carry_out(&self, operation: &Operation, replies: &Arc<dyn Replies>) -> Result<Carried, Errno> {
        let writes = matches!(operation, Operation::Write { .. } | Operation::Trim { .. } | Operation::Zero { .. });
        if (writes || *operation == Operation::Flush) && self.has_failed.load(SeqCst) {
            return Err(Errno::Io);
        }
        // It is held until the system has the bytes.
        let _permit = if writes { Some(Permit::take(&**replies).ok_or(Errno::Io)?) } else { None };
        let done = |fua: bool| if fua { Carried::Unsynced } else { Carried::Answered(Answer::Done) };
        match operation {
            Operation::Read { offset, len } => self.read_cached(*offset, *len),
            Operation::Write { offset, data, fua } => write_all(&self.file, data, *offset).map(|()| done(*fua)),
            Operation::Flush => Ok(Carried::Unsynced),
            Operation::Trim { offset, len, fua } => self.trim(*offset, *len).map(|()| done(*fua)),
            Operation::Zero { offset, len, may_trim, fast, fua } => {
                let is_quick = self.zero_quickly(*offset, *len, *may_trim)?;
                if !is_quick {
                    if *fast {
                        return Err(Errno::NotSupported);
                    }
                    replies.stalls();
                    self.write_zeros(*offset, *len)?;
                }
                Ok(done(*fua))
            }
            Operation::Cache { offset, len } => {
                // It is a hint, and the file system may have no use for it.
                let len = NonZeroU64::new((*len).min(AHEAD_BYTES_MAX));
                let _ = fadvise(&self.file, *offset, len, Advice::WillNeed);
                Ok(Carried::Answered(Answer::Done))
            }
            Operation::Extents { offset, len, .. } => self.extents(*offset, *len).map(Carried::Answered),
        }
    }

    /// Reads what is in memory.
    fn read_cached(&self, offset: u64, len: u32) -> Result<Carried, Errno> {
        let mut data = vec![0; len as usize];
        match preadv2(&self.file, &mut [IoSliceMut::new(&mut data)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == data.len() => Ok(Carried::Answered(Answer::data(data))),
            Ok(_) | Err(SystemError::AGAIN | SystemError::INTR | SystemError::OPNOTSUPP) => Ok(Carried::Uncached(data)),
            Err(error) => Err(errno(error)),
        }
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno> {
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
            // A trim is a hint: the contents may stay.
            Err(SystemError::OPNOTSUPP) => Ok(()),
            done => done.map_err(errno),
        }
    }

    /// Zeroes a range without writing it. Says whether the file system can.
    fn zero_quickly(&self, offset: u64, len: u64, may_trim: bool) -> Result<bool, Errno> {
        let hole = may_trim.then_some(FallocateFlags::PUNCH_HOLE);
        for how in hole.into_iter().chain([FallocateFlags::ZERO_RANGE]) {
            match fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, offset, len) {
                Err(SystemError::OPNOTSUPP) => {}
                done => return done.map(|()| true).map_err(errno),
            }
        }
        Ok(false)
    }

    fn write_zeros(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let zeros = &ZEROS[..(end - at).min(ZEROS.len() as u64) as usize];
            write_all(&self.file, zeros, at)?;
            at += zeros.len() as u64;
        }
        Ok(())
    }

    fn extents(&self, offset: u64, len: u64) -> Result<Answer, Errno> {
        let (mut at, end) = (offset, offset + len);
        let mut extents = Vec::new();
        while at < end && extents.len() < EXTENTS_MAX {
            let data = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data.min(self.geometry.size),
                // There is none up to the end.
                Err(SystemError::NXIO) => self.geometry.size,
                // The file system does not know.
                Err(SystemError::INVAL) => {
                    extents.push(Extent::data(self.geometry.size - at));
                    break;
                }
                Err(error) => return Err(errno(error)),
            };
            if data > at {
                extents.push(Extent::hole(data - at));
            }
            if data < end {
                let hole = seek(&self.file, SeekFrom::Hole(data)).map_err(errno)?.min(self.geometry.size);
                // The file may have changed between the two calls.
                extents.push(Extent::data(hole.saturating_sub(data).max(1)));
                at = hole;
            } else {
                at = data;
            }
        }
        Ok(Answer::Extents(extents))
    }

    fn lock(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs for those that wait, unless enough threads do; one of them then takes them along.
    fn sync(&self, unsynced: impl Iterator<Item = Waiting>, replies: &Arc<dyn Replies>) {
        let mut syncs = self.lock();
        syncs.waiting.extend(unsynced);
        if syncs.waiting.is_empty() {
            return;
        }
        let Some(file) = syncs.idle.pop() else { return };
        let mut covered = std::mem::take(&mut syncs.waiting);
        drop(syncs);
        replies.stalls();
        loop {
            let synced = fdatasync(&file);
            if synced.is_err() {
                self.has_failed.store(true, SeqCst);
            }
            answer_all(&mut covered, synced.map_err(errno));
            let mut syncs = self.lock();
            if syncs.waiting.is_empty() {
                return syncs.idle.push(file);
            }
            covered = std::mem::take(&mut syncs.waiting);
        }
    }
}

/// Whether the answer waits for a sync.
fn is_synced(operation: &Operation) -> bool {
    match operation {
        Operation::Flush => true,
        Operation::Write { fua, .. } | Operation::Trim { fua, .. } | Operation::Zero { fua, .. } => *fua,
        Operation::Read { .. } | Operation::Cache { .. } | Operation::Extents { .. } => false,
    }
}

/// The state of a request after its first system call.
enum Carried {
    Answered(Answer),
    /// It waits for a sync.
    Unsynced,
    /// It waits for a read into this memory.
    Uncached(Vec<u8>),
}

/// Answers requests of any connections, and has the replies of each leave together.
fn answer_all(covered: &mut Vec<Waiting>, outcome: Result<(), Errno>) {
    let mut last: Option<Arc<dyn Replies>> = None;
    for (replies, ticket) in covered.drain(..) {
        replies.done(ticket, outcome.map(|()| Answer::Done));
        if let Some(last) = last.take().filter(|last| !Arc::ptr_eq(last, &replies)) {
            last.send();
        }
        last = Some(replies);
    }
    if let Some(last) = last {
        last.send();
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) {
        if batch.iter().any(|request| is_synced(&request.operation)) && !self.lock().idle.is_empty() {
            // This thread will lead a sync; the requests that follow need not wait for its writes either.
            replies.stalls();
        }
        let mut unsynced = Vec::new();
        let mut uncached = Vec::new();
        for Request { ticket, operation } in batch.drain(..) {
            match self.carry_out(&operation, replies) {
                Ok(Carried::Answered(answer)) => replies.done(ticket, Ok(answer)),
                Ok(Carried::Unsynced) => unsynced.push(ticket),
                Ok(Carried::Uncached(memory)) => uncached.push((ticket, memory)),
                Err(errno) => replies.done(ticket, Err(errno)),
            }
        }
        // The last read is this thread's, unless it has a sync to lead; the others have threads of their own.
        let own = if unsynced.is_empty() { uncached.pop() } else { None };
        for (ticket, memory) in uncached {
            self.readers.read(Arc::clone(replies), ticket, memory);
        }
        if let Some((ticket, memory)) = own {
            replies.stalls();
            let read = read_exact(&self.file, memory, ticket.offset);
            replies.done(ticket, read);
        }
        self.sync(unsynced.into_iter().map(|ticket| (Arc::clone(replies), ticket)), replies);
    }
}

fn write_all(file: &File, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        match pwrite(file, data, offset) {
            Ok(0) => return Err(Errno::NoSpace),
            Ok(written) => {
                data = &data[written..];
                offset += written as u64;
            }
            Err(SystemError::INTR) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(())
}

/// The error of the protocol for one of the system.
fn errno(error: SystemError) -> Errno {
    match error {
        SystemError::NOSPC | SystemError::DQUOT | SystemError::FBIG => Errno::NoSpace,
        _ => Errno::Io,
    }
}
