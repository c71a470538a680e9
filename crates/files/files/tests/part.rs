//! A site that is larger than what its server keeps: a member behind TCP, which fetches content for its visitors.

use files::{FileService, Followed, MemberService, Publish, Server, SiteConfig, SiteName, SiteServer, Sites};
#[cfg(feature = "fuse")]
use files::{MountConfig, MountPlace, SiteMount};
use fixtures::{SiteFolder, until};
use net::{Beside, ListenConfig, Runtime};
use objects::Db;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "fuse")]
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// The bytes of content that the server keeps: a fifth of the site, which has a chunk for each small file and several
/// for the large ones.
const KEPT: u64 = 2 << 20;
const SMALL: usize = 40;
const LARGE: usize = 2;
const LARGE_BYTES: usize = 3 << 20;

/// The memory for content, which is too small for a large chunk.
const MEMORY: usize = 1 << 20;

/// Bytes that no other seed has, and that no chunk repeats.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next()).take(bytes).collect()
}

/// The files of an edition of the site, in which the first file is the only one that differs.
fn files(edition: u64) -> Vec<(String, Vec<u8>)> {
    let seed = |at: usize| if at == 0 { 1000 + edition } else { at as u64 };
    let small = (0..SMALL).map(|at| (format!("small-{at}"), content(seed(at), 100_000)));
    let large = (0..LARGE).map(|at| (format!("large-{at}"), content(100 + at as u64, LARGE_BYTES)));
    small.chain(large).collect()
}

fn publish(sites: &Sites, place: &SiteFolder, edition: u64) {
    for (name, bytes) in files(edition) {
        fs::write(place.www().join(name), bytes).unwrap();
    }
    sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| Continue(())).unwrap();
}

/// An error of input or output.
#[cfg(feature = "fuse")]
const EIO: i32 = 5;

fn shop() -> SiteName {
    SiteName::parse("shop").unwrap()
}

/// The status and the body of an answer.
fn get(address: SocketAddr, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    let head = str::from_utf8(&answer[..end]).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), answer.split_off(end + 4))
}

fn follow(address: SocketAddr, dir: PathBuf, content_bytes: Option<u64>) -> (Arc<MemberService>, SiteServer) {
    let (addresses, space) = (address.to_string(), "main".to_owned());
    let followed = Followed { addresses, space: space.clone(), site: shop(), dir, idle_after: None, content_bytes };
    let member = Arc::new(MemberService::start(followed).unwrap());
    let config = SiteConfig {
        space,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        threads: 2,
        connections: 100,
        certificates: None,
        memory: MEMORY,
        refuses_stale: false,
        report: |_| {},
    };
    let server = SiteServer::follow(member.clone(), config).unwrap();
    (member, server)
}

/// The bytes of the files below a directory.
fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|it| if it.path().is_dir() { bytes_in(&it.path()) } else { it.metadata().unwrap().len() }).sum()
}

/// The bytes of the large chunks that a member has on its disk. The table has the small ones.
fn kept(dir: &Path) -> u64 {
    let folders = fs::read_dir(dir.join("chunks")).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|path| path.is_dir()).map(|path| bytes_in(&path)).sum()
}

fn read_all(address: SocketAddr, edition: u64) {
    let read = |part: usize| {
        for (name, bytes) in files(edition).into_iter().skip(part).step_by(4) {
            let (status, body) = get(address, &name);
            assert_eq!(status, 200, "{name}: {}", String::from_utf8_lossy(&body));
            assert!(body == bytes, "{name} has {} other bytes", body.len());
        }
    };
    thread::scope(|scope| (0..4).for_each(|part| drop(scope.spawn(move || read(part)))));
}

/// A store whose first revision is published, its server and its address.
struct Store {
    place: SiteFolder,
    sites: Sites,
    address: SocketAddr,
    _serves: (FileService, Beside, Runtime),
}

impl Store {
    fn start() -> Self {
        let (place, runtime) = (SiteFolder::new(), Runtime::start().unwrap());
        let db = Db::open(place.store()).unwrap();
        let service = FileService::start(db.clone(), &place.store(), Duration::from_secs(2), &runtime).unwrap();
        let beside = service.beside(8);
        let any = "127.0.0.1:0".parse().unwrap();
        let address = beside.host.listen(beside.role, ListenConfig::new(beside.codec, any)).unwrap();
        let (addresses, space) = (address.to_string(), "main".to_owned());
        let publisher = Server { addresses, space, cache: None, is_given_up: Arc::new(|| false) };
        let sites = Sites::connect(Some(db), publisher).unwrap();
        publish(&sites, &place, 1);
        Self { place, sites, address, _serves: (service, beside, runtime) }
    }
}

#[test]
fn a_site_larger_than_the_bound_is_served_as_a_whole() {
    let store = Store::start();
    let (place, sites, address) = (&store.place, &store.sites, store.address);
    let dir = place.www().with_file_name("member");
    let (member, server) = follow(address, dir.clone(), Some(KEPT));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
    assert!(kept(&dir) < KEPT, "no content was fetched for nobody");
    read_all(server.address(), 1);
    until("content has made room", || kept(&dir) <= KEPT + (1 << 20));
    publish(sites, place, 2);
    until("the second revision is served", || member.revision() == Some(2));
    read_all(server.address(), 2);
    until("content has made room", || kept(&dir) <= KEPT + (1 << 20));

    // A restart keeps what is there, and one that keeps all content begins from it.
    drop((member, server));
    let (member, server) = follow(address, dir.clone(), Some(KEPT));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(2));
    assert!(kept(&dir) > 0, "content is still here");
    read_all(server.address(), 2);
    drop((member, server));
    let (member, server) = follow(address, dir.clone(), None);
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(2));
    read_all(server.address(), 2);

    // Without the store, content that is here is served, and other content is refused by name. No thread waits for it.
    drop((member, server));
    let (member, server) = follow(address, dir.clone(), Some(KEPT));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(2));
    until("it keeps a part", || kept(&dir) <= KEPT);
    assert_eq!(get(server.address(), "small-1").0, 200);
    drop(store);
    let answers: Vec<(u16, Vec<u8>)> = thread::scope(|scope| {
        let asked: Vec<_> = files(2)
            .into_iter()
            .take(SMALL)
            .map(|(name, bytes)| {
                let address = server.address();
                scope.spawn(move || {
                    let (status, body) = get(address, &name);
                    assert!(status != 200 || body == bytes, "{name} has other bytes");
                    (status, body)
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let served = answers.iter().filter(|(status, _)| *status == 200).count();
    let refused = answers.iter().filter(|(status, body)| *status == 503 && body.starts_with(b"not-fetched")).count();
    assert!(served > 0 && refused > 0 && served + refused == SMALL, "{served} are served, and {refused} refused");
}

#[cfg(feature = "fuse")]
#[test]
fn a_mount_without_room_for_content_is_read_as_a_whole() {
    if !fixtures::mounts::has_fuse() {
        return;
    }
    let store = Store::start();
    let dir = |name: &str| store.place.www().with_file_name(name);
    let (at, cache) = (dir("mounted"), dir("member"));
    fs::create_dir(&at).unwrap();
    let (addresses, space) = (store.address.to_string(), "main".to_owned());
    let followed = Followed {
        addresses,
        space: space.clone(),
        site: shop(),
        dir: cache.clone(),
        idle_after: None,
        content_bytes: Some(0),
    };
    let member = Arc::new(MemberService::start(followed).unwrap());
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
    let place = MountPlace::new(&at, Some(&cache)).unwrap();
    // Of the memory, none is for content either: what is read is fetched for that alone.
    let config = MountConfig { space, at: place, allows_others: false, memory: 0, refuses_stale: false, writes: None };
    let _mount = SiteMount::follow(member, &config).unwrap();
    let read = |part: usize| {
        for (name, bytes) in files(1).into_iter().skip(part).step_by(4) {
            assert!(fs::read(at.join(&name)).unwrap() == bytes, "{name} has other bytes");
        }
    };
    thread::scope(|scope| (0..4).for_each(|part| drop(scope.spawn(move || read(part)))));
    publish(&store.sites, &store.place, 2);
    until("the mount shows the second revision", || fs::read(at.join("small-0")).is_ok_and(|it| it == files(2)[0].1));
    // Without the store, more readers wait than the mount has threads. They are not in the way of those of directories.
    let late: Vec<_> = (0..20).map(|at| format!("late-{at}")).collect();
    for (name, seed) in late.iter().zip(2000..) {
        fs::write(store.place.www().join(name), content(seed, 10_000)).unwrap();
    }
    store.sites.publish(&shop(), &store.place.www(), &Publish::default(), &mut |_| Continue(())).unwrap();
    until("the mount lists the third revision", || at.join(&late[19]).exists());
    let Store { place: _place, sites, _serves: serves, .. } = store;
    drop((sites, serves));
    let ended = AtomicUsize::new(0);
    thread::scope(|scope| {
        for name in &late {
            let (at, ended) = (&at, &ended);
            scope.spawn(move || {
                let read = fs::read(at.join(name));
                ended.fetch_add(1, SeqCst);
                assert_eq!(read.unwrap_err().raw_os_error(), Some(EIO));
            });
        }
        for _ in 0..100 {
            assert_eq!(fs::read_dir(&at).unwrap().count(), SMALL + LARGE + late.len());
        }
        assert_eq!(ended.load(SeqCst), 0, "readers did not wait");
    });
}
