//! A holder brings home what a silent host has left of a volume, by itself: nobody has to attach the volume for that,
//! and its copies are not the only ones for longer than need be.
//!
//! ```text
//!   registry --view of each volume with copies here--> watch: is it silent? --> take_over, one volume at a time
//! ```
//! 1. A host that only starts again should continue with its own log, so it has a while. Silence is counted as long as
//!    the registry is reached: nobody shows a heartbeat to one that is away.
//! 2. Where a volume has several holders, the first in the registry begins, and the next one when that one would have
//!    claimed the volume by then.
//! 3. Copies that others have and do not give are not waited for long: another host may want the volume, and it is
//!    tried again later.

use super::HostedHolder;
use crate::far::FarHome;
use crate::takeover::{TakeOverError, TakeOverSettings, TakeOverWord, take_over};
use machines::{View, VolumeId};
use net::Runtime;
use registry::Registry;
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often to look which volumes are silent.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A rescue that lacks something is given up after this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// One that was given up is tried again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(120);

/// How a holder brings volumes home.
#[derive(Clone, Debug)]
pub struct RescueSettings {
    /// The registry. Its handle is for this alone.
    pub registry: Arc<dyn Registry>,
    /// The threads of the sessions with holders and with home.
    pub runtime: Runtime,
    /// A host that is silent for longer is considered gone.
    pub after: Duration,
}

/// A word for people on a volume that is brought home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RescueWord {
    /// This is so on the way. The first word is that it is claimed: its host is silent.
    On(TakeOverWord),
    /// It is written back, and nobody has it.
    Home,
    /// It is not, for this reason. It is tried again later if that is needed.
    GivenUp(String),
}

/// Looks after volumes, until it is dropped.
pub(super) struct Rescue {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rescue {
    pub(super) fn begin(
        holder: Arc<HostedHolder>,
        settings: RescueSettings,
        say: impl Fn(VolumeId, RescueWord) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let end = ends.clone();
        let watch = move || {
            let mut watch = Watch { holder, settings, say: &say, seen: HashMap::new() };
            // A panic of `say` is its own, and ends no other's rescue.
            while !end.load(SeqCst) {
                if catch_unwind(AssertUnwindSafe(|| watch.run(&end))).is_err() {
                    thread::sleep(LOOK_EVERY);
                }
            }
        };
        let thread = thread::Builder::new().name("holder-rescue".to_owned()).spawn(watch)?;
        Ok(Self { ends, thread: Some(thread) })
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

/// The last heartbeat of a volume's host.
struct Seen {
    revision: u64,
    since: Instant,
    /// It is not tried before.
    not_before: Instant,
}

struct Watch<'a> {
    holder: Arc<HostedHolder>,
    settings: RescueSettings,
    say: &'a (dyn Fn(VolumeId, RescueWord) + Sync),
    seen: HashMap<VolumeId, Seen>,
}

impl Watch<'_> {
    fn run(&mut self, ends: &AtomicBool) {
        while !ends.load(SeqCst) {
            let volumes = self.holder.volumes();
            self.seen.retain(|volume, _| volumes.contains(volume));
            for volume in volumes {
                if ends.load(SeqCst) {
                    return;
                }
                if let Ok(view) = self.settings.registry.view(volume)
                    && self.is_silent(Instant::now(), volume, &view)
                {
                    self.rescue(volume, ends);
                }
            }
            self.settings.registry.wait(LOOK_EVERY);
        }
    }

    /// Whether a volume that counts copies here has a host of which nothing was heard for long enough.
    fn is_silent(&mut self, now: Instant, volume: VolumeId, view: &View) -> bool {
        let after = view.entry.rescue_after(self.holder.partition, self.settings.after);
        let (Some(after), Some(reached)) = (after, self.holder.registry_since()) else {
            self.seen.remove(&volume);
            return false;
        };
        let new = Seen { revision: view.revision, since: now, not_before: now };
        let seen = self.seen.entry(volume).or_insert(new);
        if seen.revision != view.revision {
            (seen.revision, seen.since) = (view.revision, now);
        }
        let silence = now.saturating_duration_since(seen.since.max(reached));
        now >= seen.not_before && silence >= after
    }

    fn rescue(&mut self, volume: VolumeId, ends: &AtomicBool) {
        let word = match self.bring_home(volume, ends) {
            Ok(()) => RescueWord::Home,
            // It has a host, or another holder was first.
            Err(Failed::Others) => return,
            Err(Failed::Away) => {
                if let Some(seen) = self.seen.get_mut(&volume) {
                    seen.since = Instant::now();
                }
                return;
            }
            Err(Failed::Lacks(why)) => {
                if let Some(seen) = self.seen.get_mut(&volume) {
                    seen.not_before = Instant::now() + AGAIN_AFTER;
                }
                RescueWord::GivenUp(why)
            }
        };
        (self.say)(volume, word);
    }

    fn bring_home(&self, volume: VolumeId, ends: &AtomicBool) -> Result<(), Failed> {
        let RescueSettings { registry, runtime, .. } = &self.settings;
        let home = registry.home_address(volume).map_err(TakeOverError::from)?;
        let home = FarHome::connect(&home, volume, runtime).map_err(|_| Failed::Away)?;
        let settings = TakeOverSettings::homeward(registry.clone(), runtime.clone(), home)?;
        // Since when something is missing.
        let lacks = Cell::new(None::<Instant>);
        let is_given_up = || ends.load(SeqCst) || lacks.get().is_some_and(|since| since.elapsed() >= PATIENCE);
        let brought = take_over(&settings, None, &is_given_up, &mut |word| {
            match word {
                TakeOverWord::Missing { .. } | TakeOverWord::HomeWentBack(_) | TakeOverWord::Home(_) => {
                    lacks.set(lacks.get().or_else(|| Some(Instant::now())));
                }
                TakeOverWord::GoesOn => lacks.set(None),
                _ => {}
            }
            if !matches!(word, TakeOverWord::Watches { .. }) {
                (self.say)(volume, RescueWord::On(word));
            }
        });
        Ok(brought.map(drop)?)
    }
}

/// Why a volume was not brought home.
enum Failed {
    /// Others look after it.
    Others,
    /// The registry or home is unreachable.
    Away,
    /// It lacks something.
    Lacks(String),
}

impl From<TakeOverError> for Failed {
    fn from(error: TakeOverError) -> Self {
        match error {
            TakeOverError::Lives | TakeOverError::Lost(_) => Self::Others,
            TakeOverError::Registry(_) => Self::Away,
            TakeOverError::Stopped => {
                Self::Lacks(format!("not all of it could be had within {} s", PATIENCE.as_secs()))
            }
            error => Self::Lacks(error.to_string()),
        }
    }
}
