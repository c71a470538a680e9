//! A home on another machine, over TCP: lookups and tickets are messages to its responder.

mod common;
#[path = "common/relay.rs"]
mod relay;

use coherence::{AttachedHome, Changes, HomeServer, NotStored, ShareConfig, Site, SiteConfig};
use common::{LEASE, PATIENCE, item, stored, until};
use net::Runtime;
use relay::Relay;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn home(listen: SocketAddr, responses_max: u32, runtime: &Runtime) -> HomeServer {
    let site = SiteConfig { lease: LEASE, responses_max, ..SiteConfig::default() };
    let config = ShareConfig { site, listen: Some(listen), ..ShareConfig::default() };
    let begun = Instant::now();
    // The port of the life before may be somebody else's for a moment.
    loop {
        match HomeServer::start(&config, runtime) {
            Ok(home) => return home,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        sleep(Duration::from_millis(20));
    }
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn attach(address: SocketAddr, runtime: &Runtime) -> AttachedHome {
    AttachedHome::attach(&address.to_string().parse().unwrap(), runtime).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_elsewhere_hear_of_each_others_changes() {
    let runtime = Runtime::start().unwrap();
    let home = home(anywhere(), 1000, &runtime);
    let [one, other] = [(); 2].map(|()| attach(home.address().unwrap(), &runtime));
    let mut claims = Vec::new();
    for number in 0..100 {
        claims.push(Arc::new(stored(&one.cache(), &item(number)).await));
    }
    assert!(!claims[0].is_current(), "it has to be asked about");
    // All at once: they share messages.
    let looks: Vec<_> = claims.iter().cloned().map(|claim| tokio::spawn(async move { claim.look().await })).collect();
    for look in looks {
        assert!(look.await.unwrap());
    }
    let ticket = one.cache().fetch_ticket().await.unwrap();
    other.changes().made(item(7)).await.unwrap();
    for (number, claim) in claims.iter().enumerate() {
        assert_eq!(claim.look().await, number != 7);
    }
    assert_eq!(one.cache().store(ticket, &item(7)).await.unwrap_err(), NotStored::Touched, "it may be from before");
    assert_eq!(claims[8].dependencies().await, item(8));
    assert_eq!(other.cache().dependents(&item(8)[0]).await, 1);
    // One of them lets go of everything that it has stored, for a reason of its own.
    let others_claim = stored(&other.cache(), &item(8)).await;
    one.cache().lapse_all();
    assert!(!claims[8].look().await && others_claim.look().await);
    // The slots of a cache are free when its session is over.
    drop((one, claims));
    until("the slots of a cache that is gone", async || other.cache().dependents(&item(8)[0]).await == 1).await;
    assert!(others_claim.look().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_home_is_found_and_knows_nothing_of_the_one_before() {
    let runtime = Runtime::start().unwrap();
    let first = home(anywhere(), 100, &runtime);
    let address = first.address().unwrap();
    let cache = attach(address, &runtime);
    let claims = [stored(&cache.cache(), &item(1)).await, stored(&cache.cache(), &item(2)).await];
    let ticket = cache.cache().fetch_ticket().await.unwrap();
    drop(first);
    // Nobody answers any more: nothing is proven.
    until("the end of its sessions", async || !claims[0].look().await).await;
    assert!(cache.cache().fetch_ticket().await.is_none());
    until("the same of slots", async || {
        cache.cache().store(ticket, &item(1)).await.is_err_and(|why| why == NotStored::Away)
    })
    .await;
    // The next one is smaller: it is asked about slots that it has not.
    let _second = home(address, 1, &runtime);
    let again = stored(&cache.cache(), &item(1)).await;
    assert!(again.look().await && !claims[0].look().await && !claims[1].look().await);
    assert_eq!(cache.cache().store(ticket, &item(1)).await.unwrap_err(), NotStored::TicketVoid);
    drop(claims);
    assert!(again.look().await, "the slot is another one's by now");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_dead_line_nothing_is_proven_in_bounded_time() {
    let runtime = Runtime::start().unwrap();
    let home = home(anywhere(), 100, &runtime);
    let (relay, address) = Relay::to_responder(home.address().unwrap());
    let cache = AttachedHome::attach(&address, &runtime).unwrap();
    let claim = stored(&cache.cache(), &item(1)).await;
    assert!(claim.look().await);
    relay.set_dead(true);
    let asked = async { (claim.look().await, cache.cache().fetch_ticket().await) };
    assert_eq!(tokio::time::timeout(PATIENCE, asked).await.unwrap(), (false, None));
    // A response that was changed in the meantime is not proven later by an answer from before.
    let kept = item(2);
    cache.changes().made(item(1)).await.unwrap();
    relay.set_dead(false);
    let again = stored(&cache.cache(), &kept).await;
    assert!(again.look().await && !claim.look().await);
}

#[tokio::test]
async fn a_thread_that_serves_receives_its_own_look_ups() {
    let runtime = Runtime::start().unwrap();
    let home = home(anywhere(), 100, &runtime);
    let (relay, address) = Relay::to_responder(home.address().unwrap());
    let cache = AttachedHome::attach(&address, &runtime).unwrap();
    let claim = stored(&cache.cache(), &item(1)).await;
    let own = AttachedHome::look_up_here([&cache]);
    // The session that all threads share was the first: from now on nothing is answered there, nor in those that follow
    // it.
    until("the second session", async || relay.connections() == 2).await;
    relay.leave_the_last();
    until("its own session", async || claim.look().await).await;
    for _ in 0..100 {
        assert!(claim.look().await && cache.cache().fetch_ticket().await.is_some());
    }
    // Rule ReadAfterAsking holds for each session.
    cache.changes().made(item(1)).await.unwrap();
    assert!(!claim.look().await);
    let claim = stored(&cache.cache(), &item(2)).await;
    assert!(claim.look().await);
    drop(own);
    assert!(!claim.look().await, "it is left to the sessions that all share");
}

/// A home with its hub elsewhere.
fn home_at(hub: SocketAddr, runtime: &Runtime) -> HomeServer {
    let site = SiteConfig { hub: Some(hub.to_string()), responses_max: 100, ..SiteConfig::default() };
    let config = ShareConfig { site, listen: Some(anywhere()), ..ShareConfig::default() };
    HomeServer::start(&config, runtime).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_done_when_all_homes_have_said_so_that_are_there() {
    let runtime = Runtime::start().unwrap();
    let site = SiteConfig { lease: LEASE, listen: Some(anywhere()), ..SiteConfig::default() };
    let hub = Site::start(&site, &runtime).unwrap();
    let homes = [(); 2].map(|()| home_at(hub.address().unwrap(), &runtime));
    let [one, other] = homes.each_ref().map(|home| attach(home.address().unwrap(), &runtime));
    let changes = Changes::by_all([one.changes(), other.changes()]);
    let claims = [stored(&one.cache(), &item(1)).await, stored(&other.cache(), &item(1)).await];
    changes.made(item(1)).await.unwrap();
    assert!(!claims[0].look().await && !claims[1].look().await);
    // One of them dies: the change is done when its lease is over, by the word of the other.
    let [kept, gone] = homes;
    let claim = stored(&one.cache(), &item(2)).await;
    drop(gone);
    for number in 2..4 {
        tokio::time::timeout(PATIENCE, changes.made(item(number)))
            .await
            .expect("a home that is gone is not waited for")
            .unwrap();
    }
    assert!(!claim.look().await);
    let claim = stored(&one.cache(), &item(5)).await;
    assert!(claim.look().await, "the other's responses are stored as before");
    // Without any home nobody knows.
    drop(kept);
    until("its end", async || !claim.look().await).await;
    let waits = tokio::time::timeout(Duration::from_millis(300), changes.made(item(6))).await;
    assert!(waits.is_err(), "the change is told of when a home is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_cache_is_refused() {
    let runtime = Runtime::start().unwrap();
    let home = home(anywhere(), 100, &runtime);
    let address = home.address().unwrap();
    let cache = attach(address, &runtime);
    let claim = stored(&cache.cache(), &item(1)).await;
    for port in [address.port(), address.port() + 1] {
        for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 4096]] {
            let mut stream = TcpStream::connect((address.ip(), port)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(nonsense).unwrap();
            // A goodbye, the end.
            let mut said = Vec::new();
            let _ = stream.read_to_end(&mut said);
        }
    }
    until("the refusals", async || home.refusals().values().sum::<u64>() == 4).await;
    assert!(claim.look().await, "nobody else notices");
}

#[test]
fn a_home_has_two_ports_one_behind_the_other() {
    let runtime = Runtime::start().unwrap();
    let start = |listen| HomeServer::start(&ShareConfig { listen: Some(listen), ..ShareConfig::default() }, &runtime);
    let home = home(anywhere(), 100, &runtime);
    let taken = home.address().unwrap();
    assert!(start(taken).unwrap_err().to_string().contains("cannot listen"));
    let before = SocketAddr::new(taken.ip(), taken.port() - 1);
    assert!(start(before).unwrap_err().to_string().contains("cannot listen"), "its lookups have no port");
    let last = start(SocketAddr::new(taken.ip(), u16::MAX)).unwrap_err();
    assert!(last.to_string().contains("the next port"), "{last}");
    let open = start(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap_err();
    assert!(open.to_string().contains("--insecure"), "{open}");
}
