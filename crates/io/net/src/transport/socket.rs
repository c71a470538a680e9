//! A connected socket, and what should be notified of it.

use crate::lock::{Lock, Rank};
use crate::transport::poller::{Interest, Poller, SocketId};
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use socket2::Domain;
use std::io::{self, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The bytes that the system takes beyond those on the line already. It would take megabytes, and what may pass others
/// would wait behind them. Where nothing does it should take them: to hear from it of each little room costs more than
/// the room.
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// A connected socket, of TCP or to a process of this machine. Nothing that it does waits.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: socket2::Socket,
    watcher: Watcher,
    wanted: Lock<Wanted>,
}

/// The one that waits for the socket.
#[derive(Debug)]
enum Watcher {
    /// A poller, which has given it this number.
    Poller(Arc<Poller>, SocketId),
    /// A task, which hears by this that somebody waits for room.
    Task(Notify),
}

/// The state of the socket, as far as its watcher is concerned.
#[derive(Debug, Default)]
struct Wanted {
    /// A caller reads by itself: nobody else should be told what arrives.
    lent: bool,
    /// Somebody wants to write, and the socket was full.
    full: bool,
}

impl Socket {
    /// Takes a connected stream, to be watched by a poller, or by a task if there is none. `is_ordered` says that
    /// nothing which is sent is to pass anything.
    pub(crate) fn new(stream: socket2::Socket, poller: Option<&Arc<Poller>>, is_ordered: bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        if stream.domain()? != Domain::UNIX {
            stream.set_tcp_nodelay(true)?;
            if !is_ordered {
                stream.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
            }
        }
        let watcher = match poller {
            Some(poller) => Watcher::Poller(Arc::clone(poller), poller.next_id()),
            None => Watcher::Task(Notify::new()),
        };
        Ok(Self { stream, watcher, wanted: Lock::new(Rank::Interest, Wanted::default()) })
    }

    /// Has the connection end by itself when the machine at its other end does not answer for this long, whether
    /// anything is being sent or not.
    pub(crate) fn give_up_after(&self, silence: Duration) -> io::Result<()> {
        let probe = (silence / 3).max(Duration::from_secs(1));
        sockopt::set_tcp_keepidle(&self.stream, probe)?;
        sockopt::set_tcp_keepintvl(&self.stream, probe)?;
        sockopt::set_tcp_user_timeout(&self.stream, silence.as_millis() as u32)?;
        Ok(sockopt::set_socket_keepalive(&self.stream, true)?)
    }

    /// The address of this end.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        // A socket of this machine has none.
        self.stream.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Its number at the poller that watches it.
    pub(crate) fn id(&self) -> Option<SocketId> {
        match &self.watcher {
            Watcher::Poller(_, id) => Some(*id),
            Watcher::Task(_) => None,
        }
    }

    /// Waits until somebody waits for room: for the task that watches the socket.
    pub(crate) async fn is_full(&self) {
        match &self.watcher {
            Watcher::Poller(..) => std::future::pending().await,
            Watcher::Task(full) => {
                while !self.wanted.lock().full {
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
    pub(crate) fn try_clone(&self) -> io::Result<socket2::Socket> {
        self.stream.try_clone()
    }

    /// Has the poller report the socket from now on.
    pub(crate) fn watch(&self) -> io::Result<()> {
        // A sender may find the socket full before it is watched, and ask for room: that is either in what the poller
        // is given here, or changes it.
        let wanted = self.wanted.lock();
        match &self.watcher {
            Watcher::Poller(poller, id) => poller.add(*id, &self.stream, wanted.interest()),
            Watcher::Task(_) => Ok(()),
        }
    }

    /// The end of [`Socket::watch`].
    pub(crate) fn forget(&self) {
        if let Watcher::Poller(poller, _) = &self.watcher {
            poller.remove(&self.stream);
        }
    }

    /// The socket is full: the poller should tell when it is not.
    pub(crate) fn await_room(&self) {
        self.want(|wanted| wanted.full = true);
    }

    /// There is room.
    pub(crate) fn has_room(&self) {
        // The poller is not told: it reports room once only, and is asked again when the socket is full again.
        self.wanted.lock().full = false;
    }

    /// The poller leaves the reading to the caller, until told otherwise.
    pub(crate) fn lend(&self, lent: bool) {
        self.want(|wanted| wanted.lent = lent);
    }

    /// Has the poller tell again of what has not been read.
    pub(crate) fn tell_again(&self) {
        self.want(|_| {});
    }

    fn want(&self, change: impl FnOnce(&mut Wanted)) {
        let mut wanted = self.wanted.lock();
        change(&mut wanted);
        match &self.watcher {
            Watcher::Poller(poller, id) => poller.change(*id, &self.stream, wanted.interest()),
            Watcher::Task(full) if wanted.full => full.notify_one(),
            // The task looks itself whether anything was left.
            Watcher::Task(_) => {}
        }
    }
}

impl Wanted {
    fn interest(&self) -> Interest {
        Interest { reading: !self.lent, writing: self.full }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
