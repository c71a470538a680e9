//! Precedence: of the transactions of one client, the one that has lost to others the most often commits first.
//!
//! ```text
//!   first try .. fourth try --lost again--> in line --first in line--> tries alone --committed--> out of line
//!                                              ^                            |
//!                                              +-------- lost again --------+
//! ```
//! Validation is optimistic: who commits first wins, and that tends to be the thread that has just won, for it need not
//! be woken. So:
//! 1. A transaction that has been run in vain a few times gets in line, and stays there until it ends. Its place is by
//!    when it got there.
//! 2. While somebody is in line, whoever else has written something waits with its commit until the first in line is out
//!    of it; and who is in line begins its next try when it is the first. So the first loses only to what was sent before.
//! 3. Nobody waits for one and the same transaction longer than a moment: the first may be waiting for something that only
//!    another transaction brings about. Then there is no precedence, and validation decides, as always.
//! 4. Who only reads waits for nobody, and as long as nobody is in line all that this costs is a look at a number.

use crate::shared::Shared;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The longest that one transaction waits for another that goes first: a few round trips to a store that is far away.
const MOMENT: Duration = Duration::from_secs(1);

/// Who is in line.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// How many are: looked at without the lock.
    length: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they came.
    places: VecDeque<u64>,
    last: u64,
    /// Who waits for the line to move.
    wakers: Vec<Waker>,
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<u64> {
        self.state().places.front().copied()
    }
}

/// A place in line. Dropping it moves the others up.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Place {
    /// The last one.
    pub(crate) fn take(shared: &Arc<Shared>) -> Self {
        let mut state = shared.line.state();
        state.last += 1;
        let number = state.last;
        state.places.push_back(number);
        shared.line.length.store(state.places.len(), SeqCst);
        drop(state);
        Self { shared: shared.clone(), number }
    }

    /// Waits to be the first in line, or for a moment.
    pub(crate) async fn await_first(&self) {
        let number = self.number;
        self.shared.await_line(|first| first == Some(number)).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let line = &self.shared.line;
        let mut state = line.state();
        state.places.retain(|place| *place != self.number);
        line.length.store(state.places.len(), SeqCst);
        let wakers = mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    /// Before a transaction commits what it has written: whoever is first in line goes before it.
    pub(crate) async fn yield_to_first(&self, own: Option<&Place>) {
        if self.line.length.load(SeqCst) == 0 {
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
            let mut state = self.line.state();
            if is_wanted(state.places.front().copied()) || self.now() >= until {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            drop(state);
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
    use super::Place;
    use crate::{Anywhere, Db, wait_for};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread;
    use std::time::{Duration, Instant};

    /// A long transaction loses to short ones every time, until they let it go first.
    #[test]
    fn a_long_transaction_has_its_turn_among_short_ones() {
        let db = Db::in_memory().unwrap();
        let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
        let (stop, together) = (AtomicBool::new(false), Barrier::new(4));
        let increment = |think: Duration| {
            let add = |count: u64| {
                thread::sleep(think);
                count + 1
            };
            db.transact(|tx| tx.get(counter).and_then(|count| tx.put(counter, &add(count)))).unwrap();
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    together.wait();
                    while !stop.load(SeqCst) {
                        increment(Duration::ZERO);
                    }
                });
            }
            together.wait();
            let start = Instant::now();
            (0..3).for_each(|_| increment(Duration::from_millis(20)));
            let took = start.elapsed();
            stop.store(true, SeqCst);
            assert!(took < Duration::from_secs(5), "{took:?}");
        });
    }

    /// The first in line waits for another transaction's end: that one goes on after a moment.
    #[test]
    fn nobody_waits_for_ever_for_the_first_in_line() {
        let db = Db::in_memory().unwrap();
        let place = Place::take(&db.shared);
        let object = db.transact(|tx| tx.create(Anywhere, &1_u8)).unwrap();
        // Who only reads does not wait at all.
        let start = Instant::now();
        assert_eq!(db.transact(|tx| tx.get(object)).unwrap(), 1);
        assert!(start.elapsed() < super::MOMENT / 2);
        drop(place);
        let start = Instant::now();
        db.transact(|tx| tx.put(object, &2)).unwrap();
        assert!(start.elapsed() < super::MOMENT / 2);
    }

    #[test]
    fn the_line_moves_up_in_order() {
        let db = Db::in_memory().unwrap();
        let [first, second] = [Place::take(&db.shared), Place::take(&db.shared)];
        wait_for(first.await_first());
        let waiting = thread::spawn(move || wait_for(second.await_first()));
        drop(first);
        waiting.join().unwrap();
        assert_eq!(db.shared.line.first(), None);
    }
}
