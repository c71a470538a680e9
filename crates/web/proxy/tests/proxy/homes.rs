//! Homes in processes of their own, several to a proxy.

use crate::harness::{Client, Origin, PATIENCE, config, response};
use coherence::{AttachedHome, Dependency, HomeAddress, HomeServer, ShareConfig};
use net::Runtime;
use proxy::{Note, Proxy, SiteConfig};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const PAGES: usize = 20;

/// A home at addresses that others can reach, with a hub of its own or elsewhere.
fn home(hub: Option<String>, runtime: &Runtime) -> (HomeServer, HomeAddress) {
    let hub_listen = hub.is_none().then(|| "127.0.0.1:0".parse().unwrap());
    let config = ShareConfig {
        site: SiteConfig { hub, listen: hub_listen, lease: Duration::from_millis(500), ..SiteConfig::default() },
        listen: Some("127.0.0.1:0".parse().unwrap()),
        ..ShareConfig::default()
    };
    let home = HomeServer::start(&config, runtime).unwrap();
    let address = home.address().unwrap().to_string().parse().unwrap();
    (home, address)
}

/// Pages of one value, all of which depend on it.
fn pages(value: Arc<AtomicUsize>) -> Origin {
    Origin::start(move |_| {
        let fields = [("cache-control", "max-age=600"), ("cache-groups", "\"item\"")];
        response(200, &fields, value.load(SeqCst).to_string())
    })
}

fn start(origin: &Origin, homes: [HomeAddress; 2]) -> (Proxy, mpsc::Receiver<Note>) {
    let (notes, noted) = mpsc::channel();
    let mut config = config(origin.address);
    (config.notes, config.homes) = (Some(notes), homes.into());
    (Proxy::start(config).unwrap(), noted)
}

/// How many of the pages are hits.
fn hits(proxy: &Proxy) -> usize {
    let mut client = Client::connect(proxy.address());
    (0..PAGES).filter(|page| client.get(&format!("/{page}")).is_hit()).count()
}

fn until_hits(proxy: &Proxy, is_enough: impl Fn(usize) -> bool) {
    let begun = Instant::now();
    while !is_enough(hits(proxy)) {
        assert!(begun.elapsed() < PATIENCE, "pages are not stored: {} hits", hits(proxy));
    }
}

/// A change that is told to the hub of one of the homes reaches every page: none is stored at the home that has
/// another hub.
#[test]
fn a_home_with_another_hub_than_the_first_is_refused() {
    let runtime = Runtime::start().unwrap();
    let homes = [(); 2].map(|()| home(None, &runtime));
    let value = Arc::new(AtomicUsize::new(1));
    let addresses = homes.each_ref().map(|(_, address)| address.clone());
    let (proxy, noted) = start(&pages(value.clone()), addresses.clone());
    let note = noted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(note.name(), "home-refused");
    let text = note.to_string();
    let [first, second] = addresses.each_ref().map(|address| text.find(&address.to_string()).unwrap());
    let used = if first < second { &addresses[1] } else { &addresses[0] };
    until_hits(&proxy, |hits| hits > 0);
    assert!(hits(&proxy) < PAGES, "some pages have their home at the refused one");
    value.store(2, SeqCst);
    let updater = AttachedHome::attach(used, &runtime).unwrap();
    let tasks = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tasks.block_on(updater.changes().made(vec![Dependency::new("item").unwrap()])).unwrap();
    let mut client = Client::connect(proxy.address());
    for page in 0..PAGES {
        assert_eq!(client.get(&format!("/{page}")).text(), "2", "/{page} is stale");
    }
    assert!(noted.try_iter().all(|note| note.name() != "home-refused"), "it is said once");
}

#[test]
fn homes_with_one_hub_are_all_used() {
    let runtime = Runtime::start().unwrap();
    let one = home(None, &runtime);
    let other = home(Some(one.0.hub_address().unwrap().to_string()), &runtime);
    let (proxy, noted) = start(&pages(Arc::default()), [one.1.clone(), other.1.clone()]);
    until_hits(&proxy, |hits| hits == PAGES);
    assert!(noted.try_iter().all(|note| note.name() != "home-refused"));
}
