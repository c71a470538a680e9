//! Which databases this thread is running a transaction's body of, so that a transaction inside of another is refused.
//!
//! A body that runs in a task is on its thread only while the task is polled. So the question is the same for both
//! kinds of transactions: is the caller called by such a body? A body that hands work to another thread or task and
//! waits for it is not seen, and is in its own way only if the two touch the same objects.

use crate::Database;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static RUNNING: RefCell<Vec<*const Database>> = const { RefCell::new(Vec::new()) };
}

/// A body runs on this thread for as long as this lives.
#[derive(Debug)]
pub struct Inside;

impl Inside {
    /// The body begins to run.
    pub fn enter(database: &Arc<Database>) -> Self {
        // A thread that is ending notes nothing, and asks for nothing.
        let _ = RUNNING.try_with(|running| running.borrow_mut().push(Arc::as_ptr(database)));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = RUNNING.try_with(|running| running.borrow_mut().pop());
    }
}

/// Whether this is called by the body of a transaction of the same database.
pub(crate) fn is_inside(database: &Arc<Database>) -> bool {
    RUNNING.try_with(|running| running.borrow().contains(&Arc::as_ptr(database))).unwrap_or(false)
}
