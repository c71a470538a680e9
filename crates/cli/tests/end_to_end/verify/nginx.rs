//! A real nginx, which keeps responses by the example's configuration, before an application that names what they
//! depend on.

use super::load::{self, ITEMS, Shown};
use super::{Answer, Verify, are_installed, exchange, free_address, get, request_text, start_server};
use crate::program::Folder;
use crate::web::PATIENCE;
use fixtures::Process;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

const NGINX: &str = "/usr/sbin/nginx";

/// An application with items, whose values are everything that its pages show.
struct Application {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// The helper's socket.
    helper: PathBuf,
    items: Mutex<[u64; ITEMS]>,
    /// The pages of `/held/...` that have been made, and whether they may go out.
    held: Mutex<(u32, bool)>,
    moved: Condvar,
}

impl Application {
    fn start(helper: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            State { helper: helper.to_owned(), items: Mutex::default(), held: Mutex::default(), moved: Condvar::new() };
        let state = Arc::new(state);
        let serves = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = serves.clone();
                std::thread::spawn(move || state.serve(stream.unwrap()));
            }
        });
        Self { address, state }
    }

    /// Changes an item, and nobody is told.
    fn set(&self, item: usize, value: u64) {
        self.state.items.lock().unwrap()[item] = value;
    }

    /// Waits until this many pages are made that do not go out yet.
    fn wait_for_held(&self, count: u32) {
        let held = self.state.held.lock().unwrap();
        let (_held, late) = self.state.moved.wait_timeout_while(held, PATIENCE, |held| held.0 < count).unwrap();
        assert!(!late.timed_out(), "no page is asked for");
    }

    fn let_go(&self) {
        self.state.held.lock().unwrap().1 = true;
        self.state.moved.notify_all();
    }
}

impl State {
    /// Serves a connection of nginx's until that has enough of it.
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            let path = line.split(' ').nth(1).unwrap().to_owned();
            let mut ticket = String::new();
            while line.len() > 2 {
                line.clear();
                reader.read_line(&mut line).unwrap();
                if let Some(said) = line.strip_prefix("Thorp-Ticket: ") {
                    said.trim_end().clone_into(&mut ticket);
                }
            }
            let item: usize = path.rsplit('/').next().unwrap().parse().unwrap();
            let value = self.items.lock().unwrap()[item];
            if path.starts_with("/held/") {
                let mut held = self.held.lock().unwrap();
                held.0 += 1;
                self.moved.notify_all();
                let _held = self.moved.wait_timeout_while(held, PATIENCE, |held| !held.1).unwrap();
            }
            let stored = self.announce(&ticket, item);
            let body = value.to_string();
            let head = format!("HTTP/1.1 200 OK\r\n{}{stored}Content-Length: {}\r\n\r\n", control(&path), body.len());
            if stream.write_all((head + &body).as_bytes()).is_err() {
                return;
            }
            line.clear();
        }
    }

    /// Returns what a page depends on; gives the field by which nginx knows that it may keep it.
    fn announce(&self, ticket: &str, item: usize) -> String {
        let Ok(stream) = UnixStream::connect(&self.helper) else { return String::new() };
        let body = json!({"ticket": ticket, "dependencies": [format!("item:{item}")]}).to_string();
        let answer = exchange(stream, &request_text("POST /store", "localhost", &[], &body));
        answer.json()["version"].as_str().map(|version| format!("Thorp-Stored: {version}\r\n")).unwrap_or_default()
    }
}

/// The fields that the application has for caches of its pages.
fn control(path: &str) -> &'static str {
    match path.split('/').nth(1) {
        Some("item" | "held") => "Cache-Control: max-age=3600\r\nExpires: Tue, 19 Jan 2038 03:14:07 GMT\r\n",
        Some("private") => "Cache-Control: private, max-age=60\r\n",
        _ => "",
    }
}

/// An nginx by the example's configuration, with places of this test's.
fn nginx(folder: &Folder, helper: &str, application: SocketAddr) -> (Process, SocketAddr) {
    let address = free_address();
    let mut site = std::fs::read_to_string("../../examples/nginx/thorp.conf").unwrap();
    for (in_example, here) in [
        ("/var/cache/nginx/thorp", folder.file("cache")),
        ("unix:/run/thorp/verify", helper.to_owned()),
        ("127.0.0.1:8000", application.to_string()),
        ("listen 8080", format!("listen {address}")),
    ] {
        assert!(site.contains(in_example), "the example names {in_example}");
        site = site.replace(in_example, &here);
    }
    let site = folder.write("site.conf", site);
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {};\n", folder.file(kind)))
        .concat();
    // The workers of one that root starts would have another user, who does not reach the socket.
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    let (log, pid) = (folder.file("nginx.log"), folder.file("nginx.pid"));
    // Requests that wait for each other would do so for longer than a test.
    let lock = "proxy_cache_lock_timeout 1h; proxy_cache_lock_age 1h;";
    let whole = format!(
        "daemon off; worker_processes 2; {user} pid {pid}; error_log {log};\n\
         events {{ worker_connections 512; }}\nhttp {{ access_log off; {lock}\n{places}include {site};\n}}\n"
    );
    let whole = folder.write("nginx.conf", whole);
    let mut command = Command::new(NGINX);
    command.args(["-e", &log, "-p", folder.path().to_str().unwrap(), "-c", &whole]);
    (start_server(command, address), address)
}

/// The configuration's name of a helper's socket.
fn unix(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// A page that clients ask for each time, whatever lifetime the application gives it.
fn shown(answer: &Answer) -> Shown {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!((answer.field("Cache-Control"), answer.field("Expires")), ("no-cache", ""), "{answer:?}");
    Shown { value: answer.body.parse().unwrap(), is_hit: answer.field("X-Cache-Status") == "HIT" }
}

#[test]
fn nginx_uses_nothing_that_is_stale() {
    if !are_installed("nginx", &[NGINX]) {
        return;
    }
    let folder = Folder::new();
    let socket = folder.path().join("verify");
    let verify = Verify::start(&socket, &[]);
    let application = Application::start(&socket);
    let (_nginx, address) = nginx(&folder, &unix(&socket), application.address);
    let read = |path: &str| shown(&get(address, path));
    // A page is used when nobody was notified of a change: what follows can fail.
    let begun = Instant::now();
    let mut value = 0;
    loop {
        let kept = read("/item/0");
        value += 1;
        application.set(0, value);
        if kept.is_hit && read("/item/0").value == kept.value {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is kept");
    }
    verify.changed(&["item:0"]);
    assert_eq!(read("/item/0").value, value);

    load::check(
        |item| read(&format!("/item/{item}")),
        |item, value| {
            application.set(item, value);
            verify.changed(&[&format!("item:{item}")]);
        },
    );

    // A page that was made before a change and comes after it is for its requester alone.
    application.set(0, 1000);
    verify.changed(&["item:0"]);
    std::thread::scope(|threads| {
        let first = threads.spawn(|| read("/held/0"));
        application.wait_for_held(1);
        application.set(0, 2000);
        verify.changed(&["item:0"]);
        let second = threads.spawn(|| read("/held/0"));
        application.wait_for_held(2);
        application.let_go();
        assert_eq!(first.join().unwrap().value, 1000);
        assert_eq!(second.join().unwrap().value, 2000);
        assert_eq!(read("/held/0").value, 2000);
    });

    // Without the helper there are pages, none of which is used again; with the next one they are.
    assert!(verify.stop()["current"].as_u64().unwrap() > 0);
    application.set(1, 3000);
    let away = get(address, "/item/1");
    assert_eq!((away.field("X-Cache-Status"), shown(&away).value), ("AWAY", 3000));
    let _verify = Verify::start(&socket, &[]);
    let begun = Instant::now();
    loop {
        let page = read("/item/1");
        assert_eq!(page.value, 3000);
        if page.is_hit {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is kept");
    }
}

#[test]
fn nginx_keeps_pages_that_are_for_everybody_and_makes_nobody_wait_for_others() {
    if !are_installed("nginx", &[NGINX]) {
        return;
    }
    let folder = Folder::new();
    let verify = Verify::start(&folder.path().join("verify"), &["--listen", "127.0.0.1:0"]);
    let application = Application::start(&verify.socket);
    // It asks at an address, which answers no names but localhost.
    let (_nginx, address) = nginx(&folder, &verify.listen.unwrap().to_string(), application.address);
    let with_cookie = |path: &str| {
        let request = request_text(&format!("GET {path}"), "shop.example", &[("Cookie", "session=1")], "");
        exchange(TcpStream::connect(address).unwrap(), &request)
    };
    let wait_for_hit = |path: &str| {
        let begun = Instant::now();
        while !shown(&get(address, path)).is_hit {
            assert!(begun.elapsed() < PATIENCE, "{path} is not kept");
        }
    };
    wait_for_hit("/item/0");
    // The application gives no lifetime: it is kept until it changes, but not from somebody with cookies.
    for _ in 0..3 {
        assert!(!shown(&with_cookie("/plain/0")).is_hit);
    }
    wait_for_hit("/plain/0");
    for _ in 0..3 {
        assert_eq!(get(address, "/private/0").field("Cache-Control"), "private, max-age=60");
        assert_eq!(get(address, "/private/0").field("X-Cache-Status"), "MISS");
    }
    // Several ask for the same page, which nobody keeps yet: each comes to the application.
    std::thread::scope(|threads| {
        let readers: Vec<_> = (0..3).map(|_| threads.spawn(|| get(address, "/held/0").status)).collect();
        application.wait_for_held(3);
        application.let_go();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 200);
        }
    });
}
