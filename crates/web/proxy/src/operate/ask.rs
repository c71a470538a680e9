//! Asking a running proxy, over its listener for operators.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a proxy may take to answer. An update waits for homes as long as their lease at most.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Changes that no response may be answered without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Names that responses depend on.
    pub dependencies: Vec<String>,
    /// The URLs of responses.
    pub urls: Vec<String>,
    /// Everything.
    pub all: bool,
    /// Responses under the URLs are kept, and validated before they are used again.
    pub soft: bool,
}

/// Why a proxy did not do what it was asked.
#[derive(Debug)]
pub enum AskError {
    /// It is not reached, or has hung up.
    Unreachable(String, io::Error),
    /// It has not answered in time.
    Late(String),
    /// It has refused, with these words.
    Refused(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(admin, error) => write!(f, "no proxy is reached at {admin}: {error}"),
            Self::Late(admin) => write!(f, "the proxy at {admin} does not answer"),
            Self::Refused(why) => write!(f, "the proxy refuses: {why}"),
        }
    }
}

impl std::error::Error for AskError {}

/// Has the proxy whose operators' address this is invalidate what the changes are about. When this returns, no later
/// request is answered without them. Returns what the proxy says: how many dependencies it was, how many responses of
/// its home depended on them (`dependents`), and how many were removed by their URLs; and what of it nothing was stored
/// for (`without_dependents`, `urls_without_responses`).
///
/// # Errors
/// The proxy is not there, or does not want to.
pub fn invalidate(admin: &str, token: Option<&str>, changes: &Changes) -> Result<Value, AskError> {
    let Changes { dependencies, urls, all, soft } = changes;
    ask(admin, token, "/invalidate", &json!({"dependencies": dependencies, "urls": urls, "all": all, "soft": soft}))
}

/// Why a proxy answers a URL as it does: what it has stored for it, and what it decided when it last asked the origin.
///
/// # Errors
/// The proxy is not there, or does not want to say.
pub fn why(admin: &str, token: Option<&str>, url: &str) -> Result<Value, AskError> {
    ask(admin, token, "/why", &json!({"url": url}))
}

/// The stored responses of a proxy that depend on something.
///
/// # Errors
/// The proxy is not there, or does not want to say.
pub fn who(admin: &str, token: Option<&str>, dependency: &str) -> Result<Value, AskError> {
    ask(admin, token, "/who", &json!({"dependency": dependency}))
}

fn ask(admin: &str, token: Option<&str>, path: &str, question: &Value) -> Result<Value, AskError> {
    let unreachable = |error| AskError::Unreachable(admin.to_owned(), error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unreachable)?;
    // Within the runtime: the timeout is its timer.
    let asked =
        runtime.block_on(async { timeout(ANSWER_WITHIN, post(admin, token, path, question.to_string())).await });
    let (status, body) = asked.map_err(|_| AskError::Late(admin.to_owned()))?.map_err(unreachable)?;
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status == StatusCode::OK {
        return Ok(said);
    }
    let why = said["error"].as_str().map_or_else(|| status.to_string(), str::to_owned);
    Err(AskError::Refused(why))
}

async fn post(admin: &str, token: Option<&str>, path: &str, body: String) -> io::Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(admin).await?;
    let address = stream.peer_addr()?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let mut request = Request::post(path).header(HOST, address.to_string()).header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
    let (head, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    Ok((head.status, body.to_bytes()))
}
