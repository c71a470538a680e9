//! The messages under way: streams from masters to members, requests from members to masters, and pages, which travel
//! on connections of their own and overtake everything.

use super::{MASTERS, MemberNo};
use messages::{ToClient, ToServer};
use std::collections::VecDeque;
use types::{TxnId, Version};

/// Delivered messages that a stream may repeat when it resumes.
const REPEATED_MAX: usize = 8;

/// A message of a member.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Message(ToServer),
    /// The member has been notified of this change by another master than the page's.
    Heard(Version),
}

/// One master's messages to one member, first in first out.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    under_way: VecDeque<ToClient>,
    /// The last that were delivered: after a broken connection they may come again.
    delivered: VecDeque<ToClient>,
}

impl Stream {
    pub(crate) fn push(&mut self, message: ToClient) {
        self.under_way.push_back(message);
    }

    pub(crate) fn next(&mut self) -> Option<ToClient> {
        let message = self.under_way.pop_front()?;
        if self.delivered.len() == REPEATED_MAX {
            self.delivered.pop_front();
        }
        self.delivered.push_back(message.clone());
        Some(message)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// How many messages it could repeat.
    pub(crate) fn repeatable(&self) -> usize {
        self.delivered.len()
    }

    /// The last `count` delivered messages come once more.
    pub(crate) fn repeat(&mut self, count: usize) {
        for _ in 0..count {
            self.under_way.extend(self.delivered.pop_back());
            self.under_way.rotate_right(1);
        }
    }
}

/// A page under way.
#[derive(Debug)]
pub(crate) struct PageUnderWay {
    pub(crate) to: MemberNo,
    pub(crate) message: ToClient,
}

/// Everything that is under way.
#[derive(Debug)]
pub(crate) struct Links {
    members: usize,
    streams: Vec<Stream>,
    requests: Vec<VecDeque<Request>>,
    pub(crate) pages: Vec<PageUnderWay>,
}

impl Links {
    pub(crate) fn new(members: usize) -> Self {
        let links = MASTERS * members;
        Self {
            members,
            streams: (0..links).map(|_| Stream::default()).collect(),
            requests: (0..links).map(|_| VecDeque::new()).collect(),
            pages: Vec::new(),
        }
    }

    fn at(&self, master: usize, member: MemberNo) -> usize {
        master * self.members + member
    }

    /// The master and the member of a link, by its place.
    pub(crate) fn ends(&self, link: usize) -> (usize, MemberNo) {
        (link / self.members, link % self.members)
    }

    pub(crate) fn stream(&mut self, master: usize, member: MemberNo) -> &mut Stream {
        let link = self.at(master, member);
        &mut self.streams[link]
    }

    /// The links whose stream has something to deliver.
    pub(crate) fn busy_streams(&self) -> impl Iterator<Item = usize> {
        self.streams.iter().enumerate().filter(|(_, stream)| !stream.is_empty()).map(|(link, _)| link)
    }

    pub(crate) fn request(&mut self, master: usize, member: MemberNo, request: Request) {
        let link = self.at(master, member);
        self.requests[link].push_back(request);
    }

    pub(crate) fn next_request(&mut self, link: usize) -> Option<Request> {
        self.requests[link].pop_front()
    }

    /// The links on which a request is under way.
    pub(crate) fn busy_requests(&self) -> impl Iterator<Item = usize> {
        self.requests.iter().enumerate().filter(|(_, requests)| !requests.is_empty()).map(|(link, _)| link)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.busy_streams().next().is_none() && self.busy_requests().next().is_none()
    }

    /// The member's sessions are lost, with everything that is under way on them; gives the transactions whose requests
    /// are.
    pub(crate) fn lose(&mut self, member: MemberNo) -> Vec<TxnId> {
        let mut lost = Vec::new();
        for master in 0..MASTERS {
            let link = self.at(master, member);
            self.streams[link] = Stream::default();
            for request in self.requests[link].drain(..) {
                if let Request::Message(ToServer::Commit(request)) = request {
                    lost.push(request.txn);
                }
            }
        }
        lost
    }
}
