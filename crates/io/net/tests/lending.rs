//! A thread that waits for the store reads the socket itself. However that ends, the reactor reads on.

mod common;

use client::{Client, Read, TxnHandle};
use common::group::{Group, Member, Way, eventually, value};
use common::*;
use messages::Fetch;
use std::mem;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;
use types::{ClientId, ObjectId, PageId};

/// How often each is tried: which of two threads reads is up to them.
const ROUNDS: u32 = 20;

fn page(number: u32) -> PageId {
    PageId::new(1, number)
}

/// A group that answers nothing by itself, and its one member.
fn group() -> (Group, Member) {
    let group = Group::start();
    group.state().way = Way::Held;
    let member = group.join();
    (group, member)
}

/// The fetches that were held, in the order of their pages, when there are so many.
fn take_held(group: &Group, count: usize) -> Vec<(ClientId, Fetch)> {
    group.wait("fetches", |state| state.held.len() >= count);
    let mut held = mem::take(&mut group.state().held);
    held.sort_by_key(|(_, fetch)| fetch.pages.clone());
    held
}

fn answer(group: &Group, (client, fetch): &(ClientId, Fetch)) {
    group.state().answer(*client, fetch);
}

/// One of two threads reads for both. The bytes that it leaves behind when it has its answer are the reactor's to read.
#[test]
fn a_thread_that_has_its_answer_leaves_the_socket_to_others() {
    let (group, member) = group();
    for round in 0..ROUNDS {
        let pages = [2 * round, 2 * round + 1].map(page);
        let [one, other] = pages.map(|page| member.begin_read(page));
        let held = take_held(&group, 2);
        let (first, second) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        let mut reads = [Some(one), Some(other)];
        for at in [first, second] {
            answer(&group, &held[at]);
            assert_eq!(reads[at].take().unwrap()(), value(pages[at]));
        }
    }
}

/// A wait that ends by the clock gives the socket back, too: the answer that comes later is heard, with nobody waiting.
#[test]
fn a_thread_that_has_given_up_leaves_the_socket_to_others() {
    let (group, member) = group();
    for round in 0..ROUNDS {
        give_up(&member, page(round));
        let held = take_held(&group, 1);
        answer(&group, &held[0]);
        eventually("it is heard", || member.pages().0 == u64::from(round) + 1);
    }
}

/// Wants a page that is not here.
fn ask(host: &At<Client>, txn: TxnHandle, page: PageId) {
    assert_eq!(host.lock().machine().read(host.now(), txn, ObjectId::new(page, 0)), Ok(Read::Wait));
    host.settle();
}

/// Waits for a page for a moment.
fn give_up(member: &Member, page: PageId) {
    let (host, waiting) = (&member.host, Waiting::here());
    let txn = begin(host);
    ask(host, txn, page);
    host.wake_at(host.now() + Duration::from_millis(2), &Waker::from(Arc::clone(&waiting)));
    waiting.wait(host);
    host.lock().machine().abort(host.now(), txn);
    host.settle();
}

/// The connection breaks under the thread that reads it: its answer comes by the next one, which the reactor reads.
#[test]
fn a_thread_that_reads_when_the_connection_breaks_has_its_answer_by_the_next() {
    let (group, member) = group();
    for round in 0..ROUNDS {
        let read = member.begin_read(page(round));
        take_held(&group, 1);
        group.cut(&member);
        let held = take_held(&group, 1);
        answer(&group, &held[0]);
        assert_eq!(read(), value(page(round)));
    }
}

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the application's");
    }
}

/// A thread that reads wakes others, too, whose wakers are not its own. The fate of those does not keep it from its
/// answer.
#[test]
fn a_waker_that_panics_ends_no_thread_that_reads() {
    let (group, member) = group();
    let (host, bomb) = (&member.host, Waker::from(Arc::new(Bomb)));
    for round in 0..ROUNDS {
        let pages = [2 * round, 2 * round + 1].map(page);
        let txn = begin(host);
        ask(host, txn, pages[0]);
        host.wake_on(txn, &bomb);
        let read = member.begin_read(pages[1]);
        for held in &take_held(&group, 2) {
            answer(&group, held);
        }
        assert_eq!(read(), value(pages[1]));
        host.lock().machine().abort(host.now(), txn);
    }
    assert_eq!(host.end(), None);
}
