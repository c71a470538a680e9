//! The watcher of a store as an operator runs it: a store, a watcher with its hub, a proxy, an application that reads
//! objects and names them, writers. Processes are killed and stopped, and no response lacks what was done before it was
//! asked for.

use crate::program::{Folder, program, serve, serve_with, start, thorp};
use crate::web::{PATIENCE, Proxy};
use fixtures::{Process, lasting_address};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use thorp::{Anywhere, Db, Ref};

pub(crate) const LEASE_MS: u64 = 500;
pub(crate) const ITEMS: usize = 4;

/// A watcher, with its hub at this address, once it is in a state.
fn watcher(store: SocketAddr, hub: SocketAddr, state: &str) -> Process {
    let watcher = start(&["watch", &format!("thorp://{store}"), "--listen", &hub.to_string()]);
    assert_eq!(watcher.address(), hub);
    watcher.until("state", state).unwrap()
}

/// Waits until it says that it is in a state.
pub(crate) fn wait_for(watcher: &Process, state: &str) {
    watcher.hear_until(|line| line["state"] == state).unwrap();
}

/// Ends it as an operator does.
pub(crate) fn stop(watcher: Process) {
    assert!(watcher.end().unwrap().status.success());
}

fn leased(folder: &Folder, listen: SocketAddr) -> Process {
    let (listen, lease_ms) = (listen.to_string(), LEASE_MS.to_string());
    serve_with(folder, &["--listen", &listen, "--leased", "0", "--lease-ms", &lease_ms])
}

/// An application whose pages show an item each, and name what they were made from.
pub(crate) fn application(db: Db, items: [Ref<u64>; ITEMS]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, db) = (stream.unwrap(), db.clone());
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut target, mut line) = (String::new(), String::new());
                reader.read_line(&mut target).unwrap();
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                let item: usize = target.trim_start_matches("GET /").split(' ').next().unwrap().parse().unwrap();
                let head = match db.transact(|tx| Ok((tx.get(items[item])?, tx.names_read()?))) {
                    Ok((count, names)) => {
                        let groups: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                        let fields = format!("Cache-Control: max-age=3600\r\nCache-Groups: {}", groups.join(", "));
                        format!("200 OK\r\n{fields}\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{count:08}")
                    }
                    Err(_) => "503 Away\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
                };
                // A proxy that waits no longer has hung up.
                let _ = write!(stream, "HTTP/1.1 {head}");
            });
        }
    });
    format!("http://{address}")
}

/// The changes that somebody was notified of, or shown, and how everybody gets on.
#[derive(Default)]
pub(crate) struct Site {
    known: Mutex<[u64; ITEMS]>,
    pub(crate) stale: Mutex<Vec<String>>,
    commits: AtomicU64,
    hits: AtomicU64,
    answers: AtomicU64,
    took: Mutex<Vec<Duration>>,
    pub(crate) is_over: AtomicBool,
}

impl Site {
    /// Changes this many items in a transaction, and others in the next.
    pub(crate) fn write(&self, db: &Db, items: &[Ref<u64>; ITEMS], first: usize, together: usize) {
        let mut number = first;
        while !self.is_over.load(SeqCst) {
            let of_this = (number..number + together).map(|number| number % ITEMS);
            number += 1;
            let begun = Instant::now();
            let written = db.transact(|tx| {
                let change = |item: usize| {
                    let count = tx.get(items[item])? + 1;
                    tx.put(items[item], &count).map(|()| (item, count))
                };
                of_this.clone().map(change).collect::<Result<Vec<_>, _>>()
            });
            if let Ok(changed) = written {
                for (item, count) in changed {
                    self.know(item, count);
                }
                self.commits.fetch_add(1, SeqCst);
                self.took.lock().unwrap().push(begun.elapsed());
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn know(&self, item: usize, count: u64) {
        let known = &mut self.known.lock().unwrap()[item];
        *known = count.max(*known);
    }

    pub(crate) fn read(&self, proxy: &str, first: usize) {
        let mut number = first;
        while !self.is_over.load(SeqCst) {
            let item = number % ITEMS;
            number += 1;
            let must = self.known.lock().unwrap()[item];
            let answer = ask(proxy, item);
            let Some((head, body)) = answer.split_once("\r\n\r\n").filter(|(head, _)| head.starts_with("HTTP/1.1 200"))
            else {
                sleep(Duration::from_millis(5));
                continue;
            };
            let shown: u64 = body.parse().unwrap();
            if shown < must {
                self.stale.lock().unwrap().push(format!("item {item} shows {shown}, and {must} was done: {head}"));
            }
            self.know(item, shown);
            self.answers.fetch_add(1, SeqCst);
            self.hits.fetch_add(u64::from(head.contains("thorp; hit")), SeqCst);
            sleep(Duration::from_millis(1));
        }
    }

    /// Waits until all have got on, and nothing was stale.
    pub(crate) fn get_on(&self, when: &str) {
        let counts = || [&self.commits, &self.hits].map(|count| count.load(SeqCst));
        let (before, begun) = (counts(), Instant::now());
        self.took.lock().unwrap().clear();
        while counts().iter().zip(before).any(|(now, before)| *now < before + 20) {
            assert!(begun.elapsed() < PATIENCE, "{when}: {before:?} became {:?}", counts());
            sleep(Duration::from_millis(5));
        }
        assert_eq!(*self.stale.lock().unwrap(), Vec::<String>::new(), "{when}");
        self.tell(when, begun.elapsed());
    }

    fn tell(&self, when: &str, after: Duration) {
        let mut took = self.took.lock().unwrap();
        took.sort_unstable();
        println!(
            "{when}: after {after:?}; a commit took {:?} (p50), {:?} at most",
            took[took.len() / 2],
            took[took.len() - 1]
        );
    }
}

fn ask(proxy: &str, item: usize) -> String {
    let mut answer = String::new();
    let mut exchange = || {
        let mut stream = TcpStream::connect(proxy)?;
        write!(stream, "GET /{item} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")?;
        std::io::Read::read_to_string(&mut stream, &mut answer)
    };
    let _ = exchange();
    answer
}

#[test]
fn no_response_lacks_a_commit_whatever_is_killed() {
    let folder = Folder::new();
    let [store_at, hub] = [(); 2].map(|()| lasting_address().unwrap());
    let mut store = leased(&folder, store_at);
    let patience = Duration::from_secs(20);
    let [writer, reader] = [(); 2].map(|()| Db::builder().patience(patience).connect(store_at).unwrap());
    let items: [Ref<u64>; ITEMS] = std::array::from_fn(|_| writer.transact(|tx| tx.create(Anywhere, &0)).unwrap());
    let mut watching = watcher(store_at, hub, "watching");
    let status: Value = serde_json::from_str(&thorp(["status", "--json", &store_at.to_string()]).ok()).unwrap();
    let watch = status["sessions"].as_array().unwrap().iter().filter(|session| session["watches"] == "yes");
    assert_eq!(watch.count(), 1, "{status}");
    let proxy = Proxy::start_with(&["--origin", &application(reader, items), "--hub", &hub.to_string()]);
    let site = Arc::new(Site::default());
    thread::scope(|scope| {
        let _over = Over(&site.is_over);
        for first in 0..2 {
            scope.spawn({
                let (site, writer) = (&site, &writer);
                move || site.write(writer, &items, first, 1)
            });
            scope.spawn({
                let (site, proxy) = (&site, proxy.address());
                move || site.read(proxy, 2 * first)
            });
        }
        site.get_on("at first");
        site.get_on("and on");

        // The hub dies with its watcher: the store waits until no cache answers, and continues without them.
        watching.kill().unwrap();
        let (begun, commits) = (Instant::now(), site.commits.load(SeqCst));
        while site.commits.load(SeqCst) < commits + 20 {
            assert!(begun.elapsed() < PATIENCE, "the store waits for the dead");
            sleep(Duration::from_millis(5));
        }
        assert_eq!(*site.stale.lock().unwrap(), Vec::<String>::new(), "the watcher is dead");
        site.took.lock().unwrap().clear();
        sleep(Duration::from_millis(LEASE_MS));
        site.tell("there is no watcher", begun.elapsed());
        watching.start_again().unwrap();
        site.get_on("the watcher was killed and replaced");

        // It does not know that it was stopped for longer than its lease, and the store did not wait any longer.
        watching.signal(Signal::STOP).unwrap();
        sleep(Duration::from_millis(3 * LEASE_MS));
        watching.signal(Signal::CONT).unwrap();
        site.get_on("the watcher was stopped");

        store.start_again().unwrap();
        site.get_on("the store was killed and started again");

        // Two watch for a while, each with a hub of its own: no commit waits for the one that leaves for longer than a
        // lease.
        let other = watcher(store_at, lasting_address().unwrap(), "watching");
        site.get_on("two watch");
        stop(other);
        site.get_on("one has left");
    });
    println!(
        "{} commits, {} answers, {} hits",
        site.commits.load(SeqCst),
        site.answers.load(SeqCst),
        site.hits.load(SeqCst)
    );
    proxy.stop();
    stop(watching);
}

/// Ends the threads of a scope also where its test fails.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A store that hangs takes connections, and says nothing.
#[test]
fn a_store_that_hangs_is_waited_for_aloud() {
    let folder = Folder::new();
    let store = leased(&folder, lasting_address().unwrap());
    let signal = |signal| store.signal(signal).unwrap();
    let watching = watcher(store.address(), lasting_address().unwrap(), "watching");
    for _ in 0..2 {
        signal(Signal::STOP);
        wait_for(&watching, "waiting");
        signal(Signal::CONT);
        wait_for(&watching, "watching");
    }
    stop(watching);
    // One that hangs from the first is waited for, too.
    signal(Signal::STOP);
    let watching = watcher(store.address(), lasting_address().unwrap(), "waiting");
    signal(Signal::CONT);
    wait_for(&watching, "watching");
    stop(watching);
}

#[test]
fn a_store_that_cannot_be_watched_is_said_in_a_line() {
    let (folder, other) = (Folder::new(), Folder::new());
    let unleased = serve(&folder);
    let at = format!("thorp://{}", unleased.address());
    let check = |at: &str| thorp(["watch", at, "--check"]);
    let broken = check(&at);
    assert_eq!(broken.code, Some(1));
    assert!(broken.stdout.contains("broken: the store leases no space") && broken.stdout.contains("--leased 0"));
    // It waits for a store that leases something, and says why.
    let waits = watcher(unleased.address(), lasting_address().unwrap(), "not_leased");
    stop(waits);

    let leased = leased(&other, "127.0.0.1:0".parse().unwrap());
    let at = format!("thorp://{}", leased.address());
    assert_eq!(check(&at).ok(), "it can be watched\n");
    thorp(["put", "--server", &leased.address().to_string(), "--space", "attic", "wheel", "{}"]).ok();
    // A store says what it has said a moment ago.
    let (mut hole, begun) = (String::new(), Instant::now());
    while !hole.contains("is not leased: no change there invalidates anything") {
        assert!(begun.elapsed() < PATIENCE, "{hole}");
        hole = check(&at).ok();
    }

    let group = program().group("site", leased.address(), &[]).unwrap();
    let at = format!("thorp://{}", group.address());
    assert!(check(&at).stdout.contains("broken: no store answers"));
    let refused = thorp(["watch", &at, "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("name the store's own address"), "{}", refused.stderr);
}

#[test]
fn words_that_do_not_go_with_a_store_are_refused() {
    for option in [["--map", "map.toml"], ["--slot", "shop"], ["--publication", "shop"], ["--hub", "127.0.0.1:1"]] {
        let refused = thorp(["watch", "thorp://127.0.0.1:1"].into_iter().chain(option)).usage();
        assert!(refused.contains(option[0]) && refused.contains("only for PostgreSQL"), "{refused}");
    }
    assert!(thorp(["watch", "thorp://127.0.0.1:1", "--setup"]).usage().contains("only for PostgreSQL"));
    let nowhere = thorp(["watch", "thorp://127.0.0.1:1", "--check"]).error();
    assert!(nowhere.contains("127.0.0.1:1"), "{nowhere}");
    let none = thorp(["watch", "thorp://shed", "--check"]);
    assert!(none.code == Some(2) && none.stderr.contains("HOST:PORT"), "{}", none.stderr);
}
