//! `Cache-Status` members.

use http::StatusCode;
use responses::{CacheStatus, ForwardReason, NotStored, Policy, RevalidateReason};

fn member(status: &CacheStatus) -> String {
    status.to_header(&Policy::default()).to_str().unwrap().to_owned()
}

#[test]
fn a_member_says_what_happened_and_why() {
    let hit = CacheStatus { hit: true, ttl_s: Some(-5), ..CacheStatus::default() };
    assert_eq!(member(&hit), "thorp; hit; ttl=-5");
    let miss = CacheStatus { forward: Some(ForwardReason::UriMiss), stored: true, ..CacheStatus::default() };
    assert_eq!(member(&miss), "thorp; fwd=uri-miss; stored");
    let collapsed = CacheStatus { collapsed: true, ..miss };
    assert_eq!(member(&collapsed), "thorp; fwd=uri-miss; stored; collapsed");
    let validated = CacheStatus {
        forward: Some(RevalidateReason::Invalidated.into()),
        forward_status: Some(StatusCode::NOT_MODIFIED),
        detail: Some(RevalidateReason::Invalidated.name()),
        ..CacheStatus::default()
    };
    assert_eq!(member(&validated), "thorp; fwd=stale; fwd-status=304; detail=invalidated");
    let refused = CacheStatus {
        forward: Some(RevalidateReason::RequestNoCache.into()),
        detail: Some(NotStored::NoStore.name()),
        ..CacheStatus::default()
    };
    assert_eq!(member(&refused), "thorp; fwd=request; detail=no-store");
}
