//! The commands of the block front end.

use super::operators::OperatorArgs;
use super::{listen_address, size};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The commands of `thorp volume`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Makes a volume: with --store one of this name, whose home is beside the store; without it the raw file of one
    /// host's volume, of zeros, which takes no room until it is written. A raw file or a block device that is there
    /// already can be attached as it is.
    Create(VolumeCreateArgs),
    /// Attaches a volume at this host and serves it to NBD clients, until SIGTERM or Ctrl-C; then what is not written
    /// back goes there. A second Ctrl-C ends it at once: dirty data stays in the cache, and the next attachment
    /// continues.
    #[command(after_help = VOLUME_ATTACH_HELP)]
    Attach(VolumeAttachArgs),
    /// Prints how a volume stands: its size, how often it was attached, and where; of a home, which cache has writes
    /// that are not home. Of a volume that is attached at this host, its process says more: what is not written back,
    /// hits, holders, requests under way, faults.
    #[command(after_help = VOLUME_STATUS_HELP)]
    Status(VolumeStatusArgs),
    /// Lists the volumes of a store, and where they are attached; or with --homes the files that are kept for volumes
    /// there, those of none among them.
    #[command(after_help = VOLUME_LIST_HELP)]
    List(VolumeListArgs),
    /// Lists the holders of a store and the volumes that use each; or, for the holder in a folder, the room that the
    /// copies of each volume take.
    #[command(after_help = VOLUME_HOLDERS_HELP)]
    Holders(VolumeHoldersArgs),
    /// Returns a volume another size, attached at this host or not at all. Behind the end of one that becomes smaller,
    /// which takes --shrink, all is gone for good. NBD clients see the new size when they connect again.
    #[command(after_help = VOLUME_RESIZE_HELP)]
    Resize(VolumeResizeArgs),
    /// Makes another volume with what was written to this one before, attached at this host or not at all. Both share
    /// their blocks until one changes them, so it takes no time and no room; the home's file system has to be able to
    /// do that (XFS and btrfs are).
    #[command(after_help = VOLUME_SNAPSHOT_HELP)]
    Snapshot(VolumeSnapshotArgs),
    /// Reads all blocks of a volume's home and compares them with the checksums that home keeps, and with the clean
    /// blocks of its cache; and what is not written back with the copies at holders. Each difference is named, with
    /// what to do. It exits with 0 if all agree.
    #[command(after_help = VOLUME_SCRUB_HELP)]
    Scrub(VolumeScrubArgs),
    /// Writes everything that a volume has to a file, or to standard output. It is of one moment: of a volume that is
    /// attached at this host, a snapshot, which takes a home on XFS or btrfs.
    #[command(after_help = VOLUME_EXPORT_HELP)]
    Export(VolumeExportArgs),
    /// Makes a volume of what a file has, or standard input, in its size. An interrupted one leaves nothing.
    #[command(after_help = VOLUME_IMPORT_HELP)]
    Import(VolumeImportArgs),
    /// Brings home what a host that is gone has left of a volume at its holders, without attaching it here. A volume is
    /// detached by ending the `thorp volume attach` that has it; this is for those that cannot be.
    Detach(VolumeDetachArgs),
    /// The registry of volumes, which a store keeps: who has each of them, and who has copies of it.
    #[command(subcommand)]
    Registry(VolumeRegistryCommand),
    /// Removes a volume of a store, with its home. It must not be attached. With --home it removes a home that belongs
    /// to no volume, as a command that was killed leaves it.
    #[command(after_help = VOLUME_REMOVE_HELP)]
    Remove(VolumeRemoveArgs),
}

/// `thorp volume create`.
#[derive(Debug, Args)]
pub(crate) struct VolumeCreateArgs {
    /// The name of the volume; or without --store the file, which must not be there yet.
    pub(crate) volume: PathBuf,
    /// Its size, such as 100G: a multiple of 4096 bytes.
    #[arg(long, value_parser = size)]
    pub(crate) size: usize,
    /// The address of the store, which was started with --volumes; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: Option<String>,
    /// The copies of a write that its answer reports, that of the host where the volume is attached among them.
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(types::limits::VOLUME_COPIES_MAX)))]
    pub(crate) copies: u8,
    /// A host that is silent for longer may have its volume taken over: after that it answers no reads.
    #[arg(long, value_name = "S", requires = "store", default_value_t = attach::LEASE.as_secs() as u32, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) lease_s: u32,
}

/// `thorp volume list`.
#[derive(Debug, Args)]
pub(crate) struct VolumeListArgs {
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// Lists the homes at the store: each with its number, its size, the bytes that it takes on its disk, when it was
    /// written last, and the volume that it belongs to, if to any.
    #[arg(long)]
    pub(crate) homes: bool,
}

const VOLUME_LIST_HELP: &str = "\
Examples:
  thorp volume list --store store:7411
  thorp volume list --store store:7411 --homes

The bytes on disk count blocks that snapshots share for each of them. A volume named `export-` and a number is the
snapshot of an export: if none is under way it was killed, and `thorp volume remove` removes it.";

/// The number of a home.
fn home_number(text: &str) -> Result<u64, String> {
    let number = Some(text).filter(|text| text.len() == 16).and_then(|text| u64::from_str_radix(text, 16).ok());
    number.ok_or_else(|| "expected 16 hexadecimal digits, as `thorp volume list --homes` shows them".to_owned())
}

/// `thorp volume holders`.
#[derive(Debug, Args)]
pub(crate) struct VolumeHoldersArgs {
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR", required_unless_present = "dir")]
    pub(crate) store: Option<String>,
    /// The folder of a holder that runs at this host. With --store its volumes are told by their names.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const VOLUME_HOLDERS_HELP: &str = "\
Examples:
  thorp volume holders --store store:7411
  thorp volume holders --dir /ssd/r --store store:7411
  curl --unix-socket /ssd/r/control http://holder/metrics";

/// The commands of `thorp volume registry`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeRegistryCommand {
    /// Makes the entries of volumes again, of what homes, holders and caches know: where the store's directory was
    /// lost, or was put back from an older copy. It shows what it has found, and writes nothing without --yes.
    #[command(after_help = VOLUME_REBUILD_HELP)]
    Rebuild(VolumeRebuildArgs),
}

/// `thorp volume registry rebuild`.
#[derive(Debug, Args)]
pub(crate) struct VolumeRebuildArgs {
    /// The address of the store, which was started with --volumes; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// The volumes whose entries are made again; without this, those that the registry does not know, or knows less of
    /// than others. Of those that are named the entry is made again also if it looks right.
    pub(crate) volumes: Vec<String>,
    /// The directory of a cache at this host that a volume was attached with. May be given several times.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Vec<PathBuf>,
    /// The address of a holder that neither the registry nor the homes know. May be given several times.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) holder: Vec<String>,
    /// The name of a volume whose home was never told it, behind the number of that home: NUMBER=NAME. May be given
    /// several times.
    #[arg(long, value_name = "NUMBER=NAME", value_parser = home_name)]
    pub(crate) name: Vec<(u64, String)>,
    /// The copies of a write, of a volume whose home was never told.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(types::limits::VOLUME_COPIES_MAX)))]
    pub(crate) copies: u8,
    /// The lease of a volume whose home was never told.
    #[arg(long, value_name = "S", default_value_t = attach::LEASE.as_secs() as u32, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) lease_s: u32,
    /// Writes the entries. A host that has one of the volumes attached loses it, and attaches it again.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// The number of a home and a name.
fn home_name(text: &str) -> Result<(u64, String), String> {
    let (number, name) = text.split_once('=').ok_or("expected NUMBER=NAME")?;
    Ok((home_number(number)?, name.to_owned()))
}

const VOLUME_REBUILD_HELP: &str = "\
Examples:
  thorp volume registry rebuild --store store:7411
  thorp volume registry rebuild --store store:7411 --yes
  thorp volume registry rebuild --store store:7411 v --cache /ssd/v --yes

Start all holders first. A silent holder may have the only copy of a write, and a rebuilt entry names only the holders that answered. The next attachment needs the lists of all of them. Where a store was put back from a copy, name
all of its volumes: an entry of the same attachment may look right, and name holders of before.";

/// `thorp volume detach`.
#[derive(Debug, Args)]
pub(crate) struct VolumeDetachArgs {
    /// The name of the volume.
    pub(crate) volume: PathBuf,
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// Goes on without the copies of holders that do not answer, although that loses the writes that only they have.
    #[arg(long)]
    pub(crate) force: bool,
}

/// `thorp volume remove`.
#[derive(Debug, Args)]
pub(crate) struct VolumeRemoveArgs {
    /// The name of the volume.
    #[arg(required_unless_present = "home", conflicts_with = "home")]
    pub(crate) volume: Option<String>,
    /// Removes the home with this number. It must belong to no volume, not be open, and not have been written to for a
    /// minute.
    #[arg(long, value_name = "NUMBER", value_parser = home_number)]
    pub(crate) home: Option<u64>,
    /// Also if it was written to just now.
    #[arg(long, requires = "home", conflicts_with = "volume")]
    pub(crate) force: bool,
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
}

const VOLUME_REMOVE_HELP: &str = "\
Examples:
  thorp volume remove v --store store:7411
  thorp volume remove --home 4f1c08a9d2e67b35 --store store:7411";

/// `thorp volume attach`.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Debug, Args)]
pub(crate) struct VolumeAttachArgs {
    /// The name of the volume; or without --store its home: a raw file or a block device.
    pub(crate) volume: PathBuf,
    /// The address of the store that has the volume; or several, separated by commas.
    #[arg(long, value_name = "ADDR", conflicts_with = "beside")]
    pub(crate) store: Option<String>,
    /// The failure domain of this host: no holder in it gets copies. The name of this host, unless another one is said.
    #[arg(long, value_name = "NAME", requires = "store", conflicts_with = "beside")]
    pub(crate) domain: Option<String>,
    /// Holders beyond those that copies are needed of: with one, writes continue without a pause when a holder is lost.
    #[arg(
        long,
        value_name = "COUNT",
        requires = "store",
        conflicts_with = "beside",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(0..=4)
    )]
    pub(crate) spare: u8,
    /// A write that waits for its copies (`--ack write`, FUA) waits for one more for each so many times that one of its
    /// blocks was written since it was written back, as far as there are holders for it (`--spare`). Never with 0.
    #[arg(long, value_name = "COUNT", requires = "store", conflicts_with = "beside", default_value_t = 0)]
    pub(crate) more_copies_after: u8,
    /// A holder that acknowledges nothing for this long is considered lost, and requests no longer wait for it. A
    /// holder with known response times gets less: eight times its mean and four deviations, and at least half a
    /// second.
    #[arg(
        long,
        value_name = "MS",
        requires = "store",
        conflicts_with = "beside",
        default_value_t = 5000,
        value_parser = clap::value_parser!(u64).range(500..=60_000)
    )]
    pub(crate) copy_timeout_ms: u64,
    /// Behavior while too few holders are available.
    #[arg(
        long,
        value_enum,
        requires = "store",
        conflicts_with = "beside",
        default_value_t = VolumeDegraded::WriteThrough
    )]
    pub(crate) degraded: VolumeDegraded,
    /// The directory of the cache, on a fast disk. It is made if it is not there, and serves this volume only.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: PathBuf,
    /// The directory of the small files beside the home, if that is not its own: whose it is, and its journal. A device
    /// needs one, on a disk.
    #[arg(long, value_name = "DIR")]
    pub(crate) beside: Option<PathBuf>,
    /// Where NBD clients come: unix:PATH, or nbd://HOST or nbd://HOST:PORT. May be given several times.
    #[arg(long, value_name = "ADDR", required = true)]
    pub(crate) listen: Vec<nbd::Address>,
    /// The name of the export, which clients may also leave out.
    #[arg(long, value_name = "NAME", default_value = "volume")]
    pub(crate) export: String,
    /// The room in the cache for writes that are not written back, which it takes at once. When it is full, writers
    /// wait. The default is a quarter of the volume, but at least 16M and at most 1G.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) dirty: Option<usize>,
    /// The room in the cache for clean blocks, 24 bytes of memory for each 4096.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size)]
    pub(crate) clean: usize,
    /// When a write is answered.
    #[arg(long, value_enum, default_value_t = VolumeAck::Flush)]
    pub(crate) ack: VolumeAck,
    /// The way to continue when the cache's disk takes no more writes. Nothing that was promised is given up for it.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = VolumeCacheFailure::WriteThrough)]
    pub(crate) on_cache_failure: VolumeCacheFailure,
    /// The greatest age of a write that is not written back.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) age_s: u32,
    /// Scrubs the volume at this interval, such as 7d or 12h: as `thorp volume scrub --repair` does, at 32 MiB per
    /// second. `status` shows the last run, its findings and the next run.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) scrub_every: Option<Duration>,
    /// Attaches it although that loses writes which are not written back: those of another cache, or of this one if the
    /// volume was attached elsewhere since; with --store, those that only holders have which do not answer. Or although
    /// the home no longer knows its cache.
    #[arg(long)]
    pub(crate) force: bool,
    /// Goes on with what the log of this cache has, where holders do not answer that may have what it has lost: its
    /// disk may have lost its end, or an older copy of it was restored. `status` says so afterwards.
    #[arg(long, requires = "store", conflicts_with = "beside")]
    pub(crate) accept_own_log: bool,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Detaches it when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
}

/// `thorp holder`.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Debug, Args)]
pub(crate) struct HolderArgs {
    /// The store with the registry of volumes, such as localhost:7411.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: String,
    /// The directory of the copies, on a fast disk. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The room that its files may take, such as 50G. Half of it is given to owners: the rest is for what is not freed
    /// yet.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) room: usize,
    /// Makes the directory again, as another holder: the copies that it has are dropped. For one that is an older state
    /// of a holder's directory, or a copy of it.
    #[arg(long)]
    pub(crate) as_new: bool,
    /// Listens here for the owners of volumes.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// Where they reach it, if that is not where it listens: the registry says it to them.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// The failure domain: everything in one dies together, so a volume's copies are in different ones, and none in its
    /// owner's. The name of this host, unless another one is said.
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Writes back the copies kept here of a volume whose host has been silent for this long. With 0 it does not, and
    /// leaves that to the next host that attaches the volume.
    #[arg(long, value_name = "S", default_value_t = attach::RESCUE_AFTER.as_secs() as u32, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) bring_home_after_s: u32,
    /// When it is stopped, has owners move its copies elsewhere first; a second Ctrl-C ends it at once. Without this
    /// they stay, and count again when it is started again.
    #[arg(long)]
    pub(crate) leave: bool,
    /// Listens on other addresses than loopback, although connections are neither encrypted nor authenticated yet.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Stops the holder when standard input ends: with the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) operators: OperatorArgs,
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeAck {
    /// When it is on the cache's disk.
    Write,
    /// At once; a flush, or a write with FUA, when everything before it is on the cache's disk. As disks do.
    Flush,
}

/// Behavior with fewer copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeDegraded {
    /// Everything goes home at once, and is answered when it is there.
    WriteThrough,
    /// Writes fail with EIO; reads continue.
    Refuse,
}

/// A way to continue when the cache's disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeCacheFailure {
    /// Dirty data is written back. After that, writes and flushes are acknowledged when they are written back.
    WriteThrough,
    /// Every request is refused, with EIO, and the command ends.
    Stop,
}

/// `thorp volume status`.
#[derive(Debug, Args)]
pub(crate) struct VolumeStatusArgs {
    /// The name of the volume; or without --store the home. With --cache it may be left out.
    #[arg(required_unless_present = "cache")]
    pub(crate) volume: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// Where a volume is known, and where it is attached.
#[derive(Debug, Args)]
pub(crate) struct VolumePlace {
    /// The address of the store; or several, separated by commas.
    #[arg(long, value_name = "ADDR", conflicts_with = "beside")]
    pub(crate) store: Option<String>,
    /// The directory of the files beside a device, as it was attached with. A raw file says where they are.
    #[arg(long, value_name = "DIR")]
    pub(crate) beside: Option<PathBuf>,
    /// The cache that it is attached with at this host, if it is not found by itself.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// `thorp volume resize`.
#[derive(Debug, Args)]
pub(crate) struct VolumeResizeArgs {
    /// The name of the volume; or without --store its home.
    pub(crate) volume: PathBuf,
    /// Its new size, such as 100G: a multiple of 4096 bytes.
    #[arg(long, value_parser = size)]
    pub(crate) size: usize,
    /// Makes it smaller, too, which loses what is behind its new end: make its file system smaller before.
    #[arg(long)]
    pub(crate) shrink: bool,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume snapshot`.
#[derive(Debug, Args)]
pub(crate) struct VolumeSnapshotArgs {
    /// The name of the volume; or without --store its home.
    pub(crate) volume: PathBuf,
    /// The name of the new one; or without --store its file, on the same file system.
    pub(crate) snapshot: PathBuf,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume scrub`.
#[derive(Debug, Args)]
pub(crate) struct VolumeScrubArgs {
    /// The name of the volume; or without --store its home, which is not attached then.
    pub(crate) volume: PathBuf,
    /// Repairs damaged blocks from copies with the right checksum, and prints which copies those are. Blocks without
    /// such a copy are named, and stay as they are.
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume export`.
#[derive(Debug, Args)]
pub(crate) struct VolumeExportArgs {
    /// The name of the volume; or without --store its home.
    pub(crate) volume: PathBuf,
    /// The file, in which zeros take no room; `-` is standard output.
    pub(crate) file: PathBuf,
    /// Takes the place of a file that is there, when all of it has come.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) place: VolumePlace,
}

/// `thorp volume import`.
#[derive(Debug, Args)]
pub(crate) struct VolumeImportArgs {
    /// The file, or the device; `-` is standard input.
    pub(crate) file: PathBuf,
    /// The name of the new volume; or without --store its home, a raw file.
    pub(crate) volume: PathBuf,
    /// The address of the store, which was started with --volumes; or several, separated by commas.
    #[arg(long, value_name = "ADDR")]
    pub(crate) store: Option<String>,
    /// The copies of a write that its answer reports, that of the host where the volume is attached among them.
    #[arg(long, value_name = "COUNT", requires = "store", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(types::limits::VOLUME_COPIES_MAX)))]
    pub(crate) copies: u8,
    /// A host that is silent for longer may have its volume taken over: it answers no reads then.
    #[arg(long, value_name = "S", requires = "store", default_value_t = attach::LEASE.as_secs() as u32, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) lease_s: u32,
}

/// An interval of a minute or more, as a number with its unit.
fn interval(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("invalid interval '{text}': expected a number with s, m, h or d behind, such as 7d, and at least 60s")
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: u64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let seconds = match unit {
        's' => Some(number),
        'm' => number.checked_mul(60),
        'h' => number.checked_mul(3600),
        'd' => number.checked_mul(86_400),
        _ => None,
    };
    // A year is long enough, and does not overflow.
    seconds.filter(|it| (60..=366 * 86_400).contains(it)).map(Duration::from_secs).ok_or_else(wrong)
}

const VOLUME_EXPORT_HELP: &str = "\
Examples:
  thorp volume export v v.img --store store:7411
  thorp volume export v - --store store:7411 | zstd > v.img.zst
  thorp volume export v - --store store:7411 | thorp volume import - v --store elsewhere:7411

The file appears under its name when it is complete; Ctrl-C leaves nothing.";

const VOLUME_SCRUB_HELP: &str = "\
Examples:
  thorp volume scrub v --store store:7411
  thorp volume scrub v --store store:7411 --cache /ssd/v
  thorp volume scrub v --store store:7411 --repair
  thorp volume scrub disk.img

A volume of a store may be attached and used at the same time. The clean blocks that are compared are those of
--cache, or of the cache that it is attached with at this host, or was last. Home knows no checksum of what was
never written through it, or of what was written last before it was killed: these blocks are counted as unknown.
Dirty writes are compared with the copies at holders, if the volume is attached at this host.";

const VOLUME_IMPORT_HELP: &str = "\
Examples:
  thorp volume import debian.raw v --store store:7411
  qemu-img convert -O raw debian.qcow2 debian.raw
  zstdcat v.img.zst | thorp volume import - v --store store:7411

The size is rounded up to a multiple of 4096 bytes, with zeros. Zeros take no room.";

const VOLUME_RESIZE_HELP: &str = "\
Examples:
  thorp volume resize v --store store:7411 --size 200G
  thorp volume resize disk.img --size 10G --shrink
  nbdinfo 'nbd+unix:///?socket=/run/v.sock'

Make a file system smaller before its volume, and larger after it.";

const VOLUME_SNAPSHOT_HELP: &str = "\
Examples:
  thorp volume snapshot v v-monday --store store:7411
  thorp volume snapshot disk.img disk-monday.img

The snapshot of a file system in use is as if its machine had lost power: fsfreeze it, or unmount it, for a clean one.";

const VOLUME_STATUS_HELP: &str = "\
Examples:
  thorp volume status v --store store:7411
  thorp volume status disk.img --json
  thorp volume status --cache /ssd/v
  curl --unix-socket /ssd/v/control http://volume/metrics";

const VOLUME_ATTACH_HELP: &str = "\
Examples:
  thorp volume create disk.img --size 20G
  thorp volume attach disk.img --cache /ssd/disk --listen unix:/run/disk.sock
  thorp volume attach v --store store:7411 --cache /ssd/v --listen unix:/run/v.sock
  nbdinfo 'nbd+unix:///?socket=/run/disk.sock'
  qemu-system-x86_64 -drive driver=nbd,server.type=unix,server.path=/run/disk.sock,export=volume ...
  nbd-client -unix /run/disk.sock /dev/nbd0 -N volume

While a volume is attached, and until its cache has nothing that is not home, no other program may write to its home.";
