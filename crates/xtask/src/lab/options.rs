//! The options of the lab's command line.

use super::line::Quality;
use crate::Result;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Each has two lines, and all lines together may hold half a GiB.
const SITES: RangeInclusive<usize> = 1..=16;

/// To the moon and back, and more.
const ONE_WAY_MS: RangeInclusive<f64> = 0.0..=10_000.0;

/// From a modem to more than a processor can relay.
pub(super) const MBIT_S: RangeInclusive<f64> = 0.01..=100_000.0;

pub(super) const LOSS_PERCENT: RangeInclusive<f64> = 0.0..=100.0;

/// The wanted shape of a lab.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How many sites there are beside the store's place.
    pub(crate) sites: usize,
    /// The quality of every site's line to the store's place, in either direction.
    pub(crate) quality: Quality,
}

impl Default for Options {
    fn default() -> Self {
        let quality = Quality { one_way: Duration::from_millis(20), bits_per_s: None, loss_percent: 0.0 };
        Self { sites: 1, quality }
    }
}

impl Options {
    /// Takes the words apart: options, `--`, the command.
    pub(super) fn parse(words: &[String]) -> Result<(Self, &[String])> {
        let end = words.iter().position(|word| word == "--");
        let end = end.filter(|end| end + 1 < words.len()).ok_or("lab: wants `--` and a command to run")?;
        let mut options = Self::default();
        for pair in words[..end].chunks(2) {
            let (option, value) = (pair[0].as_str(), pair.get(1).map(String::as_str));
            let quality = &mut options.quality;
            match option {
                "--sites" => options.sites = number(option, value, &SITES)?,
                "--one-way-ms" => quality.one_way = Duration::from_secs_f64(number(option, value, &ONE_WAY_MS)? / 1e3),
                "--mbit-s" => quality.bits_per_s = Some(number(option, value, &MBIT_S)? * 1e6),
                "--loss" => quality.loss_percent = number(option, value, &LOSS_PERCENT)?,
                _ => return Err(format!("lab: unknown option `{option}`")),
            }
        }
        Ok((options, &words[end + 1..]))
    }
}

fn number<T>(option: &str, value: Option<&str>, range: &RangeInclusive<T>) -> Result<T>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let number = value.and_then(|value| value.parse().ok()).filter(|number| range.contains(number));
    let value = value.unwrap_or_default();
    number.ok_or_else(|| format!("lab: {option} wants {} to {}, got `{value}`", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Options, Vec<String>)> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map(|(options, command)| (options, command.to_vec()))
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let (options, command) = parse("--sites 3 --one-way-ms 0.5 --mbit-s 10 --loss 1.5 -- a --sites 9 --").unwrap();
        assert_eq!(options.sites, 3);
        assert_eq!(options.quality.one_way, Duration::from_micros(500));
        assert_eq!(options.quality.bits_per_s, Some(10e6));
        assert!((options.quality.loss_percent - 1.5).abs() < 1e-9);
        assert_eq!(command, ["a", "--sites", "9", "--"]);
        assert_eq!(parse("-- a").unwrap().0.quality.one_way, Duration::from_millis(20));
    }

    #[test]
    fn wrong_options_are_refused_with_the_right_ones() {
        let why = |line| parse(line).unwrap_err();
        assert_eq!(why(""), "lab: wants `--` and a command to run");
        assert_eq!(why("--sites 1 --"), "lab: wants `--` and a command to run");
        assert_eq!(why("--sites 0 -- a"), "lab: --sites wants 1 to 16, got `0`");
        assert_eq!(why("--one-way-ms NaN -- a"), "lab: --one-way-ms wants 0 to 10000, got `NaN`");
        assert_eq!(why("--mbit-s 0 -- a"), "lab: --mbit-s wants 0.01 to 100000, got `0`");
        assert_eq!(why("--loss -- a"), "lab: --loss wants 0 to 100, got ``");
        assert_eq!(why("--speed 1 -- a"), "lab: unknown option `--speed`");
    }
}
