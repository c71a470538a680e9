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
    let bytes: usize = 32 << 20;
    let served = Served::start(|www| fs::write(www.join("large"), vec![7; bytes]).unwrap());
    let readers: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(served.server.address()).unwrap();
            write!(stream, "GET /large HTTP/1.1\r\nHost: shop.example\r\n\r\n").unwrap();
            let mut first = [0; 1000];
            stream.read_exact(&mut first).unwrap();
            stream
        })
        .collect();
    let held = served.server.tally().held_bytes;
    assert!(held <= 64 << 20, "{held} bytes are held");
    // Another client gets all of it.
    let (status, _, body) = served.ask("GET /large", "");
    assert_eq!((status, body.len(), body.iter().all(|byte| *byte == 7)), (200, bytes, true));
    drop(readers);
    fixtures::until("the chunks are let go", || served.server.tally().held_bytes == 0);
}
