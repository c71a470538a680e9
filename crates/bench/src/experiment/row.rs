//! One row of an experiment's table: the paper's figure, its model's, ours.

use super::worker::{Breakdown, Reads};
use serde_json::{Value, json};
use std::fmt;

/// The bound that a figure must keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Not further from this than by that.
    Within {
        /// The figure that it is to be near.
        of: f64,
        /// How near.
        by: f64,
    },
}

impl Target {
    fn is_met(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
            Self::Within { of, by } => (figure - of).abs() <= by,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::Within { of, by } => write!(f, "{of} +- {by}"),
        }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    figure: String,
    case: String,
    unit: &'static str,
    paper: Option<f64>,
    model: Option<f64>,
    ours: f64,
    target: Option<Target>,
    breakdown: Option<Breakdown>,
    reads: Option<Reads>,
    /// The curve that the row is a point of, and where, in milliseconds of round trip.
    point: Option<(String, u64)>,
    /// No picture shows it.
    is_aside: bool,
}

impl Row {
    /// A row of what we have measured.
    pub(crate) fn new(figure: &str, case: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        let (figure, case) = (figure.to_owned(), case.into());
        Self {
            figure,
            case,
            unit,
            paper: None,
            model: None,
            ours,
            target: None,
            breakdown: None,
            reads: None,
            point: None,
            is_aside: false,
        }
    }

    /// With what the paper says.
    pub(crate) fn paper(self, paper: impl Into<Option<f64>>) -> Self {
        Self { paper: paper.into(), ..self }
    }

    /// With what the model says.
    pub(crate) fn model(self, model: f64) -> Self {
        Self { model: Some(model), ..self }
    }

    /// With what it must be.
    pub(crate) fn target(self, target: impl Into<Option<Target>>) -> Self {
        Self { target: target.into(), ..self }
    }

    /// With where the time goes.
    pub(crate) fn breakdown(self, breakdown: Breakdown) -> Self {
        Self { breakdown: Some(breakdown), ..self }
    }

    /// With what a transaction reads.
    pub(crate) fn reads(self, reads: Reads) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// With something more about its case.
    pub(crate) fn noted(self, note: &str) -> Self {
        Self { case: format!("{}, {note}", self.case), ..self }
    }

    /// As a point of a curve, at a round trip.
    pub(crate) fn curve_at(self, curve: &str, round_trip_ms: u64) -> Self {
        Self { point: Some((curve.to_owned(), round_trip_ms)), ..self }
    }

    /// Left out of pictures.
    pub(crate) fn aside(self) -> Self {
        Self { is_aside: true, ..self }
    }

    /// The curve that it is a point of.
    pub(crate) fn curve(&self) -> Option<&str> {
        self.point.as_ref().map(|(curve, _)| curve.as_str())
    }

    /// Where on its curve it is, in milliseconds.
    pub(crate) fn at(&self) -> Option<f64> {
        self.point.as_ref().map(|(_, at)| *at as f64)
    }

    /// Whether a picture shows it.
    pub(crate) fn is_drawn(&self) -> bool {
        !self.is_aside && (self.point.is_some() || self.breakdown.is_some())
    }

    /// The paper's figure.
    pub(crate) fn stated(&self) -> Option<f64> {
        self.paper
    }

    /// The model's figure.
    pub(crate) fn modelled(&self) -> Option<f64> {
        self.model
    }

    /// The figure or table that it belongs to.
    pub fn figure(&self) -> &str {
        &self.figure
    }

    /// The case that was measured.
    pub fn case(&self) -> &str {
        &self.case
    }

    /// Our figure.
    pub fn ours(&self) -> f64 {
        self.ours
    }

    /// Where the time goes, if the row is a bar.
    pub(crate) fn bar(&self) -> Option<Breakdown> {
        self.breakdown
    }

    /// The row as JSON.
    pub fn to_json(&self) -> Value {
        let rounded = |figure: f64| (figure * 1e4).round() / 1e4;
        let mut json = json!({
            "figure": self.figure,
            "case": self.case,
            "unit": self.unit,
            "paper": self.paper,
            "model": self.model.map(rounded),
            "ours": rounded(self.ours),
            "target": self.target.map(|target| target.to_string()),
            "met": self.target.map(|target| target.is_met(self.ours)),
        });
        if let Some(Breakdown { cpu, commit, server_fetch, peer_fetch }) = self.breakdown {
            json["cpu"] = json!(rounded(cpu));
            json["commit"] = json!(rounded(commit));
            json["server_fetch"] = json!(rounded(server_fetch));
            json["peer_fetch"] = json!(rounded(peer_fetch));
        }
        if let Some(Reads { objects, pages, renewed }) = self.reads {
            json["objects"] = json!(rounded(objects));
            json["r"] = json!(rounded(pages));
            json["invalidation_misses"] = json!(rounded(renewed));
        }
        json
    }
}

/// The head of the columns.
pub const HEAD: &str =
    "figure   case                                                 unit       paper     model      ours  target";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |figure: Option<f64>| match figure {
            None => "-".to_owned(),
            Some(figure) if figure < 1.0 => format!("{figure:.4}"),
            Some(figure) => format!("{figure:.2}"),
        };
        let (paper, model, ours) = (cell(self.paper), cell(self.model), cell(Some(self.ours)));
        write!(f, "{:<8} {:<52} {:<6} {paper:>9} {model:>9} {ours:>9}", self.figure, self.case, self.unit)?;
        if let Some(target) = self.target {
            let met = if target.is_met(self.ours) { "met" } else { "NOT MET" };
            write!(f, "  {target}: {met}")?;
        }
        if let Some(Reads { objects, pages, renewed }) = self.reads {
            write!(f, "  {objects:.0} objects, r {pages:.2}, {renewed:.2} by invalidation")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whether_its_target_is_met() {
        let row = |ours| Row::new("7", "a case", "%", ours).paper(39.0).target(Target::AtLeast(45.0));
        assert_eq!(row(45.5).to_json()["met"], true);
        assert_eq!(row(44.9).to_json()["met"], false);
        assert!(row(44.9).to_string().ends_with(">= 45: NOT MET"));
        assert_eq!(Row::new("7", "a case", "%", 1.0).to_json()["met"], Value::Null);
        assert_eq!(row(1.0).target(Target::AtMost(1.6)).to_json()["met"], true);
    }
}
