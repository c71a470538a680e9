//! A client's request, from its head to the head of its answer.
//!
//! ```text
//!   admit: one host, a target that is served here ------- no ---> refused
//!     |
//!   a stored response is found, fresh ------------------ yes ---> hit: answered at once, nothing awaited
//!     |
//!   a method or a condition for the origin ------------- yes ---> pass
//!     |
//!   somebody else is at the origin for the same -------- yes ---> wait: read along, or look again
//!     |
//!   fill: to the origin, and the response into the cache
//! ```

use crate::client::Client;
use crate::fill::along::Along;
use crate::fill::fills::{Join, Lead, Outcome};
use crate::fill::{Fill, Need};
use crate::operate::access_log::Logged;
use crate::operate::answers::AnsweredBy;
use crate::origin::RequestHead;
use crate::origin::tunnel;
use crate::request::answer::{along, hit, hit_status, is_hit, not_stored_status, options, passed};
use crate::request::body::{Answer, Body};
use crate::request::forward::{Way, count_down, drop_untrusted, has_passed, strip_named, wants_upgrade};
use crate::request::framing::check_request;
use crate::request::ignored::without_ignored;
use crate::request::misread::ALL_INVALIDATED;
use crate::request::refusal::Refusal;
use crate::request::target::{Head, Target};
use crate::request::upload::Upload;
use crate::shared::{Shared, now};
use crate::stored::coherence::{HubAway, changed};
use crate::stored::entries::{Found, Name};
use http::header::RANGE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use responses::{
    CacheStatus, ForwardReason, InvalidGroups, Invalidation, Lookup, PassReason, Reuse, RevalidateReason, StaleAllowed,
    invalidation, select,
};
use serving::{Answered, HintsTo, UnderWay};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::{spawn_blocking, yield_now};

/// The answer to a request, at once or later.
#[expect(clippy::large_enum_variant, reason = "a hit is answered without an allocation")]
pub(crate) enum Answering {
    Now(Option<Response<Answered<Answer>>>),
    Later(Pin<Box<dyn Future<Output = Response<Answered<Answer>>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<Answered<Answer>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(answer) => answer.take().map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
            Self::Later(answer) => answer.as_mut().poll(cx).map(Ok),
        }
    }
}

/// The next step for a request.
enum Step {
    /// The answer is here.
    Answer(Response<Body>),
    /// The rest of the way is awaited.
    Await,
}

impl Client {
    /// Answers a request.
    pub(crate) fn answer(self, under_way: UnderWay, mut request: Request<Incoming>) -> Answering {
        let shared = &self.worker.shared;
        shared.counters.requests.fetch_add(1, Relaxed);
        let begun = Instant::now();
        let logged = shared.access_log.as_ref().map(|log| Logged::new(log, self.peer.ip(), now(), &request));
        match self.at_once(&mut request) {
            Ok(Step::Answer(response)) => Answering::Now(Some(answered(shared, begun, response, under_way, logged))),
            Err(refusal) => {
                shared.counters.refused(refusal);
                Answering::Now(Some(answered(shared, begun, refusal.response(), under_way, logged)))
            }
            Ok(Step::Await) => Answering::Later(Box::pin(async move {
                let answer = self.through(request).await.unwrap_or_else(|refusal| {
                    self.worker.shared.counters.refused(refusal);
                    refusal.response()
                });
                answered(&self.worker.shared, begun, answer, under_way, logged)
            })),
        }
    }

    /// Answers what can be answered without waiting.
    fn at_once(&self, request: &mut Request<Incoming>) -> Result<Step, Refusal> {
        strip_named(request.headers_mut());
        self.drop_ignored(request);
        let method = request.method().clone();
        if count_down(&method, request.headers_mut())? == Way::Here {
            return Ok(Step::Answer(options()));
        }
        let shared = &*self.worker.shared;
        let target = Target::of(&Head::from(&*request), self.scheme, &shared.config.origin.authority)?;
        // The whole server as a target, `*`, has no key.
        let Ok(key) = target.key() else { return Ok(Step::Await) };
        let asked = responses::Request::new(&shared.config.policy, request.method(), key, request.headers());
        // On HTTP/2 no field announces the content of a GET.
        if asked.lookup() != Lookup::Cache || !request.body().is_end_stream() {
            return Ok(Step::Await);
        }
        let found = shared.entries.find(&shared.config.policy, shared.entries.hash(key), &key, &asked);
        let Found::Entry(entry) = found else { return Ok(Step::Await) };
        let now = now();
        match responses::reuse(&shared.config.policy, &asked, &entry.stored, entry.validity_at_once(), now) {
            Reuse::Fresh { age_s, ttl_s } => {
                Ok(Step::Answer(hit(shared, &asked, &entry, now, age_s, &hit_status(ttl_s))))
            }
            _ => Ok(Step::Await),
        }
    }

    /// Takes out of a request what the operator has declared to make no difference: neither the cache nor the origin
    /// sees it.
    fn drop_ignored(&self, request: &mut Request<Incoming>) {
        let policy = &self.worker.shared.config.policy;
        policy.drop_ignored_cookies(request.headers_mut());
        if let Some(uri) = without_ignored(policy, request.uri()) {
            *request.uri_mut() = uri;
        }
    }

    /// Answers by way of the origin, or of what others bring from there.
    async fn through(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let shared = &*self.worker.shared;
        // Before anything is decided by them. A hit was not: what is stored was asked for without these fields.
        drop_untrusted(request.headers_mut(), shared.config.keep_underscores, |name| {
            shared.counters.dropped_fields.count(name, &shared.notes);
        });
        check_request(request.headers())?;
        if has_passed(request.headers(), &shared.config.name) {
            return Err(Refusal::Loop);
        }
        if wants_upgrade(request.method(), request.version(), request.headers()) {
            return tunnel::open(self, request).await;
        }
        let is_empty = request.body().is_end_stream();
        let (head, body) = request.into_parts();
        let target = Target::of(&Head::from(&head), self.scheme, &shared.config.origin.authority)?;
        let Ok(key) = target.key() else {
            // A target of all, `*`, has no key.
            return self.pass(head, body, ForwardReason::Method, None).await;
        };
        match responses::Request::new(&shared.config.policy, &head.method, key, &head.headers).lookup() {
            Lookup::Cache if is_empty => self.cached(head).await,
            Lookup::Pass(PassReason::Method) => self.pass(head, body, ForwardReason::Method, None).await,
            Lookup::Pass(reason) => self.pass(head, body, ForwardReason::Bypass, Some(reason.name())).await,
            Lookup::Cache => {
                let detail = PassReason::Content.name();
                self.pass(head, body, ForwardReason::Bypass, Some(detail)).await
            }
        }
    }

    /// Passes a request and its response on. Nothing is stored; a response to an unsafe request invalidates what is,
    /// even if its client has gone since the request went to the origin, which has changed all the same.
    async fn pass(
        &self,
        head: Parts,
        body: Incoming,
        reason: ForwardReason,
        detail: Option<&'static str>,
    ) -> Result<Response<Body>, Refusal> {
        let has_body = !body.is_end_stream();
        let path = head.uri.path_and_query().map_or("", PathAndQuery::as_str);
        let upload = Upload::of(&self.worker.shared, body, path).await?;
        let permit = self.worker.origin.permit().await?;
        if has_body {
            // The client may have gone while its body was collected or waited. Its connection notices that now, if
            // not before, and drops this: nothing is done late for a client that has given up.
            yield_now().await;
        }
        if head.method.is_safe() {
            return self.exchange(head, upload, permit, reason, detail).await;
        }
        let client = self.clone();
        let exchange = tokio::spawn(async move {
            let _delay = client.worker.delay_end();
            client.exchange(head, upload, permit, reason, detail).await
        });
        // One that has ended without an answer has panicked.
        exchange.await.unwrap_or(Err(Refusal::OriginClosed))
    }

    async fn exchange(
        &self,
        head: Parts,
        upload: Upload,
        permit: OwnedSemaphorePermit,
        reason: ForwardReason,
        detail: Option<&'static str>,
    ) -> Result<Response<Body>, Refusal> {
        let shared = &*self.worker.shared;
        let (policy, origin) = (&shared.config.policy, &shared.config.origin.authority);
        let target = Target::of(&Head::from(&head), self.scheme, origin)?;
        let forwarded = self.forwarded(&head, &target);
        let request = RequestHead::of(&head, forwarded).with_hints(self.hints(head.version));
        let response = self.worker.origin.send_with(permit, request, upload).await;
        shared.counters.forwarded(reason, response.as_ref().map(Response::status).map_err(|refusal| *refusal));
        let response = response?;
        let mut status = CacheStatus { forward: Some(reason), detail, ..CacheStatus::default() };
        // A change is no decision on what is stored under its key.
        if let (Some(_), Ok(key)) = (detail, target.key()) {
            shared.decided(shared.entries.hash(key), status, Some(response.status()));
        }
        if let Ok(key) = target.key()
            && let Some(invalid) = invalidation(policy, &head.method, key, response.status(), response.headers())
        {
            if let InvalidGroups::All(why) = invalid.groups {
                status.detail = Some(ALL_INVALIDATED);
                shared.misread_change(&key.to_key(), why, response.headers());
            }
            invalidate(shared, &invalid).await?;
        }
        Ok(passed(shared, &head.method, response.map(Body::Origin), &status))
    }

    /// Answers a request that stored responses may answer.
    async fn cached(&self, head: Parts) -> Result<Response<Body>, Refusal> {
        let shared = &self.worker.shared;
        let policy = &shared.config.policy;
        let target = Target::of(&Head::from(&head), self.scheme, &shared.config.origin.authority)?;
        let key = target.key()?;
        let name = Name { hash: shared.entries.hash(key), key: key.to_key() };
        let asked = responses::Request::new(policy, &head.method, key, &head.headers);
        let (come, mut rounds) = (shared.fills.come(), 0);
        let (need, lead) = loop {
            let need = match look(shared, &name, &asked, rounds > 0).await {
                Look::Answer(answer) => return Ok(answer),
                Look::StaleAnswer(answer, need) => {
                    if let Join::Lead(lead) = shared.fills.join(&name, come) {
                        // Its client is answered already.
                        self.fill(&head, &target, name, need, Some(lead), None)?;
                    }
                    return Ok(answer);
                }
                Look::Need(need) => need,
            };
            if asked.only_if_cached() {
                return Err(Refusal::OnlyIfCached);
            }
            // A response to a HEAD or for a range is not stored: no request waits for it.
            let is_storable = head.method == Method::GET && (need.stale.is_some() || !head.headers.contains_key(RANGE));
            if !is_storable || !need.is_shared || rounds == ROUNDS_MAX {
                break (need, None);
            }
            rounds += 1;
            match shared.fills.join(&name, come) {
                Join::Alone => break (need, None),
                Join::Lead(lead) => {
                    // Another may have stored its response since the look.
                    if let Look::Answer(answer) = look(shared, &name, &asked, true).await {
                        return Ok(answer);
                    }
                    break (need, Some(lead));
                }
                Join::Wait(mut fill) => {
                    shared.counters.waited.fetch_add(1, Relaxed);
                    if let Outcome::Arriving(along) = fill.begun().await
                        && let Some(answer) = read_along(shared, &name, &asked, &along, fill.shares, hit_status)
                    {
                        return Ok(answer);
                    }
                    let Some(outcome) = fill.ended().await else {
                        shared.fills.remember(name.hash, true);
                        break (need, None);
                    };
                    match outcome {
                        Outcome::Passed(along, why) if fill.shares => {
                            let status = |ttl_s| not_stored_status(need.reason, why, ttl_s);
                            match read_along(shared, &name, &asked, &along, true, status) {
                                Some(answer) => return Ok(answer),
                                // It would not want the next one either.
                                None => break (need, None),
                            }
                        }
                        Outcome::Unstorable | Outcome::Failed => break (need, None),
                        // It is stored; or it was missed, and one of those that have waited begins again.
                        _ => {}
                    }
                }
            }
        };
        // One whose task has ended without an answer has panicked.
        self.fill(&head, &target, name, need, lead, self.hints(head.version))?
            .await
            .unwrap_or(Err(Refusal::OriginClosed))
    }

    /// Asks the origin, in a task of its own: what comes is stored even when this client has gone.
    fn fill(
        &self,
        head: &Parts,
        target: &Target<'_>,
        name: Name,
        need: Need,
        lead: Option<Lead>,
        hints: Option<HintsTo>,
    ) -> Result<oneshot::Receiver<Result<Response<Body>, Refusal>>, Refusal> {
        let (reply, receiver) = oneshot::channel();
        let forwarded = self.forwarded(head, target);
        let mut head = head.clone();
        head.uri = target.uri()?;
        let fill = Fill::new(self.worker.clone(), head, forwarded, name, need, lead).with_hints(hints);
        tokio::spawn(fill.run(reply));
        Ok(receiver)
    }
}

/// The head of an answer is there, and is counted.
fn answered(
    shared: &Shared,
    begun: Instant,
    response: Response<Body>,
    under_way: UnderWay,
    mut logged: Option<Box<Logged>>,
) -> Response<Answered<Answer>> {
    let by = if is_hit(response.headers()) { AnsweredBy::Cache } else { AnsweredBy::Other };
    shared.counters.answers.count(response.status(), by, begun.elapsed());
    if let Some(logged) = &mut logged {
        logged.answered(response.status(), response.headers());
    }
    response.map(|body| Answered::new(Answer::new(body, logged), under_way))
}

/// Removes what an unsafe request has changed, before its client is told that it has.
async fn invalidate(shared: &Shared, invalid: &Invalidation) -> Result<(), Refusal> {
    for key in &invalid.keys {
        shared.entries.remove(key);
    }
    let mut changed = changed(&invalid.groups);
    changed.extend(invalid.keys.iter().filter_map(|key| shared.coherence.of_key(key)));
    shared.coherence.announce(changed, shared.config.limits.hub).await.map_err(|HubAway| Refusal::HubAway)
}

/// An answer with the response that this request waits for, which it shares or not, while that is arriving; none if it
/// has to wait on. `status` is made of the seconds that it stays fresh.
fn read_along(
    shared: &Shared,
    name: &Name,
    asked: &responses::Request<'_>,
    response: &Along,
    shares: bool,
    status: impl FnOnce(i64) -> CacheStatus,
) -> Option<Response<Body>> {
    let policy = &shared.config.policy;
    if shared.lapses() != response.since.lapses || select(policy, asked, [&response.stored]).is_none() {
        return None;
    }
    let (now, validity) = (now(), response.validity_at_once(shares, shared.entries.removals(name.hash)));
    match responses::reuse(policy, asked, &response.stored, validity, now) {
        Reuse::Fresh { age_s, ttl_s } => {
            along(shared, asked, response, now, age_s, &CacheStatus { collapsed: true, ..status(ttl_s) })
        }
        Reuse::Stale { .. } | Reuse::Revalidate(_) => None,
    }
}

/// The entry that a request selects, in memory or on disk.
async fn find(shared: &Shared, name: &Name, asked: &responses::Request<'_>) -> Found {
    let policy = &shared.config.policy;
    let found = shared.entries.find(policy, name.hash, &name.key, asked);
    if matches!(found, Found::Entry(_)) {
        return found;
    }
    let records = shared.entries.records(name.hash);
    if records.is_empty() {
        return found;
    }
    let (entries, key) = (shared.entries.clone(), name.key.clone());
    // One that has panicked has read nothing.
    let loaded = spawn_blocking(move || entries.load(Some(&key), &records)).await.unwrap_or_default();
    match shared.entries.select_loaded(policy, name, &loaded, asked) {
        Some(entry) => {
            shared.counters.from_disk.fetch_add(1, Relaxed);
            Found::Entry(entry)
        }
        None if loaded.is_empty() => found,
        None => Found::OtherVariants,
    }
}

/// How often a request waits for others before it goes by itself. Where nothing is stored the second fill answers it;
/// what is stored may have been changed before it was looked at.
const ROUNDS_MAX: usize = 3;

/// The outcome of a look at the cache.
enum Look {
    Answer(Response<Body>),
    /// A stale answer that is allowed while the response is validated.
    StaleAnswer(Response<Body>, Need),
    Need(Need),
}

async fn look(shared: &Shared, name: &Name, asked: &responses::Request<'_>, has_waited: bool) -> Look {
    let policy = &shared.config.policy;
    let miss = |reason| Look::Need(Need { reason, detail: None, stale: None, is_shared: true });
    let entry = match find(shared, name, asked).await {
        Found::Nothing => return miss(ForwardReason::UriMiss),
        Found::OtherVariants => return miss(ForwardReason::VaryMiss),
        Found::Entry(entry) => entry,
    };
    let need = |reason: RevalidateReason, entry| Need {
        reason: reason.into(),
        detail: Some(reason.name()),
        stale: Some(entry),
        // The others ask for validation of their own, each time.
        is_shared: matches!(reason, RevalidateReason::Invalidated | RevalidateReason::Stale),
    };
    let validity = entry.validity().await;
    let now = now();
    match responses::reuse(policy, asked, &entry.stored, validity, now) {
        Reuse::Revalidate(reason) => Look::Need(need(reason, entry)),
        Reuse::Fresh { age_s, ttl_s } => Look::Answer(hit(
            shared,
            asked,
            &entry,
            now,
            age_s,
            &CacheStatus { collapsed: has_waited, ..hit_status(ttl_s) },
        )),
        Reuse::Stale { age_s, ttl_s, allowed } => {
            let status = CacheStatus { detail: Some(allowed.name()), ..hit_status(ttl_s) };
            let answer = hit(shared, asked, &entry, now, age_s, &status);
            match allowed {
                StaleAllowed::WhileRevalidate => Look::StaleAnswer(answer, need(RevalidateReason::Stale, entry)),
                StaleAllowed::MaxStale | StaleAllowed::IfError => Look::Answer(answer),
            }
        }
    }
}
