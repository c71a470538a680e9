//! The client that all transactions of one [`crate::Db`] share: a machine under one short lock, and the hands beside
//! it.

use crate::open::Embedded;
use crate::wait::may_assist;
use crate::{Error, Result};
use client::{Client, TxnError, TxnHandle};
use node::{Hands, Node};
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use types::{PageId, Time};

/// The node, its hands, and what keeps them alive.
pub(crate) struct Shared {
    node: Arc<Mutex<Node>>,
    hands: Arc<dyn Hands>,
    pub(crate) patience: Duration,
    /// The store that runs in this process. It is closed when it is dropped, after the hands that it is closed by have
    /// been let go: the last field.
    embedded: Option<Embedded>,
}

impl Shared {
    pub(crate) fn new(
        node: Arc<Mutex<Node>>,
        hands: Arc<dyn Hands>,
        patience: Duration,
        embedded: Option<Embedded>,
    ) -> Self {
        Self { node, hands, patience, embedded }
    }

    /// Ends the store, if it runs in this process. Transactions that still run will fail.
    pub(crate) fn end(&self) -> Result<()> {
        self.embedded.as_ref().map_or(Ok(()), Embedded::end)
    }

    /// Ends the store and sets its directory free.
    pub(crate) fn close(self) -> Result<()> {
        let Self { node, hands, embedded, .. } = self;
        drop((node, hands));
        embedded.map_or(Ok(()), Embedded::close)
    }

    pub(crate) fn now(&self) -> Time {
        self.hands.now()
    }

    /// Calls the client, and carries out what came of it.
    pub(crate) fn client<R>(&self, call: impl FnOnce(&mut Client, Time) -> R) -> R {
        let answer = self.peek(call);
        self.settle();
        answer
    }

    /// Carries out what came of the client's last calls.
    pub(crate) fn settle(&self) {
        self.hands.settle();
    }

    /// Looks at what the client has, without effects outside of it and without asking the time.
    #[inline]
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut Client) -> R) -> R {
        look(self.lock().client().expect("a Db's node hosts a client"))
    }

    /// Calls the client for something that has no effects outside of it.
    #[inline]
    pub(crate) fn peek<R>(&self, call: impl FnOnce(&mut Client, Time) -> R) -> R {
        // Read before the lock is taken, which others wait for.
        let now = self.hands.now();
        self.look(|client| call(client, now))
    }

    /// Asks for pages that somebody is about to read.
    pub(crate) fn fetch_ahead(&self, pages: &[PageId]) {
        if self.peek(|client, now| client.fetch_ahead(now, pages)) {
            self.settle();
        }
    }

    /// A panic under the lock is one of the application's decoder, which only sees bytes: the machine is whole.
    fn lock(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the client again and again, whenever the transaction is woken, until it need not wait. A call that is
    /// answered from the cache sends nothing, so there is nothing to carry out then.
    #[inline]
    pub(crate) async fn wait<R>(
        &self,
        txn: TxnHandle,
        mut call: impl FnMut(&mut Client, Time) -> Result<Poll<R>, TxnError>,
    ) -> Result<R> {
        let mut ask = || {
            let answer = self.peek(&mut call);
            if !matches!(answer, Ok(Poll::Ready(_))) {
                self.settle();
            }
            match answer {
                Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(error) => Poll::Ready(Err(Error::from(error))),
            }
        };
        let mut has_waited = false;
        poll_fn(|context| {
            let answer = ask();
            if answer.is_ready() {
                return answer;
            }
            self.hands.wake_on(txn, context.waker());
            may_assist(&self.hands, context.waker());
            // A wake that came meanwhile went to the waker of the poll before, which is another task's if the future
            // has moved. So it is asked once more, now that this task's is known.
            if mem::replace(&mut has_waited, true) { ask() } else { Poll::Pending }
        })
        .await
    }

    /// Waits until `time`.
    pub(crate) async fn sleep_until(&self, time: Time) {
        poll_fn(|context| {
            if self.hands.now() >= time {
                return Poll::Ready(());
            }
            self.hands.wake_at(time, context.waker());
            Poll::Pending
        })
        .await;
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("patience", &self.patience).finish_non_exhaustive()
    }
}
