//! An attached volume, as its operator sees it.

use super::live::{LiveCopies, LiveScrub, LiveVolume, VolumeCounters, VolumeGauges};
use super::tables::VOLUME;
use super::{Action, Controlled, store_is_silent};
use crate::attached::{Attached, CopiesAt};
use crate::scrub::{ComparedCopies, Repair, ScrubReport, Scrubbing};
use machine::Table;
use machines::{HolderState, PartitionId, messages::home::BlockSums};
use nbd::Watch;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An attached volume and the server that it is served by.
pub struct ControlledVolume {
    /// Its name or its home's, for people.
    pub name: String,
    /// The volume.
    pub attached: Arc<Attached>,
    /// Its server.
    pub server: Watch,
    /// Where clients come.
    pub listen: Vec<String>,
    /// The room for writes that are not written back.
    pub dirty_bytes_max: u64,
    /// When it was attached.
    pub since: Instant,
    /// Its scrubs, if it has a schedule.
    pub scrubbing: Option<Arc<Scrubbing>>,
}

impl fmt::Debug for ControlledVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlledVolume").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Controlled for ControlledVolume {
    fn kind(&self) -> &'static str {
        "volume"
    }

    fn identity(&self) -> String {
        self.attached.identity()
    }

    fn status(&self) -> Value {
        json!(self.live())
    }

    fn tables(&self) -> Vec<Table> {
        vec![VOLUME.table(std::iter::once(ops::row(&VOLUME, &self.status())))]
    }

    fn troubles(&self) -> Vec<String> {
        let LiveVolume { failed, home_trouble, registry_trouble, cache_trouble, degraded, .. } = self.live();
        let silent = || self.attached.status().registry_silence.map(store_is_silent);
        let troubles = [
            failed.map(|why| format!("the volume has failed: {why}")),
            home_trouble.map(|why| format!("the backing device: {why}")),
            registry_trouble.map(|why| format!("the registry: {why}")).or_else(silent),
            cache_trouble.map(|why| format!("the cache: {why}")),
            degraded.map(|why| format!("there are too few copies: {why}")),
        ];
        troubles.into_iter().flatten().collect()
    }

    fn clean(&self, first: u32, blocks: u32) -> Result<Vec<(u32, BlockSums)>, String> {
        Ok(self.attached.clean_sums(first, blocks))
    }

    fn copies(&self, repairs: bool, is_given_up: &dyn Fn() -> bool) -> Result<ComparedCopies, String> {
        Ok(self.attached.compare_copies(repairs, is_given_up))
    }

    fn repair(&self, blocks: &[u32], is_given_up: &dyn Fn() -> bool) -> Result<Vec<Repair>, String> {
        self.attached.repair(blocks, is_given_up).map_err(|error| error.to_string())
    }

    fn carry_out(&self, action: Action, is_given_up: &dyn Fn() -> bool) -> Result<(), String> {
        let done = match action {
            Action::BringHome => self.attached.bring_home(is_given_up),
            Action::Resize { size, may_shrink } => self.attached.resize(size, may_shrink, is_given_up),
            Action::Snapshot(file) => self.attached.snapshot_to(&file, is_given_up),
        };
        done.map_err(|error| error.to_string())
    }
}

impl ControlledVolume {
    fn live(&self) -> LiveVolume {
        let (tally, status) = (self.server.tally(), self.attached.status());
        let degraded = status.degraded();
        let full = status.is_stuck.then(|| "the cache's disk is full: writes wait for room".to_owned());
        let lost = status.lost_cache.map(|why| format!("it has failed, and the volume continues without it: {why}"));
        let cache_trouble = lost
            .or(full)
            .or_else(|| status.clean_error.map(|why| format!("blocks that are read are not cached: {why}")));
        let (read_error, read_error_age) = status.read_error.unzip();
        let scrub = self.scrubbing.as_ref().map(|it| scrub(it));
        let last = scrub.as_ref().and_then(|it| it.last.clone()).unwrap_or_default();
        LiveVolume {
            attaching: None,
            volume: self.name.clone(),
            listen: self.listen.clone(),
            home: status.home,
            gauges: VolumeGauges {
                size: status.size,
                attachment: status.epoch,
                attached_s: self.since.elapsed().as_secs(),
                dirty_bytes: status.dirty_bytes,
                dirty_bytes_max: self.dirty_bytes_max,
                dirty_writes: status.dirty_writes,
                dirty_age_s: status.dirty_age.map(seconds),
                clean_blocks: status.clean_blocks.0,
                clean_blocks_max: status.clean_blocks.1,
                connections: self.server.connections(),
                requests_waiting: status.waiting,
                copies: status.copies,
                is_degraded: status.is_degraded,
                is_leased: status.may_read,
                holders_whole: status.holders.iter().filter(|it| it.state == HolderState::Whole).count(),
                has_home_trouble: status.home_error.is_some(),
                has_cache_trouble: cache_trouble.is_some(),
                has_failed: status.failed.is_some(),
                scrub_every_s: scrub.as_ref().map_or(0, |it| it.every_s),
                scrub_next_s: scrub.as_ref().map_or(0, |it| it.next_s),
                scrub_last_s: scrub.as_ref().and_then(|it| it.last_s).unwrap_or(0),
                scrub_differences: last.differences,
                scrub_repaired: last.repaired,
                has_scrub_trouble: last.error.is_some() || last.repaired < last.differences,
            },
            counters: VolumeCounters {
                read_blocks_dirty: status.reads.dirty,
                read_blocks_clean: status.reads.clean,
                read_blocks_home: status.reads.home,
                written_blocks: status.blocks_written,
                write_backs: status.write_backs,
                requests: tally.requests,
                requests_refused: tally.refused,
                requests_failed: tally.failed,
                requests_given_up: tally.given_up,
            },
            holders: status.holders.iter().map(copies).collect(),
            degraded,
            gone_without: status.gone_without.as_deref().map(gone_without),
            home_trouble: status.home_error,
            registry_trouble: status.registry_error,
            cache_trouble,
            read_error,
            read_error_age_s: read_error_age.map(seconds),
            failed: status.failed,
            scrub,
        }
    }
}

fn scrub(scrubbing: &Scrubbing) -> LiveScrub {
    let last = scrubbing.last();
    let ago = |it: &ScrubReport| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs().saturating_sub(it.ended_at_s)
    };
    LiveScrub {
        every_s: scrubbing.every().as_secs(),
        next_s: scrubbing.next().as_secs(),
        running_bytes: scrubbing.running(),
        last_s: last.as_ref().map(ago),
        last,
    }
}

fn copies(it: &CopiesAt) -> LiveCopies {
    LiveCopies {
        name: it.name(),
        partition: format!("{:016x}", it.partition.0),
        address: it.member.as_ref().map(|(_, address)| address.clone()),
        state: it.state.name().to_owned(),
        room: it.room,
        is_disk_full: it.is_disk_full,
    }
}

fn gone_without(lists: &[PartitionId]) -> String {
    let numbers: Vec<_> = lists.iter().map(|it| format!("{:016x}", it.0)).collect();
    let whose =
        if numbers.is_empty() { "the cache before".to_owned() } else { format!("holder {}", numbers.join(", ")) };
    format!("this attachment began without what {whose} had: what was promised may be lost by that")
}

/// A time in seconds, as fine as anybody wants it.
fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttachConfig, create_home};
    use nbd::{Export, Server, ServerConfig};

    #[test]
    fn every_figure_is_a_number_of_the_status() {
        let dir = std::env::temp_dir().join(format!("thorp-control-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        create_home(&dir.join("disk"), 1 << 20).unwrap();
        let config = AttachConfig { log_bytes: 4 << 20, ..AttachConfig::new(dir.join("disk"), dir.join("cache")) };
        let attached = Arc::new(Attached::attach(&config).unwrap());
        let export = Export { name: "v".into(), description: String::new(), device: attached.clone() };
        let server = Server::start(&ServerConfig::new("127.0.0.1:0".parse().unwrap()), vec![export]).unwrap();
        let (name, listen, since) = ("disk".to_owned(), Vec::new(), Instant::now());
        let controlled = ControlledVolume {
            name,
            attached,
            server: server.watch(),
            listen,
            dirty_bytes_max: 4 << 20,
            since,
            scrubbing: None,
        };
        let (tables, status) = (controlled.tables(), controlled.status());
        let row = &tables[0].rows[0];
        for (column, cell) in VOLUME.columns.iter().zip(row) {
            let is_there = *cell != machine::Cell::Nothing || column.name == "dirty_age_s";
            assert!(is_there, "{} is not in {status}", column.name);
        }
        // It is read as it was told.
        let live: LiveVolume = serde_json::from_value(status).unwrap();
        assert_eq!((live.gauges.size, live.volume.as_str()), (1 << 20, "disk"));
        drop((controlled, server));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
