//! A question to a home of another process, and the wait for its answer.

use crate::call::Called;
use homes::{Answer, Attached, Question};
use node::Waiter;
use std::future::poll_fn;
use std::task::Poll;

/// A question that is waited for. One that is dropped is not waited for any more.
struct Asked<'a> {
    home: &'a Called<Attached>,
    id: u64,
}

/// Asks, and waits for the answer. That to a change is waited for however long there is no home.
pub(crate) async fn ask(home: &Called<Attached>, question: Question) -> Answer {
    let id = home.call(|machine| machine.ask(home.driver().now(), question));
    let asked = Asked { home, id };
    poll_fn(|cx| {
        if let Some(answer) = home.look(|machine| machine.take(asked.id)) {
            return Poll::Ready(answer);
        }
        home.driver().wake_on(Waiter(asked.id), cx.waker());
        Poll::Pending
    })
    .await
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.home.driver().forget(Waiter(self.id));
        self.home.call(|machine| machine.forget(self.id));
    }
}
