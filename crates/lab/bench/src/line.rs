//! One line of output: what was measured, as JSON and for people.

use crate::machine::is_steady;
use serde_json::{Map, Value, json};
use std::fmt;

/// One measured case: named figures in the order in which they were added.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    fields: Map<String, Value>,
}

impl Line {
    /// The line of a case.
    pub fn new(case: &str) -> Self {
        Self { fields: Map::from_iter([("case".to_owned(), json!(case))]) }
    }

    /// With a figure, rounded to three digits after the point.
    pub fn figure(mut self, name: &str, value: f64) -> Self {
        self.fields.insert(name.to_owned(), json!((value * 1e3).round() / 1e3));
        self
    }

    /// With a whole number.
    pub fn count(mut self, name: &str, value: u64) -> Self {
        self.fields.insert(name.to_owned(), json!(value));
        self
    }

    /// With a word.
    pub fn word(mut self, name: &str, value: &str) -> Self {
        self.fields.insert(name.to_owned(), json!(value));
        self
    }

    /// With a yes or no.
    pub fn flag(mut self, name: &str, value: bool) -> Self {
        self.fields.insert(name.to_owned(), json!(value));
        self
    }

    /// With whether its bounds are kept to, beside the repetitions of what it is compared with: if they differ too much
    /// nobody knows.
    pub(crate) fn met(self, is_met: bool, baseline: &[f64]) -> Self {
        let is_steady = is_steady(baseline);
        let line = self.flag("met", is_met && is_steady);
        if is_steady { line } else { line.flag("unsteady", true) }
    }

    /// The case.
    pub fn case(&self) -> &str {
        self.fields["case"].as_str().unwrap_or_default()
    }

    /// A figure or number of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.fields.get(name).and_then(Value::as_f64)
    }

    /// The line as JSON.
    pub fn to_json(&self) -> Value {
        Value::Object(self.fields.clone())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}", self.case())?;
        for (name, value) in self.fields.iter().skip(1) {
            match value.as_str() {
                Some(word) => write!(f, "  {name} {word}")?,
                None => write!(f, "  {name} {value}")?,
            }
        }
        Ok(())
    }
}
