//! A takeover as the machine does it, with the copies that can be read: what it asks for happens in virtual time.

use crate::reliability::fleet::{Copy, Fleet};
use crate::reliability::replicated::{Replicated, host_id};
use crate::reliability::world::World;
use machines::messages::holder::{Leaving, Listed};
use machines::{
    Change, Content, FromHolder, Kept, PartitionId, Source, Stamp, TakeOver, TakeOverConfig, TakeOverEffect, ToHolder,
    View,
};
use std::time::Duration;
use types::Time;

/// The host that takes a volume over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The owner, which was away and is back with its log.
    Owner(Copy),
    /// A holder, which leaves the volume to nobody.
    Holder(Copy),
    /// Some host, where an operator attaches the volume.
    Operator(usize),
}

impl Taker {
    pub(crate) fn host(self) -> usize {
        match self {
            Self::Owner(copy) | Self::Holder(copy) => copy.host,
            Self::Operator(host) => host,
        }
    }

    /// Whether its process runs: one whose device is gone ends.
    pub(crate) fn works(self, now: f64, fleet: &Fleet<'_>) -> bool {
        match self {
            Self::Owner(copy) | Self::Holder(copy) => fleet.serves(now, copy),
            Self::Operator(host) => fleet.is_reached(now, host),
        }
    }
}

/// A volume whose owner does not answer, and the host that takes it over.
#[derive(Debug)]
pub(crate) struct Taking {
    machine: TakeOver,
    taker: Taker,
    /// The copies that there were: the owner's first.
    copies: Vec<Copy>,
    /// Holders that a session should be had with.
    wanted: Vec<PartitionId>,
    /// Those that there is one with, and the partition that answers in it.
    connected: Vec<(PartitionId, PartitionId)>,
    /// The change of the registry that the store should make when it is there, whether home should say what it keeps of
    /// that, and whether it is to learn of the epoch.
    change: Option<Change>,
    is_asking: bool,
    is_fencing: bool,
    /// The data is on its way home, from there and until then.
    on_its_way: Option<(Source, f64)>,
    /// The writes of the write-back under way.
    written: Vec<Stamp>,
    /// The lists that it waits for, if the operator was told so; none of them if it is the log of the owner.
    missing: Option<Vec<PartitionId>>,
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
    /// A host takes over a volume with these copies, the owner's first, whose owner gave its last heartbeat at `seen`.
    pub(crate) fn begin(seen: f64, volume: &Replicated, taker: Taker, copies: Vec<Copy>, world: &World) -> Box<Self> {
        let config = TakeOverConfig {
            keeps: !matches!(taker, Taker::Holder(_)),
            silence: Duration::from_secs_f64(world.silence_s),
            broken: world.broken,
            ..TakeOverConfig::new(volume.volume, host_id(taker.host()))
        };
        let mut machine = TakeOver::new(time(seen), config, volume.view.clone());
        if matches!(taker, Taker::Owner(_)) {
            let entries = if volume.is_dirty() { vec![volume.acknowledged()] } else { Vec::new() };
            machine = machine.with_own_log(volume.epoch(), entries);
        }
        Box::new(Self {
            machine,
            taker,
            copies,
            wanted: Vec::new(),
            connected: Vec::new(),
            change: None,
            is_asking: false,
            is_fencing: false,
            on_its_way: None,
            written: Vec::new(),
            missing: None,
            is_done: false,
        })
    }

    pub(crate) fn taker(&self) -> Taker {
        self.taker
    }

    /// Whether the owner, if it comes back, need not wait for the end of this.
    pub(crate) fn gives_way(&self) -> bool {
        !matches!(self.taker, Taker::Owner(_)) && (self.machine.is_watching() || self.missing.is_some())
    }

    /// Whether the machine has said that all is written back.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// When it continues by itself.
    pub(crate) fn next_at(&self) -> Option<f64> {
        let timeout = self.machine.poll_timeout().map(|at| at.0 as f64 / 1e9 - BEGIN_S + SOON_S);
        timeout.into_iter().chain(self.on_its_way.map(|(_, at)| at)).min_by(f64::total_cmp)
    }

    /// Goes on as far as it can now. `write_back_s` gives the time that the data takes to be home.
    pub(crate) fn go_on(
        &mut self,
        now: f64,
        fleet: &Fleet<'_>,
        volume: &mut Replicated,
        write_back_s: &mut dyn FnMut() -> f64,
    ) {
        let at = time(now);
        self.look_at_holders(now, fleet);
        self.look_at_store(now, fleet, volume);
        if let Some((source, _)) = self.on_its_way.take_if(|(_, at)| *at <= now) {
            let entry = volume.acknowledged();
            let kept = Kept { stamp: entry.stamp, record: Some((entry.extent, Content::Trim)) };
            match source {
                Source::Own => self.machine.kept(at, Source::Own, kept),
                Source::Holder(partition) => self.machine.heard(at, partition, FromHolder::Kept(kept)),
            }
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= at) {
            self.machine.handle_timeout(at);
        }
        loop {
            while let Some(effect) = self.machine.poll_effect() {
                self.carry_out(now, effect, fleet, volume, write_back_s);
            }
            // The operator gives up what cannot come back, and nothing else.
            if !self.missing.as_ref().is_some_and(|missing| self.is_gone(missing, fleet)) {
                return;
            }
            self.missing = None;
            self.machine.accept_loss(at);
        }
    }

    /// Whether the devices with these lists are gone, and that with the owner's log is, or is here.
    fn is_gone(&self, missing: &[PartitionId], fleet: &Fleet<'_>) -> bool {
        let has_log = matches!(self.taker, Taker::Owner(_)) || !fleet.has(self.copies[0]);
        has_log && !missing.iter().any(|partition| fleet.has(self.holder(*partition)))
    }

    /// Sessions end and begin with what happens to the holders. A host whose device was replaced answers, too, as
    /// another partition.
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

    /// The store with the home and the registry does what it was asked when it is there. Data on its way when it goes
    /// away has to be sent again.
    fn look_at_store(&mut self, now: f64, fleet: &Fleet<'_>, volume: &mut Replicated) {
        if !fleet.has_home(now) {
            if self.on_its_way.take().is_some() {
                self.machine.home_failed(time(now));
            }
            return;
        }
        if let Some(change) = self.change.take() {
            volume.view = View { revision: volume.view.revision + 1, entry: change.entry };
            self.machine.changed(time(now), Ok(volume.view.clone()));
        }
        if std::mem::take(&mut self.is_asking) {
            self.machine.home_keeps(time(now), 0);
        }
        if std::mem::take(&mut self.is_fencing) {
            self.machine.home_fenced(time(now), volume.mark());
        }
    }

    fn holder(&self, partition: PartitionId) -> Copy {
        *self
            .copies
            .iter()
            .find(|copy| copy.partition == partition)
            .expect("it speaks of the holders that it was told of")
    }

    fn carry_out(
        &mut self,
        now: f64,
        effect: TakeOverEffect,
        fleet: &Fleet<'_>,
        volume: &mut Replicated,
        write_back_s: &mut dyn FnMut() -> f64,
    ) {
        let at = time(now);
        match effect {
            TakeOverEffect::Change(change) => {
                self.change = Some(change);
                self.look_at_store(now, fleet, volume);
            }
            TakeOverEffect::AskHome => {
                self.is_asking = true;
                self.look_at_store(now, fleet, volume);
            }
            TakeOverEffect::FenceHome(_) => {
                self.is_fencing = true;
                self.look_at_store(now, fleet, volume);
            }
            TakeOverEffect::Connect(partition) => {
                self.wanted.push(partition);
                self.look_at_holders(now, fleet);
            }
            TakeOverEffect::Send(partition, ToHolder::List(_)) => {
                let answering = fleet.copy_at(self.holder(partition).host).partition;
                let has_copy = answering == partition && volume.is_at(partition);
                let copies = if has_copy { vec![volume.acknowledged()] } else { Vec::new() };
                // An operator who is asked to do without lists sees which of them are still missing.
                if let Some(missing) = self.missing.as_mut().filter(|it| it.len() > 1) {
                    missing.retain(|it| *it != answering);
                }
                let listed = Listed { partition: answering, home: Stamp::ZERO, copies, is_last: true };
                self.machine.heard(at, partition, FromHolder::Listed(listed));
            }
            TakeOverEffect::Send(partition, ToHolder::Fetch(_)) => {
                self.on_its_way = Some((Source::Holder(partition), now + write_back_s()));
                // One write stands for many, which come one after another: the holder is never silent.
                self.machine.heard(at, partition, FromHolder::Leaving(Leaving));
            }
            TakeOverEffect::ReadOwn(_) => self.on_its_way = Some((Source::Own, now + write_back_s())),
            TakeOverEffect::Begin(..) => self.written.clear(),
            TakeOverEffect::Write(record) => self.written.push(record.stamp),
            TakeOverEffect::End(through) => {
                volume.install(&self.written, through);
                self.machine.home_durable(at, through);
            }
            TakeOverEffect::Abort => (self.on_its_way, self.written) = (None, Vec::new()),
            TakeOverEffect::Missing(missing) => self.missing = Some(missing),
            TakeOverEffect::Done(_) => self.is_done = true,
            TakeOverEffect::Lost(epoch) => unreachable!("there is no other host that claims {epoch:?}"),
            TakeOverEffect::RegistryBack => unreachable!("this registry never goes back"),
            TakeOverEffect::Reconnect(..)
            | TakeOverEffect::Disconnect(_)
            | TakeOverEffect::Send(..)
            | TakeOverEffect::HomeWentBack(_) => {}
        }
    }
}
