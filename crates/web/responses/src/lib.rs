//! RFC 9111 as decisions over header fields: which responses a web cache may store, reuse, validate and invalidate.
//!
//! There is no clock, socket or thread here. Times are passed in as whole seconds ([`Time`]), fields as the `http`
//! crate has them, and each decision has a reason with a name. A proxy asks in this order:
//!
//! ```text
//! Request::new -> lookup -- pass ------------------------------------------------------------> origin
//!                   | cache                                                                      ^ |
//!                   v                                                                            | |
//!                 select ----- none: forward_request, unconditional -----------------------------+ |
//!                   |                                                                            | |
//!                   v                                                                            | |
//!                 reuse ------ Revalidate: forward_request, conditional -------------------------+ |
//!                   | Fresh                                                                        |
//!                   v                      304: freshen; error: after_error; else: store           |
//!                 answer <------------- (and after an unsafe request: invalidation) <--------------+
//! ```
//!
//! A stored response is kept as a [`Stored`]: its fields in one piece of memory, and beside them the answers to all
//! that a decision asks. Deciding on a hit reads no field of the response, and allocates nothing.
//!
//! | module | duty |
//! |---|---|
//! | `request`, `response`, `policy` | a request, a response and the operator's decisions, as the others see them |
//! | `key`, `ignore`, `codings`, `names` | the key of a request, and the parts of a request that make no difference |
//! | `storable`, `vary`, `dependencies` | whether a response may be stored, for which requests, and what it depends on |
//! | `freshness`, `reuse`, `directives` | how long a response is fresh, and whether it may answer a request |
//! | `validate`, `invalidate` | freshening by a 304; invalidation by unsafe requests |
//! | `answer`, `range`, `browser`, `status` | the fields of an answer |
//! | `preferred` | the variant of a content that a client prefers |
//! | `forward`, `hop` | the fields that are passed on |
//! | `stored`, `saved`, `fields` | a stored response in memory, and as bytes |
//! | `date`, `token` | the syntax of times and words |

mod answer;
mod browser;
mod codings;
mod date;
mod dependencies;
mod directives;
mod fields;
mod forward;
mod freshness;
mod hop;
mod ignore;
mod invalidate;
mod key;
mod names;
mod policy;
mod preferred;
mod range;
mod request;
mod response;
mod reuse;
mod saved;
mod status;
mod storable;
mod stored;
mod token;
mod validate;
mod vary;

pub use answer::{Answer, answer};
pub use browser::for_browsers;
pub use date::Time;
pub use dependencies::{Dependencies, DependencyRefusal};
pub use directives::{FieldScope, RequestControl, ResponseControl};
pub use fields::Fields;
pub use forward::{forward_request, forward_response};
pub use freshness::Freshness;
pub use hop::is_hop_by_hop;
pub use invalidate::{InvalidGroups, Invalidation, invalidation};
pub use key::{Key, KeyBytes, KeyRef, KeyRefusal, without_default_port};
pub use names::{CookieName, NamePattern};
pub use policy::{
    Coherence, DependencyField, DependencySyntax, Heuristic, Policy, RequestDirectives, TargetedField, TargetedSyntax,
};
pub use preferred::preferred_coding;
pub use range::{RangeRequest, Slice, complete_bytes};
pub use request::{Lookup, PassReason, Request};
pub use response::Response;
pub use reuse::{Reuse, RevalidateReason, StaleAllowed, Validity, after_error, reuse, select};
pub use status::{CacheStatus, ForwardReason};
pub use storable::{NotStored, store};
pub use stored::Stored;
pub use token::Token;
pub use validate::{Freshened, conditional, freshen, freshen_by_head, unconditional};
pub use vary::Selecting;
