//! The client with a real etcd, and with other servers.

use etcd::{Compare, Etcd, EtcdError, EtcdUrl, Operation};
use fixtures::installed::or_skipped;
use fixtures::{Folder, Signal, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(2);

fn start(folder: &Folder) -> Option<fixtures::Etcd> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join("bin/etcd");
    or_skipped(program.is_file(), "bin/etcd").then(|| fixtures::Etcd::start(&program, folder.path()).unwrap())
}

fn client(addresses: &[SocketAddr]) -> Etcd {
    let endpoints: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    Etcd::new(&endpoints, WITHIN).unwrap()
}

fn put(key: &str, value: &str) -> Operation {
    Operation::Put(key.into(), value.into(), None)
}

#[test]
fn transactions_compare_and_leases_expire() {
    let folder = Folder::new();
    let Some(server) = start(&folder) else { return };
    let url: EtcdUrl = server.url("main").parse().unwrap();
    // A dead endpoint is passed over.
    let dead: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let etcd = client(&[dead, url.endpoints[0].parse().unwrap()]);
    let absent = || Compare::Absent("/t/a".into());
    assert!(etcd.commit(&[absent()], &[put("/t/a", "1"), put("/t/b", "ü"), put("/tt", "")]).unwrap());
    assert!(!etcd.commit(&[absent()], &[put("/t/a", "2")]).unwrap());
    let found = etcd.read("/t/").unwrap();
    let [a, b] = &found.entries[..] else { panic!("two keys: {found:?}") };
    assert_eq!((&*a.key, &*a.value, &*b.value, found.revision), ("/t/a", "1", "ü", a.revision));
    assert_eq!(etcd.revision("/other/").unwrap(), found.revision);
    let unchanged = || Compare::Unchanged("/t/a".into(), a.revision);
    assert!(etcd.commit(&[unchanged()], &[put("/t/a", "3"), Operation::Delete("/t/b".into())]).unwrap());
    assert!(!etcd.commit(&[unchanged()], &[put("/t/a", "4")]).unwrap());
    assert_eq!(etcd.read("/t/").unwrap().entries.len(), 1);

    let lease = etcd.grant(Duration::from_secs(1)).unwrap();
    let leased = |key: &str| Operation::Put(key.into(), String::new(), Some(lease.id));
    assert!(etcd.commit(&[], &[leased("/l/1")]).unwrap());
    assert_eq!(etcd.keep_alive(lease.id).unwrap(), Some(lease.length));
    let before = etcd.revision("/").unwrap();
    until("the lease expires", || etcd.read("/l/").unwrap().entries.is_empty());
    assert!(etcd.revision("/").unwrap() > before, "an expired key is a change");
    assert_eq!(etcd.keep_alive(lease.id).unwrap(), None);
    let refused = etcd.commit(&[], &[leased("/l/2")]).unwrap_err();
    assert!(matches!(&refused, EtcdError::Refused { why, .. } if why.contains("lease")), "{refused}");
    let lease = etcd.grant(Duration::from_secs(60)).unwrap();
    assert!(etcd.commit(&[], &[Operation::Put("/l/3".into(), String::new(), Some(lease.id))]).unwrap());
    etcd.revoke(lease.id).unwrap();
    assert!(etcd.read("/l/").unwrap().entries.is_empty());
}

#[test]
fn a_server_that_stops_is_named() {
    let folder = Folder::new();
    let Some(mut server) = start(&folder) else { return };
    let etcd = Etcd::new(&[server.address().to_string()], Duration::from_millis(300)).unwrap();
    assert!(etcd.commit(&[], &[put("/t/a", "1")]).unwrap());
    server.process.signal(Signal::STOP).unwrap();
    let (begun, silent) = (Instant::now(), etcd.read("/t/").unwrap_err());
    assert!(matches!(silent, EtcdError::Silent { .. }), "{silent}");
    assert!(begun.elapsed() < WITHIN, "after {:?}", begun.elapsed());
    server.process.signal(Signal::CONT).unwrap();
    until("it answers again", || etcd.read("/t/").is_ok());
    server.process.kill().unwrap();
    let dead = etcd.read("/t/").unwrap_err().to_string();
    let check = format!("check it with 'curl http://{}/health'", server.address());
    assert!(dead.contains("cannot be reached") && dead.contains(&check), "{dead}");
    server.start_again().unwrap();
    assert_eq!(etcd.read("/t/").unwrap().entries.len(), 1);
}

/// A server that answers each request with these bytes.
fn answering(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().take(1).flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(&bytes);
        }
    });
    address
}

#[test]
fn other_servers_are_named() {
    let http = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
    let endless = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'['; 9 << 20]].concat();
    let deep = http(&"[".repeat(100_000));
    let other = http("{\"header\": {\"revision\": {}}}");
    for bytes in [b"SSH-2.0-x\r\n\r\n".to_vec(), http("<html>"), http("{}"), http("null"), other, deep, endless] {
        let error = client(&[answering(bytes.clone())]).read("/").unwrap_err();
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(matches!(error, EtcdError::NotEtcd { .. }), "{head}: {error}");
    }
    let error = client(&[answering(http("{\"error\": \"no\\u001b leader\"}"))]).read("/").unwrap_err();
    assert!(error.to_string().contains("refuses: no leader"), "{error}");
    let hung_up = client(&[answering(Vec::new())]).read("/").unwrap_err();
    assert!(matches!(hung_up, EtcdError::Unreachable { .. }), "{hung_up}");
}
