//! The stored responses, in memory and on disk, and the rules that keep them coherent.
//!
//! | module | duty |
//! |---|---|
//! | `entries`, `entry`, `s3fifo`, `content` | responses in memory: found, kept, evicted, read |
//! | `disk`, `disk_content` | responses on disk: as records, and read in steps |
//! | `coherence`, `announcements` | the crate `coherence` as the proxy calls it; changes on their way to the hub |
//! | `shared_home`, `homes_together` | homes of other processes; whether they have one hub |

pub(crate) mod announcements;
pub(crate) mod coherence;
pub(crate) mod content;
pub(crate) mod disk;
pub(crate) mod disk_content;
pub(crate) mod entries;
pub(crate) mod entry;
pub(crate) mod homes_together;
pub(crate) mod s3fifo;
pub(crate) mod shared_home;
