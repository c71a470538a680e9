//! A session with a holder of somebody who asks, and waits for the answers.

use super::{Link, Listener, News};
use machines::messages::holder::{PartitionId, ToHolder};
use net::Runtime;
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

/// Tells that there is news.
struct Tells(Mutex<Sender<()>>);

impl Listener for Tells {
    fn news(&self, _: PartitionId) {
        // Nobody hears it: it was given up.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(());
    }
}

/// The session: it ends when this is dropped.
pub(crate) struct Asking {
    link: Arc<Link>,
    told: Receiver<()>,
    news: VecDeque<News>,
    _listener: Arc<dyn Listener>,
}

impl Asking {
    /// Opens a session with the holder at this address, whichever partition it has.
    pub(crate) fn open(address: String, runtime: &Runtime) -> Self {
        let (sender, told) = channel();
        let listener: Arc<dyn Listener> = Arc::new(Tells(Mutex::new(sender)));
        let weak: Weak<dyn Listener> = Arc::downgrade(&listener);
        // The holder that is there says which partition it is.
        let link = Link::open(PartitionId(0), address, runtime, weak);
        Self { link, told, news: VecDeque::new(), _listener: listener }
    }

    /// Says this, in the session whose begin was heard last.
    pub(crate) fn say(&self, messages: impl IntoIterator<Item = ToHolder>) {
        messages.into_iter().for_each(|message| self.link.line().push(message));
        self.link.settle();
    }

    /// The next news, if there is any until then.
    pub(crate) fn hear(&mut self, until: Instant) -> Option<News> {
        while self.news.is_empty() {
            self.news = self.link.line().take();
            if self.news.is_empty() {
                self.told.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
            }
        }
        self.news.pop_front()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("link", &self.link).finish_non_exhaustive()
    }
}
