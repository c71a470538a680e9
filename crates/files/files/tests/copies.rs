//! Sites copied from directory to directory, and damaged stores looked over and salvaged, on a real disk.

use files::{
    Consistency, Copied, FilesError, Publish, Revision, Rollback, SiteCopy, SiteFinding, SiteName, SiteSettings, Sites,
    check_sites, salvage_sites,
};
use fixtures::{SiteFolder, chunk_of, flip};
use objects::Db;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow::{Break, Continue};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn open(dir: &Path) -> Sites {
    Sites::open(Db::open(dir).unwrap(), dir).unwrap()
}

fn shop() -> SiteName {
    SiteName::parse("shop").unwrap()
}

/// Publishes a text and more files.
fn publish(place: &SiteFolder, sites: &Sites, text: &str) -> Revision {
    place.write("index.html", text);
    let note = format!("with {text}");
    sites
        .publish(&shop(), &place.www(), &Publish { note, ..Publish::default() }, &mut |_| Continue(()))
        .unwrap()
        .revision
}

/// Bytes of a large chunk.
fn large(seed: u8) -> Vec<u8> {
    (0..200_000_u32).map(|at| (at % 251) as u8 ^ seed).collect()
}

fn settings() -> SiteCopy {
    SiteCopy { name: shop(), revision: None, repair: false }
}

fn copy(from: &Sites, to: &Sites) -> Result<Copied, FilesError> {
    from.copy(&shop(), to, &settings(), &mut |_| Continue(()))
}

fn numbers(sites: &Sites) -> Vec<u64> {
    sites.log(&shop()).unwrap().iter().map(|revision| revision.number).collect()
}

fn is_whole(sites: &Sites) -> bool {
    let mut damaged = 0;
    sites.verify(&shop(), &mut |_| damaged += 1).unwrap();
    damaged == 0
}

#[test]
fn a_copy_in_a_directory_is_what_its_source_is() {
    let place = SiteFolder::new();
    let (store, backup) = (open(&place.store()), open(&place.path().join("backup")));
    let consistency = Some(Consistency::Callback);
    store.create(&shop(), SiteSettings { keep: Some(5), consistency, ..SiteSettings::default() }).unwrap();
    place.write("a/large", large(1));
    for text in ["one", "two", "three"] {
        publish(&place, &store, text);
    }
    store.rollback(&shop(), 1, &Rollback::default()).unwrap();
    let copied = copy(&store, &backup).unwrap();
    assert_eq!((copied.revisions, copied.head, copied.gone), (4, Some(4), 0));
    assert_eq!(
        backup.log(&shop()).unwrap(),
        store.log(&shop()).unwrap(),
        "numbers, times, notes, and what 4 brings back"
    );
    let settings = backup.settings(&shop()).unwrap();
    assert_eq!((settings.keep, settings.consistency), (5, Consistency::Callback));
    assert!(is_whole(&backup));

    // Nothing is copied twice, and no directory that both have is looked into.
    let again = copy(&store, &backup).unwrap();
    assert_eq!((again.revisions, again.head, again.chunks), (0, Some(4), 0));
    publish(&place, &store, "five");
    let more = copy(&store, &backup).unwrap();
    assert_eq!((more.revisions, more.head, more.chunks), (1, Some(5), 1), "the topmost directory");

    // The source has dropped the newest one of the copy, and others that the copy never had.
    store.set(&shop(), SiteSettings { keep: Some(2), ..SiteSettings::default() }).unwrap();
    for text in ["six", "seven", "eight", "nine"] {
        publish(&place, &store, text);
    }
    assert_eq!(copy(&store, &backup).unwrap().revisions, 2);
    assert_eq!(numbers(&backup), [9, 8, 5, 4, 3], "the copy keeps five, whatever their numbers");
    assert!(is_whole(&backup));
    // And it is a source itself.
    let restored = open(&place.path().join("restored"));
    assert_eq!(copy(&backup, &restored).unwrap().revisions, 5);
    assert_eq!(restored.log(&shop()).unwrap(), backup.log(&shop()).unwrap());
}

#[test]
fn a_copy_of_one_revision_and_under_another_name() {
    let place = SiteFolder::new();
    let (store, other) = (open(&place.store()), open(&place.path().join("other")));
    for text in ["one", "two", "three"] {
        publish(&place, &store, text);
    }
    let name = SiteName::parse("window").unwrap();
    let one = |number| {
        let settings = SiteCopy { name: name.clone(), revision: Some(number), repair: false };
        store.copy(&shop(), &other, &settings, &mut |_| Continue(()))
    };
    assert_eq!(one(2).unwrap().head, Some(2));
    assert_eq!(other.log(&name).unwrap()[0].root(), store.revision(&shop(), 2).unwrap().root());
    assert_eq!(one(2).unwrap().revisions, 0);
    assert!(matches!(one(1), Err(FilesError::Diverged { head: 2, newest: 1, .. })), "a copy never goes back");
    assert!(matches!(one(9), Err(FilesError::NoRevision(_, 9))));
    let nothing = SiteName::parse("none").unwrap();
    let none = store.copy(&nothing, &other, &SiteCopy { name: nothing.clone(), ..settings() }, &mut |_| Continue(()));
    assert!(matches!(none, Err(FilesError::NoSite(_))));
    assert_eq!(other.list().unwrap().len(), 1, "and none is created for it");
}

#[test]
fn a_site_of_its_own_is_never_overwritten() {
    let place = SiteFolder::new();
    let (store, other) = (open(&place.store()), open(&place.path().join("other")));
    publish(&place, &store, "one");
    copy(&store, &other).unwrap();
    // Both go on by themselves: the same number with another tree, and then a higher one.
    publish(&place, &other, "another two");
    assert!(matches!(copy(&store, &other), Err(FilesError::Diverged { head: 2, newest: 1, .. })));
    publish(&place, &store, "two");
    assert!(matches!(copy(&store, &other), Err(FilesError::Diverged { head: 2, newest: 2, .. })));
    publish(&place, &store, "three");
    let refused = copy(&store, &other).unwrap_err();
    assert_eq!(refused.name(), "diverged");
    assert!(refused.to_string().starts_with("'shop' has revision 2 there, which is not an older copy"), "{refused}");
    assert_eq!(numbers(&other), [2, 1]);
}

#[test]
fn a_copy_that_is_interrupted_has_whole_revisions_and_is_continued() {
    let place = SiteFolder::new();
    let (store, backup) = (open(&place.store()), open(&place.path().join("backup")));
    for seed in 0..3 {
        place.write(&format!("large{seed}"), large(seed));
        publish(&place, &store, "text");
    }
    let total = copy(&store, &open(&place.path().join("whole"))).unwrap().chunks;
    let (mut all, mut rounds) = (0, 0);
    loop {
        let mut here = 0;
        let copied = store.copy(&shop(), &backup, &settings(), &mut |copied| {
            here = copied.chunks;
            if copied.chunks == 2 { Break(()) } else { Continue(()) }
        });
        (all, rounds) = (all + here, rounds + 1);
        assert!(numbers(&backup).is_empty() || is_whole(&backup));
        match copied {
            Ok(_) => break,
            Err(error) => assert_eq!(error.name(), "interrupted"),
        }
    }
    assert!(rounds > 1);
    assert_eq!(numbers(&backup), [3, 2, 1]);
    assert!(all <= total + rounds * 2, "{all} chunks in {rounds} rounds, of {total}");
}

#[test]
fn damage_in_the_source_ends_a_copy_and_is_repaired_from_another() {
    let place = SiteFolder::new();
    let (store, backup) = (open(&place.store()), open(&place.path().join("backup")));
    publish(&place, &store, "one");
    place.write("img/logo", large(1));
    publish(&place, &store, "two");
    let whole = open(&place.path().join("whole"));
    copy(&store, &whole).unwrap();
    let chunk = chunk_of(&place.store(), &large(1));
    for gone in [false, true] {
        if gone {
            fs::remove_file(&chunk).unwrap();
        } else {
            flip(&chunk);
        }
        let Err(FilesError::NotWhole { revision, path, .. }) = copy(&store, &backup) else { panic!() };
        assert_eq!((revision, path.as_str()), (2, "img/logo"));
        assert_eq!(numbers(&backup), [1], "what was copied before stays");
        assert!(is_whole(&backup));
    }
    // Both stores have the same revisions, so only a repair looks at them.
    let repair = SiteCopy { repair: true, ..settings() };
    assert_eq!(whole.copy(&shop(), &store, &repair, &mut |_| Continue(())).unwrap().revisions, 0);
    assert!(is_whole(&store));
    assert_eq!(copy(&store, &backup).unwrap().revisions, 1);
}

/// Everything in a directory: length, time of the last change and content of each file.
fn look(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let (mut all, mut left) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path.clone());
            }
            let content = if path.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            all.insert(path.clone(), (path.metadata().unwrap().modified().unwrap(), content));
        }
    }
    all
}

/// The findings of a doctor, who must not change the store.
fn findings(dir: &Path) -> Vec<SiteFinding> {
    let before = look(dir);
    let db = Db::builder().read_only(true).open(dir).unwrap();
    let report = check_sites(&db, dir).unwrap();
    db.close().unwrap();
    assert!(look(dir) == before, "the store is as it was");
    report.findings
}

/// A store with three revisions, of which the second and third have a file of one chunk, and the third another one.
fn with_three_revisions(place: &SiteFolder) {
    let store = open(&place.store());
    publish(place, &store, "one");
    place.write("img/logo", large(1));
    publish(place, &store, "two");
    place.write("img/more", large(2));
    publish(place, &store, "three");
}

#[test]
fn a_doctor_finds_damaged_and_missing_chunks_and_changes_nothing() {
    let place = SiteFolder::new();
    let dir = place.store();
    with_three_revisions(&place);
    assert!(findings(&dir).is_empty());
    let db = Db::builder().read_only(true).open(&dir).unwrap();
    let report = check_sites(&db, &dir).unwrap();
    assert_eq!((report.sites, report.revisions), (1, 3));
    assert!(report.chunks >= 5 && report.bytes > 400_000, "{report:?}");
    db.close().unwrap();
    flip(&chunk_of(&dir, &large(1)));
    fs::remove_file(chunk_of(&dir, &large(2))).unwrap();
    let found: Vec<String> = findings(&dir).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("space main, shop@3: img/logo: chunk "), "{found:?}");
    assert!(found[1].starts_with("space main, shop@3: img/more: chunk "), "{found:?}");
}

#[test]
fn a_doctor_finds_a_damaged_table_of_chunks() {
    let place = SiteFolder::new();
    let (dir, table) = (place.store(), place.store().join("chunks/small.redb"));
    with_three_revisions(&place);
    let whole = fs::read(&table).unwrap();
    let mut cut = whole.clone();
    cut.truncate(whole.len() / 2);
    let mut scribbled = whole.clone();
    scribbled[..64].fill(0xa5);
    for damaged in [cut, scribbled, Vec::new()] {
        fs::write(&table, &damaged).unwrap();
        let found = findings(&dir);
        assert!(matches!(&found[..], [SiteFinding::Chunks(_)]), "{found:?}");
        assert!(found[0].advice().contains("thorp site copy --all"));
    }
    fs::remove_file(&table).unwrap();
    assert!(matches!(&findings(&dir)[..], [SiteFinding::Chunks(_)]));
    fs::remove_dir_all(dir.join("chunks")).unwrap();
    assert!(matches!(&findings(&dir)[..], [SiteFinding::Chunks(_)]));
}

#[test]
fn every_bit_of_a_table_that_flips_is_found_or_does_not_matter() {
    let place = SiteFolder::new();
    let (dir, table) = (place.store(), place.store().join("chunks/small.redb"));
    with_three_revisions(&place);
    let whole = fs::read(&table).unwrap();
    let db = Db::builder().read_only(true).open(&dir).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 31) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&table, &damaged).unwrap();
        check_sites(&db, &dir).unwrap();
        assert!(fs::read(&table).unwrap() == damaged);
    }
}

#[test]
fn what_is_whole_of_a_damaged_store_is_salvaged() {
    let place = SiteFolder::new();
    let dir = place.store();
    with_three_revisions(&place);
    flip(&chunk_of(&dir, &large(2)));
    let new = place.path().join("new");
    let before = look(&dir);
    disk_salvage(&dir, &new);
    let db = Db::open(&new).unwrap();
    let salvaged = salvage_sites(&db, &dir, &new).unwrap();
    assert!(look(&dir) == before, "the damaged store is as it was");
    assert_eq!((salvaged.sites, salvaged.revisions), (1, 2));
    assert_eq!(salvaged.lost, [("main".to_owned(), "shop".to_owned(), 3)]);
    let found: Vec<String> = salvaged.findings.iter().map(ToString::to_string).collect();
    assert!(matches!(&found[..], [one] if one.starts_with("space main, shop@3: img/more: chunk ")), "{found:?}");
    db.close().unwrap();
    let sites = open(&new);
    assert_eq!(numbers(&sites), [2, 1]);
    assert!(is_whole(&sites));
    let next = publish(&place, &sites, "four");
    assert_eq!(next.number, 3, "the site goes on");

    // Without its table, no revision is left; the sites stay with their settings.
    fs::write(dir.join("chunks/small.redb"), "").unwrap();
    let bare = place.path().join("bare");
    disk_salvage(&dir, &bare);
    let db = Db::open(&bare).unwrap();
    let salvaged = salvage_sites(&db, &dir, &bare).unwrap();
    assert_eq!((salvaged.sites, salvaged.revisions, salvaged.lost.len()), (1, 0, 3));
    assert!(matches!(&salvaged.findings[..], [SiteFinding::Chunks(_)]), "{:?}", salvaged.findings);
    db.close().unwrap();
    let sites = open(&bare);
    assert_eq!(sites.head(&shop()).unwrap(), None);
    assert_eq!(publish(&place, &sites, "again").number, 1);
}

/// Copies the pages and records of a store, as a salvage does before that of its sites.
fn disk_salvage(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|it| it.path().is_file()) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
