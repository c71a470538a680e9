//! The helper's figures: names, units and meanings.

use machine::metrics::{Column, Described, Metrics};

/// The helper.
pub const VERIFY: Metrics<4> = Metrics {
    name: "verify",
    what: "the helper of the process (docs/verify.md)",
    columns: [
        Column::new("keys", "now", "keys that are known"),
        Column::new("key_bytes", "bytes", "the bytes of these keys"),
        Column::new("stored", "total", "responses that were stored"),
        Column::new("changes", "total", "changes that were reported here and that all caches have learned of"),
    ],
};

/// Looks by their answer.
pub const LOOKS: Metrics<2> = Metrics {
    name: "verify_looks",
    what: "an answer to looks",
    columns: [
        Column::new("state", "name", "`current`, `fill` or `away`"),
        Column::new("count", "total", "looks with this answer"),
    ],
};

/// Responses that must not be kept.
pub const DECLINED: Metrics<2> = Metrics {
    name: "verify_declined",
    what: "a reason for which a response must not be kept",
    columns: [Column::new("reason", "name", "the reason"), Column::new("count", "total", "responses")],
};

/// Requests that were refused.
pub const REFUSED: Metrics<2> = Metrics {
    name: "verify_refused_requests",
    what: "a reason for which a request was refused",
    columns: [Column::new("reason", "name", "the reason"), Column::new("count", "total", "requests")],
};

/// The tables of a status.
pub const TABLES: &[Described<'static>] =
    &[VERIFY.described(), LOOKS.described(), DECLINED.described(), REFUSED.described()];
