//! The figures of an attached volume and of a holder: names, units and meanings. A column has the name of the field of
//! the status that it is taken from.

use machine::metrics::{Column, Described, Metrics};

/// An attached volume.
pub const VOLUME: Metrics<34> = Metrics {
    name: "volume",
    what: "the volume that the process has attached (docs/volumes.md)",
    columns: [
        Column::new("volume", "name", "its name, or the path of its backing device"),
        Column::new("size", "bytes", "its size"),
        Column::new("attachment", "now", "the number of this attachment"),
        Column::new("attached_s", "s", "the time since it was attached"),
        Column::new("dirty_bytes", "bytes", "the part of the log that dirty data takes"),
        Column::new("dirty_bytes_max", "bytes", "the room for dirty data; when it is full, writers wait"),
        Column::new("dirty_writes", "now", "writes that are not written back"),
        Column::new("dirty_age_s", "s", "the age of the oldest of them"),
        Column::new("clean_blocks", "now", "clean blocks in the cache"),
        Column::new("clean_blocks_max", "now", "the room for them"),
        Column::new("connections", "now", "connections of clients"),
        Column::new("requests_waiting", "now", "requests that wait for their answer"),
        Column::new("copies", "now", "the copies that a write should have, including that of this host"),
        Column::new("is_degraded", "flag", "1 while there are fewer"),
        Column::new("is_leased", "flag", "1 while requests are answered; with 0 they wait for the store"),
        Column::new("holders_whole", "now", "holders that have all dirty data"),
        Column::new("has_home_trouble", "flag", "1 while the backing device does not accept write-backs"),
        Column::new("has_cache_trouble", "flag", "1 while the cache's disk does not accept writes"),
        Column::new("has_failed", "flag", "1 when the volume has failed"),
        Column::new("scrub_every_s", "s", "the interval of scrubs; 0 without a schedule"),
        Column::new("scrub_next_s", "s", "the time until the next scrub"),
        Column::new("scrub_last_s", "s", "the time since the last scrub ended; 0 before the first"),
        Column::new("scrub_differences", "now", "the differences that the last scrub found"),
        Column::new("scrub_repaired", "now", "the differences that it repaired"),
        Column::new("has_scrub_trouble", "flag", "1 if it left some, or did not complete"),
        Column::new("read_blocks_dirty", "total", "blocks read from dirty data"),
        Column::new("read_blocks_clean", "total", "blocks read from the clean cache"),
        Column::new("read_blocks_home", "total", "blocks read from the backing device"),
        Column::new("written_blocks", "total", "blocks that were written, trimmed or zeroed"),
        Column::new("write_backs", "total", "write-backs that completed"),
        Column::new("requests", "total", "requests of clients"),
        Column::new("requests_refused", "total", "malformed requests"),
        Column::new("requests_failed", "total", "requests that failed"),
        Column::new("requests_given_up", "total", "requests not carried out because their clients had hung up"),
    ],
};

/// A holder.
pub const HOLDER: Metrics<9> = Metrics {
    name: "holder",
    what: "the holder of the process (docs/volumes.md)",
    columns: [
        Column::new("room", "bytes", "the room that its files may take"),
        Column::new("used", "bytes", "the bytes that copies take"),
        Column::new("free", "bytes", "the bytes left for owners"),
        Column::new("volumes", "now", "volumes whose copies it has"),
        Column::new("file_bytes", "bytes", "the bytes that its files take"),
        Column::new("disk_free", "bytes", "the free bytes of its file system"),
        Column::new("is_disk_full", "flag", "1 while its disk has no room for more files"),
        Column::new("keeps", "bytes", "the bytes of copies that it can keep"),
        Column::new("is_nearly_full", "flag", "1 while owners prefer other holders"),
    ],
};

/// The copies of a holder.
pub const HOLDER_COPIES: Metrics<2> = Metrics {
    name: "holder_copies",
    what: "a volume whose copies the holder has",
    columns: [
        Column::new("volume", "name", "the volume's number"),
        Column::new("bytes", "bytes", "the bytes that its copies take"),
    ],
};

/// The tables of a status.
pub const TABLES: &[Described<'static>] = &[VOLUME.described(), HOLDER.described(), HOLDER_COPIES.described()];
