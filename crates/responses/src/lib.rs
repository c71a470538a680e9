//! What a web cache may store, reuse, validate and invalidate: RFC 9111 as decisions over header fields.
//!
//! Nothing here has a clock, a socket or a thread. Times are passed in as whole seconds ([`Time`]), requests and
//! responses as the types of the `http` crate, and what comes out is a decision whose reason has a name. The order in
//! which a proxy asks:
//!
//! ```text
//! request --> Request::new --> lookup ---- pass --------------------------> origin, nothing is stored
//!                                | cache                                      ^
//!                                v                                            |
//!                         key, select a variant ------ none: miss ------------+--> forward::fields --> origin
//!                                |                                            |                          |
//!                                v                                            |                          v
//!                              reuse --- Revalidate --> validate::conditional +      304: validate::freshen
//!                                |                                                   5xx: reuse::after_error
//!                                v                                                   else: storable::store
//!                             answer: whole, 304, 412, 206, 416                      invalidate::after
//! ```
//!
//! What is kept of a stored response is a [`Stored`]: its fields in one piece of memory, and beside them everything that
//! a later decision asks of them, precomputed. Deciding on a hit reads no field and allocates nothing.

mod answer;
mod date;
mod dependencies;
mod directives;
mod fields;
mod forward;
mod freshness;
mod hop;
mod invalidate;
mod key;
mod policy;
mod range;
mod request;
mod reuse;
mod status;
mod storable;
mod stored;
mod validate;
mod vary;

pub use answer::{Answer, answer};
pub use date::Time;
pub use dependencies::{Dependencies, DependencyField, DependencyRefusal, DependencySyntax};
pub use directives::{FieldScope, RequestControl, ResponseControl, TargetedField, TargetedSyntax};
pub use fields::Fields;
pub use forward::{forward_request, forward_response};
pub use freshness::Freshness;
pub use hop::is_hop_by_hop;
pub use invalidate::{InvalidGroups, Invalidation, invalidation};
pub use key::{Key, KeyRef, KeyRefusal};
pub use policy::{Coherence, Heuristic, Policy, RequestDirectives};
pub use range::{RangeRequest, Slice};
pub use request::{Lookup, PassReason, Request};
pub use reuse::{Proof, Reuse, RevalidateReason, after_error, reuse};
pub use status::{CacheStatus, ForwardReason};
pub use storable::{NotStored, Response, store};
pub use stored::Stored;
pub use validate::{Freshened, conditional, freshen, freshen_by_head, unconditional};
pub use vary::{Selecting, select};
