//! The disks: when an operation's requests have ended. A request waits for those before it on its disk, which positions
//! itself first and then carries the bytes; disks that are shared carry them over one way.

use super::hardware::{Disks, Hardware};
use crate::drive::Operation;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use types::Time;

/// A file on the disks. Shared disks have stripes of every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// The pages of all nodes.
    Pages,
    /// The log of a node.
    Log(usize),
}

/// A request: these bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) file: File,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) writes: bool,
}

/// An operation of a node, which ends with the last of its requests.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) node: usize,
    pub(super) operation: Operation,
    pub(super) requests: Vec<Request>,
}

/// The part of a request that is on one disk.
#[derive(Clone, Copy, Debug)]
struct Part {
    job: u64,
    file: File,
    offset: u64,
    bytes: u64,
}

/// One of the disks that are shared.
#[derive(Debug, Default)]
struct Disk {
    /// The first of them is served.
    parts: VecDeque<Part>,
    /// The disk is in position for the first part, and carries its bytes.
    carries: bool,
    /// Where the last part ended.
    last: Option<(File, u64)>,
}

/// The disks, and everything that they have to do.
#[derive(Debug)]
pub(super) struct DiskQueues {
    settings: Disks,
    disks: Vec<Disk>,
    /// The way to disks that are shared, or to each that is a node's own, is free from then on.
    way_free: Vec<Time>,
    /// The operations that have not ended, and how many parts are left of each.
    jobs: BTreeMap<u64, (usize, Operation, usize)>,
    begun: u64,
    /// When something happens next at disks.
    due: Vec<(Time, DiskEvent)>,
}

/// Something that happens at the disks.
#[derive(Debug)]
pub(super) enum DiskEvent {
    /// A disk that is shared has come to its place, or has carried everything.
    At(usize),
    /// An operation of a node has ended.
    Ended(usize, Operation),
}

impl DiskQueues {
    pub(super) fn new(nodes: usize, hardware: &Hardware) -> Self {
        let (count, ways) = if let Disks::Shared { count, .. } = hardware.disks { (count, 1) } else { (0, nodes) };
        Self {
            settings: hardware.disks,
            disks: (0..count).map(|_| Disk::default()).collect(),
            way_free: vec![Time::ZERO; ways],
            jobs: BTreeMap::new(),
            begun: 0,
            due: Vec::new(),
        }
    }

    /// An operation begins.
    pub(super) fn submit(&mut self, now: Time, job: Job) {
        let Job { node, operation, requests } = job;
        match self.settings {
            Disks::Own { bytes_per_second, read, write, flush_writes } => {
                let way_free = &mut self.way_free[node];
                let mut ends = now;
                for request in requests {
                    *way_free = (*way_free).max(now) + carried(request.bytes, bytes_per_second);
                    let writes = if operation == Operation::Flush { flush_writes } else { 1 };
                    ends = ends.max(*way_free + if request.writes { write * writes } else { read });
                }
                self.due.push((ends, DiskEvent::Ended(node, operation)));
            }
            Disks::Shared { count, stripe_bytes, .. } => {
                self.begun += 1;
                let parts: Vec<_> =
                    requests.iter().flat_map(|request| parts(self.begun, request, stripe_bytes)).collect();
                if parts.is_empty() {
                    self.due.push((now, DiskEvent::Ended(node, operation)));
                    return;
                }
                self.jobs.insert(self.begun, (node, operation, parts.len()));
                for part in parts {
                    // The first stripes of files are on different disks.
                    let first = if let File::Log(node) = part.file { node } else { 0 };
                    let at = (first as u64 + part.offset / stripe_bytes) as usize % count;
                    self.disks[at].parts.push_back(part);
                    if self.disks[at].parts.len() == 1 {
                        self.position(now, at);
                    }
                }
            }
        }
    }

    /// A disk goes to its next part.
    fn position(&mut self, now: Time, at: usize) {
        let Disks::Shared { seek, rotation, .. } = self.settings else { return };
        let disk = &mut self.disks[at];
        let Some(part) = disk.parts.front() else { return };
        let continues = disk.last == Some((part.file, part.offset));
        let takes = rotation + if continues { Duration::ZERO } else { seek };
        self.due.push((now + takes, DiskEvent::At(at)));
    }

    /// Something happens at a disk that is shared.
    pub(super) fn happen(&mut self, now: Time, at: usize) {
        let Disks::Shared { bytes_per_second, total_bytes_per_second, .. } = self.settings else { return };
        let disk = &mut self.disks[at];
        let Some(part) = disk.parts.front().copied() else { return };
        disk.carries = !disk.carries;
        if disk.carries {
            self.way_free[0] = self.way_free[0].max(now) + carried(part.bytes, total_bytes_per_second);
            let ends = (now + carried(part.bytes, bytes_per_second)).max(self.way_free[0]);
            self.due.push((ends, DiskEvent::At(at)));
            return;
        }
        disk.parts.pop_front();
        disk.last = Some((part.file, part.offset + part.bytes));
        self.position(now, at);
        let left = self.jobs.get_mut(&part.job).map(|(.., left)| {
            *left -= 1;
            *left
        });
        if left == Some(0)
            && let Some((node, operation, _)) = self.jobs.remove(&part.job)
        {
            self.due.push((now, DiskEvent::Ended(node, operation)));
        }
    }

    /// The next thing that happens, and when.
    pub(super) fn poll(&mut self) -> Option<(Time, DiskEvent)> {
        self.due.pop()
    }
}

fn carried(bytes: u64, bytes_per_second: f64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_second)
}

/// The parts of a request, one for each stripe.
fn parts(job: u64, request: &Request, stripe_bytes: u64) -> impl Iterator<Item = Part> {
    let Request { file, offset: begin, bytes, .. } = *request;
    let end = begin + bytes;
    let stripes = begin / stripe_bytes..end.div_ceil(stripe_bytes);
    stripes.map(move |stripe| {
        let offset = begin.max(stripe * stripe_bytes);
        Part { job, file, offset, bytes: end.min((stripe + 1) * stripe_bytes) - offset }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicomputer::Memory;

    fn hardware(disks: Disks) -> Hardware {
        Hardware {
            instructions_per_second: 1e6,
            page_instructions: 0,
            copy_instructions: 0,
            disk_instructions: 0,
            message: Duration::ZERO,
            wire: Duration::ZERO,
            link_bytes_per_second: 1e6,
            delta_bytes_min: 0,
            disks,
            memory: Memory { client: 0, store: 0, mob: 0 },
        }
    }

    /// Submits all of these at the beginning. Returns when each ends, by its node, in milliseconds.
    fn ends(disks: Disks, jobs: &[(usize, Operation, Request)]) -> BTreeMap<usize, u64> {
        let mut queues = DiskQueues::new(9, &hardware(disks));
        for (node, operation, request) in jobs {
            let job = Job { node: *node, operation: operation.clone(), requests: vec![*request] };
            queues.submit(Time::ZERO, job);
        }
        let (mut ends, mut due) = (BTreeMap::new(), Vec::new());
        loop {
            due.extend(core::iter::from_fn(|| queues.poll()));
            due.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
            match due.pop() {
                Some((at, DiskEvent::At(disk))) => queues.happen(at, disk),
                Some((at, DiskEvent::Ended(node, _))) => drop(ends.insert(node, at.0 / 1_000_000)),
                None => return ends,
            }
        }
    }

    const PAGES: Request = Request { file: File::Pages, offset: 500, bytes: 1000, writes: true };

    #[test]
    fn a_request_over_two_stripes_uses_two_disks_which_position_themselves() {
        let shared = Disks::Shared {
            count: 2,
            stripe_bytes: 1000,
            bytes_per_second: 1e5,
            total_bytes_per_second: 1e6,
            seek: Duration::from_millis(12),
            rotation: Duration::from_millis(7),
        };
        let continues = Request { offset: 1500, bytes: 100, ..PAGES };
        let log = Request { file: File::Log(1), offset: 0, bytes: 100, ..PAGES };
        let jobs = [PAGES, continues, log].into_iter().enumerate();
        let jobs: Vec<_> = jobs.map(|(node, request)| (node, Operation::Install, request)).collect();
        // 500 bytes on each disk; then 100 right behind on the second one; then, far from these, the log, whose first
        // stripe is there, too.
        let [first, second] = [12 + 7 + 5, 24 + 7 + 1];
        assert_eq!(ends(shared, &jobs), BTreeMap::from([(0, first), (1, second), (2, second + 19 + 1)]));
    }

    #[test]
    fn all_disks_together_carry_no_more_than_the_way_to_them() {
        let shared = Disks::Shared {
            count: 10,
            stripe_bytes: 1000,
            bytes_per_second: 1e6,
            total_bytes_per_second: 1e6,
            seek: Duration::ZERO,
            rotation: Duration::ZERO,
        };
        let all = Request { offset: 0, bytes: 10_000, ..PAGES };
        assert_eq!(ends(shared, &[(0, Operation::Install, all)]), BTreeMap::from([(0, 10)]));
    }

    #[test]
    fn a_node_s_own_disk_works_on_several_requests_at_the_same_time() {
        let (read, write) = (Duration::from_millis(80), Duration::from_millis(15));
        let own = Disks::Own { bytes_per_second: 1e6, read, write, flush_writes: 2 };
        let page = Request { writes: false, ..PAGES };
        let jobs = [(1, Operation::Install, page), (1, Operation::Install, page), (2, Operation::Flush, PAGES)];
        // The second page's bytes come behind those of the first.
        assert_eq!(ends(own, &jobs), BTreeMap::from([(1, 82), (2, 31)]));
    }
}
