//! A home, as a cache uses it: one of its own process, one that it shares with others of this machine, or one
//! elsewhere.

use crate::ask::ask;
use crate::mapping::Mapping;
use crate::version_table::{Far, FarTable, Here, Near, Remote, VersionTable};
use homes::{Answer, Attached, Dependency, Home, Matches, NotStored, Proof, Question, Table, Ticket};
use net::Handle;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::timeout;

/// How long a home on another machine may take to store a response, as it may to answer a lookup.
const STORE_WITHIN: Duration = Duration::from_secs(1);

/// A cache's side of its home. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache(Way);

#[derive(Clone, Debug)]
enum Way {
    Here(Arc<Here>),
    Near(Arc<Remote>, Arc<Current>),
    Far(Arc<Remote>, FarTable),
}

/// The table of the home that was attached to last, if any was.
pub(crate) type Current = RwLock<Option<Arc<Table<Mapping>>>>;

impl Cache {
    pub(crate) fn here(home: Handle<Home>) -> Self {
        Self(Way::Here(Arc::new(Here::new(home))))
    }

    pub(crate) fn near(home: Handle<Attached>, current: Arc<Current>) -> Self {
        Self(Way::Near(Arc::new(Remote::new(home)), current))
    }

    pub(crate) fn far(home: Handle<Attached>, table: FarTable) -> Self {
        Self(Way::Far(Arc::new(Remote::new(home)), table))
    }

    /// Where lookups are answered, if the home is on another machine.
    pub(crate) fn far_table(&self) -> Option<&Arc<str>> {
        match &self.0 {
            Way::Here(_) | Way::Near(..) => None,
            Way::Far(_, table) => Some(table.address()),
        }
    }

    /// A ticket for a response that is about to be asked for. Without one it must not be stored: the home has no lease,
    /// or there is no home. One on another machine has to be asked ([`Cache::fetch_ticket`]).
    pub fn ticket(&self) -> Option<Ticket> {
        match &self.0 {
            Way::Here(here) => here.home.look(|home| home.ticket(here.home.driver().now())),
            Way::Near(home, current) => table(current)?.ticket(home.attached.driver().now()),
            Way::Far(..) => None,
        }
    }

    /// A ticket as [`Cache::ticket`] gives it, wherever the home is. One that does not answer in time gives none.
    pub async fn fetch_ticket(&self) -> Option<Ticket> {
        match &self.0 {
            Way::Here(_) | Way::Near(..) => self.ticket(),
            Way::Far(_, table) => table.ticket().await,
        }
    }

    /// Stores a response that was asked for after the ticket was given, with everything that it depends on:
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
                let (proof, lapses) = home.store(ticket, dependencies).await?;
                // If it is that of a later home, it does not know the proof.
                let table = table(current).ok_or(NotStored::Away)?;
                Ok(Claim(Place::Near(Box::new((Near { home: home.clone(), lapses, table }, proof)))))
            }
            Way::Far(home, table) => {
                // A request waits for it. The slot of one that comes later is given back.
                let stored = timeout(STORE_WITHIN, home.store(ticket, dependencies)).await;
                let (proof, lapses) = stored.unwrap_or(Err(NotStored::Away))?;
                let far = Far { home: home.clone(), lapses, table: table.clone() };
                Ok(Claim(Place::Far(Box::new((far, proof)))))
            }
        }
    }

    /// Nothing that was stored before is current any more.
    pub fn lapse_all(&self) {
        match &self.0 {
            Way::Here(here) => here.home.look(Home::lapse_all),
            // Others store there, too.
            Way::Near(home, _) | Way::Far(home, _) => home.lapse_all(),
        }
    }

    /// The slots of the stored responses that depend on it, as their proofs have them; `None` where the home is another
    /// process.
    pub fn slots_of<C: FromIterator<u32>>(&self, dependency: &Dependency) -> Option<C> {
        match &self.0 {
            Way::Here(here) => Some(here.home.look(|home| home.slots_of(dependency).collect())),
            Way::Near(..) | Way::Far(..) => None,
        }
    }

    /// How updates have named what is stored at the home, and a name that stored responses depend on; `None` where the
    /// home is another process.
    pub fn matches(&self) -> Option<(Matches, Option<Dependency>)> {
        match &self.0 {
            Way::Here(here) => Some(here.home.look(|home| (home.matches().clone(), home.named_dependency()))),
            Way::Near(..) | Way::Far(..) => None,
        }
    }

    /// The number of stored responses that depend on it.
    pub async fn dependents(&self, dependency: &Dependency) -> usize {
        match &self.0 {
            Way::Here(here) => here.home.look(|home| home.dependents(dependency)),
            Way::Near(home, _) | Way::Far(home, _) => home.dependents(dependency).await,
        }
    }
}

impl Remote {
    /// Stores a response; gives its proof, and the lapses that it was stored after.
    async fn store(&self, ticket: Ticket, dependencies: &[Dependency]) -> Result<(Proof, u64), NotStored> {
        let lapses = self.lapses();
        match ask(&self.attached, Question::Store(ticket, dependencies.to_vec())).await {
            Answer::Stored(outcome) => Ok((outcome?, lapses)),
            _ => Err(NotStored::Away),
        }
    }

    async fn dependents(&self, dependency: &Dependency) -> usize {
        match ask(&self.attached, Question::Count(dependency.clone())).await {
            Answer::Counted(count) => count as usize,
            _ => 0,
        }
    }

    async fn dependencies(&self, proof: Proof) -> Vec<Dependency> {
        match ask(&self.attached, Question::Describe(proof)).await {
            Answer::Described(dependencies) => dependencies,
            _ => Vec::new(),
        }
    }

    fn free(&self, proof: Proof) {
        self.attached.call(|home| home.free(proof));
    }
}

fn table(current: &Current) -> Option<Arc<Table<Mapping>>> {
    current.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The place of a stored response at its home, which is given back when this is dropped.
#[derive(Debug)]
pub struct Claim(Place);

/// A lookup branches on which it is: that is foreseen, where a call through a table of functions would not be inlined.
/// The parts of a proof stand singly, as a cache holds millions of them: so there is room for which of them it is.
#[derive(Debug)]
enum Place {
    Here { here: Arc<Here>, generation: u64, word: u64, slot: u32 },
    Near(Box<(Near, Proof)>),
    Far(Box<(Far, Proof)>),
}

const _: () = assert!(size_of::<Option<Claim>>() <= 32);

impl Claim {
    fn here(here: Arc<Here>, proof: Proof) -> Self {
        let Proof { generation, word, slot } = proof;
        Self(Place::Here { here, generation, word, slot })
    }

    /// Whether it shows at once that the response answers a request that has come before this call. A home on another
    /// machine has to be asked ([`Claim::look`]).
    #[inline]
    pub fn is_current(&self) -> bool {
        match &self.0 {
            Place::Here { here, .. } => here.is_current(&self.proof()),
            Place::Near(near) => near.0.is_current(&near.1),
            Place::Far(_) => false,
        }
    }

    /// Whether the response answers a request that has come before this call, wherever its home is. One that does not
    /// answer in time says nothing.
    pub async fn look(&self) -> bool {
        match &self.0 {
            Place::Here { .. } | Place::Near(_) => self.is_current(),
            Place::Far(far) => far.0.is_current(&far.1).await,
        }
    }

    /// The dependencies of the response; none if it is not current.
    pub async fn dependencies(&self) -> Vec<Dependency> {
        match &self.0 {
            Place::Here { here, .. } => here.home.look(|home| home.dependencies(self.proof())),
            Place::Near(near) => near.0.home.dependencies(near.1).await,
            Place::Far(far) => far.0.home.dependencies(far.1).await,
        }
    }

    /// The place that the response was stored with.
    #[inline]
    pub fn proof(&self) -> Proof {
        match &self.0 {
            Place::Here { generation, word, slot, .. } => Proof { generation: *generation, word: *word, slot: *slot },
            Place::Near(near) => near.1,
            Place::Far(far) => far.1,
        }
    }

    /// The same place as it is now: another proof when the response is not current. `None` if it is not to be seen from
    /// here.
    pub fn proof_now(&self) -> Option<Proof> {
        match &self.0 {
            Place::Here { here, slot, .. } => here.table.proof(*slot),
            Place::Near(near) => near.0.table.proof(near.1.slot),
            Place::Far(_) => None,
        }
    }

    /// The response does not answer any more, as far as this cache is concerned. A home in another process has learned
    /// of it before it learns of a change that is notified of after this.
    pub fn lapse(&self) {
        match &self.0 {
            Place::Here { here, .. } => here.home.look(|home| home.free(self.proof())),
            Place::Near(near) => near.0.home.free(near.1),
            Place::Far(far) => far.0.home.free(far.1),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lapse();
    }
}
