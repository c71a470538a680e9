//! A take-over as the machine does it, with the copies that can be read: what it asks for happens in virtual time.

use crate::fleet::{Copy, Fleet};
use protocol::volumes::Listed;
use std::time::Duration;
use types::Time;
use volume::{
    Content, Entry, Epoch, Extent, FlushEpoch, FromHolder, HostId, Kept, PartitionId, Registered, Sequence, Source,
    Stamp, TakeOver, TakeOverConfig, TakeOverEffect, ToHolder, View, VolumeId,
};

/// The dirty data of a volume stands for one write: all of it is lost together or not at all.
fn dirty(epoch: Epoch) -> Entry {
    let stamp = Stamp { epoch, sequence: Sequence(1), flush: FlushEpoch(1) };
    Entry { stamp, extent: Extent { offset: 0, len: 1 } }
}

/// A volume, as the registry has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicated {
    pub(crate) volume: VolumeId,
    pub(crate) copies: u8,
    pub(crate) lease_s: f64,
}

/// The place of the dirty data beside the holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// None.
    Nothing,
    /// The log of the host: it was the owner.
    Log,
    /// Home has everything already.
    Home,
}

/// A volume whose owner does not answer, and the host that takes it over.
#[derive(Debug)]
pub(crate) struct Taking {
    machine: TakeOver,
    host: usize,
    view: View,
    /// The epoch of the dirty data.
    epoch: Epoch,
    holders: Vec<Copy>,
    /// Holders that a session is to be had with.
    wanted: Vec<PartitionId>,
    /// Those that there is one with, and the partition that answers in it.
    connected: Vec<(PartitionId, PartitionId)>,
    /// The data is on its way home, from there and until then.
    on_its_way: Option<(Source, f64)>,
    /// Home has it.
    is_home: bool,
    is_done: bool,
}

/// A run begins that long after the machines' clocks have: a host may have watched an owner for some time before.
const BEGIN_S: f64 = 1e6;

/// The time that one event is behind another that it must not come before, however times are rounded.
const SOON_S: f64 = 1e-6;

/// A time of a run, as the machines have it.
fn time(seconds: f64) -> Time {
    Time(((BEGIN_S + seconds) * 1e9) as u64)
}

impl Taking {
    /// A host takes over a volume with these holders, whose owner gave its last sign of life at `seen`.
    pub(crate) fn begin(seen: f64, volume: Replicated, host: usize, holders: Vec<Copy>, own: Own) -> Self {
        let Replicated { volume, copies, lease_s } = volume;
        let epoch = Epoch(1);
        let mut entry = Registered::new(1 << 30, copies, Duration::from_secs_f64(lease_s));
        // Nobody else has the number of a host that is gone.
        (entry.epoch, entry.owner) = (epoch, Some(HostId(u64::MAX)));
        entry.holders = holders.iter().map(|copy| copy.partition).collect();
        let view = View { revision: 1, entry };
        // One write stands for all: it takes longer than a holder may be silent for.
        let config =
            TakeOverConfig { silence: Duration::from_secs(86_400), ..TakeOverConfig::new(volume, HostId(host as u64)) };
        let mut machine = TakeOver::new(time(seen), config, view.clone());
        match own {
            Own::Nothing | Own::Home => {}
            Own::Log => machine = machine.with_own_log(epoch, vec![dirty(epoch)]),
        }
        Self {
            machine,
            host,
            view,
            epoch,
            holders,
            wanted: Vec::new(),
            connected: Vec::new(),
            on_its_way: None,
            is_home: own == Own::Home,
            is_done: false,
        }
    }

    pub(crate) fn host(&self) -> usize {
        self.host
    }

    /// Whether the data is home, and whether the volume has its new owner.
    pub(crate) fn is_home(&self) -> bool {
        self.is_home
    }

    /// See [`Taking::is_home`].
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether something is on its way home.
    pub(crate) fn is_under_way(&self) -> bool {
        self.on_its_way.is_some()
    }

    /// When it goes on by itself.
    pub(crate) fn next_at(&self) -> Option<f64> {
        let timeout = self.machine.poll_timeout().map(|at| at.0 as f64 / 1e9 - BEGIN_S + SOON_S);
        timeout.into_iter().chain(self.on_its_way.map(|(_, at)| at)).min_by(f64::total_cmp)
    }

    /// Goes on as far as it can now. `home_s` gives the time that the data takes to be home.
    pub(crate) fn go_on(&mut self, now: f64, fleet: &Fleet<'_>, home_s: &mut dyn FnMut() -> f64) {
        let at = time(now);
        self.look_at_holders(now, fleet);
        if let Some((source, _)) = self.on_its_way.take_if(|(_, at)| *at <= now) {
            let Entry { stamp, extent } = dirty(self.epoch);
            let kept = Kept { stamp, record: Some((extent, Content::Trim)) };
            match source {
                Source::Own => self.machine.kept(at, Source::Own, kept),
                Source::Holder(partition) => self.machine.heard(at, partition, FromHolder::Kept(kept)),
            }
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= at) {
            self.machine.handle_timeout(at);
        }
        while let Some(effect) = self.machine.poll_effect() {
            self.carry_out(now, effect, fleet, home_s);
        }
    }

    /// Sessions end and begin with what happens to the holders. A host whose device was replaced answers, too, as another
    /// partition.
    fn look_at_holders(&mut self, now: f64, fleet: &Fleet<'_>) {
        for partition in self.wanted.clone() {
            let host = self.holder(partition).host;
            let is_there = fleet.is_reached(now, host) && fleet.has_device(now, host);
            let answering = is_there.then(|| fleet.copy_at(host).partition);
            let before = self.connected.iter().find(|(it, _)| *it == partition).map(|(_, answering)| *answering);
            if answering == before {
                continue;
            }
            if before.is_some() {
                self.connected.retain(|(it, _)| *it != partition);
                self.on_its_way.take_if(|(source, _)| *source == Source::Holder(partition));
                self.machine.disconnected(time(now), partition);
            }
            if let Some(answering) = answering {
                self.connected.push((partition, answering));
                self.machine.connected(time(now), partition);
            }
        }
    }

    fn holder(&self, partition: PartitionId) -> Copy {
        *self
            .holders
            .iter()
            .find(|copy| copy.partition == partition)
            .expect("it speaks of the holders that it was told of")
    }

    fn carry_out(&mut self, now: f64, effect: TakeOverEffect, fleet: &Fleet<'_>, home_s: &mut dyn FnMut() -> f64) {
        let at = time(now);
        match effect {
            TakeOverEffect::Change(change) => {
                self.view = View { revision: self.view.revision + 1, entry: change.entry };
                self.machine.changed(at, Ok(self.view.clone()));
            }
            TakeOverEffect::FenceHome(_) => {
                let mark = if self.is_home { dirty(self.epoch).stamp } else { Stamp::begin(self.epoch) };
                self.machine.home_fenced(at, mark);
                if self.is_home {
                    // The operator is told which lists are missing, and knows that nothing is dirty.
                    self.machine.accept_loss(at);
                }
            }
            TakeOverEffect::Connect(partition) => {
                self.wanted.push(partition);
                self.look_at_holders(now, fleet);
            }
            TakeOverEffect::Send(partition, ToHolder::List(_)) => {
                let answering = fleet.copy_at(self.holder(partition).host).partition;
                let copies = if answering == partition { vec![dirty(self.epoch)] } else { Vec::new() };
                let listed = Listed { partition: answering, copies, is_last: true };
                self.machine.heard(at, partition, FromHolder::Listed(listed));
            }
            TakeOverEffect::Send(partition, ToHolder::Fetch(_)) => {
                self.on_its_way = Some((Source::Holder(partition), now + home_s()));
            }
            TakeOverEffect::ReadOwn(_) => self.on_its_way = Some((Source::Own, now + home_s())),
            TakeOverEffect::End(through) => {
                self.is_home |= through == dirty(self.epoch).stamp;
                self.machine.home_durable(at, through);
            }
            TakeOverEffect::Abort => self.on_its_way = None,
            TakeOverEffect::Done(_) => self.is_done = true,
            TakeOverEffect::Lost(epoch) => unreachable!("there is no other host that claims {epoch:?}"),
            TakeOverEffect::Begin(..)
            | TakeOverEffect::Write(_)
            | TakeOverEffect::Reconnect(..)
            | TakeOverEffect::Disconnect(_)
            | TakeOverEffect::Send(..)
            | TakeOverEffect::Missing(_) => {}
        }
    }
}
