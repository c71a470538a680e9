//! A connected socket, and what its reactor is to tell of it.

use crate::reactor::Reactor;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A connected socket. Nothing that it does waits.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    id: u64,
    reactor: Arc<Reactor>,
    interest: Mutex<Interest>,
}

#[derive(Debug, Default)]
struct Interest {
    /// A thread of the application's reads: the reactor's need not be woken.
    lent: bool,
    /// Somebody wants to write, and the socket was full.
    full: bool,
}

impl Socket {
    /// Takes a connected stream.
    pub(crate) fn new(stream: TcpStream, reactor: &Arc<Reactor>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, id: reactor.next_id(), reactor: Arc::clone(reactor), interest: Mutex::default() })
    }

    /// Its number at the reactor.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn reactor(&self) -> &Arc<Reactor> {
        &self.reactor
    }

    /// Receives what has arrived, as far as it fits.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.stream).read(buffer)
    }

    /// The same into what `body` has room for behind its end.
    pub(crate) fn read_behind(&self, body: &mut Vec<u8>) -> io::Result<usize> {
        Ok(rustix::io::read(&self.stream, spare_capacity(body))?)
    }

    /// Sends as much of the slices as the socket takes.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.stream).write_vectored(slices)
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

    /// What the reactor is to tell now.
    pub(crate) fn interest(&self) -> EventFlags {
        self.lock().flags()
    }

    /// The socket is full: the reactor is to tell when it is not.
    pub(crate) fn await_room(&self) {
        self.want(|interest| interest.full = true);
    }

    /// The reactor has told that there is room.
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
        self.reactor.change(self.id, &self.stream, interest.flags());
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
