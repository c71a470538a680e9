//! A machine of this process that talks to homes elsewhere: calls to it, and waits for what comes of them.

use super::FarError;
use machine::{Machine, RoleId, Waiter};
use net::{ConnectError, Handle, Host, HostEnd, Machines, Runtime, UpstreamConfig, UpstreamState};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use types::Time;

/// How often to look whether anybody still wants what is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether nobody wants any more what is waited for.
pub type GivenUp = Arc<dyn Fn() -> bool + Send + Sync>;

/// A machine that callers wait for.
pub(super) trait Awaited: Machine {
    /// Whether its host has ended: nothing will ever come of anything.
    fn is_over(&self) -> bool;
}

/// The machine, with the host that drives it.
pub(super) struct Line<M> {
    pub(super) machine: Handle<M>,
    host: Arc<Host>,
    address: String,
    /// A home that is away is waited for this long.
    pub(super) patience: Duration,
    /// Nothing is waited for when this says so.
    given_up: Option<GivenUp>,
}

impl<M: Awaited> Line<M> {
    /// Starts the machine, and the search for homes at this address.
    pub(super) fn open(
        address: &str,
        machine: M,
        patience: Duration,
        runtime: &Runtime,
        given_up: Option<GivenUp>,
    ) -> Result<Self, FarError> {
        let upstream = UpstreamConfig::parse(machines::messages::home::OWNER, address)
            .map_err(|error| FarError::Address(error.to_string()))?;
        let mut machines = Machines::new();
        let (role, machine) = machines.add(machine);
        let host = Host::start(machines, runtime);
        let (machine, address) = (Handle::new(machine, host.driver(role)), upstream.addresses.join(","));
        host.connect(role, upstream);
        Ok(Self { machine, host, address, patience, given_up })
    }

    /// Where homes are reached.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The time of the machine.
    pub(super) fn now(&self) -> Time {
        self.machine.driver().now()
    }

    /// How its host has ended, if it has.
    pub(super) fn end(&self) -> Option<HostEnd> {
        self.host.end()
    }

    /// Calls the machine, and carries out the results.
    pub(super) fn call<R>(&self, call: impl FnOnce(&mut M) -> R) -> R {
        self.machine.call(call)
    }

    fn look<R>(&self, call: impl FnOnce(&mut M) -> R) -> R {
        self.machine.look(call)
    }

    /// Returns whether nobody wants any more what is waited for, if that may be.
    pub(super) fn given_up(&self) -> Option<&dyn Fn() -> bool> {
        self.given_up.as_deref().map(|is_given_up| is_given_up as &dyn Fn() -> bool)
    }

    /// Waits until the machine has what is looked for; for as long as there is patience while nothing comes.
    pub(super) fn wait<T>(&self, waiter: Waiter, look: impl FnMut(&mut M) -> Option<T>) -> Result<T, FarError> {
        self.wait_unless(self.given_up(), waiter, look)
    }

    /// The same for as long as somebody wants it.
    pub(super) fn wait_unless<T>(
        &self,
        given_up: Option<&dyn Fn() -> bool>,
        waiter: Waiter,
        mut look: impl FnMut(&mut M) -> Option<T>,
    ) -> Result<T, FarError> {
        let (until, waker) = (Instant::now() + self.patience, Waker::from(Arc::new(Unpark(thread::current()))));
        loop {
            let (found, is_over) = self.look(|machine| (look(machine), machine.is_over()));
            match found {
                Some(found) => return Ok(found),
                None if is_over => return Err(self.over()),
                None => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            let is_given_up = given_up.is_some_and(|is_given_up| is_given_up());
            if left.is_zero() || is_given_up {
                self.machine.driver().forget(waiter);
                return Err(if is_given_up { FarError::GivenUp } else { self.away() });
            }
            self.machine.driver().wake_on(waiter, &waker);
            thread::park_timeout(if given_up.is_some() { left.min(LOOK_EVERY) } else { left });
        }
    }

    /// Homes are not there, and why.
    pub(super) fn away(&self) -> FarError {
        match self.host.server_state(RoleId::ONLY) {
            UpstreamState::Down(ConnectError::NotThorp { address, why })
            | UpstreamState::Over(ConnectError::NotThorp { address, why }) => FarError::NoHomes(address, why),
            UpstreamState::Down(why) | UpstreamState::Over(why) => FarError::Away(why.to_string()),
            UpstreamState::Connecting | UpstreamState::Up(_) => FarError::Lost(self.address.clone()),
        }
    }

    /// Nothing is answered any more, and why.
    pub(super) fn over(&self) -> FarError {
        let end = self.host.end();
        FarError::Host(end.map_or_else(|| "the volume is closed".to_owned(), |end| format!("{end:?}")))
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
