//! The proxy as an operator runs it.

use crate::program::{command, thorp};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Stdio};

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

/// A proxy that runs, and what it says.
pub(crate) struct Proxy {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
    admin: String,
}

impl Proxy {
    pub(crate) fn start(origin: &str) -> Self {
        Self::start_with(&["--origin", origin])
    }

    pub(crate) fn start_with(options: &[&str]) -> Self {
        let anywhere = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let mut child = command()
            .args(["proxy", "--json", "--until-stdin-closes"])
            .args(anywhere)
            .args(options)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut proxy = Self { child, lines, address: String::new(), admin: String::new() };
        let ready = proxy.line();
        let address = |name: &str| ready[name].as_str().unwrap().to_owned();
        (proxy.address, proxy.admin) = (address("listen"), address("admin"));
        proxy
    }

    /// Where it listens for operators.
    pub(crate) fn admin(&self) -> &str {
        &self.admin
    }

    /// Where it listens for clients.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next thing that it says.
    pub(crate) fn line(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Stops it; gives its last words.
    pub(crate) fn stop(mut self) -> Value {
        drop(self.child.stdin.take());
        let stopped = self.line();
        assert!(self.child.wait().unwrap().success());
        stopped
    }
}

/// The whole answer to a request for a page.
pub(crate) fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
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
