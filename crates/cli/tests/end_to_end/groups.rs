//! Groups as a user meets them: a store, a redirector, members that share their pages, and the fate of each when one of
//! them is killed or stopped.

use crate::program::{Folder, program, serve, thorp};
use fixtures::{Process, Signal, lasting_address, until};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thorp::{Anywhere, Db, Map, Ref, Stats};

/// The name by which a test runs another of this program's tests as a member in a process of its own.
const MEMBER_OF: &str = "THORP_TEST_MEMBER_OF";

/// A redirector of the group "site", which leads it.
pub(crate) fn start_redirector(store: &Process, more: &[&str]) -> Process {
    program().group("site", store.address(), more).unwrap().until("leads", "site").unwrap()
}

fn start_redirector_at(listen: SocketAddr, store: &Process) -> Process {
    start_redirector(store, &["--listen", &listen.to_string()])
}

/// How a store or redirector stands, if anybody is there.
pub(crate) fn status(address: SocketAddr) -> Option<Value> {
    let ran = thorp(["status", "--json", &address.to_string()]);
    (ran.code == Some(0)).then(|| serde_json::from_str(&ran.stdout).unwrap())
}

/// A number in the first row of a table.
#[track_caller]
fn count(status: &Value, table: &str, column: &str) -> u64 {
    status[table][0][column].as_u64().unwrap_or_else(|| panic!("a number {column} in {table} of {status}"))
}

fn pages_sent(store: &Process) -> u64 {
    count(&status(store.address()).unwrap(), "store", "pages_sent")
}

/// Another process cannot be waited for but by looking.
#[track_caller]
pub(crate) fn eventually(what: &str, is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    until(what, is_so);
    start.elapsed()
}

/// Waits until the redirector has this many members.
#[track_caller]
fn await_members(redirector: SocketAddr, members: usize) -> Duration {
    let joined = |status: &Value| {
        let members = status["members"].as_array();
        members.map_or(0, |members| members.iter().filter(|member| member["state"] == "member").count())
    };
    eventually("all are members", || status(redirector).is_some_and(|status| joined(&status) == members))
}

/// Waits until the redirector has found that another leads.
#[track_caller]
fn await_standby(redirector: SocketAddr) {
    let state = |status: Value| status["redirector"][0]["state"] == "stands_by";
    eventually("it stands by", || status(redirector).is_some_and(state));
}

/// A redirector of the group "site" that stands by.
fn start_eligible_redirector(store: &Process) -> Process {
    program().group("site", store.address(), &["--eligible"]).unwrap()
}

/// Two members of a group that has a redirector which stands by, and what both of them have read.
fn two_members(redirector: &Process, eligible: &Process, store: &Process) -> (Db, Db, Ref<u64>) {
    let addresses = format!("{},{},{}", redirector.address(), eligible.address(), store.address());
    let [one, other] = [(); 2].map(|()| Db::connect(&addresses).unwrap());
    let counter = counter(&one);
    assert_eq!(get(&other, counter), 0);
    await_members(redirector.address(), 2);
    (one, other, counter)
}

/// A member that goes to the store where there is no redirector.
fn member(redirector: SocketAddr, store: &Process) -> Db {
    Db::connect(format!("thorp://{redirector},{}", store.address())).unwrap()
}

/// One that takes over where there is no redirector, and where it listens then.
fn eligible_member(redirector: SocketAddr, store: &Process) -> (Db, SocketAddr) {
    let listen = lasting_address().unwrap();
    let addresses = format!("{redirector},{}", store.address());
    (Db::builder().group("site").eligible(listen, store.address()).connect(&addresses).unwrap(), listen)
}

/// Puts many parts into a store, in a great many pages.
fn fill(store: &Process) {
    let db = Db::connect(store.address()).unwrap();
    for batch in 0..10_u64 {
        let fill = |tx: &mut thorp::Tx| {
            let parts: Map<u64, String> = tx.map("parts")?;
            (batch * 100..(batch + 1) * 100).try_for_each(|part| parts.insert(tx, &part, &"x".repeat(800)).map(drop))
        };
        db.transact(fill).unwrap();
    }
}

/// Reads them all.
fn read_all(db: &Db) {
    let read = |tx: &mut thorp::Tx| {
        let parts = tx.find_map::<u64, String>("parts")?.expect("they are there");
        let mut cursor = parts.iter();
        let mut count = 0;
        while let Some((_, value)) = cursor.next(tx)? {
            assert_eq!(value.len(), 800);
            count += 1;
        }
        Ok(count)
    };
    assert_eq!(db.transact(read).unwrap(), 1000);
}

/// A counter that has a name.
pub(crate) fn counter(db: &Db) -> Ref<u64> {
    let counter = |tx: &mut thorp::Tx| {
        if let Some(counter) = tx.root::<u64>("counter")? {
            return Ok(counter);
        }
        let counter = tx.create(Anywhere, &0_u64)?;
        tx.set_root("counter", counter)?;
        Ok(counter)
    };
    db.transact(counter).unwrap()
}

pub(crate) fn get(db: &Db, counter: Ref<u64>) -> u64 {
    db.transact(|tx| tx.get(counter)).unwrap()
}

pub(crate) fn put(db: &Db, counter: Ref<u64>, count: u64) {
    db.transact(|tx| tx.put(counter, &count)).unwrap();
}

#[test]
fn members_get_from_a_peer_the_pages_that_it_has_read() {
    let folder = Folder::new();
    let store = serve(&folder);
    fill(&store);
    // On a busy machine a member is late with its help, and is not asked again for a while. Here it is waited for.
    let redirector = start_redirector(&store, &["--help-within", "1000"]);
    let members = [(); 3].map(|()| Db::connect(redirector.address()).unwrap());
    read_all(&members[0]);
    let (sent, first) = (pages_sent(&store), members[0].stats());
    for other in &members[1..] {
        read_all(other);
    }
    let status = status(redirector.address()).unwrap();
    assert_eq!(pages_sent(&store), sent, "nothing else came from the store any more: {status}");
    assert_eq!(count(&status, "redirector", "members"), 3, "{status}");
    let from_peers = count(&status, "counts", "from_peers");
    assert!(from_peers >= 100 && first.pages_fetched >= 100, "{status} {first:?}");
    let stats: Vec<Stats> = members.iter().map(Db::stats).collect();
    assert!(stats[1].pages_from_peers + stats[2].pages_from_peers >= from_peers, "{stats:?}");
    assert!(stats[0].pages_given > 0, "{stats:?}");
}

#[test]
fn a_commit_of_one_member_is_in_the_caches_of_the_others() {
    let folder = Folder::new();
    let store = serve(&folder);
    let redirector = start_redirector(&store, &[]);
    let [writer, reader] = [(); 2].map(|()| Db::connect(redirector.address()).unwrap());
    let counter = counter(&writer);
    assert_eq!(get(&reader, counter), 0);
    let before = reader.stats();
    for count in 1..=20 {
        put(&writer, counter, count);
        eventually("the reader has it", || get(&reader, counter) == count);
    }
    let after = reader.stats();
    assert_eq!((after.fetches, after.pages_fetched), (before.fetches, before.pages_fetched), "{after:?}");
    let status = status(redirector.address()).unwrap();
    assert!(count(&status, "counts", "updates") >= 20, "{status}");
}

#[test]
fn members_do_without_a_redirector_and_come_back_to_it() {
    let folder = Folder::new();
    let (store, listen) = (serve(&folder), lasting_address().unwrap());
    let mut redirector = start_redirector_at(listen, &store);
    let members = [(); 2].map(|()| member(listen, &store));
    let counter = counter(&members[0]);
    assert_eq!(get(&members[1], counter), 0);
    await_members(listen, 2);
    redirector.kill().unwrap();
    let start = Instant::now();
    put(&members[0], counter, 1);
    assert!(start.elapsed() < Duration::from_secs(5), "went on after {:?}", start.elapsed());
    eventually("the other goes on", || get(&members[1], counter) == 1);
    let sessions = status(store.address()).unwrap();
    assert_eq!(count(&sessions, "store", "sessions"), 2, "both are with the store: {sessions}");
    let redirector = start_redirector_at(listen, &store);
    await_members(redirector.address(), 2);
    let told = || status(redirector.address()).unwrap();
    let mut last = 1;
    eventually("commits come by way of it again", || {
        last += 1;
        put(&members[1], counter, last);
        count(&told(), "counts", "updates") > 0
    });
    eventually("in a group again", || get(&members[0], counter) == last);
    assert_eq!(count(&told(), "redirector", "epoch"), 2, "{}", told());
}

/// However busy they are, and wherever they were in the meantime: also a member that was sent to the store before it
/// had heard the name of its group.
#[test]
fn busy_members_come_back_to_a_redirector_that_was_killed() {
    let folder = Folder::new();
    let (store, listen) = (serve(&folder), lasting_address().unwrap());
    let mut redirector = start_redirector_at(listen, &store);
    let members = [(); 3].map(|()| member(listen, &store));
    let counters = members.each_ref().map(|db| db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap());
    await_members(listen, 3);
    let is_over = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        let go_on = |_: &u64| !is_over.load(Relaxed);
        let busy: Vec<_> = members
            .iter()
            .zip(counters)
            .map(|(db, counter)| {
                scope.spawn(move || (1..).take_while(go_on).inspect(|&count| put(db, counter, count)).last())
            })
            .collect();
        redirector.kill().unwrap();
        let all_alone = |status: Value| count(&status, "store", "sessions") == 3;
        eventually("all go on with the store", || status(store.address()).is_some_and(all_alone));
        let _redirector = start_redirector_at(listen, &store);
        let took = await_members(listen, 3);
        is_over.store(true, Relaxed);
        for ((busy, db), counter) in busy.into_iter().zip(&members).zip(counters) {
            assert_eq!(busy.join().unwrap(), Some(get(db, counter)), "what was committed last is there");
        }
        took
    });
    println!("busy members are back {took:?} after their redirector was started again");
    // Two seconds on an idle machine, where the next look at the address is due within one.
    assert!(took < Duration::from_secs(6), "busy members are back after {took:?}");
}

#[test]
fn a_member_that_is_stopped_stops_nobody() {
    let folder = Folder::new();
    let store = serve(&folder);
    let redirector = start_redirector(&store, &[]);
    let db = Db::connect(redirector.address()).unwrap();
    fill(&store);
    let counter = counter(&db);
    let mut other = Member::start(redirector.address());
    await_members(redirector.address(), 2);
    assert_eq!(other.read(), 0);
    other.0.signal(Signal::STOP).unwrap();
    // Longer than a member may be silent: it is considered dead in the meantime.
    let (start, mut slowest, mut count) = (Instant::now(), Duration::ZERO, 0);
    while start.elapsed() < Duration::from_secs(3) {
        let begun = Instant::now();
        count += 1;
        put(&db, counter, count);
        slowest = slowest.max(begun.elapsed());
    }
    // The stopped member is asked for pages that it has whole, in vain, and the store sends them.
    read_all(&db);
    assert!(slowest < Duration::from_secs(1), "a commit took {slowest:?}");
    await_members(redirector.address(), 1);
    other.0.signal(Signal::CONT).unwrap();
    eventually("it has heard of all", || other.read() == count);
    await_members(redirector.address(), 2);
}

#[test]
fn a_member_may_take_as_long_to_help_as_it_is_given() {
    const WITHIN: Duration = Duration::from_millis(700);
    let folder = Folder::new();
    let store = serve(&folder);
    let redirector = start_redirector(&store, &["--help-within", &WITHIN.as_millis().to_string()]);
    fill(&store);
    let counter = counter(&Db::connect(redirector.address()).unwrap());
    // A page from that member would be known to have arrived only a little later, which the stopped one could not say.
    await_members(redirector.address(), 0);
    let mut helper = Member::start(redirector.address());
    assert_eq!(helper.read(), 0);
    await_members(redirector.address(), 1);
    helper.0.signal(Signal::STOP).unwrap();
    let begun = Instant::now();
    assert_eq!(get(&Db::connect(redirector.address()).unwrap(), counter), 0);
    assert!(begun.elapsed() >= WITHIN, "it was given up after {:?}", begun.elapsed());
    assert!(count(&status(redirector.address()).unwrap(), "counts", "late_help") > 0);
    helper.0.signal(Signal::CONT).unwrap();
}

#[test]
fn an_eligible_member_takes_over() {
    let folder = Folder::new();
    let store = serve(&folder);
    let mut redirector = start_redirector(&store, &[]);
    let (eligible, listen) = eligible_member(redirector.address(), &store);
    let other = member(redirector.address(), &store);
    let counter = counter(&eligible);
    assert_eq!(get(&other, counter), 0);
    await_members(redirector.address(), 2);
    // Both have learned of each other when this has gone round.
    eventually("the members are told", || {
        put(&eligible, counter, 1);
        get(&other, counter) == 1
    });
    let told = status(redirector.address()).unwrap();
    assert!(
        told["members"].as_array().unwrap().iter().any(|member| member["eligible"] == listen.to_string()),
        "{told}"
    );
    assert_eq!(status(listen).unwrap()["redirector"][0]["state"], "stands_by");
    redirector.kill().unwrap();
    let start = Instant::now();
    put(&other, counter, 2);
    let committed = start.elapsed();
    let joined = await_members(listen, 2);
    println!("a commit after {committed:?}, all together again after {:?}", committed + joined);
    // Three heartbeats and two round trips; that is for a redirector that says nothing, and this one's end is seen.
    assert!(committed < Duration::from_millis(1500), "a commit after {committed:?}");
    let told = status(listen).unwrap();
    assert_eq!((&told["redirector"][0]["state"], count(&told, "redirector", "epoch")), (&Value::from("leads"), 2));
    eventually("as before", || get(&eligible, counter) == 2);
    // The one that led comes back and leads again: it is there for that.
    let back = start_redirector(&store, &[]);
    await_members(back.address(), 2);
    await_standby(listen);
    put(&eligible, counter, 3);
    eventually("as before", || get(&other, counter) == 3);
}

#[test]
fn a_redirector_that_stands_by_leads_when_the_other_is_gone() {
    let folder = Folder::new();
    let store = serve(&folder);
    let mut redirector = start_redirector(&store, &[]);
    let eligible = start_eligible_redirector(&store);
    let (one, other, counter) = two_members(&redirector, &eligible, &store);
    redirector.kill().unwrap();
    put(&one, counter, 1);
    await_members(eligible.address(), 2);
    let told = status(eligible.address()).unwrap();
    assert_eq!((&told["redirector"][0]["state"], count(&told, "redirector", "epoch")), (&Value::from("leads"), 2));
    assert_eq!(get(&other, counter), 1);
}

/// Its store finds out later than its members, so nobody comes to the one that stands by when it could lead: they are
/// with the store. It leads all the same, and they come back.
#[test]
fn a_redirector_that_stands_by_leads_although_nobody_knocks() {
    let folder = Folder::new();
    let store = serve(&folder);
    let redirector = start_redirector(&store, &[]);
    let eligible = start_eligible_redirector(&store);
    let (one, other, counter) = two_members(&redirector, &eligible, &store);
    redirector.signal(Signal::STOP).unwrap();
    let start = Instant::now();
    put(&one, counter, 1);
    eligible.hear_until(|line| line["leads"] == "site").unwrap();
    await_members(eligible.address(), 2);
    println!("nobody knocked: all together again after {:?}", start.elapsed());
    redirector.signal(Signal::CONT).unwrap();
    await_standby(redirector.address());
    assert_eq!(get(&other, counter), 1);
}

/// The time after which a redirector that says nothing is taken over from: three heartbeats of half a second. On top
/// come two round trips, and the time that a busy machine takes.
const SILENCE: Duration = Duration::from_millis(1500);

#[test]
fn a_redirector_that_hangs_is_taken_over_from_and_stands_by_then() {
    let folder = Folder::new();
    let store = serve(&folder);
    let redirector = start_redirector(&store, &[]);
    let (eligible, listen) = eligible_member(redirector.address(), &store);
    await_members(redirector.address(), 1);
    let other = member(redirector.address(), &store);
    let counter = counter(&eligible);
    assert_eq!(get(&other, counter), 0);
    redirector.signal(Signal::STOP).unwrap();
    let start = Instant::now();
    put(&other, counter, 1);
    let committed = start.elapsed();
    await_members(listen, 2);
    println!("silent: a commit after {committed:?}, all together again after {:?}", start.elapsed());
    assert!(committed < SILENCE + Duration::from_secs(1), "a commit after {committed:?}");
    redirector.signal(Signal::CONT).unwrap();
    let told = redirector.hear().unwrap();
    assert_eq!(told["leader"], listen.to_string(), "{told}");
    await_standby(redirector.address());
    put(&other, counter, 2);
    eventually("as before", || get(&eligible, counter) == 2);
}

#[test]
fn a_redirector_says_what_becomes_of_it() {
    let folder = Folder::new();
    let mut store = serve(&folder);
    let mut first = start_redirector(&store, &["--stand-by-cache", "1M"]);
    let db = Db::connect(first.address()).unwrap();
    counter(&db);
    let second = start_redirector(&store, &[]);
    let told = first.hear().unwrap();
    assert_eq!(told["leader"], second.address().to_string(), "{told}");
    store.kill().unwrap();
    let told = first.hear().unwrap();
    assert_eq!(told["store"], "lost", "{told}");
    assert!(told["why"].as_str().unwrap().contains(&store.address().to_string()), "{told}");
    first.signal(Signal::TERM).unwrap();
    let told = first.hear().unwrap();
    assert_eq!((&told["closed"], &told["sessions"]), (&Value::from("site"), &Value::from(1)), "{told}");
    assert!(told["commits"].as_u64() > Some(0) && told["wanted"].as_u64() > Some(0), "{told}");
    assert!(first.wait().unwrap());
}

/// A member in a process of its own, which reads the counter whenever it is told to.
struct Member(Process);

impl Member {
    fn start(redirector: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["groups::a_member_of_its_own", "--exact", "--nocapture", "--quiet"]).stdin(Stdio::piped());
        command.env(MEMBER_OF, redirector.to_string());
        Self(Process::spawn(command, "the member").unwrap())
    }

    fn read(&mut self) -> u64 {
        self.0.tell(b"\n").unwrap();
        loop {
            if let Some(count) = self.0.line().unwrap().trim().strip_prefix("count ") {
                return count.parse().unwrap();
            }
        }
    }
}

/// The process that [`Member`] runs; on its own it does the same in this process.
#[test]
fn a_member_of_its_own() {
    if let Ok(redirector) = std::env::var(MEMBER_OF) {
        let told = std::io::stdin().lines().map(|line| drop(line.unwrap()));
        return be_a_member(&redirector, told, |count| println!("count {count}"));
    }
    let folder = Folder::new();
    let store = serve(&folder);
    fill(&store);
    let redirector = start_redirector(&store, &[]);
    let mut counts = Vec::new();
    be_a_member(&redirector.address().to_string(), [(); 2].into_iter(), |count| counts.push(count));
    assert_eq!(counts, [0, 0]);
}

/// Reads everything, and then the counter whenever it is told to.
fn be_a_member(redirector: &str, told: impl Iterator<Item = ()>, mut say: impl FnMut(u64)) {
    let db = Db::connect(redirector).unwrap();
    let counter = counter(&db);
    read_all(&db);
    told.for_each(|()| say(get(&db, counter)));
}
