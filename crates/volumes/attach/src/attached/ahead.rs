//! Reading ahead, for clients that read a volume in order whose home is elsewhere: else each of their requests would be
//! a way there and back.
//!
//! ```text
//!   read 8, 9, 10 ---> a stream, whose window grows ---> home is asked for 11..75       (the thread of the read)
//!                      what comes is kept as clean blocks                               (volume-ahead)
//!   read 11 ---------> it is under way: it is waited for, and is a clean block then
//! ```
//! 1. A read belongs to a stream if it begins near its end: clients have several requests under way, and pass over
//!    blocks.
//! 2. Half of the window is asked for again when the other half is left; it doubles with each time.
//! 3. Blocks that have come are kept like those that were read: not if they were written in the meantime.

use super::read::Found;
use super::write::LOOK_EVERY;
use super::{Core, State};
use crate::extents::Blocks;
use std::sync::PoisonError;

/// Streams that are followed at a time.
const STREAMS_MAX: usize = 16;

/// A read may begin so many blocks before or behind the end of its stream, or four times its own length.
const NEAR: u32 = 64;

/// Reads that make a stream.
const READS_MIN: u32 = 3;

/// The window of a new stream, in blocks.
const WINDOW_MIN: u32 = 64;

/// The largest window: 8 MiB, some 200 MB/s over a line of 40 ms.
const WINDOW_MAX: u32 = 2048;

/// Blocks that are asked for, and kept, together.
const CHUNK: u32 = 64;

/// Chunks that are under way at a time.
const CHUNKS_MAX: usize = 128;

/// A client's way through the volume.
#[derive(Debug)]
struct Stream {
    /// The block behind the last one that was read.
    next: u32,
    /// The block behind the last one that was asked for.
    asked: u32,
    window: u32,
    reads: u32,
}

impl Stream {
    fn is_near(&self, blocks: &Blocks) -> bool {
        let near = NEAR.max(4 * blocks.len() as u32);
        blocks.start <= self.next.saturating_add(near) && self.next <= blocks.start.saturating_add(near)
    }

    /// A read that belongs to it: gives the blocks that should be asked for.
    fn read(&mut self, blocks: &Blocks, window_max: u32, end: u32) -> Blocks {
        if blocks.end <= self.next {
            return 0..0;
        }
        self.next = blocks.end;
        self.asked = self.asked.max(self.next);
        self.reads = self.reads.saturating_add(1);
        if self.reads < READS_MIN || self.asked - self.next > self.window / 2 {
            return 0..0;
        }
        let from = self.asked;
        self.asked = self.next.saturating_add(self.window).min(end).max(from);
        self.window = self.window.saturating_mul(2).min(window_max);
        from..self.asked
    }
}

/// The streams of a volume, and what is under way for them.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The one that was read last is the last.
    streams: Vec<Stream>,
    /// The largest window; 0 if nothing is read ahead.
    window_max: u32,
    under_way: Vec<Blocks>,
    /// Those that home was asked for, in order.
    arriving: Vec<Found>,
}

impl Ahead {
    /// With room for this many clean blocks; without any where home is at hand, as the system reads ahead there.
    pub(super) fn new(clean_blocks: usize) -> Self {
        // A window must not displace itself: new blocks have a tenth of the room.
        let window_max = (clean_blocks / 20).min(WINDOW_MAX as usize) as u32;
        let window_max = if window_max < WINDOW_MIN { 0 } else { window_max };
        Self { streams: Vec::new(), window_max, under_way: Vec::new(), arriving: Vec::new() }
    }

    /// A read of a volume of this many blocks: gives the blocks that should be asked for.
    fn read(&mut self, blocks: &Blocks, end: u32) -> Blocks {
        if self.window_max == 0 {
            return 0..0;
        }
        let Some(at) = self.streams.iter().rposition(|stream| stream.is_near(blocks)) else {
            if self.streams.len() == STREAMS_MAX {
                self.streams.remove(0);
            }
            let next = blocks.end;
            self.streams.push(Stream { next, asked: next, window: WINDOW_MIN, reads: 1 });
            return 0..0;
        };
        self.streams[at..].rotate_left(1);
        let stream = self.streams.last_mut().expect("the one that was found");
        stream.read(blocks, self.window_max, end)
    }

    fn is_under_way(&self, blocks: &Blocks) -> bool {
        self.under_way.iter().any(|it| it.start < blocks.end && blocks.start < it.end)
    }
}

impl State {
    /// A read of these blocks: gives those to be asked for at home, which are under way from now on.
    pub(super) fn read_ahead(&mut self, blocks: &Blocks, end: u32) -> Vec<Found> {
        let wanted = self.ahead.read(blocks, end);
        self.want(wanted)
    }

    /// The same for blocks that a client will read, as it says.
    pub(super) fn read_ahead_all(&mut self, blocks: Blocks) -> Vec<Found> {
        let end = blocks.end.min(blocks.start.saturating_add(self.ahead.window_max));
        self.want(blocks.start..end)
    }

    fn want(&mut self, mut wanted: Blocks) -> Vec<Found> {
        let mut founds = Vec::new();
        while !wanted.is_empty() && self.ahead.under_way.len() < CHUNKS_MAX {
            let chunk = wanted.start..wanted.end.min(wanted.start.saturating_add(CHUNK));
            wanted.start = chunk.end;
            if self.ahead.is_under_way(&chunk) {
                continue;
            }
            let found = self.find(chunk.clone()).at_home();
            if found.has_home() {
                self.ahead.under_way.push(chunk);
                founds.push(found);
            }
        }
        founds
    }

    /// Whether some of these blocks are under way.
    pub(super) fn is_under_way(&self, found: &Found) -> bool {
        found.has_home() && self.ahead.is_under_way(found.blocks())
    }
}

impl Core {
    /// Asks home for blocks that are under way.
    pub(super) fn ask_ahead(&self, mut founds: Vec<Found>) {
        if founds.is_empty() {
            return;
        }
        for found in &mut founds {
            found.ask(&self.home);
        }
        self.state().ahead.arriving.append(&mut founds);
        self.ahead.notify_all();
    }

    /// Waits for blocks that are under way, unless they are unwanted, and finds them again.
    pub(super) fn await_ahead(&self, blocks: Blocks, is_unwanted: &dyn Fn() -> bool) -> Found {
        let waits =
            |state: &mut State| state.ahead.is_under_way(&blocks) && !state.is_closing && state.failed.is_none();
        let mut state = self.state();
        while waits(&mut state) && !is_unwanted() {
            state = self.arrived.wait_timeout_while(state, LOOK_EVERY, waits).unwrap_or_else(PoisonError::into_inner).0;
        }
        let found = state.find(blocks.clone());
        state.counts.read(found.reads());
        found
    }

    /// The thread that keeps what comes.
    pub(super) fn keep_ahead(&self) {
        let waits = |state: &mut State| state.ahead.arriving.is_empty() && !state.is_closing && state.failed.is_none();
        loop {
            let mut state = self.ahead.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
            if state.is_closing || state.failed.is_some() {
                self.arrived.notify_all();
                return;
            }
            let founds = std::mem::take(&mut state.ahead.arriving);
            drop(state);
            let is_kept = founds.into_iter().all(|found| {
                let blocks = found.blocks().clone();
                let kept = self.keep_found(found);
                self.state().ahead.under_way.retain(|it| *it != blocks);
                self.arrived.notify_all();
                kept
            });
            if !is_kept {
                // Home is unreachable: whoever reads asks for himself, and learns of it.
                let mut state = self.state();
                state.ahead.under_way.clear();
                state.ahead.arriving.clear();
                self.arrived.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u32 = 100_000;

    fn ahead() -> Ahead {
        Ahead::new(1 << 20)
    }

    fn read(ahead: &mut Ahead, start: u32) -> Blocks {
        ahead.read(&(start..start + 1), END)
    }

    #[test]
    fn the_third_read_in_order_asks_for_more_and_the_window_grows() {
        let mut ahead = ahead();
        let asked: Vec<_> = (0..5000).map(|block| read(&mut ahead, block)).filter(|it| !it.is_empty()).collect();
        assert_eq!(asked[..3], [3..67, 67..132, 132..261]);
        assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start), "{asked:?}");
        let most = asked.iter().map(Blocks::len).max();
        assert!(most > Some(1000) && most <= Some(WINDOW_MAX as usize), "{most:?}");
    }

    #[test]
    fn nothing_is_asked_for_behind_the_end() {
        let mut ahead = ahead();
        let mut asked = (END - 20..END).map(|block| read(&mut ahead, block)).filter(|it| !it.is_empty());
        assert_eq!((asked.next(), asked.next()), (Some(END - 17..END), None));
    }

    #[test]
    fn blocks_that_are_passed_over_and_requests_out_of_order_are_of_one_stream() {
        let mut ahead = ahead();
        let places = (0..400).map(|at| at * 10 / 7).collect::<Vec<u32>>();
        let swapped = places.chunks(2).flat_map(|pair| [pair[1], pair[0]]);
        let asked: usize = swapped.map(|block| read(&mut ahead, block).len()).sum();
        assert!(asked > 500, "{asked}");
    }

    #[test]
    fn streams_beside_each_other_and_others_between_them() {
        let mut ahead = ahead();
        let mut asked = [0; 2];
        for at in 0..100 {
            asked[0] += read(&mut ahead, at).len();
            asked[1] += read(&mut ahead, 50_000 + at).len();
            assert!(read(&mut ahead, (at * 7919 + 1000) % 40_000 + 5000).is_empty());
        }
        assert!(asked.iter().all(|count| *count > 200), "{asked:?}");
    }

    #[test]
    fn without_room_for_a_window_nothing_is_read_ahead() {
        let mut ahead = Ahead::new(1000);
        assert!((0..100).all(|block| read(&mut ahead, block).is_empty()));
    }
}
