//! The hosts of a site, their devices and racks, and the home: what of them works at a time.

use crate::reliability::chance::Chance;
use crate::reliability::world::{Failure, World};
use machines::{Circle, Member, PartitionId, VolumeId};

/// A host.
#[derive(Clone, Copy, Debug)]
struct Host {
    rack: usize,
    /// The device that it has, by the number of its partition: another device has another number.
    device: PartitionId,
    /// It works again from then on.
    down_until: f64,
    /// It has a device again from then on.
    bare_until: f64,
}

/// A rack.
#[derive(Clone, Copy, Debug)]
struct Rack {
    dark_until: f64,
    apart_until: f64,
}

/// A copy: a partition, and the host that it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) host: usize,
    pub(crate) partition: PartitionId,
}

/// The hosts of a site.
#[derive(Clone, Debug)]
pub(crate) struct Fleet<'a> {
    world: &'a World,
    hosts: Vec<Host>,
    racks: Vec<Rack>,
    /// The home and the registry are there again from then on.
    home_away_until: f64,
    devices: u64,
}

/// Room at each host, and the most of it that a volume could need.
const ROOM: u64 = 50 << 30;

/// Before all times: nothing has failed yet.
const EVER: f64 = f64::NEG_INFINITY;

impl<'a> Fleet<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let count = world.hosts();
        let host = |number: usize| Host {
            rack: number / world.hosts_per_rack as usize,
            device: PartitionId(number as u64 + 1),
            down_until: EVER,
            bare_until: EVER,
        };
        let rack = Rack { dark_until: EVER, apart_until: EVER };
        let (hosts, racks) = ((0..count).map(host).collect(), vec![rack; world.racks as usize]);
        Self { world, hosts, racks, home_away_until: EVER, devices: count as u64 }
    }

    /// The copy that a host would have now.
    pub(crate) fn copy_at(&self, host: usize) -> Copy {
        Copy { host, partition: self.hosts[host].device }
    }

    pub(crate) fn rack(&self, host: usize) -> usize {
        self.hosts[host].rack
    }

    /// Whether a host works, and reaches the others, and the home if that is there.
    pub(crate) fn is_reached(&self, now: f64, host: usize) -> bool {
        now >= self.reached_from(host)
    }

    /// Since when it does, or from when on if nothing more fails.
    pub(crate) fn reached_from(&self, host: usize) -> f64 {
        let Host { rack, down_until, .. } = self.hosts[host];
        let Rack { dark_until, apart_until } = self.racks[rack];
        down_until.max(dark_until).max(apart_until)
    }

    /// Since when the home and the registry are there, or from when on if nothing more fails.
    pub(crate) fn home_from(&self) -> f64 {
        self.home_away_until
    }

    /// Whether they are there now.
    pub(crate) fn has_home(&self, now: f64) -> bool {
        now >= self.home_away_until
    }

    /// Whether the device that had a copy is still there, its host working or not.
    pub(crate) fn has(&self, copy: Copy) -> bool {
        self.hosts[copy.host].device == copy.partition
    }

    /// Whether a copy can be read or written now.
    pub(crate) fn serves(&self, now: f64, copy: Copy) -> bool {
        self.has(copy) && self.has_device(now, copy.host) && self.is_reached(now, copy.host)
    }

    /// When a copy can be read again if nothing more fails; never if its device is gone.
    pub(crate) fn serves_from(&self, copy: Copy) -> Option<f64> {
        self.has(copy).then(|| self.reached_from(copy.host).max(self.hosts[copy.host].bare_until))
    }

    pub(crate) fn has_device(&self, now: f64, host: usize) -> bool {
        now >= self.hosts[host].bare_until
    }

    /// A host that can attach a volume, at random.
    pub(crate) fn any_host(&self, now: f64, chance: &mut Chance) -> Option<usize> {
        let fit: Vec<_> =
            (0..self.hosts.len()).filter(|&host| self.is_reached(now, host) && self.has_device(now, host)).collect();
        (!fit.is_empty()).then(|| fit[chance.index(fit.len())])
    }

    /// The partitions that keep copies of a volume beside its owner's, as the circle chooses them; fewer if there are
    /// not so many hosts.
    pub(crate) fn targets(&self, now: f64, volume: VolumeId, owner: usize, taken: &[Copy], count: usize) -> Vec<Copy> {
        let fit = |&host: &usize| self.is_reached(now, host) && self.has_device(now, host);
        let member = |host: usize| Member {
            partition: self.hosts[host].device,
            domain: self.hosts[host].rack as u64,
            free: ROOM,
            copies: 1,
            is_nearly_full: false,
        };
        let circle = Circle::new((0..self.hosts.len()).filter(fit).map(member).collect());
        let taken: Vec<_> = taken.iter().map(|copy| copy.partition).collect();
        let targets = circle.targets(volume, self.hosts[owner].rack as u64, &taken, count);
        let host = |partition| self.hosts.iter().position(|host| host.device == partition);
        targets.into_iter().filter_map(|partition| Some(Copy { host: host(partition)?, partition })).collect()
    }

    /// Something fails.
    pub(crate) fn fail(&mut self, now: f64, failure: Failure, source: usize, chance: &mut Chance) {
        let until = now + chance.exponential(self.world.rate(failure).lasts_s);
        match failure {
            Failure::Node => self.hosts[source].down_until = self.hosts[source].down_until.max(until),
            Failure::Device => self.lose_device(source, until),
            Failure::Power => self.racks[source].dark_until = self.racks[source].dark_until.max(until),
            Failure::Partition => self.racks[source].apart_until = self.racks[source].apart_until.max(until),
            Failure::Burst => {
                self.racks.iter_mut().for_each(|rack| rack.dark_until = rack.dark_until.max(until));
                self.home_away_until = self.home_away_until.max(until);
            }
            Failure::Home => self.home_away_until = self.home_away_until.max(until),
        }
    }

    /// The hosts whose power such a failure takes.
    pub(crate) fn without_power(&self, failure: Failure, source: usize) -> Vec<usize> {
        let is_one = |&host: &usize| match failure {
            Failure::Power => self.hosts[host].rack == source,
            Failure::Burst => true,
            Failure::Node | Failure::Device | Failure::Partition | Failure::Home => false,
        };
        (0..self.hosts.len()).filter(is_one).collect()
    }

    /// The device of a host is gone, and replaced then.
    pub(crate) fn lose_device(&mut self, host: usize, until: f64) {
        self.devices += 1;
        self.hosts[host].device = PartitionId(self.devices);
        self.hosts[host].bare_until = until;
    }

    /// When something is repaired next.
    pub(crate) fn mended_at(&self, now: f64) -> Option<f64> {
        let hosts = self.hosts.iter().flat_map(|host| [host.down_until, host.bare_until]);
        let racks = self.racks.iter().flat_map(|rack| [rack.dark_until, rack.apart_until]);
        hosts.chain(racks).chain([self.home_away_until]).filter(|&at| at > now).min_by(f64::total_cmp)
    }

    /// Whether everything works.
    pub(crate) fn is_well(&self, now: f64) -> bool {
        self.mended_at(now).is_none()
    }
}
