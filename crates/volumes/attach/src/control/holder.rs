//! A holder, as its operator sees it.

use super::{Action, Controlled, Figures};
use crate::holder::{HolderServer, HolderStatus};
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
        format!("{:016x}", self.0.partition().0)
    }

    fn label(&self) -> Option<&str> {
        None
    }

    fn status(&self) -> Value {
        let mut copies = self.0.copies();
        // The largest first: who looks wants to know what fills it.
        copies.sort_by_key(|&(volume, bytes)| (std::cmp::Reverse(bytes), volume));
        let number = |number: u64| format!("{number:016x}");
        let copies = copies.iter().map(|&(volume, bytes)| json!({"volume": number(volume.0), "bytes": bytes}));
        let (partition, listen, copies) = (self.identity(), self.0.address(), copies.collect());
        json!(LiveHolder { partition, listen, gauges: self.gauges(), copies })
    }

    fn figures(&self) -> Figures {
        Figures { gauges: json!(self.gauges()), counters: json!({}) }
    }

    fn carry_out(&self, _: Action, _: &dyn Fn() -> bool) -> Result<(), String> {
        Err("this is a holder's folder: that is a volume's".to_owned())
    }
}
