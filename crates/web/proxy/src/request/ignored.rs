//! URIs without the parameters that an operator has declared to make no difference.

use http::Uri;
use http::uri::PathAndQuery;
use responses::Policy;

/// A URI without such parameters; `None` if it has none of them.
pub(crate) fn without_ignored(policy: &Policy, uri: &Uri) -> Option<Uri> {
    let rest = policy.without_ignored(uri.path_and_query()?.as_str())?;
    let mut parts = uri.clone().into_parts();
    // A part of a valid query is valid.
    parts.path_and_query = Some(PathAndQuery::try_from(rest).ok()?);
    Uri::from_parts(parts).ok()
}
