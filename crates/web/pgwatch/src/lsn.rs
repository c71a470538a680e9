//! Positions in a PostgreSQL server's log, and transactions in it.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// The low half of a transaction's number, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Xid(pub u32);

/// A text is no position, which is two hexadecimal numbers with a slash between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnLsn;

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 as u32)
    }
}

impl FromStr for Lsn {
    type Err = NotAnLsn;

    fn from_str(text: &str) -> Result<Self, NotAnLsn> {
        let (high, low) = text.split_once('/').ok_or(NotAnLsn)?;
        let half = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| is_number).ok_or(NotAnLsn)
        };
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_two_numbers() {
        assert_eq!("16/B374D848".parse(), Ok(Lsn(0x16_B374_D848)));
        assert_eq!(Lsn(0x16_B374_D848).to_string(), "16/B374D848");
        for text in ["", "/", "1", "1/", "+1/0", "1/100000000", "1/2/3", "g/0"] {
            assert_eq!(text.parse::<Lsn>(), Err(NotAnLsn), "{text}");
        }
    }
}
