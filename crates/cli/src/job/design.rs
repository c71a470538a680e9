//! Walks through a real design: from a window or a door to everything that it is made of; those that write change one
//! of its properties.
//!
//! A change never touches what refers to what, so each walk from one element must come by the same entities.

use super::journal::{self, Journal};
use super::{Calls, Job, Numbers, Work};
use crate::Result;
use crate::commands::load_file;
use crate::history::Step;
use designs::Object;
use serde::{Deserialize, Serialize};
use std::path::Path;
use thorp::{Db, Ref, wait_for};
use workloads::Random;
use workloads::design::{change, walk};

/// The design's name in its store, and the one that its elements go by.
const DESIGN: &str = "model";
const NAME: &str = "demo/elements";

/// Journals are made so many at a time.
const BATCH: usize = 25;

/// The result of a walk: how many entities, and the sum of their numbers.
type Walked = (u64, u64);

/// A design, and a journal for each element that walks begin at: what the first walk came by.
#[derive(Serialize, Deserialize)]
pub(crate) struct Design {
    entities: u64,
    elements: Vec<(Ref<Object>, Ref<Journal<Walked>>)>,
}

impl Design {
    /// Loads a file.
    pub(crate) fn load(db: &Db, file: &Path) -> Result<Self> {
        let design = load_file(db, file, DESIGN)?;
        let all = wait_for(db.transact_async(async |mut tx| design.elements(&mut tx).await))?;
        if all.is_empty() {
            return Err(format!("{} has no entities to walk to", file.display()).into());
        }
        let mut elements = Vec::new();
        for batch in all.chunks(BATCH) {
            let made = db.transact_async(async |mut tx| {
                let mut made = Vec::new();
                for &element in batch {
                    let walked = walk(&mut tx, element).await?;
                    let origin = (walked.entities, walked.numbers);
                    made.push((element, Journal::create(&mut tx, element, origin).await?));
                }
                Ok(made)
            });
            elements.extend(wait_for(made)?);
        }
        let design = Self { entities: design.count, elements };
        journal::name(db, NAME, &design)?;
        Ok(design)
    }

    /// The one that was loaded.
    pub(super) fn find(db: &Db) -> Result<Self> {
        journal::found(db, NAME)
    }

    /// The description of it, for a person.
    pub(crate) fn describe(&self) -> String {
        format!("A design of {} entities, {} of them windows and doors.", self.entities, self.elements.len())
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> u64 {
        self.elements.len() as u64
    }

    /// Walks from an element, as one transaction: what was in its journal before, and whether it came by what the
    /// first walk came by.
    fn walk(&self, db: &Db, key: u64, append: Option<u64>) -> thorp::Result<(Vec<u64>, u64)> {
        let (element, at) = self.elements[key as usize];
        wait_for(db.transact_async(async |mut tx| {
            let journal = tx.get(at).await?;
            let walked = walk(&mut tx, element).await?;
            if let Some(number) = append {
                change(&mut tx, &walked, &mut Random::new(number)).await?;
            }
            let half_done = (walked.entities, walked.numbers) != journal.origin;
            Ok((journal.append(&mut tx, at, append).await?, half_done.into()))
        }))
    }
}

impl Job for Design {
    fn plan(&self, work: &Work, numbers: &mut Numbers, random: &mut Random) -> Vec<Step> {
        journal::plan(work, numbers, random)
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step], calls: &mut Calls) -> thorp::Result<u64> {
        let half_done = journal::carry_out(steps, |key, append| self.walk(db, key, append));
        calls.next();
        half_done
    }
}
