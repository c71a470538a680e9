//! A holder, as its operator sees it.

use super::{Action, Controlled};
use crate::holder::HolderServer;
use serde_json::{Value, json};
use std::sync::Arc;

/// A holder that runs.
#[derive(Debug)]
pub struct ControlledHolder(pub Arc<HolderServer>);

/// The fields that are figures, and whether they only grow.
const FIGURES: [(&str, bool); 4] = [("room", false), ("used", false), ("free", false), ("volumes", false)];

impl Controlled for ControlledHolder {
    fn kind(&self) -> &'static str {
        "holder"
    }

    fn identity(&self) -> String {
        format!("{:016x}", self.0.partition().0)
    }

    fn status(&self) -> Value {
        let (status, mut copies) = (self.0.status(), self.0.copies());
        // The largest first: who looks wants to know what fills it.
        copies.sort_by_key(|&(volume, bytes)| (std::cmp::Reverse(bytes), volume));
        let number = |number: u64| format!("{number:016x}");
        let copies = copies.iter().map(|&(volume, bytes)| json!({"volume": number(volume.0), "bytes": bytes}));
        json!({
            "partition": self.identity(),
            "listen": self.0.address(),
            "room": status.room,
            "used": status.used,
            "free": status.free,
            "volumes": status.volumes,
            "copies": copies.collect::<Vec<_>>(),
        })
    }

    fn figures(&self) -> &'static [(&'static str, bool)] {
        &FIGURES
    }

    fn carry_out(&self, _: Action, _: &dyn Fn() -> bool) -> Result<(), String> {
        Err("this is a holder's folder: that is a volume's".to_owned())
    }
}
