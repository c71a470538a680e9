//! Times in whole seconds, and the three forms in which HTTP writes them (RFC 9110, section 5.6.7).

use http::HeaderValue;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in whole seconds since 1970, which is as fine as HTTP can say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The moment that many seconds after the beginning of 1970.
    pub const fn from_unix_s(seconds: u64) -> Self {
        Self(seconds)
    }

    /// The seconds since the beginning of 1970.
    pub const fn unix_s(self) -> u64 {
        self.0
    }

    /// The seconds that passed since then; zero if it is still to come.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment that many seconds later.
    #[must_use]
    pub const fn plus(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Reads an HTTP date of any of the three forms; `None` for anything else.
    ///
    /// Names and the zone may have any case, as section 4.2 of RFC 9111 asks of a cache; a zone other than GMT is no
    /// date. `now` decides which century a year of two digits is of.
    pub fn parse(value: &[u8], now: Self) -> Option<Self> {
        let civil = match value.len() {
            24 => asctime(value)?,
            29 => imf_fixdate(value)?,
            _ => rfc850(value, now)?,
        };
        civil.time()
    }

    /// The date as HTTP writes it today, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn to_header(self) -> HeaderValue {
        let civil = Civil::of(self);
        let weekday = WEEKDAYS[((self.0 / 86_400 + 4) % 7) as usize];
        let Civil { year, month, day, second } = civil;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let text = format!(
            "{}, {day:02} {} {year:04} {hour:02}:{minute:02}:{second:02} GMT",
            &weekday[..3],
            MONTHS[month as usize - 1],
        );
        HeaderValue::try_from(text).expect("a date is visible ASCII")
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

impl Time {
    /// As access logs have it: `06/Nov/1994:08:49:37 +0000`.
    pub fn to_log(self) -> String {
        let Civil { year, month, day, second } = Civil::of(self);
        let (month, time) = (MONTHS[month as usize - 1], clock(second));
        format!("{day:02}/{month}/{year}:{time} +0000")
    }

    /// By RFC 3339: `1994-11-06T08:49:37Z`.
    pub fn to_rfc3339(self) -> String {
        let Civil { year, month, day, second } = Civil::of(self);
        format!("{year:04}-{month:02}-{day:02}T{}Z", clock(second))
    }
}

/// The time of a day.
fn clock(second: u64) -> String {
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date of the calendar, and the second of its day.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    second: u64,
}

impl Civil {
    /// The moment, if there is such a day from 1970 on. Howard Hinnant's `days_from_civil`: years begin in March, so
    /// that a leap day is the last of its year, and eras of 400 years are all of one length.
    fn time(&self) -> Option<Time> {
        let &Self { year, month, day, second } = self;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let month_days = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if year < 1970 || day == 0 || day > month_days {
            return None;
        }
        let shifted_year = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some(Time((era * 146_097 + day_of_era - 719_468) * 86_400 + second))
    }

    /// The way back, Hinnant's `civil_from_days`.
    fn of(time: Time) -> Self {
        let days = time.0 / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            second: time.0 % 86_400,
        }
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn imf_fixdate(text: &[u8]) -> Option<Civil> {
    let weekday = WEEKDAYS.iter().any(|name| text[..3].eq_ignore_ascii_case(&name.as_bytes()[..3]));
    let separators = &text[3..5] == b", " && text[7] == b' ' && text[11] == b' ' && text[16] == b' ';
    if !weekday || !separators || !is_gmt(&text[25..]) {
        return None;
    }
    Some(Civil {
        year: number(&text[12..16])?,
        month: month(&text[8..11])?,
        day: number(&text[5..7])?,
        second: second_of_day(&text[17..25])?,
    })
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`, obsolete since 1989. A date that seems to be more than 50 years ahead is of the
/// century before.
fn rfc850(text: &[u8], now: Time) -> Option<Civil> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (weekday, rest) = text.split_at(comma);
    let known = WEEKDAYS.iter().any(|name| weekday.eq_ignore_ascii_case(name.as_bytes()));
    if !known || rest.len() != 24 || &rest[..2] != b", " || rest[4] != b'-' || rest[8] != b'-' || rest[11] != b' ' {
        return None;
    }
    if !is_gmt(&rest[20..]) {
        return None;
    }
    let this_year = Civil::of(now).year;
    let short_year = number(&rest[9..11])?;
    let same_century = this_year / 100 * 100 + short_year;
    let year = match same_century {
        year if year > this_year + 50 => year - 100,
        year if year + 50 <= this_year => year + 100,
        year => year,
    };
    Some(Civil { year, month: month(&rest[5..8])?, day: number(&rest[2..4])?, second: second_of_day(&rest[12..20])? })
}

/// `Sun Nov  6 08:49:37 1994`, as C's `asctime` writes it.
fn asctime(text: &[u8]) -> Option<Civil> {
    let weekday = WEEKDAYS.iter().any(|name| text[..3].eq_ignore_ascii_case(&name.as_bytes()[..3]));
    let separators = text[3] == b' ' && text[7] == b' ' && text[10] == b' ' && text[19] == b' ';
    if !weekday || !separators {
        return None;
    }
    let day = if text[8] == b' ' { &text[9..10] } else { &text[8..10] };
    Some(Civil {
        year: number(&text[20..24])?,
        month: month(&text[4..7])?,
        day: number(day)?,
        second: second_of_day(&text[11..19])?,
    })
}

fn is_gmt(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b" GMT")
}

fn month(text: &[u8]) -> Option<u64> {
    let index = MONTHS.iter().position(|name| text.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(index as u64 + 1)
}

/// `08:49:37`; the 60th second is a leap second.
fn second_of_day(text: &[u8]) -> Option<u64> {
    let (hour, minute, second) = (number(&text[..2])?, number(&text[3..5])?, number(&text[6..8])?);
    let valid = text[2] == b':' && text[5] == b':' && hour < 24 && minute < 60 && second <= 60;
    valid.then_some(hour * 3600 + minute * 60 + second)
}

/// A number of at most four digits. `None` unless there are digits only.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
}
