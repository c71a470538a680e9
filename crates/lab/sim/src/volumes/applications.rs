//! Applications: they write, flush, read, resize and detach; and the logs of their owners.

use super::blocks::{self, BLOCK, BLOCKS};
use super::host::{OwnRead, Role};
use super::run::World;
use crate::violation::Check;
use machines::{Content, Kept, Record, RequestId, Source, Stamp, Write};

/// Requests that wait at a time.
const WAITING_MAX: usize = 12;

impl World {
    // Applications.

    pub(super) fn next_request(&mut self, host: usize) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.hosts[host].requests.insert(request);
        request
    }

    pub(super) fn write(&mut self, host: usize) {
        if self.truth.waiting() >= WAITING_MAX || !matches!(self.hosts[host].role, Role::Owner(_)) {
            return;
        }
        let request = self.next_request(host);
        let number = self.truth.next_number();
        let first = self.rng.index(BLOCKS);
        let count = if self.rng.chance(200) { 2 } else { 1 };
        let extent = blocks::extent(first..(first + count).min(BLOCKS));
        let content = match self.rng.below(6) {
            0 => Content::Trim,
            1 => Content::Zero,
            _ => blocks::data(number, extent),
        };
        let is_fua = self.rng.chance(100);
        let copies = self.rng.below(4) as u8;
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let Some(owner) = it.owner() else { return };
        let written = owner.write(clock, Write { request, extent, content: &content, is_fua, copies });
        match written {
            Ok(stamp) => {
                let record = Record { stamp, extent, content };
                self.truth.wrote(request, &record, number, is_fua);
                self.put(host, record);
                self.note(&[4, host as u64, stamp.sequence.0], || format!("h{host} writes {stamp:?} to {extent:?}"));
            }
            Err(declined) => {
                self.hosts[host].requests.remove(&request);
                self.note(&[5, host as u64], || format!("h{host} declines a write: {}", declined.name()));
            }
        }
        self.drain(host);
    }

    /// Appends to the own log.
    pub(super) fn put(&mut self, host: usize, record: Record) {
        if let Some(log) = &mut self.hosts[host].cache.log {
            log.records.insert(record.stamp.sequence, record);
        }
    }

    pub(super) fn flush(&mut self, host: usize) {
        let Role::Owner(owner) = &self.hosts[host].role else { return };
        let epoch = owner.epoch();
        let request = self.next_request(host);
        self.truth.flushes(request, epoch);
        self.note(&[6, host as u64, request.0], || format!("h{host} flushes: request {}", request.0));
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        if let Some(owner) = it.owner() {
            owner.flush(clock, request);
        }
        self.drain(host);
    }

    pub(super) fn read(&mut self, host: usize) -> Check {
        let it = &self.hosts[host];
        if !matches!(it.role, Role::Owner(_)) {
            return Ok(());
        }
        let block = self.rng.index(BLOCKS);
        let own = it.cache.log.as_ref().and_then(|log| log.newest(block)).is_some();
        if !own && !it.is_cut && !it.is_apart && !self.opens_home(host) {
            return Ok(());
        }
        let it = &self.hosts[host];
        let Role::Owner(owner) = &it.role else { return Ok(()) };
        let is_inside = (block as u64 + 1) * BLOCK <= owner.size();
        if !is_inside || !owner.may_read(it.clock(self.now)) {
            return Ok(());
        }
        let own = it.cache.log.as_ref().and_then(|log| log.newest(block));
        let stamp = match own {
            Some(record) => {
                self.truth.contents(record)?;
                record.stamp
            }
            None if it.is_cut || it.is_apart => return Ok(()),
            None => self.house.image()[block],
        };
        let epoch = owner.epoch();
        self.note(&[7, host as u64, stamp.sequence.0], || format!("h{host} reads {stamp:?} of block {block}"));
        self.truth.read(host, epoch, block, stamp)
    }

    pub(super) fn resize(&mut self, host: usize) {
        let Role::Owner(owner) = &self.hosts[host].role else { return };
        let before = owner.size() / BLOCK;
        let size = self.rng.between(BLOCKS as u64 - 1, BLOCKS as u64);
        if before == size {
            return;
        }
        let request = self.next_request(host);
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let last = it.cache.log.as_ref().map_or(Stamp::ZERO, |log| {
            log.records.values().next_back().map_or(Stamp::begin(log.epoch), |record| record.stamp)
        });
        let Some(owner) = it.owner() else { return };
        let Ok(trim) = owner.resize(clock, request, size * BLOCK) else {
            self.hosts[host].requests.remove(&request);
            return;
        };
        self.note(&[8, host as u64, size], || format!("h{host} resizes to {size} blocks"));
        let tail = (size < before).then_some(size as usize..before as usize);
        self.truth.resizes(request, tail, last);
        if let Some(record) = trim {
            self.truth.put(&record, self.truth.next_number());
            self.put(host, record);
        }
        self.drain(host);
    }

    pub(super) fn detach(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        if let Some(owner) = it.owner() {
            owner.detach(clock);
            self.note(&[9, host as u64], || format!("h{host} detaches"));
            self.drain(host);
        }
    }

    // The log of an owner.

    pub(super) fn append(&mut self, host: usize) {
        let Some(log) = &mut self.hosts[host].cache.log else { return };
        let (durable, last) = (log.durable.0, log.last().0);
        if durable == last || log.failed_at.is_some() {
            return;
        }
        log.durable.0 = self.rng.between(durable + 1, last);
        let through = log.durable;
        self.note(&[10, host as u64, through.0], || format!("h{host} has its log through {through:?}"));
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        if let Some(owner) = it.owner() {
            owner.appended(clock, through);
        }
        self.drain(host);
    }

    pub(super) fn own_read(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        let clock = it.clock(self.now);
        let (Some(read), Some(log)) = (it.reads.pop_front(), &it.cache.log) else { return };
        match (read, &mut it.role) {
            (OwnRead::ForHolder(read), Role::Owner(owner)) => owner.found(clock, read.number, log.find(read)),
            (OwnRead::ForHome(stamp), Role::TakeOver(takeover)) => {
                let record = log.by_stamp(stamp).map(|it| (it.extent, it.content.clone()));
                takeover.kept(clock, Source::Own, Kept { stamp, record });
            }
            _ => {}
        }
        self.drain(host);
    }
}
