//! What the application's side asks of the hands, whichever they are: the network's drive loop or the simulator.

use client::TxnHandle;
use core::task::Waker;
use types::Time;

/// The hands of a node, as a front door sees them. The node itself stands beside them under one mutex; a front door
/// locks it, calls its client, unlocks it, and lets the hands settle what came of it.
pub trait Hands: Send + Sync {
    /// The time.
    fn now(&self) -> Time;

    /// Carries out what the node wants done. The caller does not hold the node's lock.
    fn settle(&self);

    /// Wakes `waker` at the next [`crate::Output::Wake`] of this transaction. One that came since the transaction's
    /// last call counts: it is not lost between the call and this one. A later waker takes the place of an earlier.
    fn wake_on(&self, txn: TxnHandle, waker: &Waker);

    /// Wakes `waker` at `time`.
    fn wake_at(&self, time: Time, waker: &Waker);
}
