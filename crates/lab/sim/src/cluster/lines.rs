//! The connections between clients, redirectors and nodes.
//!
//! A connection keeps its order, and is not in step with the others. When it is lost both ends learn of it at once, and
//! what was on its way is gone. A client says itself with which nodes it wants one.

use machine::UpstreamId;
use messages::{ToClient, ToServer};
use std::collections::{BTreeMap, VecDeque};
use types::SessionId;

/// A connection, by who has opened it and their number for it: an application, or behind these a group's redirector.
pub(crate) type LineId = (usize, UpstreamId);

/// One connection that a client wants, or has.
#[derive(Debug)]
pub(crate) struct Line {
    /// The node at its other end, or behind these the redirector of a group.
    pub(crate) node: usize,
    /// The node's session, while it is up.
    pub(crate) session: Option<SessionId>,
    pub(crate) to_node: VecDeque<ToServer>,
    pub(crate) to_client: VecDeque<ToClient>,
    /// The node has ended it: it is lost when the client has heard what was said.
    pub(crate) is_ending: bool,
}

/// The connections of all applications.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    all: BTreeMap<LineId, Line>,
    /// How many sessions there ever were.
    sessions: u64,
}

impl Lines {
    /// A client wants a connection to a node.
    pub(crate) fn open(&mut self, id: LineId, node: usize) {
        let (to_node, to_client) = (VecDeque::new(), VecDeque::new());
        self.all.insert(id, Line { node, session: None, to_node, to_client, is_ending: false });
    }

    /// A client wants a connection no longer.
    pub(crate) fn close(&mut self, id: LineId) -> Option<Line> {
        self.all.remove(&id)
    }

    pub(crate) fn get(&mut self, id: LineId) -> Option<&mut Line> {
        self.all.get_mut(&id)
    }

    /// The connections that are not up, and their nodes.
    pub(crate) fn down(&self) -> Vec<(LineId, usize)> {
        self.all.iter().filter(|(_, line)| line.session.is_none()).map(|(&id, line)| (id, line.node)).collect()
    }

    /// All connections of a caller.
    pub(crate) fn all_of(&self, caller: usize) -> Vec<LineId> {
        self.all.keys().filter(|(of, _)| *of == caller).copied().collect()
    }

    /// The connections that are up, of those to a node or of all.
    pub(crate) fn up(&self, node: Option<usize>) -> Vec<LineId> {
        let is_meant = |line: &Line| line.session.is_some() && node.is_none_or(|node| line.node == node);
        self.all.iter().filter(|(_, line)| is_meant(line)).map(|(&id, _)| id).collect()
    }

    /// The connections on which something is on its way, or comes to its end.
    pub(crate) fn busy(&self) -> Vec<LineId> {
        let is_busy = |line: &Line| !line.to_node.is_empty() || !line.to_client.is_empty() || line.is_ending;
        self.all.iter().filter(|(_, line)| is_busy(line)).map(|(&id, _)| id).collect()
    }

    /// A connection is up from now on. Returns the number of its session.
    pub(crate) fn begin(&mut self, id: LineId) -> Option<SessionId> {
        let line = self.all.get_mut(&id)?;
        self.sessions += 1;
        let session = SessionId(self.sessions);
        line.session = Some(session);
        Some(session)
    }

    /// A connection is lost. Returns its node and its session.
    pub(crate) fn lose(&mut self, id: LineId) -> Option<(usize, SessionId)> {
        let line = self.all.get_mut(&id)?;
        line.to_node.clear();
        line.to_client.clear();
        line.is_ending = false;
        Some((line.node, line.session.take()?))
    }

    /// The connection of a node's session.
    pub(crate) fn of(&mut self, node: usize, session: SessionId) -> Option<&mut Line> {
        self.all.values_mut().find(|line| line.node == node && line.session == Some(session))
    }
}
