//! The connections of clients: how many there may be, and which make room for others.
//!
//! A connection without a request under way is idle: one that has just begun, one that is kept for the next request,
//! and one that has sent a part of a head. Where no more are allowed, the ones that have been idle for longest are
//! closed, as nginx does. A client that asks at once is served, then, however many connections others hold open.

use crate::activity::Activity;
use crate::limits::DISPLACED_MAX;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long connections that were told to make room are waited for, before others are told.
const DISPLACE_AGAIN: Duration = Duration::from_millis(50);

/// The connections that are open.
#[derive(Debug)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_number: BTreeMap<u64, Weak<Activity>>,
    by_address: HashMap<IpAddr, usize>,
}

/// The place of a connection, which it has until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

/// The connection's address has as many as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Connections {
    /// Room for `max` connections at a time.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { permits: Arc::new(Semaphore::new(max)), open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for a connection that has come, and makes room for it.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        peer: SocketAddr,
        per_address_max: Option<usize>,
    ) -> Result<Arc<Activity>, TooMany> {
        let address = network(peer.ip());
        let count = self.open().by_address.get(&address).copied().unwrap_or_default();
        if per_address_max.is_some_and(|max| count >= max) {
            return Err(TooMany);
        }
        let permit = self.permit().await;
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        *open.by_address.entry(address).or_default() += 1;
        let place = Place { connections: self.clone(), number, address, _permit: permit };
        let activity = Arc::new(Activity::at(Some(Box::new(place))));
        open.by_number.insert(number, Arc::downgrade(&activity));
        Ok(activity)
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = self.permits.clone().try_acquire_owned() {
                return permit;
            }
            self.displace();
            if let Ok(Ok(permit)) = timeout(DISPLACE_AGAIN, self.permits.clone().acquire_owned()).await {
                return permit;
            }
        }
    }

    /// Tells the connections that have been idle for longest to end. Several at a time: looking for them takes a look
    /// at all.
    fn displace(&self) {
        // When the last owner of an activity drops it, the lock is taken: none is dropped under it.
        let all: Vec<Arc<Activity>> = self.open().by_number.values().filter_map(Weak::upgrade).collect();
        let mut idle: Vec<_> = all.iter().filter_map(|activity| Some((activity.idle_since()?, activity))).collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        let count = DISPLACED_MAX.min(all.len() / 16).max(1);
        idle.iter().take(count).for_each(|(_, activity)| activity.displace());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.by_number.remove(&self.number);
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// The address that a client's connections are counted by: of IPv6 the network, as a client has all addresses of one.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::UnderWay;

    fn admit(connections: &Arc<Connections>, peer: &str, max: Option<usize>) -> Result<Arc<Activity>, TooMany> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(connections.admit(peer.parse().unwrap(), max))
    }

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let connections = Connections::new(100);
        let max = Some(2);
        let one = admit(&connections, "10.0.0.1:1", max).unwrap();
        let _two = admit(&connections, "[::ffff:10.0.0.1]:2", max).unwrap();
        assert_eq!(admit(&connections, "10.0.0.1:3", max).unwrap_err(), TooMany);
        let _other = admit(&connections, "10.0.0.2:1", max).unwrap();
        drop(one);
        let _three = admit(&connections, "10.0.0.1:3", max).unwrap();
        let _six = ["[2001:db8::1]:1", "[2001:db8::2]:1"].map(|peer| admit(&connections, peer, max).unwrap());
        assert_eq!(admit(&connections, "[2001:db8::3]:1", max).unwrap_err(), TooMany, "one network");
        assert!(admit(&connections, "[2001:db8:0:1::3]:1", max).is_ok());
    }

    #[test]
    fn the_oldest_idle_connection_makes_room() {
        let connections = Connections::new(3);
        let [busy, old, new] = [1, 2, 3].map(|port| admit(&connections, &format!("10.0.0.1:{port}"), None).unwrap());
        let _request = UnderWay::begin(busy.clone());
        // It has been served since, and is idle from now on.
        std::thread::sleep(Duration::from_millis(20));
        drop(UnderWay::begin(new.clone()));
        connections.displace();
        assert_eq!([busy, old, new].map(|activity| activity.is_displaced()), [false, true, false]);
    }
}
