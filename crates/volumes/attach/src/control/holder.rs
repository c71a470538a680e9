//! A holder, as its operator sees it.

use super::tables::{HOLDER, HOLDER_COPIES};
use super::{Action, Controlled, store_is_silent};
use crate::holder::{HolderServer, HolderStatus};
use machine::Table;
use serde::Serialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

/// A holder that runs.
#[derive(Debug)]
pub struct ControlledHolder(pub Arc<HolderServer>);

/// How it stands.
#[derive(Serialize)]
struct LiveHolder {
    partition: String,
    listen: SocketAddr,
    #[serde(flatten)]
    gauges: HolderGauges,
    copies: Vec<Value>,
}

/// Figures that go up and down.
#[derive(Serialize)]
struct HolderGauges {
    room: u64,
    used: u64,
    free: u64,
    volumes: usize,
    file_bytes: u64,
    disk_free: Option<u64>,
    is_disk_full: bool,
    keeps: u64,
    is_nearly_full: bool,
}

fn number(number: u64) -> String {
    format!("{number:016x}")
}

impl ControlledHolder {
    fn gauges(&self) -> HolderGauges {
        let HolderStatus { used, free, volumes, room, file_bytes, disk_free, is_disk_full, keeps, is_nearly_full } =
            self.0.status();
        HolderGauges { room, used, free, volumes, file_bytes, disk_free, is_disk_full, keeps, is_nearly_full }
    }
}

impl Controlled for ControlledHolder {
    fn kind(&self) -> &'static str {
        "holder"
    }

    fn identity(&self) -> String {
        number(self.0.partition().0)
    }

    fn status(&self) -> Value {
        let mut copies = self.0.copies();
        // The largest first: who looks wants to know what fills it.
        copies.sort_by_key(|&(volume, bytes)| (std::cmp::Reverse(bytes), volume));
        let copies = copies.iter().map(|&(volume, bytes)| json!({"volume": number(volume.0), "bytes": bytes}));
        let (partition, listen, copies) = (self.identity(), self.0.address(), copies.collect());
        json!(LiveHolder { partition, listen, gauges: self.gauges(), copies })
    }

    fn tables(&self) -> Vec<Table> {
        let copies = self.0.copies().into_iter().map(|(volume, bytes)| [number(volume.0).into(), bytes.into()]);
        let holder = ops::row(&HOLDER, &json!(self.gauges()));
        vec![HOLDER.table(std::iter::once(holder)), HOLDER_COPIES.table(copies)]
    }

    fn troubles(&self) -> Vec<String> {
        let failed = self.0.failed().map(|why| format!("it has failed: {why}"));
        let silent = self.0.registry_silence().map(store_is_silent);
        let full = self.0.status().is_disk_full.then(|| {
            "its disk is full, and it takes no more copies than its files have room for: make room there".to_owned()
        });
        failed.into_iter().chain(silent).chain(full).collect()
    }

    fn carry_out(&self, _: Action, _: &dyn Fn() -> bool) -> Result<(), String> {
        Err("this is a holder's folder: that is a volume's".to_owned())
    }
}
