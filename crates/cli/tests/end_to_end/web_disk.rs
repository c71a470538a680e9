//! A proxy with a disk, as an operator runs it: killed, stopped, started again, and on a disk that is full.

use crate::full_disk::{SmallDisk, is_inside};
use crate::program::{Folder, thorp};
use crate::web::Proxy;
use fixtures::until;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An application whose body for `/size/number` has that size, and names its path; and how many of them it has sent.
fn application() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::<AtomicUsize>::default();
    let count = sent.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let count = count.clone();
            std::thread::spawn(move || answer(&stream.unwrap(), &count));
        }
    });
    (format!("http://{address}"), sent)
}

fn answer(mut stream: &TcpStream, sent: &AtomicUsize) {
    let (mut lines, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        // A proxy that was killed has hung up.
        if lines.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).unwrap();
    let fields = format!("ETag: \"{path}\"\r\nCache-Control: max-age=600\r\nConnection: close\r\n");
    let _ = if head.to_ascii_lowercase().contains("if-none-match") {
        write!(stream, "HTTP/1.1 304 Not Modified\r\n{fields}\r\n")
    } else {
        sent.fetch_add(1, Ordering::Relaxed);
        let body = body(path);
        write!(stream, "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
    };
}

fn body(path: &str) -> String {
    let size = path.split('/').nth(1).unwrap().parse().unwrap();
    path.chars().chain(", ".chars()).cycle().take(size).collect()
}

/// Asks for a path; whether it was a hit. Every byte is looked at.
fn is_hit(proxy: &Proxy, path: &str) -> bool {
    let (head, got) = proxy.get(path);
    assert!(head.starts_with("HTTP/1.1 200") && got == body(path), "{path}: {} bytes, {head}", got.len());
    head.contains("; hit")
}

fn paths(sizes: &[usize], count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/{}/{number}", sizes[number % sizes.len()])).collect()
}

fn status(proxy: &Proxy) -> serde_json::Value {
    proxy.process.status().unwrap()
}

/// Killed again and again while it writes: each time everything that is answered is right, to the byte.
#[test]
fn a_proxy_that_is_killed_finds_its_disk_again() {
    let folder = Folder::new();
    let (origin, sent) = application();
    let dir = folder.path().to_str().unwrap();
    let options = ["--origin", &origin, "--cache", "300K", "--disk", dir, "--disk-size", "8M", "--largest", "300K"];
    let paths = Arc::new(paths(&[2000, 30_000, 200_000, 4000], 200));
    for round in 0..4 {
        let proxy = Proxy::start_with(&options);
        let found = status(&proxy)["proxy"][0]["disk_stored_responses"].as_u64().unwrap();
        assert_eq!(found > 10, round > 0, "round {round}: {found} are found");
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|reader| {
                    let (proxy, paths) = (&proxy, &paths);
                    scope.spawn(move || {
                        let mut hits = 0;
                        for path in paths.iter().cycle().skip(reader * 67).take(250) {
                            hits += usize::from(is_hit(proxy, path));
                        }
                        hits
                    })
                })
                .collect();
            let hits: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
            assert!(hits > 0 || round == 0, "nothing is answered from what is stored");
        });
        proxy.kill();
    }
    let proxy = Proxy::start_with(&options);
    for path in paths.iter() {
        is_hit(&proxy, path);
    }
    proxy.kill();
    let before = sent.load(Ordering::Relaxed);
    let proxy = Proxy::start_with(&options);
    // The newest first: what takes their places is behind them.
    let validated = paths.iter().rev().filter(|path| !is_hit(&proxy, path)).count();
    let whole = sent.load(Ordering::Relaxed) - before;
    assert!(validated == 200 && (1..190).contains(&whole), "{whole} of {validated} were sent whole");
    // A removal holds for the next start as well.
    let url = format!("http://shop.example{}", paths[0]);
    thorp(["invalidate", "--admin", proxy.admin(), "--url", &url]).ok();
    proxy.kill();
    let before = sent.load(Ordering::Relaxed);
    let proxy = Proxy::start_with(&options);
    assert!(!is_hit(&proxy, &paths[0]));
    assert_eq!(sent.load(Ordering::Relaxed), before + 1, "it came back");
    let why = thorp(["why", "--admin", proxy.admin(), &format!("http://shop.example{}", paths[2])]).ok();
    assert!(why.contains("stored on disk: status 200, 200000 bytes"), "{why}");
    // One that is told to stop writes down what it has in memory.
    let small = ["/2000/0", "/4000/3"];
    let ask = |proxy: &Proxy, paths: &[&str]| paths.iter().filter(|path| is_hit(proxy, path)).count();
    ask(&proxy, &small);
    proxy.stop();
    let before = sent.load(Ordering::Relaxed);
    let proxy = Proxy::start_with(&options);
    assert_eq!(ask(&proxy, &small), 0);
    assert_eq!(sent.load(Ordering::Relaxed), before);
    let other =
        thorp(["proxy", "--origin", &origin, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--disk", dir]);
    let line = other.error();
    assert!(line.contains("(in-use)") && line.contains(&format!("process {}", proxy.process.id())), "{line}");
    proxy.stop();
}

#[test]
fn a_proxy_whose_disk_is_full_keeps_what_it_can() {
    if !is_inside("web_disk::a_proxy_whose_disk_is_full_keeps_what_it_can") {
        return;
    }
    let disk = SmallDisk::new(10);
    let (origin, sent) = application();
    let dir = disk.0.path().to_str().unwrap();
    let options = ["--origin", &origin, "--cache", "300K", "--disk", dir, "--disk-size", "64M", "--largest", "1M"];
    let mut proxy = Proxy::start_with(&options);
    let paths = paths(&[100_000], 400);
    assert_eq!(paths.iter().filter(|path| is_hit(&proxy, path)).count(), 0);
    let note = proxy.line();
    assert!(note["note"] == "disk" && note["text"].as_str().unwrap().contains("it is full"), "{note}");
    let kept = &paths[370..];
    let hits = || kept.iter().filter(|path| is_hit(&proxy, path)).count();
    until("some are kept", || hits() >= 20);
    // With room it keeps more.
    disk.resize(40);
    let room = |proxy: &Proxy| status(proxy)["proxy"][0]["disk_stored_bytes"].as_u64().unwrap();
    let mut rounds = 0;
    until("it keeps more", || {
        rounds += 1;
        for path in &paths {
            is_hit(&proxy, path);
        }
        room(&proxy) >= 15_000_000
    });
    assert!(rounds < 20 && sent.load(Ordering::Relaxed) > 400);
    proxy.stop();
}
