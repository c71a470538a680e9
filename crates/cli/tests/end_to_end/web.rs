//! The proxy as an operator runs it.

use crate::program::{Folder, command, program, start, thorp};
use fixtures::{Process, http, until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An application that says how often it was asked.
pub(crate) fn application() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let body = format!("asked {number}");
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\n";
            write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    format!("http://{address}")
}

/// A proxy that runs, and the addresses at which it listens for clients and for operators.
pub(crate) struct Proxy {
    pub(crate) process: Process,
    address: String,
    admin: String,
}

impl Proxy {
    pub(crate) fn start(origin: &str) -> Self {
        Self::start_with(&["--origin", origin])
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        let process = program().proxy(options).unwrap();
        let [address, admin] = ["listen", "admin"].map(|name| process.address_of(name).to_string());
        Self { process, address, admin }
    }

    /// Where it listens for operators.
    pub(crate) fn admin(&self) -> &str {
        &self.admin
    }

    /// Where it listens for clients.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The head and the body of the answer to a request.
    pub(crate) fn get(&self, target: &str) -> (String, String) {
        http::get_from(TcpStream::connect(&self.address).unwrap(), target, "shop.example").unwrap()
    }

    /// Asks until the answer is a stored one; gives its body.
    fn wait_for_hit(&self, target: &str) -> String {
        let mut answer = Default::default();
        until("it is stored", || {
            answer = self.get(target);
            answer.0.contains("thorp; hit")
        });
        answer.1
    }

    /// The next thing that it says.
    pub(crate) fn line(&mut self) -> Value {
        self.process.hear().unwrap()
    }

    /// Kills it in the middle of what it does.
    pub(crate) fn kill(self) {
        drop(self.process);
    }

    /// Stops it; gives its last words.
    pub(crate) fn stop(self) -> Value {
        let ended = self.process.end().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap()
    }
}

/// The whole answer to a request for a page.
pub(crate) fn get(address: &str) -> String {
    let (head, body) = http::get_from(TcpStream::connect(address).unwrap(), "/", "shop.example").unwrap();
    head + "\r\n\r\n" + &body
}

#[test]
fn a_proxy_caches_until_it_is_told_to_stop() {
    let proxy = Proxy::start(&application());
    let (address, admin) = (&proxy.address, &proxy.admin);
    let get = || get(address).rsplit("\r\n").next().unwrap().to_owned();
    assert_eq!([get(), get()], ["asked 0", "asked 0"]);
    let why = || thorp(["why", "--admin", admin, "http://shop.example/"]).ok();
    let said = why();
    assert!(
        said.contains("stored: status 200, 7 bytes, ") && said.contains("the next request is answered with it"),
        "{said}"
    );
    assert!(said.contains("    depends on: *\n") && said.ends_with("uri-miss, status 200, stored\n"), "{said}");
    let who = thorp(["who", "--admin", admin, "*"]).ok();
    assert!(who.starts_with("1 stored response depends on *\n  http://shop.example/ ("), "{who}");
    let told = thorp(["invalidate", "--admin", admin, "--soft", "--url", "http://shop.example/"]).ok();
    assert_eq!(told, "invalidated (dependencies: 0, responses to be validated by URL: 1)\n");
    assert!(why().contains("it is validated before it is used again (invalidated)"));
    assert_eq!([get(), get()], ["asked 1", "asked 1"], "it has no validator");
    let told = thorp(["invalidate", "--admin", admin, "--url", "http://shop.example/"]).ok();
    assert_eq!(told, "invalidated (dependencies: 0, responses removed by URL: 1)\n");
    assert!(why().contains("\n  nothing is stored\n"));
    assert_eq!([get(), get()], ["asked 2", "asked 2"]);
    let other = thorp(["why", "--admin", admin, "https://shop.example/"]).ok();
    assert!(other.contains("clients of this proxy speak http: "), "{other}");
    assert!(thorp(["why", "--admin", admin, "shop.example/"]).error().contains("expected http://HOST/PATH"));
    let told =
        thorp(["invalidate", "--admin", admin, "item:nope", "http://shop.example/", "--url", "http://x.example/"]).ok();
    let expected = "invalidated (dependencies: 2, stored responses that depend on them: 0, responses removed by URL: 0)\n\
                    no response that is stored here depends on 'item:nope'\n\
                    no response that is stored here depends on 'http://shop.example/'\n  \
                    it was taken for the name of a dependency: what is stored for a URL is --url http://shop.example/\n\
                    nothing was stored here for http://x.example/\n";
    assert_eq!(told, expected);
    assert_eq!(thorp(["invalidate", "--admin", admin, "--all"]).ok().lines().count(), 1);
    assert!(thorp(["invalidate", "--admin", admin]).usage().contains("say what has changed"));
    let stopped = proxy.stop();
    assert_eq!((&stopped["requests"], &stopped["hits"]), (&6.into(), &3.into()), "{stopped}");
}

#[test]
fn tls_that_cannot_be_is_refused_before_anybody_is_served() {
    let origin = ["proxy", "--origin", "http://127.0.0.1:1"];
    let run = |more: &[&str]| thorp(origin.into_iter().chain(more.iter().copied()));
    let absent = run(&["--tls-cert", "absent.pem", "--tls-key", "absent.key"]).error();
    assert!(absent.contains("absent.pem: unreadable: "), "{absent}");
    let unpaired = run(&["--tls-cert", "a.pem", "--tls-key", "a.key", "--tls-cert", "b.pem"]).usage();
    assert!(unpaired.contains("each --tls-cert has a --tls-key"), "{unpaired}");
    assert!(run(&["--tls-cert", "a.pem"]).stderr.contains("--tls-key <FILE>"));
    assert!(run(&["--tls-cert", "a.pem", "--tls-key", "a.key", "--behind-tls"]).stderr.contains("cannot be used with"));
    assert!(run(&["--origin-ca", "ca.pem"]).usage().contains("an origin over TLS"));
}

#[test]
fn an_origin_that_is_none_is_refused_with_what_was_expected() {
    for origin in ["shop", "ftp://shop", "http://shop/path", "http://user@shop"] {
        let ran = thorp(["proxy", "--origin", origin]);
        assert_eq!(ran.code, Some(2), "{origin}");
        assert!(ran.stderr.contains("http://HOST:PORT"), "{}", ran.stderr);
    }
}

/// A home that is a process of its own. It ends without notice to anybody, as power that fails.
pub(crate) fn start_home(at: &[&str]) -> Process {
    start(&[&["home", "--responses", "1000"], at].concat())
}

#[test]
fn proxies_share_a_home_and_serve_nothing_without_proof() {
    let folder = Folder::new();
    let socket = folder.path().join("home").to_str().unwrap().to_owned();
    let home = start_home(&["--socket", &socket]);
    assert_eq!(home.ready()["socket"], *socket);
    share(home, &["--home", &socket], &["--socket", &socket]);
}

#[test]
fn proxies_of_other_machines_share_a_home_over_tcp() {
    let home = start_home(&["--listen", "127.0.0.1:0"]);
    let address = &home.address().to_string();
    share(home, &["--home", address], &["--listen", address]);
}

/// Two homes, of which one has the hub, and two proxies with both. The other home dies.
#[test]
fn pages_have_one_of_several_homes_and_one_that_dies_takes_its_own_alone() {
    let kept = start_home(&["--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0"]);
    let (one, hub) = (&kept.address().to_string(), &kept.address_of("hub_listen").to_string());
    let mortal = start_home(&["--listen", "127.0.0.1:0", "--hub", hub]);
    let other = &mortal.address().to_string();
    let origin = application();
    let proxies = [[one, other], [other, one]]
        .map(|homes| Proxy::start_with(&["--origin", &origin, "--home", homes[0], "--home", homes[1]]));
    let paths: Vec<String> = (0..16).map(|page| format!("/page/{page}")).collect();
    let store_all =
        || proxies.each_ref().map(|proxy| paths.iter().map(|path| proxy.wait_for_hit(path)).collect::<Vec<_>>());
    let stored = store_all();
    let invalidate = |path: &str| {
        let url = format!("http://shop.example{path}");
        thorp(["invalidate", "--admin", &proxies[0].admin, "--url", &url]).ok()
    };
    // A change that one is notified of is one for the other, whichever home the page has.
    for (at, path) in paths.iter().enumerate() {
        invalidate(path);
        for (proxy, stored) in proxies.iter().zip(&stored) {
            assert_ne!(proxy.get(path).1, stored[at], "{path}");
        }
    }
    let stored = store_all();
    drop(mortal);
    // A change waits until the dead home's lease is over, and no longer; nothing is stale after.
    for (at, path) in paths.iter().enumerate().take(4) {
        invalidate(path);
        for (proxy, stored) in proxies.iter().zip(&stored) {
            assert_ne!(proxy.get(path).1, stored[at], "{path}");
        }
    }
    let is_hit = |path: &str| proxies.each_ref().map(|proxy| proxy.get(path).0.contains("thorp; hit"));
    let of_dead: Vec<&String> = paths.iter().filter(|path| is_hit(path) != [true; 2]).collect();
    assert!((1..16).contains(&of_dead.len()), "{of_dead:?}");
    for path in &paths {
        let is_of_dead = of_dead.contains(&path);
        assert_eq!(is_hit(path), [!is_of_dead; 2], "{path}: the home of a page is the same for both");
        assert!(!is_of_dead || proxies[0].get(path).0.contains("detail=away"));
    }
    let status = proxies[0].process.status().unwrap();
    let homes = status["proxy_homes"].as_array().unwrap();
    assert_eq!(homes.iter().map(|home| home["trouble"].is_null()).collect::<Vec<_>>(), [true, false], "{status}");
    // It comes back, and has its pages again.
    let _again = start_home(&["--listen", other, "--hub", hub]);
    store_all();
    for proxy in proxies {
        proxy.stop();
    }
}

#[test]
fn homes_that_cannot_be_are_refused() {
    let run = |homes: &[&str]| {
        let homes = homes.iter().flat_map(|home| ["--home", home]);
        thorp(["proxy", "--origin", "http://127.0.0.1:1", "--check-config"].into_iter().chain(homes)).usage()
    };
    assert!(run(&["shed:7430", "barn:7430", "shed:7430"]).contains("--home shed:7430 is said twice"));
    let many: Vec<String> = (1..=17).map(|number| format!("shed{number}:7430")).collect();
    assert!(run(&many.iter().map(String::as_str).collect::<Vec<_>>()).contains("at most 16 homes: got 17"));
}

#[test]
fn proxies_of_other_machines_read_the_table_by_libfabric() {
    // The library between libfabric and Thorp, see `cargo xtask shim`.
    if std::env::var_os("THORP_FABRIC_SHIM").is_none() {
        assert!(std::env::var_os("CI").is_none(), "cargo xtask test builds the library");
        return println!("skipped: no library, see cargo xtask shim");
    }
    let fabric = ["--fabric", "tcp;ofi_rxm"];
    let home = start_home(&[&["--listen", "127.0.0.1:0"], &fabric[..]].concat());
    let address = &home.address().to_string();
    share(home, &[&["--home", address], &fabric[..]].concat(), &[&["--listen", address], &fabric[..]].concat());
}

#[test]
fn libfabric_that_cannot_be_had_is_named() {
    let thorp = |words: &[&str]| {
        let output = command().args(words).env("THORP_FABRIC_SHIM", "/no/such/library").output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let fabric = ["--listen", "127.0.0.1:0", "--until-stdin-closes", "--fabric", "verbs;ofi_rxm"];
    let home = [&["home"], &fabric[..]].concat();
    let at = ["--origin", "http://127.0.0.1:1", "--admin", "127.0.0.1:0", "--home"];
    let proxy = [&["proxy"], &fabric[..], &at].concat();
    for said in [thorp(&home), thorp(&[&proxy[..], &["127.0.0.1:1"]].concat())] {
        assert!(said.contains("/no/such/library") && said.contains("THORP_FABRIC_SHIM"), "{said}");
    }
    let near = thorp(&[&proxy[..], &["/run/thorp/home"]].concat());
    assert!(near.contains("read in place"), "{near}");
}

/// Two proxies have a home by these options. It dies, and the next one is started with the others.
fn share(home: Process, at: &[&str], next: &[&str]) {
    let origin = application();
    let options = [&["--origin", &origin], at].concat();
    let proxies = [(); 2].map(|()| Proxy::start_with(&options));
    let stored = proxies.each_ref().map(|proxy| proxy.wait_for_hit("/"));
    // A change that one is notified of is one for the other.
    thorp(["invalidate", "--admin", &proxies[0].admin, "--url", "http://shop.example/"]).ok();
    for (proxy, stored) in proxies.iter().zip(&stored) {
        assert_ne!(proxy.get("/").1, *stored);
    }
    let stored = proxies.each_ref().map(|proxy| proxy.wait_for_hit("/"));
    drop(home);
    // Each is current as long as the lease of the home that is gone. Then every request goes to the application.
    for (proxy, stored) in proxies.iter().zip(&stored) {
        until("the table answers no more", || !proxy.get("/").0.contains("thorp; hit"));
        assert_ne!(proxy.get("/").1, *stored);
        assert!(proxy.get("/").0.contains("detail=away"), "{}", proxy.get("/").0);
    }
    // The next home is found.
    let _home = start_home(next);
    for proxy in &proxies {
        proxy.wait_for_hit("/");
    }
    for proxy in proxies {
        proxy.stop();
    }
}
