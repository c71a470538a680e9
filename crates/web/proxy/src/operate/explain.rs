//! Explanations for operators: why a URL is answered as it is, and which stored responses depend on something.
//!
//! They are made of what a request would look at, when they are asked for, and they change nothing. Each is bounded,
//! however much is stored. The thread of the operators' listener reads what is on disk: no client waits for it.

use crate::limits::{EXPLAINED_DEPENDENCIES_MAX, EXPLAINED_ENTRIES_MAX};
use crate::operate::decisions::Decision;
use crate::shared::{Shared, now};
use crate::stored::coherence::Claim;
use crate::stored::entry::Entry;
use ::coherence::Dependency;
use diskcache::Held;
use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE};
use http::{HeaderMap, Method};
use responses::{Dependencies, KeyBytes, KeyRef, Policy, Reuse, Time, Validity, reuse};
use serde_json::{Value, json};
use std::collections::{BinaryHeap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

/// Why a URL is answered as it is.
pub(crate) async fn why(shared: &Shared, key: KeyRef<'_>) -> Value {
    let (hash, now) = (shared.entries.hash(key), now());
    let variants = shared.entries.variants(hash, &key);
    let is_in_memory = |held: &Arc<Held<Claim>>| {
        variants.iter().filter_map(|entry| entry.held()).any(|other| Arc::ptr_eq(other, held))
    };
    let mut on_disk = shared.entries.records(hash);
    on_disk.retain(|held| !is_in_memory(held));
    let loaded = shared.entries.load(Some(&key.to_key()), &on_disk);
    let mut stored = Vec::new();
    for (entry, place) in
        variants.iter().map(|entry| (entry, "memory")).chain(loaded.iter().map(|entry| (entry, "disk")))
    {
        stored.push(variant(shared, key, entry, place, now).await);
    }
    let last = shared.decisions.last(hash).map(|decision| decided(&shared.config.policy, &decision, now));
    let scheme = shared.config.client_scheme().name();
    json!({"url": url(key.to_key().bytes()), "stored": stored, "last_from_origin": last, "clients_speak": scheme})
}

/// A stored response.
async fn variant(shared: &Shared, key: KeyRef<'_>, entry: &Entry, place: &str, now: Time) -> Value {
    let policy = &shared.config.policy;
    let (stored, validity) = (&entry.stored, entry.validity().await);
    let fields = stored.fields().to_map();
    let names = Dependencies::read(policy, &fields).unwrap_or_default();
    let dependencies: Vec<_> = names.iter().take(EXPLAINED_DEPENDENCIES_MAX).map(text).collect();
    // As a request would find it that says nothing of its own.
    let (method, none) = (Method::GET, HeaderMap::new());
    let asked = responses::Request::new(policy, &method, key, &none);
    let next = match reuse(policy, &asked, stored, validity, now) {
        Reuse::Fresh { .. } => json!({"answer": "hit"}),
        Reuse::Stale { allowed, .. } => json!({"answer": "stale", "because": allowed.name()}),
        Reuse::Revalidate(reason) => json!({"answer": "validate", "because": reason.name()}),
    };
    json!({
        "status": stored.status().as_u16(),
        "bytes": entry.content_bytes(),
        "in": place,
        "age_s": stored.freshness().age_s(now),
        "ttl_s": stored.freshness().ttl_s(now),
        "lifetime_s": stored.freshness().lifetime_s(),
        "lifetime_guessed": stored.is_heuristic(),
        "for_requests_with": text(stored.selecting().as_bytes()).lines().map(selecting).collect::<Vec<_>>(),
        "dependencies": if names.is_empty() { vec!["*".to_owned()] } else { dependencies },
        "dependencies_more": names.iter().count().saturating_sub(EXPLAINED_DEPENDENCIES_MAX),
        "etag": stored.etag().map(text),
        "current": validity == Validity::Current,
        "word": entry.claim().map(|claim| json!({
            "slot": claim.proof().slot,
            "stored_with": claim.proof().word,
            "now": claim.proof_now().map(|now| now.word),
            "generation": claim.proof().generation,
            "generation_now": claim.proof_now().map(|now| now.generation),
        })),
        "next_request": next,
    })
}

/// A request field by which a stored response is selected. A value may be a cookie or a password, which is nothing for
/// everyone who may ask: except for those of content negotiation, a value is told by a short hash. It is keyed again in
/// each process, so that nobody finds the value by trying; equal ones have equal hashes.
fn selecting(line: &str) -> String {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    match line.split_once(':') {
        Some((name, value)) if name != ACCEPT_ENCODING && name != ACCEPT_LANGUAGE => {
            format!("{name}:#{:08x}", KEY.get_or_init(RandomState::new).hash_one(value) as u32)
        }
        _ => line.to_owned(),
    }
}

/// A decision of before.
fn decided(policy: &Policy, decision: &Decision, now: Time) -> Value {
    let Decision { at, status, response } = decision;
    json!({
        "ago_s": now.since(*at),
        "because": status.forward.map(responses::ForwardReason::name),
        "status": response.map(|status| status.as_u16()),
        "stored": status.stored,
        "detail": status.detail,
        "cache_status": status.to_header(policy).to_str().unwrap_or_default(),
    })
}

/// The stored responses that depend on something.
pub(crate) fn who(shared: &Shared, dependency: &Dependency) -> Value {
    let now = now();
    let slots = shared.coherence.slots_of(dependency);
    // The first ones by their URLs, the last of them on top.
    let (mut found, mut count) = (BinaryHeap::with_capacity(EXPLAINED_ENTRIES_MAX + 1), 0_usize);
    let mut look = |entry: &Entry| {
        let depends = |claim: &Claim| match &slots {
            Some(slots) => slots.contains(&claim.proof().slot),
            // The home is another process, and has other caches' responses besides.
            None => names(&shared.config.policy, entry, dependency),
        };
        let is_one = |claim: &Claim| depends(claim) && may_be_current(claim);
        if entry.claim().is_some_and(is_one) {
            let freshness = entry.stored.freshness();
            count += 1;
            found.push((url(entry.key()), freshness.age_s(now), freshness.ttl_s(now)));
            if found.len() > EXPLAINED_ENTRIES_MAX {
                found.pop();
            }
        }
    };
    shared.entries.look_at_all(|entry| {
        // One that is on disk as well is looked at there.
        if entry.held().is_none_or(|held| !held.is_listed()) {
            look(entry);
        }
    });
    for held in shared.entries.disk().map_or_else(Vec::new, |disk| disk.all()) {
        let is_elsewhere = |slots: &HashSet<u32>| held.claim().is_none_or(|claim| !slots.contains(&claim.proof().slot));
        if held.claim().is_some_and(may_be_current) && !slots.as_ref().is_some_and(is_elsewhere) {
            shared.entries.load(None, &[held]).iter().for_each(|entry| look(entry));
        }
    }
    let found = found.into_sorted_vec().into_iter();
    let entries: Vec<_> = found.map(|(url, age, ttl)| json!({"url": url, "age_s": age, "ttl_s": ttl})).collect();
    json!({
        "dependency": text(dependency.name()),
        "responses": count,
        "entries": entries,
        "entries_more": count.saturating_sub(EXPLAINED_ENTRIES_MAX),
    })
}

/// Whether a response may be current, as far as that shows at once: where the home is on another machine, those that
/// were changed and not asked for since are among them.
fn may_be_current(claim: &Claim) -> bool {
    claim.proof_now().is_none_or(|now| now == claim.proof())
}

/// Whether a stored response says that it depends on something.
fn names(policy: &Policy, entry: &Entry, dependency: &Dependency) -> bool {
    let names = Dependencies::read(policy, &entry.stored.fields().to_map()).unwrap_or_default();
    let is_named = names.iter().any(|name| name == dependency.name());
    is_named || names.is_empty() && *dependency == Dependency::ALL
}

/// A key as the URL that it is of.
fn url(key: KeyBytes<'_>) -> String {
    let key = text(key.as_bytes());
    let mut parts = key.splitn(3, ' ');
    let mut next = || parts.next().unwrap_or_default();
    format!("{}://{}{}", next(), next(), next())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
