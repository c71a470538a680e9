//! Connecting to a database: to its server, or to the redirector of a group.
//!
//! # The threads
//! A client of a store may live on its application's runtime: answers are received by the thread that waits for them. A
//! member of a group may not, because it is asked for pages whatever its application computes. So a client that may
//! become one has threads of our own from the start: if it has several addresses, the name of a group, or is eligible.
//! And if the only address turns out to be a redirector's, the client begins again on threads of our own.

use crate::open::{new_client, runtime};
use crate::{Config, Database, Eligible, Error, Result};
use client::Client;
use machine::RoleId;
use net::{Host, ListenConfig, Listener, Machines, PeerFamily, Runtime, Shared, UpstreamConfig};
use redirector::Redirector;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::limits::GROUP_NAME_BYTES_MAX;

/// Trying for this long is worth a word.
const TOLD_FROM: Duration = Duration::from_secs(2);

impl Database {
    /// Connects to a server, or to the redirector of a group: of several addresses, the first that answers is taken.
    ///
    /// # Errors
    /// [`Error::Open`] with a line that says what is wrong and what to do.
    pub fn connect(addresses: &str, config: &Config) -> Result<Arc<Self>> {
        let remote = config.begin_to_connect(upstream(addresses)?, runtime()?)?;
        let (begun, wait) = (Instant::now(), || remote.host.wait_connected(remote.role, config.connect_within));
        // A thread of its own may wait, also when this one runs asynchronous tasks.
        let waiting = std::thread::scope(|scope| scope.spawn(wait).join());
        waiting.expect("waiting does not panic").map_err(|error| open_error(&error, begun.elapsed()))?;
        Ok(remote.open(config))
    }

    /// [`Database::connect`] as a future. Called from a task of tokio, the connection is that runtime's, unless the
    /// client may be a member of a group.
    pub async fn connect_async(addresses: &str, config: &Config) -> Result<Arc<Self>> {
        let upstream = upstream(addresses)?;
        if let Some(current) = Runtime::current().filter(|_| !config.may_be_member(&upstream)) {
            let remote = config.come_up(upstream.clone(), &current).await?;
            if !remote.is_member() {
                return Ok(remote.open(config));
            }
        }
        Ok(config.come_up(upstream, runtime()?).await?.open(config))
    }
}

/// A client of a server elsewhere, and where it is hosted.
struct Remote {
    host: Arc<Host>,
    role: RoleId,
    client: Shared<Client>,
}

impl Remote {
    /// Whether it was a redirector that has answered: the client is a member of its group.
    fn is_member(&self) -> bool {
        self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner).look().is_member()
    }

    fn open(self, config: &Config) -> Arc<Database> {
        Database::over(self.client, self.host.driver(self.role), config.client.patience)
    }
}

impl Config {
    /// The client of a server.
    fn client(&self) -> Client {
        Client::new(self.client.clone(), new_client())
    }

    /// Whether the client may have peers.
    fn may_be_member(&self, upstream: &UpstreamConfig) -> bool {
        upstream.addresses.len() > 1 || self.client.group.is_some() || self.eligible.is_some()
    }

    async fn come_up(&self, upstream: UpstreamConfig, runtime: &Runtime) -> Result<Remote> {
        let (begun, remote) = (Instant::now(), self.begin_to_connect(upstream, runtime)?);
        let connected = remote.host.connected(remote.role, self.connect_within).await;
        connected.map_err(|error| open_error(&error, begun.elapsed()))?;
        Ok(remote)
    }

    fn begin_to_connect(&self, upstream: UpstreamConfig, runtime: &Runtime) -> Result<Remote> {
        let group = self.client.group.as_deref();
        if let Some(name) = group.filter(|name| !(1..=GROUP_NAME_BYTES_MAX).contains(&name.len())) {
            return Err(Error::Open(format!(
                "'{name}' is not a name of a group: it has 1 to {GROUP_NAME_BYTES_MAX} bytes"
            )));
        }
        let remote = match (&self.eligible, group) {
            (None, _) => self.alone(runtime),
            (Some(eligible), Some(group)) => self.stand_by(eligible, group, runtime)?,
            (Some(_), None) => {
                let text = "a process that can be its group's redirector needs the group's name: call 'group' too";
                return Err(Error::Open(text.into()));
            }
        };
        let peers = Some(PeerFamily { codec: messages::PEER, admit: messages::admit });
        remote.host.connect(remote.role, UpstreamConfig { peers, ..upstream });
        Ok(remote)
    }

    /// A client with nothing beside it.
    fn alone(&self, runtime: &Runtime) -> Remote {
        let mut machines = Machines::new();
        let (role, client) = machines.add(self.client());
        Remote { host: Host::start(machines, runtime), role, client }
    }

    /// A client with a redirector beside it, which waits until it is needed.
    fn stand_by(&self, eligible: &Eligible, group: &str, runtime: &Runtime) -> Result<Remote> {
        let refused = |error: net::ListenError| Error::Open(error.to_string());
        if eligible.listen.ip().is_unspecified() {
            let text = format!(
                "{} is not an address that the group's members can reach: name one of this machine",
                eligible.listen
            );
            return Err(Error::Open(text));
        }
        let upstream = upstream(&eligible.store)?;
        let listener = ListenConfig { insecure: self.insecure, ..ListenConfig::new(messages::SERVER, eligible.listen) };
        let listener = Listener::bind(listener).map_err(refused)?;
        let config = redirector::Config {
            group: group.into(),
            address: listener.address().to_string(),
            store: upstream.addresses.clone(),
            duty: redirector::Duty::Assist,
            ..redirector::Config::default()
        };
        let eligible = client::Config { eligible: config.address.clone(), ..self.client.clone() };
        let mut machines = Machines::new();
        let (redirector, _) = machines.add(Redirector::new(config, new_client()));
        let (role, client) = machines.add(Client::new(eligible, new_client()));
        machines.stand_beside(role, redirector);
        let host = Host::start(machines, runtime);
        host.listen_at(redirector, listener).map_err(refused)?;
        host.connect(redirector, upstream);
        Ok(Remote { host, role, client })
    }
}

fn upstream(addresses: &str) -> Result<UpstreamConfig> {
    UpstreamConfig::parse(messages::CLIENT, addresses).map_err(|error| Error::Open(error.to_string()))
}

fn open_error(error: &net::ConnectError, tried: Duration) -> Error {
    // One attempt says itself how long it has taken.
    let tried = if tried < TOLD_FROM { String::new() } else { format!(" (tried for {} s)", tried.as_secs()) };
    Error::Open(describe(error, &tried))
}

/// The remedy for an upstream session that did not come up, behind what is wrong with it and how long it was tried.
fn describe(error: &net::ConnectError, tried: &str) -> String {
    match error {
        net::ConnectError::NoServer { address, .. } if !address.contains(',') => {
            format!("{error}{tried}; start one with 'thorp serve --dir DIR --listen {address}', or check the address")
        }
        net::ConnectError::NoServer { .. } => {
            format!("{error}{tried}; start one with 'thorp serve --dir DIR', or check the addresses")
        }
        net::ConnectError::Silent { .. } => {
            format!(
                "{error}{tried}; it may be stopped, or too busy, or no Thorp store: look at its process, or check the \
                 address"
            )
        }
        net::ConnectError::NotThorp { .. } => format!("{error}; check the address and the port"),
        _ => format!("{error}{tried}"),
    }
}
