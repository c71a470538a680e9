//! An application that is a node of the store itself, beside two nodes that are processes of their own.

use crate::nodes::Farm;
use crate::program::start;
use fixtures::{Signal, until};
use std::path::Path;
use std::time::Duration;
use thorp::{Anywhere, Db, Error, Ref};

/// Two nodes, and the third in this process; none if no etcd is installed.
fn joined() -> Option<(Farm, Db)> {
    let mut farm = Farm::new()?;
    // A node that starts waits for the logs of all.
    (0..2).for_each(|node| farm.start(node));
    let db = Db::builder().node("n3").join(&farm.url, farm.dir(2)).unwrap();
    farm.wait_serving();
    Some((farm, db))
}

fn refused(joined: Result<Db, Error>) -> String {
    match joined {
        Err(Error::Open(why)) => why,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Objects in shards of all nodes: extents of one page lie in turns.
fn everywhere(db: &Db) -> Vec<Ref<u64>> {
    let page = |_| db.transact(|tx| (0..32).map(|_| tx.create(Anywhere, &0_u64)).collect::<Result<Vec<_>, _>>());
    (0..12).flat_map(|part| page(part).unwrap()).collect()
}

/// Adds to all objects in one transaction.
fn add(db: &Db, objects: &[Ref<u64>], by: u64) -> Result<(), Error> {
    db.transact(|tx| {
        objects.iter().try_for_each(|&object| {
            let value = tx.get(object)? + by;
            tx.put(object, &value)
        })
    })
}

fn sum(db: &Db, objects: &[Ref<u64>]) -> u64 {
    db.transact(|tx| objects.iter().map(|&object| tx.get(object)).sum()).unwrap()
}

#[test]
fn an_application_is_a_node_whose_commits_others_see() {
    let Some((farm, db)) = joined() else { return };
    let objects = everywhere(&db);
    let other = Db::connect(farm.addresses[0]).unwrap();
    for round in 1..=5 {
        db.transact(|tx| objects.iter().try_for_each(|&object| tx.put(object, &round))).unwrap();
        add(&other, &objects, 10).unwrap();
        assert_eq!(sum(&db, &objects), (round + 10) * objects.len() as u64);
    }
    // It is closed in order, and its directory knows whose it is.
    let dir = farm.dir(2);
    db.close().unwrap();
    assert_eq!(farm.status()["nodes"][2]["state"], "away");
    let db = Db::join(&farm.url, &dir).unwrap();
    assert_eq!(sum(&db, &objects), 15 * objects.len() as u64);
    drop(db);
    assert_eq!(farm.status()["nodes"][2]["state"], "away", "the last handle closes it");
}

/// The first run of a fresh transaction reads what was acknowledged before: at the node in the process, at another
/// node, and in a group.
#[test]
fn a_fresh_transaction_sees_what_was_acknowledged() {
    let Some((farm, writer)) = joined() else { return };
    let objects = everywhere(&writer);
    let all: Vec<_> = farm.addresses[..2].iter().map(ToString::to_string).collect();
    let group = start(&["group", "--name", "site", "--store", &all.join(","), "--listen", "127.0.0.1:0"]);
    let readers = [Db::connect(farm.addresses[0]).unwrap(), Db::connect(group.address()).unwrap(), writer.clone()];
    // The page is in all caches, and changes.
    for reader in &readers {
        assert_eq!(sum(reader, &objects), 0);
    }
    for round in 1..=100 {
        let object = objects[round as usize % objects.len()];
        let by = if round % 2 == 0 { &writer } else { &readers[0] };
        by.transact(|tx| tx.put(object, &round)).unwrap();
        for reader in &readers {
            let mut first = None;
            reader.transact_fresh(|tx| Ok(*first.get_or_insert(tx.get(object)?))).unwrap();
            assert_eq!(first, Some(round), "in round {round}");
        }
    }
    assert!(group.end_by(Signal::TERM).unwrap().status.success());
}

/// The other nodes are killed one after the other, and the application's database stays open.
#[test]
fn an_application_outlives_the_other_nodes() {
    let Some((mut farm, db)) = joined() else { return };
    let objects = everywhere(&db);
    for node in [0, 1] {
        farm.kill(node);
        farm.start(node);
        farm.wait_serving();
        add(&db, &objects, 1).unwrap();
    }
    assert_eq!(sum(&db, &objects), 2 * objects.len() as u64);
}

/// etcd is away for longer than the lease: the node serves no more, and the same database serves again later.
#[test]
fn a_database_outlasts_the_leases_of_its_node() {
    let Some((mut farm, db)) = joined() else { return };
    let objects = everywhere(&db);
    for _ in 0..2 {
        farm.etcd.process.kill().unwrap();
        // A transaction that is tried all the while has its outcome when etcd is back.
        let raised = std::thread::scope(|scope| {
            let db = Db::clone(&db);
            let objects = &objects;
            let raise = move || {
                std::thread::sleep(Duration::from_secs(5));
                add(&db, objects, 1)
            };
            let raising = scope.spawn(raise);
            std::thread::sleep(Duration::from_secs(8));
            farm.etcd.start_again().unwrap();
            raising.join().unwrap()
        });
        raised.unwrap();
        farm.wait_serving();
    }
    assert_eq!(sum(&db, &objects), 2 * objects.len() as u64);
    db.close().unwrap();
    let status = farm.status();
    assert_eq!(status["nodes"][2]["shards"], serde_json::json!({"closed": 2}), "{status}");
}

#[test]
fn a_node_that_cannot_be_is_refused_by_name() {
    let Some((farm, db)) = joined() else { return };
    let dir = |name: &str| farm.folder.file(name);
    let nobody = refused(Db::join(&farm.url, dir("new")));
    assert!(nobody.contains("name its node with 'node' (the store has n1, n2, n3)"), "{nobody}");
    let unknown = refused(Db::builder().node("n9").join(&farm.url, dir("new")));
    assert!(unknown.contains("the store has no node 'n9'"), "{unknown}");
    let others = refused(Db::builder().node("n1").join(&farm.url, farm.dir(2)));
    assert!(others.contains("is the directory of node 'n3'"), "{others}");
    let taken = refused(Db::join(&farm.url, farm.dir(2)));
    assert!(taken.contains("in use"), "{taken}");
    let no_store = refused(Db::builder().node("n1").join(&farm.url.replace("/main", "/other"), dir("new")));
    assert!(no_store.contains("there is no store 'other'"), "{no_store}");
    let no_etcd = refused(Db::builder().node("n1").join("etcd://127.0.0.1:9/main", dir("new")));
    assert!(no_etcd.contains("check it with 'curl http://127.0.0.1:9"), "{no_etcd}");
    let no_url = refused(Db::builder().node("n1").join("127.0.0.1:9", dir("new")));
    assert!(no_url.contains("expected etcd://"), "{no_url}");
    let open = refused(Db::builder().node("n1").listen("0.0.0.0:0".parse().unwrap()).join(&farm.url, dir("new")));
    assert!(open.contains("will not listen on 0.0.0.0"), "{open}");
    let grouped = refused(Db::builder().node("n1").group("site").join(&farm.url, dir("new")));
    assert!(grouped.contains("a node is no member of a group"), "{grouped}");
    assert!(!Path::new(&dir("new")).exists(), "nothing was made of it");
    // The node that runs has noticed nothing.
    db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
}

/// etcd is restored to a state before the last opening: the node can trust it no longer, and its database says why.
#[test]
fn a_database_says_why_its_node_can_be_none_any_longer() {
    let Some((mut farm, db)) = joined() else { return };
    let object = db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
    let saved = farm.folder.file("etcd.saved");
    farm.etcd.save(Path::new(&saved)).unwrap();
    farm.kill(0);
    farm.start(0);
    farm.wait_serving();
    farm.etcd.restore(Path::new(&saved)).unwrap();
    until("the node has ended", || db.transact(|tx| tx.put(object, &2)).is_err());
    let error = db.transact(|tx| tx.put(object, &2)).unwrap_err().to_string();
    assert!(error.contains("etcd was restored to an older state"), "{error}");
    let ended = db.close().unwrap_err().to_string();
    assert!(ended.contains("etcd was restored to an older state"), "{ended}");
}
