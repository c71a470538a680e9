//! The writer of the experiment: a publisher with one file, which it writes again and again.

use super::reader::Unfinished;
use bytes::Bytes;
use machine::{Machine, Output, Parcel, Port};
use sim::sites::Chunks;
use spread::messages::Size;
use spread::{Answer, Client, Request, SiteKey, Ticket};
use std::time::Duration;
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Piece, write_directory};
use types::Time;

/// The largest file that its directory holds itself.
const INLINE_BYTES_MAX: usize = 512;

/// The times at which a file is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes {
    /// When it is opened the first time, but for one write at the start.
    pub(super) begin: Time,
    /// From one opening to the next.
    pub(super) every: Duration,
    /// From an opening to its close.
    pub(super) open_for: Duration,
    /// How long after the opening, and after the last time, an unfinished file is stored, if at all.
    pub(super) stores_each: Option<Duration>,
}

impl Writes {
    /// The next store behind a time, and whether the file is closed with it.
    fn next(self, behind: Time) -> (Time, bool) {
        let (begin, every, open_for) = (self.begin.0, self.every.as_nanos() as u64, self.open_for.as_nanos() as u64);
        let within = behind.0.saturating_sub(begin) % every;
        let opened = if behind.0 < begin { begin } else { behind.0 - within };
        let closed = Time(opened + open_for);
        let part = self.stores_each.map(|each| each.as_nanos() as u64).and_then(|each| {
            let at = opened + behind.0.saturating_sub(opened) / each * each + each;
            (at < closed.0).then_some(Time(at))
        });
        match part {
            Some(part) => (part, false),
            None if closed > behind => (closed, true),
            None => Self { begin: Time(opened + every), ..self }.next(Time(opened + every - 1)),
        }
    }
}

/// The publish that is under way.
#[derive(Debug)]
struct UnderWay {
    ticket: Ticket,
    root: ChunkHash,
    chunks: Chunks,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Have,
    Put,
    Publish,
}

/// The writer.
#[derive(Debug)]
pub(super) struct Writer {
    client: Client,
    key: SiteKey,
    writes: Writes,
    file_bytes: usize,
    unfinished: Unfinished,
    /// The next store, and whether the file is closed with it.
    next: (Time, bool),
    version: u64,
    base: Option<ChunkHash>,
    under_way: Option<UnderWay>,
    published: u64,
}

impl Writer {
    pub(super) fn new(key: SiteKey, writes: Writes, file_bytes: usize, unfinished: Unfinished) -> Self {
        let (next, client) = ((Time::ZERO, true), Client::new(1));
        Self {
            client,
            key,
            writes,
            file_bytes,
            unfinished,
            next,
            version: 0,
            base: None,
            under_way: None,
            published: 0,
        }
    }

    /// How many revisions it has published.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    fn begin(&mut self, is_closed: bool) {
        self.version += 1;
        let (root, chunks) = tree(self.version, self.file_bytes);
        if !is_closed {
            self.unfinished.add(root);
        }
        let ticket = self.client.ask(Request::Have(chunks.0.keys().copied().collect()));
        self.under_way = Some(UnderWay { ticket, root, chunks, step: Step::Have });
    }

    /// Takes answers, and asks for the next step.
    fn go_on(&mut self) {
        let Some(mut it) = self.under_way.take() else { return };
        let Some(answer) = self.client.take(it.ticket) else {
            self.under_way = Some(it);
            return;
        };
        let (request, step) = match (it.step, answer) {
            (Step::Have, Answer::Missing(missing)) if !missing.is_empty() => {
                let chunks = missing.iter().map(|hash| (*hash, it.chunks.0[hash].clone())).collect();
                (Request::Put(self.key.clone(), chunks), Step::Put)
            }
            (Step::Have, Answer::Missing(_)) | (Step::Put, Answer::Stored) => {
                let (key, base, root, of) = (self.key.clone(), self.base, it.root, None);
                let (size, waits, merges, note) = (Size::default(), false, false, String::new());
                let (ends_locks, locks) = (false, Vec::new());
                (Request::Publish { key, base, root, of, size, waits, merges, ends_locks, locks, note }, Step::Publish)
            }
            (Step::Publish, Answer::Published { .. }) => {
                (self.base, self.published) = (Some(it.root), self.published + 1);
                return;
            }
            (step, answer) => panic!("a publish in the experiment is answered with {answer:?} at {step:?}"),
        };
        (it.ticket, it.step) = (self.client.ask(request), step);
        self.under_way = Some(it);
    }
}

/// A directory with one file that no other version has.
fn tree(version: u64, bytes: usize) -> (ChunkHash, Chunks) {
    let mut chunks = Chunks::default();
    let mut text = format!("{version:016}").into_bytes();
    text.resize(bytes, b'.');
    let text = Bytes::from(text);
    let content = if bytes > INLINE_BYTES_MAX {
        let piece = Piece { hash: ChunkHash::of(&text), bytes: bytes as u32 };
        chunks.0.insert(piece.hash, text);
        Content::Pieces(vec![piece])
    } else {
        Content::Inline(text)
    };
    let kind = Kind::File { size: bytes as u64, content, link: 0 };
    let name = Name::new(b"file").expect("it is a name");
    let root = write_directory(&[(name, Entry { kind, attributes: Attributes::default() })], &mut chunks);
    (root.unwrap_or_else(|error| match error {}), chunks)
}

impl Machine for Writer {
    fn start(&mut self, now: Time) {
        self.client.start(now);
    }

    fn connected(&mut self, now: Time, port: Port) {
        self.client.connected(now, port);
        self.go_on();
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        self.client.disconnected(now, port);
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        self.client.handle(now, port, message);
        self.go_on();
    }

    fn stop(&mut self, why: &str) {
        self.client.stop(why);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.client.poll_output()
    }

    fn poll_timeout(&self) -> Option<Time> {
        // A write that is due while the last one is under way waits for it.
        let due = Some(self.next.0).filter(|_| self.under_way.is_none());
        [self.client.poll_timeout(), due].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.client.poll_timeout().is_some_and(|due| due <= now) {
            self.client.handle_timeout(now);
        }
        let (due, is_closed) = self.next;
        if due <= now && self.under_way.is_none() {
            self.next = self.writes.next(now);
            self.begin(is_closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_is_stored_now_and_then_and_when_it_is_closed() {
        let s = Duration::from_secs;
        let writes = Writes { begin: Time::ZERO + s(100), every: s(60), open_for: s(45), stores_each: Some(s(20)) };
        let (mut at, mut found) = (Time::ZERO, Vec::new());
        for _ in 0..6 {
            let (next, is_closed) = writes.next(at);
            found.push((next.since(Time::ZERO).as_secs(), is_closed));
            at = next;
        }
        assert_eq!(found, [(120, false), (140, false), (145, true), (180, false), (200, false), (205, true)]);
        let writes = Writes { stores_each: None, open_for: s(0), ..writes };
        assert_eq!(writes.next(Time::ZERO), (Time::ZERO + s(100), true));
        assert_eq!(writes.next(Time::ZERO + s(100)), (Time::ZERO + s(160), true));
    }
}
