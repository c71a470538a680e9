//! The front end over simulated nodes: several clients in virtual time, over a network and a store that fail. Each
//! transaction sees the store as of one moment, and an acknowledged change stays.

use objects::{Anywhere, AsyncTx, Db, Map, Result};
use sim::Simulation;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

const ACCOUNTS: u32 = 6;
const CLIENTS: u32 = 3;
const TASKS: u32 = 2;
const TRANSFERS: u32 = 12;
/// Longer than any simulated run.
const PATIENCE: Duration = Duration::from_secs(1 << 20);

/// The knowledge that the tasks share beside the store.
#[derive(Default)]
struct Known {
    /// Transfers that were acknowledged, with their receipts.
    receipts: RefCell<BTreeMap<u32, Vec<u8>>>,
    running: Cell<u32>,
}

/// Moves one from an account to another and files a receipt, long enough that the map of receipts must grow.
async fn transfer(db: &Db, number: u32) -> Result<Vec<u8>> {
    db.transact_async(|mut tx| async move {
        let accounts: Map<u32, i64> = tx.map("accounts").await?;
        let receipts: Map<u32, Vec<u8>> = tx.map("receipts").await?;
        let all = accounts.range::<u32>(..).collect(&mut tx).await?;
        assert_eq!(all.iter().map(|(_, balance)| balance).sum::<i64>(), 0, "seen in one transaction: {all:?}");
        let balance = |account: u32| all.iter().find(|(key, _)| *key == account).map_or(0, |(_, balance)| *balance);
        let (from, to) = (number % ACCOUNTS, (number / 7 + number % 5 + 1) % ACCOUNTS);
        if from != to {
            accounts.insert(&mut tx, &from, &(balance(from) - 1)).await?;
            accounts.insert(&mut tx, &to, &(balance(to) + 1)).await?;
        }
        let receipt = vec![number as u8; 200 + (number as usize * 37) % 900];
        receipts.insert(&mut tx, &number, &receipt).await?;
        Ok(receipt)
    })
    .await
}

async fn task(db: Db, first: u32, known: Rc<Known>) {
    for number in first..first + TRANSFERS {
        let receipt = transfer(&db, number).await.expect("the transfer commits");
        known.receipts.borrow_mut().insert(number, receipt);
    }
    known.running.set(known.running.get() - 1);
    if known.running.get() == 0 {
        audit(&db, &known).await;
    }
}

/// Every acknowledged receipt is filed, and no other.
async fn audit(db: &Db, known: &Known) {
    let filed = db.transact_async(|mut tx| async move {
        let receipts: Map<u32, Vec<u8>> = tx.map("receipts").await?;
        receipts.range::<u32>(..).collect(&mut tx).await
    });
    let filed: BTreeMap<u32, Vec<u8>> = filed.await.expect("the audit commits").into_iter().collect();
    assert_eq!(filed, *known.receipts.borrow());
}

/// Runs all tasks of all clients, of this kind.
fn run<F: Future<Output = ()> + 'static>(seed: u64, task: impl Fn(Db, u32, Rc<Known>) -> F) -> u64 {
    let mut simulation = Simulation::new(seed, CLIENTS as usize);
    let known = Rc::new(Known::default());
    for number in 0..CLIENTS * TASKS {
        let client = (number % CLIENTS + 1) as usize;
        let (node, driver) = simulation.door(client);
        known.running.set(known.running.get() + 1);
        simulation.spawn(client, task(objects::over(node, driver, PATIENCE), number * TRANSFERS, known.clone()));
    }
    simulation.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"))
}

#[test]
fn transfers_keep_the_sum_and_every_receipt_is_filed() {
    // The last two found a store that was said to be full: when every grant's answer was lost, and when it was closing.
    for seed in (0..60).chain([211, 1261]) {
        run(seed, task);
    }
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(run(7, task), run(7, task));
}

/// Accounts in lines of one page, a line each.
const LINE: u64 = 64;
/// Behind them, in pages of their own, the receipts. They are longer than a page.
const RECEIPTS: u64 = 16 * 4096;
const RECEIPT: u64 = 5_000;

/// Moves one between two accounts in a byte value, and files a receipt in it. A transfer looks at its own two accounts
/// alone, or at all.
async fn transfer_in_lines(db: &Db, number: u32) -> Result<Vec<u8>> {
    db.transact_async(|mut tx| async move {
        let value = tx.bytes("accounts").await?;
        let (from, to) = (number % ACCOUNTS, (number / 7 + number % 5 + 1) % ACCOUNTS);
        if number.is_multiple_of(3) {
            let all = value.read(&mut tx, ..LINE * u64::from(ACCOUNTS)).await?;
            let sum: i64 = all.chunks(LINE as usize).map(balance_in).sum();
            assert_eq!(sum, 0, "seen in one transaction: {all:?}");
        }
        if from != to {
            for (account, by) in [(from, -1), (to, 1)] {
                let at = LINE * u64::from(account);
                let balance = balance_in(&value.read(&mut tx, at..at + 8).await?);
                value.write(&mut tx, at, &(balance + by).to_le_bytes()).await?;
            }
        }
        let receipt: Vec<u8> = (0..RECEIPT).map(|i| (i as u32 ^ number) as u8 | 1).collect();
        value.write(&mut tx, RECEIPTS + RECEIPT * u64::from(number), &receipt).await?;
        Ok(receipt)
    })
    .await
}

/// The balance at the beginning of a line; none before the value had one.
fn balance_in(line: &[u8]) -> i64 {
    line.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

async fn task_in_lines(db: Db, first: u32, known: Rc<Known>) {
    for number in first..first + TRANSFERS {
        let receipt = transfer_in_lines(&db, number).await.expect("the transfer commits");
        known.receipts.borrow_mut().insert(number, receipt);
    }
    known.running.set(known.running.get() - 1);
    if known.running.get() > 0 {
        return;
    }
    let all = db.transact_async(async |mut tx| tx.bytes("accounts").await?.read(&mut tx, RECEIPTS..).await);
    let all = all.await.expect("the audit commits");
    let filed = all.chunks(RECEIPT as usize).enumerate().map(|(number, receipt)| (number as u32, receipt.to_vec()));
    assert!(filed.collect::<BTreeMap<_, _>>() == *known.receipts.borrow());
}

#[test]
fn transfers_between_lines_of_a_byte_value_keep_the_sum() {
    for seed in 0..60 {
        run(seed, task_in_lines);
    }
}

/// Makes a space that all tasks make, and one that the two tasks of a client make; gives both handles a root.
async fn make_spaces(db: Db, task: u32, made: Rc<RefCell<BTreeMap<String, Vec<u32>>>>) {
    for name in ["ours".to_owned(), format!("client-{}", task % CLIENTS)] {
        let space = db.space_async(&name).await.expect("the space is made");
        let sign = async |mut tx: AsyncTx| {
            let sign = tx.create(Anywhere, &name).await?;
            tx.set_root("sign", sign).await?;
            Ok(sign.id().page.space)
        };
        let number = space.transact_async(sign).await.expect("the sign is put up");
        made.borrow_mut().entry(name).or_default().push(number);
    }
}

#[test]
fn a_name_is_given_to_one_space_whoever_makes_it() {
    for seed in 0..60 {
        let mut simulation = Simulation::new(seed, CLIENTS as usize);
        let made = Rc::new(RefCell::new(BTreeMap::new()));
        for task in 0..CLIENTS * TASKS {
            let client = (task % CLIENTS + 1) as usize;
            let (node, driver) = simulation.door(client);
            simulation.spawn(client, make_spaces(objects::over(node, driver, PATIENCE), task, made.clone()));
        }
        simulation.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        let mut numbers = BTreeMap::new();
        for (name, all) in made.borrow().iter() {
            assert!(all.iter().all(|number| *number == all[0]), "seed {seed}: '{name}' is {all:?}");
            assert_eq!(numbers.insert(all[0], name.clone()), None, "seed {seed}");
        }
        assert_eq!(numbers.into_keys().collect::<Vec<_>>(), (1..=CLIENTS + 1).collect::<Vec<_>>(), "seed {seed}");
    }
}
