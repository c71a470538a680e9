//! A store is restored from a copy while its clients live: they know of commits that the copy does not have, and
//! believe nothing of that.

use crate::groups::{counter, eventually, get, put, start_redirector, status};
use crate::program::{Folder, program, serve_with};
use fixtures::lasting_address;
use std::fs;
use std::path::Path;
use thorp::Db;

/// How many commits the copy does not have; it gets as many of its own, so that each count of changes is there twice.
const PARTED: u64 = 20;

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn clients_of_a_store_believe_nothing_that_its_copy_does_not_have() {
    let folder = Folder::new();
    let listen = lasting_address().unwrap();
    let at = listen.to_string();
    let mut store = serve_with(&folder, &["--listen", &at]);
    let count = counter(&Db::connect(listen).unwrap());
    store.kill().unwrap();
    copy(&folder.path().join("store"), &folder.path().join("copy"));

    store.start_again().unwrap();
    let redirector = start_redirector(&store, &[]);
    let clients = [Db::connect(listen).unwrap(), Db::connect(redirector.address()).unwrap()];
    (1..=PARTED).for_each(|n| put(&clients[0], count, n));
    for db in &clients {
        eventually("both have heard of all", || get(db, count) == PARTED);
    }
    store.kill().unwrap();
    let _copy = program().serve(&folder.path().join("copy"), &["--listen", &at]).unwrap();
    let other = Db::connect(listen).unwrap();
    assert_eq!(get(&other, count), 0, "the copy is from before");
    (1..=PARTED).for_each(|n| put(&other, count, 1000 + n));
    for db in &clients {
        assert_eq!(get(db, count), 1000 + PARTED);
        db.transact(|tx| {
            let value = tx.get(count)?;
            tx.put(count, &value)
        })
        .unwrap();
    }
    // Its operators are told by how much it is older.
    let told = status(listen).unwrap();
    assert_eq!(told["store"][0]["commits_gone"], PARTED, "{told}");
    // And they continue with it like anybody else.
    put(&clients[0], count, 7);
    for db in [&clients[1], &other] {
        eventually("all are with the copy", || get(db, count) == 7);
    }
}
