//! Bodies of requests: collected before the origin is asked, at a minimum rate, in bounded room.

use crate::harness::{Client, Origin, PATIENCE, config, connect, response};
use bytes::Bytes;
use http::Request;
use http_body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use proxy::{Config, Proxy};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

fn proxy_with(origin: &Origin, change: impl FnOnce(&mut Config)) -> Proxy {
    let mut config = config(origin.address);
    change(&mut config);
    Proxy::start(config).unwrap()
}

/// An origin that answers with the body that it got.
fn echo() -> Origin {
    Origin::start(|request| response(200, &[("cache-control", "no-store")], request.body().clone()))
}

fn post(path: &str, fields: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: shop.example\r\n{fields}\r\n")
}

/// One place at the origin, and a short time to wait for it.
fn one_place(config: &mut Config) {
    (config.limits.origin_requests, config.limits.connect) = (1, Duration::from_millis(100));
}

#[test]
fn clients_that_send_slowly_hold_no_place_at_the_origin() {
    let origin = echo();
    let proxy = proxy_with(&origin, one_place);
    let mut slow: Vec<_> = (0..5).map(|_| Client::connect(proxy.address())).collect();
    for client in &mut slow {
        client.write(post("/", "Content-Length: 8\r\nExpect: 100-continue\r\n"));
        // It is asked to continue when the proxy reads its body.
        assert_eq!(client.line().unwrap(), "HTTP/1.1 100 Continue");
        client.line();
        client.write("slow");
    }
    assert_eq!(Client::connect(proxy.address()).get("/").status, 200);
    for mut client in slow {
        client.write("ness");
        assert_eq!(client.read().unwrap().text(), "slowness");
    }
    assert!(origin.received().iter().all(|request| !request.headers().contains_key("expect")));
}

/// A body of which one piece comes, and no more.
struct Stuck(bool);

impl http_body::Body for Stuck {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if std::mem::replace(&mut this.0, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"a")))))
    }
}

#[test]
fn http2_streams_that_send_slowly_hold_no_place_at_the_origin() {
    let origin = echo();
    let proxy = proxy_with(&origin, one_place);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut stuck = Vec::new();
        for _ in 0..20 {
            let request = Request::post("http://shop.example/").body(Stuck(false)).unwrap();
            stuck.push(tokio::spawn(sender.send_request(request)));
        }
        // Requests of one connection are taken in order: all of those are there when this one is answered.
        let options = Request::options("http://shop.example/").header("max-forwards", "0").body(Stuck(true)).unwrap();
        assert_eq!(sender.send_request(options).await.unwrap().status(), 200);
        let address = proxy.address();
        let status = tokio::task::spawn_blocking(move || Client::connect(address).get("/").status);
        assert_eq!(status.await.unwrap(), 200);
        assert!(stuck.iter().all(|request| !request.is_finished()));
    });
}

#[test]
fn a_body_is_streamed_where_the_operator_wants_it() {
    let origin = echo();
    let proxy = proxy_with(&origin, |config| {
        one_place(config);
        config.stream_uploads = vec!["/live/".to_owned()];
    });
    let mut client = Client::connect(proxy.address());
    client.write(post("/live/1", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"));
    // The origin reads the body while it comes, so the request is there.
    assert_eq!(client.line().unwrap(), "HTTP/1.1 100 Continue");
    client.line();
    client.write("4\r\nlive\r\n");
    assert_eq!(Client::connect(proxy.address()).get("/").status, 503);
    client.write("0\r\n\r\n");
    assert_eq!(client.read().unwrap().text(), "live");
}

#[test]
fn a_large_body_is_kept_in_a_file_without_a_name() {
    let dir = std::env::temp_dir().join(format!("thorp-uploads-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let origin = echo();
    let proxy = proxy_with(&origin, |config| config.upload_dir = Some(dir.clone()));
    let large: Vec<u8> = (0..3_000_001).map(|index: u32| (index % 253) as u8).collect();
    let mut client = Client::connect(proxy.address());
    client.write(post("/", "Transfer-Encoding: chunked\r\n"));
    for piece in large.chunks(100_000) {
        client.write(format!("{:x}\r\n", piece.len()));
        client.write(piece);
        client.write("\r\n");
    }
    client.write("0\r\n\r\n");
    assert!(client.read().unwrap().body == large);
    assert_eq!(origin.received()[0].headers()["content-length"], "3000001", "its length is known now");
    drop(proxy);
    std::fs::remove_dir(&dir).expect("nothing is left in it");
    let mut config = config(origin.address);
    config.upload_dir = Some(dir);
    let error = Proxy::start(config).unwrap_err().to_string();
    assert!(error.contains("cannot keep request bodies in"), "{error}");
}

#[test]
fn bodies_take_bounded_room() {
    let origin = echo();
    let proxy = proxy_with(&origin, |config| {
        (config.limits.upload_memory_bytes, config.limits.upload_file_bytes) = (10, 200_000);
    });
    let refused = |fields: &str, body: &[u8]| {
        // The proxy may have refused it before all is sent.
        let mut stream = connect(proxy.address());
        let _ = stream.write_all(post("/", fields).as_bytes()).and_then(|()| stream.write_all(body));
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).map(str::to_owned)
    };
    assert_eq!(refused("Content-Length: 200001\r\n", b"").as_deref(), Some("413"));
    let endless = ["10000\r\n".as_bytes(), &vec![b'a'; 0x10000], b"\r\n"].concat().repeat(4);
    assert_eq!(refused("Transfer-Encoding: chunked\r\n", &endless).as_deref(), Some("413"));
    // A body that has come in part holds its room.
    let mut half = Client::connect(proxy.address());
    half.write(post("/", "Content-Length: 150000\r\n"));
    half.write(vec![b'a'; 149_999]);
    let start = Instant::now();
    while proxy.uploads().1 < 149_999 {
        assert!(start.elapsed() < PATIENCE, "it is not collected");
        std::thread::yield_now();
    }
    let mut other = Client::connect(proxy.address());
    other.write(post("/", "Content-Length: 100000\r\n"));
    other.try_write(&"b".repeat(100_000));
    assert_eq!(other.read().unwrap().status, 503, "there is no room for both");
    half.write("a");
    assert_eq!(half.read().unwrap().body, vec![b'a'; 150_000]);
    other = Client::connect(proxy.address());
    other.write(post("/", "Content-Length: 100000\r\n"));
    other.write(vec![b'b'; 100_000]);
    assert_eq!(other.read().unwrap().body, vec![b'b'; 100_000], "the room is free again");
    let without_files = proxy_with(&origin, |config| config.limits.upload_files = 0);
    let mut small = Client::connect(without_files.address());
    for (bytes, status) in [(65_536, 200), (65_537, 503)] {
        small.write(post("/", &format!("Content-Length: {bytes}\r\n")));
        small.write(vec![b'a'; bytes]);
        assert_eq!(small.read().unwrap().status, status, "{bytes}");
    }
    let refusals = proxy.tally().refusals;
    assert!(refusals.iter().any(|(name, _)| *name == "bodies-full"), "{refusals:?}");
}

#[test]
fn a_client_that_drips_its_body_is_cut_off() {
    let origin = echo();
    let proxy = proxy_with(&origin, |config| {
        (config.limits.stall, config.limits.upload_bytes_per_s) = (Duration::from_millis(300), 1000);
    });
    let mut stream = connect(proxy.address());
    stream.write_all(post("/", "Content-Length: 100000\r\n").as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let (start, mut answer) = (Instant::now(), [0; 12]);
    while stream.read(&mut answer).is_err() {
        assert!(start.elapsed() < PATIENCE, "it is still there");
        // It fails once the proxy has refused the request.
        let _ = stream.write_all(b"a");
    }
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(origin.received().is_empty());
}

/// Neither the pause limit nor the timeout of the origin ends a steady upload.
#[test]
fn a_steady_upload_takes_as_long_as_it_takes() {
    let origin = echo();
    let proxy = proxy_with(&origin, |config| {
        let limits = &mut config.limits;
        (limits.stall, limits.origin) = (Duration::from_millis(400), Duration::from_millis(400));
        config.stream_uploads = vec!["/live/".to_owned()];
    });
    for path in ["/", "/live/"] {
        let (mut client, start, mut sent) = (Client::connect(proxy.address()), Instant::now(), 0);
        client.write(post(path, "Transfer-Encoding: chunked\r\n"));
        while start.elapsed() < Duration::from_millis(1300) {
            client.write("64\r\n");
            client.write([b'a'; 100]);
            client.write("\r\n");
            sent += 100;
            std::thread::sleep(Duration::from_millis(50));
        }
        client.write("0\r\n\r\n");
        let answer = client.read().unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, sent), "{path}");
    }
}

/// Both clients close their half of the connection, and the proxy closes the other half when it has noticed.
#[test]
fn nothing_is_done_late_for_a_client_that_has_gone() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |request| {
        if request.uri() == "/wait" {
            released.lock().unwrap().recv().unwrap();
        }
        response(200, &[("cache-control", "no-store")], "ok")
    });
    let proxy = proxy_with(&origin, |config| {
        (config.limits.origin_requests, config.limits.connect) = (1, PATIENCE * 2);
    });
    let mut waits = Client::connect(proxy.address());
    waits.write("GET /wait HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    let start = Instant::now();
    while origin.received().is_empty() {
        assert!(start.elapsed() < PATIENCE, "it is not asked");
        std::thread::yield_now();
    }
    for request in [post("/whole", "Content-Length: 4\r\n") + "body", post("/half", "Content-Length: 4\r\n") + "bo"] {
        let mut stream = connect(proxy.address());
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    release.send(()).unwrap();
    assert_eq!(waits.read().unwrap().status, 200);
    assert_eq!(waits.get("/after").status, 200);
    let paths: Vec<_> = origin.received().iter().map(|request| request.uri().to_string()).collect();
    assert_eq!(paths, ["/wait", "/after"]);
}
