//! Sessions for lookups that belong to one thread, and are received by it.
//!
//! ```text
//!   shared:  thread --> the table's home --> a thread that waits for sockets --wakes--> thread
//!   own:     thread --> the table's home --> thread
//! ```
//! A lookup is as slow as the threads that have to be woken for it: on a machine with other work to do, each of them
//! waits its turn. A thread that serves many clients with one runtime waits for its sockets anyway, and the answer is
//! one of them.

use homes::LookUps;
use net::Handle;
use net::{Host, Machines, Runtime, UpstreamConfig};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    /// The sessions of this thread, by where the lookups are answered. There are as many as a cache has homes.
    static OWN: RefCell<Vec<(Arc<str>, Handle<LookUps>)>> = const { RefCell::new(Vec::new()) };
}

/// The sessions of a thread, which are its own as long as this is there. To be dropped where it was made.
pub struct ThreadTables {
    addresses: Vec<Arc<str>>,
    of_thread: PhantomData<*const ()>,
}

impl ThreadTables {
    /// Opens sessions with these tables on the runtime of this thread; none outside of one.
    pub(crate) fn open<'a>(tables: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let addresses = Runtime::current().map_or_else(Vec::new, |runtime| {
            tables
                .map(|address| {
                    let mut machines = Machines::new();
                    let (role, table) = machines.add(LookUps::new());
                    let host = Host::start(machines, &runtime);
                    let table = Handle::new(table, host.driver(role));
                    let upstream = UpstreamConfig::new(homes::messages::look_ups::CACHE, &**address);
                    host.connect(role, upstream);
                    OWN.with_borrow_mut(|own| own.push((address.clone(), table)));
                    address.clone()
                })
                .collect()
        });
        Self { addresses, of_thread: PhantomData }
    }
}

impl Drop for ThreadTables {
    fn drop(&mut self) {
        let gone = OWN.with_borrow_mut(|own| {
            own.extract_if(.., |(address, _)| self.addresses.iter().any(|own| Arc::ptr_eq(own, address)))
                .collect::<Vec<_>>()
        });
        drop(gone);
    }
}

impl fmt::Debug for ThreadTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadTables").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// This thread's own session with a table, if it is up.
pub(crate) fn own(address: &Arc<str>) -> Option<Handle<LookUps>> {
    OWN.with_borrow(|own| {
        let (_, table) = own.iter().find(|(other, _)| Arc::ptr_eq(other, address))?;
        table.look(|table| table.is_up()).then(|| table.clone())
    })
}
