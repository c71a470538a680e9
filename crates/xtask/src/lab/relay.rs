//! The thread that carries packets from place to place.
//!
//! ```text
//!   devices ── read ──► network.send(now) ... network.deliver(now) ── write ──► devices
//!       └───────── waits for: a packet, the next one due, the lab's end ──────────┘
//! ```
//! It sleeps until there is something to do, and asks the kernel to be woken on time: as important as can be, and
//! without the 50 us by which the kernel may otherwise put a wake-up off to save energy.

use super::network::{Network, Place};
use super::worker::Worker;
use crate::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::PipeReader;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The packets that are read from one device at a time, before the others and those that are due get their turn.
const BATCH_PACKETS: usize = 64;

/// More than the devices' 1500 bytes, in case somebody sets one to more.
const PACKET_BYTES_MAX: usize = 1 << 16;

/// The network, as the relay and the control socket share it.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Network>>);

impl Shared {
    pub(super) fn new(network: Network) -> Self {
        Self(Arc::new(Mutex::new(network)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Network> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts to carry packets between the devices, which are in the order of their places.
pub(super) fn start(devices: Vec<File>, network: Shared) -> Result<Worker> {
    Worker::start("relay", move |stop| {
        be_punctual();
        if let Err(error) = (Relay { devices, network }).run(&stop) {
            eprintln!("lab: the relay has ended, nothing arrives any more: {error}");
        }
    })
}

/// Both make it more exact and neither is needed, so a refusal is no failure.
fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    // Linux takes this for the calling thread alone.
    let _ = rustix::process::setpriority_process(None, -20);
}

struct Relay {
    devices: Vec<File>,
    network: Shared,
}

impl Relay {
    fn run(&self, stop: &PipeReader) -> rustix::io::Result<()> {
        let mut sources = vec![PollFd::new(stop, PollFlags::IN)];
        sources.extend(self.devices.iter().map(|device| PollFd::new(device, PollFlags::IN)));
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        loop {
            self.wait(&mut sources)?;
            let (stop, devices) = sources.split_at(1);
            if !stop[0].revents().is_empty() {
                return Ok(());
            }
            for (place, device) in devices.iter().enumerate() {
                if !device.revents().is_empty() {
                    self.take_in(place, &mut buffer)?;
                }
            }
            self.hand_out();
        }
    }

    /// Waits until a packet comes or is due.
    fn wait(&self, sources: &mut [PollFd<'_>]) -> rustix::io::Result<()> {
        let next_due = self.network.lock().next_due();
        let within = next_due.map(|due| due.saturating_duration_since(Instant::now()));
        let within = within.and_then(|within| Timespec::try_from(within).ok());
        match poll(sources, within.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The packets that a place has sent go onto their way.
    fn take_in(&self, from: Place, buffer: &mut [u8]) -> rustix::io::Result<()> {
        let mut network = self.network.lock();
        for _ in 0..BATCH_PACKETS {
            match rustix::io::read(&self.devices[from], &mut *buffer) {
                Ok(length) => network.send(Instant::now(), from, buffer[..length].into()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                // Nobody but this process has the device: somebody at the place has taken it away.
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The packets that have come to the end of their way go to their place.
    fn hand_out(&self) {
        let mut network = self.network.lock();
        while let Some((to, packet)) = network.deliver(Instant::now()) {
            // A place that cannot take a packet loses it, as on any network.
            let _ = rustix::io::write(&self.devices[to], &packet);
        }
    }
}
