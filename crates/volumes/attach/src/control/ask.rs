//! Asking a volume that is attached, or a holder that runs, over the socket in its folder.

use super::{ANSWER_BYTES_MAX, CONTROL_NAME, Order, STATUS_WITHIN, by_descriptor};
use crate::scrub::{ComparedCopies, Repair};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use machines::messages::home::BlockSums;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// How often to look whether anybody still wants what is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why a question has no answer.
#[derive(Debug)]
pub enum ControlError {
    /// There is no such folder, or no socket in it.
    NotThere(PathBuf),
    /// There is a socket, and its process has ended.
    Ended(PathBuf),
    /// The socket is another user's.
    NotAllowed(PathBuf),
    /// It cannot be asked.
    Io(PathBuf, io::Error),
    /// It has not answered in time.
    Late(PathBuf),
    /// It has refused, with these words.
    Refused(String),
    /// A path is not UTF-8, which a request cannot say.
    NoText(PathBuf),
    /// Nobody waits for it any more.
    GivenUp,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(dir) => write!(f, "nothing runs in {}: it has no socket `{CONTROL_NAME}`", dir.display()),
            Self::Ended(dir) => write!(f, "nothing runs in {} any more: its process has ended", dir.display()),
            Self::NotAllowed(dir) => {
                write!(f, "{} is for the user that has started it: ask as that user, or as root", dir.display())
            }
            Self::Io(dir, error) => write!(f, "{} cannot be asked: {error}", dir.join(CONTROL_NAME).display()),
            Self::Late(dir) => write!(f, "{} does not answer: look at its process", dir.display()),
            Self::Refused(why) => f.write_str(why),
            Self::NoText(dir) => {
                write!(
                    f,
                    "a path is not UTF-8, which the process of {} cannot be told: choose another name",
                    dir.display()
                )
            }
            Self::GivenUp => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for ControlError {}

impl ControlError {
    fn of(dir: &Path, error: io::Error) -> Self {
        let dir = dir.to_owned();
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::NotThere(dir),
            ErrorKind::ConnectionRefused => Self::Ended(dir),
            ErrorKind::PermissionDenied => Self::NotAllowed(dir),
            _ => Self::Io(dir, error),
        }
    }
}

/// How the volume or the holder in this folder stands.
///
/// # Errors
/// There is none, or it does not say.
pub fn ask(dir: &Path) -> Result<Value, ControlError> {
    let answered = async {
        let exchange = exchange(dir, Request::get("/status"), Bytes::new());
        let late = || ControlError::Late(dir.to_owned());
        timeout(STATUS_WITHIN, exchange).await.map_err(|_| late())?.map_err(|error| ControlError::of(dir, error))
    };
    run(dir, answered)
}

/// Has the volume in this folder do something, and waits for as long as that takes, or until nobody wants it any more.
///
/// # Errors
/// There is none, or it does not do it.
pub fn order(dir: &Path, order: &Order, is_given_up: &dyn Fn() -> bool) -> Result<(), ControlError> {
    let body = order.body().ok_or_else(|| ControlError::NoText(dir.to_owned()))?;
    while_wanted(dir, order.path(), &body, is_given_up).map(drop)
}

/// Has the attached volume in this folder compare what is not written back with the copies at its holders, and waits
/// for as long as that takes, or until nobody wants it any more.
///
/// # Errors
/// There is none, or it is another volume, or it does not say.
pub fn copies(
    dir: &Path,
    volume: &str,
    repairs: bool,
    is_given_up: &dyn Fn() -> bool,
) -> Result<ComparedCopies, ControlError> {
    // An earlier version knows nothing of repairs.
    let body = if repairs { json!({"volume": volume, "repairs": true}) } else { json!({"volume": volume}) };
    let answer = while_wanted(dir, "/copies", &body, is_given_up)?;
    serde_json::from_value(answer).map_err(|error| of_another_version(&error))
}

/// Has the attached volume in this folder repair those of these blocks that are damaged, [`super::REPAIRED_MAX`] at
/// most, and waits for the end, or until it is given up.
///
/// # Errors
/// There is none, or it is another volume, or it does not do it.
pub fn repair(
    dir: &Path,
    volume: &str,
    blocks: &[u32],
    is_given_up: &dyn Fn() -> bool,
) -> Result<Vec<Repair>, ControlError> {
    let answer = while_wanted(dir, "/repair", &json!({"volume": volume, "blocks": blocks}), is_given_up)?;
    serde_json::from_value(answer["repairs"].clone()).map_err(|error| of_another_version(&error))
}

fn of_another_version(error: &serde_json::Error) -> ControlError {
    ControlError::Refused(format!("its process tells what none does ({error}): is it of another version?"))
}

/// Asks for something that may take long.
fn while_wanted(dir: &Path, path: &str, body: &Value, is_given_up: &dyn Fn() -> bool) -> Result<Value, ControlError> {
    let given_up = async {
        while !is_given_up() {
            sleep(LOOK_EVERY).await;
        }
    };
    let answered = async {
        tokio::select! {
            answered = exchange(dir, Request::post(path), body.to_string().into()) => {
                answered.map_err(|error| ControlError::of(dir, error))
            }
            () = given_up => Err(ControlError::GivenUp),
        }
    };
    run(dir, answered)
}

/// The clean blocks among so many from this one on of the attached volume in this folder, with their checksums: as they
/// are kept, and as they are read.
///
/// # Errors
/// There is none, or it is another volume, or it does not say.
pub fn clean(dir: &Path, volume: &str, first: u32, blocks: u32) -> Result<Vec<(u32, BlockSums)>, ControlError> {
    let body = json!({"volume": volume, "first": first, "blocks": blocks}).to_string();
    let answered = async {
        let exchange = exchange(dir, Request::post("/clean"), body.into());
        let late = || ControlError::Late(dir.to_owned());
        timeout(STATUS_WITHIN, exchange).await.map_err(|_| late())?.map_err(|error| ControlError::of(dir, error))
    };
    let mut answer = run(dir, answered)?;
    let found: Vec<[u32; 3]> =
        serde_json::from_value(answer["clean"].take()).map_err(|error| of_another_version(&error))?;
    Ok(found.into_iter().map(|[block, kept, read]| (block, BlockSums { kept, read })).collect())
}

/// Waits for an answer, and gives what it says.
fn run(
    dir: &Path,
    answered: impl Future<Output = Result<(StatusCode, Bytes), ControlError>>,
) -> Result<Value, ControlError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (status, body) = runtime.map_err(|error| ControlError::of(dir, error))?.block_on(answered)?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status == StatusCode::OK {
        return Ok(answer);
    }
    let why = answer["error"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    Err(ControlError::Refused(why))
}

async fn exchange(dir: &Path, request: http::request::Builder, body: Bytes) -> io::Result<(StatusCode, Bytes)> {
    let (_open, path) = by_descriptor(dir)?;
    let stream = UnixStream::connect(path).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = request.header(HOST, CONTROL_NAME).header(CONTENT_TYPE, "application/json").body(Full::new(body));
    let answered = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
    let (head, body) = answered.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    Ok((head.status, body.to_bytes()))
}
