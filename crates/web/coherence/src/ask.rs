//! Questions to a home of another process, lookups in the table of one on another machine, and the wait for the
//! answers.

use homes::{Answer, Attached, Found, LookUps, Question, Wanted};
use machine::{Machine, Waiter};
use net::Handle;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// A machine that has answers some time later, and wakes those that wait for them.
pub(crate) trait Answers: Machine {
    type Answer;

    /// The answer, once.
    fn take(&mut self, id: u64) -> Option<Self::Answer>;

    /// Nobody waits for it any more.
    fn forget(&mut self, id: u64);
}

impl Answers for Attached {
    type Answer = Answer;

    fn take(&mut self, id: u64) -> Option<Answer> {
        self.take(id)
    }

    fn forget(&mut self, id: u64) {
        self.forget(id);
    }
}

impl Answers for LookUps {
    type Answer = Found;

    fn take(&mut self, id: u64) -> Option<Found> {
        self.take(id)
    }

    fn forget(&mut self, id: u64) {
        self.forget(id);
    }
}

/// A question that is waited for. One that is dropped is no longer waited for.
pub(crate) struct Asked<'a, M: Answers> {
    machine: &'a Handle<M>,
    id: u64,
}

impl<M: Answers> Asked<'_, M> {
    async fn answer(self) -> M::Answer {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The answer, once.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<M::Answer> {
        if let Some(answer) = self.machine.look(|machine| machine.take(self.id)) {
            return Poll::Ready(answer);
        }
        self.machine.driver().wake_on(Waiter(self.id), cx.waker());
        Poll::Pending
    }
}

impl Asked<'_, Attached> {
    /// Has a home that is gone not be notified of a change, of which others have told; says whether it is gone.
    pub(crate) fn withdraw(&self) -> bool {
        self.machine.call(|home| home.withdraw(self.id))
    }
}

impl<M: Answers> Drop for Asked<'_, M> {
    fn drop(&mut self) {
        self.machine.driver().forget(Waiter(self.id));
        self.machine.call(|machine| machine.forget(self.id));
    }
}

/// Asks, and waits for the answer. That to a change is waited for however long there is no home.
pub(crate) async fn ask(home: &Handle<Attached>, question: Question) -> Answer {
    begin(home, question).answer().await
}

/// Asks.
pub(crate) fn begin(home: &Handle<Attached>, question: Question) -> Asked<'_, Attached> {
    let id = home.call(|machine| machine.ask(home.driver().now(), question));
    Asked { machine: home, id }
}

/// Looks up, and waits for the answer.
pub(crate) async fn look(table: &Handle<LookUps>, wanted: Wanted) -> Found {
    let id = table.call(|machine| machine.look(table.driver().now(), wanted));
    Asked { machine: table, id }.answer().await
}
