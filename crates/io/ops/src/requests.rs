//! The requests that every program answers.

use crate::guard::Token;
use crate::prometheus;
use crate::service::{Answer, Refused, Service};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub(crate) async fn answer(service: Arc<dyn Service>, token: Option<&Token>, request: Request<Incoming>) -> Answer {
    let answered = match token.map_or(Ok(()), |token| token.check(request.headers())) {
        Ok(()) => route(service.clone(), request).await,
        Err(refused) => Err(refused),
    };
    answered.unwrap_or_else(|refused| {
        let Refused { status, name, text } = service.refusing(refused);
        with_status(status, json_answer(&json!({"error": text, "refused": name})))
    })
}

async fn route(service: Arc<dyn Service>, request: Request<Incoming>) -> Result<Answer, Refused> {
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/status") => Ok(json_answer(&service.status())),
        ("GET", "/health") => Ok(health(&service.troubles())),
        ("GET", "/metrics") => Ok(whole("text/plain; version=0.0.4", prometheus::text(&service.tables()))),
        ("POST", "/reload") => reload(&*service).await,
        _ => service.answer(request).await,
    }
}

fn health(troubles: &[String]) -> Answer {
    let status = if troubles.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    with_status(status, json_answer(&json!({"healthy": troubles.is_empty(), "troubles": troubles})))
}

async fn reload(service: &dyn Service) -> Result<Answer, Refused> {
    let Some(reload) = service.reload() else {
        let text = "this program has no settings that it could read again: start it again to change them";
        return Err(Refused::new(StatusCode::NOT_FOUND, "nothing-to-reload", text));
    };
    let reloaded = spawn_blocking(move || (reload.0)()).await;
    let reloaded = reloaded.unwrap_or_else(|_| Err("a thread panicked: please report it".to_owned()));
    let refused = |why| Refused::new(StatusCode::CONFLICT, "settings-refused", why);
    Ok(json_answer(&reloaded.map_err(refused)?))
}

/// Returns the body of a request.
///
/// # Errors
/// It is larger than `bytes_max`, or does not arrive within `within`.
pub async fn body(request: Request<Incoming>, bytes_max: usize, within: Duration) -> Result<Bytes, Refused> {
    let collected = timeout(within, Limited::new(request.into_body(), bytes_max).collect()).await;
    let late = |_| Refused::new(StatusCode::BAD_REQUEST, "no-body", "the body took too long");
    let cut = |error| {
        let text = format!("the body did not arrive ({error}): expected at most {bytes_max} bytes");
        Refused::new(StatusCode::BAD_REQUEST, "no-body", text)
    };
    Ok(collected.map_err(late)?.map_err(cut)?.to_bytes())
}

/// Returns an answer with this value.
pub fn json_answer(value: &Value) -> Answer {
    whole("application/json", value.to_string() + "\n")
}

fn whole(kind: &'static str, text: String) -> Answer {
    let mut answer = Answer::new(Full::new(Bytes::from(text)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn with_status(status: StatusCode, mut answer: Answer) -> Answer {
    *answer.status_mut() = status;
    answer
}
