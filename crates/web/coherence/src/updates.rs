//! Updates, as those who make them announce them: to a hub in this process, or to one elsewhere.

use crate::error::SiteError;
use crate::far::{drawn, trouble, upstream};
use homes::{Dependency, Fence, Hub, SourceName, UpdateId, Updater};
use machine::{Driver, RoleId, Waiter};
use net::Handle;
use net::{ConnectError, Host, Machines, Runtime};
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use types::Time;

/// The way to a hub.
#[derive(Clone)]
pub struct Updates(Way);

#[derive(Clone)]
enum Way {
    Here(Handle<Hub>),
    Far {
        updater: Handle<Updater>,
        role: RoleId,
        /// It is kept as long as there is somebody to announce anything.
        host: Arc<Host>,
    },
}

/// The hub, or the way to it, has ended: nothing is released any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the hub of this process has ended, or that elsewhere continues without it: the update was not released",
        )
    }
}

impl Error for Ended {}

/// An update that is released, and marked until it is visible. One that is dropped is considered visible, or for one
/// that does not take place: keep it until one of the two is certain.
#[derive(Debug)]
#[must_use = "an update that is dropped is taken for visible"]
pub struct Update {
    updates: Updates,
    id: u64,
}

impl Update {
    /// Whether the update may still become visible: a hub elsewhere that was not learned of for this long that it may
    /// have given the update up has to release it again. To be asked last before the update takes place.
    pub fn is_released(&self) -> bool {
        self.updates.is_released(self.id).0
    }

    /// Every new reader sees the update, or it does not take place.
    pub fn visible(self) {
        drop(self);
    }
}

/// An update that is announced, and not known to be released. It lapses if this is dropped.
pub(crate) struct Begun(Update);

impl Begun {
    /// Waits until no cache answers without it.
    pub(crate) async fn released(self) -> Result<Update, Ended> {
        let Update { updates, id } = &self.0;
        poll_fn(|cx| updates.poll_released(*id, cx)).await?;
        Ok(self.0)
    }
}

impl Updates {
    pub(crate) fn here(hub: Handle<Hub>) -> Self {
        Self(Way::Here(hub))
    }

    /// Announces to a hub at these addresses, which need not be there yet.
    ///
    /// # Errors
    /// The addresses are none.
    pub fn connect(hub: &str, runtime: &Runtime) -> Result<Self, SiteError> {
        Self::far(hub, Updater::new(drawn()), runtime)
    }

    /// Announces, as [`Updates::connect`], everything that changes in a source. Its hub has to expect it
    /// ([`SiteConfig::sources`](crate::SiteConfig::sources)), and keeps everything marked until it has
    /// [caught up](Updates::caught_up), and while it is away. One that comes later under the same name takes its place.
    ///
    /// # Errors
    /// The addresses are none.
    pub fn connect_source(hub: &str, source: SourceName, runtime: &Runtime) -> Result<Self, SiteError> {
        Self::far(hub, Updater::of_source(drawn(), source), runtime)
    }

    fn far(hub: &str, updater: Updater, runtime: &Runtime) -> Result<Self, SiteError> {
        let upstream = upstream(hub)?;
        let mut machines = Machines::new();
        let (role, updater) = machines.add(updater);
        let host = Host::start(machines, runtime);
        let updater = Handle::new(updater, host.driver(role));
        host.connect(role, upstream);
        Ok(Self(Way::Far { updater, role, host }))
    }

    /// Announces an update of these dependencies, and waits until no cache answers without it: then it may become
    /// visible. The update lapses if this is dropped before.
    ///
    /// # Errors
    /// The hub of this process has ended, or another speaks for the source. A hub elsewhere is waited for, however long
    /// it is gone; [`Updates::trouble`] says why it is not reached.
    pub async fn announce(&self, dependencies: Vec<Dependency>) -> Result<Update, Ended> {
        self.begin(dependencies).released().await
    }

    /// Announces an update, and waits for nothing: [`Begun::released`] does.
    pub(crate) fn begin(&self, dependencies: Vec<Dependency>) -> Begun {
        let id = match &self.0 {
            Way::Here(hub) => hub.call(|machine| machine.update(hub.driver().now(), dependencies)).0,
            Way::Far { updater, .. } => updater.call(|updater| updater.update(dependencies)),
        };
        Begun(Update { updates: self.clone(), id })
    }

    /// Everything is visible that an earlier hub than that of this process may have released. To a hub elsewhere it is
    /// said of the source that this speaks for: everything that has become visible there is announced. An updater that
    /// gets hold of that source later has a greater number.
    pub fn caught_up(&self, fence: Fence) {
        match &self.0 {
            Way::Here(hub) => hub.call(Hub::caught_up),
            Way::Far { updater, .. } => updater.call(|updater| updater.caught_up(fence)),
        }
    }

    /// Why a hub elsewhere is not reached, if that is so; also before it was.
    pub fn trouble(&self) -> Option<ConnectError> {
        match &self.0 {
            Way::Here(_) => None,
            Way::Far { role, host, .. } => trouble(host, *role),
        }
    }

    /// The sources that are away at a hub of this process, or have not caught up.
    pub fn sources_away(&self) -> Vec<SourceName> {
        match &self.0 {
            Way::Here(hub) => hub.look(|hub| hub.sources_away().cloned().collect()),
            Way::Far { .. } => Vec::new(),
        }
    }

    /// Everything that keeps its caches from storing and answering, in words.
    pub fn troubles(&self) -> Vec<String> {
        let hub = self.trouble().map(|why| format!("the hub is not reached: {why}"));
        let sources = self.sources_away().into_iter().map(|name| format!("the watcher of the source {name} is away"));
        hub.into_iter().chain(sources).collect()
    }

    /// The clock that leases are of: it continues while the machine sleeps.
    pub fn now(&self) -> Time {
        self.driver().now()
    }

    fn driver(&self) -> &dyn Driver {
        match &self.0 {
            Way::Here(hub) => &**hub.driver(),
            Way::Far { updater, .. } => &**updater.driver(),
        }
    }

    /// Whether an update is released, and whether its hub has ended.
    fn is_released(&self, id: u64) -> (bool, bool) {
        match &self.0 {
            Way::Here(hub) => hub.look(|hub| (hub.is_released(UpdateId(id)), hub.is_over())),
            Way::Far { updater, .. } => updater.look(|it| (it.is_released(updater.driver().now(), id), it.is_over())),
        }
    }

    fn poll_released(&self, id: u64, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let (is_released, is_over) = self.is_released(id);
        if is_over {
            return Poll::Ready(Err(Ended));
        }
        if is_released {
            self.driver().forget(Waiter(id));
            return Poll::Ready(Ok(()));
        }
        self.driver().wake_on(Waiter(id), cx.waker());
        Poll::Pending
    }
}

impl Drop for Update {
    fn drop(&mut self) {
        self.updates.driver().forget(Waiter(self.id));
        match &self.updates.0 {
            Way::Here(hub) => hub.call(|hub| hub.visible(UpdateId(self.id))),
            Way::Far { updater, .. } => updater.call(|updater| updater.visible(self.id)),
        }
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match &self.0 {
            Way::Here(_) => "here",
            Way::Far { .. } => "far",
        };
        f.debug_tuple("Updates").field(&way).finish()
    }
}
