//! Whether the response of a fill is stored.

use super::{Fill, Times};
use crate::config::Config;
use crate::fill::fills::Outcome;
use crate::fill::reserved::{NoRoom, Reserved};
use crate::stored::coherence::Claim;
use coherence::NotStored;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use http_body::SizeHint;
use responses::{Dependencies, Stored, complete_bytes, store};

/// A response that the cache may store, or that others share, with room for its body.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) stored: Stored,
    pub(super) reserved: Reserved,
    /// Its place at the home, or the name of the reason that it has none.
    pub(super) claim: Result<Claim, &'static str>,
}

/// Why a response is not stored.
#[derive(Clone, Debug)]
pub(super) struct Declined {
    /// The name of the reason.
    pub(super) detail: &'static str,
    pub(super) outcome: Outcome,
    /// Whether the next response will not be stored either.
    pub(super) is_lasting: bool,
}

/// The reason for which a stream of events is not stored: its client reads it as long as it likes.
const EVENT_STREAM: &str = "event-stream";

/// Whether a response is a stream of events, which ends when its client does.
fn is_event_stream(fields: &HeaderMap) -> bool {
    let kind = fields.get(CONTENT_TYPE).map_or(&[][..], |kind| kind.as_bytes());
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

impl Fill {
    /// Whether a response is stored. If so, it is at the home already: an update that comes while its body does finds
    /// it there.
    pub(super) async fn decide(
        &self,
        status: StatusCode,
        fields: &HeaderMap,
        size: &SizeHint,
        times: Times,
    ) -> Result<Decided, Declined> {
        let Config { policy, limits, .. } = &self.shared().config;
        // The next response may be another: after an error, or to a request that is not like this one.
        let is_passing = self.head.method != Method::GET
            || matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED)
            || status.is_server_error();
        let declined = |detail| Declined { detail, outcome: Outcome::Unstorable, is_lasting: !is_passing };
        let dependencies = Dependencies::read(policy, fields).map_err(|refusal| declined(refusal.name()))?;
        let response = times.response(status, fields);
        let stored =
            store(policy, &self.asked(), &response, &dependencies).map_err(|reason| declined(reason.name()))?;
        if is_event_stream(fields) && size.exact().is_none() {
            return Err(declined(EVENT_STREAM));
        }
        let collected = self.shared().collected_bytes.clone();
        let mut reserved = Reserved::new(collected, limits, size.lower() as usize).map_err(|why| match why {
            NoRoom::TooLarge => declined(why.name()),
            NoRoom::Busy => Declined { detail: why.name(), outcome: Outcome::Failed, is_lasting: false },
        })?;
        let claim = self.claim(&dependencies).await;
        if let Err(detail) = claim
            && !(self.is_shared() && reserved.keep_to_half().is_ok())
        {
            // It is for its requester alone, and the others begin the next fill at once.
            return Err(Declined { detail, outcome: Outcome::Missed, is_lasting: false });
        }
        Ok(Decided { stored, reserved, claim })
    }

    /// A place at the home for a response with these dependencies, rule StoreIfUntouched; or the name of the reason
    /// that there is none.
    pub(super) async fn claim(&self, dependencies: &Dependencies) -> Result<Claim, &'static str> {
        let claim = self.shared().coherence.store(self.ticket, &self.name.key, dependencies).await;
        claim.map_err(NotStored::name)
    }

    /// Whether this is a part of a response that would be stored if it were whole.
    pub(super) fn is_part_of_storable(&self, status: StatusCode, fields: &HeaderMap, times: Times) -> bool {
        let Config { policy, limits, .. } = &self.shared().config;
        let is_part = status == StatusCode::PARTIAL_CONTENT && self.head.method == Method::GET;
        let fits = || complete_bytes(fields).is_some_and(|bytes| bytes <= limits.stored_response_bytes as u64);
        if !is_part || self.need.stale.is_some() || !fits() {
            return false;
        }
        let whole = times.response(StatusCode::OK, fields);
        Dependencies::read(policy, fields)
            .is_ok_and(|dependencies| store(policy, &self.asked(), &whole, &dependencies).is_ok())
    }
}
