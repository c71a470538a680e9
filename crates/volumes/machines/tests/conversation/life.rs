//! A holder's directory that starts.

use super::{number, value};
use crate::play::Player;
use machines::{Life, Rule, is_whole};
use std::fmt::Write as _;
use types::Broken;

pub(crate) struct LifeScript {
    broken: Broken<Rule>,
    said: String,
}

impl LifeScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        Self { broken, said: String::new() }
    }
}

/// `6:1`: the sixth start, by the number 1.
fn life(text: &str) -> Option<Life> {
    let (incarnation, drawn) = text.split_once(':')?;
    Some(Life { incarnation: incarnation.parse().ok()?, number: number(drawn)? })
}

impl Player for LifeScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        let ["start", of, ref words @ ..] = words[..] else { return None };
        let [next, registered] = ["next", "registry"].map(|name| value(words, name).map(life));
        let [last, known] = ["log", "known"].map(|name| value(words, name).map_or(Some(0), number));
        let begins = life(of)?.at_start(next.flatten(), registered.flatten(), self.broken);
        let said = match begins {
            _ if !is_whole(last?, known?, self.broken) => "refused: the log has lost its end".to_owned(),
            None => "refused: a later life is known".to_owned(),
            Some(it) => format!("begins from {}:{}", it.incarnation, it.number),
        };
        writeln!(self.said, "{said}").unwrap();
        Some(())
    }

    fn drain(&mut self) {}

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
