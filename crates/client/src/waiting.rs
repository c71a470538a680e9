//! Transactions that wait: for a page, for pages to create in, for an outcome.
//!
//! A transaction is told to call again once, whatever it waits for; it then looks for itself.

use crate::txns::State;
use crate::{Client, Output, TxnError, TxnHandle};
use alloc::vec::Vec;
use types::Time;

impl Client {
    /// The transaction will be told to call again.
    pub(crate) fn wait(&mut self, now: Time, txn: TxnHandle) {
        if let Some(found) = self.txns.get(txn) {
            found.waiting.get_or_insert(now);
        }
    }

    /// Tells the transaction to call again, if it waits.
    pub(crate) fn wake(&mut self, txn: TxnHandle) {
        if self.txns.get(txn).is_some_and(|found| found.waiting.take().is_some()) {
            self.outputs.push_back(Output::Wake(txn));
        }
    }

    /// Those that have been waiting since `since` or longer wait no more.
    pub(crate) fn give_up_waiting(&mut self, error: &TxnError, since: Time) {
        let patient = |waiting: Option<Time>| waiting.is_some_and(|waiting| waiting <= since);
        let lost: Vec<_> = self.txns.all().filter(|(_, txn)| patient(txn.waiting)).map(|(handle, _)| handle).collect();
        for txn in lost {
            self.give_up(txn, error);
        }
    }

    /// The transaction cannot go on.
    pub(crate) fn give_up(&mut self, txn: TxnHandle, error: &TxnError) {
        let Some(found) = self.txns.get(txn) else { return };
        if let State::Committing(number) = *found.state() {
            return self.abandon(txn, number, error);
        }
        if found.is_running() {
            found.stop(State::Failed(error.clone()));
        }
        self.wake(txn);
    }
}
