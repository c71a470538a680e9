//! A fill: a response on its way from the origin into the cache.

pub(crate) mod along;
pub(crate) mod collect;
mod confirm;
mod decide;
pub(crate) mod fills;
pub(crate) mod moments;
pub(crate) mod reserved;

use crate::fill::along::{Along, Since};
use crate::fill::collect::Writer;
use crate::fill::fills::{Join, Lead, Outcome};
use crate::fill::reserved::NoRoom;
use crate::origin::RequestHead;
use crate::request::answer::{not_modified, passed, stored};
use crate::request::body::Body;
use crate::request::misread::IN_TRAILER;
use crate::request::paced::{Arriving, BodyError};
use crate::request::refusal::Refusal;
use crate::shared::{Shared, now};
use crate::stored::coherence::Claim;
use crate::stored::content::Content;
use crate::stored::entries::Name;
use crate::stored::entry::Entry;
use crate::worker::Worker;
use bytes::Bytes;
use coherence::Ticket;
use decide::{Decided, Declined};
use http::header::{DATE, RANGE};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::{Body as _, Frame};
use responses::{
    Answer, CacheStatus, ForwardReason, KeyRef, NotStored, Request, Reuse, Stored, Time, Validity, after_error, answer,
    conditional, unconditional,
};
use serving::HintsTo;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Why the origin is asked.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) reason: ForwardReason,
    pub(crate) detail: Option<&'static str>,
    /// The stored response that it is asked about.
    pub(crate) stale: Option<Arc<Entry>>,
    /// Whether the answer does for others that come in the meantime.
    pub(crate) is_shared: bool,
}

/// The reason for which a response is not stored after all: it was removed, or new settings came, while it was on its
/// way.
const OVERTAKEN: &str = "overtaken";

/// Likewise: its body broke off.
const INCOMPLETE: &str = "incomplete";

/// A fill under way.
#[derive(Debug)]
pub(crate) struct Fill {
    worker: Arc<Worker>,
    /// The request as the client sent it, with a URI in absolute form.
    head: Parts,
    name: Name,
    need: Need,
    /// Those who wait for it.
    lead: Option<Lead>,
    /// As of before the request went to the origin.
    since: Since,
    ticket: Option<Ticket>,
    /// The home's word on the stored response that the origin is asked about.
    validity: Validity,
    forwarded: HeaderMap,
    hints: Option<HintsTo>,
}

/// When the origin was asked, and when the head of its response came.
#[derive(Clone, Copy, Debug)]
struct Times {
    requested: Time,
    received: Time,
}

impl Times {
    fn response(self, status: StatusCode, headers: &HeaderMap) -> responses::Response<'_> {
        responses::Response { status, headers, requested: self.requested, received: self.received }
    }
}

/// The answer to the requester of a fill.
type Reply = Result<Response<Body>, Refusal>;

impl Fill {
    pub(crate) fn new(
        worker: Arc<Worker>,
        head: Parts,
        forwarded: HeaderMap,
        name: Name,
        need: Need,
        lead: Option<Lead>,
    ) -> Self {
        let shared = &worker.shared;
        let (removals, lapses) = (shared.entries.removals(name.hash), shared.lapses_before());
        let (since, ticket, validity) = (Since { removals, lapses }, None, Validity::Invalidated);
        Self { worker, head, name, need, lead, since, ticket, validity, forwarded, hints: None }
    }

    /// Sets where the hints go that come before the response.
    pub(crate) fn with_hints(self, hints: Option<HintsTo>) -> Self {
        Self { hints, ..self }
    }

    /// Runs it to its end. The requester is answered as soon as the head of the response is there.
    pub(crate) async fn run(mut self, reply: oneshot::Sender<Reply>) {
        self.ticket = self.shared().coherence.ticket(&self.name.key).await;
        // Behind the ticket: an update after this look leaves what the origin confirms by it unstored.
        if let Some(stale) = self.need.stale.clone() {
            self.validity = stale.validity().await;
        }
        let mut is_conditional = match &self.need.stale {
            Some(stale) => conditional(&stale.stored, self.validity, &mut self.forwarded),
            None if self.lead.is_some() || !self.head.headers.contains_key(RANGE) => {
                unconditional(&mut self.forwarded);
                false
            }
            // The part of something that is not here is the origin's to give.
            None => false,
        };
        let (answer, collecting) = loop {
            let requested = now();
            let head = RequestHead::of(&self.head, self.forwarded.clone()).with_hints(self.hints.clone());
            let response = self.worker.origin.send(head).await;
            let times = Times { requested, received: now() };
            let outcome = response.as_ref().map(Response::status).map_err(|refusal| *refusal);
            self.shared().counters.forwarded(self.need.reason, outcome);
            match response {
                Err(refusal) => {
                    self.decided(CacheStatus { detail: Some(refusal.name()), ..self.status() }, None);
                    break (self.failed().ok_or(refusal), None);
                }
                Ok(response) if is_conditional && response.status() == StatusCode::NOT_MODIFIED => {
                    if let Some(answer) = self.confirmed(response.headers(), times).await {
                        break (Ok(answer), None);
                    }
                    // It speaks of some other response: this time for the whole.
                    is_conditional = false;
                    unconditional(&mut self.forwarded);
                }
                Ok(response) if self.head.method == Method::HEAD && self.need.stale.is_some() => {
                    break (Ok(self.head_received(response, times).await), None);
                }
                Ok(response) => {
                    let instead = if is_error(response.status()) { self.failed() } else { None };
                    if let Some(answer) = instead {
                        break (Ok(answer), None);
                    }
                    let (answer, collecting) = self.received(response, times).await;
                    break (Ok(answer), collecting);
                }
            }
        };
        // A requester that has gone does not keep the response from being stored.
        let _ = reply.send(answer);
        if let Some(collecting) = collecting {
            self.collect(collecting).await;
        }
    }

    fn shared(&self) -> &Shared {
        &self.worker.shared
    }

    fn asked(&self) -> Request<'_> {
        let target = KeyRef::of_uri(&self.head.uri).expect("the URI was made of a key's parts");
        Request::new(&self.shared().config.policy, &self.head.method, target, &self.head.headers)
    }

    fn status(&self) -> CacheStatus {
        CacheStatus { forward: Some(self.need.reason), detail: self.need.detail, ..CacheStatus::default() }
    }

    fn is_shared(&self) -> bool {
        self.lead.as_ref().is_some_and(Lead::is_shared)
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(lead) = self.lead.take() {
            lead.end(outcome);
        }
    }

    /// Remembers what was decided.
    fn decided(&self, status: CacheStatus, response: Option<StatusCode>) {
        self.shared().decided(self.name.hash, status, response);
    }

    /// The origin has failed. A stale response answers, where that is allowed.
    fn failed(&mut self) -> Option<Response<Body>> {
        let answer = self.need.stale.as_ref().and_then(|stale| {
            let shared = self.shared();
            let now = now();
            match after_error(&shared.config.policy, &stale.stored, self.validity, now)? {
                Reuse::Stale { age_s, ttl_s, allowed } => {
                    let status = CacheStatus { ttl_s: Some(ttl_s), detail: Some(allowed.name()), ..self.status() };
                    Some(stored(shared, &self.asked(), stale, now, age_s, &status))
                }
                Reuse::Fresh { .. } | Reuse::Revalidate(_) => None,
            }
        });
        self.end(Outcome::Failed);
        answer
    }

    /// The head of a response has come.
    async fn received(&mut self, response: Response<Arriving>, times: Times) -> (Response<Body>, Option<Collecting>) {
        let shared = self.worker.shared.clone();
        let (mut head, body) = response.into_parts();
        head.headers.entry(DATE).or_insert_with(|| times.received.to_header());
        let size = body.size_hint();
        let decided = self.decide(head.status, &head.headers, &size, times).await;
        let Decided { stored, reserved, claim } = match decided {
            Ok(decided) => decided,
            Err(Declined { detail, outcome, is_lasting }) => {
                self.decline(head.status, outcome, is_lasting);
                shared.misread_response(&self.head.uri, detail, &head.headers);
                let status = CacheStatus { detail: Some(detail), ..self.status() };
                self.decided(status, Some(head.status));
                if self.is_part_of_storable(head.status, &head.headers, times) {
                    self.fetch_whole();
                }
                let response = Response::from_parts(head, Body::Origin(body));
                return (passed(&shared, &self.head.method, response, &status), None);
            }
        };
        let freshness = stored.freshness();
        let (age_s, ttl_s) = (freshness.age_s(times.received), freshness.ttl_s(times.received));
        let status = match &claim {
            Ok(_) => CacheStatus { stored: true, ttl_s: Some(ttl_s), ..self.status() },
            Err(reason) => {
                self.displace_stale();
                CacheStatus { detail: Some(reason), ..self.status() }
            }
        };
        self.decided(status, Some(head.status));
        let (writer, reader) = collect::pair(size, reserved);
        // The origin was asked for the whole; the client may have it already.
        let how = answer(&self.asked(), &stored, u64::MAX, times.received);
        let answer = if how == Answer::NotModified {
            not_modified(&shared, &stored, age_s, &status)
        } else {
            let response = Response::from_parts(head, Body::Collected(Box::new(reader)));
            passed(&shared, &self.head.method, response, &status)
        };
        let not_stored = claim.as_ref().err().copied();
        let along = Arc::new(Along::new(stored, self.since, writer.body(), claim.ok()));
        let collecting = Collecting { body, writer, along, not_stored };
        if collecting.body.is_end_stream() {
            self.publish(&collecting, &[]);
            collecting.writer.finish();
            return (answer, None);
        }
        self.arrives(&collecting);
        (answer, Some(collecting))
    }

    /// The body of a response begins to arrive: those that wait may read along. One of an unknown size may turn out to
    /// be more than is stored, and then its rest is for this client alone.
    fn arrives(&mut self, collecting: &Collecting) {
        let along = collecting.along.clone();
        match (collecting.not_stored, &self.lead) {
            (Some(reason), _) if collecting.is_sized() => self.end(Outcome::Passed(along, reason)),
            (Some(_), Some(lead)) => lead.passes(),
            (None, Some(lead)) if collecting.is_sized() => lead.arrives(along),
            (None, Some(lead)) => lead.collects(),
            _ => {}
        }
    }

    /// Fetches the whole of what this client gets a part of: later ranges are answered from it. Ranges that come in the
    /// meantime do not start it again.
    fn fetch_whole(&self) {
        let Join::Lead(lead) = self.shared().fills.join(&self.name, self.shared().fills.come()) else { return };
        let (mut head, mut forwarded) = (self.head.clone(), self.forwarded.clone());
        unconditional(&mut head.headers);
        unconditional(&mut forwarded);
        let need = Need { reason: self.need.reason, detail: None, stale: None, is_shared: true };
        let fill = Self::new(self.worker.clone(), head, forwarded, self.name.clone(), need, Some(lead));
        // No client waits for its answer.
        let (reply, _) = oneshot::channel();
        tokio::spawn(fill.run(reply));
    }

    /// A response is not stored, and takes the place of a stored one that was asked about all the same.
    fn decline(&mut self, status: StatusCode, outcome: Outcome, is_lasting: bool) {
        if !status.is_server_error() {
            self.displace_stale();
        }
        if is_lasting {
            self.shared().fills.remember(self.name.hash, true);
        }
        self.end(outcome);
    }

    /// Another response is the answer now.
    fn displace_stale(&self) {
        if self.need.stale.is_some() {
            self.shared().entries.remove(&self.name.key);
        }
    }

    /// Stores a response, unless something was removed or new settings came since the origin was asked.
    fn keep(&self, stored: Stored, content: &Content, claim: Claim) -> bool {
        let shared = self.shared();
        !shared.is_over() && shared.entries.insert(&self.name, self.since.removals, stored, content, claim)
    }

    /// A response is whole: it goes into the cache, if its home has stored it, and to those that wait.
    fn publish(&mut self, collecting: &Collecting, received: &[Bytes]) {
        let shared = self.worker.shared.clone();
        let Collecting { writer, along, not_stored, .. } = collecting;
        let content = Content::of(received);
        let is_kept = along.take_claim().is_some_and(|claim| self.keep(along.stored.clone(), &content, claim));
        shared.fills.remember(self.name.hash, false);
        writer.settle(content);
        if is_kept {
            return self.end(Outcome::Stored);
        }
        let reason = not_stored.unwrap_or(OVERTAKEN);
        shared.corrected(self.name.hash, reason);
        self.end(Outcome::Passed(along.clone(), reason));
    }

    /// Dependencies that are named behind the body are too late: an update of them may have been missed.
    fn look_for_dependencies(&self, collecting: &mut Collecting, trailers: &HeaderMap) {
        let shared = self.shared();
        if shared.config.policy.dependency_fields.iter().any(|field| trailers.contains_key(&field.name)) {
            drop(collecting.along.take_claim());
            collecting.not_stored.get_or_insert(IN_TRAILER);
            shared.misread_response(&self.head.uri, IN_TRAILER, trailers);
        }
    }

    /// Takes in the body of a response that should be stored, or that others share.
    async fn collect(mut self, mut collecting: Collecting) {
        let (mut is_published, mut received, mut bytes) = (false, Vec::new(), 0);
        while let Some(frame) = collecting.frame().await {
            // Broken off, for the client and for those that wait.
            let Ok(frame) = frame else {
                self.shared().corrected(self.name.hash, INCOMPLETE);
                return self.end(Outcome::Failed);
            };
            let piece = match frame.into_data() {
                Ok(piece) => piece,
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.look_for_dependencies(&mut collecting, &trailers);
                        collecting.writer.push_trailers(trailers);
                    }
                    continue;
                }
            };
            bytes += piece.len();
            if let Err((why, is_lasting)) = collecting.goes_on(bytes) {
                self.shared().corrected(self.name.hash, why);
                collecting.writer.push(piece);
                collecting.writer.leave(collecting.body);
                if !is_lasting {
                    return self.end(Outcome::Failed);
                }
                self.shared().fills.remember(self.name.hash, true);
                return self.end(Outcome::Unstorable);
            }
            received.push(piece.clone());
            // The client may ask again the moment that it has the last byte: then it is stored.
            if collecting.body.is_end_stream() {
                is_published = true;
                self.publish(&collecting, &received);
            } else {
                collecting.writer.push(piece);
            }
        }
        if !is_published {
            self.publish(&collecting, &received);
        }
        collecting.writer.finish();
    }
}

/// A response whose body is being stored, or is for those that share it.
#[derive(Debug)]
struct Collecting {
    body: Arriving,
    writer: Writer,
    along: Arc<Along>,
    /// The name of the reason, if its home has not stored it.
    not_stored: Option<&'static str>,
}

impl Collecting {
    fn is_sized(&self) -> bool {
        self.along.body.bytes().is_some()
    }

    /// Checks whether more of a body is taken in, after `bytes` of it; or returns the name of the reason, and whether
    /// the next one will not be either. One of an unknown size may outlive its response, and then it is of no use to
    /// the cache.
    fn goes_on(&self, bytes: usize) -> Result<(), (&'static str, bool)> {
        self.writer.cover(bytes).map_err(|why| (why.name(), why == NoRoom::TooLarge))?;
        let is_stale = || self.along.stored.freshness().ttl_s(now()) <= 0 && !self.along.stored.has_validator();
        if !self.is_sized() && is_stale() {
            return Err((NotStored::Stale.name(), true));
        }
        Ok(())
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await
    }
}

/// The statuses for which a stale response may are in (RFC 5861, section 4).
fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}
