//! Publishers of one site who do not wait for each other: the changes of different files all get in, those of the same
//! file are refused with its path, at a server and in a store's directory.

use crate::program::{Ran, start, thorp};
use fixtures::{Process, SiteFolder, until};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// A site with three files in its first revision, and publishers' copies of it.
struct Shared {
    place: SiteFolder,
    /// None for a store in a directory.
    store: Option<Process>,
}

impl Shared {
    fn new(is_served: bool) -> Self {
        let place = SiteFolder::new();
        let dir = place.file("store");
        let serve = ["serve", "--dir", &dir, "--listen", "127.0.0.1:0", "--site-lease-ms", "500"];
        let store = is_served.then(|| start(&serve));
        let shared = Self { place, store };
        for (name, content) in [("a", "1"), ("d/b", "1"), ("d/c", "1")] {
            shared.place.write(name, content);
        }
        assert!(
            shared.run(&["publish", &shared.place.file("www"), "shop"]).ok().starts_with("shop@1: 3 files, 3 bytes")
        );
        shared
    }

    fn both() -> [Self; 2] {
        [false, true].map(Self::new)
    }

    fn run(&self, words: &[&str]) -> Ran {
        match &self.store {
            Some(store) => thorp([words, &["--server", &store.address().to_string()]].concat()),
            None => thorp([words, &["--dir", &self.place.file("store")]].concat()),
        }
    }

    /// Gets a revision into a new directory.
    fn get(&self, revision: &str, into: &str) {
        self.run(&["site", "get", revision, &self.place.file(into)]).ok();
    }

    fn path(&self, copy: &str, file: &str) -> PathBuf {
        self.place.path().join(copy).join(file)
    }

    fn write(&self, copy: &str, file: &str, content: &str) {
        fs::write(self.path(copy, file), content).unwrap();
    }

    fn publish(&self, copy: &str, more: &[&str]) -> Ran {
        self.run(&[&["publish", &self.place.file(copy), "shop"], more].concat())
    }

    fn cat(&self, file: &str) -> String {
        self.run(&["site", "cat", &format!("shop/{file}")]).ok()
    }
}

/// The differences without that of the directory: whether its times differ depends on how finely they are kept.
fn but_for_times(differences: &str) -> Vec<&str> {
    differences.lines().filter(|line| *line != "~ d").collect()
}

fn json(ran: Ran) -> Value {
    serde_json::from_str(&ran.ok()).unwrap()
}

#[test]
fn two_publishers_of_different_files_both_get_in() {
    for shared in Shared::both() {
        shared.get("shop@1", "left");
        shared.get("shop@1", "right");
        // Both change one directory: its time is another one on either side.
        shared.write("left", "a", "left");
        shared.write("left", "d/new", "left");
        shared.write("right", "d/c", "right");
        fs::remove_file(shared.path("right", "d/b")).unwrap();
        assert!(shared.publish("left", &["--base", "1", "--merge"]).ok().starts_with("shop@2: 4 files, 10 bytes; "));
        let refused = shared.publish("right", &["--base", "1"]).error();
        assert!(refused.contains("made from revision 1, and 2 is the newest"), "{refused}");
        let dry = shared.publish("right", &["--base", "1", "--merge", "--dry-run"]).ok();
        assert_eq!(but_for_times(&dry), ["- d/b", "~ d/c"], "against the newest revision");
        let told = json(shared.publish("right", &["--base", "1", "--merge", "--note", "right", "--json"]));
        assert_eq!((&told["revision"], &told["merged_with"], &told["is_new"]), (&3.into(), &2.into(), &true.into()));
        let merged = ["a", "d/c", "d/new"].map(|file| shared.cat(file));
        assert_eq!(merged, ["left", "right", "left"]);
        assert!(shared.run(&["site", "cat", "shop/d/b"]).error().contains("is not in this revision"));
        // The record has the size, the root and the note of the merged revision.
        let log = shared.run(&["site", "log", "shop", "--json"]).ok();
        let newest: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        assert_eq!((&newest["files"], &newest["bytes"], &newest["note"]), (&3.into(), &13.into(), &"right".into()));
        assert_eq!((&newest["root"], &told["files"], &told["bytes"]), (&told["root"], &3.into(), &13.into()));
        assert!(shared.run(&["site", "verify", "shop"]).ok().ends_with("chunks are whole\n"));

        // Published again, it changes nothing.
        assert_eq!(shared.publish("right", &["--base", "1", "--merge"]).ok(), "shop@3: nothing has changed\n");
        // The directory is not the merged revision, and a publish from that one would undo what the other has changed.
        let undone = shared.publish("right", &["--dry-run"]).ok();
        assert_eq!(but_for_times(&undone), ["~ a", "- d/new"]);
        shared.get("shop", "again");
        assert_eq!(shared.publish("again", &["--dry-run"]).ok(), "");
        assert_eq!(shared.publish("again", &["--merge"]).ok(), "shop@3: nothing has changed\n");
    }
}

#[test]
fn the_second_of_two_publishers_of_one_file_is_refused_with_its_path() {
    for shared in Shared::both() {
        for (copy, content) in [("left", "left"), ("right", "right")] {
            shared.get("shop@1", copy);
            shared.write(copy, "d/c", content);
        }
        shared.write("right", "a", "right");
        shared.publish("left", &["--base", "1", "--merge"]).ok();
        let refused = shared.publish("right", &["--base", "1", "--merge"]).error();
        let expected = "revision 2 of 'shop' has changed paths that this publish changes too, since revision 1: d/c. ";
        assert!(refused.starts_with(expected), "{refused}");
        let dry = shared.publish("right", &["--base", "1", "--merge", "--dry-run"]);
        assert_eq!((dry.code, dry.stdout.as_str()), (Some(1), "! d/c\n"), "{}", dry.stderr);
        assert_eq!([shared.cat("d/c"), shared.cat("a")], ["left", "1"], "nothing was published");

        // Resolved by hand: the file as the other has it, or both, published from the newest revision.
        shared.write("right", "d/c", "left");
        let line = shared.publish("right", &["--base", "1", "--merge"]).ok();
        assert!(line.starts_with("shop@3: "), "{line}");
        assert_eq!([shared.cat("d/c"), shared.cat("a")], ["left", "right"]);

        // The base must be kept.
        shared.run(&["site", "set", "shop", "--keep", "1"]).ok();
        shared.write("right", "a", "more");
        shared.publish("right", &[]).ok();
        // A store that has just started keeps it for a lease.
        until("revision 2 is dropped", || shared.run(&["site", "log", "shop"]).ok().lines().count() == 1);
        let refused = shared.publish("left", &["--base", "2", "--merge"]).error();
        assert!(
            refused.starts_with("revision 2 of 'shop', from which this publish was made, is not kept"),
            "{refused}"
        );
    }
}

/// Publishers at one time, each with files of its own: whoever comes first, all changes are in the end in one revision.
#[test]
fn publishers_at_one_time_all_get_in() {
    const PUBLISHERS: usize = 6;
    let shared = Shared::new(true);
    for at in 0..PUBLISHERS {
        let copy = format!("copy-{at}");
        shared.get("shop@1", &copy);
        shared.write(&copy, &format!("d/{at}"), "new");
    }
    let lines: Vec<Value> = std::thread::scope(|scope| {
        let shared = &shared;
        let publish = |at: usize| {
            move || json(shared.publish(&format!("copy-{at}"), &["--base", "1", "--merge", "--wait", "--json"]))
        };
        let publishers: Vec<_> = (0..PUBLISHERS).map(|at| scope.spawn(publish(at))).collect();
        publishers.into_iter().map(|publisher| publisher.join().unwrap()).collect()
    });
    let mut numbers: Vec<u64> = lines.iter().map(|line| line["revision"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (2..2 + PUBLISHERS as u64).collect::<Vec<_>>(), "each has a revision of its own: {lines:?}");
    for line in lines.iter().filter(|line| line["revision"] != 2) {
        assert_eq!(line["merged_with"].as_u64(), line["revision"].as_u64().map(|number| number - 1), "{line}");
    }
    let files = shared.run(&["site", "ls", "shop/d"]).ok();
    assert_eq!(files.lines().count(), 2 + PUBLISHERS, "{files}");
}
