//! A site over HTTP, by raw requests.

use files::{Publish, SiteConfig, SiteName, SiteServer, Sites};
use fixtures::SiteFolder;
use objects::Db;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow::Continue;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

/// The memory for content.
const MEMORY: usize = 64 << 20;

/// A site that is served, of files that a test makes.
struct Served {
    server: SiteServer,
    _folder: SiteFolder,
}

impl Served {
    fn start(make: impl FnOnce(PathBuf)) -> Self {
        let folder = SiteFolder::new();
        let (www, store) = (folder.www(), folder.store());
        make(www.clone());
        let sites = Sites::open(Db::open(&store).unwrap(), &store).unwrap();
        let site = SiteName::parse("shop").unwrap();
        sites.publish(&site, &www, &Publish::default(), &mut |_| Continue(())).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = SiteConfig {
            space: "main".to_owned(),
            listen,
            threads: 2,
            connections: 100,
            certificates: None,
            memory: MEMORY,
            refuses_stale: false,
        };
        let server = SiteServer::start(Arc::new(sites), site, config).unwrap();
        Self { server, _folder: folder }
    }

    /// The status, the location and the body of an answer.
    fn ask(&self, line: &str, fields: &str) -> (u16, Option<String>, Vec<u8>) {
        let mut stream = TcpStream::connect(self.server.address()).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{fields}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
        let head = str::from_utf8(&answer[..end]).unwrap();
        let location = head.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), location, answer[end + 4..].to_vec())
    }
}

#[test]
fn paths_lead_to_files_indexes_and_links_inside() {
    let served = Served::start(|www| {
        let write = |name: &str| {
            fs::create_dir_all(www.join(name).parent().unwrap()).unwrap();
            fs::write(www.join(name), name).unwrap();
        };
        for name in ["page.html", "sub/page.html", "dd/index.html/x", "a b", "t/deep/y", "plain/x"] {
            write(name);
        }
        for (link, target) in [
            ("index.html", "page.html"),
            ("sub/index.html", "page.html"),
            ("sub/up", ".."),
            ("into", "t/deep"),
            ("loop", "loop"),
            ("out", "/etc/passwd"),
            ("climb", "../../etc/passwd"),
        ] {
            symlink(target, www.join(link)).unwrap();
        }
    });
    let get = |path: &str| {
        let (status, location, body) = served.ask(&format!("GET {path}"), "");
        (
            status,
            location.unwrap_or_else(|| if status == 200 { String::from_utf8(body).unwrap() } else { String::new() }),
        )
    };
    for (path, status, expected) in [
        ("/", 200, "page.html"),
        ("/index.html", 200, "page.html"),
        ("/sub/", 200, "sub/page.html"),
        ("/sub", 301, "/sub/"),
        ("/sub?q=1", 301, "/sub/?q=1"),
        ("/sub/up/", 200, "page.html"),
        ("/sub/up", 301, "/sub/up/"),
        ("/into/y", 200, "t/deep/y"),
        ("/a%20b", 200, "a b"),
        ("/page.html/", 404, ""),
        ("/dd/", 404, ""),
        ("/dd/index.html", 301, "/dd/index.html/"),
        ("/plain/", 404, ""),
        ("/loop", 404, ""),
        ("/out", 404, ""),
        ("/climb", 404, ""),
        ("/none", 404, ""),
        ("/%zz", 400, ""),
        ("/%", 400, ""),
        ("/a/../page.html", 400, ""),
        ("/%2e%2e/page.html", 400, ""),
        ("/a%00", 400, ""),
        ("/sub%2fpage.html", 200, "sub/page.html"),
    ] {
        assert_eq!(get(path), (status, expected.to_owned()), "{path}");
    }
    assert_eq!(served.ask("POST /", "Content-Length: 0\r\n").0, 405);
    assert_eq!(served.ask("DELETE /page.html", "").0, 405);
    assert_eq!(served.ask("HEAD /page.html", "Range: bytes=0-1\r\n").0, 200, "a range is of GET alone");
    assert_eq!(served.ask("HEAD /page.html", "").2, b"");
}

/// Clients that do not read cost the server a step each, and not a chunk.
#[test]
fn slow_readers_take_little_memory() {
    // No two chunks are alike.
    let bytes = 16 << 20;
    let file = |number: u64| {
        let mut state = number + 1;
        let words = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()
        });
        words.flatten().take(bytes).collect::<Vec<u8>>()
    };
    let served = Served::start(|www| {
        for number in 0..6 {
            fs::write(www.join(number.to_string()), file(number)).unwrap();
        }
    });
    let get = |number: u64| {
        let (status, _, body) = served.ask(&format!("GET /{number}"), "");
        assert!((status, body.len()) == (200, bytes) && body == file(number));
    };
    // From the disk, and from memory.
    (0..2).for_each(|_| get(0));
    let readers: Vec<TcpStream> = (0..60)
        .map(|reader| {
            let mut stream = TcpStream::connect(served.server.address()).unwrap();
            // Each from a place of its own.
            let (file, from) = (reader % 6, reader * 250_000);
            write!(stream, "GET /{file} HTTP/1.1\r\nHost: shop.example\r\nRange: bytes={from}-\r\n\r\n").unwrap();
            let mut first = [0; 1000];
            stream.read_exact(&mut first).unwrap();
            stream
        })
        .collect();
    let held = served.server.tally().held_bytes;
    assert!(held <= MEMORY as u64, "{held} bytes are held");
    // Another client gets all of it.
    get(5);
    drop(readers);
    let kept = MEMORY as u64 / 4 * 3;
    fixtures::until("the chunks are let go", || served.server.tally().held_bytes <= kept);
}
