//! The access log: a line for each request, when its answer has been given.
//!
//! The threads that serve clients hand a line over without waiting. A thread of the log's own writes them: one that
//! cannot keep up, or whose disk is full, loses lines, which are counted, and delays no request. At SIGHUP the file is
//! opened again, so a program that rotates logs renames it first.

use crate::operate::notes::{Note, Notes};
use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use responses::Time;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::Instant;

/// Lines that wait to be written. One more is lost.
const WAITING_MAX: usize = 16 * 1024;

/// The bytes of a field that a line has.
const FIELD_BYTES_MAX: usize = 1024;

/// Where requests are logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogConfig {
    /// The file, to which lines are appended.
    pub path: PathBuf,
    /// The form of a line.
    pub format: AccessLogFormat,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// The combined format of Apache and nginx.
    Combined,
    /// An object, which also tells how the cache has handled the request.
    Json,
}

/// The log of a running proxy.
#[derive(Debug)]
pub(crate) struct AccessLog {
    format: AccessLogFormat,
    sender: SyncSender<Message>,
    lost: AtomicU64,
}

enum Message {
    Line(String),
    Reopen,
}

impl AccessLog {
    /// Opens the file, and begins to write.
    pub(crate) fn open(config: &AccessLogConfig, notes: Arc<Notes>) -> io::Result<Arc<Self>> {
        let file = append(&config.path)?;
        let (sender, lines) = sync_channel(WAITING_MAX);
        let path = config.path.clone();
        let writer = move || Writer { path, file: BufWriter::new(file), notes, is_failing: false }.run(&lines);
        thread::Builder::new().name("proxy-log".to_owned()).spawn(writer)?;
        Ok(Arc::new(Self { format: config.format, sender, lost: AtomicU64::new(0) }))
    }

    /// Has the file opened again: it may have been renamed.
    pub(crate) fn reopen(&self) {
        // A log that has as much to write as may wait is opened at the next time.
        let _ = self.sender.try_send(Message::Reopen);
    }

    /// Lines that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn log(&self, line: String) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.sender.try_send(Message::Line(line)) {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// The thread that writes.
struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    notes: Arc<Notes>,
    is_failing: bool,
}

impl Writer {
    /// Writes until the proxy is gone. The file is flushed whenever the queue is empty.
    fn run(mut self, lines: &Receiver<Message>) {
        while let Ok(message) = lines.recv() {
            let mut next = Ok(message);
            let written = loop {
                let done = match next {
                    Ok(Message::Line(line)) => self.file.write_all(line.as_bytes()),
                    Ok(Message::Reopen) => self.reopen(),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break self.file.flush(),
                };
                if done.is_err() {
                    break done;
                }
                next = lines.try_recv();
            };
            self.tell(written);
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file = BufWriter::new(append(&self.path)?);
        Ok(())
    }

    /// Tells the operator of an error once, until writing works again.
    fn tell(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.is_failing = false,
            Err(why) if !self.is_failing => {
                self.is_failing = true;
                self.notes.say(Note::AccessLog(format!("{}: {why}", self.path.display())));
            }
            Err(_) => {}
        }
    }
}

/// A request that is logged when its answer has been given, or given up.
#[derive(Debug)]
pub(crate) struct Logged {
    log: Arc<AccessLog>,
    at: Time,
    begun: Instant,
    client: IpAddr,
    method: String,
    target: String,
    protocol: String,
    host: String,
    referer: String,
    user_agent: String,
    status: StatusCode,
    cache_status: String,
    bytes: u64,
}

impl Logged {
    /// A request as its client has sent it.
    pub(crate) fn new<B>(log: &Arc<AccessLog>, client: IpAddr, at: Time, request: &Request<B>) -> Box<Self> {
        let field = |name: HeaderName| text(request.headers().get(name));
        let host = match request.uri().authority() {
            Some(authority) => authority.to_string(),
            None => field(HOST),
        };
        Box::new(Self {
            log: log.clone(),
            at,
            begun: Instant::now(),
            client,
            method: request.method().to_string(),
            target: request.uri().path_and_query().map_or("*", |target| target.as_str()).to_owned(),
            protocol: format!("{:?}", request.version()),
            host,
            referer: field(REFERER),
            user_agent: field(USER_AGENT),
            status: StatusCode::OK,
            cache_status: String::new(),
            bytes: 0,
        })
    }

    /// The head of the answer.
    pub(crate) fn answered(&mut self, status: StatusCode, fields: &HeaderMap) {
        self.status = status;
        self.cache_status = text(fields.get_all("cache-status").iter().next_back());
    }

    /// So many bytes of the body were given to the connection.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    fn line(&self) -> String {
        match self.log.format {
            AccessLogFormat::Combined => self.combined(),
            AccessLogFormat::Json => self.json(),
        }
    }

    fn combined(&self) -> String {
        let Self { client, at, status, bytes, .. } = self;
        let [method, target, referer, agent] =
            [&self.method, &self.target, &self.referer, &self.user_agent].map(|text| escaped(text));
        let (protocol, at, status) = (&self.protocol, at.to_log(), status.as_u16());
        format!("{client} - - [{at}] \"{method} {target} {protocol}\" {status} {bytes} \"{referer}\" \"{agent}\"\n")
    }

    fn json(&self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        let line = json!({
            "time": self.at.to_rfc3339(),
            "client": self.client.to_string(),
            "method": self.method,
            "target": self.target,
            "protocol": self.protocol,
            "host": self.host,
            "status": self.status.as_u16(),
            "bytes": self.bytes,
            "seconds": seconds,
            "cache_status": self.cache_status,
            "referer": self.referer,
            "user_agent": self.user_agent,
        });
        line.to_string() + "\n"
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.log.log(self.line());
    }
}

/// The text of a field, as far as a line has it.
fn text(value: Option<&HeaderValue>) -> String {
    let bytes = value.map_or(&[][..], HeaderValue::as_bytes);
    String::from_utf8_lossy(&bytes[..bytes.len().min(FIELD_BYTES_MAX)]).into_owned()
}

/// A text between quotes, as nginx writes it: quotes, backslashes and bytes outside printable ASCII become numbers.
/// `-` stands for none.
fn escaped(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte) {
            escaped.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "\\x{byte:02X}");
        }
    }
    escaped
}
