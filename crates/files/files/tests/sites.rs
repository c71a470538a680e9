//! Directories published, read, rolled back, exported and collected, on a real disk.

use files::{Change, Damage, FilesError, Part, Publish, Published, Rollback, SiteName, SiteSettings, Sites, export};
use fixtures::{SiteFolder, chunk_files, flip, until};
use objects::Db;
use rustix::fs::{CWD, RenameFlags, XattrFlags, lgetxattr, llistxattr, renameat_with, setxattr};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::ops::ControlFlow::{Break, Continue};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};

/// Opens the store beside a directory to publish.
fn open(place: &SiteFolder) -> Sites {
    Sites::open(Db::open(place.store()).unwrap(), &place.store()).unwrap()
}

/// Publishes a directory as `shop`.
fn publish(place: &SiteFolder, sites: &Sites) -> Published {
    sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| Continue(())).unwrap()
}

fn shop() -> SiteName {
    SiteName::parse("shop").unwrap()
}

fn keep(count: u32) -> SiteSettings {
    SiteSettings { keep: Some(count), ..SiteSettings::default() }
}

/// Bytes that no compression or repetition makes small.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn content(sites: &Sites, number: Option<u64>, path: &str) -> Vec<u8> {
    let view = sites.view(&shop(), number).unwrap();
    let entry = view.find(&files::Path::parse(path.as_bytes()).unwrap()).unwrap();
    let files::Kind::File { size, .. } = entry.kind else { panic!("{path} is a file") };
    let mut content = Vec::new();
    view.read(&entry, 0..size, &mut |bytes| {
        content.extend_from_slice(&bytes);
        Ok(())
    })
    .unwrap();
    content
}

/// Everything that a directory has, by path: kind, mode, time, inode's names and content.
fn look(dir: &Path) -> BTreeMap<PathBuf, (u32, i64, u64, Vec<u8>)> {
    let (mut all, mut left) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let names = if metadata.is_dir() { 0 } else { metadata.nlink() };
            let inside = path.strip_prefix(dir).unwrap().to_owned();
            all.insert(inside, (metadata.mode(), metadata.mtime(), names, content));
        }
    }
    all
}

#[test]
fn a_directory_comes_back_as_it_was() {
    let place = SiteFolder::new();
    place.write("index.html", "<p>");
    place.write("empty", "");
    place.write("img/logo.png", noise(700, 1));
    place.write("img/large.bin", noise(9 << 20, 2));
    place.write("bin/run", "#!/bin/sh\n");
    fs::create_dir(place.www().join("nothing")).unwrap();
    fs::set_permissions(place.www().join("bin/run"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(place.www().join("img/logo.png"), place.www().join("again.png")).unwrap();
    symlink("../index.html", place.www().join("img/home")).unwrap();
    let attributes = |dir: &Path| {
        let mut value = vec![0; 100];
        let length = lgetxattr(dir.join("bin/run"), "user.origin", &mut value[..])?;
        value.truncate(length);
        let mut names = vec![0; 100];
        let length = llistxattr(dir.join("bin/run"), &mut names[..])?;
        names.truncate(length);
        Ok::<_, Errno>((value, names))
    };
    // A file that is read before has more of them.
    let again = place.www().join("again.png");
    let _ = ["user.one", "user.another"].map(|name| setxattr(&again, name, &[7; 90], XattrFlags::CREATE));
    let is_supported = setxattr(place.www().join("bin/run"), "user.origin", b"build 7", XattrFlags::CREATE).is_ok();
    let sites = open(&place);
    let published = publish(&place, &sites);
    assert_eq!((published.revision.number, published.revision.files, published.is_new), (1, 7, true));
    let to = place.path().join("copy");
    let view = sites.view(&shop(), None).unwrap();
    let exported = export(&view, &files::Path::ROOT, &to, &mut |_| Continue(())).unwrap();
    assert_eq!(exported.files, 7);
    assert_eq!(look(&to), look(&place.www()));
    assert_eq!(attributes(&to), attributes(&place.www()));
    assert!(!is_supported || attributes(&to) == Ok((b"build 7".to_vec(), b"user.origin\0".to_vec())));
    assert!(matches!(export(&view, &files::Path::ROOT, &to, &mut |_| Continue(())), Err(FilesError::NotEmpty(_))));
}

#[test]
fn a_publish_writes_what_is_new_and_nothing_else() {
    let place = SiteFolder::new();
    let large = noise(12 << 20, 3);
    place.write("large.bin", &large);
    for number in 0..300 {
        place.write(&format!("pages/{number}.html"), format!("page {number}"));
    }
    let sites = open(&place);
    let first = publish(&place, &sites);
    assert!(first.bytes_written > 12 << 20, "{first:?}");
    let same = publish(&place, &sites);
    assert_eq!((same.is_new, same.revision.number, same.chunks_written), (false, 1, 0));
    // A fresh checkout has new times, which change nothing.
    for number in 0..300 {
        place.write(&format!("pages/{number}.html"), format!("page {number}"));
    }
    assert!(!publish(&place, &sites).is_new);
    // A byte in the middle changes a chunk or two.
    let mut changed = large.clone();
    changed.insert(6 << 20, 7);
    place.write("large.bin", &changed);
    let second = publish(&place, &sites);
    assert!(second.is_new && second.bytes_written < 9 << 20, "{second:?}");
    assert_eq!(content(&sites, None, "large.bin"), changed);
    assert_eq!(content(&sites, Some(1), "large.bin"), large);
    place.write("pages/7.html", "another");
    let third = publish(&place, &sites);
    assert!(third.chunks_written <= 3 && third.bytes_written < 64 << 10, "{third:?}");
    let mut changes = Vec::new();
    sites.diff(&shop(), 2, 3, &mut |path, change| changes.push((path.to_string(), change))).unwrap();
    assert!(matches!(&changes[..], [(path, Change::Changed(..))] if path == "pages/7.html"), "{changes:?}");
}

#[test]
fn sites_survive_their_process_and_roll_back() {
    let place = SiteFolder::new();
    for number in 1..=3 {
        place.write("index.html", format!("version {number}"));
        let sites = open(&place);
        assert_eq!(publish(&place, &sites).revision.number, number);
    }
    let sites = open(&place);
    let back = sites.rollback(&shop(), 1, &Rollback { note: "the colours".to_owned(), ..Rollback::default() }).unwrap();
    assert_eq!((back.number, back.of, back.note.as_str()), (4, Some(1), "the colours"));
    assert_eq!(content(&sites, None, "index.html"), b"version 1");
    assert_eq!(content(&sites, Some(3), "index.html"), b"version 3");
    assert!(matches!(sites.rollback(&shop(), 4, &Rollback::default()), Err(FilesError::IsHead(..))));
    assert!(matches!(sites.rollback(&shop(), 9, &Rollback::default()), Err(FilesError::NoRevision(_, 9))));
    let numbers: Vec<u64> = sites.log(&shop()).unwrap().iter().map(|revision| revision.number).collect();
    assert_eq!(numbers, [4, 3, 2, 1]);
}

/// Rule CompareBase: the second of two publishes from one base is refused, and changes nothing.
#[test]
fn a_publish_that_was_overtaken_is_refused() {
    let place = SiteFolder::new();
    place.write("index.html", "one");
    let sites = open(&place);
    publish(&place, &sites);
    place.write("index.html", "two");
    // Another publish comes while this one reads its files.
    let mut is_first = true;
    let overtaken = sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| {
        if std::mem::take(&mut is_first) {
            place.write("other.html", "three");
            let other = sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| Continue(()));
            assert_eq!(other.unwrap().revision.number, 2);
            fs::remove_file(place.www().join("other.html")).unwrap();
        }
        Continue(())
    });
    assert!(matches!(overtaken, Err(FilesError::Overtaken { base: 1, head: 2, .. })), "{overtaken:?}");
    assert_eq!(sites.head(&shop()).unwrap().unwrap().number, 2);
    let settings = Publish { base: Some(1), ..Publish::default() };
    let refused = sites.publish(&shop(), &place.www(), &settings, &mut |_| Continue(()));
    assert!(matches!(refused, Err(FilesError::Overtaken { base: 1, head: 2, .. })), "{refused:?}");
}

/// Publishes that come while a merging one reads its files, and between its merge and its switch.
#[test]
fn a_merge_waits_for_nobody() {
    let place = SiteFolder::new();
    (0..4).for_each(|number| place.write(&format!("{number}"), "one"));
    let sites = open(&place);
    publish(&place, &sites);
    let merge = |at: usize| {
        let copy = place.path().join(format!("copy-{at}"));
        export(&sites.view(&shop(), Some(1)).unwrap(), &files::Path::ROOT, &copy, &mut |_| Continue(())).unwrap();
        fs::write(copy.join(at.to_string()), format!("two of {at}")).unwrap();
        let settings = Publish { base: Some(1), merge: true, ..Publish::default() };
        sites.publish(&shop(), &copy, &settings, &mut |_| Continue(())).unwrap()
    };
    let published: Vec<Published> = thread::scope(|scope| {
        let merge = &merge;
        let threads: Vec<_> = (0..4).map(|at| scope.spawn(move || merge(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let numbers: BTreeSet<u64> = published.iter().map(|it| it.revision.number).collect();
    assert_eq!(numbers, BTreeSet::from([2, 3, 4, 5]));
    for it in &published {
        let before = it.revision.number - 1;
        assert_eq!((it.is_new, it.merged_with), (true, Some(before).filter(|before| *before > 1)), "{it:?}");
    }
    (0..4).for_each(|at| assert_eq!(content(&sites, None, &at.to_string()), format!("two of {at}").as_bytes()));
    let head = sites.head(&shop()).unwrap().unwrap();
    assert_eq!((head.files, head.bytes), (4, 4 * "two of 0".len() as u64));
}

/// A merged directory is no revision: an index that took it for one would not upload what others have replaced.
#[test]
fn the_index_of_a_merged_directory_names_no_revision() {
    let (place, other) = (SiteFolder::new(), SiteFolder::new());
    let sites = open(&place);
    for number in 0..3 {
        place.write(&number.to_string(), noise(1000, number));
        other.write(&number.to_string(), noise(1000, number));
    }
    let begun = SystemTime::now();
    until("the files are old", || begun.elapsed().is_ok_and(|elapsed| elapsed > Duration::from_secs(3)));
    publish(&place, &sites);
    // The index has these files as they are in revision 1.
    other.write("0", noise(1000, 10));
    publish(&other, &sites);
    sites.set(&shop(), keep(2)).unwrap();
    place.write("1", noise(1000, 11));
    let settings = Publish { base: Some(1), merge: true, ..Publish::default() };
    let merged = sites.publish(&shop(), &place.www(), &settings, &mut |_| Continue(())).unwrap();
    assert_eq!((merged.merged_with, merged.files_read), (Some(2), 1));
    assert_eq!(content(&sites, None, "0"), noise(1000, 10));
    assert_eq!(content(&sites, None, "1"), noise(1000, 11));

    // The merged revision is kept, and none that has the file 0 as the directory has it.
    sites.collect().unwrap();
    let published = publish(&place, &sites);
    assert!(published.is_new && published.files_read == 3, "{published:?}");
    assert_eq!(content(&sites, None, "0"), noise(1000, 0));
    assert_eq!(sites.verify(&shop(), &mut |damage| panic!("{damage}")).unwrap(), 6, "those of two revisions");
}

/// With a merge, times are compared with those of the base: a fresh copy of it changes nothing.
#[test]
fn a_fresh_copy_of_the_base_has_no_changes_to_merge() {
    let place = SiteFolder::new();
    place.write("a", "one");
    place.write("d/b", "one");
    let sites = open(&place);
    publish(&place, &sites);
    place.write("a", "two");
    publish(&place, &sites);
    // Copied without times.
    let copy = SiteFolder::new();
    copy.write("a", "one");
    copy.write("d/b", "one");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    for name in ["a", "d/b", "d"] {
        fs::File::open(copy.www().join(name)).unwrap().set_modified(old).unwrap();
    }
    let settings = Publish { base: Some(1), merge: true, ..Publish::default() };
    let published = sites.publish(&shop(), &copy.www(), &settings, &mut |_| Continue(())).unwrap();
    assert_eq!((published.revision.number, published.is_new, published.merged_with), (2, false, None));
    assert_eq!(content(&sites, None, "a"), b"two");
}

#[test]
fn an_interrupted_publish_changes_nothing_and_goes_on() {
    let place = SiteFolder::new();
    for number in 0..20 {
        place.write(&format!("{number}.bin"), noise(100_000, number));
    }
    let sites = open(&place);
    let mut left = 10;
    let ended = sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| {
        left -= 1;
        if left == 0 { Break(()) } else { Continue(()) }
    });
    assert!(matches!(ended, Err(FilesError::Interrupted)));
    assert!(matches!(sites.head(&shop()), Err(FilesError::NoSite(_))));
    // The last moment is behind the upload.
    let mut calls = 0;
    let ended = sites.publish(&shop(), &place.www(), &Publish::default(), &mut |progress| {
        calls += u32::from(progress.files == 20);
        if calls == 2 { Break(()) } else { Continue(()) }
    });
    assert!(matches!(ended, Err(FilesError::Interrupted)) && sites.head(&shop()).is_err());
    assert_eq!(publish(&place, &sites).revision.files, 20);
}

#[test]
fn what_a_site_cannot_hold_is_refused_by_name_or_left_out() {
    let place = SiteFolder::new();
    place.write("index.html", "one");
    place.write("deep/a/cache/x.tmp", "x");
    place.write("deep/keep.txt", "y");
    let fifo = place.www().join("deep/pipe");
    rustix::fs::mkfifoat(CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let sites = open(&place);
    let publish = |exclude: &[&str]| {
        let exclude = exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
        sites.publish(&shop(), &place.www(), &Publish { exclude, ..Publish::default() }, &mut |_| Continue(()))
    };
    let refused = publish(&[]).unwrap_err();
    assert!(matches!(&refused, FilesError::Special(path, "a FIFO") if *path == fifo), "{refused}");
    assert!(matches!(publish(&["[a"]).unwrap_err(), FilesError::Pattern(_)));
    publish(&["pipe", "*.tmp"]).unwrap();
    let names = |path: &str| {
        let view = sites.view(&shop(), None).unwrap();
        let list = view.list(&files::Path::parse(path.as_bytes()).unwrap()).unwrap();
        list.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(""), names("deep"), names("deep/a/cache")),
        (vec!["deep".into(), "index.html".into()], vec!["a".into(), "keep.txt".into()], Vec::<String>::new())
    );
    publish(&["deep/pipe", "/deep/a"]).unwrap();
    assert_eq!(names("deep"), ["keep.txt"]);
    for pattern in ["", "/", "**"] {
        assert!(matches!(publish(&[pattern]).unwrap_err(), FilesError::Pattern(_)), "'{pattern}' is everything");
    }
    // A slash makes a pattern one from the top.
    assert!(matches!(publish(&["/pipe"]).unwrap_err(), FilesError::Special(..)));
}

/// A file may have the bytes of a directory's node, as in a copy of a chunk folder. It needs nothing else, and the
/// directory does.
#[test]
fn a_file_with_the_bytes_of_a_node_hides_nothing_from_a_collection() {
    let place = SiteFolder::new();
    (0..90).for_each(|number| place.write(&format!("d/{number}"), noise(450, 100 + number)));
    place.write("d/big", noise(100_000, 5));
    let sites = open(&place);
    publish(&place, &sites);
    let entries = |dir: &Path| fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let folders = entries(&place.store().join("chunks")).into_iter().filter(|path| path.is_dir());
    let mut chunks = folders.flat_map(|folder| entries(&folder)).map(|file| fs::read(file).unwrap());
    let node = chunks.find(|bytes| bytes.starts_with(b"D\0")).unwrap();
    place.write("a.bin", node);
    publish(&place, &sites);
    sites.set(&shop(), keep(1)).unwrap();
    place.write("b", "b");
    publish(&place, &sites);
    sites.collect().unwrap();
    sites.verify(&shop(), &mut |damage| panic!("{damage}")).unwrap();
}

#[test]
fn collection_frees_what_no_revision_needs() {
    let place = SiteFolder::new();
    let sites = open(&place);
    sites.create(&shop(), keep(2)).unwrap();
    assert!(matches!(sites.create(&shop(), keep(2)), Err(FilesError::IsThere(_))));
    for number in 1..=5 {
        place.write("data.bin", noise(300_000, number));
        publish(&place, &sites);
    }
    assert_eq!(sites.log(&shop()).unwrap().len(), 2);
    let collected = sites.collect().unwrap();
    assert!(collected.bytes >= 3 * 300_000, "{collected:?}");
    assert_eq!(sites.collect().unwrap().chunks, 0);
    assert_eq!(content(&sites, Some(4), "data.bin"), noise(300_000, 4));
    assert_eq!(sites.verify(&shop(), &mut |damage| panic!("{damage}")).unwrap(), 4);
    sites.remove(&shop()).unwrap();
    assert!(sites.collect().unwrap().bytes >= 2 * 300_000);
    assert!(sites.list().unwrap().is_empty());
}

/// A folder that is as it was is taken over without a look at its nodes. Each change that a folder can have is noticed.
#[test]
fn folders_that_have_not_changed_are_taken_over() {
    let place = SiteFolder::new();
    let at = |path: &str| place.www().join(path);
    for folder in 0..FOLDER_CHANGES.len() {
        for file in ["a", "b", "sub/c", "sub/below/d"] {
            place.write(&format!("{folder}/{file}"), noise(500, folder as u64));
        }
        for link in ["link", "other", "sub/link"] {
            symlink("a", at(&format!("{folder}/{link}"))).unwrap();
        }
        fs::create_dir(at(&format!("{folder}/empty"))).unwrap();
    }
    let begun = SystemTime::now();
    until("the folders are old", || begun.elapsed().is_ok_and(|elapsed| elapsed > Duration::from_secs(3)));
    let sites = open(&place);
    publish(&place, &sites);
    assert!(!publish(&place, &sites).is_new, "nothing has changed");
    for (folder, (name, change)) in FOLDER_CHANGES.iter().enumerate() {
        change(&at(&folder.to_string()));
        publish(&place, &sites);
        // This looks at all files, and at all folders of the revision.
        let mut missed = Vec::new();
        let report = &mut |path: &files::Path, _| missed.push(path.clone());
        sites.compare(&shop(), &place.www(), &Publish::default(), &mut |_| Continue(()), report).unwrap();
        assert_eq!(missed, [], "{name}");
    }

    // Other links are left out, as many as before.
    let leaving = |pattern: &str| Publish { exclude: vec![pattern.to_owned()], ..Publish::default() };
    let publish = |settings| sites.publish(&shop(), &place.www(), &settings, &mut |_| Continue(())).unwrap();
    publish(leaving("0/link"));
    assert!(publish(leaving("0/other")).is_new);
    let has =
        |path: &str| sites.view(&shop(), None).unwrap().find(&files::Path::parse(path.as_bytes()).unwrap()).is_ok();
    assert!(has("0/link") && !has("0/other"));
}

/// A change of a folder, with its name.
type FolderChange = (&'static str, fn(&Path));

const FOLDER_CHANGES: [FolderChange; 17] = [
    ("nothing", |_| {}),
    ("other content of the same size and time", |folder| {
        let modified = fs::metadata(folder.join("a")).unwrap().modified().unwrap();
        fs::write(folder.join("a"), noise(500, 99)).unwrap();
        fs::File::options().write(true).open(folder.join("a")).unwrap().set_modified(modified).unwrap();
    }),
    ("a file more", |folder| fs::write(folder.join("new"), "new").unwrap()),
    ("a file less", |folder| fs::remove_file(folder.join("sub/below/d")).unwrap()),
    ("another name", |folder| fs::rename(folder.join("sub/c"), folder.join("sub/e")).unwrap()),
    ("one name instead of another", |folder| fs::rename(folder.join("a"), folder.join("b")).unwrap()),
    ("two names exchanged", |folder| {
        renameat_with(CWD, folder.join("a"), CWD, folder.join("sub/c"), RenameFlags::EXCHANGE).unwrap();
    }),
    ("another link", |folder| {
        fs::remove_file(folder.join("link")).unwrap();
        symlink("b", folder.join("link")).unwrap();
    }),
    ("the owner of a link, if this may be changed", |folder| {
        let _ = lchown(folder.join("sub/link"), Some(1), None);
    }),
    ("a file instead of a link", |folder| {
        fs::remove_file(folder.join("sub/link")).unwrap();
        fs::write(folder.join("sub/link"), "b").unwrap();
    }),
    ("a folder less", |folder| fs::remove_dir(folder.join("empty")).unwrap()),
    ("a folder more", |folder| fs::create_dir(folder.join("sub/below/empty")).unwrap()),
    ("a folder instead of a file", |folder| {
        fs::remove_file(folder.join("b")).unwrap();
        fs::create_dir(folder.join("b")).unwrap();
    }),
    ("the mode of a folder", |folder| {
        fs::set_permissions(folder.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    }),
    ("the mode of a file", |folder| {
        fs::set_permissions(folder.join("sub/c"), fs::Permissions::from_mode(0o600)).unwrap();
    }),
    ("an attribute of a folder", |folder| {
        setxattr(folder.join("sub/below"), "user.color", b"red", XattrFlags::empty()).unwrap();
    }),
    ("another name of a file", |folder| fs::hard_link(folder.join("a"), folder.join("sub/below/a")).unwrap()),
];

/// Unchanged files are not read, files as new as the index are, and an index never stands in for a chunk.
#[test]
fn files_that_have_not_changed_are_not_read() {
    let place = SiteFolder::new();
    for number in 0..20 {
        place.write(&format!("{}/{number}.bin", number % 3), noise(1000, number));
    }
    let sites = open(&place);
    let read = || publish(&place, &sites).files_read;
    assert_eq!((read(), read()), (20, 20), "files as new as the index are read");
    // Times of files have a grain, behind which they are old.
    let begun = SystemTime::now();
    until("the files are old", || begun.elapsed().is_ok_and(|elapsed| elapsed > Duration::from_secs(3)));
    assert_eq!((read(), read()), (20, 0));

    // The size and the time of the content stay.
    let changed = place.www().join("1/4.bin");
    let modified = fs::metadata(&changed).unwrap().modified().unwrap();
    fs::write(&changed, noise(1000, 99)).unwrap();
    fs::File::options().write(true).open(&changed).unwrap().set_modified(modified).unwrap();
    let published = publish(&place, &sites);
    assert_eq!((published.files_read, published.is_new), (1, true));
    assert_eq!(content(&sites, None, "1/4.bin"), noise(1000, 99));
    fs::remove_file(place.www().join("2/2.bin")).unwrap();
    fs::rename(place.www().join("0/0.bin"), place.www().join("0/new.bin")).unwrap();
    let published = publish(&place, &sites);
    assert!(published.is_new && published.files_read <= 2, "{published:?}");
    assert_eq!(content(&sites, None, "0/new.bin"), noise(1000, 0));

    // The revisions of the index are gone, and their chunks.
    sites.set(&shop(), keep(1)).unwrap();
    let other = SiteFolder::new();
    other.write("other", "other");
    publish(&other, &sites);
    sites.collect().unwrap();
    let again = publish(&place, &sites);
    assert_eq!((again.files_read, again.chunks_written > 19), (19, true), "{again:?}");
    assert!(sites.verify(&shop(), &mut |damage| panic!("{damage}")).unwrap() > 19);

    let index = fs::read_dir(place.path().join("store/indexes")).unwrap().map(|entry| entry.unwrap().path());
    for index in index {
        flip(&index);
    }
    assert_eq!(publish(&place, &sites).files_read, 19, "a damaged index is none");
}

#[test]
fn a_directory_without_files_replaces_none_by_accident() {
    let place = SiteFolder::new();
    let sites = open(&place);
    assert_eq!(publish(&place, &sites).revision.files, 0);
    place.write("index.html", "one");
    publish(&place, &sites);
    fs::remove_file(place.www().join("index.html")).unwrap();
    let publish = |allow_empty| {
        let settings = Publish { allow_empty, ..Publish::default() };
        sites.publish(&shop(), &place.www(), &settings, &mut |_| Continue(()))
    };
    assert!(matches!(publish(false), Err(FilesError::Empty(_))));
    assert_eq!(publish(true).unwrap().revision.files, 0);
}

#[test]
fn every_rollback_goes_further_back() {
    let place = SiteFolder::new();
    let sites = open(&place);
    let publish_text = |text: &str| {
        place.write("index.html", text);
        publish(&place, &sites).revision.number
    };
    let before = || sites.before_newest(&shop()).unwrap().map(|revision| revision.number);
    let roll_back = || sites.rollback(&shop(), before().unwrap(), &Rollback::default()).unwrap().of;
    assert_eq!(publish_text("one"), 1);
    assert_eq!(before(), None);
    publish_text("two");
    assert_eq!(publish_text("bad"), 3);
    assert_eq!(roll_back(), Some(2));
    assert_eq!(roll_back(), Some(1), "and not the bad one again");
    assert_eq!(before(), None);
    // Behind a new revision it begins again.
    assert_eq!(publish_text("bad, too"), 6);
    assert_eq!(roll_back(), Some(5));
    assert_eq!(before(), None, "5 was 1 again");
    // The revision that was brought back is no longer kept.
    sites.set(&shop(), keep(2)).unwrap();
    publish_text("eight");
    assert_eq!((before(), roll_back()), (Some(7), Some(7)));
    assert_eq!(before(), None);
}

#[test]
fn a_store_does_not_publish_itself() {
    let place = SiteFolder::new();
    place.write("index.html", "one");
    let sites = open(&place);
    let publish = |exclude: &[&str]| {
        let exclude = exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
        sites.publish(&shop(), place.path(), &Publish { exclude, ..Publish::default() }, &mut |_| Continue(()))
    };
    assert!(matches!(publish(&[]), Err(FilesError::StoreInside(_))));
    assert_eq!(publish(&["/store"]).unwrap().revision.files, 1);
    // Another store, which this process does not have open.
    let other = place.www().join("a/other");
    fs::create_dir_all(other.join("below")).unwrap();
    fs::write(other.join("thorp-store"), "").unwrap();
    let publish = |dir: &Path| sites.publish(&shop(), dir, &Publish::default(), &mut |_| Continue(()));
    for dir in [&place.www(), &place.www().join("a"), &other] {
        let Err(FilesError::StoreInside(found)) = publish(dir) else { panic!("{dir:?}") };
        assert_eq!(found, other);
    }
    assert!(matches!(publish(&other.join("below")), Err(FilesError::InsideStore(..))));
}

#[test]
fn damaged_directories_are_repaired_by_a_publish_that_reads_everything() {
    let place = SiteFolder::new();
    for number in 0..600 {
        place.write(&format!("f{number}"), noise(100, number));
    }
    publish(&place, &open(&place));
    // The chunk of the directory is a file of its own.
    let chunk = chunk_files(&place.store()).remove(0);
    let whole = fs::read(&chunk).unwrap();
    let mut damaged = whole.clone();
    damaged[1000] ^= 1;
    for (damage, bytes) in [("a bit", Some(damaged)), ("cut", Some(whole[..2000].to_vec())), ("gone", None)] {
        match bytes {
            Some(bytes) => fs::write(&chunk, bytes).unwrap(),
            None => fs::remove_file(&chunk).unwrap(),
        }
        let sites = open(&place);
        let mut found = Vec::new();
        sites.verify(&shop(), &mut |damage| found.push((damage.revision, damage.path, damage.part))).unwrap();
        assert_eq!(found, [(1, files::Path::ROOT, Part::Directory)], "{damage}");
        assert!(matches!(sites.view(&shop(), None).unwrap().list(&files::Path::ROOT), Err(FilesError::Chunks(_))));
        drop(sites);
        let settings = Publish { repair: true, ..Publish::default() };
        let repaired = open(&place).publish(&shop(), &place.www(), &settings, &mut |_| Continue(())).unwrap();
        assert_eq!((repaired.is_new, repaired.chunks_written), (false, 1), "{damage}");
        assert_eq!(fs::read(&chunk).unwrap(), whole);
    }
}

/// Each damaged chunk is named once, by the first path of the newest revision that needs it, and whatever does not lie
/// below it is still read.
#[test]
fn damaged_chunks_are_named_by_the_paths_that_need_them() {
    let place = SiteFolder::new();
    let chunks = || -> HashSet<PathBuf> {
        let folders = fs::read_dir(place.store().join("chunks")).unwrap().map(|entry| entry.unwrap().path());
        let folders = folders.filter(|path| path.is_dir());
        folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path()).collect()
    };
    // Publishes, and returns the chunk that this has added.
    let mut before = HashSet::new();
    let mut add = || {
        publish(&place, &open(&place));
        let now = chunks();
        let new: Vec<PathBuf> = now.difference(&before).cloned().collect();
        before = now;
        let [chunk] = &new[..] else { panic!("{new:?}") };
        chunk.clone()
    };
    place.write("one.bin", noise(100_000, 1));
    let shared = add();
    place.write("two/copy.bin", noise(100_000, 1));
    place.write("old.bin", noise(100_000, 2));
    let old = add();
    fs::remove_file(place.www().join("one.bin")).unwrap();
    fs::remove_file(place.www().join("old.bin")).unwrap();
    place.write("wide/large.bin", noise(100_000, 3));
    let below = add();
    // Entries that hold their content make the directory's node large enough for a file of its own.
    (0..90).for_each(|number| place.write(&format!("wide/{number}"), noise(450, 100 + number)));
    let wide = add();
    place.write("zebra.bin", noise(100_000, 4));
    let last = add();
    let found = || {
        let mut found = Vec::new();
        let report = &mut |damage: Damage| found.push((damage.revision, damage.to_string()));
        let whole = open(&place).verify(&shop(), report).unwrap();
        (whole, found)
    };
    let (all, none) = found();
    assert_eq!(none, []);
    for chunk in [&shared, &old, &below] {
        let mut bytes = fs::read(chunk).unwrap();
        bytes[1000] ^= 1;
        fs::write(chunk, bytes).unwrap();
    }
    let assert_found = |whole: u64, expected: &[(u64, &str, &Path, &str)]| {
        let (counted, found) = found();
        assert_eq!((counted, found.len()), (whole, expected.len()), "{found:?}");
        for ((revision, text), (number, begin, chunk, end)) in found.iter().zip(expected) {
            let chunk = chunk.file_name().unwrap().to_str().unwrap();
            let is_so = text.starts_with(begin) && text.contains(chunk) && text.ends_with(end);
            assert!(is_so && revision == number, "{revision}: {text}");
        }
    };
    let does_so = "of its directory does so";
    let damaged = [
        (5, "two/copy.bin: ", &*shared, does_so),
        (5, "wide/large.bin: ", &*below, does_so),
        (2, "old.bin: ", &*old, does_so),
    ];
    assert_found(all - 3, &damaged);
    fs::write(&wide, "").unwrap();
    fs::remove_file(&last).unwrap();
    let damaged = [
        (5, "two/copy.bin: ", &*shared, does_so),
        (5, "the directory wide: ", &*wide, "; nothing below this chunk was checked"),
        (5, "zebra.bin: ", &*last, does_so),
        // The directory was whole then, and had this file alone.
        (3, "wide/large.bin: ", &*below, does_so),
        (2, "old.bin: ", &*old, does_so),
    ];
    assert_found(all - 5, &damaged);
}

/// A directory in the tree is exchanged for a link, again and again: nothing behind the link is published.
#[test]
fn a_directory_that_becomes_a_link_is_not_followed() {
    let place = SiteFolder::new();
    let secret = place.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    for number in 0..20 {
        place.write(&format!("d/{number}"), "filler");
    }
    place.write("d/key", "public");
    let (directory, link) = (place.www().join("d"), place.www().join("e"));
    symlink(&secret, &link).unwrap();
    let sites = open(&place);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _over = Ending(&is_over);
        for _ in 0..200 {
            // A name that was a directory a moment ago may be a link by now, which ends a publish.
            if sites.publish(&shop(), &place.www(), &Publish::default(), &mut |_| Continue(())).is_err() {
                continue;
            }
            let view = sites.view(&shop(), None).unwrap();
            for name in ["d", "e"] {
                let path = files::Path::parse(format!("{name}/key").as_bytes()).unwrap();
                let Ok(files::Kind::File { .. }) = view.find(&path).map(|entry| entry.kind) else { continue };
                assert_eq!(content(&sites, None, &format!("{name}/key")), b"public");
            }
        }
    });
}

/// Says that a test has ended, well or not.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
