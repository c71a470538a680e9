//! Changes on their way to the hub. Each is announced to its end, whether or not a client still waits: what has changed
//! at the origin has changed.
//!
//! While a hub elsewhere is away they gather here. Beyond a limit one change of everything stands for all further ones
//! that are made before it is announced; those that are made after that are the next one's.

use coherence::{Changes, Dependency};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The changes that are announced one by one.
const ONE_BY_ONE_MAX: usize = 1024;

/// The changes of a proxy that are on their way.
#[derive(Debug)]
pub(crate) struct Announcements(Arc<UnderWay>);

#[derive(Debug)]
struct UnderWay {
    changes: Changes,
    count: AtomicUsize,
    all: Mutex<All>,
}

/// The changes of everything.
#[derive(Debug, Default)]
struct All {
    /// The one that is yet to be announced, if anybody waits for it: its end, which is the sender's.
    next: Option<(watch::Sender<()>, watch::Receiver<()>)>,
    /// A task announces them, one after the other.
    is_announced: bool,
}

impl Announcements {
    /// None yet, on this way.
    pub(crate) fn to(changes: Changes) -> Self {
        Self(Arc::new(UnderWay { changes, count: AtomicUsize::new(0), all: Mutex::default() }))
    }

    /// Begins to announce a change; gives its end.
    pub(crate) fn begin(&self, changed: Vec<Dependency>) -> impl Future<Output = ()> + use<> {
        let mut end = if self.0.count.load(Relaxed) < ONE_BY_ONE_MAX { self.start(changed) } else { self.all() };
        async move {
            // Nothing is ever sent: the sender is gone when the change is done.
            let _ = end.changed().await;
        }
    }

    fn start(&self, changed: Vec<Dependency>) -> watch::Receiver<()> {
        let (done, end) = watch::channel(());
        let under_way = self.0.clone();
        under_way.count.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            // A hub that has ended answers for nothing.
            let _ = under_way.changes.made(changed).await;
            under_way.count.fetch_sub(1, Relaxed);
            drop(done);
        });
        end
    }

    /// One that is under way may have been visible to some when this change was made: it is the next one's.
    fn all(&self) -> watch::Receiver<()> {
        let mut all = self.0.all();
        let end = all.next.get_or_insert_with(|| watch::channel(())).1.clone();
        if !all.is_announced {
            all.is_announced = true;
            tokio::spawn(announce_all(self.0.clone()));
        }
        end
    }
}

async fn announce_all(under_way: Arc<UnderWay>) {
    while let Some(done) = under_way.next() {
        let _ = under_way.changes.made(vec![Dependency::ALL]).await;
        drop(done);
    }
}

impl UnderWay {
    /// The next change of everything, which nobody joins any more.
    fn next(&self) -> Option<watch::Sender<()>> {
        let mut all = self.all();
        let next = all.next.take();
        all.is_announced = next.is_some();
        next.map(|(done, _)| done)
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
