//! A paper's experiment as a user runs it. The bounds of its figures are for a quiet machine to judge.

use crate::program::{Folder, Ran, command, serve, spawn, thorp};
use fixtures::{PATIENCE, Postgres, Signal, try_until, until};
use rustix::process::{Pid, getsid, test_kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[test]
fn a_table_of_the_paper_beside_ours() {
    let folder = Folder::new();
    let (dir, out) = (folder.file(""), folder.file("out"));
    let words =
        ["experiment", "buddycache", "--table", "2", "--minutes", "0.3", "--json", "--dir", &dir, "--out", &out];
    let printed = thorp(words).ok();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &rows {
        for field in ["figure", "case", "paper", "model", "ours", "target", "met"] {
            assert!(row.get(field).is_some(), "{row} has no {field}");
        }
        assert_eq!(row["target"].is_null(), row["met"].is_null(), "{row}");
    }
    let row = |case: &str| rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}: {printed}"));
    assert_eq!(row("peer fetch")["paper"], 1.8);
    // On a machine that has more to do a peer may be too late for some, and the store is asked for those.
    let from_peers = row("from peers, of all pages fetched")["ours"].as_f64().unwrap();
    assert!(from_peers > 0.0 && from_peers <= 100.0, "{from_peers} %");
    // Nine who hold the page are notified of each commit, however many others there are.
    let [few, many] = [20, 200]
        .map(|members| row(&format!("per commit, 10 of {members} members hold the page"))["ours"].as_f64().unwrap());
    assert!(few > 9.0 && many < 1.1 * few, "{few} messages, and {many}");
    assert_eq!(std::fs::read_to_string(folder.path().join("out/buddycache.jsonl")).unwrap(), printed);
}

/// Each of them has a store and volumes of its own. The bounds are for volumes of 1 GiB and a quiet machine.
#[test]
fn two_figures_of_volumes_in_one_command() {
    let folder = Folder::new();
    let (dir, out) = (folder.file(""), folder.file("out"));
    let which = ["experiment", "coopreplica", "--figure", "2", "--takeover", "--json"];
    let small = ["--volume-mib", "64", "--minutes", "0.3", "--dir", &dir, "--out", &out];
    let printed = thorp([&which[..], &small].concat()).ok();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |case: &str| rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}: {printed}"));
    for case in
        ["8 MiB sequential, lost to synchronous copies", "synchronous write over that", "the one over the other"]
    {
        assert!(row(case)["ours"].is_number() && row(case)["baseline_differs_percent"].is_number(), "{}", row(case));
    }
    let beside = "8 MiB sequential, lost to synchronous copies, beside the plain device, synced";
    assert!(row(beside)["ours"].is_number() && row(beside)["target"].is_null(), "{printed}");
    assert!(rows.iter().all(|row| row["others_percent"].is_number()), "{printed}");
    assert_eq!(places(&folder), [folder.path().join("out")], "it has left something");
}

/// The figures with servers take a minute each: they are not for every change.
#[test]
fn look_ups_beside_the_paper() {
    let folder = Folder::new();
    let (dir, out) = (folder.file(""), folder.file("out"));
    let words = ["experiment", "activecache", "--figure", "6", "--json", "--dir", &dir, "--out", &out];
    let printed = thorp(words).ok();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let row = |case: &str| rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}: {printed}"));
    assert_eq!(row("one-sided lookup")["paper"], 11.89);
    assert!(row("one-sided lookup")["met"].is_boolean());
    assert!(row("two-sided over one-sided")["ours"].as_f64() > Some(1.0), "{printed}");
    // Without the library between it and libfabric a row is there all the same, and says so.
    let fabric = row("one-sided lookup, libfabric on TCP");
    assert!(fabric["ours"].is_number() != fabric["missing"].is_string(), "{fabric}");
    assert!(rows.iter().all(|row| row["others_percent"].is_number()), "{printed}");
    assert_eq!(std::fs::read_to_string(folder.path().join("out/activecache.jsonl")).unwrap(), printed);
}

#[test]
fn look_ups_beside_busy_processes() {
    let folder = Folder::new();
    let printed = thorp(["experiment", "activecache", "--figure", "7", "--json", "--dir", &folder.file("")]).ok();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for way in ["one-sided", "two-sided TCP"] {
        let loaded = format!("{way}, p99 loaded");
        let row = rows.iter().find(|row| row["case"] == *loaded).unwrap_or_else(|| panic!("{loaded}: {printed}"));
        assert!(row["ours"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn a_busy_process_ends_with_its_starter() {
    let busy = spawn(&["strain", "--json"]);
    assert!(busy.line().unwrap().contains("busy"));
    assert!(busy.end().unwrap().status.success());
}

/// The database of a site is a process of its own, which does not end with its parent.
#[test]
fn an_experiment_that_is_told_to_stop_leaves_nothing() {
    if !Postgres::is_installed() {
        return;
    }
    let folder = Folder::new();
    let words = ["experiment", "activecache", "--figure", "8", "--case-s", "3", "--dir", &folder.file("")];
    let experiment = spawn(&words);
    let server = || {
        let locks = places(&folder).into_iter().map(|place| place.join("postgres/data/postmaster.pid"));
        let text: String = locks.filter_map(|lock| std::fs::read_to_string(lock).ok()).collect();
        // That of the server alone, which `initdb` runs before, is negative.
        Pid::from_raw(text.lines().next()?.parse::<u32>().ok()?.cast_signed())
    };
    let server = try_until("there is a server", PATIENCE, server).unwrap();
    let ended = experiment.end_by(Signal::TERM).unwrap();
    assert!(!ended.status.success() && ended.stderr.contains("interrupted"), "{ended:?}");
    assert!(test_kill_process(server).is_err(), "the server goes on");
    assert_eq!(places(&folder), [] as [PathBuf; 0]);
}

/// Presses Ctrl-C when this holds of the process and of the folders that it has made, and gives what it has said. It
/// has to end soon, whatever it was at, and to leave no process and no folder.
fn interrupted(which: &[&str], is_due: impl Fn(u32, &[PathBuf]) -> bool) {
    let folder = Folder::new();
    let experiment = spawn(&[&["experiment"], which, &["--json", "--dir", &folder.file("")]].concat());
    until(&format!("{which:?} comes so far"), || is_due(experiment.id(), &places(&folder)));
    let told = Instant::now();
    let ended = experiment.end_by(Signal::INT).unwrap();
    let (took, error) = (told.elapsed(), ended.stderr);
    assert!(took < Duration::from_secs(4), "{which:?} takes {took:?} to end: {error}");
    assert!(ended.status.code() == Some(1) && error.contains("interrupted before"), "{which:?}: {error}");
    assert_eq!(places(&folder), [] as [PathBuf; 0]);
    let of_it = |process: &PathBuf| {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&*folder.path().to_string_lossy())
    };
    let left: Vec<_> = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()).filter(of_it).collect();
    assert_eq!(left, [] as [PathBuf; 0], "{which:?}");
}

#[test]
fn an_experiment_ends_soon_whatever_it_is_at() {
    let has = |name: &'static str| move |_, places: &[PathBuf]| places.iter().any(|place| place.join(name).exists());
    interrupted(&["buddycache", "--figure", "12"], has("lab"));
    interrupted(&["coopreplica", "--figure", "2"], has("throughput/cache-0"));
    if Postgres::is_installed() {
        interrupted(&["activecache", "--figure", "8"], has("postgres"));
    }
    // A library that libfabric loads has signals end the process. While it is loaded it has its way.
    if Path::new(command().get_program()).with_file_name("libthorp_fabric.so").is_file() {
        interrupted(&["activecache", "--figure", "6"], |process, _| has_home_by_fabric(process));
    }
}

/// Whether this process has loaded libfabric, and started a home that is read by it.
fn has_home_by_fabric(parent: u32) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let said = |process: &Path, what: &str| std::fs::read_to_string(process.join(what)).unwrap_or_default();
    let is_its_child = |status: &str| status.lines().any(|line| line == format!("PPid:\t{parent}"));
    processes.into_iter().any(|it| said(&it, "cmdline").contains("--fabric") && is_its_child(&said(&it, "status")))
}

#[test]
fn an_experiment_that_is_interrupted_has_printed_what_was_finished() {
    let folder = Folder::new();
    let (scratch, out) = (folder.file(""), folder.file("out"));
    let experiment = spawn(&["experiment", "coopreplica", "--reliability", "--json", "--dir", &scratch, "--out", &out]);
    let row = experiment.hear().unwrap();
    assert_eq!(row["copies"], 1, "{row}");
    let Ran { code, stderr, .. } = experiment.end_by(Signal::INT).unwrap().into();
    assert!(code == Some(1) && stderr.contains("rows that were finished: 1"), "{stderr}");
    let kept = std::fs::read_to_string(folder.path().join("out/coopreplica.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 1, "{kept}");
}

#[test]
fn a_process_that_ends_with_its_starter_has_a_session_of_its_own() {
    let folder = Folder::new();
    let server = serve(&folder);
    let pid = Pid::from_raw(server.id().cast_signed()).unwrap();
    assert_eq!(getsid(Some(pid)), Ok(pid));
    assert!(server.end().unwrap().status.success());
}

/// The folders below it.
fn places(folder: &Folder) -> Vec<PathBuf> {
    std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn experiments_of_the_other_paper() {
    let table = thorp(["experiment", "activecache", "--table", "1"]).error();
    assert!(table.contains("BuddyCache"), "{table}");
    let figure = thorp(["experiment", "buddycache", "--figure", "6"]).error();
    assert!(figure.contains("figures 7 to 12"), "{figure}");
}

#[test]
fn how_long_copies_last_is_counted_and_drawn() {
    let folder = Folder::new();
    let out = folder.file("out");
    let printed =
        thorp(["experiment", "coopreplica", "--reliability", "--cycles", "500", "--json", "--out", &out]).ok();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let years = |case: &str, copies: u8| {
        let is_it = |row: &&Value| row["case"] == case && row["copies"] == copies;
        rows.iter().find(is_it).unwrap()["mttf_years"].as_f64().unwrap()
    };
    assert!(years("markov", 2) > 1000.0 * years("markov", 1) && years("volume", 3) > 5.0 * years("volume", 2));
    // Where 1 device of 100 dies with its power.
    let [cold, hot] = ["cold", "hot"].map(|part| {
        let row = rows.iter().find(|row| row["case"] == "spare" && row["part"] == part).unwrap();
        row["mttf_years"].as_f64().unwrap()
    });
    assert!(hot > 20.0 * cold, "{hot} {cold}");
    assert!(rows.iter().filter(|row| row["case"] == "markov").all(|row| row["met"].is_boolean()));
    assert_eq!(std::fs::read_to_string(folder.path().join("out/coopreplica.jsonl")).unwrap(), printed);
    assert!(folder.path().join("out/reliability.svg").is_file());
    let figure = thorp(["experiment", "coopreplica", "--figure", "7"]).error();
    assert!(figure.contains("--reliability"), "{figure}");
    let other = thorp(["experiment", "buddycache", "--reliability"]).error();
    assert!(other.contains("CoopReplica"), "{other}");
}

#[test]
fn the_messages_of_each_consistency_are_those_of_the_paper() {
    let folder = Folder::new();
    let (dir, out) = (folder.file(""), folder.file("out"));
    let words = ["experiment", "publish", "--figure", "3", "--minutes", "0.05", "--json", "--dir", &dir, "--out", &out];
    let printed = thorp(words).ok();
    let rows: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (model, messages) in [("PC", 1.0), ("AFS", 3.0), ("SC", 4.0)] {
        let case = format!("{model}: messages for an update and server");
        let row = rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}: {printed}"));
        assert!(row["met"] == true && row["paper"] == messages, "{row}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("out/publish.jsonl")).unwrap(), printed);
    let figure = thorp(["experiment", "publish", "--figure", "7"]).error();
    assert!(figure.contains("figures 3 to 6"), "{figure}");
    let other = thorp(["experiment", "buddycache", "--processes"]).error();
    assert!(other.contains("Publish"), "{other}");
}

#[test]
fn whoever_waits_for_an_experiment_hears_how_long_it_takes() {
    let line = spawn(&["experiment", "coopreplica", "--reliability", "--cycles", "500"]).hear_error("").unwrap();
    assert!(line.contains(" % done, about ") && line.ends_with(" left)\n"), "{line}");
}

#[test]
fn a_figure_that_the_paper_does_not_have() {
    let ran = thorp(["experiment", "buddycache", "--figure", "13"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("2..=12"), "{}", ran.stderr);
}
