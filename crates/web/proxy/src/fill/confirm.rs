//! A stored response that the origin confirms.

use super::{Fill, OVERTAKEN, Times};
use crate::fill::along::Along;
use crate::fill::collect;
use crate::fill::fills::Outcome;
use crate::fill::reserved::Reserved;
use crate::request::answer::{passed, stored};
use crate::request::body::Body;
use crate::request::paced::Arriving;
use crate::stored::content::Content;
use crate::stored::entry::Entry;
use http::{HeaderMap, Response, StatusCode};
use responses::{CacheStatus, Dependencies, Freshened, Stored, Validity, freshen, freshen_by_head};
use std::sync::Arc;

impl Fill {
    /// The origin says that the stored response is still good. `None` if it means another one.
    pub(super) async fn confirmed(&mut self, fields: &HeaderMap, times: Times) -> Option<Response<Body>> {
        let stale = self.need.stale.clone()?;
        let policy = &self.shared().config.policy;
        let freshened =
            freshen(policy, &self.asked(), &stale.stored, &times.response(StatusCode::NOT_MODIFIED, fields))?;
        if let Some(reason) = freshened.not_stored {
            self.shared().misread_response(&self.head.uri, reason.name(), fields);
        }
        Some(self.freshened(&stale, freshened, times).await)
    }

    /// A stored response is as good as new.
    async fn freshened(&mut self, stale: &Arc<Entry>, freshened: Freshened, times: Times) -> Response<Body> {
        let shared = self.worker.shared.clone();
        let Freshened { stored: fresh, answer: answering, dependencies, not_stored } = freshened;
        let (age_s, ttl_s) = (fresh.freshness().age_s(times.received), fresh.freshness().ttl_s(times.received));
        let status =
            CacheStatus { forward_status: Some(StatusCode::NOT_MODIFIED), ttl_s: Some(ttl_s), ..self.status() };
        let content = stale.content();
        let (not_kept, outcome) = if let Some(reason) = not_stored {
            shared.entries.remove(&self.name.key);
            (Some(reason.name()), Outcome::Unstorable)
        } else {
            match self.keep_fresh(stale, &fresh, &dependencies).await {
                Ok(()) => (None, Outcome::Stored),
                Err(reason) => (Some(reason), self.pass_whole(fresh, content.clone(), reason)),
            }
        };
        let is_kept = not_kept.is_none();
        let status = CacheStatus { stored: is_kept, ..status };
        let detail = not_kept.or(status.detail);
        self.decided(CacheStatus { detail, ..status }, Some(StatusCode::NOT_MODIFIED));
        let entry = Arc::new(Entry::alone(answering, &content));
        let answer = stored(&shared, &self.asked(), &entry, times.received, age_s, &status);
        self.end(outcome);
        answer
    }

    /// Stores it again as it is now; or gives the name of the reason that it is not.
    async fn keep_fresh(
        &self,
        stale: &Arc<Entry>,
        fresh: &Stored,
        dependencies: &Dependencies,
    ) -> Result<(), &'static str> {
        match self.claim(dependencies).await {
            Ok(claim) => self.keep(fresh.clone(), &stale.content(), claim).then_some(()).ok_or(OVERTAKEN),
            Err(reason) => {
                // One that the home still takes for current has its dependencies of before, and they may be others now.
                // The others are validated again at their next use.
                if stale.validity().await == Validity::Current {
                    self.shared().entries.remove(&self.name.key);
                }
                Err(reason)
            }
        }
    }

    /// The outcome of one that is here already, and is not stored as it is now.
    fn pass_whole(&self, stored: Stored, content: Content, not_stored: &'static str) -> Outcome {
        let shared = self.shared();
        // The cache has counted its bytes.
        let reserved = Reserved::new(shared.collected_bytes.clone(), &shared.config.limits, 0);
        reserved.map_or(Outcome::Missed, |reserved| {
            let along = Along::new(stored, self.since, collect::whole(content, reserved), None);
            Outcome::Passed(Arc::new(along), not_stored)
        })
    }

    /// The response to a HEAD says whether the stored one to a GET is still good.
    pub(super) async fn head_received(&mut self, response: Response<Arriving>, times: Times) -> Response<Body> {
        let shared = self.worker.shared.clone();
        let policy = &shared.config.policy;
        let freshened = self.need.stale.as_ref().and_then(|stale| {
            let head = times.response(response.status(), response.headers());
            freshen_by_head(policy, &self.asked(), &stale.stored, stale.content_bytes(), &head)
        });
        if let (Some(stale), Some(freshened)) = (self.need.stale.clone(), freshened) {
            return self.freshened(&stale, freshened, times).await;
        }
        self.decline(response.status(), Outcome::Failed, false);
        passed(&shared, &self.head.method, response.map(Body::Origin), &self.status())
    }
}
