//! The socket, and the thread that answers there. A command has a thread of its own, as it may take long.

use super::{
    Action, BODY_BYTES_MAX, CONNECTIONS_MAX, CONTROL_NAME, Controlled, Figures, HEAD_BYTES_MAX, Order, REPAIRED_MAX,
    REQUEST_WITHIN, by_descriptor,
};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{ListenError, listen_at_own_socket};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fmt;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// How long to wait before accepting again when the system has no room for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Clean blocks that are told at a time.
const CLEAN_MAX: u32 = types::limits::VOLUME_SUMS_PER_ANSWER_MAX as u32;

type Answer = Response<Full<Bytes>>;

/// Why a request is refused.
type Refused = (StatusCode, String);

/// A control socket, until it is dropped. A command that is under way then is given up where it waits.
pub struct Control {
    path: PathBuf,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Control {
    /// Answers at a socket in this folder. That of a process that has ended is replaced.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn start(dir: &Path, controlled: Arc<dyn Controlled>) -> Result<Self, ListenError> {
        let path = dir.join(CONTROL_NAME);
        let (stop, stopped) = watch::channel(false);
        let started = listen(dir).and_then(|listener| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = move || {
                runtime.block_on(run(listener, controlled, stopped));
                // A command may wait for a home that is away.
                runtime.shutdown_background();
            };
            thread::Builder::new().name("control".to_owned()).spawn(run)
        });
        match started {
            Ok(thread) => Ok(Self { path, stop, thread: Some(thread) }),
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
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it answers no more, and has said so.
            let _ = thread.join();
        }
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(dir: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let (_open, path) = by_descriptor(dir)?;
    listen_at_own_socket(&path)
}

async fn run(
    listener: std::os::unix::net::UnixListener,
    controlled: Arc<dyn Controlled>,
    mut stop: watch::Receiver<bool>,
) {
    let Ok(listener) = UnixListener::from_std(listener) else { return };
    tokio::select! {
        () = accept(&listener, &controlled) => {}
        _ = stop.wait_for(|is_stopped| *is_stopped) => {}
    }
}

async fn accept(listener: &UnixListener, controlled: &Arc<dyn Controlled>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Nobody closes the semaphore.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let controlled = controlled.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let controlled = controlled.clone();
                async move { Ok::<_, Infallible>(answer(controlled, request).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(REQUEST_WITHIN);
            server.max_buf_size(HEAD_BYTES_MAX).keep_alive(false);
            // An operator that breaks off, or speaks no HTTP, asks again.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

async fn answer(controlled: Arc<dyn Controlled>, request: Request<Incoming>) -> Answer {
    let answered = route(controlled, request).await;
    answered.unwrap_or_else(|(status, error)| {
        let mut answer = response("application/json", json!({"error": error}).to_string());
        *answer.status_mut() = status;
        answer
    })
}

async fn route(controlled: Arc<dyn Controlled>, request: Request<Incoming>) -> Result<Answer, Refused> {
    let Order { volume, action } = match (request.method().as_str(), request.uri().path()) {
        ("GET", "/status") => return Ok(response("application/json", status(&*controlled).to_string())),
        ("GET", "/metrics") => return Ok(response("text/plain; version=0.0.4", metrics(&*controlled))),
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
                return Err((StatusCode::BAD_REQUEST, format!("{} is not an absolute path", file.display())));
            }
            Order { volume, action: Action::Snapshot(file) }
        }
        ("POST", "/clean") => {
            let Clean { volume, first, blocks } = body(request).await?;
            expect(&*controlled, &volume)?;
            let found = while_wanted(move |_| controlled.clean(first, blocks.min(CLEAN_MAX))).await?;
            let found: Vec<_> = found.into_iter().map(|(block, sums)| [block, sums.kept, sums.read]).collect();
            return Ok(response("application/json", json!({"clean": found}).to_string()));
        }
        ("POST", "/copies") => {
            let Copies { volume, repairs } = body(request).await?;
            expect(&*controlled, &volume)?;
            let compared = while_wanted(move |is_given_up| controlled.copies(repairs, is_given_up)).await?;
            return Ok(response("application/json", json!(compared).to_string()));
        }
        ("POST", "/repair") => {
            let ToRepair { volume, blocks } = body(request).await?;
            expect(&*controlled, &volume)?;
            let count = blocks.len().min(REPAIRED_MAX);
            let repairs = while_wanted(move |is_given_up| controlled.repair(&blocks[..count], is_given_up)).await?;
            return Ok(response("application/json", json!({"repairs": repairs}).to_string()));
        }
        (method, path) => {
            let there = "GET /status, GET /metrics, POST /clean, POST /copies, POST /repair, POST /bring-home, POST /resize, \
                         POST /snapshot";
            let text = format!("'{method} {path}' is nothing here: {there}");
            return Err((StatusCode::NOT_FOUND, text));
        }
    };
    expect(&*controlled, &volume)?;
    while_wanted(move |is_given_up| controlled.carry_out(action, is_given_up)).await?;
    Ok(response("application/json", json!({"done": true}).to_string()))
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
    done.map_err(|why| (StatusCode::CONFLICT, why))
}

/// Refuses what is meant for another volume.
fn expect(controlled: &dyn Controlled, volume: &str) -> Result<(), Refused> {
    let identity = controlled.identity();
    if volume == identity {
        return Ok(());
    }
    let text = format!("this folder is that of {} {identity}, and not of {volume}", controlled.kind());
    Err((StatusCode::CONFLICT, text))
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
    let wrong = |text: String| (StatusCode::BAD_REQUEST, text);
    let body = timeout(REQUEST_WITHIN, Limited::new(request.into_body(), BODY_BYTES_MAX).collect()).await;
    let body = body.map_err(|_| wrong("the body took too long".to_owned()))?;
    let body = body.map_err(|error| wrong(format!("the body did not come: {error}")))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| wrong(format!("the body is none of this request: {error}")))
}

fn status(controlled: &dyn Controlled) -> Value {
    let mut status = json!({"kind": controlled.kind(), "identity": controlled.identity()});
    if let (Value::Object(all), Value::Object(more)) = (&mut status, controlled.status()) {
        all.extend(more);
    }
    status
}

fn metrics(controlled: &dyn Controlled) -> String {
    let (kind, Figures { gauges, counters }) = (controlled.kind(), controlled.figures());
    let label = controlled.label().map(|name| format!("{{{kind}=\"{}\"}}", escaped(name))).unwrap_or_default();
    let mut text = String::new();
    for (figures, end, what) in [(gauges, "", "gauge"), (counters, "_total", "counter")] {
        for (name, value) in figures.as_object().into_iter().flatten() {
            let value = match value {
                Value::Number(number) => number.to_string(),
                Value::Bool(is) => u8::from(*is).to_string(),
                _ => continue,
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "# TYPE thorp_{kind}_{name}{end} {what}\nthorp_{kind}_{name}{end}{label} {value}");
        }
    }
    text
}

/// The value of a label, as Prometheus reads it.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn response(kind: &'static str, text: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(text + "\n")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
