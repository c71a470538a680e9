//! A connection that is switched to another protocol: a WebSocket, from a client to the origin.

use crate::client::Client;
use crate::origin::RequestHead;
use crate::request::answer::passed;
use crate::request::body::Body;
use crate::request::refusal::Refusal;
use crate::request::target::{Head, Target};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::{self, OnUpgrade};
use hyper_util::rt::TokioIo;
use responses::{CacheStatus, ForwardReason};
use serving::UnderWay;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::time::sleep;

/// Asks the origin to switch. If it does, bytes are carried both ways until one end closes, or neither says anything
/// for too long; else its response is passed on.
pub(crate) async fn open(client: &Client, mut request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    // A body before the switch is no part of either protocol.
    if !request.body().is_end_stream() {
        return Err(Refusal::WrongTarget);
    }
    let shared = &*client.worker.shared;
    let from_client = upgrade::on(&mut request);
    let (head, _) = request.into_parts();
    let target = Target::of(&Head::from(&head), client.scheme, &shared.config.origin.authority)?;
    let mut fields = client.forwarded(&head, &target);
    ask_for_web_socket(&mut fields);
    let mut response = client.worker.origin.send(RequestHead::of(&head, fields)).await?;
    let status = CacheStatus { forward: Some(ForwardReason::Bypass), ..CacheStatus::default() };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(passed(shared, &Method::GET, response.map(Body::Origin), &status));
    }
    if !response.headers().get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        return Err(Refusal::OriginProtocol);
    }
    let from_origin = upgrade::on(&mut response);
    let (client, silence_max) = (client.clone(), shared.config.limits.tunnel);
    let (head, body) = response.into_parts();
    let mut answer = passed(shared, &Method::GET, Response::from_parts(head, Body::Empty), &status);
    ask_for_web_socket(answer.headers_mut());
    // Its connection is not idle, though no request is under way on it.
    let under_way = UnderWay::begin(client.activity.clone());
    tokio::spawn(async move {
        carry(client, from_client, from_origin, silence_max).await;
        // A tunnel counts as long-lived to its end.
        drop((body, under_way));
    });
    Ok(answer)
}

fn ask_for_web_socket(fields: &mut http::HeaderMap) {
    fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// Carries bytes both ways. The marks of the client's connection tell when both ends were silent for too long.
async fn carry(client: Client, from_client: OnUpgrade, from_origin: OnUpgrade, silence_max: Duration) {
    let (Ok(one), Ok(other)) = (from_client.await, from_origin.await) else { return };
    let (mut one, mut other) = (TokioIo::new(one), TokioIo::new(other));
    let silence = async {
        while let Some(left) = silence_max.checked_sub(client.activity.silence()) {
            sleep(left.max(Duration::from_millis(1))).await;
        }
    };
    tokio::select! {
        // An end that closes is what ends a tunnel; how makes no difference here.
        _ = copy_bidirectional(&mut one, &mut other) => {}
        () = silence => {}
    }
}
