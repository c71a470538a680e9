//! Deciding on a hit allocates nothing.

mod common;

use allocation_counter::measure;
use common::{NOW, fields, get, store_as};
use http::Method;
use responses::{Answer, Lookup, Policy, Reuse, Validity, answer, reuse, select};

#[test]
fn a_hit_is_decided_on_without_an_allocation() {
    let policy = Policy::default();
    let response =
        "Cache-Control: max-age=600, public\nETag: \"1\"\nVary: Accept-Encoding, X-Own, Accept-Language, Cookie";
    let request = "Cache-Control: max-age=60, min-fresh=1\nAccept-Encoding: br, gzip;q=0.5\nX-Own: a, b\nAccept-Language: EN\n\
                   Cookie: a=b\nConnection: keep-alive\nIf-None-Match: \"0\", \"2\"\nRange: bytes=0-1";
    let stored = store_as(&policy, &Method::GET, request, 200, response).unwrap();
    let headers = fields(request);
    let allocations = measure(|| {
        let request = get(&policy, &headers);
        assert_eq!(request.lookup(), Lookup::Cache);
        assert_eq!(select(&policy, &request, [&stored]), Some(0));
        let decision = reuse(&policy, &request, &stored, Validity::Current, NOW);
        assert!(matches!(decision, Reuse::Fresh { .. }));
        assert!(matches!(answer(&request, &stored, 10, NOW), Answer::Partial(_)));
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn a_small_response_takes_little_above_its_bytes() {
    let response = "Cache-Control: max-age=600\nETag: \"1\"\nContent-Type: text/plain\nContent-Length: 10";
    let mut stored = None;
    let allocations = measure(|| stored = store_as(&Policy::default(), &Method::GET, "", 200, response).ok());
    let bytes = stored.unwrap().fields().as_bytes().len();
    let above = usize::try_from(allocations.bytes_current).unwrap() - bytes;
    assert!(above == 0, "{above} bytes above those of the fields");
}
