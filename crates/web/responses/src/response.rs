//! A response of the origin, as decisions see it.

use crate::date::Time;
use http::{HeaderMap, HeaderName, StatusCode, header};

/// The head of a response, and when it was exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: &'a HeaderMap,
    /// When the request was sent to the origin.
    pub requested: Time,
    /// When the head came.
    pub received: Time,
}

impl Response<'_> {
    /// When the origin made it, if it says so.
    pub(crate) fn date(&self) -> Option<Time> {
        self.time_in(&header::DATE)
    }

    /// The date in a field; `None` if the field is absent or malformed.
    pub(crate) fn time_in(&self, name: &HeaderName) -> Option<Time> {
        self.headers.get(name).and_then(|value| Time::parse(value.as_bytes(), self.received))
    }
}
