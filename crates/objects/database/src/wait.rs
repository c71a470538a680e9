//! How operations wait: in place, or as futures. Each operation is written once, as a future; [`Blocking`] runs it on
//! the spot, [`Async`] hands it to the caller.

use machine::Driver;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// How the operations of a transaction wait. [`Blocking`] and [`Async`] are the two that there are.
pub trait Mode: sealed::Sealed {
    /// The result of an operation: the future's, or the future.
    type Out<F: Future>;

    #[doc(hidden)]
    fn run<F: Future>(operation: F) -> Self::Out<F>;

    /// The future of an operation's result, for operations that are made of others in whatever mode.
    #[doc(hidden)]
    fn done<F: Future>(out: Self::Out<F>) -> impl Future<Output = F::Output>;

    /// Runs an operation that often needs no waiting: `try_now` gives its result, or gives `of` back.
    #[doc(hidden)]
    fn run_or_wait<C, F: Future>(
        of: C,
        try_now: impl FnOnce(C) -> Result<F::Output, C>,
        operation: impl FnOnce(C) -> F,
    ) -> Self::Out<F>;
}

/// Operations return when they are done; the thread waits where one has to fetch a page.
#[derive(Clone, Copy, Debug)]
pub struct Blocking;

/// Operations are futures, to be awaited on any executor.
#[derive(Clone, Copy, Debug)]
pub struct Async;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Blocking {}
    impl Sealed for super::Async {}
}

impl Mode for Blocking {
    type Out<F: Future> = F::Output;

    #[inline]
    fn run<F: Future>(operation: F) -> F::Output {
        block_on(operation)
    }

    #[inline]
    fn done<F: Future>(out: F::Output) -> impl Future<Output = F::Output> {
        std::future::ready(out)
    }

    /// A result that comes out of a future is moved from place to place in other steps than it was written in. The
    /// processor sees through that only when the value has come from memory, and so does not begin the next read
    /// before; a result that is returned it need not wait for.
    #[inline]
    fn run_or_wait<C, F: Future>(
        of: C,
        try_now: impl FnOnce(C) -> Result<F::Output, C>,
        operation: impl FnOnce(C) -> F,
    ) -> F::Output {
        match try_now(of) {
            Ok(output) => output,
            Err(of) => wait_on(operation(of)),
        }
    }
}

impl Mode for Async {
    type Out<F: Future> = F;

    #[inline]
    fn run<F: Future>(operation: F) -> F {
        operation
    }

    #[inline]
    fn done<F: Future>(out: F) -> impl Future<Output = F::Output> {
        out
    }

    #[inline]
    fn run_or_wait<C, F: Future>(
        of: C,
        _: impl FnOnce(C) -> Result<F::Output, C>,
        operation: impl FnOnce(C) -> F,
    ) -> F {
        operation(of)
    }
}

/// Runs a future on this thread. An operation that hits the cache is done at the first poll.
#[inline]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match HERE.try_with(|here| here.run(future.as_mut())) {
        Ok(output) => output,
        // The thread is ending, and drops what it kept to itself.
        Err(_) => Here::new().run(future),
    }
}

/// [`block_on`] where it is the exception.
#[cold]
#[inline(never)]
fn wait_on<F: Future>(future: F) -> F::Output {
    block_on(future)
}

thread_local! {
    static HERE: Here = Here::new();
}

/// This thread, as one that waits. There is one waker for everything that it waits for: a wake that comes while an
/// operation asks again is not lost with an earlier waker.
struct Here {
    parked: Arc<Parked>,
    waker: Waker,
    /// How many futures wait on this thread, each inside of the one before.
    waiting: Cell<u32>,
    /// The driver whose work this thread may do while the operation waits that was polled last.
    driver: Cell<Option<Arc<dyn Driver>>>,
}

/// The thread's own token is not enough: whatever else waits on this thread may take it.
struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Here {
    fn new() -> Self {
        let parked = Arc::new(Parked { thread: std::thread::current(), woken: AtomicBool::new(false) });
        Self { waker: Waker::from(parked.clone()), parked, waiting: Cell::new(0), driver: Cell::new(None) }
    }

    #[inline]
    fn run<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        let mut context = Context::from_waker(&self.waker);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        self.waiting.set(self.waiting.get() + 1);
        let output = loop {
            self.wait();
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                break output;
            }
        };
        self.waiting.set(self.waiting.get() - 1);
        if self.waiting.get() > 0 {
            // Another future on this thread waits for this one to end, and the wake may have been its own.
            self.parked.woken.store(true, Ordering::Release);
        }
        output
    }

    /// Waits to be woken.
    fn wait(&self) {
        let woken = || self.parked.woken.load(Ordering::SeqCst);
        if let Some(driver) = self.driver.take()
            && !woken()
        {
            driver.assist(&woken);
        }
        while !self.parked.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// An operation on this thread waits for what this driver does: the thread may help it. Only if `waker` is the
/// thread's own: what runs on an executor leaves the thread to others while it waits.
pub(crate) fn may_assist(driver: &Arc<dyn Driver>, waker: &Waker) {
    // A thread that is ending waits without helping.
    let _ = HERE.try_with(|here| {
        if here.waker.will_wake(waker) {
            here.driver.set(Some(driver.clone()));
        }
    });
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A thread that wakes another asks afterwards whether that one assists, and the woken thread says so before it
        // looks here.
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}
