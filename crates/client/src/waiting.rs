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
            self.count_patience(now);
        }
    }

    /// A transaction waits from now on. Looked for when the first of them may be impatient, and not at each wait: most
    /// are over long before.
    pub(crate) fn count_patience(&mut self, now: Time) {
        self.impatient_at.get_or_insert(now + self.config.patience);
    }

    /// A transaction that has waited for as long as the application is patient waits no more, however the session
    /// stands: one that lives may still be slow.
    pub(crate) fn end_long_waits(&mut self, now: Time) {
        if self.impatient_at.is_none_or(|at| now < at) {
            return;
        }
        let since = Time(now.0.saturating_sub(self.config.patience.as_nanos() as u64));
        self.give_up_waiting(&TxnError::Unreachable, since);
        self.impatient_at = self.txns.longest_wait().map(|since| since + self.config.patience);
    }

    /// Tells the transaction to call again, if it waits. One that commits waits for its outcome and for nothing else: a
    /// page that comes for a read which was dropped before is no news, and the wake would be missing when there is some.
    pub(crate) fn wake(&mut self, txn: TxnHandle) {
        let Some(found) = self.txns.get(txn) else { return };
        if !matches!(found.state(), State::Committing(_)) && found.waiting.take().is_some() {
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
