//! Over TCP: a hub, two homes and an updater, each in a host of its own.

use homes::messages::hub::{HOME, HUB};
use homes::{Dependency, Home, HomeConfig, Hub, HubConfig, Proof, Updater};
use machine::{Driver, RoleId, Waiter};
use net::{Host, ListenConfig, Machines, Runtime, Shared, UpstreamConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A machine that has its server at this address.
struct Near<M> {
    machine: Shared<M>,
    driver: Arc<dyn Driver>,
    _host: Arc<Host>,
}

impl<M: machine::Machine> Near<M> {
    fn start(machine: M, hub: SocketAddr, runtime: &Runtime) -> Self {
        let mut machines = Machines::new();
        let (role, machine) = machines.add(machine);
        let host = Host::start(machines, runtime);
        let driver = host.driver(role);
        host.connect(role, UpstreamConfig::new(HOME, hub.to_string()));
        Self { machine, driver, _host: host }
    }

    fn call<R>(&self, call: impl FnOnce(&mut M) -> R) -> R {
        let answer = call(self.machine.lock().unwrap().machine());
        self.driver.settle();
        answer
    }

    fn wait_until(&self, what: &str, mut is_so: impl FnMut(&mut M) -> bool) {
        let begun = Instant::now();
        while !self.call(&mut is_so) {
            assert!(begun.elapsed() < PATIENCE, "{what} takes too long");
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Near<Updater> {
    fn wait_released(&self, id: u64) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        self.wait_until("the release", |updater| {
            self.driver.wake_on(Waiter(id), &waker);
            updater.is_released(self.driver.now(), id)
        });
        self.driver.forget(Waiter(id));
    }
}

impl Near<Home> {
    fn store(&self, dependency: &Dependency) -> Proof {
        let mut proof = None;
        self.wait_until("a ticket", |home| {
            let ticket = home.ticket(self.driver.now());
            proof =
                ticket.and_then(|ticket| home.store(self.driver.now(), ticket, std::slice::from_ref(dependency)).ok());
            proof.is_some()
        });
        proof.unwrap()
    }

    fn is_current(&self, proof: &Proof) -> bool {
        self.call(|home| home.table()).is_current(proof, || self.driver.now())
    }
}

#[test]
fn an_update_is_released_when_no_home_answers_for_what_it_changes() {
    let runtime = Runtime::start().unwrap();
    let mut machines = Machines::new();
    let config = HubConfig { lease: Duration::from_millis(500), succeeds: None, ..HubConfig::default() };
    machines.add(Hub::new(config));
    let hub = Host::start(machines, &runtime);
    let listen = ListenConfig::new(HUB, "127.0.0.1:0".parse().unwrap());
    let address = hub.listen(RoleId::ONLY, listen).unwrap();

    let homes = [1, 2].map(|life| {
        let config = HomeConfig { slots: 16, ..HomeConfig::new(life << 32) };
        Near::start(Home::new(config), address, &runtime)
    });
    let updater = Near::start(Updater::new(3), address, &runtime);
    let [item, other] = ["item:1", "item:2"].map(|name| Dependency::new(name).unwrap());

    for _ in 0..50 {
        let stored = homes.each_ref().map(|home| home.store(&item));
        let kept = homes[0].store(&other);
        let update = updater.call(|updater| updater.update(vec![item.clone()]));
        updater.wait_released(update);
        assert!(homes.iter().zip(&stored).all(|(home, proof)| !home.is_current(proof)));
        assert!(homes[0].is_current(&kept), "what depends on something else stays");
        homes[0].call(|home| home.free(kept));
        updater.call(|updater| updater.visible(update));
    }

    // Leases continue by themselves; the lookup is that of another thread than the home's.
    let proof = homes[0].store(&item);
    thread::sleep(Duration::from_secs(2));
    assert!(homes[0].is_current(&proof));

    // A home that is gone is waited for as long as its lease, and no longer.
    let [first, second] = homes;
    drop(second);
    let begun = Instant::now();
    let update = updater.call(|updater| updater.update(vec![item]));
    updater.wait_released(update);
    assert!(begun.elapsed() < Duration::from_secs(2) && !first.is_current(&proof));
}
