//! The body of a client's request as it arrives, at a minimum rate.
//!
//! A client has a credit of time, as with Apache's `mod_reqtimeout`: waiting for it consumes the credit, and each
//! byte of the body restores a part, up to the initial amount. A client that sends at the minimum rate or above never
//! runs out of it, however long the body is. A client that pauses for longer than the credit, or sends a byte now and
//! then, does. Only the time in which the proxy waits for the client counts.

use crate::limits::Limits;
use crate::request::paced::{BodyError, PollFrame};
use http_body::{Body, SizeHint};
use hyper::body::{Bytes, Incoming};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// A client's body on its way.
#[derive(Debug)]
pub(crate) struct ClientBody {
    incoming: Incoming,
    credit: Credit,
    waiting_since: Option<Instant>,
    /// Runs while a frame is awaited.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ClientBody {
    pub(crate) fn new(incoming: Incoming, limits: &Limits) -> Self {
        Self { incoming, credit: Credit::new(limits), waiting_since: None, timer: None }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) {
            this.timer = None;
            if let Some(since) = this.waiting_since.take() {
                this.credit.consume(since.elapsed());
            }
            if let Some(Ok(frame)) = &frame {
                this.credit.restore(frame.data_ref().map_or(0, Bytes::len));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        this.waiting_since.get_or_insert_with(Instant::now);
        let left = this.credit.left;
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(left)));
        timer.as_mut().poll(cx).map(|()| Some(Err(BodyError::Paused)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// The time for which a client is waited for.
#[derive(Debug)]
struct Credit {
    left: Duration,
    max: Duration,
    bytes_per_s: u64,
}

impl Credit {
    fn new(limits: &Limits) -> Self {
        Self { left: limits.stall, max: limits.stall, bytes_per_s: limits.upload_bytes_per_s.max(1) }
    }

    fn consume(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }

    fn restore(&mut self, bytes: usize) {
        let earned = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / self.bytes_per_s);
        self.left = (self.left + earned).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many seconds a client lasts that sends so many bytes each second, of a day.
    fn lasts(bytes: usize) -> u64 {
        let limits = Limits { stall: Duration::from_secs(30), upload_bytes_per_s: 500, ..Limits::default() };
        let mut credit = Credit::new(&limits);
        let day = 24 * 60 * 60;
        let end = (1..=day).find(|_| {
            credit.consume(Duration::from_secs(1));
            let is_over = credit.left.is_zero();
            credit.restore(bytes);
            is_over
        });
        end.unwrap_or(day)
    }

    #[test]
    fn a_steady_client_is_never_cut_off_and_a_dripping_one_soon() {
        assert_eq!([lasts(500), lasts(100_000)], [24 * 60 * 60; 2]);
        assert_eq!((lasts(0), lasts(1)), (30, 31));
        assert!(lasts(400) < 160);
    }

    #[test]
    fn a_fast_begin_earns_no_more_than_the_initial_credit() {
        let mut credit = Credit::new(&Limits::default());
        credit.restore(1 << 30);
        assert_eq!(credit.left, credit.max);
    }
}
