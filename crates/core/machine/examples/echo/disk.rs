//! The disk of an echo: a log in a directory. After a failed write it reads again what the log holds, and works on.

use bytes::Bytes;
use log::{Durable, Limits, Log, LogId, Records, Scan};
use machine::{Append, Appended, Disk};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use types::Position;
use vfs::{Doing, FileError, Files, Malformed, read_small, replace_small};

const ID: LogId = LogId(0xEC0);
const LIMITS: Limits = Limits { segment_bytes: 1 << 20, segments_max: 64, memory_bytes: 32 << 10 };

/// The file that counts how often the log was opened.
const LIVES: &str = "lives";

/// The pause before a disk that has failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The texts, as they are in the log.
#[derive(Debug)]
pub(crate) struct Texts;

impl Records for Texts {
    type Record = String;

    const BODY_BYTES_MAX: u32 = 64 << 10;

    fn kind(_: &String) -> u8 {
        1
    }

    fn body_bytes(text: &String) -> usize {
        text.len()
    }

    fn encode(text: &String, put: &mut impl FnMut(&[u8])) {
        put(text.as_bytes());
    }

    fn decode(_: u8, body: Bytes) -> Result<String, Malformed> {
        String::from_utf8(body.to_vec()).map_err(|_| Malformed)
    }
}

type OnDone = Box<dyn Fn(Appended) + Send + Sync>;
type OnFailed = Box<dyn Fn(&str) + Send + Sync>;

/// The log of an echo.
pub(crate) struct LogDisk {
    files: Arc<dyn Files>,
    log: Mutex<Arc<Log<Texts>>>,
    done: OnceLock<OnDone>,
    failed: OnceLock<OnFailed>,
    this: Weak<Self>,
}

impl LogDisk {
    /// Opens the log of a directory, and makes it first in an empty one. Returns the number of records as well.
    ///
    /// # Errors
    /// The directory cannot be read or written, or its log is damaged.
    pub(crate) fn open(files: Arc<dyn Files>) -> Result<(Arc<Self>, u64), FileError> {
        if !files.list().is_ok_and(|names| names.iter().any(|name| name == LIVES)) {
            Log::<Texts>::create(&*files, ID, LIMITS, 2)?;
        }
        let (log, records) = resume(&files)?;
        let disk = Arc::new_cyclic(|this: &Weak<Self>| Self {
            files,
            log: Mutex::new(Arc::new(log)),
            done: OnceLock::new(),
            failed: OnceLock::new(),
            this: this.clone(),
        });
        Ok((disk, records))
    }

    fn log(&self) -> Arc<Log<Texts>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The log has failed: the machine learns of it, and later that the disk works again.
    fn fail(&self, error: &FileError) {
        let _ = self.failed.get().map(|failed| failed(&error.to_string()));
        let disk = self.this.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(AGAIN_AFTER);
                // There is nothing to work for where the machine's process has ended.
                if disk.upgrade().is_none_or(|disk| disk.reopen().is_ok()) {
                    break;
                }
            }
        });
    }

    fn reopen(&self) -> Result<(), FileError> {
        let (log, records) = resume(&self.files)?;
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(log);
        let _ = self.done.get().map(|done| done(Appended::Reopened(Position(records))));
        Ok(())
    }
}

/// Goes on with a log from what it holds, and counts that.
fn resume(files: &Arc<dyn Files>) -> Result<(Log<Texts>, u64), FileError> {
    let mut scan = Scan::<Texts>::begin(files.clone(), ID, 0)?;
    let mut records = 0;
    while scan.next_record()?.is_some() {
        records += 1;
    }
    Ok((Log::resume(files.clone(), ID, LIMITS, next_life(files)?, &scan)?, records))
}

/// A number that is higher than that of every life before.
fn next_life(files: &Arc<dyn Files>) -> Result<u32, FileError> {
    let last = read_small(&**files, LIVES, 4).ok().and_then(|bytes| bytes.try_into().ok());
    let life = u32::from_le_bytes(last.unwrap_or_default()) + 1;
    replace_small(&**files, LIVES, &life.to_le_bytes()).doing("write", || files.path(LIVES))?;
    Ok(life)
}

impl Disk for LogDisk {
    type Work = Append<String>;
    type Done = Appended;

    fn submit(&self, work: Append<String>) -> bool {
        let Append(Position(position), text) = work;
        self.log().append(position, text);
        true
    }

    fn flush(&self, done: &mut dyn FnMut(Appended)) -> bool {
        let log = self.log();
        let more = log.flush(0, &mut |result| match result {
            Ok(Durable { through, .. }) => done(Appended::Durable(Position(through))),
            Err(error) => self.fail(&error),
        });
        more && !log.is_stuck()
    }

    fn on_done(&self, done: OnDone) {
        assert!(self.done.set(done).is_ok(), "registered once");
    }

    fn on_failed(&self, failed: OnFailed) {
        assert!(self.failed.set(failed).is_ok(), "registered once");
    }
}

impl fmt::Debug for LogDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogDisk").field("files", &self.files).finish_non_exhaustive()
    }
}
