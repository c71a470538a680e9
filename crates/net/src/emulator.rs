//! A distance between a client and a store: a relay that delays what passes.
//!
//! ```text
//!   client --TCP on loopback--> [ read, stamp ] --queue--> [ wait, write ] --TCP on loopback--> store
//! ```
//! # The line that it emulates
//!
//! Every byte arrives a fixed time after it has left, and, with a rate, not before the line
//! has carried what went before it. Before a line with a rate stands a queue, as in a router: what does not fit waits
//! at the sender, which TCP tells to stop. Connections share the line and the queue. So a sender sees how slow the line
//! is, and what is behind a long queue waits for it. Both halves are TCP on loopback, which knows of no distance; so
//! what a distance does to a fresh connection is modelled (`emulator/slow_start.rs`): setting it up takes a round trip,
//! and it carries little at first. That is a long line without loss, reordering or jitter, and TCP without what it does
//! about those. `thorp bench first --lab` measures the same over a line of real packets and through this one.
//!
//! Plain threads carry it, two in each direction: the timers of the runtime count milliseconds, and 20 ms should not
//! be 21.

mod slow_start;

use rustix::net::sockopt;
use slow_start::SlowStart;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wire::{HEADER_BYTES, Header};

/// The bytes that are read at a time: a line carries them as one piece.
const PIECE_BYTES: usize = 16 * 1024;

/// Pieces under way in one direction of one connection; beyond, the sender has to wait.
const PIECES_MAX: usize = 4096;

/// A distance between clients and a store. Ends when it is dropped; connections under way end with either side.
#[derive(Debug)]
pub struct Emulator {
    address: SocketAddr,
    counts: Arc<Counts>,
    stopped: Arc<AtomicBool>,
}

/// Counts of what has passed a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Connections.
    pub connections: u64,
    /// Bytes from clients to the store.
    pub bytes_up: u64,
    /// Bytes from the store to clients.
    pub bytes_down: u64,
    /// Messages from clients to the store.
    pub messages_up: u64,
    /// Messages from the store to clients.
    pub messages_down: u64,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    up: Arc<Direction>,
    down: Arc<Direction>,
}

#[derive(Debug, Default)]
struct Direction {
    bytes: AtomicU64,
    messages: AtomicU64,
    /// When a line with a rate has carried all that has been put on it: its connections share it.
    free: Mutex<Option<Instant>>,
}

/// The queue before a line with a rate, in bytes: a second at 1 Mbit/s.
const QUEUE_BYTES: u64 = 128 * 1024;

/// The bytes that the system may take in beyond that.
const RECEIVE_BUFFER_BYTES: usize = 32 * 1024;

/// The properties of the line.
#[derive(Clone, Copy, Debug)]
struct Line {
    one_way: Duration,
    bytes_per_s: Option<u64>,
}

impl Direction {
    /// Puts on the line what takes so long to carry; gives when it will have been carried.
    fn put(&self, carries: Duration) -> Instant {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let until = free.unwrap_or_else(Instant::now).max(Instant::now()) + carries;
        *free.insert(until)
    }
}

impl Line {
    /// How long it takes to carry so much.
    fn carries(self, bytes: u64) -> Duration {
        self.bytes_per_s.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate as f64))
    }
}

impl Emulator {
    /// Puts a line of `one_way` delay, and of `rate` bytes per second in each direction if one is given, before the
    /// store at `upstream`. Clients connect to [`Emulator::address`].
    pub fn start(upstream: SocketAddr, one_way: Duration, rate: Option<u64>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        if rate.is_some() {
            // Those that it accepts have it from the listener.
            sockopt::set_socket_recv_buffer_size(&listener, RECEIVE_BUFFER_BYTES)?;
        }
        let (address, counts, stopped) = (listener.local_addr()?, Arc::<Counts>::default(), Arc::default());
        let line = Line { one_way, bytes_per_s: rate };
        let (their_counts, their_stopped) = (Arc::clone(&counts), Arc::clone(&stopped));
        spawn("accept", move || accept(&listener, upstream, line, &their_counts, &their_stopped))?;
        Ok(Self { address, counts, stopped })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts of what has passed so far.
    pub fn tally(&self) -> LinkTally {
        let Counts { connections, up, down } = &*self.counts;
        LinkTally {
            connections: connections.load(Relaxed),
            bytes_up: up.bytes.load(Relaxed),
            bytes_down: down.bytes.load(Relaxed),
            messages_up: up.messages.load(Relaxed),
            messages_down: down.messages.load(Relaxed),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stopped.store(true, SeqCst);
        // Wakes the accepting thread; if that fails, so does its listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, upstream: SocketAddr, line: Line, counts: &Arc<Counts>, stopped: &AtomicBool) {
    while let Ok((client, _)) = listener.accept() {
        if stopped.load(SeqCst) {
            return;
        }
        counts.connections.fetch_add(1, Relaxed);
        // A store that is not there shows as a connection that closes at once.
        let _ = relay_both(&client, upstream, line, counts);
    }
}

fn relay_both(client: &TcpStream, upstream: SocketAddr, line: Line, counts: &Arc<Counts>) -> io::Result<()> {
    let store = TcpStream::connect(upstream)?;
    client.set_nodelay(true)?;
    store.set_nodelay(true)?;
    if line.bytes_per_s.is_some() {
        sockopt::set_socket_recv_buffer_size(&store, RECEIVE_BUFFER_BYTES)?;
    }
    // The client's first byte leaves when it has heard that the connection is there.
    let open = Instant::now() + 2 * line.one_way;
    relay(client.try_clone()?, store.try_clone()?, line, open, Arc::clone(&counts.up))?;
    relay(store, client.try_clone()?, line, open, Arc::clone(&counts.down))
}

/// Carries one direction of a connection.
fn relay(from: TcpStream, to: TcpStream, line: Line, open: Instant, counts: Arc<Direction>) -> io::Result<()> {
    let (sender, receiver) = sync_channel(PIECES_MAX);
    let slow_start = SlowStart::new(open, 2 * line.one_way);
    spawn("read", move || read(from, line, slow_start, &sender, &counts))?;
    spawn("write", move || write(to, &receiver))
}

fn read(
    mut from: TcpStream,
    line: Line,
    mut slow_start: SlowStart,
    queue: &SyncSender<(Instant, Vec<u8>)>,
    counts: &Direction,
) {
    let (mut buffer, mut frames) = (vec![0; PIECE_BYTES], Frames::default());
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        counts.bytes.fetch_add(bytes as u64, Relaxed);
        counts.messages.fetch_add(frames.count(&buffer[..bytes]), Relaxed);
        let mut piece = &buffer[..bytes];
        while !piece.is_empty() {
            let (leaves, carried) = slow_start.send(Instant::now(), piece.len());
            thread::sleep(leaves.saturating_duration_since(Instant::now()));
            let line_free = counts.put(line.carries(carried as u64));
            let (now, later) = piece.split_at(carried);
            if queue.send((line_free + line.one_way, now.to_vec())).is_err() {
                // The sender learns by this that nobody reads any more.
                let _ = from.shutdown(Shutdown::Read);
                return;
            }
            thread::sleep(line_free.saturating_duration_since(Instant::now() + line.carries(QUEUE_BYTES)));
            piece = later;
        }
    }
}

fn write(mut to: TcpStream, queue: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((due, piece)) = queue.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(format!("thorp-line-{name}")).stack_size(128 * 1024).spawn(work).map(drop)
}

/// Counts the frames in a stream by their headers.
#[derive(Debug, Default)]
struct Frames {
    header: Vec<u8>,
    skip: usize,
}

impl Frames {
    /// How many frames begin in `bytes`, the stream's next ones. Bytes that are no frame are not counted, nor those
    /// that follow them.
    fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut count = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let (head, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - self.header.len()));
            self.header.extend_from_slice(head);
            bytes = rest;
            let Ok(header) = self.header.as_slice().try_into() else { return count };
            let frame = Header::parse(&header).map_or(usize::MAX, Header::frame_bytes);
            count += u64::from(frame != usize::MAX);
            self.skip = frame - HEADER_BYTES;
            self.header.clear();
        }
    }
}
