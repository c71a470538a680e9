//! A master of several shards holds what clients say against the counts of each page's own shard.

use core::time::Duration;
use master::{Config, EarlierLeases, HomePage, Kind, Master, Opened, Output};
use messages::{Resume, ToClient};
use std::num::{NonZeroU16, NonZeroU32};
use types::{
    Broken, ClientId, Limits, ObjectPage, PageId, PageRange, SessionId, Shard, Sharding, Time, Vector, Version,
};

const SESSION: SessionId = SessionId(1);

/// The client was granted a page before it was gone. Since then another one has filled and emptied it. The client knows
/// nothing of that, however much it knows of the other shard.
#[test]
fn a_grant_is_claimed_by_what_is_known_of_its_own_shard() {
    let sharding = Sharding::new(NonZeroU16::new(2).unwrap(), NonZeroU32::MIN);
    let page = PageId::new(0, 2);
    let shard = sharding.of(page);
    let counts =
        |own, other| -> Vector { [(shard, Version(own)), (Shard(1 - shard.0), Version(other))].into_iter().collect() };
    let claims = |horizon: Vector| {
        let config = Config {
            sharding,
            has_peers: false,
            mob_bytes_limit: 1 << 20,
            cache_bytes_limit: 1 << 20,
            recent_limit: 1000,
            invalidation_delay: Duration::ZERO,
            leased_spaces: Vec::new(),
            lease: Duration::from_secs(2),
            grace: Duration::from_secs(60),
            references: |_, _| {},
            limits: Limits::SHIPPED,
            broken: Broken::NONE,
        };
        let bytes = ObjectPage::empty().len() as u32;
        let pages = vec![HomePage { page, version: Version(3), bytes }];
        let mut master = Master::new(config, Opened { pages, next_pages: vec![(0, 3)], ..Opened::default() });
        master.recovered_through(&counts(3, 5));
        master.start(Time(1), EarlierLeases::default());
        master.connected(SESSION, ClientId(1), Kind::Client);
        let grants = vec![PageRange { first: page, count: 1 }];
        master.resumed(Time(1), SESSION, &Resume { horizon, pages: vec![], grants, last: true, missed: 0 }).unwrap();
        std::iter::from_fn(|| master.poll_output()).find_map(|output| match output {
            Output::Send(SESSION, ToClient::Resumed(resumed)) => Some(resumed.dropped.is_empty()),
            _ => None,
        })
    };
    assert_eq!(claims(counts(3, 0)), Some(true), "it has learned of the last change");
    assert_eq!(claims(counts(0, 5)), Some(false), "the page is not the one that it was granted");
}
