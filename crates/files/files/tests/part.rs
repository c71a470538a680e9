//! A site that is larger than what its server keeps: a member behind TCP, which fetches content for its visitors.

use files::{FileService, Followed, MemberService, Publish, Server, SiteConfig, SiteName, SiteServer, Sites};
use fixtures::{SiteFolder, until};
use net::{ListenConfig, Runtime};
use objects::Db;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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

#[test]
fn a_site_larger_than_the_bound_is_served_as_a_whole() {
    let (place, runtime) = (SiteFolder::new(), Runtime::start().unwrap());
    let db = Db::open(place.store()).unwrap();
    let service = FileService::start(db.clone(), &place.store(), Duration::from_secs(2), &runtime).unwrap();
    let beside = service.beside(8);
    let any = "127.0.0.1:0".parse().unwrap();
    let address = beside.host.listen(beside.role, ListenConfig::new(beside.codec, any)).unwrap();
    let publisher = Server {
        addresses: address.to_string(),
        space: "main".to_owned(),
        cache: None,
        is_given_up: Arc::new(|| false),
    };
    let sites = Sites::connect(Some(db), publisher).unwrap();
    publish(&sites, &place, 1);

    let dir = place.www().with_file_name("member");
    let (member, server) = follow(address, dir.clone(), Some(KEPT));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(1));
    assert!(kept(&dir) < KEPT, "no content was fetched for nobody");
    read_all(server.address(), 1);
    until("content has made room", || kept(&dir) <= KEPT + (1 << 20));
    publish(&sites, &place, 2);
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

    // Without the store, content that is here is served, and other content is refused by name, for which no thread waits.
    drop((member, server));
    let (member, server) = follow(address, dir.clone(), Some(KEPT));
    assert_eq!(member.wait_ready(Duration::from_secs(30)), Some(2));
    until("it keeps a part", || kept(&dir) <= KEPT);
    drop((sites, service, beside));
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
