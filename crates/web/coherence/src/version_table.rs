//! The version table of a home, wherever that is, as a stored response's lookup needs it.

use crate::ask::look;
use crate::mapping::Mapping;
use crate::one_sided::OneSided;
use crate::thread_tables::own;
use homes::{Attached, Found, Home, LookUps, Proof, Table, Ticket, Wanted};
use net::Handle;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A version table that is read in place.
pub(crate) trait VersionTable {
    /// Whether a stored response answers a request that has come before this call.
    fn is_current(&self, proof: &Proof) -> bool;
}

/// The table of a home in this process.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) home: Handle<Home>,
    pub(crate) table: Arc<Table>,
}

/// The way to the homes of another process that come and go.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) attached: Handle<Attached>,
    /// How often everything that this cache has stored has lapsed. The home keeps it: it is others' home, too.
    lapses: AtomicU64,
}

impl Remote {
    pub(crate) fn new(attached: Handle<Attached>) -> Self {
        Self { attached, lapses: AtomicU64::new(0) }
    }

    pub(crate) fn lapses(&self) -> u64 {
        self.lapses.load(Acquire)
    }

    /// Nothing that was stored before is current any more.
    pub(crate) fn lapse_all(&self) {
        self.lapses.fetch_add(1, Release);
    }
}

/// The table of a home in another process of this machine, for what was stored since so many lapses.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    pub(crate) home: Arc<Remote>,
    pub(crate) lapses: u64,
    pub(crate) table: Arc<Table<Mapping>>,
}

impl Here {
    pub(crate) fn new(home: Handle<Home>) -> Self {
        let table = home.look(|home| home.table());
        Self { home, table }
    }
}

impl VersionTable for Here {
    #[inline]
    fn is_current(&self, proof: &Proof) -> bool {
        self.table.is_current(proof, || self.home.driver().now())
    }
}

impl VersionTable for Near {
    #[inline]
    fn is_current(&self, proof: &Proof) -> bool {
        // The clock is the machine's, and so the home's.
        self.home.lapses() == self.lapses && self.table.is_current(proof, || self.home.attached.driver().now())
    }
}

/// The table of a home on another machine, for what was stored since so many lapses: it is asked about.
#[derive(Clone, Debug)]
pub(crate) struct Far {
    pub(crate) home: Arc<Remote>,
    pub(crate) lapses: u64,
    pub(crate) table: FarTable,
}

/// The way to that table.
#[derive(Clone, Debug)]
pub(crate) struct FarTable {
    /// Where lookups are answered.
    address: Arc<str>,
    /// The session of all threads that have none of their own.
    look_ups: Handle<LookUps>,
    /// It is read without its home's processor, where that can be.
    one_sided: Option<OneSided>,
}

impl FarTable {
    pub(crate) fn new(address: &str, look_ups: Handle<LookUps>, one_sided: Option<OneSided>) -> Self {
        Self { address: address.into(), look_ups, one_sided }
    }

    /// Where lookups are answered.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// Looks up by the session of this thread, where that is up: nobody else has to be woken for the answer then.
    async fn look(&self, wanted: Wanted) -> Found {
        match own(&self.address) {
            Some(own) => look(&own, wanted).await,
            None => look(&self.look_ups, wanted).await,
        }
    }

    /// A ticket of a time after this call.
    pub(crate) async fn ticket(&self) -> Option<Ticket> {
        match self.look(Wanted::Ticket).await {
            Found::Ticket(ticket) => ticket,
            Found::Current(_) => None,
        }
    }

    async fn is_current(&self, proof: &Proof) -> bool {
        if let Some(one_sided) = &self.one_sided
            && let Some(is_current) = one_sided.look(*proof).await
        {
            return is_current;
        }
        self.look(Wanted::Look(*proof)).await == Found::Current(true)
    }
}

impl Far {
    /// Whether a stored response answers a request that has come before this call: its word is read after it.
    pub(crate) async fn is_current(&self, proof: &Proof) -> bool {
        self.table.is_current(proof).await && self.home.lapses() == self.lapses
    }
}
