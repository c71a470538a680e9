//! Home as its owner remembers it.

use super::{number, stamp};
use crate::play::Player;
use machines::{HomeState, KnownHome, Rule};
use std::fmt::Write as _;
use types::Broken;

pub(crate) struct KnownHomeScript {
    home: KnownHome,
    said: String,
}

impl KnownHomeScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        Self { home: KnownHome::new(broken), said: String::new() }
    }
}

impl Player for KnownHomeScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        match words[..] {
            ["opened", generation, mark] => {
                let found = HomeState { generation: number(generation)?, mark: stamp(mark)? };
                let heard = self.home.hear(found);
                let said = heard.map_or_else(|back| format!("went back: {back}"), |()| "goes on".to_owned());
                writeln!(self.said, "{said}").unwrap();
            }
            ["home", "has", mark] => self.home.is_home(stamp(mark)?),
            _ => return None,
        }
        Some(())
    }

    fn drain(&mut self) {}

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
