//! The steps that can come next.

use super::host::{Host, Role};
use super::run::World;
use crate::violation::{Check, ensure};
use core::time::Duration;
use std::mem;

/// A step takes up to twice as long as this.
const STEP: Duration = Duration::from_micros(30);

/// The longest that a host sleeps, in leases.
const SLEEP_LEASES: u64 = 3;

/// How much more often the usual happens than trouble.
const USUAL: u64 = 5;

#[derive(Clone, Copy, Debug)]
enum Act {
    Write,
    Flush,
    Read,
    Resize,
    Detach,
    Append,
    Found,
    ToPeer,
    ToHost,
    Orphan,
    Connect,
    Sync,
    HomeCall,
    HomeWork,
    HomeAnswer,
    Change,
    Outcome,
    Watch,
    PeerWatch,
    Members,
    TakeOver,
    AcceptLoss,
    Heal,
    StartPeer,
    KillHost,
    LoseLog,
    FailLog,
    LoseTail,
    CopyCache,
    CutHost,
    Sleep,
    CrashPeer,
    LoseDevice,
    RestorePeer,
    RewindPeer,
    LoseCopies,
    DropLink,
    CrashHome,
    RestoreHome,
    Leave,
    RollBack,
}

impl World {
    /// One thing happens.
    pub(crate) fn step(&mut self) -> Check {
        self.now = self.now + self.rng.around(STEP);
        self.tick();
        let act = self.draw_act();
        let host = self.pick_host();
        let peer = self.rng.index(self.peers.len());
        self.act(act, host, peer)?;
        mem::replace(&mut self.found, Ok(()))?;
        self.check()
    }

    /// Mostly one that does something with the volume.
    fn pick_host(&mut self) -> usize {
        let busy: Vec<_> = (0..self.hosts.len()).filter(|&host| !matches!(self.hosts[host].role, Role::Idle)).collect();
        let any = self.rng.index(self.hosts.len());
        if busy.is_empty() || self.rng.chance(200) { any } else { busy[self.rng.index(busy.len())] }
    }

    fn draw_act(&mut self) -> Act {
        let scenario = &self.scenario;
        let troubles = scenario.troubles;
        let storm = u64::from(!self.is_calm);
        // Parts of their sum; what cannot happen just now is a step in which nothing does.
        let usual = [
            (Act::Write, scenario.write * storm),
            (Act::Flush, 6 * storm),
            (Act::Read, 12),
            (Act::Append, 25),
            (Act::Found, 15),
            (Act::ToPeer, 50),
            (Act::ToHost, 50),
            (Act::Orphan, 8),
            (Act::Connect, 20),
            (Act::Sync, scenario.sync),
            (Act::HomeCall, 20),
            (Act::HomeWork, 50),
            (Act::HomeAnswer, 20),
            (Act::Change, 15),
            (Act::Outcome, 15),
            (Act::Watch, 8),
            (Act::PeerWatch, 6),
            (Act::Members, 6),
            (Act::TakeOver, 6),
        ];
        let rare = [
            (Act::AcceptLoss, if self.is_calm { 5 } else { scenario.accept_loss }),
            (Act::Heal, 10),
            (Act::StartPeer, 15),
            (Act::Resize, troubles.resize),
            (Act::Detach, troubles.detach),
            (Act::KillHost, troubles.kill_host),
            (Act::LoseLog, troubles.lose_log),
            (Act::FailLog, troubles.fail_log),
            (Act::LoseTail, troubles.lose_tail),
            (Act::CopyCache, troubles.copy_cache),
            (Act::CutHost, troubles.cut_host),
            (Act::Sleep, troubles.sleep),
            (Act::CrashPeer, troubles.crash_peer),
            (Act::LoseDevice, troubles.lose_device),
            (Act::RestorePeer, troubles.restore_peer),
            (Act::RewindPeer, troubles.rewind_peer),
            (Act::LoseCopies, troubles.lose_copies),
            (Act::DropLink, troubles.drop_link),
            (Act::CrashHome, troubles.crash_home),
            (Act::RestoreHome, troubles.restore_home),
            (Act::Leave, troubles.leave),
            (Act::RollBack, troubles.roll_back),
        ];
        let acts: Vec<_> = usual.map(|(act, weight)| (act, weight * USUAL)).into_iter().chain(rare).collect();
        let sum: u64 = acts.iter().map(|(_, weight)| weight).sum();
        let mut at = self.rng.below(sum);
        for (act, weight) in acts {
            if at < weight {
                return act;
            }
            at -= weight;
        }
        Act::Read
    }

    fn act(&mut self, act: Act, host: usize, peer: usize) -> Check {
        let is_awake = self.hosts[host].is_awake(self.now);
        let reaches = is_awake && !self.hosts[host].is_cut;
        let calls = reaches && !self.hosts[host].is_apart;
        match act {
            Act::Write if is_awake => self.write(host),
            Act::Flush if is_awake => self.flush(host),
            Act::Read if is_awake => return self.read(host),
            Act::Resize if is_awake => self.resize(host),
            Act::Detach if is_awake => self.detach(host),
            Act::Append if is_awake => self.append(host),
            Act::Found if is_awake => self.own_read(host),
            Act::ToPeer if reaches => self.send_to_peer(host),
            Act::ToHost if reaches => self.send_to_host(host),
            Act::Orphan => self.orphan(),
            Act::Connect if reaches => self.connect(host),
            Act::Sync => self.sync(peer),
            Act::HomeCall if calls => self.home_call(host),
            Act::HomeWork => self.home_work(),
            Act::HomeAnswer if calls => self.home_answer(host),
            Act::Change if calls => self.change(host),
            Act::Outcome if is_awake => self.outcome(host),
            Act::Watch if calls => self.watch(host),
            Act::PeerWatch => self.peer_watch(peer),
            Act::Members if reaches => self.members(host),
            Act::TakeOver if calls => self.take_over(host),
            Act::AcceptLoss if is_awake => self.accept_loss(host),
            Act::Heal => (self.hosts[host].is_cut, self.hosts[host].is_apart) = (false, false),
            Act::StartPeer => self.start_peer(peer),
            Act::KillHost => self.kill_host(host, false),
            Act::LoseLog => self.kill_host(host, true),
            Act::FailLog if is_awake => self.fail_log(host),
            Act::LoseTail => self.lose_tail(host),
            Act::CopyCache => self.copy_cache(host),
            Act::CutHost => {
                let is_apart = self.rng.chance(500);
                (self.hosts[host].is_cut, self.hosts[host].is_apart) = (!is_apart, is_apart);
                self.note(&[2, host as u64], || {
                    format!("h{host} is cut off{}", if is_apart { " from home and the registry" } else { "" })
                });
            }
            Act::Sleep => {
                let longest = self.scenario.lease.as_nanos() as u64 * SLEEP_LEASES;
                let length = Duration::from_nanos(self.rng.below(longest));
                self.hosts[host].asleep_until = self.now + length;
                self.note(&[3, host as u64], || format!("h{host} sleeps for {length:?}"));
            }
            Act::CrashPeer => self.crash_peer(peer),
            Act::LoseDevice => self.lose_device(peer),
            Act::RestorePeer => self.restore_peer(peer),
            Act::RewindPeer => self.rewind_peer(peer),
            Act::LoseCopies => self.lose_copies(peer),
            Act::DropLink => self.drop_link(host),
            Act::CrashHome => self.crash_home(),
            Act::RestoreHome => self.restore_home(),
            Act::Leave => self.leave(peer),
            Act::RollBack => self.roll_back(),
            _ => {}
        }
        Ok(())
    }

    /// The invariants of every step.
    fn check(&mut self) -> Check {
        let now = self.now;
        let may_read = |host: &Host| matches!(&host.role, Role::Owner(owner) if owner.may_read(host.clock(now)));
        let owners: Vec<_> = (0..self.hosts.len()).filter(|&host| may_read(&self.hosts[host])).collect();
        ensure(owners.len() <= 1, "one owner", || format!("hosts {owners:?} answer reads"))?;
        let image = self.house.after_crash(&mut self.rng);
        self.truth.home(&image)
    }

    /// Everything is done that is due by each host's clock.
    fn tick(&mut self) {
        for host in 0..self.hosts.len() {
            let it = &mut self.hosts[host];
            let clock = it.clock(self.now);
            if !it.is_awake(self.now) {
                continue;
            }
            match &mut it.role {
                Role::Owner(owner) if owner.poll_timeout().is_some_and(|at| at <= clock) => owner.handle_timeout(clock),
                Role::TakeOver(it) if it.poll_timeout().is_some_and(|at| at <= clock) => it.handle_timeout(clock),
                _ => continue,
            }
            self.drain(host);
        }
    }
}
