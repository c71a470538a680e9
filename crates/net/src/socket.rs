//! A connected socket, and what is to be told of it.

use crate::reactor::Reactor;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use socket2::SockRef;
use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// What the system takes beyond what is on the line already, in bytes. It would take megabytes, and what is urgent would
/// wait behind them.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A connected socket. Nothing that it does waits.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    watcher: Watcher,
    interest: Mutex<Interest>,
}

/// Who waits for the socket.
#[derive(Debug)]
enum Watcher {
    /// A reactor, which has given it this number.
    Reactor(Arc<Reactor>, u64),
    /// A task, which hears by this that somebody waits for room.
    Task(Notify),
}

#[derive(Debug, Default)]
struct Interest {
    /// A thread of the application's reads: the reactor's need not be woken.
    lent: bool,
    /// Somebody wants to write, and the socket was full.
    full: bool,
}

impl Socket {
    /// Takes a connected stream, to be watched by a reactor, or by a task if there is none.
    pub(crate) fn new(stream: TcpStream, reactor: Option<&Arc<Reactor>>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        let watcher = match reactor {
            Some(reactor) => Watcher::Reactor(Arc::clone(reactor), reactor.next_id()),
            None => Watcher::Task(Notify::new()),
        };
        Ok(Self { stream, watcher, interest: Mutex::default() })
    }

    /// Has the connection end by itself when the machine at its other end does not answer for so long, whether anything
    /// is being sent or not.
    pub(crate) fn give_up_after(&self, silence: Duration) -> io::Result<()> {
        let probe = (silence / 3).max(Duration::from_secs(1));
        sockopt::set_tcp_keepidle(&self.stream, probe)?;
        sockopt::set_tcp_keepintvl(&self.stream, probe)?;
        sockopt::set_tcp_user_timeout(&self.stream, silence.as_millis() as u32)?;
        Ok(sockopt::set_socket_keepalive(&self.stream, true)?)
    }

    /// The address of this end.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// The reactor that watches it, and its number there.
    pub(crate) fn reactor(&self) -> Option<(&Arc<Reactor>, u64)> {
        match &self.watcher {
            Watcher::Reactor(reactor, id) => Some((reactor, *id)),
            Watcher::Task(_) => None,
        }
    }

    /// Waits until somebody waits for room: for the task that watches the socket.
    pub(crate) async fn is_full(&self) {
        match &self.watcher {
            Watcher::Reactor(..) => std::future::pending().await,
            Watcher::Task(full) => {
                while !self.lock().full {
                    full.notified().await;
                }
            }
        }
    }

    /// Receives what has arrived, as far as it fits.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.stream, buffer, RecvFlags::empty())?.1)
    }

    /// The same into what `body` has room for behind its end.
    pub(crate) fn read_behind(&self, body: &mut Vec<u8>) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.stream, spare_capacity(body), RecvFlags::empty())?.1)
    }

    /// Sends as much of the slices as the socket takes.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            // Most messages are one: the system finds the way to the socket faster with this call.
            [slice] => Ok(rustix::net::send(&self.stream, slice, SendFlags::NOSIGNAL)?),
            slices => (&self.stream).write_vectored(slices),
        }
    }

    /// Nothing more will be sent.
    pub(crate) fn end_sending(&self) {
        // An error means that the connection has ended as a whole.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Another handle to the same connection.
    pub(crate) fn try_clone(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Has `add` called with what a reactor is to tell from now on; nothing changes that meanwhile.
    pub(crate) fn watched<T>(&self, add: impl FnOnce(EventFlags) -> T) -> T {
        let interest = self.lock();
        add(interest.flags())
    }

    /// The socket is full: the link is to be told when it is not.
    pub(crate) fn await_room(&self) {
        self.want(|interest| interest.full = true);
    }

    /// There is room.
    pub(crate) fn has_room(&self) {
        // Not told to the reactor: it tells of room once only, and it is asked anew when the socket is full again.
        self.lock().full = false;
    }

    /// The reactor leaves the reading to the caller, until told otherwise.
    pub(crate) fn lend(&self, lent: bool) {
        self.want(|interest| interest.lent = lent);
    }

    /// Has the reactor tell again of what has not been read.
    pub(crate) fn tell_again(&self) {
        self.want(|_| {});
    }

    fn want(&self, change: impl FnOnce(&mut Interest)) {
        let mut interest = self.lock();
        change(&mut interest);
        match &self.watcher {
            Watcher::Reactor(reactor, id) => reactor.change(*id, &self.stream, interest.flags()),
            Watcher::Task(full) if interest.full => full.notify_one(),
            // It looks itself whether anything was left.
            Watcher::Task(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Interest> {
        self.interest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interest {
    fn flags(&self) -> EventFlags {
        let reading = if self.lent { EventFlags::empty() } else { EventFlags::IN | EventFlags::RDHUP };
        let writing = if self.full { EventFlags::OUT } else { EventFlags::empty() };
        EventFlags::ET | reading | writing
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
