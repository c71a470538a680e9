//! A home, as a cache uses it: one of its own process, or one that it shares with others of this machine.

use crate::ask::ask;
use crate::call::Called;
use crate::mapping::Mapping;
use crate::version_table::{Here, Near, Remote, VersionTable};
use homes::{Answer, Attached, Dependency, Home, NotStored, Proof, Question, Table, Ticket};
use std::sync::{Arc, PoisonError, RwLock};

/// A cache's side of its home. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache(Way);

#[derive(Clone, Debug)]
enum Way {
    Here(Arc<Here>),
    Near(Arc<Remote>, Arc<Current>),
}

/// The table of the home that was attached to last, if any was.
pub(crate) type Current = RwLock<Option<Arc<Table<Mapping>>>>;

impl Cache {
    pub(crate) fn here(home: Called<Home>) -> Self {
        Self(Way::Here(Arc::new(Here::new(home))))
    }

    pub(crate) fn near(home: Called<Attached>, current: Arc<Current>) -> Self {
        Self(Way::Near(Arc::new(Remote::new(home)), current))
    }

    /// A ticket for a response that is about to be asked for. Without one it must not be stored: the home has no lease, or
    /// there is no home.
    pub fn ticket(&self) -> Option<Ticket> {
        match &self.0 {
            Way::Here(here) => here.home.look(|home| home.ticket(here.home.driver().now())),
            Way::Near(home, current) => table(current)?.ticket(home.attached.driver().now()),
        }
    }

    /// Stores a response that was asked for after the ticket was given, with all that it depends on:
    /// [`Dependency::ALL`] alone if nothing is known of that.
    ///
    /// # Errors
    /// Why it must not be stored. It is given to the request that has fetched it, and to no other.
    pub async fn store(&self, ticket: Ticket, dependencies: &[Dependency]) -> Result<Claim, NotStored> {
        match &self.0 {
            Way::Here(here) => {
                // The clock is read under the home's lock: a caller may have waited for that until the lease was over.
                let store = |home: &mut Home| home.store(here.home.driver().now(), ticket, dependencies);
                Ok(Claim::here(here.clone(), here.home.look(store)?))
            }
            Way::Near(home, current) => {
                let lapses = home.lapses();
                let answer = ask(&home.attached, Question::Store(ticket, dependencies.to_vec())).await;
                let Answer::Stored(outcome) = answer else { return Err(NotStored::Away) };
                // If it is that of a later home, it does not know the proof.
                let table = table(current).ok_or(NotStored::Away)?;
                Ok(Claim(Place::Near(Box::new((Near { home: home.clone(), lapses, table }, outcome?)))))
            }
        }
    }

    /// Nothing that was stored before is current any more.
    pub fn lapse_all(&self) {
        match &self.0 {
            Way::Here(here) => here.home.look(Home::lapse_all),
            // Others store there, too.
            Way::Near(home, _) => home.lapse_all(),
        }
    }

    /// The slots of the stored responses that depend on it, as their proofs have them; `None` where the home is another
    /// process.
    pub fn slots_of<C: FromIterator<u32>>(&self, dependency: &Dependency) -> Option<C> {
        match &self.0 {
            Way::Here(here) => Some(here.home.look(|home| home.slots_of(dependency).collect())),
            Way::Near(..) => None,
        }
    }

    /// The number of stored responses that depend on it.
    pub async fn dependents(&self, dependency: &Dependency) -> usize {
        match &self.0 {
            Way::Here(here) => here.home.look(|home| home.dependents(dependency)),
            Way::Near(home, _) => match ask(&home.attached, Question::Count(dependency.clone())).await {
                Answer::Counted(count) => count as usize,
                _ => 0,
            },
        }
    }
}

fn table(current: &Current) -> Option<Arc<Table<Mapping>>> {
    current.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The place of a stored response at its home, which is given back when this is dropped.
#[derive(Debug)]
pub struct Claim(Place);

/// A look-up branches on which it is: that is foreseen, where a call through a table of functions would not be inlined. The
/// parts of a proof stand singly, as a cache holds millions of them: so there is room for which of the two it is.
#[derive(Debug)]
enum Place {
    Here { here: Arc<Here>, generation: u64, word: u64, slot: u32 },
    Near(Box<(Near, Proof)>),
}

const _: () = assert!(size_of::<Option<Claim>>() <= 32);

impl Claim {
    fn here(here: Arc<Here>, proof: Proof) -> Self {
        let Proof { generation, word, slot } = proof;
        Self(Place::Here { here, generation, word, slot })
    }

    /// Whether the response answers a request that has come before this call.
    #[inline]
    pub fn is_current(&self) -> bool {
        match &self.0 {
            Place::Here { here, .. } => here.is_current(&self.proof()),
            Place::Near(near) => near.0.is_current(&near.1),
        }
    }

    /// The dependencies of the response; none if it is not current.
    pub async fn dependencies(&self) -> Vec<Dependency> {
        match &self.0 {
            Place::Here { here, .. } => here.home.look(|home| home.dependencies(self.proof())),
            Place::Near(near) => match ask(&near.0.home.attached, Question::Describe(near.1)).await {
                Answer::Described(dependencies) => dependencies,
                _ => Vec::new(),
            },
        }
    }

    /// The place that the response was stored with.
    #[inline]
    pub fn proof(&self) -> Proof {
        match &self.0 {
            Place::Here { generation, word, slot, .. } => Proof { generation: *generation, word: *word, slot: *slot },
            Place::Near(near) => near.1,
        }
    }

    /// The same place as it is now: another proof when the response is not current.
    pub fn proof_now(&self) -> Option<Proof> {
        match &self.0 {
            Place::Here { here, slot, .. } => here.table.proof(*slot),
            Place::Near(near) => near.0.table.proof(near.1.slot),
        }
    }

    /// The response does not answer any more, as far as this cache is concerned. A home in another process has heard of it
    /// before it hears of a change that is told of after this.
    pub fn lapse(&self) {
        match &self.0 {
            Place::Here { here, .. } => here.home.look(|home| home.free(self.proof())),
            Place::Near(near) => near.0.home.attached.call(|home| home.free(near.1)),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lapse();
    }
}
