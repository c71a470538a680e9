//! The cache of a volume of one host that is attached.

use super::{number, value};
use crate::play::Player;
use machines::{HostId, KnownCache, Rule};
use std::fmt::Write as _;
use types::Broken;

pub(crate) struct CacheScript {
    broken: Broken<Rule>,
    said: String,
}

impl CacheScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        Self { broken, said: String::new() }
    }
}

impl Player for CacheScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        let ["attach", ref words @ ..] = words[..] else { return None };
        let numbers: Option<Vec<_>> = value(words, "numbers")?.split(',').map(number).collect();
        let numbers: Vec<_> = numbers?.into_iter().map(HostId).collect();
        let [last, attachment, through] = ["log", "home", "through"].map(|name| value(words, name).and_then(number));
        let known = KnownCache { attachment: HostId(attachment?), through: through? };
        let said = match known.expect(&numbers, last?, self.broken) {
            Ok(()) => "goes on".to_owned(),
            Err(back) => format!("refused: {back}"),
        };
        writeln!(self.said, "{said}").unwrap();
        Some(())
    }

    fn drain(&mut self) {}

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
