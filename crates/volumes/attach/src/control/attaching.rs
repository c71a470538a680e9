//! A volume that is being attached, as its operator sees it: that may take long, as what is not written back is brought
//! there first.

use super::{Action, Controlled, ControlledVolume};
use crate::scrub::{ComparedCopies, Repair};
use machine::Table;
use machines::messages::home::BlockSums;
use serde_json::{Value, json};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A volume that is being attached, and then is.
#[derive(Debug)]
pub struct AttachingVolume {
    name: String,
    identity: String,
    said: Mutex<String>,
    attached: OnceLock<ControlledVolume>,
}

impl AttachingVolume {
    /// A volume of this name and identity, of which nothing was said yet.
    pub fn new(name: String, identity: String) -> Self {
        Self { name, identity, said: Mutex::default(), attached: OnceLock::new() }
    }

    /// Returns how far it has come.
    pub fn say(&self, text: &str) {
        text.clone_into(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is attached.
    pub fn attached(&self, volume: ControlledVolume) {
        // Once: there is one attachment for a process.
        let _ = self.attached.set(volume);
    }
}

const NOT_YET: &str = "the volume is being attached: ask again when it is";

impl Controlled for AttachingVolume {
    fn kind(&self) -> &'static str {
        "volume"
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn status(&self) -> Value {
        self.attached.get().map_or_else(|| json!({"volume": self.name, "attaching": self.said()}), Controlled::status)
    }

    fn tables(&self) -> Vec<Table> {
        self.attached.get().map_or_else(Vec::new, Controlled::tables)
    }

    fn troubles(&self) -> Vec<String> {
        self.attached.get().map_or_else(|| vec![format!("{NOT_YET} ({})", self.said())], Controlled::troubles)
    }

    fn clean(&self, first: u32, blocks: u32) -> Result<Vec<(u32, BlockSums)>, String> {
        self.attached.get().map_or_else(|| Err(NOT_YET.to_owned()), |volume| volume.clean(first, blocks))
    }

    fn copies(&self, repairs: bool, is_given_up: &dyn Fn() -> bool) -> Result<ComparedCopies, String> {
        self.attached.get().map_or_else(|| Err(NOT_YET.to_owned()), |volume| volume.copies(repairs, is_given_up))
    }

    fn repair(&self, blocks: &[u32], is_given_up: &dyn Fn() -> bool) -> Result<Vec<Repair>, String> {
        self.attached.get().map_or_else(|| Err(NOT_YET.to_owned()), |volume| volume.repair(blocks, is_given_up))
    }

    fn carry_out(&self, action: Action, is_given_up: &dyn Fn() -> bool) -> Result<(), String> {
        let not_yet = || Err(NOT_YET.to_owned());
        self.attached.get().map_or_else(not_yet, |volume| volume.carry_out(action, is_given_up))
    }
}
