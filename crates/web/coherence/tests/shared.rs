//! A home that is a process of its own, and the caches of its machine.

mod common;

use coherence::{AttachedHome, Claim, HomeAddress, HomeServer, NotStored, OneHub, ShareConfig, SiteConfig};
use common::{LEASE, PATIENCE, item, stored, until};
use net::Runtime;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::timeout;

/// The path of a socket in a folder that is removed behind the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("thorp-homes-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("home")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn home(socket: &Path, runtime: &Runtime) -> HomeServer {
    let config = SiteConfig { lease: LEASE, responses_max: 100, ..SiteConfig::default() };
    let config = ShareConfig { site: config, socket: Some(socket.to_owned()), ..ShareConfig::default() };
    HomeServer::start(&config, runtime).unwrap()
}

fn attach(socket: &Path, runtime: &Runtime) -> AttachedHome {
    AttachedHome::attach(&HomeAddress::Socket(socket.to_owned()), runtime).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn caches_that_share_a_home_hear_of_each_others_changes() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let _home = home(&folder.socket(), &runtime);
    let caches = [(); 3].map(|()| attach(&folder.socket(), &runtime));
    for round in 0..30 {
        let mut claims = Vec::new();
        for cache in &caches {
            claims.push(stored(&cache.cache(), &item(round)).await);
        }
        let kept = stored(&caches[0].cache(), &item(1000)).await;
        assert!(claims.iter().all(Claim::is_current));
        assert_eq!(claims[1].dependencies().await, item(round));
        assert_eq!(caches[2].cache().dependents(&item(round)[0]).await, 3);
        let ticket = caches[1].cache().ticket().unwrap();
        caches[round as usize % 3].changes().made(item(round)).await.unwrap();
        assert!(claims.iter().all(|claim| !claim.is_current()));
        let late = caches[1].cache().store(ticket, &item(round)).await;
        assert_eq!(late.unwrap_err(), NotStored::Touched, "it may be from before");
        assert!(kept.is_current(), "what depends on something else stays");
    }
    // One of them lets go of everything that it has stored, for a reason of its own.
    let [own, others] = [&caches[0], &caches[1]].map(AttachedHome::cache);
    let (own_claim, others_claim) = (stored(&own, &item(1)).await, stored(&others, &item(1)).await);
    own.lapse_all();
    assert!(!own_claim.is_current() && others_claim.is_current());
    assert!(stored(&own, &item(1)).await.is_current());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_gone_keeps_no_slots() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let _home = home(&folder.socket(), &runtime);
    let [one, other] = [(); 2].map(|()| attach(&folder.socket(), &runtime));
    let mut claims = Vec::new();
    for _ in 0..50 {
        claims.push(stored(&one.cache(), &item(1)).await);
        claims.push(stored(&other.cache(), &item(1)).await);
    }
    let ticket = other.cache().ticket().unwrap();
    assert_eq!(other.cache().store(ticket, &item(1)).await.unwrap_err(), NotStored::Full);
    // One that is given back is free at once; those of a cache that has ended are when the home sees it.
    drop(claims.pop());
    until("a slot that is given back", async || other.cache().dependents(&item(1)[0]).await == 99).await;
    let kept: Vec<_> = claims.drain(..).enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, claim)| claim).collect();
    drop(one);
    until("the slots of a cache that is gone", async || other.cache().dependents(&item(1)[0]).await == 49).await;
    assert!(kept.iter().all(Claim::is_current), "the other cache has its own still");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_home_is_found_and_knows_nothing_of_the_one_before() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let cache = attach(&folder.socket(), &runtime);
    assert!(cache.cache().ticket().is_none(), "there is no home yet");
    // A change that is notified of while there is none is notified of to the first one that comes.
    let changes = cache.changes();
    let early = tokio::spawn(async move { changes.made(item(1)).await });
    let first = home(&folder.socket(), &runtime);
    timeout(PATIENCE, early).await.unwrap().unwrap().unwrap();
    let claim = stored(&cache.cache(), &item(1)).await;
    let ticket = cache.cache().ticket().unwrap();
    drop(first);
    // A stored response is current as long as the lease: that is proof, whatever has become of the home.
    until("the end of the lease", async || !claim.is_current()).await;
    assert!(cache.cache().ticket().is_none());
    assert_eq!(cache.cache().store(ticket, &item(1)).await.unwrap_err(), NotStored::Away);
    let _second = home(&folder.socket(), &runtime);
    let again = stored(&cache.cache(), &item(1)).await;
    assert!(again.is_current() && !claim.is_current());
    assert_eq!(cache.cache().store(ticket, &item(1)).await.unwrap_err(), NotStored::TicketVoid);
    drop(claim);
    assert!(again.is_current(), "the slot is another one's by now");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_cache_is_refused() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let home = home(&folder.socket(), &runtime);
    let cache = attach(&folder.socket(), &runtime);
    let claim = stored(&cache.cache(), &item(1)).await;
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 4096]] {
        let mut stream = UnixStream::connect(folder.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(nonsense).unwrap();
        // The greeting, a goodbye, the end.
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.starts_with(b"thorp-fd"));
    }
    until("the refusals", async || home.host().tally().refusals.values().sum::<u64>() == 2).await;
    assert!(claim.is_current(), "nobody else notices");
}

/// The homes that a cache does not take: it stores nothing, and continues to look for one.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_home_is_left() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let listener = UnixListener::bind(folder.socket()).unwrap();
    let cache = attach(&folder.socket(), &runtime);
    // One that passes nothing, one that hangs up, one that says something else.
    for greeting in [&b""[..], b"thorp-fd", b"thorp-fd\0\0\0\0\0\0\0\0", &[7; 64]] {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting).unwrap();
    }
    assert!(cache.cache().ticket().is_none());
    drop(listener);
    let _home = home(&folder.socket(), &runtime);
    stored(&cache.cache(), &item(1)).await;
}

#[test]
fn two_homes_do_not_share_a_socket() {
    let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
    let _home = home(&folder.socket(), &runtime);
    let error = HomeServer::start(&ShareConfig { socket: Some(folder.socket()), ..ShareConfig::default() }, &runtime)
        .unwrap_err();
    assert!(error.to_string().contains("home"), "{error}");
}

/// Two homes with hubs of their own, and two with one hub: a probe tells them apart, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn homes_with_different_hubs_are_told_from_those_with_one() {
    let (folders, runtime) = ([(); 3].map(|()| Folder::new()), Runtime::start().unwrap());
    let start = |folder: &Folder, site: SiteConfig| {
        let config = ShareConfig {
            site: SiteConfig { lease: LEASE, responses_max: 100, ..site },
            socket: Some(folder.socket()),
            ..ShareConfig::default()
        };
        HomeServer::start(&config, &runtime).unwrap()
    };
    let with_hub = SiteConfig { listen: Some("127.0.0.1:0".parse().unwrap()), ..SiteConfig::default() };
    let first = start(&folders[0], with_hub);
    let hub = first.hub_address().unwrap().to_string();
    let _same = start(&folders[1], SiteConfig { hub: Some(hub), ..SiteConfig::default() });
    let _other = start(&folders[2], SiteConfig::default());
    let [first, same, other] = folders.each_ref().map(|folder| attach(&folder.socket(), &runtime));
    for home in [&first, &same, &other] {
        stored(&home.cache(), &item(1)).await;
    }
    let known = async |one: &AttachedHome, other: &AttachedHome| loop {
        match one.has_hub_of(other).await {
            OneHub::Unknown => {}
            known => break known,
        }
    };
    for (one, another, expected) in [
        (&first, &same, OneHub::Same),
        (&same, &first, OneHub::Same),
        (&first, &other, OneHub::Different),
        (&other, &same, OneHub::Different),
    ] {
        assert_eq!(timeout(PATIENCE, known(one, another)).await.unwrap(), expected);
    }
}
