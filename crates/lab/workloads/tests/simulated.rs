//! OO7 by several clients in virtual time, over a network and a store that fail.

use objects::{Db, Ref, Result};
use sim::Simulation;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use workloads::Random;
use workloads::oo7::{Module, Size, Traversal, build, traverse};

const CLIENTS: usize = 3;
const ROUNDS: usize = 8;
const SIZE: Size = Size { composite_parts: 5, atomic_parts: 10, levels: 3, document_bytes: 1500, ..Size::SMALL };
/// Longer than any simulated run.
const PATIENCE: Duration = Duration::from_secs(1 << 20);

/// The knowledge that the clients share beside the store.
#[derive(Default)]
struct Known {
    module: RefCell<Option<Ref<Module>>>,
    waiting: RefCell<Vec<Waker>>,
    /// The balance of each composite part, without its sign.
    balances: RefCell<BTreeMap<u64, u64>>,
}

impl Known {
    async fn module(&self) -> Ref<Module> {
        poll_fn(|context| {
            self.module.borrow().map(Poll::Ready).unwrap_or_else(|| {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            })
        })
        .await
    }

    fn is_built(&self, module: Ref<Module>) {
        *self.module.borrow_mut() = Some(module);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// Traverses a part and now and then changes all of it. Returns the part's number and its balance.
async fn round(db: &Db, module: Ref<Module>, seed: u64) -> Result<(u64, i64)> {
    let (composite, visited) = db
        .transact_async(async |mut tx| {
            let mut random = Random::new(seed);
            let composite = Module::pick(&mut tx, module, &mut random).await?;
            let traversal = [Traversal::T1, Traversal::T2b, Traversal::T2b, Traversal::T3a][random.below(4)];
            let visited = traverse(&mut tx, module, composite, traversal).await?;
            // A transaction sees the store as of one moment, even if it can never commit.
            assert_eq!(visited.parts, u64::from(SIZE.atomic_parts));
            Ok((u64::from(tx.get(composite).await?.id), visited))
        })
        .await?;
    Ok((composite, visited.balance))
}

async fn client(db: Db, number: u64, known: Rc<Known>) {
    if number == 0 {
        let module = build(&db, 1, SIZE, 7, |_| {}).await.expect("the module is built");
        known.is_built(module);
    }
    let module = known.module().await;
    for n in 0..ROUNDS as u64 {
        let (part, balance) = round(&db, module, number * 1000 + n).await.expect("the round commits");
        let first = *known.balances.borrow_mut().entry(part).or_insert(balance.unsigned_abs());
        assert_eq!(balance.unsigned_abs(), first, "part {part} was seen when it was half changed");
    }
}

#[test]
fn a_part_is_never_seen_half_changed() {
    for seed in 0..40 {
        let mut simulation = Simulation::new(seed, CLIENTS);
        let known = Rc::new(Known::default());
        for number in 0..CLIENTS {
            let (node, driver) = simulation.door(number + 1);
            simulation.spawn(number + 1, client(objects::over(node, driver, PATIENCE), number as u64, known.clone()));
        }
        simulation.run().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!(known.balances.borrow().len() > 1, "seed {seed}: hardly anything was traversed");
    }
}
