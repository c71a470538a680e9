//! The socket, and the requests that are made there. A command has a thread of its own, as it may take long.

use super::{
    Action, BODY_BYTES_MAX, CONTROL_NAME, Controlled, Order, REPAIRED_MAX, REQUEST_WITHIN, by_descriptor, tables,
};
use net::{ListenError, listen_at_own_socket};
use ops::{
    Answer, Answering, Incoming, Limits, Listener, Refused, Request, Server, Service, StatusCode, Tables, json_answer,
    not_found,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Clean blocks that are told at a time.
const CLEAN_MAX: u32 = types::limits::VOLUME_SUMS_PER_ANSWER_MAX as u32;

/// A connection is for one request, which may take as long as a volume needs to be written back.
const LIMITS: Limits = Limits {
    connections: 16,
    head_bytes: 16 << 10,
    head_within: REQUEST_WITHIN,
    connection_within: Duration::MAX,
    keeps_alive: false,
    ..Limits::OPERATORS
};

/// A control socket, until it is dropped. A command that is under way then is given up where it waits.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    server: Option<Server>,
}

impl Control {
    /// Answers at a socket in this folder. That of a process that has ended is replaced.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn start(dir: &Path, controlled: Arc<dyn Controlled>) -> Result<Self, ListenError> {
        let path = dir.join(CONTROL_NAME);
        let listener = by_descriptor(dir).and_then(|(_open, path)| listen_at_own_socket(&path));
        let started = listener.and_then(|listener| {
            let service = Arc::new(Controls { controlled, has_commands: true });
            Server::start("control", vec![Listener::unix(listener)], LIMITS, service)
        });
        match started {
            Ok(server) => Ok(Self { path, server: Some(server) }),
            Err(error) => Err(ListenError::Socket(path, error)),
        }
    }

    /// Its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.server.take());
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the same for operators at an address. They can ask and change nothing: all users of a machine reach its
/// loopback addresses.
pub fn observed(controlled: Arc<dyn Controlled>) -> Arc<dyn Service> {
    Arc::new(Controls { controlled, has_commands: false })
}

struct Controls {
    controlled: Arc<dyn Controlled>,
    has_commands: bool,
}

impl Service for Controls {
    fn tables(&self) -> Tables {
        (tables::TABLES.to_vec(), self.controlled.tables())
    }

    fn troubles(&self) -> Vec<String> {
        self.controlled.troubles()
    }

    fn status(&self) -> Value {
        let mut status = json!({"kind": self.controlled.kind(), "identity": self.controlled.identity()});
        if let (Value::Object(all), Value::Object(more)) = (&mut status, self.controlled.status()) {
            all.extend(more);
        }
        status
    }

    fn requests(&self) -> &'static str {
        let commands = "POST /clean, POST /copies, POST /repair, POST /bring-home, POST /resize, POST /snapshot";
        if self.has_commands { commands } else { "" }
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        if self.has_commands {
            return Box::pin(async move { command(self, request).await });
        }
        let refused = not_found(&request, &*self);
        Box::pin(async { Err(refused) })
    }
}

async fn command(controls: Arc<Controls>, request: Request<Incoming>) -> Result<Answer, Refused> {
    let controlled = controls.controlled.clone();
    let Order { volume, action } = match (request.method().as_str(), request.uri().path()) {
        ("POST", "/bring-home") => {
            let OfVolume { volume } = body(request).await?;
            Order { volume, action: Action::BringHome }
        }
        ("POST", "/resize") => {
            let Resize { volume, size, may_shrink } = body(request).await?;
            Order { volume, action: Action::Resize { size, may_shrink } }
        }
        ("POST", "/snapshot") => {
            let Snapshot { volume, file } = body(request).await?;
            if !file.is_absolute() {
                return Err(Refused::wrong(format!("{} is not an absolute path", file.display())));
            }
            Order { volume, action: Action::Snapshot(file) }
        }
        ("POST", "/clean") => {
            let Clean { volume, first, blocks } = body(request).await?;
            expect(&*controlled, &volume)?;
            let found = while_wanted(move |_| controlled.clean(first, blocks.min(CLEAN_MAX))).await?;
            let found: Vec<_> = found.into_iter().map(|(block, sums)| [block, sums.kept, sums.read]).collect();
            return Ok(json_answer(&json!({"clean": found})));
        }
        ("POST", "/copies") => {
            let Copies { volume, repairs } = body(request).await?;
            expect(&*controlled, &volume)?;
            let compared = while_wanted(move |is_given_up| controlled.copies(repairs, is_given_up)).await?;
            return Ok(json_answer(&json!(compared)));
        }
        ("POST", "/repair") => {
            let ToRepair { volume, blocks } = body(request).await?;
            expect(&*controlled, &volume)?;
            let count = blocks.len().min(REPAIRED_MAX);
            let repairs = while_wanted(move |is_given_up| controlled.repair(&blocks[..count], is_given_up)).await?;
            return Ok(json_answer(&json!({"repairs": repairs})));
        }
        _ => return Err(not_found(&request, &*controls)),
    };
    expect(&*controlled, &volume)?;
    while_wanted(move |is_given_up| controlled.carry_out(action, is_given_up)).await?;
    Ok(json_answer(&json!({"done": true})))
}

/// Does something that takes long by a thread of its own, which is told when no request waits for it any more.
async fn while_wanted<T: Send + 'static>(
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, String> + Send + 'static,
) -> Result<T, Refused> {
    // Dropped with the connection.
    let wanted = Arc::new(());
    let is_wanted = Arc::downgrade(&wanted);
    let done = tokio::task::spawn_blocking(move || work(&|| is_wanted.strong_count() == 0)).await;
    drop(wanted);
    let done = done.unwrap_or_else(|_| Err("a thread panicked: please report it".to_owned()));
    done.map_err(conflict)
}

/// Refuses what is meant for another volume.
fn expect(controlled: &dyn Controlled, volume: &str) -> Result<(), Refused> {
    let identity = controlled.identity();
    if volume == identity {
        return Ok(());
    }
    let text = format!("this folder is that of {} {identity}, and not of {volume}", controlled.kind());
    Err(conflict(text))
}

fn conflict(text: String) -> Refused {
    Refused::new(StatusCode::CONFLICT, "conflict", text)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clean {
    volume: String,
    first: u32,
    blocks: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Copies {
    volume: String,
    #[serde(default)]
    repairs: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToRepair {
    volume: String,
    blocks: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfVolume {
    volume: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resize {
    volume: String,
    size: u64,
    may_shrink: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    volume: String,
    file: PathBuf,
}

async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refused> {
    let body = ops::body(request, BODY_BYTES_MAX, REQUEST_WITHIN).await?;
    serde_json::from_slice(&body).map_err(|error| Refused::wrong(format!("the body is none of this request: {error}")))
}
