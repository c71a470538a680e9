//! Backups of published files: sites copied from store to store while they are published, restored when a store is
//! lost, and what a doctor finds and saves of a damaged one.

use crate::followed_sites::{Farm, LEASE};
use crate::program::{Ran, command, spawn, start, thorp};
use crate::sites::{Ending, ask};
use fixtures::{Process, Signal, SiteFolder, chunk_files, chunk_of, flip, lasting_address, until};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs `thorp` with a store beside a directory to publish.
fn run(place: &SiteFolder, store: &str, words: &[&str]) -> Ran {
    thorp([words, &["--dir", &place.file(store)]].concat())
}

fn publish(place: &SiteFolder, text: &str) {
    place.write("index.html", text);
    run(place, "store", &["publish", &place.file("www"), "shop", "--note", text]).ok();
}

/// Numbers and notes of the revisions that a store keeps, the newest first.
fn log(ran: Ran) -> Vec<(u64, String)> {
    let of = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap();
        (told["revision"].as_u64().unwrap(), told["note"].as_str().unwrap().to_owned())
    };
    ran.ok().lines().map(of).collect()
}

fn is_whole(place: &SiteFolder, store: &str) {
    let verified = run(place, store, &["site", "verify", "shop"]).ok();
    assert!(verified.ends_with("chunks are whole\n"), "{verified}");
}

/// Different bytes for each seed, more than a chunk in the table has.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(1);
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn a_site_is_copied_there_and_back() {
    let place = SiteFolder::new();
    place.write("img/logo", noise(100_000, 1));
    for text in ["one", "two", "three"] {
        publish(&place, text);
    }
    let backup = place.file("backup");
    let copied = run(&place, "store", &["site", "copy", "shop", "--to-dir", &backup]).ok();
    assert!(copied.starts_with("shop@3: 3 revisions, ") && copied.ends_with(" chunks copied\n"), "{copied}");
    let again = run(&place, "store", &["site", "copy", "shop", "--to-dir", &backup]).ok();
    assert_eq!(again, "shop@3: nothing new to copy\n");
    let told = run(&place, "store", &["site", "copy", "shop", "--to-dir", &backup, "--json"]).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["head"], &told["revisions"], &told["chunks"]), (&3.into(), &0.into(), &0.into()), "{told}");
    is_whole(&place, "backup");
    let revisions = |store| run(&place, store, &["site", "log", "shop"]).ok();
    assert_eq!(revisions("backup"), revisions("store"), "numbers, times and notes");

    // To a server that runs.
    let new = start(&["serve", "--dir", &place.file("new"), "--listen", "127.0.0.1:0"]);
    let server = new.address().to_string();
    let copy = |site: &str, more: &[&str]| {
        run(&place, "backup", &[&["site", "copy", site, "--to-server", &server][..], more].concat())
    };
    assert!(copy("shop", &["--to-space", "attic"]).ok().starts_with("shop@3: 3 revisions, "));
    assert_eq!(copy("shop", &["--to-space", "attic"]).ok(), "shop@3: nothing new to copy\n");
    assert!(copy("shop@1", &["--to", "window"]).ok().starts_with("window@1: 1 revisions, "));
    assert!(copy("shop@2", &["--to", "window"]).ok().starts_with("window@2: 1 revisions, "));
    assert!(copy("shop@1", &["--to", "window"]).ok().starts_with("window@3: 1 revisions, "), "it counts by itself");
    let there = |words: &[&str]| thorp([words, &["--server", &server]].concat());
    assert_eq!(
        log(there(&["site", "log", "shop", "--space", "attic", "--json"])),
        [(3, "three".to_owned()), (2, "two".to_owned()), (1, "one".to_owned())]
    );
    assert_eq!(there(&["site", "cat", "window/index.html"]).ok(), "one");
    assert!(there(&["site", "verify", "window"]).ok().ends_with("chunks are whole\n"));
}

#[test]
fn all_sites_are_copied_though_one_fails() {
    let place = SiteFolder::new();
    place.write("img/logo", noise(100_000, 1));
    publish(&place, "one");
    for (site, text) in [("about", "a"), ("zoo", "z")] {
        place.write("img/logo", noise(100_000, 2));
        place.write("index.html", text);
        run(&place, "store", &["publish", &place.file("www"), site]).ok();
    }
    flip(&chunk_of(&place.store(), &noise(100_000, 1)));
    let ran = run(&place, "store", &["site", "copy", "--all", "--to-dir", &place.file("backup")]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("1 of 3 sites were not copied as a whole, see above"), "{}", ran.stderr);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("about@1: 1 revisions, ") && lines[2].starts_with("zoo@1: 1 revisions, "));
    assert!(lines[1].starts_with("shop: not copied: shop@1 cannot be copied, as img/logo needs a chunk"), "{lines:?}");
    assert_eq!(run(&place, "backup", &["site", "cat", "zoo/index.html"]).ok(), "z");
    // The directory heals the source, and the next copy is complete.
    place.write("img/logo", noise(100_000, 1));
    place.write("index.html", "one");
    run(&place, "store", &["publish", &place.file("www"), "shop", "--repair"]).ok();
    let copied = run(&place, "store", &["site", "copy", "--all", "--to-dir", &place.file("backup")]).ok();
    assert_eq!(copied.lines().filter(|line| line.ends_with(": nothing new to copy")).count(), 2, "{copied}");
    // And a backup heals a store.
    flip(&chunk_of(&place.store(), &noise(100_000, 2)));
    assert_eq!(run(&place, "store", &["site", "verify", "zoo"]).code, Some(1));
    run(&place, "backup", &["site", "copy", "zoo", "--to-dir", &place.file("store"), "--repair"]).ok();
    assert!(run(&place, "store", &["site", "verify", "zoo"]).ok().ends_with("chunks are whole\n"));
}

#[test]
fn wrong_words_of_a_copy_are_refused_with_the_remedy() {
    let place = SiteFolder::new();
    publish(&place, "one");
    let copy = |words: &[&str]| run(&place, "store", &[&["site", "copy"][..], words].concat());
    assert_eq!(copy(&["shop"]).code, Some(2), "a copy needs a place");
    assert_eq!(copy(&["--to-dir", &place.file("b")]).code, Some(2), "and a site");
    assert!(copy(&["shop/img", "--to-dir", &place.file("b")]).stderr.contains("a site is copied as a whole"));
    assert_eq!(copy(&["shop", "--all", "--to-dir", &place.file("b")]).code, Some(2));
    assert!(copy(&["shop", "--to-dir", &place.file("store")]).usage().contains("are one store"));
    assert!(copy(&["none", "--to-dir", &place.file("b")]).error().contains("there is no site 'none'"));
    assert!(copy(&["shop@7", "--to-dir", &place.file("c")]).error().contains("has no revision 7"));
    assert!(!place.path().join("b").exists(), "a wrong name makes no store");
    // A directory with a site of its own.
    let other = place.file("other");
    place.write("index.html", "another");
    thorp(["publish", &place.file("www"), "shop", "--dir", &other]).ok();
    let refused = copy(&["shop", "--to-dir", &other]).error();
    assert!(refused.contains("'shop' has revision 1 there, which is not an older copy of the source"), "{refused}");
}

/// During publishes, at a source that keeps two revisions and removes what they do not need, each backup is complete.
#[test]
fn a_backup_of_a_running_server_is_complete() {
    let farm = Farm::new();
    let write = |round: u64| {
        for part in 0..40 {
            farm.place.write(&format!("parts/{part}"), noise(40_000, round * 100 + part));
        }
        farm.place.write("index.html", format!("round {round}"));
    };
    write(1);
    farm.publish(&[]).ok();
    farm.run(&["site", "set", "shop", "--keep", "2"]).ok();
    let backup = farm.place.file("backup");
    let copy = || farm.run(&["site", "copy", "shop", "--to-dir", &backup, "--json"]);
    let is_over = AtomicBool::new(false);
    let newest = || -> Value {
        let copied: Value = serde_json::from_str(&copy().ok()).unwrap();
        is_whole(&farm.place, "backup");
        copied["head"].clone()
    };
    let published = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let mut round = 1;
            while !is_over.load(Relaxed) {
                round += 1;
                write(round);
                farm.publish(&[]).ok();
                farm.run(&["site", "collect"]).ok();
            }
            round
        });
        let over = Ending(&is_over);
        let heads: Vec<Value> = (0..6).map(|_| newest()).collect();
        drop(over);
        assert!(heads.is_sorted_by_key(Value::as_u64), "{heads:?}");
        publisher.join().unwrap()
    });
    assert!(published > 6, "publishes go on during a backup: {published}");
    assert_eq!(newest(), published);
    let text = run(&farm.place, "backup", &["site", "cat", "shop/index.html"]).ok();
    assert_eq!(text, format!("round {published}"));
    run(&farm.place, "backup", &["site", "collect"]).ok();
    is_whole(&farm.place, "backup");
}

/// The source drops what a copy has listed, before the copy has come to it.
#[test]
fn a_copy_goes_on_with_what_the_source_still_has() {
    let farm = Farm::new();
    for part in 0..200 {
        farm.place.write(&format!("parts/{part}"), noise(120_000, part));
    }
    let publish = |text: &str| {
        farm.place.write("index.html", text);
        farm.publish(&[]).ok();
    };
    ["one", "two", "three"].into_iter().for_each(publish);
    let (backup, path) = (farm.place.file("backup"), farm.place.path().join("backup"));
    let copy = spawn(&["site", "copy", "shop", "--server", &farm.address.to_string(), "--to-dir", &backup, "--json"]);
    until("the first revision arrives", || !chunk_files(&path).is_empty());
    copy.signal(Signal::STOP).unwrap();
    // Its hold is over, too, and the chunks of the first revision stay until a collection.
    std::thread::sleep(LEASE * 2);
    farm.run(&["site", "set", "shop", "--keep", "1"]).ok();
    ["four", "five"].into_iter().for_each(publish);
    copy.signal(Signal::CONT).unwrap();
    let copied = copy.hear().unwrap();
    assert_eq!((&copied["head"], &copied["gone"]), (&5.into(), &2.into()), "{copied}");
    assert!(copy.ended().unwrap().status.success());
    is_whole(&farm.place, "backup");
    assert_eq!(run(&farm.place, "backup", &["site", "cat", "shop/index.html"]).ok(), "five");
}

/// A copy that is killed again and again has whole revisions only, and does not begin again.
#[test]
fn a_copy_is_killed_and_continued() {
    let place = SiteFolder::new();
    for version in 0..3_u64 {
        for part in 0..150 {
            place.write(&format!("parts/{part}"), noise(120_000, version * 1000 + part));
        }
        publish(&place, &format!("version {version}"));
    }
    let (backup, total) = (place.path().join("backup"), chunk_files(&place.store()).len());
    for round in 1..=4 {
        let enough = total * round / 5;
        let mut copy = command();
        copy.args(["site", "copy", "shop", "--dir", &place.file("store"), "--to-dir", backup.to_str().unwrap()]);
        let mut copy = copy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while chunk_files(&backup).len() < enough && copy.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120));
        }
        copy.kill().unwrap();
        copy.wait().unwrap();
        let kept = chunk_files(&backup).len();
        assert!(kept >= enough, "{kept} of {enough} chunks stay");
        if run(&place, "backup", &["site", "list"]).stdout.contains("shop@") {
            is_whole(&place, "backup");
        }
    }
    let last = run(&place, "store", &["site", "copy", "shop", "--to-dir", &place.file("backup"), "--json"]).ok();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["head"], 3, "{last}");
    assert!(last["chunks"].as_u64().unwrap() < total as u64 / 2, "{last} of {total}");
    is_whole(&place, "backup");
    let revisions = |store| run(&place, store, &["site", "log", "shop"]).ok();
    assert_eq!(revisions("backup"), revisions("store"));
}

#[test]
fn an_interrupted_copy_says_what_it_has_done() {
    let place = SiteFolder::new();
    for part in 0..400 {
        place.write(&format!("parts/{part}"), noise(120_000, part));
    }
    publish(&place, "one");
    let (backup, path) = (place.file("backup"), place.path().join("backup"));
    let copy = spawn(&["site", "copy", "shop", "--dir", &place.file("store"), "--to-dir", &backup]);
    until("some chunks have arrived", || !chunk_files(&path).is_empty());
    copy.signal(Signal::INT).unwrap();
    let said = copy.hear_error("interrupted").unwrap();
    assert!(said.contains("0 revisions of 'shop' were copied and are whole; the same command continues"), "{said}");
    copy.ended().unwrap();
    assert!(run(&place, "backup", &["site", "list"]).ok().contains("no revision yet"));
    let copied = run(&place, "store", &["site", "copy", "shop", "--to-dir", &backup]).ok();
    assert!(copied.starts_with("shop@1: 1 revisions, "), "{copied}");
    is_whole(&place, "backup");
}

/// A page of the site: the text, and whether the server says that there may be a newer one.
fn page(address: SocketAddr) -> (String, bool) {
    let (head, body) = ask(address, "GET /", "Sec-Fetch-Mode: navigate\r\n");
    (body, head.to_lowercase().contains("thorp-stale"))
}

fn until_shows(member: &Process, text: &str) {
    until("the server shows it without reserve", || page(member.address()) == (text.to_owned(), false));
}

/// The directory of a store is lost with two revisions that no backup has. Its servers say that they may be behind, and
/// follow the store that was restored.
#[test]
fn servers_of_a_lost_store_follow_the_restored_one() {
    let mut farm = Farm::new();
    let publish = |farm: &Farm, text: &str| {
        farm.place.write("index.html", text);
        farm.publish(&["--note", text, "--wait"]).ok();
    };
    farm.place.write("img/logo", noise(300_000, 1));
    publish(&farm, "one");
    let backup = farm.place.file("backup");
    publish(&farm, "two");
    farm.run(&["site", "copy", "--all", "--to-dir", &backup]).ok();
    let member = farm.member("member", farm.address, &[]);
    let listen = lasting_address().unwrap().to_string();
    let mut with_group = farm.group(&listen);
    let grouped = farm.member("grouped", with_group.address(), &[]);
    for text in ["three", "four"] {
        publish(&farm, text);
    }
    for server in [&member, &grouped] {
        until_shows(server, "four");
    }
    farm.store.take().unwrap().kill().unwrap();
    fs::remove_dir_all(farm.place.store()).unwrap();
    thorp(["site", "copy", "--all", "--dir", &backup, "--to-dir", &farm.place.file("store")]).ok();
    std::thread::sleep(LEASE + LEASE / 2);
    for server in [&member, &grouped] {
        assert_eq!(page(server.address()), ("four".to_owned(), true), "the lease is over");
    }

    // From the moment at which the restored store has taken them, its newest revision is the newest.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for server in [&member, &grouped] {
            let (address, is_over) = (server.address(), &is_over);
            scope.spawn(move || {
                let mut is_back = false;
                while !is_over.load(Relaxed) {
                    let (text, is_stale) = page(address);
                    is_back |= text == "two";
                    assert!(if is_back { text == "two" } else { text == "four" && is_stale }, "{text} {is_stale}");
                }
            });
        }
        let _over = Ending(&is_over);
        farm.start_store();
        until_shows(&member, "two");
        // The group caches objects of the lost store, so its redirector ends and is started again.
        assert!(!with_group.wait().unwrap());
        with_group = farm.group(&listen);
        until_shows(&grouped, "two");
    });
    let log = log(farm.run(&["site", "log", "shop", "--json"]));
    assert_eq!(log[0].0, 5, "the numbers of revisions that were lost are not used again: {log:?}");
    assert!(log[0].1.contains("restored from an older copy"), "{log:?}");
    assert_eq!(log[1..], [(2, "two".to_owned()), (1, "one".to_owned())]);
    publish(&farm, "six");
    for server in [&member, &grouped] {
        until_shows(server, "six");
    }
    // The next backup continues the one before.
    assert!(farm.run(&["site", "copy", "--all", "--to-dir", &backup]).ok().starts_with("shop@6: 2 revisions, "));
    is_whole(&farm.place, "backup");
}

#[test]
fn a_doctor_finds_damaged_chunks_and_saves_the_rest() {
    let place = SiteFolder::new();
    let dir = place.file("store");
    let doctor = |more: &[&str]| thorp([&["doctor", "--dir", &dir][..], more].concat());
    publish(&place, "one");
    place.write("img/logo", noise(100_000, 1));
    publish(&place, "two");
    place.write("img/more", noise(100_000, 2));
    publish(&place, "three");
    let whole = doctor(&[]).ok();
    assert!(whole.contains(": whole; ") && whole.contains("; 1 sites with 3 revisions, "), "{whole}");
    let told: Value = serde_json::from_str(&doctor(&["--json"]).ok()).unwrap();
    assert_eq!((&told["sites"], &told["revisions"], &told["findings"]), (&1.into(), &3.into(), &0.into()), "{told}");
    assert!(told["chunks"].as_u64() >= Some(5) && told["chunk_bytes"].as_u64() > Some(200_000), "{told}");

    flip(&chunk_of(&place.store(), &noise(100_000, 2)));
    fs::remove_file(chunk_of(&place.store(), &noise(100_000, 1))).unwrap();
    let found = doctor(&[]);
    assert_eq!(found.code, Some(1));
    assert!(found.stderr.contains("2 things are damaged, see above"), "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert!(lines[0].starts_with("space main, shop@3: img/logo: "), "{lines:?}");
    assert!(lines[1].starts_with("space main, shop@3: img/more: "), "{lines:?}");
    assert!(lines[1].contains("`thorp site copy --repair` from a backup"), "{lines:?}");
    let new = place.file("new");
    let salvaged = doctor(&["--salvage", &new]).ok();
    assert!(salvaged.contains("lost: space main, shop@2: img/logo: "), "{salvaged}");
    assert!(salvaged.contains("lost: space main, shop@3: img/more: "), "{salvaged}");
    assert!(salvaged.contains("; 1 sites with 1 whole revisions, 2 revisions are lost\n"), "{salvaged}");
    assert!(doctor(&["--salvage", &new]).error().contains("remove it"));
    thorp(["doctor", "--dir", &new]).ok();
    is_whole(&place, "new");
    assert_eq!(run(&place, "new", &["site", "cat", "shop/index.html"]).ok(), "one");

    fs::write(place.path().join("store/chunks/small.redb"), "no table").unwrap();
    let found = doctor(&["--json"]);
    let lines: Vec<Value> = found.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((found.code, lines.len()), (Some(1), 2), "{lines:?}");
    assert!(lines[0]["advice"].as_str().unwrap().contains("thorp site copy --all"), "{lines:?}");
}
