//! Bytes of any kind in every field that a decision reads: nothing panics, and nothing malformed is a permission.

mod common;

use common::{NOW, get, target};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use responses::{
    Coherence, Dependencies, KeyRef, KeyRefusal, Policy, Request, Response, Time, Validity, without_default_port,
};

const FIELDS: [&str; 26] = [
    "accept-encoding",
    "accept-language",
    "age",
    "authorization",
    "cache-control",
    "cache-group-invalidation",
    "cache-groups",
    "cache-tag",
    "cdn-cache-control",
    "connection",
    "content-length",
    "content-location",
    "cookie",
    "date",
    "etag",
    "expires",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "last-modified",
    "location",
    "range",
    "surrogate-control",
    "surrogate-key",
    "vary",
    "x-other",
];

/// Pieces that parsers look for, and bytes of any kind between them.
fn value() -> impl Strategy<Value = HeaderValue> {
    let pieces = prop_oneof![
        prop::sample::select(vec![
            "max-age",
            "s-maxage",
            "=",
            "60",
            "\"",
            ",",
            ";",
            "no-cache",
            "private",
            "must-understand",
            "*",
            "bytes=",
            "-",
            "W/\"1\"",
            "gzip",
            "q=0",
            "GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "https://",
            "example.org",
            "/",
            "..",
            "?",
            "#",
            "(",
            ")",
            "?1",
            "\\",
            " ",
            "max-stale",
            "stale-while-revalidate",
            "x-other",
            "99999999999999999999",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(pieces, 0..8).prop_filter_map("a value has no control characters", |pieces| {
        HeaderValue::from_bytes(pieces.concat().trim_ascii()).ok()
    })
}

fn map() -> impl Strategy<Value = HeaderMap> {
    prop::collection::vec((prop::sample::select(FIELDS.to_vec()), value()), 0..8)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (HeaderName::from_static(name), value)).collect())
}

fn policies() -> [Policy; 2] {
    [Policy::default(), Policy { coherence: Coherence::Weak, ..Policy::default() }]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_exchange_panics(
        request in map(),
        response in map(),
        later in map(),
        not_modified in map(),
        status in 100u16..1000,
        seconds in 0u64..100_000,
    ) {
        for policy in policies() {
            let status = StatusCode::from_u16(status).unwrap();
            let first = Request::new(&policy, &Method::GET, target(), &request);
            let second = Request::new(&policy, &Method::GET, target(), &later);
            let _ = (second.lookup(), responses::forward_request(&policy, &later));
            let _ = responses::invalidation(&policy, &Method::POST, target(), status, &response);
            let response = Response { status, headers: &response, requested: NOW, received: NOW.plus(1) };
            let post = Request::new(&policy, &Method::POST, target(), &request);
            let Ok(dependencies) = Dependencies::read(&policy, response.headers) else { continue };
            let _ = responses::store(&policy, &post, &response, &dependencies);
            let Ok(stored) = responses::store(&policy, &first, &response, &dependencies) else { continue };
            prop_assert!(stored.selecting().matches(&policy, &request), "its own request selects it");
            prop_assert_eq!(stored.fields().to_map().len(), stored.fields().iter().count());
            let now = NOW.plus(seconds);
            let _ = responses::reuse(&policy, &second, &stored, Validity::Current, now);
            let answer = responses::answer(&second, &stored, seconds, now);
            let _ = answer.fields(&stored, seconds, 0);
            if let responses::Answer::Partial(slice) = answer {
                prop_assert!(slice.start < slice.end && slice.end <= seconds);
            }
            let mut forwarded = later.clone();
            responses::conditional(&stored, Validity::Invalidated, &mut forwarded);
            let not_modified =
                Response { status: StatusCode::NOT_MODIFIED, headers: &not_modified, requested: now, received: now };
            let _ = responses::freshen(&policy, &first, &stored, &not_modified);
            let _ = responses::freshen_by_head(&policy, &first, &stored, seconds, &not_modified);
        }
    }

    #[test]
    fn a_date_that_is_written_is_read(seconds in 0u64..=253_402_300_799) {
        let time = Time::from_unix_s(seconds);
        prop_assert_eq!(Time::parse(time.to_header().as_bytes(), NOW), Some(time));
    }

    #[test]
    fn no_bytes_make_a_parser_of_dates_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), now in any::<u64>()) {
        let _ = Time::parse(&bytes, Time::from_unix_s(now % 253_402_300_800));
    }

    #[test]
    fn a_date_with_bytes_changed_is_no_date_or_another(
        place in 0usize..29,
        byte in any::<u8>(),
        form in prop::sample::select(vec![
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        ]),
    ) {
        let mut bytes = form.as_bytes().to_vec();
        let place = place % bytes.len();
        bytes[place] = byte;
        if let Some(time) = Time::parse(&bytes, NOW) {
            prop_assert!(time.unix_s() <= 253_402_300_799);
        }
    }

    #[test]
    fn a_key_is_its_parts(authority in "[a-zA-Z0-9.:\\[\\]-]{1,20}", path in "/[!-\"$-~]{0,30}") {
        let host = without_default_port("https", &authority).to_ascii_lowercase();
        match KeyRef::new("https", &authority, &path) {
            Ok(reference) => {
                let key = reference.to_key();
                prop_assert!(reference == key);
                prop_assert_eq!(key.to_string(), format!("https://{host}{path}"));
            }
            Err(refusal) => prop_assert!(host.is_empty() && refusal == KeyRefusal::NoAuthority),
        }
    }

    #[test]
    fn malformed_directives_never_lengthen_a_lifetime(argument in "x[!#-+./-9;-<>-~-]{0,20}") {
        let (policy, none) = (Policy::default(), HeaderMap::new());
        let headers = common::fields(&format!("Cache-Control: max-age=60, max-age={argument}\nETag: \"1\""));
        let response = Response { status: StatusCode::OK, headers: &headers, requested: NOW, received: NOW };
        let stored = responses::store(&policy, &get(&policy, &none), &response, &Dependencies::default()).unwrap();
        prop_assert_eq!(stored.freshness().lifetime_s(), 0);
    }
}
