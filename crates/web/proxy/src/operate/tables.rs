//! The proxy's figures: names, units, meanings and values. They are collected when an operator asks.

use crate::operate::answers::AnsweredBy;
use crate::shared::Shared;
use ::coherence::Matches;
use machine::metrics::{Column, Described, Metrics};
use machine::{Cell, Table};

/// The proxy.
pub const PROXY: Metrics<28> = Metrics {
    name: "proxy",
    what: "the proxy of the process (docs/web.md)",
    columns: [
        Column::new("origin", "text", "the application"),
        Column::new("connections", "total", "connections of clients"),
        Column::new("requests", "total", "requests of clients"),
        Column::new("hits", "total", "requests that a stored response answered"),
        Column::new("waited", "total", "times that a request waited for the response to another request"),
        Column::new("changes_misread", "total", "changes whose names could not be read: everything was invalidated"),
        Column::new("updates_named", "total", "updates that named something while responses were stored"),
        Column::new("updates_matched", "total", "updates that named a dependency of a stored response"),
        Column::new("ended_idle", "total", "connections that were ended because no request came"),
        Column::new("ended_in_head", "total", "connections that were ended in the middle of a request's head"),
        Column::new("ended_stalled", "total", "connections that were ended because the client did not read"),
        Column::new("ended_displaced", "total", "idle connections that were ended to make room for others"),
        Column::new("refused_connections", "total", "connections that were closed for the limit of their address"),
        Column::new("homes", "now", "homes in other processes"),
        Column::new("homes_away", "now", "homes that cannot be used; `proxy_homes` says why"),
        Column::new("coherence_away", "flag", "1 while stored responses cannot be proved current"),
        Column::new("sources_away", "now", "sources whose watchers are away"),
        Column::new("access_log_lost", "total", "lines that the access log lost"),
        Column::new("stored_responses", "now", "stored responses"),
        Column::new("stored_bytes", "bytes", "the memory that they take"),
        Column::new("upload_memory_bytes", "bytes", "bodies of requests in memory"),
        Column::new("upload_file_bytes", "bytes", "bodies of requests in files"),
        Column::new("disk_stored_responses", "now", "responses on disk"),
        Column::new("disk_stored_bytes", "bytes", "the room that they take there"),
        Column::new("disk_read", "total", "requests for which a response was read from disk"),
        Column::new("disk_written", "total", "responses that were written to disk"),
        Column::new("disk_not_written", "total", "responses that could not be written to disk"),
        Column::new("disk_unreadable", "total", "responses on disk that could not be read"),
    ],
};

/// The homes.
pub const HOMES: Metrics<2> = Metrics {
    name: "proxy_homes",
    what: "a home of the proxy in another process",
    columns: [
        Column::new("home", "name", "its address"),
        Column::new("trouble", "text", "the reason why it cannot be used"),
    ],
};

/// Answers by status.
pub const RESPONSES: Metrics<2> = Metrics {
    name: "proxy_responses",
    what: "a status of answers",
    columns: [
        Column::new("status", "number", "the status"),
        Column::new("count", "total", "answers to clients with this status"),
    ],
};

/// The times of answers.
pub const SECONDS: Metrics<4> = Metrics {
    name: "proxy_response_seconds",
    what: "a bound of the time until the head of an answer",
    columns: [
        Column::new("by", "name", "`cache` for hits, otherwise `other`"),
        Column::new("le", "bound", "the bound in seconds"),
        Column::new("answers", "bucket", "the time until the head of an answer: answers within the bound"),
        Column::new("sum_us", "sum us", "the time of all answers, in the last row"),
    ],
};

/// Their quantiles.
pub const QUANTILES: Metrics<4> = Metrics {
    name: "proxy_response_times",
    what: "answers from the cache, and others",
    columns: [
        Column::new("by", "name", "`cache` for hits, otherwise `other`"),
        Column::new("p50_us", "us", "a bound of the time of half of the answers since the start"),
        Column::new("p90_us", "us", "a bound of the time of 90 percent of them"),
        Column::new("p99_us", "us", "a bound of the time of 99 percent of them"),
    ],
};

const fn by_reason(name: &'static str, what: &'static str, counted: &'static str) -> Metrics<2> {
    Metrics {
        name,
        what,
        columns: [Column::new("reason", "name", "the reason"), Column::new("count", "total", counted)],
    }
}

/// Requests to the application.
pub const FORWARDED: Metrics<2> = by_reason(
    "proxy_forwarded",
    "a reason to ask the application: a value of `fwd` in `Cache-Status`",
    "requests to the application",
);

/// Errors of the application.
pub const ORIGIN_ERRORS: Metrics<2> = by_reason(
    "proxy_origin_errors",
    "a reason why the application did not answer; `status-5xx` if it answered with an error",
    "requests to the application that failed",
);

/// Responses that were not stored.
pub const NOT_STORED: Metrics<2> = by_reason(
    "proxy_not_stored",
    "a reason not to store a response: a value of `detail` in `Cache-Status`",
    "responses that were not stored",
);

/// Failed handshakes.
pub const FAILED_HANDSHAKES: Metrics<2> =
    by_reason("proxy_failed_handshakes", "a reason why a TLS handshake failed", "TLS handshakes that failed");

/// Refused requests.
pub const REFUSED_REQUESTS: Metrics<2> = by_reason(
    "proxy_refused_requests",
    "an error of the proxy itself",
    "requests that the proxy answered with an error of its own",
);

/// Dropped fields.
pub const DROPPED_FIELDS: Metrics<2> = Metrics {
    name: "proxy_dropped_fields",
    what: "a request field that was dropped, one of the first 64 names; `OTHERS` for further ones",
    columns: [
        Column::new("name", "name", "the field's name"),
        Column::new("count", "total", "request fields that were dropped"),
    ],
};

/// The tables of a status.
pub const TABLES: &[Described<'static>] = &[
    PROXY.described(),
    HOMES.described(),
    RESPONSES.described(),
    SECONDS.described(),
    QUANTILES.described(),
    FORWARDED.described(),
    ORIGIN_ERRORS.described(),
    NOT_STORED.described(),
    FAILED_HANDSHAKES.described(),
    REFUSED_REQUESTS.described(),
    DROPPED_FIELDS.described(),
];

/// Returns the tables of a proxy.
pub(crate) fn tables(shared: &Shared) -> Vec<Table> {
    let tally = shared.counters.read();
    let answers = &shared.counters.answers;
    let sides = [("cache", AnsweredBy::Cache), ("other", AnsweredBy::Other)];
    let quantiles = sides.map(|(name, by)| {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| answers.quantile_us(by, percent).into());
        [name.into(), p50, p90, p99]
    });
    let seconds = sides.into_iter().flat_map(|(name, by)| {
        let rows = answers.buckets(by).into_iter();
        rows.map(move |(bound, count, sum_us)| [name.into(), bound.into(), count.into(), sum_us.into()])
    });
    let homes = shared.coherence.homes().map(|(home, why)| [home.to_string().into(), why.into()]);
    let statuses = answers.by_status().into_iter().map(|(status, count)| [u64::from(status).into(), count.into()]);
    vec![
        proxy(shared),
        HOMES.table(homes),
        RESPONSES.table(statuses),
        SECONDS.table(seconds),
        QUANTILES.table(quantiles.into_iter()),
        counted(&FORWARDED, tally.forwarded),
        counted(&ORIGIN_ERRORS, tally.origin_errors),
        counted(&NOT_STORED, tally.not_stored),
        counted(&FAILED_HANDSHAKES, tally.failed_handshakes),
        counted(&REFUSED_REQUESTS, tally.refusals),
        counted(&DROPPED_FIELDS, tally.dropped_fields),
    ]
}

fn counted(metrics: &Metrics<2>, counts: Vec<(impl Into<Cell>, u64)>) -> Table {
    metrics.table(counts.into_iter().map(|(name, count)| [name.into(), count.into()]))
}

fn proxy(shared: &Shared) -> Table {
    let (tally, (entries, bytes), coherence) = (shared.counters.read(), shared.entries.size(), &shared.coherence);
    let (updates, matched) =
        coherence.matches().map(|(Matches { updates, matched, .. }, _)| (updates, matched)).unzip();
    let (upload_memory, upload_files) = shared.uploads.read();
    let disk = shared.entries.disk().map(|disk| disk.size());
    let disk = disk.as_ref();
    PROXY.one([
        ("origin", shared.config.origin.to_string().into()),
        ("connections", tally.connections.into()),
        ("requests", tally.requests.into()),
        ("hits", tally.hits.into()),
        ("waited", tally.waited.into()),
        ("changes_misread", tally.changes_misread.into()),
        ("updates_named", updates.into()),
        ("updates_matched", matched.into()),
        ("ended_idle", tally.ended_idle.into()),
        ("ended_in_head", tally.ended_in_head.into()),
        ("ended_stalled", tally.ended_stalled.into()),
        ("ended_displaced", tally.ended_displaced.into()),
        ("refused_connections", tally.refused_connections.into()),
        ("homes", coherence.homes().count().into()),
        ("homes_away", coherence.homes().filter(|(_, why)| why.is_some()).count().into()),
        ("coherence_away", u64::from(!coherence.troubles().is_empty()).into()),
        ("sources_away", coherence.sources_away().len().into()),
        ("access_log_lost", shared.access_log.as_ref().map(|log| log.lost()).into()),
        ("stored_responses", entries.into()),
        ("stored_bytes", bytes.into()),
        ("upload_memory_bytes", upload_memory.into()),
        ("upload_file_bytes", upload_files.into()),
        ("disk_stored_responses", disk.map(|disk| disk.records).into()),
        ("disk_stored_bytes", disk.map(|disk| disk.bytes).into()),
        ("disk_read", disk.map(|_| tally.from_disk).into()),
        ("disk_written", disk.map(|disk| disk.written).into()),
        ("disk_not_written", disk.map(|disk| disk.not_written).into()),
        ("disk_unreadable", disk.map(|disk| disk.unreadable).into()),
    ])
}
