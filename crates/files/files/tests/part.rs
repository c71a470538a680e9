//! A site that is larger than what its server keeps: a member behind TCP, which fetches content for its visitors.

use files::{FileService, Followed, MemberService, Publish, Server, SiteConfig, SiteName, SiteServer, Sites};
#[cfg(feature = "fuse")]
use files::{FilesError, MountAccess, MountConfig, MountPlace, MountWrites, Publishes, SiteMount};
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
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
#[cfg(feature = "fuse")]
use std::{os::unix::fs::FileExt, sync::Mutex, time::Instant};

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

/// The files of one version of the site. Versions differ in the first file alone.
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
    // Rules in the directory, and those that are a chunk of their own.
    fs::write(place.www().join("_redirects"), "/old /small-0\n").unwrap();
    fs::write(place.www().join("_headers"), format!("/*\n  X-Long: {}\n", "long ".repeat(200))).unwrap();
    sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| Continue(())).unwrap();
}

/// Errors of input or output, and of a mount that has ended.
#[cfg(feature = "fuse")]
const EIO: i32 = 5;
#[cfg(feature = "fuse")]
const ENOTCONN: i32 = 107;

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

/// The sites of a store, as a publisher sees them until it is over.
fn connect(address: SocketAddr, db: Db, is_over: Arc<AtomicBool>) -> Sites {
    let (addresses, space) = (address.to_string(), "main".to_owned());
    let is_given_up = Arc::new(move || is_over.load(SeqCst));
    Sites::connect(Some(db), Server { addresses, space, cache: None, is_given_up }).unwrap()
}

/// A store whose first revision is published, its server and its address.
struct Store {
    place: SiteFolder,
    sites: Sites,
    #[cfg_attr(not(feature = "fuse"), expect(dead_code, reason = "only mounts need it"))]
    db: Db,
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
        let sites = connect(address, db.clone(), Arc::default());
        publish(&sites, &place, 1);
        Self { place, sites, db, address, _serves: (service, beside, runtime) }
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
    assert_eq!(member.trouble(), None);
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

    // Without the store, content that is here is served, also after a restart: the site's rules stay, which each
    // visitor needs. Other content is refused by name. No thread waits for it.
    drop((member, server));
    let (member, server) = follow(address, dir.clone(), Some(KEPT));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(2));
    until("it keeps a part", || kept(&dir) <= KEPT);
    read_all(server.address(), 2);
    (0..15).for_each(|at| assert_eq!(get(server.address(), &format!("small-{at}")).0, 200));
    let Store { place: _place, sites, _serves: serves, .. } = store;
    drop((member, server, sites, serves));
    let (_member, server) = follow(address, dir, Some(KEPT));
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

#[test]
fn content_that_is_damaged_here_is_fetched_again() {
    let store = Store::start();
    let dir = store.place.www().with_file_name("member");
    let (member, server) = follow(store.address, dir.clone(), Some(u64::MAX));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
    read_all(server.address(), 1);
    let fetched = kept(&dir);
    drop((member, server));
    for folder in fs::read_dir(dir.join("chunks")).unwrap().map(|entry| entry.unwrap().path()).filter(|it| it.is_dir())
    {
        for chunk in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let mut bytes = fs::read(&chunk).unwrap();
            bytes[7] ^= 1;
            fs::write(&chunk, bytes).unwrap();
        }
    }
    let (member, server) = follow(store.address, dir.clone(), Some(u64::MAX));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
    read_all(server.address(), 1);
    assert_eq!(kept(&dir), fetched, "each chunk was replaced");
    let Store { place: _place, sites, _serves: serves, .. } = store;
    drop((member, server, sites, serves));
    // All content is here, so no reader needs the store.
    let (member, server) = follow(SocketAddr::from(([127, 0, 0, 1], 9)), dir, Some(u64::MAX));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
    read_all(server.address(), 1);
}

/// A mount that keeps no content, neither on its disk nor in memory: what is read is fetched for that alone.
#[cfg(feature = "fuse")]
struct Mount {
    at: PathBuf,
    cache: PathBuf,
    running: Mutex<Option<SiteMount>>,
    is_over: Arc<AtomicBool>,
}

#[cfg(feature = "fuse")]
impl Drop for Mount {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
    }
}

/// A member of a store that keeps no content.
#[cfg(feature = "fuse")]
fn keep_nothing(address: SocketAddr, dir: &Path) -> Result<MemberService, FilesError> {
    let (addresses, space, dir) = (address.to_string(), "main".to_owned(), dir.to_owned());
    MemberService::start(Followed { addresses, space, site: shop(), dir, idle_after: None, content_bytes: Some(0) })
}

#[cfg(feature = "fuse")]
impl Mount {
    /// None where the system has no FUSE.
    fn of(store: &Store, is_written: bool) -> Option<Self> {
        if !fixtures::mounts::has_fuse() {
            return None;
        }
        let dir = |name: &str| store.place.www().with_file_name(name);
        let (at, cache) = (dir("mounted"), dir("member"));
        fs::create_dir(&at).unwrap();
        let (member, is_over) = (Arc::new(keep_nothing(store.address, &cache).unwrap()), Arc::default());
        assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
        let writes = || MountWrites {
            publishes: Publishes::Each(Arc::new(connect(store.address, store.db.clone(), Arc::clone(&is_over)))),
            dir: cache.join("writes"),
            is_over: Arc::clone(&is_over),
            reports: std::sync::mpsc::channel().0,
        };
        let access = if is_written { MountAccess::Write(writes()) } else { MountAccess::Read };
        let place = MountPlace::new(&at, Some(&cache)).unwrap();
        let (space, memory) = ("main".to_owned(), 0);
        let config = MountConfig { space, at: place, allows_others: false, memory, refuses_stale: false, access };
        Some(Self { running: Mutex::new(Some(SiteMount::follow(member, &config).unwrap())), at, cache, is_over })
    }

    /// More requests wait than the mount has threads, and fail after `meanwhile`, in which none of them ends: others do
    /// not wait for them.
    fn wait(&self, requests: Vec<impl FnOnce() -> std::io::Error + Send>, meanwhile: impl FnOnce()) {
        let (begun, ended, all) = (AtomicUsize::new(0), AtomicUsize::new(0), requests.len());
        thread::scope(|scope| {
            for request in requests {
                let (begun, ended) = (&begun, &ended);
                scope.spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    let error = request();
                    ended.fetch_add(1, SeqCst);
                    assert!(matches!(error.raw_os_error(), Some(EIO | ENOTCONN)), "{error}");
                });
            }
            until("all have begun", || begun.load(SeqCst) == all);
            for _ in 0..100 {
                assert!(fs::read_dir(&self.at).unwrap().count() > SMALL);
                assert!(fs::metadata(self.at.join("small-1")).is_ok());
            }
            assert_eq!(ended.load(SeqCst), 0, "none has waited");
            meanwhile();
        });
    }
}

#[cfg(feature = "fuse")]
#[test]
fn a_mount_without_room_for_content_is_read_as_a_whole() {
    let store = Store::start();
    let Some(mount) = Mount::of(&store, false) else { return };
    let at = &mount.at;
    let read = |part: usize| {
        for (name, bytes) in files(1).into_iter().skip(part).step_by(4) {
            assert!(fs::read(at.join(&name)).unwrap() == bytes, "{name} has other bytes");
        }
    };
    thread::scope(|scope| (0..4).for_each(|part| drop(scope.spawn(move || read(part)))));
    publish(&store.sites, &store.place, 2);
    until("the mount shows the second revision", || fs::read(at.join("small-0")).is_ok_and(|it| it == files(2)[0].1));
    let late: Vec<_> = (0..20).map(|at| format!("late-{at}")).collect();
    for (name, seed) in late.iter().zip(2000..) {
        fs::write(store.place.www().join(name), content(seed, 140_000)).unwrap();
    }
    store.sites.publish(&shop(), &store.place.www(), &Publish::default(), &mut |_| Continue(())).unwrap();
    until("the mount lists the third revision", || at.join(&late[19]).exists());
    let Store { place: _place, sites, _serves: serves, .. } = store;
    drop((sites, serves));
    let read = |name: &String| fs::read(at.join(name)).unwrap_err();
    mount.wait(late.iter().map(|name| move || read(name)).collect(), || ());
}

#[cfg(feature = "fuse")]
#[test]
fn changes_that_copy_content_are_in_the_way_of_no_other_request() {
    let store = Store::start();
    let Some(mount) = Mount::of(&store, true) else { return };
    let open = |at: usize| {
        let path = mount.at.join(format!("small-{at}"));
        fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
    };
    // A change that waits for its content, while the store is there.
    open(0).write_all_at(b"changed", 50_000).unwrap();
    let mut changed = files(1)[0].1.clone();
    changed[50_000..50_007].copy_from_slice(b"changed");
    until("the change is published", || fs::read(mount.at.join("small-0")).is_ok_and(|bytes| bytes == changed));
    let opened: Vec<_> = (1..20).map(open).collect();
    let Store { place: _place, sites, _serves: serves, .. } = store;
    drop((sites, serves));
    let change = |at: usize, file: &fs::File| match at % 2 {
        0 => file.write_all_at(b"changed", 50_000).unwrap_err(),
        _ => file.set_len(50_000).unwrap_err(),
    };
    mount.wait(opened.iter().enumerate().map(|(at, file)| move || change(at, file)).collect(), || ());
}

#[cfg(feature = "fuse")]
#[test]
fn a_mount_ends_while_readers_wait() {
    let store = Store::start();
    let Some(mount) = Mount::of(&store, false) else { return };
    let Store { place: _place, sites, _serves: serves, .. } = store;
    drop((sites, serves));
    let began = Instant::now();
    let read = |at: usize| fs::File::open(mount.at.join(format!("small-{at}"))).and_then(|mut it| it.read(&mut [0]));
    let requests = (0..SMALL).map(|at| move || read(at).unwrap_err()).collect();
    mount.wait(requests, || drop(mount.running.lock().unwrap().take()));
    until("another one can follow the site", || keep_nothing(store.address, &mount.cache).is_ok());
    assert!(began.elapsed() < Duration::from_secs(9), "they have waited for content");
}
