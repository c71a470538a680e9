//! The helper of servers that keep responses of their own, as an operator runs it: asked by hand, by nginx, by Apache.

mod apache;
mod load;
mod nginx;

use crate::program::{Folder, Ran, start, thorp};
use crate::web::{PATIENCE, Proxy, start_home};
use fixtures::installed::or_skipped;
use fixtures::{Process, Signal, try_until, until};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// The value of a field, empty if there is none.
    fn field(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(said, _)| said.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        values.next().unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request whose answer ends the connection; gives the answer. A server that hangs up at once has said nothing.
fn exchange(mut stream: impl Read + Write, request: &str) -> Answer {
    // An error shows in the answer.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn request_text(line: &str, host: &str, fields: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in fields {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    write!(text, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    text
}

/// Asks a server at an address for a path.
fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(TcpStream::connect(address).unwrap(), &request_text(&format!("GET {path}"), "shop.example", &[], ""))
}

/// An address that nobody has: a server that takes its own cannot say which.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Whether programs are there; says so if not. In CI they have to be.
fn are_installed(what: &str, files: &[&str]) -> bool {
    or_skipped(files.iter().all(|file| Path::new(file).is_file()), what)
}

/// A server that tests run, once it listens; it ends with its workers when it is dropped.
fn start_server(mut command: Command, address: SocketAddr) -> Process {
    // An Apache that is told to end tells all of its process group.
    command.process_group(0).stdin(Stdio::null());
    let server = Process::spawn_ended_by(Signal::TERM, command, "a server").unwrap();
    until("it listens", || TcpStream::connect(address).is_ok());
    server
}

/// A helper that runs.
struct Verify {
    process: Process,
    socket: PathBuf,
    listen: Option<SocketAddr>,
}

impl Verify {
    fn start(socket: &Path, options: &[&str]) -> Self {
        let process = start(&[&["verify"], options, &[socket.to_str().unwrap()]].concat());
        let listen = process.ready()["listen"].as_str().map(|address| address.parse().unwrap());
        Self { process, socket: socket.to_owned(), listen }
    }

    fn ask(&self, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let request = request_text(line, "localhost", fields, body);
        exchange(UnixStream::connect(&self.socket).unwrap(), &request)
    }

    /// The state, the version and the ticket of a key, as soon as there is a home.
    fn look(&self, key: &str) -> (String, String, String) {
        let look = || {
            let answer = self.ask("GET /look", &[("Thorp-Key", key)], "");
            assert_eq!(answer.status, 204, "{answer:?}");
            (answer.field("Thorp-State") != "away").then_some(answer)
        };
        let answer = try_until("there is a home", PATIENCE, look).unwrap();
        ["Thorp-State", "Thorp-Version", "Thorp-Ticket"].map(|name| answer.field(name).to_owned()).into()
    }

    fn store(&self, ticket: &str, dependencies: &[&str]) -> Value {
        let body = json!({"ticket": ticket, "dependencies": dependencies}).to_string();
        self.ask("POST /store", &[], &body).json()
    }

    /// Asks for a key and stores what it gets, until that may be used.
    fn wait_for_stored(&self, key: &str, dependency: &str) {
        until("it is stored", || {
            let (state, _, ticket) = self.look(key);
            let is_current = state == "current";
            if !is_current {
                self.store(&ticket, &[dependency]);
            }
            is_current
        });
    }

    fn changed(&self, dependencies: &[&str]) {
        let answer = self.ask("POST /invalidate", &[], &json!({"dependencies": dependencies}).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Stops it; gives its last words.
    fn stop(self) -> Value {
        let said = Ran::from(self.process.end().unwrap()).ok();
        serde_json::from_str(&said).unwrap()
    }
}

#[test]
fn a_server_asks_whether_it_may_use_what_it_has() {
    let folder = Folder::new();
    let verify = Verify::start(&folder.path().join("verify"), &["--listen", "127.0.0.1:0"]);
    let (state, version, ticket) = verify.look("page");
    assert_eq!(state, "fill");
    assert_eq!(verify.look("page").1, version, "requests that come in the meantime wait for the same");
    assert_eq!(verify.store(&ticket, &["item:1"]), json!({"stored": true, "version": version}));
    let (state, same, next) = verify.look("page");
    assert_eq!((state.as_str(), &same), ("current", &version));
    let (_, other, _) = verify.look("other page");
    assert_ne!(other, version);

    // A command reports a change, at the address.
    let address = verify.listen.unwrap().to_string();
    let told = thorp(["invalidate", "--admin", &address, "item:1"]).ok();
    assert_eq!(told, "invalidated (dependencies: 1, responses removed by URL: 0)\n");
    let urls = thorp(["invalidate", "--admin", &address, "--url", "http://shop.example/"]).error();
    assert!(urls.contains("URLs are a proxy's"), "{urls}");
    let (state, now, last) = verify.look("page");
    assert_eq!(state, "fill");
    assert_ne!(now, version);
    assert_eq!(verify.store(&next, &["item:2"]), json!({"stored": false, "reason": "superseded"}));
    verify.changed(&["item:1"]);
    assert_eq!(verify.store(&last, &["item:1"]), json!({"stored": false, "reason": "touched"}));
    assert_eq!(verify.store(&last, &["item:2"])["stored"], true, "it is still untouched");

    // Nothing that is known is everything.
    let (_, _, ticket) = verify.look("page without names");
    assert_eq!(verify.store(&ticket, &[])["stored"], true);
    assert_eq!(verify.ask("POST /invalidate", &[], r#"{"all": true}"#).status, 200);
    assert_eq!(verify.look("page without names").0, "fill");
    let dropped = |key: &str| verify.ask("POST /drop", &[("Thorp-Key", key)], "").json()["dropped"] == true;
    assert!(dropped("page") && !dropped("page") && !dropped("never seen"));

    let metrics = verify.ask("GET /metrics", &[], "").body;
    assert!(metrics.contains("thorp_verify_declined_total{reason=\"touched\"} 1\n"), "{metrics}");
    let stopped = verify.stop();
    assert_eq!((&stopped["stored"], &stopped["current"]), (&3.into(), &1.into()), "{stopped}");
    assert_eq!(stopped["refused"], json!({"urls": 1}), "{stopped}");
}

#[test]
fn what_cannot_be_asked_is_refused_by_name() {
    let folder = Folder::new();
    let verify = Verify::start(&folder.path().join("verify"), &["--listen", "127.0.0.1:0", "--responses", "100"]);
    let (_, _, ticket) = verify.look("page");
    let refused = |line: &str, fields: &[(&str, &str)], body: &str| {
        let answer = verify.ask(line, fields, body);
        (answer.status, answer.json()["refused"].as_str().unwrap().to_owned())
    };
    let store = |dependencies: Value| json!({"ticket": ticket, "dependencies": dependencies}).to_string();
    let names: Vec<String> = (0..1025).map(|number| number.to_string()).collect();
    for (line, fields, body, status, name) in [
        ("GET /look", &[][..], String::new(), 400, "no-key"),
        ("GET /look", &[("Thorp-Key", "")], String::new(), 400, "no-key"),
        ("GET /look", &[("Thorp-Key", "a"), ("Thorp-Key", "b")], String::new(), 400, "no-key"),
        ("GET /look", &[("Thorp-Key", &"k".repeat(8193))], String::new(), 431, "key-too-long"),
        ("POST /drop", &[], String::new(), 400, "no-key"),
        ("GET /store", &[], String::new(), 404, "no-such-request"),
        ("PUT /look", &[("Thorp-Key", "a")], String::new(), 404, "no-such-request"),
        ("POST /store", &[], "{".into(), 400, "bad-body"),
        ("POST /store", &[], json!({"ticket": 7, "dependencies": []}).to_string(), 400, "bad-body"),
        ("POST /store", &[], json!({"ticket": ticket}).to_string(), 400, "bad-body"),
        ("POST /store", &[], store(json!([""])), 400, "no-dependency"),
        ("POST /store", &[], store(json!(["x".repeat(257)])), 400, "no-dependency"),
        ("POST /store", &[], " ".repeat(1024 * 1024 + 1), 400, "no-body"),
        ("POST /invalidate", &[], json!({"names": []}).to_string(), 400, "bad-body"),
        ("POST /invalidate", &[], json!({"dependencies": names}).to_string(), 413, "too-many-dependencies"),
    ] {
        assert_eq!(refused(line, fields, &body), (status, name.to_owned()), "{line}");
    }
    assert_eq!(
        verify.store(&ticket, &names.iter().map(String::as_str).collect::<Vec<_>>())["reason"],
        "too-many-dependencies"
    );
    for invented in ["", "0", &"0".repeat(72), &ticket.replace('0', "1")] {
        assert_eq!(verify.store(invented, &["item:1"]), json!({"stored": false, "reason": "unknown-ticket"}));
    }
    // A web page, which a browser sends here by a name of its own, or says whose it is.
    let address = verify.listen.unwrap();
    let page = |host: &str, fields: &[(&str, &str)]| {
        let fields = [fields, &[("Thorp-Key", "a")]].concat();
        exchange(TcpStream::connect(address).unwrap(), &request_text("GET /look", host, &fields, "")).status
    };
    assert_eq!(page("rebound.example", &[]), 421);
    assert_eq!(page("127.0.0.1", &[("Origin", "http://evil.example")]), 421);
    assert_eq!(page("127.0.0.1", &[]), 204);
    // No HTTP at all, and half of it.
    for nonsense in ["\0\u{1}\u{2}", "GET", &"x".repeat(100_000)] {
        let answer = exchange(UnixStream::connect(&verify.socket).unwrap(), &format!("{nonsense}\r\n\r\n"));
        assert!([0, 400, 431].contains(&answer.status), "{answer:?}");
    }
    let _half = UnixStream::connect(&verify.socket).unwrap().write_all(b"GET /lo");
    for key in 0..1000 {
        verify.ask("GET /look", &[("Thorp-Key", &format!("key {key}"))], "");
    }
    assert_eq!(verify.ask("GET /status", &[], "").json()["verify"][0]["keys"], 100, "memory is bounded");
    assert_eq!(verify.stop()["refused"]["web-page"], 2);
}

#[test]
fn a_helper_that_cannot_be_is_refused_before_anybody_asks() {
    let folder = Folder::new();
    let socket = folder.file("verify");
    let open = thorp(["verify", &socket, "--listen", "0.0.0.0:0"]).error();
    assert!(open.contains("it can be reached from elsewhere"), "{open}");
    let _verify = Verify::start(Path::new(&socket), &[]);
    let taken = thorp(["verify", &socket]).error();
    assert!(taken.contains(&socket), "{taken}");
    let both = thorp(["verify", &socket, "--home", "a", "--hub", "127.0.0.1:1"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
}

#[test]
fn a_helper_shares_a_home_with_proxies() {
    let folder = Folder::new();
    let socket = folder.file("home");
    share(start_home(&["--socket", &socket]), &socket);
}

#[test]
fn a_helper_has_a_home_on_another_machine() {
    let home = start_home(&["--listen", "127.0.0.1:0"]);
    let address = home.address().to_string();
    share(home, &address);
}

/// A helper and a proxy have a home at an address, which dies.
fn share(home: Process, address: &str) {
    let folder = Folder::new();
    let proxy = Proxy::start_with(&["--origin", "http://127.0.0.1:1", "--home", address]);
    let verify = Verify::start(&folder.path().join("verify"), &["--home", address]);
    verify.wait_for_stored("page", "item:1");
    // A change that the proxy is notified of. It is marked for a moment longer.
    assert_eq!(thorp(["invalidate", "--admin", proxy.admin(), "item:1"]).code, Some(0));
    assert_eq!(verify.look("page").0, "fill");
    verify.wait_for_stored("page", "item:1");
    drop(home);
    let is_away = || verify.ask("GET /look", &[("Thorp-Key", "page")], "").field("Thorp-State") == "away";
    until("the lease of the home ends", is_away);
    assert_eq!(verify.stop()["stopped"], "verify");
}
