//! Home, with what is durable of its epoch, its mark and its journal.

use super::{number, say_stamp, stamp};
use crate::play::Player;
use machines::{Epoch, Home, HomeRefusal, Rule, Stamp, Step};
use std::fmt::Write as _;
use types::Broken;

pub(crate) struct HomeScript {
    home: Home,
    broken: Broken<Rule>,
    epoch: Epoch,
    mark: Stamp,
    /// The mark that the journal comes to, if it is whole.
    journal: Option<Stamp>,
    through: Stamp,
    step: Option<Step>,
    said: String,
}

impl HomeScript {
    pub(crate) fn new(broken: Broken<Rule>) -> Self {
        let (epoch, mark) = (Epoch(1), Stamp::begin(Epoch(1)));
        let home = Home::new(epoch, mark, None, broken);
        Self { home, broken, epoch, mark, journal: None, through: mark, step: None, said: String::new() }
    }

    fn refused(&mut self, outcome: Result<(), HomeRefusal>) {
        let Err(refusal) = outcome else { return };
        let why = match refusal {
            HomeRefusal::Ended(epoch) => format!("ended by epoch {}", epoch.0),
            HomeRefusal::Busy => "busy".to_owned(),
            HomeRefusal::NotNext(mark) => format!("home has everything up to {}", say_stamp(mark)),
            HomeRefusal::TooFar(epoch) => format!("too far beyond epoch {}", epoch.0),
        };
        writeln!(self.said, "= {why}").unwrap();
    }
}

impl Player for HomeScript {
    fn event(&mut self, event: &str) -> Option<()> {
        let words: Vec<_> = event.split(' ').collect();
        match words[..] {
            ["begin", epoch, through, ref rest @ ..] => {
                let through = stamp(through)?;
                let outcome = self.home.begin(Epoch(number(epoch)?), through, rest.contains(&"joined"));
                if outcome.is_ok() {
                    self.through = through;
                }
                self.refused(outcome);
            }
            ["fence", epoch] => {
                let outcome = self.home.fence(Epoch(number(epoch)?));
                self.refused(outcome);
            }
            ["done"] => {
                let Some(step) = self.home.step() else {
                    writeln!(self.said, "= nothing was asked").unwrap();
                    return Some(());
                };
                match step {
                    Step::Journal => self.journal = Some(self.through),
                    Step::Install => {}
                    Step::Mark(mark) => (self.mark, self.journal) = (mark, None),
                    Step::Fence(epoch) => (self.epoch, self.journal) = (epoch, None),
                }
                self.step = None;
                if let Some(mark) = self.home.done(step) {
                    writeln!(self.said, "home has everything up to {}", say_stamp(mark)).unwrap();
                }
            }
            ["abort"] => self.home.abort(),
            ["crash"] => {
                self.step = None;
                self.home = Home::new(self.epoch, self.mark, self.journal, self.broken);
            }
            _ => return None,
        }
        Some(())
    }

    /// Says the step that is next, when it is another one.
    fn drain(&mut self) {
        let step = self.home.step();
        if step != self.step {
            self.step = step;
            let line = match step {
                None => "nothing to do".to_owned(),
                Some(Step::Journal) => "write the journal".to_owned(),
                Some(Step::Install) => "write the blocks".to_owned(),
                Some(Step::Mark(mark)) => format!("write the mark {}", say_stamp(mark)),
                Some(Step::Fence(epoch)) => format!("write the epoch {}", epoch.0),
            };
            writeln!(self.said, "{line}").unwrap();
        }
    }

    fn said(&mut self) -> &mut String {
        &mut self.said
    }
}
