//! A site over HTTP, by raw requests.

use files::{Publish, SiteConfig, SiteName, SiteServer, Sites};
use fixtures::SiteFolder;
use objects::Db;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow::Continue;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
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
            report: |_| {},
        };
        let server = SiteServer::start(Arc::new(sites), site, config).unwrap();
        Self { server, _folder: folder }
    }

    /// The status, the location and the body of an answer.
    fn ask(&self, line: &str, fields: &str) -> (u16, Option<String>, Vec<u8>) {
        let answer = self.answer(line, fields);
        (answer.status, answer.field("location").map(str::to_owned), answer.body)
    }

    fn answer(&self, line: &str, fields: &str) -> Answer {
        let mut stream = TcpStream::connect(self.server.address()).unwrap();
        write!(stream, "{line} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{fields}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
        let head = str::from_utf8(&answer[..end]).unwrap().to_owned();
        Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body: answer[end + 4..].to_vec() }
    }
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| *other == name).map(|(_, value)| value).next()
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

/// Writes files of a site, each below its directory.
fn write(www: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        fs::create_dir_all(www.join(name).parent().unwrap()).unwrap();
        fs::write(www.join(name), content).unwrap();
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

#[test]
fn a_precompressed_variant_is_a_content_of_its_own() {
    let served = Served::start(|www| {
        let large = "g".repeat(3000);
        let files =
            [("a.css", "plain text"), ("a.css.br", "brotli"), ("a.css.gz", &large), ("b.css", "b"), ("c.css.gz", "c")];
        write(&www, &files);
        symlink("a.css", www.join("link")).unwrap();
    });
    let get = |path: &str, codings: &str, more: &str| {
        served.answer(&format!("GET {path}"), &format!("Accept-Encoding: {codings}\r\n{more}"))
    };
    let plain = served.answer("GET /a.css", "");
    assert_eq!((plain.text(), plain.field("content-encoding")), ("plain text", None));
    let brotli = get("/a.css", "gzip, br", "");
    assert_eq!((brotli.text(), brotli.field("content-encoding")), ("brotli", Some("br")));
    let gzip = get("/a.css", "gzip;q=1, br;q=0.5", "");
    assert_eq!((gzip.body.len(), gzip.field("content-encoding")), (3000, Some("gzip")));
    for answer in [&plain, &brotli, &gzip] {
        assert_eq!(answer.field("vary"), Some("Cookie, Accept-Encoding"));
        assert_eq!(answer.field("content-type"), Some("text/css; charset=utf-8"));
    }
    let tags = [&plain, &brotli, &gzip].map(|answer| answer.field("etag").unwrap().to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    for codings in ["identity", "br;q=0, gzip;q=0", "deflate", "identity, *;q=0", "identity;q=0"] {
        assert_eq!(get("/a.css", codings, "").text(), "plain text", "{codings}");
    }
    assert_eq!(get("/a.css", "*", "").text(), "brotli");
    assert_eq!(get("/link", "br", "").text(), "brotli", "beside the file that a link leads to");

    // Conditions and ranges are those of the variant.
    let known = get("/a.css", "br", &format!("If-None-Match: {}\r\n", tags[1]));
    assert_eq!((known.status, known.field("vary")), (304, Some("Cookie, Accept-Encoding")));
    assert_eq!(get("/a.css", "br", &format!("If-None-Match: {}\r\n", tags[0])).status, 200);
    let part = get("/a.css", "br", &format!("Range: bytes=1-2\r\nIf-Range: {}\r\n", tags[1]));
    assert_eq!((part.status, part.text(), part.field("content-range")), (206, "ro", Some("bytes 1-2/6")));
    assert_eq!(part.field("content-encoding"), Some("br"));
    let whole = get("/a.css", "br", &format!("Range: bytes=1-2\r\nIf-Range: {}\r\n", tags[0]));
    assert_eq!((whole.status, whole.text()), (200, "brotli"));
    let head = served.answer("HEAD /a.css", "Accept-Encoding: br\r\n");
    assert_eq!((head.field("content-length"), head.text()), (Some("6"), ""));

    assert_eq!(get("/b.css", "br", "").field("vary"), Some("Cookie"));
    assert_eq!(get("/c.css", "gzip", "").status, 404, "a variant of no file");
    assert_eq!(get("/a.css.gz", "br", "").field("content-encoding"), None);
}

#[test]
fn rules_lead_elsewhere_and_never_out_of_the_site() {
    let redirects = "/start /
        /old/* /new/:splat 302
        /file /other.html
        /forced /other.html 303!
        /app/* /app 200
        /raw/* /:splat 200
        /secret/* /_redirects 200
        /loop/a /loop/b 200
        /loop/b /loop/a 200
        /gone/* /gone.html 404
        /nowhere/* /none.html 200
        /evil/:a/* /:splat/:a
        /else/* https://b.example/:splat 308
        /proxy/* https://b.example/:splat 200
";
    let files = [
        ("_redirects", redirects),
        ("_redirects.gz", "gz"),
        ("_headers.br", "br"),
        ("index.html", "home"),
        ("file", "file"),
        ("forced", "forced"),
        ("other.html", "other"),
        ("app/index.html", "app"),
        ("app/main.js", "main"),
        ("gone.html", "gone"),
    ];
    let served = Served::start(|www| {
        write(&www, &files);
        symlink("_redirects", www.join("rules")).unwrap();
    });
    let long = format!("/old/{}", "a-long-name/".repeat(1000));
    for (path, status, expected) in [
        ("/start", 301, "/"),
        ("/start/?q=1", 301, "/?q=1"),
        ("/old/a/b/?q=1", 302, "/new/a/b/?q=1"),
        ("/old", 302, "/new/"),
        ("/file", 200, "file"),
        ("/forced", 303, "/other.html"),
        ("/app/some/route", 200, "app"),
        ("/app/main.js", 200, "main"),
        ("/app", 301, "/app/"),
        ("/raw/other.html", 200, "other"),
        ("/raw/a/../other.html", 400, ""),
        ("/raw/%2e%2e/other.html", 400, ""),
        ("/secret/x", 404, ""),
        ("/loop/a", 404, ""),
        ("/gone/x", 404, "gone"),
        ("/nowhere/x", 404, ""),
        ("/evil/b.example/", 301, "/b.example"),
        ("/evil//b.example//", 301, "/b.example"),
        ("/old//b.example", 302, "/new/b.example"),
        ("/old/%0d%0aSet-Cookie:%20a=b", 302, "/new/%0D%0ASet-Cookie%3A%20a%3Db"),
        ("/old/%5Cb.example", 302, "/new/%5Cb.example"),
        (&long, 404, ""),
        ("/else/a", 308, "https://b.example/a"),
        ("/proxy/a", 404, ""),
        ("/_redirects", 404, ""),
        ("//%5fredirects", 404, ""),
        ("/_redirects.gz", 404, ""),
        ("/_headers.br", 404, ""),
        ("/rules", 404, ""),
    ] {
        let answer = served.answer(&format!("GET {path}"), "");
        let found = answer.field("location").unwrap_or_else(|| if expected.is_empty() { "" } else { answer.text() });
        assert_eq!((answer.status, found), (status, expected), "{path}");
    }
    // A page at another path has its conditions; a page that was served before knows the rules of its own path.
    let page = served.answer("GET /app/x", "");
    let tag = format!("If-None-Match: {}\r\n", page.field("etag").unwrap());
    assert_eq!(served.answer("GET /app/y", &tag).status, 304);
    assert_eq!(served.answer("GET /raw/forced", "").text(), "forced");
    assert_eq!(served.answer("GET /forced", "").status, 303);
    assert_eq!(served.answer("GET /raw/app", "").text(), "app");
    assert_eq!(served.answer("GET /app", "").status, 301);
    assert_eq!(served.answer("HEAD /start", "").field("location"), Some("/"));
}

#[test]
fn a_site_adds_fields_to_its_answers() {
    let headers = "/*
          X-Frame-Options: DENY
          Set-Cookie: a=b
          Content-Type: text/plain
        /assets/*
          Cache-Control: public, max-age=31536000, immutable
          ! X-Frame-Options
          ! Content-Type
";
    let files = [
        ("_headers", headers),
        ("_redirects", "/to /a.html\n/assets/no/* /assets/a.js 200\n"),
        ("a.html", "a"),
        ("assets/a.js", "a"),
        ("404.html", "missing"),
    ];
    let served = Served::start(|www| write(&www, &files));
    let fields = |answer: &Answer| {
        ["x-frame-options", "cache-control", "content-type"].map(|it| answer.field(it).map(str::to_owned))
    };
    let is = |answer: &Answer, expected: [Option<&str>; 3]| {
        assert_eq!(fields(answer), expected.map(|it| it.map(str::to_owned)), "{}", answer.head);
    };
    let (page, script) = (served.answer("GET /a.html", ""), served.answer("GET /assets/a.js", ""));
    is(&page, [Some("DENY"), Some("private, no-cache"), Some("text/plain")]);
    let long = Some("public, max-age=31536000, immutable");
    is(&script, [None, long, Some("text/javascript; charset=utf-8")]);
    is(&served.answer("GET /assets/no/x", ""), [None, long, Some("text/javascript; charset=utf-8")]);
    let known = format!("If-None-Match: {}\r\n", script.field("etag").unwrap());
    let known = served.answer("GET /assets/a.js", &known);
    assert_eq!((known.status, known.field("cache-control")), (304, long));
    is(&served.answer("GET /none", ""), [Some("DENY"), Some("no-store"), Some("text/plain")]);
    let missing = served.answer("GET /assets/none", "");
    is(&missing, [None, Some("no-store"), Some("text/html; charset=utf-8")]);
    is(&served.answer("GET /to", ""), [None, Some("private, no-cache"), None]);
    assert_eq!(page.field("set-cookie"), None);
    // An answer that moves a session is for one visitor.
    let moved = served.answer("GET /assets/a.js", "Sec-Fetch-Mode: navigate\r\n");
    assert!(moved.field("set-cookie").is_some());
    assert_eq!(moved.field("cache-control"), Some("private, no-cache"));
}

#[test]
fn a_site_has_pages_for_missing_files() {
    let files = [
        ("404.html", "none at all"),
        ("404.html.gz", "gz"),
        ("de/404.html", "nicht da"),
        ("de/shop/index.html", "laden"),
        ("fr/index.html", "fr"),
        ("bare/404.html/x", "a directory"),
        ("error.html", "linked"),
        ("_redirects", "/special/* /error.html 404\n/fr/index.html /x 404!\n"),
    ];
    let served = Served::start(|www| {
        write(&www, &files);
        fs::create_dir(www.join("linked")).unwrap();
        symlink("../error.html", www.join("linked/404.html")).unwrap();
    });
    for (path, expected) in [
        ("/none", "none at all"),
        ("/fr/none/deep/er", "none at all"),
        ("/de/none", "nicht da"),
        ("/de/shop/none/none", "nicht da"),
        ("/de/shop/index.html/", "nicht da"),
        ("/bare/none", "none at all"),
        ("/linked/none", "linked"),
        ("/special/x", "linked"),
        ("/fr/index.html", "none at all"),
        ("/_redirects", "none at all"),
    ] {
        let answer = served.answer(&format!("GET {path}"), "");
        assert_eq!((answer.status, answer.text()), (404, expected), "{path}");
    }
    // It is whole, whatever the conditions are, and has no validator.
    let tag = served.answer("GET /404.html", "").field("etag").unwrap().to_owned();
    let asked = format!("If-None-Match: {tag}\r\nRange: bytes=0-1\r\n");
    let answer = served.answer("GET /none", &asked);
    assert_eq!((answer.status, answer.text()), (404, "none at all"));
    let head = served.answer("HEAD /none", "");
    assert_eq!((head.status, head.field("content-length"), head.text()), (404, Some("11"), ""));
    for answer in [&answer, &head] {
        for absent in ["etag", "accept-ranges", "content-range", "last-modified"] {
            assert_eq!(answer.field(absent), None);
        }
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        assert_eq!(answer.field("vary"), Some("Cookie, Accept-Encoding"));
    }
    let packed = served.answer("GET /none", "Accept-Encoding: gzip\r\n");
    assert_eq!((packed.status, packed.text(), packed.field("content-encoding")), (404, "gz", Some("gzip")));
    let visit = served.answer("GET /none", "Sec-Fetch-Mode: navigate\r\n");
    assert!(visit.field("set-cookie").is_some(), "its parts are of its revision");
    assert_eq!(visit.field("cache-control"), Some("no-store"));
    let tally = served.server.tally();
    assert!(tally.refused >= 14 && tally.last_error.is_none(), "{tally:?}");
    assert!(served.answer("GET /%zz", "").text().starts_with("path: "));
}
