//! The demo on a real design: engineers pick a window or a door, walk to everything that it is made of, and change one of
//! its properties now and then.
//!
//! A change never touches what refers to what, so each walk from one element must come by the same entities.

use super::Subject;
use crate::Result;
use crate::commands::design::load_with_bar;
use crate::crew::{Crew, Job};
use crate::history::Step;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use thorp::{Anywhere, Db, Ref, wait_for};
use workloads::Random;
use workloads::design::{Object, change, walk};

/// The design's name in its store.
const NAME: &str = "model";

/// The share of walks that change something.
const WRITERS: f64 = 1.0 / 3.0;

/// Every other walk begins at one of so few elements, so that the clients meet.
const HOT_ELEMENTS: usize = 12;

type Journal = Ref<Vec<u64>>;

/// A design, and a journal for each element that walks begin at.
pub(super) struct Design {
    entities: u64,
    elements: Vec<(Ref<Object>, Journal)>,
    /// What the first walk from each element came by: how many entities, and the sum of their numbers.
    walks: Mutex<HashMap<u64, (u64, u64)>>,
    /// Walks that came by something else.
    torn: AtomicU64,
}

impl Design {
    /// Loads a file.
    pub(super) fn load(db: &Db, file: &Path) -> Result<Self> {
        let design = load_with_bar(db, file, NAME)?.design;
        let elements = wait_for(db.transact_async(async |mut tx| {
            let mut elements = Vec::new();
            for element in design.elements(&mut tx).await? {
                elements.push((element, tx.create(Anywhere, &Vec::new()).await?));
            }
            Ok(elements)
        }))?;
        if elements.is_empty() {
            return Err(format!("{} has no entities to walk to", file.display()).into());
        }
        Ok(Self { entities: design.count, elements, walks: Mutex::default(), torn: AtomicU64::new(0) })
    }

    /// Walks from an element, as one transaction: what was in its journal before.
    fn walk(&self, db: &Db, key: u64, append: Option<u64>) -> thorp::Result<Vec<u64>> {
        let (element, journal) = self.elements[key as usize];
        let walked = db.transact_async(async |mut tx| {
            let entries = tx.get(journal).await?;
            let walked = walk(&mut tx, element).await?;
            if let Some(number) = append {
                change(&mut tx, &walked, &mut Random::new(number)).await?;
                let longer: Vec<u64> = entries.iter().copied().chain([number]).collect();
                tx.put(journal, &longer).await?;
            }
            Ok((entries, (walked.entities, walked.numbers)))
        });
        let (entries, walked) = wait_for(walked)?;
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        if *walks.entry(key).or_insert(walked) != walked {
            self.torn.fetch_add(1, Ordering::Relaxed);
        }
        Ok(entries)
    }
}

impl Job for Design {
    fn plan(&self, crew: &Crew, random: &mut Random) -> Vec<Step> {
        let count = self.elements.len();
        let among = if random.chance(0.5) { HOT_ELEMENTS.min(count) } else { count };
        Step::visit(random.below(among) as u64, random.chance(WRITERS).then(|| crew.number()))
    }

    fn carry_out(&self, db: &Db, steps: &mut [Step]) -> thorp::Result<()> {
        Step::carry_out_visit(steps, |key, append| self.walk(db, key, append))
    }
}

impl Subject for Design {
    fn describe(&self) -> String {
        format!("A design of {} entities, {} of them windows and doors.", self.entities, self.elements.len())
    }

    fn inspect(&self, db: &Db) -> Result<(HashMap<u64, Vec<u64>>, u64)> {
        let visited: Vec<u64> = self.walks.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        let journals = visited.into_iter().map(|key| Ok((key, self.walk(db, key, None)?)));
        Ok((journals.collect::<Result<_>>()?, self.torn.load(Ordering::Relaxed)))
    }
}
