//! Watchers that stand by, and the homes that follow the one that has its turn.

use crate::server::{Postgres, block_on, is_installed};
use crate::web::{Web, stored};
use crate::{HELD, MAP, PATIENCE, until};
use coherence::{Site, SiteConfig, SourceName, Updates};
use net::Runtime;
use pgwatch::{Patience, Watch, WatchConfig, WatchState, set_up};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(1);

fn begin() -> (Postgres, WatchConfig) {
    let server = Postgres::start(&[]);
    let config = server.watched(MAP);
    server.session().run("CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'old')");
    block_on(set_up(&config, &mut Patience::endless())).unwrap();
    (server, config)
}

/// The hub learns of the slot's watcher alone, and caches continue while another one waits for the slot.
#[test]
fn a_watcher_that_stands_by_for_a_hub_elsewhere_marks_nothing() {
    if !is_installed() {
        return;
    }
    let ((server, config), runtime) = (begin(), Runtime::start().unwrap());
    let source = SourceName::new("shop").unwrap();
    let (listen, sources) = (Some("127.0.0.1:0".parse().unwrap()), vec![source.clone()]);
    let site = Site::start(&SiteConfig { listen, sources, ..SiteConfig::default() }, &runtime).unwrap();
    let (cache, hub) = (site.cache(), site.address().unwrap().to_string());
    let begin = || {
        let updates = Updates::connect_source(&hub, source.clone(), &runtime).unwrap();
        Watch::start(config.clone(), updates, None).unwrap()
    };
    let first = begin();
    assert!(first.wait_for(WatchState::Watching, PATIENCE), "{:?}", first.status());
    let session = server.session();
    let mut claim = stored(&cache, "item:1");
    let second = begin();
    until("it stands by", || second.status().last_error.is_some());
    let begun = Instant::now();
    while begun.elapsed() < 2 * HELD {
        assert!(claim.is_current(), "it marks what another one speaks for");
    }

    // It has its turn.
    first.stop().into_iter().for_each(drop);
    assert!(second.wait_for(WatchState::Watching, PATIENCE), "{:?}", second.status());
    claim = stored(&cache, "item:1");
    session.run("UPDATE items SET name = 'new' WHERE id = 1");
    assert!(!claim.is_current());
}

/// A home goes where the watcher has the slot: to the next hub of those that it knows, and back.
#[test]
fn homes_follow_the_slot() {
    if !is_installed() {
        return;
    }
    let ((server, config), runtime) = (begin(), Runtime::start().unwrap());
    let config = WatchConfig { lease: LEASE, others_lease: LEASE, ..config };
    let hubs = [(), ()].map(|()| Web::leased_at("127.0.0.1:0", LEASE));
    let addresses = hubs.each_ref().map(Web::address);
    let hub = Some(addresses.join(","));
    let site = Site::start(&SiteConfig { hub, responses_max: 16, ..SiteConfig::default() }, &runtime).unwrap();
    let (cache, session) = (site.cache(), server.session());
    let begin = |web: &Web| Watch::start(config.clone(), web.updates(), web.lease()).unwrap();
    let watches = hubs.each_ref().map(begin);
    for turn in 0..3 {
        until("one of them watches", || watches.iter().any(|watch| watch.status().state == WatchState::Watching));
        let claim = stored(&cache, "item:1");
        session.run(&format!("UPDATE items SET name = 'turn {turn}' WHERE id = 1"));
        assert!(!claim.is_current(), "turn {turn}");
        let has_slot = |watch: &Watch| watch.status().state == WatchState::Watching;
        let (at, watching) = watches.iter().enumerate().find(|(_, watch)| has_slot(watch)).expect("just seen");
        let other = &watches[1 - at];
        let before = other.status().connections;
        let end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active";
        until("the other one has the slot", || {
            if has_slot(watching) {
                session.ask(end);
            }
            other.status().connections > before
        });
    }
}
