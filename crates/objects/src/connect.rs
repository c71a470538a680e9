//! Connecting to a database: to its server, or to the redirector of a group.
//!
//! # Whose threads
//! A client of a store may live on its application's runtime: answers are received by the thread that waits for them.
//! A member of a group may not, because it is asked for pages whatever its application computes. So a client that may
//! become one has threads of our own from the start: if it has several addresses, the name of a group, or is eligible.
//! And if who answers at the only address turns out to be a redirector, the client begins again on threads of our own.

use crate::open::{new_client, runtime};
use crate::{Builder, Db, Error, Result};
use net::{Host, ListenConfig, Listener, Runtime, UplinkConfig};
use node::Node;
use redirector::Redirector;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::limits::GROUP_NAME_BYTES_MAX;

/// How a process is its group's redirector, should that be needed.
#[derive(Clone, Debug)]
pub(crate) struct Eligible {
    listen: SocketAddr,
    store: String,
}

impl Db {
    /// Connects to the server at an address such as `127.0.0.1:7411`, or to the redirector of a group. Of several
    /// addresses, such as `thorp://shed:7412,store:7411`, the first that answers is taken: a group's members name its
    /// redirector, and the store behind it for when there is none. A connection that is lost later is opened again and
    /// again, and the cache stays.
    ///
    /// ```
    /// # use objects as thorp;
    /// let error = thorp::Db::connect("127.0.0.1:9").unwrap_err();
    /// assert!(error.to_string().starts_with("no server at 127.0.0.1:9: connection refused"));
    /// ```
    ///
    /// # Errors
    /// [`Error::Open`] with a line that says what is wrong and what to do: the text is no list of addresses, nobody
    /// listens there, or no Thorp server.
    pub fn connect(addresses: impl ToString) -> Result<Self> {
        Self::builder().connect(addresses)
    }

    /// [`Db::connect`] as a future. Called from a task of tokio, the database's connection is that runtime's: answers
    /// are received by the thread that waits for them. The runtime needs its drivers (`enable_all`) and must outlive
    /// the database. On any other executor, threads of our own receive; and for a member of a group they always do,
    /// because its neighbours are answered whatever the application computes.
    ///
    /// ```
    /// # use objects as thorp;
    /// # thorp::wait_for(async {
    /// let error = thorp::Db::connect_async("127.0.0.1:9").await.unwrap_err();
    /// assert!(error.to_string().starts_with("no server at 127.0.0.1:9: connection refused"));
    /// # });
    /// ```
    pub async fn connect_async(addresses: impl ToString) -> Result<Self> {
        Self::builder().connect_async(addresses).await
    }
}

impl Builder {
    /// How long [`Builder::connect`] goes on trying when nobody answers. Not at all by default: once, and it fails.
    pub fn connect_within(mut self, within: Duration) -> Self {
        self.connect_within = within;
        self
    }

    /// The group to be a member of where that can be had: should the client have to speak to the store directly, the
    /// store tells it where the group's redirector is as soon as there is one. A client that has been with the
    /// redirector knows the name from it.
    ///
    /// ```
    /// # use objects as thorp;
    /// let error = thorp::Db::builder().group("office").connect("127.0.0.1:9,127.0.0.1:10").unwrap_err();
    /// assert!(error.to_string().starts_with("no server at 127.0.0.1:9, 127.0.0.1:10: connection refused"));
    /// ```
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.client.group = Some(name.into());
        self
    }

    /// This process can be the redirector of its [`Builder::group`]: it takes over when there is none, listens at
    /// `listen`, an address that the other members reach, and speaks to the store at `store`, one or several addresses
    /// as in [`Db::connect`].
    ///
    /// ```no_run
    /// # use objects as thorp;
    /// let listen = "127.0.0.1:7413".parse().unwrap();
    /// let db = thorp::Db::builder()
    ///     .group("office")
    ///     .eligible(listen, "store:7411")
    ///     .connect("shed:7412,store:7411")?;
    /// # Ok::<(), thorp::Error>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "addresses are small, and callers have them as they come")]
    pub fn eligible(mut self, listen: SocketAddr, store: impl ToString) -> Self {
        self.eligible = Some(Eligible { listen, store: store.to_string() });
        self
    }

    /// Whether [`Builder::eligible`] may listen where others than this machine can reach, although connections are
    /// neither encrypted nor authenticated yet. It may not by default.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Connects to a server, see [`Db::connect`].
    #[expect(clippy::needless_pass_by_value, reason = "addresses are small, and callers have them as they come")]
    pub fn connect(self, addresses: impl ToString) -> Result<Db> {
        let host = self.begin_to_connect(uplink(&addresses.to_string())?, runtime()?)?;
        // A thread of its own may wait, also when this one runs asynchronous tasks.
        let waiting = std::thread::scope(|scope| scope.spawn(|| host.wait_connected(self.connect_within)).join());
        waiting.expect("waiting does not panic").map_err(|error| open_error(&error))?;
        Ok(self.db(host, None))
    }

    /// Connects to a server, see [`Db::connect_async`].
    pub async fn connect_async(self, addresses: impl ToString) -> Result<Db> {
        let uplink = uplink(&addresses.to_string())?;
        if let Some(current) = Runtime::current().filter(|_| !self.may_be_member(&uplink)) {
            let host = self.come_up(uplink.clone(), &current).await?;
            if !host.is_member() {
                return Ok(self.db(host, None));
            }
        }
        let host = self.come_up(uplink, runtime()?).await?;
        Ok(self.db(host, None))
    }

    /// Whether the client may have neighbours.
    fn may_be_member(&self, uplink: &UplinkConfig) -> bool {
        uplink.addresses.len() > 1 || self.client.group.is_some() || self.eligible.is_some()
    }

    async fn come_up(&self, uplink: UplinkConfig, runtime: &Runtime) -> Result<Arc<Host>> {
        let host = self.begin_to_connect(uplink, runtime)?;
        host.connected(self.connect_within).await.map_err(|error| open_error(&error))?;
        Ok(host)
    }

    fn begin_to_connect(&self, uplink: UplinkConfig, runtime: &Runtime) -> Result<Arc<Host>> {
        let group = self.client.group.as_deref();
        if let Some(name) = group.filter(|name| !(1..=GROUP_NAME_BYTES_MAX).contains(&name.len())) {
            return Err(Error::Open(format!(
                "'{name}' is no name of a group: it has 1 to {GROUP_NAME_BYTES_MAX} bytes"
            )));
        }
        let host = match (&self.eligible, group) {
            (None, _) => Host::start(Node::client_only(self.client()), None, runtime),
            (Some(eligible), Some(group)) => self.stand_by(eligible, group, runtime)?,
            (Some(_), None) => {
                let text = "a process that can be its group's redirector needs the group's name: call 'group' too";
                return Err(Error::Open(text.into()));
            }
        };
        host.connect(uplink);
        Ok(host)
    }

    /// A client with a redirector beside it, which waits until it is needed.
    fn stand_by(&self, eligible: &Eligible, group: &str, runtime: &Runtime) -> Result<Arc<Host>> {
        let refused = |error: net::ListenError| Error::Open(error.to_string());
        if eligible.listen.ip().is_unspecified() {
            let text = format!(
                "{} is no address that the group's members can reach: name one of this machine",
                eligible.listen
            );
            return Err(Error::Open(text));
        }
        let trunk = uplink(&eligible.store)?;
        let listener = ListenConfig { insecure: self.insecure, ..ListenConfig::new(eligible.listen) };
        let listener = Listener::bind(listener).map_err(refused)?;
        let config = redirector::Config {
            group: group.into(),
            address: listener.address().to_string(),
            store: trunk.addresses.clone(),
            duty: redirector::Duty::Assist,
            ..redirector::Config::default()
        };
        let node = Node::with_redirector(Redirector::new(config, new_client()), Some(self.client()));
        let host = Host::start(node, None, runtime);
        host.listen_at(listener).map_err(refused)?;
        host.connect_trunk(trunk);
        Ok(host)
    }
}

fn uplink(addresses: &str) -> Result<UplinkConfig> {
    UplinkConfig::parse(addresses).map_err(|error| Error::Open(error.to_string()))
}

fn open_error(error: &net::ConnectError) -> Error {
    Error::Open(describe(error))
}

/// What to do about an uplink that did not come up, behind what is wrong with it.
fn describe(error: &net::ConnectError) -> String {
    match error {
        net::ConnectError::NoServer { address, .. } if !address.contains(',') => {
            format!("{error}; start one with 'thorp serve --dir DIR --listen {address}', or check the address")
        }
        net::ConnectError::NoServer { .. } => {
            format!("{error}; start one with 'thorp serve --dir DIR', or check the addresses")
        }
        net::ConnectError::Silent { .. } => {
            format!(
                "{error}; it may be stopped, or too busy, or no Thorp store: look at its process, or check the address"
            )
        }
        net::ConnectError::NotThorp { .. } => format!("{error}; check the address and the port"),
        _ => error.to_string(),
    }
}
