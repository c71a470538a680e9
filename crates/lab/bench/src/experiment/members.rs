//! Two hundred members of one group, in virtual time: what a commit costs the redirector.

use super::row::{Row, Target};
use super::worker::{Clock, PATIENCE};
use crate::Result;
use objects::{Anywhere, Ref};
use sim::{Layout, Simulation};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use types::Time;

/// Commits that are counted: so many that the members' heartbeat, which are of time and not of commits, do not.
const COMMITS: u64 = 2000;

/// When the object is there, when its holders have read it, and when the commits begin.
const WRITTEN: Time = Time(1_000_000_000);
const HELD: Time = Time(2_000_000_000);
const COUNTED: Time = Time(4_000_000_000);

/// Messages that the redirector hears and says for one commit of an object that `holders` of `members` have cached.
fn messages_per_commit(members: usize, holders: usize) -> Result<f64> {
    let near = Duration::from_micros(20);
    let distances = sim::Distances { far: near, near };
    let layout = Layout { clients: members, groups: vec![(1..=members).collect()], distances, ..Layout::default() };
    let mut simulation = Simulation::laid_out(1, &layout);
    let traffic = simulation.redirector_traffic(0);
    let (object, counted) = (Rc::new(Cell::new(None::<Ref<u64>>)), Rc::new(RefCell::new(None)));
    for client in 1..=members {
        let (node, driver) = simulation.door(client);
        let clock = Clock::Virtual { driver: driver.clone(), traversal: Duration::ZERO };
        let db = objects::over(node, driver, PATIENCE);
        let (object, counted, traffic) = (object.clone(), counted.clone(), traffic.clone());
        simulation.spawn(client, async move {
            if client == 1 {
                clock.sleep_until(WRITTEN).await;
                let created = db.transact_async(async |mut tx| tx.create(Anywhere, &0_u64).await).await;
                let created = created.expect("nothing fails here");
                object.set(Some(created));
                clock.sleep_until(COUNTED).await;
                let before = traffic.heard() + traffic.said();
                for number in 0..COMMITS {
                    let put = db.transact_async(async |mut tx| tx.put(created, &number).await);
                    put.await.expect("nothing fails here");
                }
                *counted.borrow_mut() = Some(traffic.heard() + traffic.said() - before);
            } else if client <= holders {
                clock.sleep_until(HELD).await;
                let read = object.get().expect("it was written");
                db.transact_async(async |mut tx| tx.get(read).await).await.expect("nothing fails here");
                clock.sleep_until(COUNTED).await;
            } else {
                clock.sleep_until(COUNTED).await;
            }
        });
    }
    simulation.run_and_close().map_err(|violation| violation.to_string())?;
    let counted = counted.take().ok_or("the commits were not counted")?;
    Ok(counted as f64 / COMMITS as f64)
}

/// The cost of a commit in a small and in a large group, and with few and many holders.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let few = messages_per_commit(20, 10)?;
    let row = |case: &str, ours| Row::new("members", case, "msg", ours);
    Ok(vec![
        row("per commit, 10 of 20 members hold the page", few),
        row("per commit, 10 of 200 members hold the page", messages_per_commit(200, 10)?)
            .target(Target::AtMost((few * 1.1 * 1e3).round() / 1e3)),
        row("per commit, 100 of 200 members hold the page", messages_per_commit(200, 100)?),
    ])
}
