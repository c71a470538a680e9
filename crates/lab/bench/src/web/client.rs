//! A client with many connections: each asks for the next path as soon as it has its answer.

use super::cores::Cores;
use crate::{Result, Sample};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'a> {
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) cores: &'a Cores,
    /// The bytes that each body has.
    pub(crate) body_bytes: usize,
}

/// How it fared in one turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    latencies: Sample,
    elapsed: Duration,
    /// Of its threads.
    processor: Duration,
    threads: usize,
}

impl Turn {
    pub(crate) fn hits_per_s(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.latencies.millis(0.5)
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.latencies.millis(0.99)
    }

    /// The share of its processors' time that it has taken itself.
    pub(crate) fn busy(&self) -> f64 {
        self.processor.as_secs_f64() / self.elapsed.as_secs_f64() / self.threads as f64
    }
}

/// When a client ends.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// After so long.
    Elapsed(Duration),
    /// After each connection has asked so often.
    Asked(usize),
}

impl Client<'_> {
    /// Asks for each path once.
    pub(crate) fn fill(&self, server: SocketAddr, paths: &[String]) -> Result<()> {
        self.run(server, paths, Until::Asked(paths.len().div_ceil(self.connections))).map(drop)
    }

    /// Asks for this long.
    pub(crate) fn turn(&self, server: SocketAddr, paths: &[String], during: Duration) -> Result<Turn> {
        self.run(server, paths, Until::Elapsed(during))
    }

    fn run(&self, server: SocketAddr, paths: &[String], until: Until) -> Result<Turn> {
        let requests: Vec<Vec<u8>> = paths
            .iter()
            .map(|path| format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n").into_bytes())
            .collect();
        let each = self.connections.div_ceil(self.threads);
        let crowd = |thread: usize| Crowd {
            // Paths are spread over the connections, and each goes round.
            requests: &requests,
            step: self.connections,
            first: thread * each,
            connections: each.min(self.connections - thread * each),
            body_bytes: self.body_bytes,
        };
        let turns: Vec<Result<Turn>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let crowd = crowd(thread);
                    scope.spawn(move || {
                        self.cores.stay_with_clients()?;
                        crowd.run(server, until)
                    })
                })
                .collect();
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|turn| turn.unwrap_or_else(|_| Err("a thread of the client panicked".into()))).collect()
        });
        let mut whole = Turn { threads: self.threads, ..Turn::default() };
        for turn in turns {
            let turn = turn?;
            whole.latencies.extend(&turn.latencies);
            whole.processor += turn.processor;
            whole.elapsed = whole.elapsed.max(turn.elapsed);
        }
        Ok(whole)
    }
}

/// The connections of one thread.
#[derive(Debug)]
struct Crowd<'a> {
    requests: &'a [Vec<u8>],
    step: usize,
    first: usize,
    connections: usize,
    body_bytes: usize,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// The request that it has sent last, and when.
    request: usize,
    sent: Instant,
    asked: usize,
    /// The bytes of the answer that are still to come, when its head is there.
    left: Option<usize>,
    head: Vec<u8>,
}

/// A server that does not answer for this long is stuck.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

impl Crowd<'_> {
    fn run(&self, server: SocketAddr, until: Until) -> Result<Turn> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections =
            (0..self.connections).map(|index| self.connect(server, index, &poll)).collect::<Result<Vec<_>>>()?;
        let mut turn = Turn::default();
        let (begun, processor) = (Instant::now(), processor_time());
        for connection in &mut connections {
            self.ask(connection)?;
        }
        let (mut buffer, mut events) = (vec![0; 64 * 1024], Vec::with_capacity(self.connections));
        let mut open = connections.len();
        while open > 0 {
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&PATIENCE))?;
            if events.is_empty() {
                return Err(format!("{server} has not answered for {} s", PATIENCE.tv_sec).into());
            }
            for event in events.drain(..) {
                let connection = &mut connections[event.data.u64() as usize];
                if !self.hear(connection, &mut buffer)? {
                    continue;
                }
                turn.latencies.push(connection.sent.elapsed());
                let goes_on = match until {
                    Until::Elapsed(during) => begun.elapsed() < during,
                    Until::Asked(count) => connection.asked < count,
                };
                if goes_on { self.ask(connection)? } else { open -= 1 }
            }
        }
        turn.elapsed = begun.elapsed();
        turn.processor = processor_time().saturating_sub(processor);
        Ok(turn)
    }

    fn connect(&self, server: SocketAddr, index: usize, poll: &OwnedFd) -> Result<Connection> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(poll, &stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        let request = (self.first + index) % self.requests.len();
        Ok(Connection { stream, request, sent: Instant::now(), asked: 0, left: None, head: Vec::new() })
    }

    /// Sends the next request. It is small, and nothing else is on its way: it goes out as one.
    fn ask(&self, connection: &mut Connection) -> Result<()> {
        let Connection { stream, request, sent, asked, .. } = connection;
        *sent = Instant::now();
        if stream.write(&self.requests[*request])? != self.requests[*request].len() {
            return Err("a request did not go out as one".into());
        }
        *request = (*request + self.step) % self.requests.len();
        *asked += 1;
        Ok(())
    }

    /// Reads what is there. Returns whether it is the end of an answer.
    fn hear(&self, connection: &mut Connection, buffer: &mut [u8]) -> Result<bool> {
        let count = match connection.stream.read(buffer) {
            Ok(0) => return Err("the server has closed a connection".into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let left = if let Some(left) = connection.left {
            left.checked_sub(count)
        } else {
            connection.head.extend_from_slice(&buffer[..count]);
            let Some(end) = connection.head.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                return Ok(false);
            };
            let body = connection.head.len() - end - 4;
            self.check(&connection.head[..end])?;
            connection.head.clear();
            self.body_bytes.checked_sub(body)
        };
        let left = left.ok_or("the server has sent more than an answer")?;
        connection.left = (left > 0).then_some(left);
        Ok(left == 0)
    }

    /// A hit says the length of its body.
    fn check(&self, head: &[u8]) -> Result<()> {
        let head = std::str::from_utf8(head)?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        if head.starts_with("HTTP/1.1 200") && length == Some(self.body_bytes) {
            return Ok(());
        }
        Err(format!("the server has answered `{}`", head.lines().next().unwrap_or_default()).into())
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
