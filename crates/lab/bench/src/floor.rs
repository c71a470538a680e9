//! The machine itself: the times that no store can do without.

use crate::sample::median;
use crate::{Line, Place, Result, Sample};
use fixtures::Emulator;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A block of a log.
const BLOCK_BYTES: usize = 4096;

/// The blocks of the file that is overwritten again and again.
const BLOCKS: u64 = 4096;

/// A file of blocks that were all written before, to be overwritten and synced one by one.
///
/// Written past the page cache where the file system allows that, as the log is: a sync that has nothing to write back
/// is the cheapest that there is, and to compare with a dearer one would flatter.
pub(crate) struct SyncFloor {
    file: File,
    buffer: Vec<u8>,
    next: u64,
}

impl SyncFloor {
    /// Makes the file, past the page cache if that can be had.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        Self::with_flags(dir, OFlags::DIRECT).or_else(|_| Self::buffered(dir))
    }

    /// Makes a file that goes through the page cache.
    pub(crate) fn buffered(dir: &Path) -> Result<Self> {
        Self::with_flags(dir, OFlags::empty())
    }

    fn with_flags(dir: &Path, flags: OFlags) -> Result<Self> {
        let path = dir.join("floor");
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).read(true).write(true).custom_flags(flags.bits().cast_signed());
        let mut floor = Self { file: options.open(&path)?, buffer: vec![1; 2 * BLOCK_BYTES], next: 0 };
        // Every block is written once: one that was only reserved costs more the first time.
        for block in 0..BLOCKS {
            floor.write(block)?;
        }
        floor.file.sync_all()?;
        // The file lives on until it is closed.
        std::fs::remove_file(path)?;
        Ok(floor)
    }

    /// Writes a block from where the buffer begins to be aligned, as the system wants it past the page cache.
    fn write(&mut self, block: u64) -> Result<()> {
        let start = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        self.file.write_all_at(&self.buffer[start..start + BLOCK_BYTES], block * BLOCK_BYTES as u64)?;
        Ok(())
    }

    /// Writes the next block and syncs it.
    pub(crate) fn once(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.write(self.next)?;
        self.file.sync_data()?;
        self.next = (self.next + 1) % BLOCKS;
        Ok(start.elapsed())
    }

    /// Syncs per second of one thread, over a while.
    pub(crate) fn per_second(&mut self, during: Duration) -> Result<f64> {
        let (start, mut count) = (Instant::now(), 0_u32);
        while start.elapsed() < during {
            self.once()?;
            count += 1;
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    }
}

/// A request and a reply over loopback between two threads, with blocking sockets.
pub(crate) struct PingPong {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
    echo: Option<JoinHandle<()>>,
    /// The emulated line between the two, if there is one.
    _line: Option<Emulator>,
}

impl PingPong {
    /// For a request and a reply of these sizes.
    pub(crate) fn new(request_bytes: usize, reply_bytes: usize) -> Result<Self> {
        Self::with(request_bytes, reply_bytes, None, move |peer| answer(peer, request_bytes, reply_bytes))
    }

    /// The same over an emulated distance.
    pub(crate) fn emulated(request_bytes: usize, reply_bytes: usize, one_way: Duration) -> Result<Self> {
        let work = move |peer| answer(peer, request_bytes, reply_bytes);
        Self::with(request_bytes, reply_bytes, Some(one_way), work)
    }

    /// The same with a thread between the two that hands on what it hears.
    pub(crate) fn relayed(request_bytes: usize, reply_bytes: usize) -> Result<Self> {
        let far = Self::new(request_bytes, reply_bytes)?;
        Self::with(request_bytes, reply_bytes, None, move |peer| relay(peer, far))
    }

    fn with(
        request_bytes: usize,
        reply_bytes: usize,
        one_way: Option<Duration>,
        work: impl FnOnce(TcpStream) + Send + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let far = listener.local_addr()?;
        let line = one_way.map(|one_way| Emulator::start(far, one_way, None)).transpose()?;
        let stream = TcpStream::connect(line.as_ref().map_or(far, Emulator::address))?;
        stream.set_nodelay(true)?;
        let (peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        let echo = std::thread::spawn(move || work(peer));
        Ok(Self { stream, request: vec![1; request_bytes], reply: vec![0; reply_bytes], echo: Some(echo), _line: line })
    }

    /// One round trip.
    pub(crate) fn once(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.stream.write_all(&self.request)?;
        self.stream.read_exact(&mut self.reply)?;
        Ok(start.elapsed())
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        // An error means that the other end is gone already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if let Some(echo) = self.echo.take() {
            let _ = echo.join();
        }
    }
}

fn answer(mut peer: TcpStream, request_bytes: usize, reply_bytes: usize) {
    let (mut request, reply) = (vec![0; request_bytes], vec![2; reply_bytes]);
    while peer.read_exact(&mut request).is_ok() && peer.write_all(&reply).is_ok() {}
}

fn relay(mut peer: TcpStream, mut far: PingPong) {
    let mut request = vec![0; far.request.len()];
    while peer.read_exact(&mut request).is_ok() && far.once().is_ok() && peer.write_all(&far.reply).is_ok() {}
}

/// Lookups in the standard library's hash map, as it comes.
pub(crate) struct HashMapFloor {
    map: HashMap<u64, u64>,
}

impl HashMapFloor {
    /// A map of these keys.
    pub(crate) fn new(keys: &[u64]) -> Self {
        Self { map: keys.iter().map(|&key| (key, key)).collect() }
    }

    /// Nanoseconds for one lookup, over all of `keys` in their order.
    pub(crate) fn lookup_ns(&self, keys: &[u64]) -> f64 {
        let start = Instant::now();
        let sum = keys.iter().fold(0_u64, |sum, key| sum.wrapping_add(self.map[key]));
        black_box(sum);
        start.elapsed().as_nanos() as f64 / keys.len() as f64
    }
}

/// Numbers in an order that no cache foresees, the same in every run.
pub(crate) struct Shuffle(u64);

impl Shuffle {
    /// The beginning.
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// The next number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Brings some things into such an order.
    pub(crate) fn order<T>(&mut self, things: &mut [T]) {
        for end in (1..things.len()).rev() {
            things.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// Keys of the hash map in `floor`: as many as a medium OO7 module has atomic parts.
const KEYS: u64 = 100_000;

/// How often each thing is done, in turns with the others.
const TURNS: usize = 500;

pub(crate) fn measure(place: &Place) -> Result<Line> {
    let (mut syncs, mut cached_syncs) = (SyncFloor::new(&place.dir)?, SyncFloor::buffered(&place.dir)?);
    let (mut small, mut page) = (PingPong::new(200, 100)?, PingPong::new(40, 8192)?);
    let [mut sync, mut cached_sync, mut round_trip, mut ping] = <[Sample; 4]>::default();
    for _ in 0..TURNS {
        sync.push(syncs.once()?);
        cached_sync.push(cached_syncs.once()?);
        round_trip.push(small.once()?);
        ping.push(page.once()?);
    }
    let mut keys: Vec<u64> = (0..KEYS).collect();
    Shuffle::new().order(&mut keys);
    let map = HashMapFloor::new(&keys);
    let lookup_ns = median((0..21).map(|_| map.lookup_ns(&keys)).collect());
    let line = Line::new("floor")
        .figure("fdatasync_us_p50", sync.micros(0.5))
        .figure("fdatasync_us_p99", sync.micros(0.99))
        .figure("page_cache_fdatasync_us_p50", cached_sync.micros(0.5))
        .figure("fdatasyncs_per_s", syncs.per_second(Duration::from_secs(1))?)
        .figure("loopback_us_p50", round_trip.micros(0.5))
        .figure("ping_8k_us_p50", ping.micros(0.5))
        .figure("hashmap_ns", lookup_ns)
        .count("hashmap_keys", KEYS);
    Ok(line)
}
