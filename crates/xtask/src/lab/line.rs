//! One direction of a site's line: it holds each packet until its time has come. Pure: the caller says what time it is.
//!
//! ```text
//!   push(at) ──► cut? lost? ──► [ waits for the rate ]──[ is on its way for one_way ] ──► pop(now)
//!                                free_at: when the wire          due: when it is there
//!                                has sent all before
//! ```
//! 1. Packets come out in the order they went in, none before its time.
//! 2. The packets that a line holds are bounded in bytes, and those that wait for the rate in time. Packets beyond that
//!    are dropped, as by a router, and a line that is cut drops everything.
//! 3. The same packets at the same times are lost with the same seed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A packet as it came from a device: an IP header and what it heads.
pub(super) type Packet = Box<[u8]>;

/// The most that one line may hold. A second of 100 Mbit/s, or 20 ms of more than these devices can carry.
const HELD_BYTES_MAX: usize = 16 << 20;

/// The bytes that a packet counts beside its own, so that a flood of tiny ones is bounded too.
const PACKET_COST_BYTES: usize = 64;

/// A router lets about a round trip's worth of packets wait: less starves a single connection, more only adds delay.
/// On a short line this much, as the bursts of a connection do not get shorter with it.
const WAIT_MIN: Duration = Duration::from_millis(50);

/// The quality of a line: all lines of a lab are made so, and one at a time may be changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quality {
    /// How long a packet is on its way.
    pub(crate) one_way: Duration,
    /// How many bits go into the line in a second; `None`: as many as come.
    pub(crate) bits_per_s: Option<f64>,
    /// How many of 100 packets are lost, by chance.
    pub(crate) loss_percent: f64,
}

/// A packet that has come through the line, or will have.
pub(super) struct Arrival {
    pub(super) due: Instant,
    pub(super) packet: Packet,
}

/// One direction of a site's line.
pub(super) struct Line {
    quality: Quality,
    random: u64,
    is_cut: bool,
    /// When everything so far will have been sent.
    free_at: Option<Instant>,
    under_way: VecDeque<Arrival>,
    held_bytes: usize,
}

impl Line {
    pub(super) fn new(quality: Quality, seed: u64) -> Self {
        Self { quality, random: seed, is_cut: false, free_at: None, under_way: VecDeque::new(), held_bytes: 0 }
    }

    /// From now on it drops everything, also what is under way; or no longer.
    pub(super) fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
        if is_cut {
            self.free_at = None;
            self.under_way.clear();
            self.held_bytes = 0;
        }
    }

    /// So many of what comes from now on are lost.
    pub(super) fn set_loss(&mut self, percent: f64) {
        self.quality.loss_percent = percent;
    }

    /// So fast it leaves, after what waits already.
    pub(super) fn set_rate(&mut self, bits_per_s: Option<f64>) {
        self.quality.bits_per_s = bits_per_s;
    }

    /// A packet reaches the line's beginning at this time.
    pub(super) fn push(&mut self, at: Instant, packet: Packet) {
        // Chance is asked first: whether a packet is lost must not depend on whether others found the line full.
        if self.is_lost() || self.is_cut || self.held_bytes + cost(&packet) > HELD_BYTES_MAX {
            return;
        }
        let begins = self.free_at.map_or(at, |free_at| free_at.max(at));
        if begins.duration_since(at) > self.wait_max() {
            return;
        }
        let sent = begins + self.sending_time(packet.len());
        self.free_at = Some(sent);
        self.held_bytes += cost(&packet);
        self.under_way.push_back(Arrival { due: sent + self.quality.one_way, packet });
    }

    /// When the next packet comes out.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.under_way.front().map(|arrival| arrival.due)
    }

    /// The next packet, if its time has come.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Arrival> {
        self.next_due().filter(|&due| due <= now)?;
        let arrival = self.under_way.pop_front()?;
        self.held_bytes -= cost(&arrival.packet);
        Some(arrival)
    }

    fn wait_max(&self) -> Duration {
        WAIT_MIN.max(2 * self.quality.one_way)
    }

    fn sending_time(&self, bytes: usize) -> Duration {
        let seconds = self.quality.bits_per_s.map_or(0.0, |rate| bytes as f64 * 8.0 / rate);
        // The options bound the rate from below, so this is a fraction of a second.
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn is_lost(&mut self) -> bool {
        // SplitMix64, whose 53 upper bits make a fraction.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let fraction = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
        fraction * 100.0 < self.quality.loss_percent
    }
}

fn cost(packet: &Packet) -> usize {
    packet.len() + PACKET_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn line(one_way: Duration, bits_per_s: Option<f64>, loss_percent: f64) -> Line {
        Line::new(Quality { one_way, bits_per_s, loss_percent }, 7)
    }

    fn packet(mark: u8) -> Packet {
        vec![mark; 1250].into()
    }

    fn marks(line: &mut Line, now: Instant) -> Vec<u8> {
        std::iter::from_fn(|| line.pop(now)).map(|arrival| arrival.packet[0]).collect()
    }

    #[test]
    fn a_packet_comes_out_after_the_delay_and_not_before() {
        let (mut line, start) = (line(20 * MS, None, 0.0), Instant::now());
        line.push(start, packet(1));
        line.push(start + 5 * MS, packet(2));
        assert_eq!(line.next_due(), Some(start + 20 * MS));
        assert_eq!(marks(&mut line, start + 19 * MS), [0; 0]);
        assert_eq!(marks(&mut line, start + 20 * MS), [1]);
        assert_eq!(line.next_due(), Some(start + 25 * MS));
        assert_eq!(marks(&mut line, start + 30 * MS), [2]);
        assert_eq!(line.next_due(), None);
    }

    #[test]
    fn packets_come_out_in_the_order_they_went_in() {
        let (mut line, start) = (line(20 * MS, None, 0.0), Instant::now());
        line.push(start + 2 * MS, packet(1));
        line.push(start, packet(2));
        assert_eq!(marks(&mut line, start + 20 * MS), [0; 0], "the second does not overtake");
        assert_eq!(marks(&mut line, start + 22 * MS), [1, 2]);
    }

    #[test]
    fn a_rate_sends_one_packet_after_the_other() {
        // 1250 bytes take 1 ms at 10 Mbit/s.
        let (mut line, start) = (line(20 * MS, Some(10e6), 0.0), Instant::now());
        (1..=3).for_each(|mark| line.push(start, packet(mark)));
        assert_eq!(marks(&mut line, start + 20 * MS), [0; 0]);
        assert_eq!(marks(&mut line, start + 22 * MS), [1, 2]);
        assert_eq!(marks(&mut line, start + 23 * MS), [3]);
        line.push(start + 30 * MS, packet(4));
        assert_eq!(line.next_due(), Some(start + 51 * MS), "a wire that was idle has saved nothing up");
    }

    #[test]
    fn a_packet_that_waits_too_long_for_the_rate_is_dropped() {
        let (mut line, start) = (line(20 * MS, Some(10e6), 0.0), Instant::now());
        (0..100).for_each(|mark| line.push(start, packet(mark)));
        let arrived = marks(&mut line, start + 500 * MS);
        assert_eq!(arrived, (0..=50).collect::<Vec<_>>(), "what can be sent within 50 ms");
    }

    #[test]
    fn the_packets_on_a_line_are_bounded() {
        let (mut line, start) = (line(1000 * MS, None, 0.0), Instant::now());
        (0..20_000).for_each(|_| line.push(start, packet(1)));
        assert!(line.held_bytes <= HELD_BYTES_MAX);
        let arrived = marks(&mut line, start + 1000 * MS).len();
        assert_eq!(arrived, HELD_BYTES_MAX / cost(&packet(1)));
        assert_eq!(line.held_bytes, 0);
    }

    #[test]
    fn so_many_are_lost_and_the_same_with_the_same_seed() {
        let survivors = |seed| {
            let quality = Quality { one_way: MS, bits_per_s: None, loss_percent: 2.5 };
            let (mut line, start) = (Line::new(quality, seed), Instant::now());
            let arrives = (0..4000).map(|_| {
                line.push(start, packet(1));
                line.pop(start + MS).is_some()
            });
            arrives.collect::<Vec<_>>()
        };
        let lost = survivors(1).iter().filter(|arrives| !**arrives).count();
        assert!((60..140).contains(&lost), "{lost} of 4000 where 100 were expected");
        assert_eq!(survivors(1), survivors(1));
        assert_ne!(survivors(1), survivors(2));
    }

    #[test]
    fn a_line_that_is_cut_drops_what_is_under_way_and_what_comes() {
        let (mut line, start) = (line(20 * MS, Some(10e6), 0.0), Instant::now());
        line.push(start, packet(1));
        line.set_cut(true);
        line.push(start, packet(2));
        assert_eq!(line.next_due(), None);
        line.set_cut(false);
        line.push(start + 5 * MS, packet(3));
        line.set_cut(false);
        assert_eq!(marks(&mut line, start + 100 * MS), [3], "who heals what is whole drops nothing");
    }

    #[test]
    fn a_line_that_changes_keeps_what_is_under_way_and_its_order() {
        let (mut line, start) = (line(20 * MS, Some(10e6), 0.0), Instant::now());
        (1..=3).for_each(|mark| line.push(start, packet(mark)));
        line.set_rate(None);
        line.push(start, packet(4));
        assert_eq!(marks(&mut line, start + 22 * MS), [1, 2]);
        assert_eq!(marks(&mut line, start + 23 * MS), [3, 4], "after what waits, and then at once");
        line.set_loss(100.0);
        line.set_rate(Some(1e6));
        line.push(start + 30 * MS, packet(5));
        assert_eq!(line.next_due(), None);
        line.set_loss(0.0);
        line.push(start + 40 * MS, packet(6));
        assert_eq!(line.next_due(), Some(start + 70 * MS), "10 ms at 1 Mbit/s");
    }
}
