//! The world that volumes live in: how often things fail, how long they stay so, and how fast the volume's parts
//! answer.

use machines::{Ack, LEASE, OwnerConfig, RESCUE_AFTER, Rule};
use types::Broken;

/// A day in seconds.
const DAY_S: f64 = 86_400.0;

/// A year in seconds.
pub const YEAR_S: f64 = 365.25 * DAY_S;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A host stops, and comes back with its device as it was.
    Node,
    /// A cache device is gone, and with it everything that is on it.
    Device,
    /// A rack has no power.
    Power,
    /// A rack is cut off from the others, from home and from the registry.
    Partition,
    /// All racks and the home lose power together: a burst, of which some devices do not come back.
    Burst,
    /// The store that has the home and the registry stops, and comes back with both as they were.
    Home,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Node, Self::Device, Self::Power, Self::Partition, Self::Burst, Self::Home];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Device => "device",
            Self::Power => "power",
            Self::Partition => "partition",
            Self::Burst => "burst",
            Self::Home => "home",
        }
    }
}

/// A kind of cache devices, by what becomes of them when their power fails. None of them loses what it has synced
/// unless it is dead afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// They have no capacitors, and as many do not come back as nodes of published clusters.
    Worst,
    /// They have no capacitors.
    Bare,
    /// They have capacitors, and come back.
    Capacitors,
}

impl Devices {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Worst, Self::Bare, Self::Capacitors];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worst => "1 of 100 dies",
            Self::Bare => "1 of 3000 dies",
            Self::Capacitors => "with capacitors",
        }
    }

    /// The share that does not come back from a power failure.
    ///
    /// Of 15 SSDs one was dead after more than 3,000 power faults in all (Zheng, Tucek, Qin and Lillibridge,
    /// Understanding the Robustness of SSDs under Power Fault, FAST 2013). Of the nodes of a cluster 0.5 to 1 % do not
    /// come back after a power failure, for whatever reason (Cidon et al., Copysets: Reducing the Frequency of Data
    /// Loss in Cloud Storage, USENIX ATC 2013): no more devices than that can be dead.
    fn dies_with_power(self) -> f64 {
        match self {
            Self::Worst => 1.0 / 100.0,
            Self::Bare => 1.0 / 3000.0,
            Self::Capacitors => 0.0,
        }
    }
}

/// How often something fails, and how long it stays so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The mean time between failures of one, in seconds; infinite if it does not fail.
    pub every_s: f64,
    /// The mean time that one lasts, in seconds.
    pub lasts_s: f64,
    /// Where these are from.
    pub source: &'static str,
}

impl Rate {
    /// It does not fail.
    pub const NEVER: Self = Self { every_s: f64::INFINITY, lasts_s: 0.0, source: "" };

    /// Failures a second, of one.
    pub(crate) fn per_s(&self) -> f64 {
        1.0 / self.every_s
    }
}

/// How long the volume's parts take for something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// Always so many seconds.
    Fixed(f64),
    /// So many seconds in the mean, exponentially: for comparisons with a Markov chain.
    Exponential(f64),
}

/// The last writes: those that are answered, and not at all holders yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Last {
    /// Their bytes.
    pub bytes: f64,
    /// When a write is answered.
    pub ack: Ack,
    /// The copies beyond W that its answer waits for, as far as there are holders for them.
    pub more_copies: u8,
}

impl Last {
    /// At 100 MB/s a holder is 10 ms behind.
    fn answered(ack: Ack, more_copies: u8) -> Self {
        Self { bytes: 1e6, ack, more_copies }
    }
}

/// The world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    /// The racks: failure domains.
    pub racks: u64,
    /// The hosts of each, every one with a cache device and room for others' copies.
    pub hosts_per_rack: u64,
    /// Failures of a host.
    pub node: Rate,
    /// Failures of a device, and how long it takes to replace one.
    pub device: Rate,
    /// Power failures of a rack.
    pub power: Rate,
    /// A rack that is cut off.
    pub partition: Rate,
    /// Power failures of all racks and the home together.
    pub burst: Rate,
    /// Failures of the store that has the home and the registry. The loss of the home's own disks is another matter:
    /// that is what RAIDs are for.
    pub home: Rate,
    /// The share of devices that do not come back from a power failure.
    pub device_dies_with_power: f64,
    /// The bytes that are dirty at a time.
    pub dirty_bytes: f64,
    /// The holders that a volume has beside those that its W copies take.
    pub spare_holders: u8,
    /// The last writes, if these are what is at stake, and not everything that is dirty.
    pub last: Option<Last>,
    /// The time until a holder that does not answer is considered lost, and the owner writes through, in seconds.
    pub silence_s: f64,
    /// How long a holder is lost before another one takes its place, in seconds.
    pub replace_after_s: f64,
    /// The length of an owner's lease, in seconds.
    pub lease_s: f64,
    /// The silence of an owner after which the first holder takes its volume over, in seconds.
    pub rescue_after_s: f64,
    /// For how long an owner that dies has given no heartbeat already, in seconds.
    pub silent_s: f64,
    /// How long it takes to write what is dirty home.
    pub write_back: Takes,
    /// The rule that takeovers do without, if any.
    pub broken: Broken<Rule>,
}

impl World {
    /// A site of 12 hosts in 4 racks, by published rates, with volumes as they are without further options. The room
    /// for what is dirty is always full, which is 1 GiB, and goes home at 100 MB/s.
    pub fn published(devices: Devices) -> Self {
        const FORD: &str = "Ford et al., Availability in Globally Distributed Storage Systems, OSDI 2010, section 7";
        const DEAN: &str = "Dean, Designs, Lessons and Advice from Building Large Distributed Systems, LADIS 2009";
        let hour = 3600.0;
        let dirty_bytes = 1 << 30;
        let owner = OwnerConfig::new(1 << 40, dirty_bytes);
        let dirty_bytes = dirty_bytes as f64;
        let node = Rate { every_s: 4.3 / 12.0 * YEAR_S, lasts_s: hour / 4.0, source: FORD };
        Self {
            racks: 4,
            hosts_per_rack: 3,
            node,
            device: Rate {
                every_s: YEAR_S / 0.0098,
                lasts_s: DAY_S,
                source: "Backblaze, The SSD Edition: 2022 Drive Stats Review: 0.98 % a year",
            },
            power: Rate { every_s: 10.2 * YEAR_S, lasts_s: 3.0 * hour, source: FORD },
            partition: Rate { every_s: YEAR_S, lasts_s: hour / 12.0, source: DEAN },
            burst: Rate { every_s: YEAR_S, lasts_s: 6.0 * hour, source: DEAN },
            // It runs on a host like any other.
            home: node,
            device_dies_with_power: devices.dies_with_power(),
            dirty_bytes,
            spare_holders: 0,
            last: None,
            silence_s: owner.silence.as_secs_f64(),
            replace_after_s: owner.replace_after.as_secs_f64(),
            lease_s: LEASE.as_secs_f64(),
            rescue_after_s: RESCUE_AFTER.as_secs_f64(),
            silent_s: 0.0,
            write_back: Takes::Fixed(dirty_bytes / 100e6),
            broken: Broken::NONE,
        }
    }

    /// A world in which devices die and nothing else happens, and the volume's answers take exponential times: where
    /// the Markov chain is exact.
    pub fn exponential(device_every_s: f64, mend_s: f64) -> Self {
        Self {
            node: Rate::NEVER,
            device: Rate { every_s: device_every_s, lasts_s: 0.0, source: "" },
            power: Rate::NEVER,
            partition: Rate::NEVER,
            burst: Rate::NEVER,
            home: Rate::NEVER,
            silence_s: 0.0,
            replace_after_s: 0.0,
            // When it dies its lease is over, and each holder has waited for all before it.
            lease_s: mend_s,
            rescue_after_s: 0.0,
            silent_s: 20.0 * mend_s,
            write_back: Takes::Exponential(mend_s),
            ..Self::published(Devices::Capacitors)
        }
    }

    /// The same with asynchronous replication, and its last writes at stake: no holder has them.
    pub fn asynchronous(devices: Devices) -> Self {
        Self { last: Some(Last::answered(Ack::Flush, 0)), ..Self::published(devices) }
    }

    /// The same with a holder more than the W copies take. Everything that is dirty is at stake.
    #[must_use]
    pub fn with_spare(self) -> Self {
        Self { spare_holders: 1, ..self }
    }

    /// The same, and the last writes are at stake, which were answered at so many copies more than W.
    #[must_use]
    pub fn with_last(self, more_copies: u8) -> Self {
        Self { last: Some(Last::answered(Ack::Write, more_copies)), ..self }
    }

    /// The bytes that a loss takes.
    pub fn stake_bytes(&self) -> f64 {
        self.last.map_or(self.dirty_bytes, |last| last.bytes)
    }

    pub(crate) fn hosts(&self) -> usize {
        (self.racks * self.hosts_per_rack) as usize
    }

    pub(crate) fn rate(&self, failure: Failure) -> &Rate {
        match failure {
            Failure::Node => &self.node,
            Failure::Device => &self.device,
            Failure::Power => &self.power,
            Failure::Partition => &self.partition,
            Failure::Burst => &self.burst,
            Failure::Home => &self.home,
        }
    }

    /// How many there are that fail so.
    pub(crate) fn sources(&self, failure: Failure) -> usize {
        match failure {
            Failure::Node | Failure::Device => self.hosts(),
            Failure::Power | Failure::Partition => self.racks as usize,
            Failure::Burst | Failure::Home => 1,
        }
    }
}
