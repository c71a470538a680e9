//! Volumes attached at this host, the holders of copies, and the homes of volumes.
//!
//! ```text
//!   qemu, libnbd, fio, the kernel --NBD--> nbd::Server --requests--> dyn Device: Attached
//!                                                      <--answers---
//! ```
//! | file | what it is |
//! |---|---|
//! | `attached` | a volume that is attached at this host: its writes go to a log, and from there home |
//! | `cache`, `extents` | the log's records, clean blocks, and maps of blocks |
//! | `home`, `marker` | the file or device where a volume lives, and the small files that say whose it is |
//! | `holder` | room on this host for copies of others' dirty writes |
//! | `links` | sessions with holders, of an owner or of a host that takes over |
//! | `house` | homes for owners in other processes |
//! | `far` | such a home, as its owner has it; all homes, as an operator asks about them |
//! | `takeover` | brings home what an owner has left at its holders, for the host that has the volume next |
//! | [`control`] | what an operator asks of a volume that is attached, or of a holder |
//! | [`image`] | the contents of a volume as a whole |
//! | `place` | whether the process that had a directory before is known to be dead |
//! | `scrub` | a home compared with its checksums, and with the clean blocks of a cache |
//! | `rebuild` | a lost registry, made again of what homes, holders and caches say |
//! | `clock` | the time of leases |

mod attached;
mod cache;
mod clock;
pub mod control;
mod extents;
mod far;
mod holder;
mod home;
mod house;
pub mod image;
mod links;
mod marker;
mod place;
mod rebuild;
mod scrub;
mod takeover;

pub use attached::{
    AttachConfig, AttachError, Attached, CacheFailure, CopiesAt, CopiesConfig, LOG_BYTES_MAX, LOG_BYTES_MIN,
    OperateError, Progress, Reads, Status, StoredVolume,
};
pub use extents::BLOCK;
pub use far::{FarError, FarHome, FarHomes, GivenUp, PATIENCE};
pub use holder::{
    Dropped, FolderError, HOLDER_ROOM_MAX, HOLDER_ROOM_MIN, HolderError, HolderNames, HolderServer, HolderSettings,
    HolderStatus, Lives, RescueSettings, RescueWord, held_volumes,
};
pub use home::{CheckProgress, HomeCheck};
pub use home::{HomeError, HomeStatus, SIZE_MAX, create_home, expect_alone, home_status, resize_home, snapshot_home};
pub use house::{HomeServer, HomesError, VOLUME_HOMES};
pub use machines::messages::home::{BlockSums, FoundHome};
pub use machines::{
    Ack, Degraded, Epoch, Findings, HolderState, HostId, LEASE, PartitionId, REPLACE_AFTER, RESCUE_AFTER, Registered,
    Stamp, View, VolumeId,
};
pub use rebuild::{
    AskedHolder, AskedHomes, CacheFound, FindError, Found, FoundVolume, Places, UnaskedHomes, ask_homes,
};
pub use scrub::{
    ComparedCopies, CopyDifference, CopyMeaning, Difference, Meaning, NotCompared, Repair, Scrub, ScrubError,
    ScrubReport, Scrubbed, Scrubbing,
};
pub use takeover::{TakeOverError, TakeOverWord, bring_home};
