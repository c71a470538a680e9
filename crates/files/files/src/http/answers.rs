//! A request for a file of a site, from its head to its answer.

use crate::error::FilesError;
use crate::http::body::{FileBody, first_piece};
use crate::http::page::{Chosen, Page, Version};
use crate::http::refusal::{Missed, Refusal};
use crate::http::reply::Reply;
use crate::http::route::{Routed, route};
use crate::http::served::Served;
use crate::member::fetching::Here;
use crate::reader::Reader;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serving::{Answer, Answered, UnderWay};
use spread::{Opened, Visit};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tree::{Content, Piece};
use types::Time;

/// For how many seconds there may be a newer revision than the one that is served (rule SayWhenOver).
const STALE: HeaderName = HeaderName::from_static("thorp-stale");

/// How long a visitor waits for the newest revision of a site that is not pushed: as long as a lease lasts as a rule,
/// since a sequential publish may wait that long for another server that has vanished.
const NEWEST_WITHIN: Duration = Duration::from_secs(10);

/// How soon it is looked again without any news.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The part of a site's server that each thread has.
pub(crate) struct Answers(pub(crate) Arc<Served>);

type Answering = Pin<Box<dyn Future<Output = Result<Response<Answered<FileBody>>, Infallible>> + Send>>;

impl Answer for Answers {
    type Body = FileBody;
    type Answering = Answering;

    fn answer(&self, _peer: SocketAddr, under_way: UnderWay, request: Request<Incoming>) -> Answering {
        let served = self.0.clone();
        let (head, _) = request.into_parts();
        Box::pin(async move {
            served.requests.fetch_add(1, Relaxed);
            let is_head = head.method == Method::HEAD;
            let found = find(&served, head).await;
            if found.as_ref().is_ok_and(|found| found.head.status() == StatusCode::NOT_FOUND) {
                served.missing();
            }
            let answer = match found {
                Ok(found) if is_head => found.head.map(|()| FileBody::empty()),
                Ok(Found { head, source: Source::Bytes(bytes) }) => head.map(|()| FileBody::Whole(bytes)),
                Ok(Found { head, source: Source::Pieces { pieces, range, first } }) => {
                    head.map(|()| FileBody::chunks(served.clone(), pieces, range, first))
                }
                Err(missed) => {
                    let refusal = missed.refusal();
                    served.refused(&refusal);
                    let text = if is_head { "" } else { refusal.text() };
                    Reply::refused(&refusal).map(|()| FileBody::Whole(Bytes::from_static(text.as_bytes())))
                }
            };
            Ok(answer.map(|body| Answered::new(body, under_way)))
        })
    }
}

/// The head of an answer, and the source of its body.
struct Found {
    head: Response<()>,
    source: Source,
}

enum Source {
    Bytes(Bytes),
    Pieces { pieces: Vec<Piece>, range: Range<u64>, first: Option<Bytes> },
}

/// A visitor's wait for the newest revision of a site that is not pushed.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    /// Since when, by the member's clock.
    since: Option<Time>,
    /// Whether it is over.
    is_over: bool,
}

/// Finds the answer to a request: from memory, or on a thread that may wait for the disk; if need be when the newest
/// revision or content is here, for which no thread waits.
async fn find(served: &Arc<Served>, mut request: Parts) -> Result<Found, Missed> {
    let (mut wait, mut until, mut here) = (Wait::default(), None, Here::default());
    loop {
        let mut answer = found(served, false, &request, wait);
        if matches!(answer, Err(Missed::OnDisk)) {
            let served = served.clone();
            let read = spawn_blocking(move || (found(&served, true, &request, wait), request));
            (answer, request) = read.await.map_err(FilesError::from)?;
        }
        let since = match answer {
            Err(Missed::Elsewhere(hash)) => {
                here.add(served.origin.fetch(here.lack(hash)).await?);
                continue;
            }
            Err(Missed::Later(since)) => since,
            answer => return answer,
        };
        let until = *until.get_or_insert_with(|| Instant::now() + NEWEST_WITHIN);
        wait = Wait { since: Some(since), is_over: Instant::now() >= until };
        // Beside the news, as one may have come in between.
        let _ = timeout(LOOK_AGAIN_AFTER, served.origin.news()).await;
    }
}

/// Finds the answer to a request.
fn found(served: &Served, waits: bool, request: &Parts, wait: Wait) -> Result<Found, Missed> {
    let reader = served.reader(waits);
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(Refusal::Method.into());
    }
    let key = served.origin.visitor_key(waits)?.ok_or(Refusal::Empty)?;
    let visit = served.visitors.visit(&request.headers, &key);
    let visit = Visit { since: wait.since, is_last: wait.is_over, ..visit };
    let (revision, moves, stale) = match served.origin.open(visit, waits)? {
        Opened::View { stale: Some(_), .. } if served.refuses_stale() => return Err(Refusal::Stale.into()),
        Opened::View { revision, moves, stale } => (revision, moves, stale),
        Opened::Behind => return Err(Refusal::Behind.into()),
        Opened::Gone => return Err(Refusal::RevisionGone.into()),
        Opened::Nothing => return Err(Refusal::Empty.into()),
        Opened::Later(since) => return Err(Missed::Later(since)),
    };
    let (mut reply, source) = match route(served, reader, revision.root, &request.uri)? {
        Routed::Page(found) => {
            with_page(reader, request, &found.page, |page, version| Reply::page(request, page, version, &found.fields))?
        }
        Routed::Instead(found, fields) => {
            with_page(reader, request, &found.page, |page, version| Reply::page(request, page, version, &fields))?
        }
        Routed::Missing(found, fields) => {
            with_page(reader, request, &found.page, |page, version| Ok(Reply::missing(page, version, &fields)))?
        }
        Routed::Redirect(status, location) => (Reply::redirect(status, location), Source::Bytes(Bytes::new())),
        Routed::Slash => {
            let reply = Reply::slash(request.uri.path(), request.uri.query())?;
            (reply, Source::Bytes(Bytes::new()))
        }
    };
    if moves && let Some(cookie) = served.visitors.cookie(revision.number, &key) {
        reply.move_session(cookie);
    }
    let mut head = reply.head;
    if let Some(stale) = stale {
        head.headers_mut().insert(STALE, stale.as_secs().into());
    }
    Ok(Found { head, source })
}

/// An answer with a page: its head, and the source of the version that the request prefers.
fn with_page<'a>(
    reader: Reader<'_>,
    request: &Parts,
    page: &'a Page,
    head: impl FnOnce(&'a Page, Chosen<'a>) -> Result<Reply, Refusal>,
) -> Result<(Reply, Source), Missed> {
    let chosen = page.preferred(&request.headers);
    let reply = head(page, chosen)?;
    let source = source(reader, request, chosen.0, &reply.range)?;
    Ok((reply, source))
}

/// The source of a range of a content.
fn source(reader: Reader<'_>, request: &Parts, version: &Version, range: &Range<u64>) -> Result<Source, Missed> {
    let Range { start, end } = *range;
    let bytes = |whole: &Bytes| Source::Bytes(whole.slice(start as usize..end as usize));
    let content = match &version.content {
        Content::Inline(whole) => return Ok(bytes(whole)),
        _ if start == end || request.method == Method::HEAD => return Ok(Source::Bytes(Bytes::new())),
        content => content,
    };
    if let Content::Pieces(pieces) = content
        && let [piece] = &**pieces
    {
        let whole = reader.piece(piece)?;
        if whole.is_held {
            return Ok(bytes(&whole.bytes));
        }
    }
    let (pieces, range) = (reader.pieces(version.size, content)?, start..end);
    let first = first_piece(&pieces, &range).map(|piece| reader.piece(piece)).transpose()?;
    let first = first.filter(|first| first.is_held).map(|first| first.bytes);
    Ok(Source::Pieces { pieces, range, first })
}
