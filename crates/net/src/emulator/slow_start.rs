//! The window of a fresh TCP connection: ten segments, and from then on twice as much with every round trip.
//!
//! The model is slow start with an initial window of RFC 6928, and with Linux's reading of when a window grows: by what
//! is acknowledged, as long as at least half of it was in use (`tcp_is_cwnd_limited`). So a connection that never had
//! much to carry still carries little. Without loss slow start never ends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The payload of one segment over Ethernet, in bytes.
const SEGMENT_BYTES: usize = 1448;

/// The initial window, in bytes.
const FIRST_WINDOW_BYTES: usize = 10 * SEGMENT_BYTES;

/// One direction of one connection.
#[derive(Debug)]
pub(crate) struct SlowStart {
    /// Nothing leaves before the connection is set up.
    open: Instant,
    round_trip: Duration,
    window: usize,
    /// The bytes that are not acknowledged yet, in the order in which it left.
    in_flight: VecDeque<Flight>,
    bytes: usize,
}

#[derive(Debug)]
struct Flight {
    acknowledged: Instant,
    bytes: usize,
    /// The bytes in flight when it had left.
    beside: usize,
}

impl SlowStart {
    pub(crate) fn new(open: Instant, round_trip: Duration) -> Self {
        Self { open, round_trip, window: FIRST_WINDOW_BYTES, in_flight: VecDeque::new(), bytes: 0 }
    }

    /// Somebody has so many bytes to send, more than none: gives when some of them leave, and how many.
    pub(crate) fn send(&mut self, now: Instant, bytes: usize) -> (Instant, usize) {
        let mut at = now.max(self.open);
        self.acknowledge(at);
        let least = bytes.min(SEGMENT_BYTES);
        while self.window - self.bytes < least
            && let Some(next) = self.in_flight.front()
        {
            at = next.acknowledged;
            self.acknowledge(at);
        }
        let carried = bytes.min(self.window - self.bytes);
        self.bytes += carried;
        let acknowledged = at + self.round_trip;
        self.in_flight.push_back(Flight { acknowledged, bytes: carried, beside: self.bytes });
        (at, carried)
    }

    fn acknowledge(&mut self, at: Instant) {
        while self.in_flight.front().is_some_and(|flight| flight.acknowledged <= at)
            && let Some(flight) = self.in_flight.pop_front()
        {
            self.bytes -= flight.bytes;
            if self.window < 2 * flight.beside {
                self.window += flight.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// When the last of so many bytes leaves, in round trips.
    fn last_leaves(connection: &mut SlowStart, now: Instant, bytes: usize) -> u32 {
        let (mut left, mut last) = (bytes, now);
        while left > 0 {
            let (leaves, carried) = connection.send(now, left);
            (left, last) = (left - carried, leaves);
        }
        ((last - now).as_micros() / ROUND_TRIP.as_micros()) as u32
    }

    #[test]
    fn a_window_begins_with_ten_segments_and_doubles() {
        let open = Instant::now();
        for (segments, round_trips) in [(10, 0), (11, 1), (30, 1), (31, 2), (70, 2), (71, 3)] {
            let mut fresh = SlowStart::new(open, ROUND_TRIP);
            assert_eq!(last_leaves(&mut fresh, open, segments * SEGMENT_BYTES), round_trips, "{segments} segments");
        }
    }

    #[test]
    fn nothing_leaves_before_the_connection_is_there() {
        let now = Instant::now();
        let mut fresh = SlowStart::new(now + ROUND_TRIP, ROUND_TRIP);
        assert_eq!(fresh.send(now, 100), (now + ROUND_TRIP, 100));
    }

    #[test]
    fn a_sender_of_little_goes_on_with_little() {
        let mut now = Instant::now();
        let mut connection = SlowStart::new(now, ROUND_TRIP);
        for _ in 0..20 {
            assert_eq!(last_leaves(&mut connection, now, 4 * SEGMENT_BYTES), 0);
            now += 2 * ROUND_TRIP;
        }
        assert_eq!(last_leaves(&mut connection, now, 11 * SEGMENT_BYTES), 1);
    }
}
