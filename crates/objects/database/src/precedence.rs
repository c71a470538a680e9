//! Precedence: of the transactions of one client, the one that has lost to others the most often commits first.
//!
//! ```text
//!   first try .. fourth try --lost again--> in line --first in line--> tries alone --committed--> out of line
//!                                              ^                            |
//!                                              +-------- lost again --------+
//! ```
//! Validation is optimistic: the first to commit wins, and that tends to be the thread that has just won, for it need
//! not be woken. So:
//! 1. A transaction that has been run in vain a few times gets in line, and stays there until it ends. Its place is by
//!    when it got there.
//! 2. While a transaction is in line, every other that has written something waits with its commit until the first in
//!    line is out of it; and one in line begins its next try when it is the first. So the first loses only to what was
//!    sent before.
//! 3. Nobody waits for one and the same transaction longer than a moment: the first may be waiting for something that
//!    only another transaction brings about. Then there is no precedence, and validation decides, as always.
//! 4. A transaction that only reads waits for nobody, and as long as nobody is in line everything that this costs is a
//!    look at a number.

use crate::Database;
use client::TxnHandle;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The longest that one transaction waits for another that goes first: a few round trips to a store that is far away.
const MOMENT: Duration = Duration::from_secs(1);

/// A place in line. Dropping it moves the others up.
#[derive(Debug)]
pub(crate) struct Place {
    database: Arc<Database>,
    number: u64,
}

impl Place {
    /// The last one.
    pub(crate) fn take(database: &Arc<Database>) -> Self {
        Self { database: database.clone(), number: database.line.enter() }
    }

    /// Waits to be the first in line, or for a moment.
    pub(crate) async fn await_first(&self) {
        let number = self.number;
        self.database.await_line(|first| first == Some(number)).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.database.line.leave(self.number);
    }
}

impl Database {
    /// Before a transaction commits: if it has written something, the first in line goes before it.
    pub(crate) async fn yield_to_first(&self, txn: TxnHandle, own: Option<&Place>) {
        // One that cannot continue learns of that from its commit.
        if self.line.is_empty() || self.look(|client| client.is_read_only(txn)).unwrap_or(true) {
            return;
        }
        let first = self.line.first();
        if first.is_some() && first != own.map(|place| place.number) {
            self.await_line(|now_first| now_first != first).await;
        }
    }

    /// Waits until the first in line is as wanted, and no longer than a moment.
    async fn await_line(&self, is_wanted: impl Fn(Option<u64>) -> bool) {
        let until = self.now() + MOMENT;
        let mut has_alarm = false;
        poll_fn(|context| {
            let is_late = self.now() >= until;
            if self.line.is_or_wake(|first| is_late || is_wanted(first), context.waker()) {
                return Poll::Ready(());
            }
            if !mem::replace(&mut has_alarm, true) {
                self.wake_at(until, context.waker());
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::{MOMENT, Place};
    use crate::memory::tests::{create, read};
    use crate::{Database, block_on};
    use std::thread;
    use std::time::Instant;

    /// The first in line waits for another transaction's end: that one continues after a moment.
    #[test]
    fn nobody_waits_for_ever_for_the_first_in_line() {
        let database = Database::in_memory().unwrap();
        let object = create(&database, b"before");
        let place = Place::take(&database);
        let start = Instant::now();
        create(&database, b"behind the first in line");
        assert!(start.elapsed() >= MOMENT);
        // A transaction that only reads does not wait at all.
        let start = Instant::now();
        assert_eq!(read(&database, object), b"before");
        assert!(start.elapsed() < MOMENT / 2);
        drop(place);
        let start = Instant::now();
        create(&database, b"alone");
        assert!(start.elapsed() < MOMENT / 2);
    }

    #[test]
    fn the_line_moves_up_in_order() {
        let database = Database::in_memory().unwrap();
        let [first, second] = [Place::take(&database), Place::take(&database)];
        block_on(first.await_first());
        let waiting = thread::spawn(move || block_on(second.await_first()));
        drop(first);
        waiting.join().unwrap();
        assert_eq!(database.line.first(), None);
    }
}
