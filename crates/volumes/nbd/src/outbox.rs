//! Replies on their way out: heads in one buffer, payloads where they are, one system call for many.
//!
//! ```text
//!   put ---> filling ---a thread takes all of it---> leaving --all is written--> released
//!                                                     |   ^
//!                                      the socket is full |
//!                                                     v   |
//!                                                    stuck: left to the next call, or to the attendant
//! ```
//! One thread writes at a time, and takes along what others add in the meantime. These leave their replies to it, so it
//! also releases them when the connection breaks. A thread that has more to do than this connection, as one that
//! answers for the flush of several, never waits for a client: what the socket does not take it leaves to the
//! attendant, a thread that is started when that happens first. A thread that will call again leaves it to that call.

use super::limits::{SEND_AFTER, SEND_BYTES};
use bytes::Bytes;
use rustix::io::Errno as SystemError;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use smallvec::SmallVec;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Slices of one system call; Linux takes no more.
const SLICES_MAX: usize = 1024;

/// Slices of most calls.
const SLICES: usize = 64;

/// Zeros are sent from here.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Replies that have not left.
#[derive(Debug, Default)]
pub(super) struct Pending {
    heads: Vec<u8>,
    parts: Vec<Part>,
    bytes: usize,
    requests: Load,
    /// When the first of them was added.
    since: Option<Instant>,
    /// How much has left: heads, whole parts, and of the first part that has not.
    head_at: usize,
    part_at: usize,
    in_part: usize,
}

#[derive(Debug)]
enum Part {
    Head(usize),
    Data(Bytes),
    Zeros(usize),
}

/// Requests, and the bytes of their payloads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

impl Pending {
    /// Adds a few bytes.
    pub(super) fn head(&mut self, bytes: &[u8]) {
        self.heads.extend_from_slice(bytes);
        self.bytes += bytes.len();
        match self.parts.last_mut() {
            Some(Part::Head(len)) => *len += bytes.len(),
            _ => self.parts.push(Part::Head(bytes.len())),
        }
    }

    /// Adds a payload.
    pub(super) fn data(&mut self, data: Bytes) {
        self.bytes += data.len();
        self.parts.push(Part::Data(data));
    }

    /// Adds zeros.
    pub(super) fn zeros(&mut self, len: u32) {
        self.bytes += len as usize;
        self.parts.push(Part::Zeros(len as usize));
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn clear(&mut self) {
        self.heads.clear();
        self.parts.clear();
        *self =
            Self { heads: std::mem::take(&mut self.heads), parts: std::mem::take(&mut self.parts), ..Self::default() };
    }

    /// The bytes that have not left, as the next call takes them.
    fn slices(&self) -> SmallVec<[IoSlice<'_>; SLICES]> {
        let mut slices = SmallVec::new();
        let (mut head_at, mut skip) = (self.head_at, self.in_part);
        for part in &self.parts[self.part_at..] {
            if slices.len() == SLICES_MAX {
                break;
            }
            match part {
                Part::Head(len) => {
                    slices.push(IoSlice::new(&self.heads[head_at..][..*len][skip..]));
                    head_at += len;
                }
                Part::Data(data) => slices.push(IoSlice::new(&data[skip..])),
                Part::Zeros(len) => {
                    let mut left = len - skip;
                    while left > 0 && slices.len() < SLICES_MAX {
                        slices.push(IoSlice::new(&ZEROS[..left.min(ZEROS.len())]));
                        left -= left.min(ZEROS.len());
                    }
                    if left > 0 {
                        break;
                    }
                }
            }
            skip = 0;
        }
        slices
    }

    /// Takes note that so much has left. Returns whether that is all.
    fn advance(&mut self, mut written: usize) -> bool {
        while let Some(part) = self.parts.get(self.part_at) {
            let len = match part {
                Part::Head(len) | Part::Zeros(len) => *len,
                Part::Data(data) => data.len(),
            };
            if self.in_part + written < len {
                self.in_part += written;
                return false;
            }
            written -= len - self.in_part;
            if let Part::Head(len) = part {
                self.head_at += len;
            }
            (self.part_at, self.in_part) = (self.part_at + 1, 0);
        }
        true
    }

    /// Writes until all has left, or until the socket is full if that is not to be waited out.
    fn write(&mut self, socket: BorrowedFd<'_>, full: Full) -> Written {
        let waits = full == Full::Wait;
        let flags = if waits { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
        loop {
            let sent = sendmsg(socket, &self.slices(), &mut SendAncillaryBuffer::default(), flags);
            match sent {
                Ok(sent) if self.advance(sent) => return Written::All,
                Ok(_) | Err(SystemError::INTR) => {}
                Err(SystemError::AGAIN) if !waits => return Written::Full,
                Err(_) => return Written::Broken,
            }
        }
    }
}

/// How a full socket is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// By waiting until the client takes something.
    Wait,
    /// By leaving the rest to the attendant.
    Leave,
    /// By leaving the rest to the next call, which this thread is about to make.
    Later,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    Full,
    Broken,
}

/// The outcome of a call for replies to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// They have left, or another thread sees to it.
    Yes,
    /// The socket is full, for the first time: somebody has to call [`Outbox::attend`].
    NeedsAttendant,
    /// Nothing leaves any more.
    Broken,
}

/// The replies of a connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// Told when replies are stuck, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    filling: Pending,
    /// A buffer that has been written, for the next.
    spare: Pending,
    leaving: Leaving,
    has_attendant: bool,
    /// A write has failed, maybe in the middle of a reply, so no more may follow.
    is_broken: bool,
    is_ended: bool,
}

/// The replies before those that are being added.
#[derive(Debug, Default)]
enum Leaving {
    /// All of them have left.
    #[default]
    None,
    /// A thread writes them.
    Written,
    /// The socket was full, and the thread that found it so will call again.
    Left(Pending),
    /// The socket was full, and they are the attendant's.
    Stuck(Pending),
}

impl State {
    /// Takes what should leave next, unless another thread sees to it.
    fn take(&mut self) -> Option<Pending> {
        match std::mem::take(&mut self.leaving) {
            Leaving::None if self.filling.is_empty() => None,
            Leaving::None => {
                self.leaving = Leaving::Written;
                let spare = std::mem::take(&mut self.spare);
                Some(std::mem::replace(&mut self.filling, spare))
            }
            Leaving::Left(pending) => {
                self.leaving = Leaving::Written;
                Some(pending)
            }
            others => {
                self.leaving = others;
                None
            }
        }
    }

    /// Takes what the socket has not.
    fn take_stuck(&mut self) -> Option<Pending> {
        match std::mem::replace(&mut self.leaving, Leaving::Written) {
            Leaving::Stuck(pending) => Some(pending),
            others => {
                self.leaving = others;
                None
            }
        }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reply, as `put` writes it, to a request of this many bytes. Returns whether the replies should leave
    /// before there are more: they are many, or the first has waited so long that another call costs less than that.
    pub(super) fn add(&self, request_bytes: usize, put: impl FnOnce(&mut Pending)) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        let filling = &mut state.filling;
        filling.requests.requests += 1;
        filling.requests.bytes += request_bytes;
        put(filling);
        let since = *filling.since.get_or_insert(now);
        filling.bytes >= SEND_BYTES || now.saturating_duration_since(since) >= SEND_AFTER
    }

    /// Writes the replies that were added, and passes their requests to `release` as they have left. Replies to a
    /// broken connection are released unwritten.
    pub(super) fn send(&self, socket: BorrowedFd<'_>, full: Full, release: impl Fn(Load)) -> Sent {
        let mut sent = Sent::Yes;
        loop {
            let (next, is_broken) = {
                let mut state = self.lock();
                (state.take(), state.is_broken)
            };
            let Some(mut leaving) = next else { return sent };
            let written = if is_broken { Written::Broken } else { leaving.write(socket, full) };
            match written {
                Written::All => {}
                Written::Full => return self.stuck(leaving, full),
                Written::Broken => sent = Sent::Broken,
            }
            self.written(leaving, written, &release);
        }
    }

    /// Ends the writing, and releases the requests of all replies that have not left.
    pub(super) fn break_off(&self, socket: BorrowedFd<'_>, release: impl Fn(Load)) {
        let stuck = {
            let mut state = self.lock();
            state.is_broken = true;
            state.take_stuck()
        };
        if let Some(stuck) = stuck {
            self.written(stuck, Written::Broken, &release);
        }
        self.send(socket, Full::Leave, release);
    }

    fn stuck(&self, leaving: Pending, full: Full) -> Sent {
        let mut state = self.lock();
        if full == Full::Later {
            state.leaving = Leaving::Left(leaving);
            return Sent::Yes;
        }
        state.leaving = Leaving::Stuck(leaving);
        self.changed.notify_all();
        if std::mem::replace(&mut state.has_attendant, true) { Sent::Yes } else { Sent::NeedsAttendant }
    }

    fn written(&self, mut leaving: Pending, written: Written, release: &impl Fn(Load)) {
        let load = leaving.requests;
        leaving.clear();
        let mut state = self.lock();
        state.spare = leaving;
        state.leaving = Leaving::None;
        state.is_broken |= written == Written::Broken;
        drop(state);
        release(load);
    }

    /// Waits out full sockets, until the end.
    pub(super) fn attend(&self, socket: BorrowedFd<'_>, release: impl Fn(Load)) -> Sent {
        loop {
            let is_idle = |state: &mut State| !matches!(state.leaving, Leaving::Stuck(_)) && !state.is_ended;
            let mut state = self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
            let stuck = state.take_stuck();
            drop(state);
            let Some(mut stuck) = stuck else { return Sent::Yes };
            let written = stuck.write(socket, Full::Wait);
            self.written(stuck, written, &release);
            let sent = self.send(socket, Full::Wait, &release);
            if written == Written::Broken || sent == Sent::Broken {
                return Sent::Broken;
            }
        }
    }

    /// Ends the thread that waits.
    pub(super) fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    /// More than a socket takes at a time.
    const LARGE: u32 = 8 << 20;

    /// The requests that were released.
    #[derive(Default)]
    struct Released(AtomicUsize);

    impl Released {
        fn add(&self, load: Load) {
            self.0.fetch_add(load.requests, SeqCst);
        }
    }

    /// More than a socket holds before it is read, and less than [`LARGE`].
    const BEGUN: usize = 1 << 20;

    /// Adds a large reply, calls `begin`, has `write` send the reply in another thread, and hangs up in the middle,
    /// after more replies were added.
    #[track_caller]
    fn hang_up_while(
        begin: impl FnOnce(&Outbox, BorrowedFd<'_>, &Released),
        write: impl Fn(&Outbox, BorrowedFd<'_>, &Released) + Sync,
    ) {
        let (outbox, released) = (Outbox::default(), Released::default());
        let (server, mut client) = UnixStream::pair().unwrap();
        outbox.add(0, |to| to.zeros(LARGE));
        begin(&outbox, server.as_fd(), &released);
        thread::scope(|scope| {
            scope.spawn(|| write(&outbox, server.as_fd(), &released));
            // So much has come that the other thread writes.
            client.read_exact(&mut vec![0; BEGUN]).unwrap();
            for _ in 0..3 {
                outbox.add(0, |to| to.head(b"small"));
                assert_eq!(outbox.send(server.as_fd(), Full::Leave, |load| released.add(load)), Sent::Yes);
            }
            assert_eq!(released.0.load(SeqCst), 0, "all of it is behind the large reply");
            drop(client);
        });
        assert_eq!(released.0.load(SeqCst), 4, "nobody else will release the replies that were added in the meantime");
        outbox.add(0, |to| to.head(b"late"));
        assert_eq!(outbox.send(server.as_fd(), Full::Leave, |load| released.add(load)), Sent::Broken);
        assert_eq!(released.0.load(SeqCst), 5);
    }

    #[test]
    fn the_thread_that_writes_releases_what_others_added_before_the_connection_broke() {
        let begin = |_: &Outbox, _: BorrowedFd<'_>, _: &Released| {};
        hang_up_while(begin, |outbox, socket, released| {
            assert_eq!(outbox.send(socket, Full::Wait, |load| released.add(load)), Sent::Broken);
        });
    }

    #[test]
    fn the_attendant_releases_what_others_added_before_the_connection_broke() {
        let begin = |outbox: &Outbox, socket: BorrowedFd<'_>, released: &Released| {
            assert_eq!(outbox.send(socket, Full::Leave, |load| released.add(load)), Sent::NeedsAttendant);
        };
        hang_up_while(begin, |outbox, socket, released| {
            assert_eq!(outbox.attend(socket, |load| released.add(load)), Sent::Broken);
        });
    }

    /// The system may have no thread for an attendant.
    #[test]
    fn an_outbox_that_is_broken_off_keeps_no_request() {
        let (outbox, released) = (Outbox::default(), Released::default());
        let (server, _client) = UnixStream::pair().unwrap();
        let send = |full| outbox.send(server.as_fd(), full, |load| released.add(load));
        outbox.add(0, |to| to.zeros(LARGE));
        assert_eq!(send(Full::Leave), Sent::NeedsAttendant);
        outbox.add(0, |to| to.head(b"small"));
        outbox.break_off(server.as_fd(), |load| released.add(load));
        assert_eq!(released.0.load(SeqCst), 2);
        outbox.add(0, |to| to.head(b"late"));
        assert_eq!((send(Full::Later), released.0.load(SeqCst)), (Sent::Broken, 3));
    }

    /// However a socket cuts what it takes, all of it leaves in order.
    #[test]
    fn a_write_goes_on_where_the_last_one_ended() {
        for step in [1, 3, 7, 4096, 70_000] {
            let mut pending = Pending::default();
            pending.head(b"one");
            pending.head(b"two");
            pending.data(Bytes::from_static(b"payload"));
            pending.zeros(65_540);
            pending.head(b"end");
            let (mut sent, mut is_all) = (Vec::new(), false);
            while !is_all {
                let before = sent.len();
                sent.extend(pending.slices().iter().flat_map(|slice| slice.iter().copied()).take(step));
                is_all = pending.advance(sent.len() - before);
            }
            let expected = [&b"onetwopayload"[..], &vec![0; 65_540], b"end"].concat();
            assert!(sent == expected, "in steps of {step}");
        }
    }
}
