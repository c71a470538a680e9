//! A mounted site whose changes are private until they are published together.

use crate::followed_sites::Farm;
use crate::mounts::{Mount, compare, names};
use crate::program::thorp;
use crate::written_mounts::{
    exercises_files, makes_empty_files, passes_the_tests_of_posix, unpacks_an_archive, written_with,
};
use fixtures::mounts::has_fuse;
use fixtures::until;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

fn private() -> (Farm, Mount) {
    written_with("one", &["--private"])
}

/// Publishes what is private at a path of a mount, with more arguments.
fn publish(path: &Path, more: &[&str]) -> String {
    thorp([&["publish", "--path", path.to_str().unwrap()], more].concat()).ok()
}

fn publish_all(_: &Farm, mount: &Mount) {
    publish(&mount.at, &[]);
    assert_eq!(mount.status()["private_changes"], 0);
}

/// The newest revision of the site.
fn newest(farm: &Farm) -> String {
    farm.run(&["site", "log", "shop"]).ok().split(' ').next().unwrap().to_owned()
}

#[test]
fn changes_are_private_until_they_are_published_together() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = private();
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    fs::create_dir_all(one.path("made/deep")).unwrap();
    fs::write(one.path("made/deep/new"), vec![7; 3_000_000]).unwrap();
    fs::write(one.path("made/small"), "small").unwrap();
    fs::write(one.path("a"), "changed").unwrap();
    fs::rename(one.path("dir"), one.path("moved")).unwrap();
    fs::hard_link(one.path("moved/b"), one.path("again")).unwrap();
    fs::set_permissions(one.path("moved"), Permissions::from_mode(0o700)).unwrap();
    // Programs of this host see all of it, and others nothing.
    assert_eq!((one.text("a"), one.text("again"), names(&one.at).len()), ("changed".into(), "two".into(), 4));
    assert_eq!(fs::metadata(one.path("moved/b")).unwrap().nlink(), 2);
    assert_eq!(
        (newest(&farm), names(&other.at), other.text("a")),
        ("1".into(), vec!["a".into(), "dir".into()], "one".into())
    );
    assert_eq!((one.status()["revision"].clone(), one.status()["private_changes"].clone()), (1.into(), 10.into()));
    // A list of what is private.
    let listed = publish(&one.at, &["--dry-run"]);
    let expected = [
        "~ a",
        "+ again",
        "- dir",
        "- dir/b",
        "+ made",
        "+ made/deep",
        "+ made/deep/new",
        "+ made/small",
        "+ moved",
        "+ moved/b",
    ];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    assert_eq!(newest(&farm), "1");
    // A part of it, with the directories above.
    let said = publish(&one.path("made/deep"), &["--note", "a part", "--wait"]);
    assert_eq!(said.trim(), "shop@2: 3 private changes published");
    until("the part is seen", || names(&other.at) == ["a", "dir", "made"] && names(&other.path("made")) == ["deep"]);
    assert!(fs::read(other.path("made/deep/new")).unwrap() == vec![7; 3_000_000]);
    assert!(farm.run(&["site", "log", "shop"]).ok().contains("a part"));
    // The rest is one revision, whatever it is.
    assert!(publish(&one.at, &[]).starts_with("shop@3: "));
    until("all is seen", || other.status()["revision"] == 3);
    compare(&one.at, &other.at);
    assert_eq!((one.status()["private_changes"].clone(), one.status()["revision"].clone()), (0.into(), 3.into()));
    assert!(publish(&one.at, &[]).contains("nothing has changed"));
    // A directory that was removed has a path, too.
    fs::remove_dir_all(one.path("made/deep")).unwrap();
    assert!(publish(&one.path("made/deep"), &[]).starts_with("shop@4: 2 "));
    until("it is gone", || names(&other.path("made")) == ["small"]);
}

#[test]
fn the_site_goes_on_below_private_changes_and_conflicts_wait_for_a_decision() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = private();
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    fs::write(one.path("a"), "private").unwrap();
    fs::write(one.path("dir/mine"), "mine").unwrap();
    fs::rename(one.path("dir/b"), one.path("dir/renamed")).unwrap();
    let mut open = File::open(one.path("dir/renamed")).unwrap();
    // Another host changes other paths, and the same.
    fs::write(other.path("dir/theirs"), "theirs").unwrap();
    until("its file is here", || one.path("dir/theirs").exists());
    assert_eq!(one.status()["conflicts"], serde_json::json!([]));
    fs::write(other.path("dir/b"), "changed").unwrap();
    fs::write(other.path("a"), "by the other").unwrap();
    until("the conflicts are known", || one.status()["conflicts"] == serde_json::json!(["a", "dir/b"]));
    // The private ones are shown here. The content of the renamed file has gone from the site, and is here.
    assert_eq!(
        (one.text("a"), one.text("dir/renamed"), one.path("dir/b").exists()),
        ("private".into(), "two".into(), false)
    );
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "two");
    let before = newest(&farm);
    let refused = thorp(["publish", "--path", one.at.to_str().unwrap()]).error();
    assert!(refused.contains("a, dir/b") && refused.contains("--overwrite"), "{refused}");
    assert_eq!(newest(&farm), before);
    // Paths without a conflict are published beside them.
    publish(&one.path("dir/mine"), &[]);
    // One decision, and the other.
    publish(&one.path("dir"), &["--overwrite"]);
    until("it is seen", || names(&other.path("dir")) == ["mine", "renamed", "theirs"]);
    assert_eq!(publish(&one.path("a"), &["--discard"]).trim(), "shop: 1 private changes dropped");
    until("the site's file is here again", || one.text("a") == "by the other");
    assert_eq!(one.status()["private_changes"], 0);
    compare(&one.at, &other.at);
}

#[test]
fn changes_that_would_hide_those_of_others_are_in_conflict() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = private();
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    // A file in place of a directory in which the site has another file by now.
    fs::remove_dir_all(one.path("dir")).unwrap();
    fs::write(one.path("dir"), "a file").unwrap();
    let kept = File::open(other.path("dir")).unwrap();
    let modified = kept.metadata().unwrap().modified().unwrap();
    fs::write(other.path("dir/theirs"), "theirs").unwrap();
    kept.set_modified(modified).unwrap();
    // Another name for a file of which the site has changed a name by now.
    fs::hard_link(other.path("a"), other.path("a2")).unwrap();
    until("both names are here", || one.path("a2").exists());
    fs::hard_link(one.path("a2"), one.path("mine")).unwrap();
    fs::write(other.path("a"), "changed").unwrap();
    until("the conflicts are known", || one.status()["conflicts"] == serde_json::json!(["dir", "mine"]));
    assert!(thorp(["publish", "--path", one.at.to_str().unwrap()]).error().contains("dir, mine"));
    publish(&one.at, &["--discard"]);
    compare(&one.at, &other.at);
    let dir = farm.place.file("store");
    let words = ["mount", "shop", one.at.to_str().unwrap(), "--dir", &dir, "--write", "--private"];
    assert!(thorp(words).stderr.contains("cannot be used with"));
}

#[test]
fn a_kill_loses_no_private_change() {
    if !has_fuse() {
        return;
    }
    let (mut farm, mut one) = private();
    let other = Mount::new(&farm, farm.address, "other", &["--write"]);
    for file in 0..50 {
        fs::create_dir_all(one.path(&format!("made/{file}"))).unwrap();
        fs::write(one.path(&format!("made/{file}/text")), vec![file; 2000]).unwrap();
    }
    fs::rename(one.path("dir/b"), one.path("made/b")).unwrap();
    fs::remove_dir(one.path("dir")).unwrap();
    let mut unfinished = OpenOptions::new().append(true).open(one.path("a")).unwrap();
    unfinished.write_all(b", unfinished").unwrap();
    one.kill();
    drop(unfinished);
    // Others publish more revisions than are kept.
    for revision in 0..12 {
        fs::write(other.path("counted"), revision.to_string()).unwrap();
    }
    one.start_again();
    until("it has the site's newest", || one.path("counted").exists() && one.text("counted") == "11");
    assert_eq!(
        (names(&one.at), names(&one.path("made")).len()),
        (vec!["a".into(), "counted".into(), "made".into()], 51)
    );
    assert_eq!((one.text("made/b"), one.text("a")), ("two".into(), "one".into()));
    (0..50).for_each(|file| assert_eq!(fs::read(one.path(&format!("made/{file}/text"))).unwrap(), vec![file; 2000]));
    // A store that is away keeps no program from working.
    farm.store.as_ref().unwrap().signal(Signal::STOP).unwrap();
    fs::write(one.path("made/b"), "without the store").unwrap();
    assert_eq!(one.text("made/b"), "without the store");
    farm.store.as_ref().unwrap().signal(Signal::CONT).unwrap();
    // Without --private, they would be out of sight.
    let cache = farm.place.file("one-cache");
    let at = one.at.to_str().unwrap().to_owned();
    drop(one);
    let refused = farm.run(&["mount", "shop", &at, "--cache", &cache, "--write"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("--private"), "{refused:?}");
    // They are here without the store, too, which is needed for a publish.
    farm.store.as_mut().unwrap().kill().unwrap();
    let one = Mount::new(&farm, farm.address, "one", &["--write", "--private"]);
    assert_eq!(one.text("made/b"), "without the store");
    farm.start_store();
    publish(&one.at, &[]);
    until("all is seen", || other.path("made/b").exists());
    compare(&one.at, &other.at);
}

#[test]
fn a_path_outside_of_private_mounts_is_refused() {
    if !has_fuse() {
        return;
    }
    let (farm, one) = written_with("one", &[]);
    for path in [&one.at, farm.place.path()] {
        let refused = thorp(["publish", "--path", path.to_str().unwrap()]).error();
        assert!(refused.contains("no mount with private changes"), "{refused}");
    }
}

#[test]
fn a_private_mount_passes_the_tests_of_posix() {
    passes_the_tests_of_posix(&["--private"]);
}

#[test]
fn a_file_of_a_private_mount_is_exercised() {
    exercises_files(&["--private"], publish_all);
}

#[test]
fn an_archive_is_unpacked_in_a_private_mount() {
    unpacks_an_archive(&["--private"], publish_all);
}

#[test]
fn a_new_private_file_without_content_takes_attributes_and_is_never_missing() {
    makes_empty_files(&["--private"], publish_all);
}
