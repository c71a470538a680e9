//! A journal beside a thing that is visited: a transaction that changes the thing appends to it.

use super::{Numbers, Work};
use crate::Result;
use crate::history::Step;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thorp::{AsyncTx, Db, Ref, Tx};
use workloads::Random;

/// The content of a thing when its journal was empty, and the clients that have changed it since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Journal<T> {
    pub(super) origin: T,
    pub(super) entries: Vec<u64>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Puts an empty one beside a thing.
    pub(super) async fn create<O>(tx: &mut AsyncTx, beside: Ref<O>, origin: T) -> thorp::Result<Ref<Self>> {
        tx.create(beside, &Self { origin, entries: Vec::new() }).await
    }

    /// Appends to it, if the visit writes; gives what was in it before.
    pub(super) async fn append(
        mut self,
        tx: &mut AsyncTx,
        at: Ref<Self>,
        value: Option<u64>,
    ) -> thorp::Result<Vec<u64>> {
        let before = self.entries.clone();
        if let Some(value) = value {
            self.entries.push(value);
            tx.put(at, &self).await?;
        }
        Ok(before)
    }
}

/// A visit: the thing's journal is read and, if the visit writes, appended to.
pub(super) fn plan(work: &Work, numbers: &mut Numbers, random: &mut Random) -> Vec<Step> {
    let key = work.keys.start + random.below((work.keys.end - work.keys.start) as usize) as u64;
    let append = random.chance(work.writes).then(|| Step::Append { key, value: numbers.next() });
    [Step::Read { key, found: None }].into_iter().chain(append).collect()
}

/// Carries a visit out by `visit`, which is given the thing and what should be appended, and gives what was in the
/// journal before, and how much was found half done.
pub(super) fn carry_out(
    steps: &mut [Step],
    visit: impl FnOnce(u64, Option<u64>) -> thorp::Result<(Vec<u64>, u64)>,
) -> thorp::Result<u64> {
    let [Step::Read { key, found }, rest @ ..] = steps else { unreachable!("a visit begins with a read") };
    let append = rest.first().and_then(|step| match step {
        Step::Append { value, .. } => Some(*value),
        Step::Read { .. } => None,
    });
    let (entries, half_done) = visit(*key, append)?;
    *found = Some(entries);
    Ok(half_done)
}

/// Returns what a job has made a name, under which [`found`] finds it.
pub(super) fn name<T: Serialize + DeserializeOwned>(db: &Db, name: &str, made: &T) -> Result {
    Ok(db.transact(|tx| {
        let object = tx.create(thorp::Anywhere, made)?;
        tx.set_root(name, object)
    })?)
}

/// The object that a job has made.
pub(super) fn found<T: Serialize + DeserializeOwned>(db: &Db, name: &str) -> Result<T> {
    let find = |tx: &mut Tx| match tx.root::<T>(name)? {
        Some(object) => tx.get(object).map(Some),
        None => Ok(None),
    };
    db.transact(find)?.ok_or_else(|| format!("the store holds nothing that goes by '{name}'").into())
}
