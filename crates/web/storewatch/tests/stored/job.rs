//! A transaction of a client, which is tried until it commits.

use bytes::Bytes;
use client::{Client, Read, TxnHandle, Write};
use coherence::Dependency;
use messages::Outcome;
use sim::Processes;
use std::collections::{BTreeMap, BTreeSet};
use types::{ObjectId, PageId};

/// How often each object was changed, as a response shows it, or must.
pub(crate) type Counts = BTreeMap<u64, u64>;

/// A transaction of a client, which is tried until it commits.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) objects: BTreeSet<u64>,
    pub(crate) is_spread: bool,
    pub(crate) writes: bool,
    pub(crate) txn: Option<TxnHandle>,
    pub(crate) is_committing: bool,
    pub(crate) seen: Counts,
    pub(crate) names: Vec<Dependency>,
}

/// Each node of several has a page with an object, so that a commit may change pages of two nodes.
fn object(number: u64, is_spread: bool) -> ObjectId {
    let page = if is_spread { number as u32 } else { 0 };
    ObjectId::new(PageId::new(0, page), number as u16 + 1)
}

/// A transaction gets a step further; says whether it has committed.
pub(crate) fn go_on(world: &mut Processes, name: &str, job: &mut Job) -> bool {
    let txn = *job.txn.get_or_insert_with(|| {
        (job.is_committing, job.seen) = (false, Counts::new());
        world.call(name, |client: &mut Client, _| client.begin()).expect("clients live")
    });
    let outcome = world.call(name, |client: &mut Client, now| {
        if job.is_committing {
            return Some(client.outcome(txn));
        }
        for &number in &job.objects {
            if job.seen.contains_key(&number) {
                continue;
            }
            let count = match client.read(now, txn, object(number, job.is_spread)) {
                Ok(Read::Wait) => return None,
                Ok(Read::Absent) => 0,
                Ok(Read::Value(bytes)) => u64::from_le_bytes(bytes.try_into().expect("a count")),
                Err(error) => return Some(Err(error)),
            };
            let count = count + u64::from(job.writes);
            let value = Bytes::copy_from_slice(&count.to_le_bytes());
            match job.writes.then(|| client.write(now, txn, object(number, job.is_spread), value)) {
                None | Some(Ok(Write::Done)) => job.seen.insert(number, count),
                Some(Ok(Write::Wait | Write::Full)) => return None,
                Some(Err(error)) => return Some(Err(error)),
            };
        }
        job.names = match client.reads(txn) {
            Ok(reads) => names(&reads),
            Err(error) => return Some(Err(error)),
        };
        job.is_committing = true;
        match client.commit(now, txn) {
            Ok(_) => Some(client.outcome(txn)),
            Err(error) => Some(Err(error)),
        }
    });
    match outcome.flatten() {
        None | Some(Ok(None)) => false,
        Some(Ok(Some(Outcome::Committed { .. }))) => {
            job.txn = None;
            true
        }
        Some(Ok(Some(Outcome::Refused(_) | Outcome::Unknown)) | Err(_)) => {
            world.call(name, |client: &mut Client, now| client.abort(now, txn));
            job.txn = None;
            false
        }
    }
}

fn names(reads: &[(PageId, types::SlotSet)]) -> Vec<Dependency> {
    let objects = reads.iter().flat_map(|(page, slots)| slots.iter().map(|slot| ObjectId::new(*page, slot)));
    objects.map(|object| Dependency::new(object.name()).unwrap()).collect()
}

/// The higher of each count.
pub(crate) fn raise(counts: &mut Counts, by: &Counts) {
    for (&number, &count) in by {
        let known = counts.entry(number).or_default();
        *known = count.max(*known);
    }
}
