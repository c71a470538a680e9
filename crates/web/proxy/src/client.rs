//! The client at the other end of a connection.

use crate::request::forward::{add_forwarded, add_via, keep_trailers};
use crate::request::target::{Scheme, Target};
use crate::worker::Worker;
use http::request::Parts;
use http::{HeaderMap, Version};
use responses::forward_request;
use serving::{Activity, HintsTo};
use std::net::SocketAddr;
use std::sync::Arc;

/// The client at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) worker: Arc<Worker>,
    pub(crate) peer: SocketAddr,
    pub(crate) scheme: Scheme,
    pub(crate) activity: Arc<Activity>,
}

impl Client {
    /// Where hints for a request go that is under way: only HTTP/1.1 has a way to send them.
    pub(crate) fn hints(&self, version: Version) -> Option<HintsTo> {
        (version == Version::HTTP_11).then(|| HintsTo::new(&self.activity))
    }

    /// The fields of a request as the origin gets them.
    pub(crate) fn forwarded(&self, head: &Parts, target: &Target<'_>) -> HeaderMap {
        let config = &self.worker.shared.config;
        let mut fields = forward_request(&config.policy, &head.headers);
        keep_trailers(&head.headers, &mut fields);
        add_forwarded(&mut fields, target, self.peer);
        add_via(&mut fields, head.version, &config.name);
        fields
    }
}
