//! An updater: a process that makes updates visible, as the client of a hub elsewhere.
//!
//! ```text
//!   update --Update--> waiting --Released--> released --visible--> Visible, and forgotten
//! ```
//! An update under way is said again when a session was lost: a hub that knows it goes on, and a new one marks it anew,
//! also if an earlier one had released it. So none becomes visible behind the back of the homes.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use node::{Machine, Output, Port, Waiter};
use protocol::homes::{Dependency, FromHub, Introduce, Released, ToHub, Update, Visible};
use protocol::{Cell, Parcel};
use types::Time;
use types::limits::DEPENDENCIES_PER_UPDATE_MAX;

/// An updater.
#[derive(Debug)]
pub struct Updater {
    life: u64,
    last: u64,
    under_way: BTreeMap<u64, UnderWay>,
    is_up: bool,
    is_over: bool,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
struct UnderWay {
    dependencies: Vec<Dependency>,
    is_released: bool,
}

impl Updater {
    /// An updater in this life, whose number is drawn at random: two lives have different ones.
    pub fn new(life: u64) -> Self {
        let (under_way, outputs) = Default::default();
        Self { life, last: 0, under_way, is_up: false, is_over: false, outputs }
    }

    /// An update of these dependencies is about to become visible; gives the updater's number for it. It may when it is
    /// released, of which a caller under that number ([`Waiter`]) is told. More than an update may name are everything.
    pub fn update(&mut self, mut dependencies: Vec<Dependency>) -> u64 {
        if dependencies.len() > DEPENDENCIES_PER_UPDATE_MAX {
            dependencies = Vec::from([Dependency::ALL]);
        }
        self.last += 1;
        self.under_way.insert(self.last, UnderWay { dependencies, is_released: false });
        if self.is_up {
            self.announce(self.last);
        }
        self.last
    }

    /// Whether an update is released.
    pub fn is_released(&self, id: u64) -> bool {
        self.under_way.get(&id).is_some_and(|under_way| under_way.is_released)
    }

    /// Whether nothing is to be had of a hub any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// An update is visible to every new reader, or does not take place.
    pub fn visible(&mut self, id: u64) {
        if self.under_way.remove(&id).is_some() && self.is_up {
            self.say(Visible { id });
        }
    }

    fn announce(&mut self, id: u64) {
        let dependencies = self.under_way[&id].dependencies.clone();
        self.say(Update { id, dependencies });
    }

    fn say(&mut self, message: impl Into<ToHub>) {
        self.outputs.push_back(Output::Send(Port::Server, Parcel::new(message.into()), None));
    }
}

impl Machine for Updater {
    fn connected(&mut self, _: Time, _: Port) {
        self.is_up = true;
        self.say(Introduce { life: self.life });
        for id in self.under_way.keys().copied().collect::<Vec<_>>() {
            self.announce(id);
        }
    }

    fn disconnected(&mut self, _: Time, _: Port) {
        self.is_up = false;
    }

    fn handle(&mut self, _: Time, _: Port, message: Parcel) {
        if let Ok(FromHub::Released(Released { id })) = message.open()
            && let Some(under_way) = self.under_way.get_mut(&id)
        {
            under_way.is_released = true;
            self.outputs.push_back(Output::Wake(Waiter(id)));
        }
    }

    /// Its callers find that nothing is released any more.
    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs.clear();
        self.outputs.extend(self.under_way.keys().map(|&id| Output::Wake(Waiter(id))));
        self.under_way.clear();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn has_callers(&self) -> bool {
        true
    }

    fn status(&self) -> Vec<protocol::Table> {
        let row = [("life", self.life.into()), ("updates_under_way", self.under_way.len().into())];
        let (columns, cells): (Vec<_>, Vec<Cell>) =
            row.into_iter().map(|(name, cell)| (String::from(name), cell)).unzip();
        Vec::from([protocol::Table { name: String::from("updater"), columns, rows: Vec::from([cells]) }])
    }
}
