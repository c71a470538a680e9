//! Random commits of several clients against a model of slot versions.

use crate::driver::{Driver, ROOT, Txn, count, txn};
use messages::Outcome;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use store::Config;
use types::{Limits, PageId, Refusal, SlotNo};

/// One access: page, slot, how many counts the reader lags behind, and whether it writes.
type Access = (usize, SlotNo, u64, bool);

#[derive(Clone, Debug)]
enum Step {
    Commit { client: u64, accesses: Vec<Access> },
    WriteBack,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let lag = prop_oneof![3 => Just(0u64), 2 => 0..4u64];
    let access = (0..3usize, 0..4u16, lag, proptest::bool::weighted(0.6));
    let commit = (1..4u64, proptest::collection::vec(access, 1..4));
    prop_oneof![
        20 => commit.prop_map(|(client, accesses)| Step::Commit { client, accesses }),
        1 => Just(Step::WriteBack),
        1 => Just(Step::Crash),
    ]
}

/// The store as it ought to be.
#[derive(Default)]
struct Model {
    count: u64,
    slots: BTreeMap<(usize, SlotNo), (u64, Vec<u8>)>,
    pages: [u64; 3],
    /// Nothing at or below this count is known slot by slot since the last crash.
    forgotten: u64,
}

impl Model {
    fn is_current(&self, reads: &BTreeMap<(usize, SlotNo), u64>) -> bool {
        reads.iter().all(|(at, &evidence)| self.slots.get(at).is_none_or(|(version, _)| *version <= evidence))
    }

    /// Whether the store cannot but know that everything is current.
    fn is_provable(&self, reads: &BTreeMap<(usize, SlotNo), u64>) -> bool {
        let provable = |(&(page, _), &evidence): (&(usize, SlotNo), &u64)| {
            evidence >= self.forgotten || evidence >= self.pages[page]
        };
        self.is_current(reads) && reads.iter().all(provable)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A transaction is accepted if and only if every slot that it read is current, as far as that can still be known;
    /// an accepted one is there from then on, through write-back and crashes.
    #[test]
    fn accepts_what_is_current_and_nothing_else(steps in proptest::collection::vec(step(), 1..60)) {
        // No place is kept for a client that loses: each outcome comes at once.
        let limits = Limits { losers: 0, ..Limits::SHIPPED };
        let mut driver = Driver::with(Config { cache_bytes_limit: 100, limits, ..Config::default() });
        let mut sessions: Vec<_> = (1..4).map(|client| driver.join(client, client)).collect();
        let mut pages = vec![ROOT];
        pages.extend(driver.grant(sessions[0], 2));
        let (mut model, mut number) = (Model::default(), 0);
        for step in steps {
            match step {
                Step::Commit { client, accesses } => {
                    number += 1;
                    let request = Request::new(client, number, &accesses, &pages, model.count);
                    match driver.commit(sessions[client as usize - 1], &request.txn) {
                        Outcome::Refused(Refusal::Stale(_)) => prop_assert!(!model.is_provable(&request.reads)),
                        outcome => {
                            prop_assert!(model.is_current(&request.reads));
                            if !request.writes.is_empty() {
                                model.count += 1;
                                prop_assert_eq!(count(&outcome), model.count);
                            }
                            for &(page, slot) in &request.writes {
                                model.slots.insert((page, slot), (model.count, number.to_le_bytes().to_vec()));
                                model.pages[page] = model.count;
                            }
                        }
                    }
                }
                Step::WriteBack => {
                    driver.pass(Duration::from_secs(2));
                    for &session in &sessions {
                        driver.ping(session);
                    }
                }
                Step::Crash => {
                    driver.crash();
                    number += 1;
                    sessions = (1..4).map(|client| driver.join(number * 10 + client, client)).collect();
                    model.forgotten = model.count;
                }
            }
        }
        for (&(page, slot), (_, value)) in &model.slots {
            let served = driver.value(sessions[0], pages[page], slot);
            prop_assert_eq!(served.as_ref(), Some(value));
        }
        check_versions(&mut driver, &pages, &model, sessions[0])?;
    }
}

fn check_versions(
    driver: &mut Driver,
    pages: &[PageId],
    model: &Model,
    session: store::SessionId,
) -> Result<(), TestCaseError> {
    for (i, &page) in pages.iter().enumerate() {
        prop_assert_eq!(driver.fetch(session, page).1.version.0, model.pages[i]);
    }
    Ok(())
}

/// A request and what the model has to know of it. The pages of one request have one evidence each: the least.
struct Request {
    txn: Txn,
    reads: BTreeMap<(usize, SlotNo), u64>,
    writes: Vec<(usize, SlotNo)>,
}

impl Request {
    fn new(client: u64, number: u64, accesses: &[Access], pages: &[PageId], now: u64) -> Self {
        let mut evidence = BTreeMap::new();
        for &(page, _, lag, _) in accesses {
            let least = evidence.entry(page).or_insert(now);
            *least = now.saturating_sub(lag).min(*least);
        }
        let slots: BTreeMap<_, _> = accesses.iter().map(|&(page, slot, _, writes)| ((page, slot), writes)).collect();
        let mut request = Self { txn: txn(client, number), reads: BTreeMap::new(), writes: Vec::new() };
        for ((page, slot), writes) in slots {
            let at = evidence[&page];
            request.reads.insert((page, slot), at);
            request.txn = request.txn.read(pages[page], slot, at);
            if writes {
                request.writes.push((page, slot));
                request.txn = request.txn.write(pages[page], slot, at, &number.to_le_bytes());
            }
        }
        request
    }
}
