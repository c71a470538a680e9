//! The machines of one process in one place, for a driver of one thread: the simulator. A driver of many threads keeps
//! each under a lock of its own (`net`).

use crate::hosted::{Event, Hosted, Said};
use crate::machine::{Machine, RoleId};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use types::Time;

/// The machines of one process, and what they want done.
#[derive(Debug, Default)]
pub struct Node {
    roles: Vec<Box<Hosted>>,
    /// The events that the machines have for each other, and that were not told yet.
    inboxes: Vec<VecDeque<Event>>,
    /// They wait there.
    defers: bool,
    outputs: VecDeque<(RoleId, Said)>,
}

impl Node {
    /// A process without a machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a machine.
    pub fn add(&mut self, machine: impl Machine) -> RoleId {
        let id = RoleId(self.roles.len() as u8);
        self.roles.push(Box::new(Hosted::new(machine)));
        self.inboxes.push(VecDeque::new());
        id
    }

    /// A machine has its server in the same process; the server was added before it.
    pub fn link(&mut self, client: RoleId, server: RoleId) {
        self.role(client).link_server(server);
        self.role(server).link_client(client);
    }

    /// Two machines tell each other notes.
    pub fn stand_beside(&mut self, one: RoleId, other: RoleId) {
        self.role(one).stand_beside(other);
        self.role(other).stand_beside(one);
    }

    /// Opens all of them for business, in the order in which they were added.
    pub fn start(&mut self, now: Time) {
        for role in &mut self.roles {
            role.start(now);
        }
    }

    /// Tells a machine what has happened.
    pub fn tell(&mut self, now: Time, role: RoleId, event: Event) {
        self.role(role).tell(now, event);
    }

    /// Tells every machine that time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.roles.iter_mut().for_each(|role| role.tell(now, Event::Timeout));
    }

    /// Closes every machine.
    pub fn close(&mut self, now: Time) {
        self.roles.iter_mut().for_each(|role| role.tell(now, Event::Close));
    }

    /// The process is done with its machines, and why.
    pub fn stop(&mut self, why: &str) {
        self.outputs.clear();
        self.roles.iter_mut().for_each(|role| role.stop(why));
    }

    /// When [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.roles.iter().filter_map(|role| role.poll_timeout()).min()
    }

    /// The next action for the driver, and its machine.
    pub fn poll(&mut self, now: Time) -> Option<(RoleId, Said)> {
        if self.outputs.is_empty() {
            self.settle(now);
        }
        self.outputs.pop_front()
    }

    /// From now on the machines' events for each other wait, or wait no longer: a driver of many threads takes them
    /// to the other machine a little later, and something else may happen to that one before.
    pub fn defer(&mut self, defers: bool) {
        self.defers = defers;
    }

    /// Lets the machines talk until none has anything left to say. Those that were added last come first: clients.
    fn settle(&mut self, now: Time) {
        let mut any = true;
        while any {
            any = false;
            for id in (0..self.roles.len()).rev() {
                let told = if self.defers { VecDeque::new() } else { mem::take(&mut self.inboxes[id]) };
                for event in told {
                    any = true;
                    self.roles[id].tell(now, event);
                }
                while let Some(said) = self.roles[id].poll(now) {
                    any = true;
                    match said {
                        Said::Tell(other, event) => self.inboxes[usize::from(other.0)].push_back(event),
                        said => self.outputs.push_back((RoleId(id as u8), said)),
                    }
                }
            }
        }
    }

    /// The first machine of this type, and its number.
    pub fn find<M: Machine>(&self) -> Option<&M> {
        self.roles.iter().find_map(|role| role.find())
    }

    /// The same, for its application.
    pub fn find_mut<M: Machine>(&mut self) -> Option<&mut M> {
        self.roles.iter_mut().find_map(|role| role.find_mut())
    }

    /// Exchanges the first machine of its type for this one: how a simulator lends it to a front end.
    pub fn exchange<M: Machine>(&mut self, other: &mut Hosted<M>) {
        if let Some(machine) = self.find_mut::<M>() {
            mem::swap(machine, other.machine());
        }
    }

    /// The number of the first machine of this type.
    pub fn role_of<M: Machine>(&self) -> Option<RoleId> {
        let number = self.roles.iter().position(|role| role.find::<M>().is_some())?;
        Some(RoleId(number as u8))
    }

    /// A machine in its process.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn role(&mut self, id: RoleId) -> &mut Hosted {
        &mut self.roles[usize::from(id.0)]
    }
}
