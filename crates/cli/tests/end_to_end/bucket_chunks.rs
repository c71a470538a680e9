//! A store whose large chunks are in a bucket, on a real server of buckets: processes are killed, and the server stops
//! or is far away.

use crate::followed_sites::LEASE;
use crate::program::{Ran, command, program, ran, start, thorp, tool};
use crate::sites::ask;
use fixtures::{BucketServer, Emulator, Folder, Process, Signal, SiteFolder, until};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use std::time::{Duration, Instant};

/// A store, a directory to publish, and a server of buckets.
struct Farm {
    place: SiteFolder,
    buckets: BucketServer,
    /// Where the store finds the buckets.
    at: SocketAddr,
    store: Option<Process>,
    address: SocketAddr,
    _folder: Folder,
}

impl Farm {
    /// Without a store; none if no server of buckets is installed.
    fn new() -> Option<Self> {
        let program = tool("bin/versitygw")?;
        let (place, folder) = (SiteFolder::new(), Folder::new());
        let buckets = BucketServer::start(&program, &folder).unwrap();
        let (at, address) = (buckets.address(), "127.0.0.1:0".parse().unwrap());
        Some(Self { place, buckets, at, store: None, address, _folder: folder })
    }

    fn try_start(&mut self, dir: &str, more: &[&str]) -> Result<Process, String> {
        let (dir, listen, lease) = (self.place.file(dir), self.address.to_string(), LEASE.as_millis().to_string());
        let mut command = program().command();
        command.args(["serve", "--dir", &dir, "--listen", &listen, "--site-lease-ms", &lease]).args(more);
        command.args(["--admin", "127.0.0.1:0", "--json", "--until-stdin-closes"]);
        BucketServer::let_use(&mut command, self.at);
        Process::start(command, "the store").map_err(|error| error.to_string())
    }

    fn start(&mut self, more: &[&str]) {
        let store = self.try_start("store", more).unwrap();
        self.address = store.address();
        self.store = Some(store);
    }

    fn stop(&mut self) {
        self.store.take().unwrap().end().unwrap();
    }

    fn run(&self, words: &[&str]) -> Ran {
        thorp([words, &["--server", &self.address.to_string()]].concat())
    }

    fn publish(&self, site: &str) -> Ran {
        self.run(&["publish", &self.place.file("www"), site])
    }

    /// Files, each of which is one large chunk of its own.
    fn write_large(&self, files: usize, bytes: usize, seed: usize) {
        for file in 0..files {
            let content: Vec<u8> = (0..bytes / 8).flat_map(|at| (at * (file + 1) * 977 + seed).to_le_bytes()).collect();
            self.place.write(&format!("large/{file}.bin"), content);
        }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.place.www().join(name)).unwrap()
    }

    fn objects(&self) -> usize {
        self.buckets.chunks("shop").len()
    }

    /// Asserts that the store has exactly these large files in its bucket, and all of it whole.
    fn assert_whole(&self, site: &str, files: usize) {
        until("what is unused is gone", || {
            self.run(&["site", "collect"]).ok();
            self.objects() == files
        });
        assert!(self.run(&["site", "verify", site]).ok().ends_with("chunks are whole\n"));
        let copy = self.place.file("copy");
        self.run(&["site", "get", site, &copy]).ok();
        for file in 0..files {
            let name = format!("large/{file}.bin");
            assert_eq!(fs::read(Path::new(&copy).join(&name)).unwrap(), self.file(&name), "{name}");
        }
        fs::remove_dir_all(copy).unwrap();
    }

    fn health(&self) -> String {
        ask(self.store.as_ref().unwrap().address_of("admin"), "GET /health", "").1
    }
}

#[test]
fn a_store_keeps_its_large_chunks_in_a_bucket() {
    let Some(mut farm) = Farm::new() else { return };
    let url = farm.buckets.url("shop");
    farm.start(&["--chunks", &url]);
    farm.place.write("index.html", "one");
    farm.write_large(40, 100_000, 0);
    farm.publish("shop").ok();
    assert_eq!(farm.objects(), 40);
    let cache = farm.place.file("a");
    let server = farm.address.to_string();
    let words = ["site", "serve", "shop", "--server", &server, "--cache", &cache, "--listen", "127.0.0.1:0"];
    let member = start(&words);
    until("it has the revision", || ask(member.address(), "GET /", "").1 == "one");

    // It is recorded where the chunks are.
    farm.stop();
    farm.start(&[]);
    farm.assert_whole("shop", 40);
    farm.place.write("index.html", "two");
    farm.write_large(20, 100_000, 1);
    farm.publish("shop").ok();
    assert_eq!(farm.objects(), 60);
    until("it has the next one", || ask(member.address(), "GET /", "").1 == "two");
    drop(member);
    farm.run(&["site", "set", "shop", "--keep", "1"]).ok();
    farm.place.write("index.html", "three");
    farm.publish("shop").ok();
    until("one revision is left", || farm.run(&["site", "log", "shop", "--json"]).ok().lines().count() == 1);
    farm.assert_whole("shop", 40);

    // A place is one store's, and a store's is one place.
    farm.stop();
    let error = farm.try_start("store", &["--chunks", &farm.buckets.url("other")]).unwrap_err();
    assert!(error.contains("are in s3://pages/shop, and s3://pages/other does not have them"), "{error}");
    let error = farm.try_start("second", &["--chunks", &url]).unwrap_err();
    assert!(error.contains("s3://pages/shop has the chunks of another store"), "{error}");
    let dir = farm.place.file("third");
    let publish = ["publish", &farm.place.file("www"), "shop", "--dir", &dir, "--chunks", &farm.buckets.url("third")];
    let beside = |words: &[&str]| BucketServer::let_use(command().args(words), farm.at).output().unwrap();
    ran(beside(&publish)).ok();
    assert_eq!(farm.buckets.chunks("third").len(), 40);
    let cat = ["site", "cat", "shop/large/7.bin", "--dir", &dir];
    assert!(beside(&cat).stdout == farm.file("large/7.bin"));
    let doctor = ["doctor", "--dir", &dir];
    let report = ran(beside(&doctor)).ok();
    assert!(report.contains("whole") && report.contains("1 sites with 1 revisions"), "{report}");
    // An unreachable bucket does not count as damage.
    let nowhere = "127.0.0.1:9".parse().unwrap();
    let error = ran(BucketServer::let_use(command().args(doctor), nowhere).output().unwrap()).error();
    assert!(error.contains("cannot read from s3://") && !error.contains("damaged"), "{error}");
    let refused = farm.run(&["publish", &farm.place.file("www"), "shop", "--chunks", &url]).usage();
    assert!(refused.contains("--chunks is for a store's directory"), "{refused}");
    let error = farm.try_start("fourth", &["--chunks", "gs://pages/shop"]).unwrap_err();
    assert!(error.contains("an address begins with s3://"), "{error}");
}

/// Acknowledged chunks are there, and the others are removed.
#[test]
fn a_store_that_is_killed_in_a_publish_loses_nothing() {
    let Some(mut farm) = Farm::new() else { return };
    let far = Emulator::start(farm.buckets.address(), Duration::from_millis(50), None).unwrap();
    farm.at = far.address();
    farm.start(&["--chunks", &farm.buckets.url("shop")]);
    farm.write_large(3, 60_000, 0);
    farm.publish("shop").ok();
    let mut files = 3;
    for round in 1..4 {
        let (before, www) = (farm.objects(), farm.place.file("www"));
        files += 100;
        farm.write_large(files, 60_000, 0);
        let mut publish = command();
        publish.args(["publish", &www, "shop", "--server", &farm.address.to_string()]);
        let publish = publish.spawn().unwrap();
        until("some are there", || farm.objects() > before + 10 * round);
        farm.store.take().unwrap().kill().unwrap();
        farm.start(&[]);
        // It goes on by itself, unless its answer was lost.
        drop(publish.wait_with_output().unwrap());
        farm.publish("shop").ok();
        farm.assert_whole("shop", files);
    }
}

/// A bucket that stops delays the publish that needs it, and no other. A bucket that is gone is an error with a name.
#[test]
fn a_bucket_that_stops_is_waited_for_or_named() {
    let Some(mut farm) = Farm::new() else { return };
    farm.start(&["--chunks", &farm.buckets.url("shop")]);
    farm.write_large(20, 60_000, 0);
    farm.publish("shop").ok();
    farm.buckets.process.signal(Signal::STOP).unwrap();
    farm.write_large(30, 60_000, 0);
    let mut publish = command();
    publish.args(["publish", &farm.place.file("www"), "shop", "--server", &farm.address.to_string()]);
    let mut waits = publish.spawn().unwrap();
    let small = SiteFolder::new();
    for round in 0..5 {
        small.write("index.html", format!("round {round}"));
        let begun = Instant::now();
        farm.run(&["publish", &small.file("www"), "notes"]).ok();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
    assert_eq!(waits.try_wait().unwrap(), None, "the bucket does not answer");
    farm.buckets.process.signal(Signal::CONT).unwrap();
    ran(waits.wait_with_output().unwrap()).ok();
    farm.assert_whole("shop", 30);

    farm.buckets.process.kill().unwrap();
    farm.write_large(40, 60_000, 0);
    let (copy, begun) = (farm.place.file("copy"), Instant::now());
    let refused = std::thread::scope(|scope| {
        let publish = scope.spawn(|| farm.publish("shop").error());
        let get = scope.spawn(|| farm.run(&["site", "get", "shop@2", &copy]).error());
        [publish.join().unwrap(), get.join().unwrap()]
    });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!(refused[0].contains("cannot write to s3://pages/shop: "), "{}", refused[0]);
    assert!(refused[1].contains("cannot read from s3://pages/shop: "), "{}", refused[1]);
    assert!(farm.health().contains("s3://pages/shop"), "{}", farm.health());
    small.write("index.html", "last");
    farm.run(&["publish", &small.file("www"), "notes"]).ok();
    let _ = fs::remove_dir_all(&copy);
    farm.buckets.start_again().unwrap();
    farm.publish("shop").ok();
    farm.assert_whole("shop", 40);
    assert!(!farm.health().contains("s3://"), "{}", farm.health());
}

#[test]
fn chunks_go_to_a_far_bucket_side_by_side() {
    const CHUNKS: usize = 1000;
    let Some(mut farm) = Farm::new() else { return };
    let far = Emulator::start(farm.buckets.address(), Duration::from_millis(25), None).unwrap();
    farm.at = far.address();
    farm.start(&["--chunks", &farm.buckets.url("shop")]);
    farm.write_large(CHUNKS, 40_000, 0);
    let begun = Instant::now();
    farm.publish("shop").ok();
    let took = begun.elapsed();
    println!("{CHUNKS} chunks, 50 ms away: {took:?}");
    assert!(took < Duration::from_secs(25), "one by one takes 50 s: {took:?}");
    assert_eq!(farm.objects(), CHUNKS);
}
