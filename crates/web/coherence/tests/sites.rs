//! Sites as their users have them: alone, and several around one hub.

use coherence::{Cache, Claim, Dependency, Fence, Site, SiteConfig, SourceName, Updates};
use net::Runtime;
use std::time::{Duration, Instant};

fn item(number: u32) -> Vec<Dependency> {
    vec![Dependency::new(format!("item:{number}")).unwrap()]
}

/// Stores a response as soon as the home has a lease.
async fn stored(cache: &Cache, dependencies: &[Dependency]) -> Claim {
    let begun = Instant::now();
    loop {
        if let Some(ticket) = cache.ticket()
            && let Ok(claim) = cache.store(ticket, dependencies).await
        {
            return claim;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is stored");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alone_an_update_is_released_at_once() {
    let site = Site::start(&SiteConfig::default(), &Runtime::start().unwrap()).unwrap();
    let (cache, updates) = (site.cache(), site.updates());
    for round in 0..100 {
        let proof = stored(&cache, &item(round)).await;
        let ticket = cache.ticket().unwrap();
        let update = updates.announce(item(round)).await.unwrap();
        assert!(!proof.is_current());
        assert!(cache.store(ticket, &item(round)).await.is_err(), "it may be from before");
        update.visible();
        assert!(cache.store(ticket, &item(round)).await.is_err(), "it may still be from before");
        let again = stored(&cache, &item(round)).await;
        assert!(again.is_current());
        assert_eq!((again.dependencies().await, cache.dependents(&item(round)[0]).await), (item(round), 1));
        drop(again);
        assert_eq!(cache.dependents(&item(round)[0]).await, 0);
    }
}

/// Many at a time, each with an update of its own, dropped at any point.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_is_given_up_leaves_no_mark() {
    let site = Site::start(&SiteConfig::default(), &Runtime::start().unwrap()).unwrap();
    let cache = site.cache();
    stored(&cache, &item(0)).await;
    let tasks = (1..50).map(|number| {
        let updates = site.updates();
        tokio::spawn(async move {
            let within = Duration::from_micros(u64::from(number) * 5);
            drop(tokio::time::timeout(within, updates.announce(item(number))).await);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for number in 1..50 {
        stored(&cache, &item(number)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sites_around_one_hub_hear_of_every_update() {
    let runtime = Runtime::start().unwrap();
    let lease = Duration::from_millis(200);
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let hub = Site::start(&SiteConfig { listen, lease, ..SiteConfig::default() }, &runtime).unwrap();
    let address = hub.address().unwrap().to_string();
    let sites = [(); 3]
        .map(|()| Site::start(&SiteConfig { hub: Some(address.clone()), ..SiteConfig::default() }, &runtime).unwrap());
    let far = Updates::connect(&address, &runtime).unwrap();
    // A hub that listens may come after another one, and keeps everything marked until that one's updates are visible.
    hub.updates().caught_up(Fence::NONE);
    for updates in [hub.updates(), far.clone(), sites[0].updates()] {
        let mut proofs = Vec::new();
        for site in sites.iter().chain([&hub]) {
            proofs.push(stored(&site.cache(), &item(7)).await);
        }
        let update = updates.announce(item(7)).await.unwrap();
        assert!(proofs.iter().all(|proof| !proof.is_current()));
        update.visible();
    }

    // The hub is gone: responses that are stored answer as long as the lease, and no update is released.
    let proof = stored(&sites[1].cache(), &item(8)).await;
    drop(hub);
    let announced = far.announce(item(8));
    assert!(tokio::time::timeout(Duration::from_millis(500), announced).await.is_err());
    assert!(!proof.is_current() && sites[1].cache().ticket().is_none());
}

/// Waits until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_without_the_source() {
    let runtime = Runtime::start().unwrap();
    let (lease, listen) = (Duration::from_millis(200), Some("127.0.0.1:0".parse().unwrap()));
    let (name, fence) = (|name: &str| SourceName::new(name).unwrap(), |number| Fence { term: 0, number });
    let sources = vec![name("shop")];
    let site = Site::start(&SiteConfig { listen, lease, sources, ..SiteConfig::default() }, &runtime).unwrap();
    let (cache, address) = (site.cache(), site.address().unwrap().to_string());
    site.updates().caught_up(Fence::NONE);
    let is_stored = async || match cache.ticket() {
        Some(ticket) => cache.store(ticket, &item(1)).await.is_ok(),
        None => false,
    };
    let stranger = Updates::connect_source(&address, name("shed"), &runtime).unwrap();
    stranger.caught_up(fence(1));
    until("a stranger is told so", || stranger.trouble().is_some_and(|why| why.to_string().contains("'shed'"))).await;
    assert!(!is_stored().await);

    let source = Updates::connect_source(&address, name("shop"), &runtime).unwrap();
    source.announce(item(1)).await.unwrap().visible();
    assert!(!is_stored().await, "it has not caught up");
    source.caught_up(fence(1));
    let proof = stored(&cache, &item(1)).await;
    let next = Updates::connect_source(&address, name("shop"), &runtime).unwrap();
    next.announce(item(2)).await.unwrap().visible();
    source.announce(item(2)).await.unwrap().visible();
    assert!(proof.is_current(), "the one that comes later may never have its turn");
    next.caught_up(fence(2));
    until("another one takes its place", || source.trouble().is_some()).await;
    assert!(source.announce(item(1)).await.is_err());
    let proof = stored(&cache, &item(1)).await;
    drop(next);
    until("it is gone, and everything is marked", || !proof.is_current()).await;
    assert!(!is_stored().await);
}

#[test]
fn an_address_that_is_none_is_refused() {
    let config = SiteConfig { hub: Some("nowhere".to_owned()), ..SiteConfig::default() };
    let error = Site::start(&config, &Runtime::start().unwrap()).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}
