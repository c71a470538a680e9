//! The transactions that a new reader of the database sees.
//!
//! A transaction is committed when its record is in the log, and seen by others when the server has taken it off its
//! list of running transactions. A commit that waits for a watcher is between the two, and a snapshot that the watcher
//! takes like any reader says when that is over.

use crate::lsn::Xid;
use std::str::FromStr;

/// Transactions of one snapshot, which is refused beyond. A server has one for each of its connections at most.
const RUNNING_MAX: usize = 1 << 18;

/// A snapshot: `pg_current_snapshot()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// All transactions below have ended.
    xmin: u64,
    /// All from here on have not.
    xmax: u64,
    /// Those between that have not, in order.
    running: Vec<u64>,
}

/// A text is no snapshot, which is `xmin:xmax:` and the running transactions with commas between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASnapshot;

impl Snapshot {
    /// Whether all transactions with smaller numbers have ended.
    pub fn is_past(&self, number: u64) -> bool {
        self.xmin >= number
    }

    /// Whether this snapshot, and with it every later one, has a transaction that is known to have committed.
    pub fn has(&self, xid: Xid) -> bool {
        // The log has half of the number. The server never has two transactions that are apart by 2^31 or more.
        let distance = (self.xmax as u32).wrapping_sub(xid.0).cast_signed();
        let number = self.xmax.wrapping_add_signed(-i64::from(distance));
        number < self.xmin || number < self.xmax && self.running.binary_search(&number).is_err()
    }
}

impl FromStr for Snapshot {
    type Err = NotASnapshot;

    fn from_str(text: &str) -> Result<Self, NotASnapshot> {
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| NotASnapshot);
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or(NotASnapshot);
        let (xmin, xmax, list) = (number(part()?)?, number(part()?)?, part()?);
        let numbers = list.split(',').filter(|digits| !digits.is_empty()).map(number);
        let mut running = numbers.take(RUNNING_MAX + 1).collect::<Result<Vec<_>, _>>()?;
        if running.len() > RUNNING_MAX || xmin > xmax {
            return Err(NotASnapshot);
        }
        running.sort_unstable();
        Ok(Self { xmin, xmax, running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_seen() {
        let snapshot: Snapshot = "10:20:10,14,15".parse().unwrap();
        let seen: Vec<_> = (8..22).filter(|&xid| snapshot.has(Xid(xid))).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 16, 17, 18, 19]);
        assert!("10:10:".parse::<Snapshot>().unwrap().has(Xid(9)));
    }

    #[test]
    fn numbers_go_on_where_the_half_begins_anew() {
        let snapshot: Snapshot = "4294967290:4294967300:4294967291".parse().unwrap();
        assert!(snapshot.has(Xid(u32::MAX)) && snapshot.has(Xid(3)) && snapshot.has(Xid(4_294_967_000)));
        assert!(!snapshot.has(Xid(4_294_967_291)) && !snapshot.has(Xid(4)));
    }

    #[test]
    fn a_text_that_is_none_is_refused() {
        for text in ["", "1", "1:2", "2:1:", "1:2:x", "-1:2:", "1:2:3:4"] {
            assert_eq!(text.parse::<Snapshot>(), Err(NotASnapshot), "{text}");
        }
    }
}
