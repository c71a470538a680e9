//! An operation takes effect as a whole or not at all, whether it fails or is dropped at any of its awaits.

use crate::scratch::Scratch;
use crate::server::Server;
use objects::{Anywhere, AsyncTx, Db, Error, Map, Ref, Result};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Builder;

const MIB: usize = 1 << 20;

/// Bytes that differ from place to place.
fn value(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i / 251) as u8 ^ (i as u8).wrapping_mul(31) ^ seed).collect()
}

/// Each of the operations writes more than the transaction has room for, and finds out half-way.
#[test]
fn an_operation_that_fails_has_no_effect() {
    let db = Db::in_memory().unwrap();
    let large = |seed| value(50 * MIB, seed);
    let (object, map) = db
        .transact(|tx| {
            let map: Map<u32, Vec<u8>> = tx.map("large")?;
            map.insert(tx, &1, &value(3 * MIB, 1))?;
            Ok((tx.create_bytes(Anywhere, &value(50 * MIB, 1))?, map))
        })
        .unwrap();
    let pages = db
        .transact(|tx| {
            tx.create_bytes(Anywhere, &value(40 * MIB, 3))?;
            let too_large = |result: Result<()>| assert!(matches!(result, Err(Error::TransactionTooLarge)));
            too_large(tx.put_bytes(object, &large(2)));
            too_large(map.insert(tx, &1, &large(2)).map(drop));
            too_large(map.insert(tx, &2, &large(2)).map(drop));
            too_large(tx.create_bytes(Anywhere, &large(2)).map(drop));
            // The value that it had before is untouched, and a value that has room can still be written.
            tx.put_bytes(object, &value(MIB, 4))?;
            assert_eq!(tx.get_bytes(object)?, Some(value(MIB, 4)));
            too_large(tx.put_bytes(object, &large(5)));
            Ok(tx.create_bytes(Anywhere, b"next")?.id().page.number)
        })
        .unwrap();
    db.transact(|tx| {
        assert!(tx.get_bytes(object)? == Some(value(MIB, 4)));
        assert!(map.iter().collect(tx)? == [(1, value(3 * MIB, 1))]);
        Ok(())
    })
    .unwrap();
    let next = db.transact(|tx| tx.create_bytes(Anywhere, &value(MIB, 6))).unwrap();
    assert!(next.id().page.number < pages + 200, "the pages that failed operations took are used again");
}

/// Returns a future so many polls, and drops it.
async fn drop_after<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

type Numbers = Map<u32, Vec<u8>>;

/// The objects that the operations work on.
#[derive(Clone, Copy)]
struct Stock {
    numbers: Numbers,
    large: Ref<[u8]>,
    small: Ref<String>,
}

/// The part of it that can be seen.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    entries: BTreeMap<u32, Vec<u8>>,
    large: Option<Vec<u8>>,
    small: Option<String>,
    names: Vec<String>,
}

impl Stock {
    async fn create(tx: &mut AsyncTx) -> Result<Self> {
        let numbers: Numbers = tx.map("numbers").await?;
        for number in 0..120 {
            numbers.insert(tx, &number, &value(number as usize * 7, 1)).await?;
        }
        numbers.insert(tx, &200, &value(130_000, 2)).await?;
        let large = tx.create_bytes(Anywhere, &value(200_000, 1)).await?;
        Ok(Self { numbers, large, small: tx.create(Anywhere, &"small".to_string()).await? })
    }

    async fn see(&self, tx: &mut AsyncTx) -> Result<Seen> {
        let small = match tx.get(self.small).await {
            Ok(small) => Some(small),
            Err(Error::NoSuchObject(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Seen {
            entries: self.numbers.iter().collect(tx).await?.into_iter().collect(),
            large: tx.get_bytes(self.large).await?,
            small,
            names: tx.names().await?,
        })
    }

    /// One of the operations that take more than one step, or a read.
    async fn operate(&self, tx: &mut AsyncTx, which: usize) -> Result<()> {
        match which {
            0 => tx.put_bytes(self.large, &value(300_000, 3)).await,
            1 => tx.put_bytes(self.large, b"short").await,
            2 => tx.create_bytes(self.large, &value(100_000, 4)).await.map(drop),
            3 => tx.delete(self.large).await,
            // A split, a value that moves out of its leaf, one that moves in, one that goes, leaves that join.
            4 => self.numbers.insert(tx, &1000, &value(500, 5)).await.map(drop),
            5 => self.numbers.insert(tx, &3, &value(70_000, 6)).await.map(drop),
            6 => self.numbers.insert(tx, &200, &vec![7]).await.map(drop),
            7 => self.numbers.remove(tx, &200).await.map(drop),
            8 => self.numbers.remove(tx, &1).await.map(drop),
            9 => tx.map::<u32, u32>("more").await.map(drop),
            10 => tx.set_root("small", self.small).await,
            11 => tx.remove_root("numbers").await,
            12 => tx.delete(self.small).await,
            13 => tx.get_bytes(self.large).await.map(drop),
            14 => self.numbers.iter().collect(tx).await.map(drop),
            _ => unreachable!("there are {OPERATIONS} operations"),
        }
    }
}

const OPERATIONS: usize = 15;

/// Each operation is dropped at each of its awaits, on a client that has nothing in its cache and room for little. The
/// transaction continues as if nothing had been, and its commit returns.
#[test]
fn an_operation_that_is_dropped_at_any_await_has_no_effect() {
    let scratch = Scratch::new();
    let server = Server::start_with(&scratch, 6 * MIB);
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let witness = Db::connect_async(server.address).await.unwrap();
        let stock = witness.transact_async(async |mut tx| Stock::create(&mut tx).await).await.unwrap();
        let see = async || witness.transact_async(async |mut tx| stock.see(&mut tx).await).await.unwrap();
        let mut before = see().await;
        for which in 0..OPERATIONS {
            for polls in 0.. {
                let client = Db::builder().cache_bytes(70_000).connect_async(server.address).await.unwrap();
                let transaction = client.transact_async(async |mut tx| {
                    let operated = drop_after(polls, stock.operate(&mut tx, which)).await.transpose()?;
                    if operated.is_none() && polls % 2 == 0 {
                        // This transaction does not look at what the dropped operation did: it waits next at its
                        // commit.
                        tx.create(Anywhere, &which).await?;
                        return Ok(None);
                    }
                    if operated.is_none() {
                        assert_eq!(stock.see(&mut tx).await?, before);
                    }
                    Ok(operated)
                });
                let operated = tokio::time::timeout(Duration::from_secs(20), transaction).await;
                let operated = operated.unwrap_or_else(|_| panic!("{which} dropped after {polls} polls: no end"));
                if operated.unwrap().is_some() {
                    break;
                }
                assert_eq!(see().await, before, "{which} dropped after {polls} polls");
            }
            before = see().await;
        }
    });
}
