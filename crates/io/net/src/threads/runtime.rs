//! The threads of a process.

use crate::host::core::Core;
use crate::host::link::{Filter, Link};
use crate::threads::adaptive_spin::AdaptiveSpin;
use crate::threads::reactor::Reactor;
use crate::threads::serving::Serving;
use crate::transport::socket::Socket;
use framing::Codec;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};
use tokio::runtime::Handle;

/// The threads that the work of one or several hosts is done on: our own, those that wait for sockets and one that
/// accepts, connects and keeps the time, which end with the last clone; or those of the application's runtime.
#[derive(Clone, Debug)]
pub struct Runtime {
    tasks: Handle,
    /// Our own threads.
    threads: Option<Arc<Threads>>,
}

#[derive(Debug)]
struct Threads {
    reactor: Arc<Reactor>,
    tasks: Option<tokio::runtime::Runtime>,
}

impl Runtime {
    /// Starts threads, for a process that shares the machine with those that it talks to: one that waits for sockets
    /// for every two cores.
    pub fn start() -> io::Result<Self> {
        Self::with(readers_of_a_process()?, None)
    }

    /// The same with one thread that waits for sockets, for what is not to wait for anything else of its process. It is
    /// for work that is short for each message.
    pub fn start_apart() -> io::Result<Self> {
        Self::with(1, None)
    }

    /// The same for a process that hands on what others send to each other, and does nothing else. Each of them waits
    /// for it twice, on the way there and on the way back; so a thread that has nothing to do spins for a while before
    /// it sleeps (`docs/decisions/0009-who-reads-a-socket.md`).
    pub fn start_relay() -> io::Result<Self> {
        Self::with(readers_of_a_process()?, Some(AdaptiveSpin::new()))
    }

    fn with(readers: usize, spin: Option<AdaptiveSpin>) -> io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let tasks = builder.worker_threads(1).thread_name("thorp-task").enable_io().enable_time().build()?;
        let (handle, reactor) = (tasks.handle().clone(), Reactor::start(readers, spin)?);
        Ok(Self { tasks: handle, threads: Some(Arc::new(Threads { reactor, tasks: Some(tasks) })) })
    }

    /// The runtime of tokio that the caller is a task of, if it is one, with its drivers of time and sockets. An answer
    /// that an application waits for is then received by the thread that waits for it, which nobody has to wake.
    ///
    /// It is for hosts of clients: the flushes of a store are not for an application's threads. And not for members of
    /// a group: peers are helped by the thread that receives, which here is one that the application computes on.
    /// They need threads of their own, [`Runtime::start`].
    pub fn current() -> Option<Self> {
        Some(Self { tasks: Handle::try_current().ok()?, threads: None })
    }

    /// The reactor, if threads of our own wait for sockets.
    pub(crate) fn reactor(&self) -> Option<&Arc<Reactor>> {
        self.threads.as_ref().map(|threads| &threads.reactor)
    }

    /// Where tasks run.
    pub(crate) fn tasks(&self) -> &Handle {
        &self.tasks
    }

    /// Makes a connected stream a host's link, at this end of a family. Its connection ends by itself when the machine
    /// at the other end is silent for this long, where that is given.
    pub(crate) fn open(
        &self,
        core: &Core,
        id: machine::Link,
        codec: &'static dyn Codec,
        stream: impl Into<socket2::Socket>,
        filter: Arc<dyn Filter>,
        silence: Option<Duration>,
    ) -> io::Result<Serving> {
        let reactor = self.reactor();
        let socket = Socket::new(stream.into(), reactor.map(|reactor| reactor.poller()), codec.is_ordered())?;
        silence.map_or(Ok(()), |silence| socket.give_up_after(silence))?;
        Ok(Serving::new(Link::new(core, id, codec, socket, filter, silence), reactor.cloned()))
    }

    /// Waits for `future` on this thread.
    ///
    /// # Panics
    /// On a thread that runs asynchronous tasks: it must not wait.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.tasks.block_on(future)
    }
}

/// One for every two cores: the others are for those that the process talks to.
fn readers_of_a_process() -> io::Result<usize> {
    Ok(thread::available_parallelism()?.get().div_ceil(2))
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.reactor.stop();
        // The last clone may go in one of our own tasks, which must not wait for itself.
        if let Some(tasks) = self.tasks.take() {
            tasks.shutdown_background();
        }
    }
}
