//! Whether everybody gets on, judged from what was taken down: a history can be right although nobody does.
//!
//! 1. Members are in their group again within [`BACK_WITHIN`] of its redirector's, the store's and the line's being
//!    there.
//! 2. A client that is not cut off has a commit acknowledged every so often: how often depends on what the lines are
//!    like and on what this client does, see [`Terms::gap_max`].
//! 3. No call of a client takes longer than its patience, and [`CALL_MARGIN`].

use super::fault::Fault;
use crate::crew::Transaction;
use crate::history::Ending;
use std::time::Duration;
use types::limits::PIECE_BYTES_MAX;

/// How long members may take to be in their group again, and those that were cut off to be back.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(10);

/// How long a client's patience may be over before its call is: its thread has to run again.
pub(super) const CALL_MARGIN: Duration = Duration::from_secs(1);

/// How long clients wait for an answer if they are not told.
pub(super) const PATIENCE_USUAL: Duration = Duration::from_secs(30);

/// The time that a commit may take in the worst of cases, beside everything that is counted: races that are lost, the
/// silence after which somebody is considered dead, retransmissions, and processors that others use.
const STALL: Duration = Duration::from_secs(4);

/// The same for a line that loses packets: the kernel doubles the time after which it sends again, and a connection
/// that has to be made again begins with a second.
const STALL_OF_LOSS: Duration = Duration::from_secs(3);

/// Round trips of a transaction with several tries.
const ROUND_TRIPS: u32 = 20;

/// Pieces of others' large messages that a small message may have to wait for, all in all.
const PIECES: u32 = 8;

/// How often a large value crosses the slowest line for one commit: fetched and written, in several tries, beside
/// others.
const CROSSINGS: u32 = 4;

/// The conditions that make commits of one client in one round take long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub(super) round_trip: Duration,
    pub(super) lease: Duration,
    /// How long the client pauses.
    pub(super) pause: Duration,
    /// Of the slowest line; as much as comes, if there is none.
    pub(super) bits_per_s: Option<f64>,
    pub(super) loses: bool,
    /// The largest value that anybody writes, and that this client visits.
    pub(super) value_bytes_max: u64,
    pub(super) own_value_bytes_max: u64,
}

impl Terms {
    /// How long this client may go without a commit while it is not cut off.
    pub(super) fn gap_max(&self) -> Duration {
        let crossing = |bytes: u64| {
            let seconds = self.bits_per_s.map_or(0.0, |bits_per_s| bytes as f64 * 8.0 / bits_per_s);
            Duration::from_secs_f64(seconds)
        };
        let piece = crossing(self.value_bytes_max.min(PIECE_BYTES_MAX as u64));
        let loss = if self.loses { STALL_OF_LOSS } else { Duration::ZERO };
        let small = STALL + loss + self.lease + self.pause + ROUND_TRIPS * self.round_trip + PIECES * piece;
        small + CROSSINGS * crossing(self.own_value_bytes_max)
    }
}

/// A fault, and the members that it cut off.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) fault: Fault,
    /// The crew's members that cannot be expected to continue.
    pub(super) members: Vec<usize>,
    pub(super) from: u64,
    /// Everything that they need is there again.
    pub(super) mended: u64,
    /// How the members of each group came back to it.
    pub(super) returns: Vec<Return>,
    /// They have commits acknowledged again.
    pub(super) over: u64,
}

impl Trouble {
    /// From when on its members are expected to continue again.
    fn until(&self) -> u64 {
        self.over.min(self.mended + nanos(BACK_WITHIN))
    }
}

/// How members came back to their group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Return {
    pub(super) group: String,
    pub(super) members: usize,
    /// How many were in it at last.
    pub(super) are_in: usize,
    /// How long after everything was there.
    pub(super) took: Duration,
}

/// One client.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) transactions: Vec<Transaction>,
    /// How long it may go without a commit, from a moment on.
    pub(super) gaps_max: Vec<(u64, Duration)>,
}

impl Client {
    /// The most that is allowed anywhere between two moments.
    fn gap_max(&self, from: u64, until: u64) -> Duration {
        let ends = self.gaps_max.iter().skip(1).map(|&(at, _)| at).chain([u64::MAX]);
        let within = self.gaps_max.iter().zip(ends).filter(|((at, _), end)| *at <= until && from < *end);
        within.map(|((_, max), _)| *max).max().unwrap_or_default()
    }
}

/// The notes taken during a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// When all began.
    pub(super) began: u64,
    /// How long clients wait for an answer, by their own setting.
    pub(super) patience: Duration,
    pub(super) troubles: Vec<Trouble>,
    pub(super) clients: Vec<Client>,
}

/// How everybody has got on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// The longest that a group's members took to be in it again.
    pub(super) in_group_max: Duration,
    /// The longest that somebody who was not cut off went without a commit, and the most of what was allowed that
    /// anybody has used of it.
    pub(super) gap_max: Duration,
    pub(super) gap_over_allowed_max: f64,
    /// The longest call.
    pub(super) call_max: Duration,
    /// The findings, each with what was expected.
    pub(super) findings: Vec<String>,
}

impl Account {
    /// Judges all of it.
    pub(super) fn judge(&self) -> Progress {
        let mut progress = Progress::default();
        for trouble in &self.troubles {
            trouble.returns.iter().for_each(|back| judge_return(trouble.fault, back, &mut progress));
        }
        for client in &self.clients {
            self.judge_gaps(client, &mut progress);
            self.judge_calls(client, &mut progress);
        }
        progress
    }

    fn judge_gaps(&self, client: &Client, progress: &mut Progress) {
        for (from, until) in self.gaps(client) {
            let (gap, allowed) = (Duration::from_nanos(until - from), client.gap_max(from, until));
            progress.gap_max = progress.gap_max.max(gap);
            let share = gap.as_secs_f64() / allowed.as_secs_f64();
            progress.gap_over_allowed_max = progress.gap_over_allowed_max.max(share);
            if gap > allowed {
                progress.findings.push(format!(
                    "client {} was not cut off and had no commit acknowledged for {} ms, from {} ms on, where at least one \
                     in {} ms was expected",
                    client.number,
                    gap.as_millis(),
                    self.millis_at(from),
                    allowed.as_millis(),
                ));
            }
        }
    }

    fn judge_calls(&self, client: &Client, progress: &mut Progress) {
        let allowed = self.patience + CALL_MARGIN;
        for call in client.transactions.iter().filter(|transaction| !self.was_stopped(client, transaction)) {
            progress.call_max = progress.call_max.max(call.longest_call);
            if call.longest_call > allowed {
                progress.findings.push(format!(
                    "a call of client {} took {} ms, in a transaction that began at {} ms, where its patience of {} ms \
                     should have ended it within {} ms",
                    client.number,
                    call.longest_call.as_millis(),
                    self.millis_at(call.begun),
                    self.patience.as_millis(),
                    allowed.as_millis(),
                ));
            }
        }
    }

    /// The times without a commit of a client that was at work and not cut off.
    fn gaps(&self, client: &Client) -> Vec<(u64, u64)> {
        let Some((first, last)) = client.transactions.first().zip(client.transactions.last()) else {
            return Vec::new();
        };
        let mut troubles: Vec<_> = self.of(client).map(|trouble| (trouble.from, trouble.until())).collect();
        troubles.sort_unstable();
        let (mut gaps, mut from) = (Vec::new(), first.begun);
        for (begins, ends) in troubles.into_iter().chain([(last.ended, u64::MAX)]) {
            gaps.extend(gaps_within(client, from, begins.min(last.ended)));
            from = from.max(ends);
        }
        gaps
    }

    fn of(&self, client: &Client) -> impl Iterator<Item = &Trouble> {
        let number = client.number;
        self.troubles.iter().filter(move |trouble| trouble.members.contains(&number))
    }

    /// Whether the client did not run for some of the time: it could not count that against its patience.
    fn was_stopped(&self, client: &Client, transaction: &Transaction) -> bool {
        let stops = |trouble: &&Trouble| trouble.fault == Fault::StopMember;
        let meets = |trouble: &Trouble| trouble.from <= transaction.ended && transaction.begun <= trouble.over;
        self.of(client).filter(stops).any(meets)
    }

    /// A moment, in milliseconds from the beginning on.
    fn millis_at(&self, at: u64) -> u64 {
        at.saturating_sub(self.began) / 1_000_000
    }
}

fn judge_return(fault: Fault, back: &Return, progress: &mut Progress) {
    let Return { group, members, are_in, took } = back;
    progress.in_group_max = progress.in_group_max.max(*took);
    if are_in < members || *took > BACK_WITHIN {
        progress.findings.push(format!(
            "{} ms after '{}' was mended, {are_in} of the {members} members of {group} were in it by its redirector's word, \
             where all were expected within {} ms",
            took.as_millis(),
            fault.name(),
            BACK_WITHIN.as_millis(),
        ));
    }
}

/// From a moment to the first commit after it, from each to the next, and from the last to another moment.
fn gaps_within(client: &Client, from: u64, until: u64) -> Vec<(u64, u64)> {
    if from >= until {
        return Vec::new();
    }
    let committed = client.transactions.iter().filter(|transaction| transaction.ending == Ending::Committed);
    let inside = committed.map(|transaction| transaction.ended).filter(|ended| (from..until).contains(ended));
    let moments: Vec<u64> = [from].into_iter().chain(inside).chain([until]).collect();
    moments.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A client that has a commit acknowledged at each of these seconds, and may go without for two.
    fn client(number: usize, commits_s: &[u64]) -> Client {
        let commit = |&at: &u64| Transaction {
            begun: at * S - S / 2,
            ended: at * S,
            ending: Ending::Committed,
            longest_call: Duration::from_millis(500),
        };
        let transactions = commits_s.iter().map(commit).collect();
        Client { number, transactions, gaps_max: vec![(0, Duration::from_secs(2))] }
    }

    fn trouble(fault: Fault, members: &[usize], from_s: u64, mended_s: u64, over_s: u64) -> Trouble {
        let [from, mended, over] = [from_s, mended_s, over_s].map(|seconds| seconds * S);
        Trouble { fault, members: members.to_vec(), from, mended, returns: Vec::new(), over }
    }

    fn account(clients: Vec<Client>, troubles: Vec<Trouble>) -> Account {
        Account { patience: Duration::from_secs(8), clients, troubles, ..Account::default() }
    }

    #[track_caller]
    fn check(account: &Account, findings: &[&str]) {
        assert_eq!(account.judge().findings, findings);
    }

    #[test]
    fn a_client_that_commits_every_so_often_gets_on() {
        let progress = account(vec![client(1, &[1, 2, 4])], Vec::new()).judge();
        assert_eq!(progress.findings, [""; 0]);
        assert_eq!((progress.gap_max, progress.gap_over_allowed_max), (Duration::from_secs(2), 1.0));
        assert_eq!(progress.call_max, Duration::from_millis(500));
    }

    #[test]
    fn a_gap_of_one_that_is_not_cut_off_is_found() {
        let gap = "client 1 was not cut off and had no commit acknowledged for 3000 ms, from 2000 ms on, where at least one \
                   in 2000 ms was expected";
        let others = trouble(Fault::KillRedirector, &[2], 2, 5, 5);
        check(&account(vec![client(1, &[1, 2, 5])], vec![others]), &[gap]);
        let refused = |mut client: Client| {
            client.transactions[2].ending = Ending::Refused;
            client
        };
        check(&account(vec![refused(client(1, &[1, 2, 4, 5]))], Vec::new()), &[gap]);
    }

    #[test]
    fn a_client_that_is_cut_off_need_not_commit_until_it_is_back() {
        let cut = |mended, over| trouble(Fault::KillRedirector, &[1], 3, mended, over);
        check(&account(vec![client(1, &[1, 3, 30, 31])], vec![cut(29, 30)]), &[]);
        let before = "client 1 was not cut off and had no commit acknowledged for 3000 ms, from 1000 ms on, where at least \
                      one in 2000 ms was expected";
        let other = trouble(Fault::KillRedirector, &[1], 4, 6, 8);
        check(&account(vec![client(1, &[1, 8])], vec![other]), &[before]);
        // The line was repaired in second 4.
        let after = "client 1 was not cut off and had no commit acknowledged for 16000 ms, from 14000 ms on, where at least \
                     one in 2000 ms was expected";
        check(&account(vec![client(1, &[1, 3, 30])], vec![cut(4, 30)]), &[after]);
    }

    #[test]
    fn a_gap_is_allowed_the_most_of_the_rounds_that_it_meets() {
        let mut slow = client(1, &[1, 6, 8]);
        slow.gaps_max =
            vec![(0, Duration::from_secs(1)), (2 * S, Duration::from_secs(5)), (7 * S, Duration::from_secs(2))];
        check(&account(vec![slow.clone()], Vec::new()), &[]);
        slow.gaps_max.remove(1);
        assert_eq!(account(vec![slow], Vec::new()).judge().findings.len(), 1);
    }

    #[test]
    fn a_call_that_outlasts_patience_is_found_unless_the_client_was_stopped() {
        let mut impatient = client(1, &[1, 2]);
        impatient.transactions[1].longest_call = Duration::from_millis(9001);
        let found = "a call of client 1 took 9001 ms, in a transaction that began at 1500 ms, where its patience of 8000 ms \
                     should have ended it within 9000 ms";
        check(&account(vec![impatient.clone()], Vec::new()), &[found]);
        let cut = trouble(Fault::KillStore, &[1], 1, 2, 2);
        check(&account(vec![impatient.clone()], vec![cut]), &[found]);
        let stopped = trouble(Fault::StopMember, &[1], 1, 2, 2);
        check(&account(vec![impatient], vec![stopped]), &[]);
    }

    #[test]
    fn members_that_are_not_back_in_time_are_found() {
        let account = |are_in, took_s| {
            let back = Return { group: "site-1".into(), members: 3, are_in, took: Duration::from_secs(took_s) };
            account(Vec::new(), vec![Trouble { returns: vec![back], ..trouble(Fault::KillRedirector, &[], 1, 2, 3) }])
        };
        check(&account(3, 10), &[]);
        let found = "11000 ms after 'kill a redirector' was mended, 2 of the 3 members of site-1 were in it by its \
                     redirector's word, where all were expected within 10000 ms";
        check(&account(2, 11), &[found]);
        assert_eq!(account(3, 11).judge().findings.len(), 1, "too late");
    }

    #[test]
    fn a_slow_line_allows_for_its_pieces_and_its_own_values() {
        let calm = Terms { round_trip: Duration::from_millis(40), ..Terms::default() };
        let slow = Terms { bits_per_s: Some(1e6), value_bytes_max: 1 << 20, ..calm };
        assert_eq!(calm.gap_max(), Duration::from_millis(4800));
        let piece = Duration::from_secs_f64(65536.0 * 8.0 / 1e6);
        assert_eq!(slow.gap_max(), calm.gap_max() + 8 * piece, "another member waits for pieces, not for values");
        let heavy = Terms { own_value_bytes_max: 1 << 20, ..slow };
        assert_eq!(heavy.gap_max(), slow.gap_max() + 4 * 16 * piece);
    }
}
