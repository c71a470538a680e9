//! A program, as its operators see it.

use crate::figures;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use machine::{Table, metrics::Described};
use serde_json::Value;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The answer to a request.
pub type Answer = Response<Full<Bytes>>;

/// An answer on its way. It is dropped when its client hangs up.
pub type Answering = Pin<Box<dyn Future<Output = Result<Answer, Refused>> + Send>>;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status of the answer.
    pub status: StatusCode,
    /// The name of the reason.
    pub name: &'static str,
    /// The expected input, and the next step.
    pub text: String,
}

impl Refused {
    /// A refusal with this reason.
    pub fn new(status: StatusCode, name: &'static str, text: impl Into<String>) -> Self {
        Self { status, name, text: text.into() }
    }

    /// A request that cannot be understood.
    pub fn wrong(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", text)
    }
}

/// A function that reads the settings of a program again. It may block; an error leaves everything as it was.
#[derive(Clone)]
pub struct Reload(pub Arc<dyn Fn() -> Result<Value, String> + Send + Sync>);

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload")
    }
}

/// Tables, and the meanings of their columns.
pub type Tables = (Vec<Described<'static>>, Vec<Table>);

/// A program that operators observe and control. Except for [`Service::answer`], its methods must not block for long:
/// all operators share a thread.
pub trait Service: Send + Sync + 'static {
    /// Returns the tables with the program's figures, and their descriptions.
    fn tables(&self) -> Tables;

    /// Returns the reasons why the program is unhealthy; none if it is healthy.
    fn troubles(&self) -> Vec<String>;

    /// Returns the program's status: its tables, unless it has more to show.
    fn status(&self) -> Value {
        figures::json(&self.tables().1)
    }

    /// Returns how the settings are read again, if the program has any that can change.
    fn reload(&self) -> Option<Reload> {
        None
    }

    /// Lists the program's own requests, for operators who ask for one that does not exist.
    fn requests(&self) -> &'static str {
        ""
    }

    /// Answers one of the program's own requests.
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let refused = not_found(&request, &*self);
        Box::pin(async { Err(refused) })
    }

    /// Adjusts or counts a refusal before it is sent.
    fn refusing(&self, refused: Refused) -> Refused {
        refused
    }
}

/// Returns the refusal of a request that the program does not have.
pub fn not_found<S: Service + ?Sized>(request: &Request<Incoming>, service: &S) -> Refused {
    let (method, path) = (request.method(), request.uri().path());
    let more = Some(service.requests()).filter(|own| !own.is_empty()).map(|own| format!(", {own}")).unwrap_or_default();
    let text = format!(
        "'{method} {path}' does not exist: expected GET /status, GET /health, GET /metrics, POST /reload{more}"
    );
    Refused::new(StatusCode::NOT_FOUND, "no-such-request", text)
}

/// A program that can be observed and takes no requests of its own.
pub struct Observed<T, U> {
    /// Returns its tables.
    pub tables: T,
    /// Returns the reasons why it is unhealthy.
    pub troubles: U,
}

impl<T, U> fmt::Debug for Observed<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observed")
    }
}

impl<T, U> Service for Observed<T, U>
where
    T: Fn() -> Tables + Send + Sync + 'static,
    U: Fn() -> Vec<String> + Send + Sync + 'static,
{
    fn tables(&self) -> Tables {
        (self.tables)()
    }

    fn troubles(&self) -> Vec<String> {
        (self.troubles)()
    }
}
