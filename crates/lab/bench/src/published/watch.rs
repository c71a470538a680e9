//! The revisions that servers serve, by their own reports.
//!
//! Reports are asked for over connections that stay open, server by server: a revision is seen a little after it is
//! served, by no more than a round of all servers. A page that is opened would be seen as well, but would have its
//! server keep the page's revision for a minute.

use crate::Result;
use fixtures::http::ask_on;
use fixtures::{PATIENCE, Process};
use serde_json::Value;
use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two rounds, in which the servers have the processors.
const PAUSE: Duration = Duration::from_millis(1);

/// How long all servers may take to serve a revision.
const SERVED_WITHIN: Duration = Duration::from_secs(600);

/// Servers that are asked again and again.
#[derive(Debug)]
pub(super) struct Watch(Vec<Watched>);

#[derive(Debug)]
struct Watched {
    admin: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Watch {
    /// Watches these servers.
    pub(super) fn new<'a>(servers: impl IntoIterator<Item = &'a Process>) -> Self {
        let admins = servers.into_iter().map(|server| server.address_of("admin"));
        Self(admins.map(|admin| Watched { admin, connection: None }).collect())
    }

    /// The oldest revision that any of them serves.
    pub(super) fn oldest(&mut self) -> Result<u64> {
        self.0.iter_mut().try_fold(u64::MAX, |oldest, server| Ok(oldest.min(server.revision()?)))
    }

    /// Waits until all serve a revision, or a newer one. Returns when each was first seen to.
    pub(super) fn wait(&mut self, revision: u64) -> Result<Vec<Instant>> {
        let mut waiting: Vec<&mut Watched> = self.0.iter_mut().collect();
        let (begun, mut seen) = (Instant::now(), Vec::new());
        while !waiting.is_empty() {
            let mut still = Vec::new();
            for server in waiting {
                if server.revision()? >= revision { seen.push(Instant::now()) } else { still.push(server) }
            }
            waiting = still;
            if let Some(server) = waiting.first().filter(|_| begun.elapsed() > SERVED_WITHIN) {
                return Err(format!("the server at {} does not serve revision {revision}", server.admin).into());
            }
            thread::sleep(PAUSE);
        }
        Ok(seen)
    }
}

impl Watched {
    fn revision(&mut self) -> Result<u64> {
        let kept = self.connection.is_some();
        match self.ask() {
            // The listener ends connections after a while.
            Err(_) if kept => {
                self.connection = None;
                self.ask()
            }
            revision => revision,
        }
    }

    fn ask(&mut self) -> Result<u64> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let stream = TcpStream::connect(self.admin)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                none.insert(BufReader::new(stream))
            }
        };
        let body = ask_on(connection, "/status").map_err(|error| format!("{}: {error}", self.admin))?;
        let status: Value = serde_json::from_slice(&body)?;
        let revision = status["member"][0]["revision"].as_u64();
        revision.ok_or_else(|| format!("{} does not say what it serves: {status}", self.admin).into())
    }
}
