//! Directories that stores of earlier formats have left, opened by the store of today.

use crate::open::Opening;
use crate::real::RealDisk;
use crate::tests::node::config;
use crate::tests::real::Scratch;
use bytes::Bytes;
use machine::Disk;
use messages::{AskOutcome, CommitReply, CommitRequest, Fetch, Hello, Outcome, PageReads, Resume, ToClient, ToServer};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use store::{DiskDone, DiskWork, Output, SessionId, Store};
use types::{ClientId, Delta, Incarnation, ObjectPage, PageId, SlotChange, SlotNo, Time, TxnId, Version};
use vfs::Directory;

const CLIENT: ClientId = ClientId(1);
const SESSION: SessionId = SessionId(1);
const ROOT: PageId = PageId::new(0, 0);

/// A store over its directory, and its one client.
struct Host {
    store: Store,
    disk: RealDisk,
    done: Receiver<DiskDone>,
    /// Work that the disk's own threads have not done yet.
    outstanding: usize,
    now: Time,
    received: VecDeque<ToClient>,
}

impl Host {
    fn open(dir: &Path) -> Self {
        let mut opening = Opening::begin(Arc::new(Directory::new(dir)), &config()).unwrap();
        let mut store = Store::new(store::Config::default(), opening.opened().clone());
        while let Some((position, record)) = opening.next_record().unwrap() {
            store.recover(position, record);
        }
        let disk = opening.finish().unwrap();
        let (tell, done) = channel();
        disk.on_done(Box::new(move |done| drop(tell.send(done))));
        disk.on_failed(Box::new(|text| panic!("the disk has failed: {text}")));
        let mut host = Self { store, disk, done, outstanding: 0, now: Time::ZERO, received: VecDeque::new() };
        host.store.start(host.now);
        host.store.connected(host.now, SESSION);
        host.say(Hello { features: 0, cluster: None, client: CLIENT, epoch: 1 });
        host.say(Resume { horizon: Version::ZERO.into(), pages: vec![], grants: vec![], last: true, missed: 0 });
        host.received.clear();
        host
    }

    fn say(&mut self, message: impl Into<ToServer>) {
        self.store.handle(self.now, SESSION, message.into());
        self.run();
    }

    /// Time passes until everything is written back.
    fn write_back(&mut self) {
        self.now = self.now + Duration::from_secs(2);
        self.store.handle_timeout(self.now);
        self.run();
        assert_eq!(self.store.stats().mob_bytes, 0);
    }

    /// Does what the store wants done, until it wants nothing.
    fn run(&mut self) {
        loop {
            while let Some(output) = self.store.poll_output() {
                match output {
                    Output::Send { message, .. } => self.received.push_back(message),
                    Output::Disk(work) => {
                        self.outstanding += usize::from(!matches!(work, DiskWork::Append(..)));
                        self.disk.submit(work);
                    }
                    other => panic!("expected a message or work, got {other:?}"),
                }
            }
            let mut all = Vec::new();
            while self.disk.flush(&mut |done| all.push(done)) {}
            if all.is_empty() && self.outstanding > 0 {
                all.push(self.done.recv().unwrap());
            }
            if all.is_empty() {
                return;
            }
            for done in all {
                let is_awaited = !matches!(done, DiskDone::Durable { .. } | DiskDone::Grown { .. });
                self.outstanding -= usize::from(is_awaited);
                self.store.disk(self.now, done);
            }
        }
    }

    fn outcome(&mut self) -> Outcome {
        let received = self.received.drain(..);
        let outcomes = received.filter_map(|message| match message {
            ToClient::CommitReply(CommitReply { outcome, .. }) => Some(outcome),
            _ => None,
        });
        outcomes.last().expect("an answer")
    }

    fn value(&mut self, slot: SlotNo) -> Option<u8> {
        self.say(Fetch { pages: vec![ROOT], at_least: Version::ZERO.into(), number: 0, follow: None });
        let Some(ToClient::Page(page)) = self.received.pop_back() else { panic!("expected a page") };
        ObjectPage::parse(page.image).unwrap().get(slot).map(|value| value[0])
    }
}

/// The transaction of this number. It writes its number to the slot of that number, and knows the page as of a count.
fn commit(number: u8, known: u8) -> CommitRequest {
    let slot = SlotNo::from(number);
    let evidence = Version(u64::from(known));
    let reads = PageReads { page: ROOT, slots: [slot].into_iter().collect(), evidence, exceptions: vec![] };
    let change = SlotChange { slot, value: Some(Bytes::copy_from_slice(&[number])) };
    CommitRequest {
        txn: TxnId { client: CLIENT, number: u64::from(number) },
        incarnation: Incarnation(u64::MAX),
        answered: 1,
        reads: vec![reads],
        writes: vec![Delta { page: ROOT, changes: vec![change] }],
    }
}

fn count(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Committed { pages } => pages[0].version.0,
        other => panic!("expected a commit, got {other:?}"),
    }
}

/// A copy of a directory of format 3, whose process was killed: one commit is written back, the log has the counts of
/// three, and the last two have none.
fn format_3(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let golden = Path::new("testdata/format-3");
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, scratch.0.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::write(scratch.0.join("lock"), "").unwrap();
    scratch
}

#[test]
fn a_store_of_format_3_continues() {
    let scratch = format_3("format-3");
    for life in 0..3 {
        let mut host = Host::open(&scratch.0);
        for number in 1..=5 + life {
            host.say(AskOutcome { txn: commit(number, 0).txn });
            assert_eq!(count(&host.outcome()), u64::from(number), "in life {life}");
            assert_eq!(host.value(SlotNo::from(number)), Some(number), "in life {life}");
        }
        // The old records come again in the next life, as only whole segments are freed.
        host.write_back();
        host.say(commit(6 + life, 5 + life));
        assert_eq!(count(&host.outcome()), u64::from(6 + life));
    }
}

#[test]
fn a_store_of_format_3_is_salvaged() {
    let (from, to) = (format_3("salvaged-from"), Scratch::new("salvaged-to"));
    let to = to.0.join("store");
    let salvaged = crate::salvage(&from.0, &to).unwrap();
    assert_eq!((salvaged.pages, salvaged.lost, salvaged.findings), (1, vec![], vec![]));
    let mut host = Host::open(&to);
    assert_eq!(
        (1..=6).map(|slot| host.value(slot)).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(3), Some(4), Some(5), None]
    );
    host.say(commit(6, 5));
    assert_eq!(count(&host.outcome()), 6);
}
