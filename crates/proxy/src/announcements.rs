//! Changes on their way to the hub. Each is announced to its end, whether or not a client still waits: what has changed at the
//! origin has changed.
//!
//! While a hub elsewhere is away they gather here. Beyond a limit one change of everything stands for all further ones, also
//! for those that are made before it is visible: until then it is marked.

use coherence::{Dependency, Updates};
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
    updates: Updates,
    count: AtomicUsize,
    /// The end of the change of everything, if one is under way.
    all: Mutex<Option<watch::Receiver<()>>>,
}

impl Announcements {
    /// None yet, to this hub.
    pub(crate) fn to(updates: Updates) -> Self {
        Self(Arc::new(UnderWay { updates, count: AtomicUsize::new(0), all: Mutex::new(None) }))
    }

    /// Begins to announce a change; gives its end.
    pub(crate) fn begin(&self, changed: Vec<Dependency>) -> impl Future<Output = ()> + use<> {
        let mut end = if self.0.count.load(Relaxed) < ONE_BY_ONE_MAX { self.start(changed, false) } else { self.all() };
        async move {
            // Nothing is ever sent: the sender is gone when the change is done.
            let _ = end.changed().await;
        }
    }

    fn all(&self) -> watch::Receiver<()> {
        let mut all = self.0.all();
        all.get_or_insert_with(|| self.start(vec![Dependency::ALL], true)).clone()
    }

    fn start(&self, changed: Vec<Dependency>, is_all: bool) -> watch::Receiver<()> {
        let (done, end) = watch::channel(());
        let under_way = self.0.clone();
        under_way.count.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            let update = under_way.updates.announce(changed).await;
            if is_all {
                // Before it is visible: whoever joins it has made a change that it still marks.
                *under_way.all() = None;
            }
            // A hub that has ended answers for nothing.
            drop(update);
            under_way.count.fetch_sub(1, Relaxed);
            drop(done);
        });
        end
    }
}

impl UnderWay {
    fn all(&self) -> MutexGuard<'_, Option<watch::Receiver<()>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
