//! One row of an experiment's table: the paper's figure, its model's, ours.

use super::worker::{Breakdown, Reads};
use crate::machine::{DIFFERS_PERCENT_MAX, differs_percent};
use serde_json::{Value, json};
use std::fmt;

/// The bound that a figure must keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// From this to that.
    Between(f64, f64),
    /// Not further from this than by that.
    Within {
        /// The figure that it should be near.
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
            Self::Between(least, most) => figure >= least && figure <= most,
            Self::Within { of, by } => (figure - of).abs() <= by,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Within { of, by } => write!(f, "{of} +- {by}"),
        }
    }
}

/// Whether a figure keeps to its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Met,
    NotMet,
    /// Its baseline differs by this much, in percent, between its repetitions: nobody knows.
    Unsteady(f64),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => write!(f, "met"),
            Self::NotMet => write!(f, "NOT MET"),
            Self::Unsteady(differs) => write!(f, "unsteady, its baseline differs by {differs:.0} %"),
        }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub(crate) figure: String,
    pub(crate) case: String,
    unit: &'static str,
    pub(crate) paper: Option<f64>,
    pub(crate) model: Option<f64>,
    /// Our figure, or why there is none.
    ours: Result<f64, String>,
    target: Option<Target>,
    /// How much the figure that it is compared with differs between its repetitions, in percent.
    baseline_differs: Option<f64>,
    /// The share of the machine's processors that others took in the meantime, in percent.
    others: Option<f64>,
    pub(crate) breakdown: Option<Breakdown>,
    reads: Option<Reads>,
    /// The curve that the row is a point of, and where, in milliseconds of round trip.
    pub(crate) point: Option<(String, u64)>,
    /// Half of the interval that has the mean of all repetitions in 95 of 100 experiments.
    interval: Option<f64>,
    /// The standard deviation of its repetitions.
    deviation: Option<f64>,
    /// No picture shows it.
    is_aside: bool,
}

impl Row {
    /// A row of what we have measured.
    pub(crate) fn new(figure: &str, case: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self::of(figure, case, unit, Ok(ours))
    }

    /// A row of what could not be measured, and why.
    pub(crate) fn missing(figure: &str, case: impl Into<String>, unit: &'static str, why: impl Into<String>) -> Self {
        Self::of(figure, case, unit, Err(why.into()))
    }

    fn of(figure: &str, case: impl Into<String>, unit: &'static str, ours: Result<f64, String>) -> Self {
        let (figure, case) = (figure.to_owned(), case.into());
        Self {
            figure,
            case,
            unit,
            paper: None,
            model: None,
            ours,
            target: None,
            baseline_differs: None,
            others: None,
            breakdown: None,
            reads: None,
            point: None,
            interval: None,
            deviation: None,
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

    /// With the repetitions of what it is compared with: if they differ too much it proves nothing.
    pub(crate) fn baseline(self, repetitions: &[f64]) -> Self {
        self.baseline_differs(differs_percent(repetitions))
    }

    /// The same, where it is known how much they differ, in percent.
    pub(crate) fn baseline_differs(self, differs: Option<f64>) -> Self {
        Self { baseline_differs: differs, ..self }
    }

    /// With the share of the machine's processors that others took in the meantime, in percent, unless it has one.
    pub(crate) fn beside(self, others: Option<f64>) -> Self {
        Self { others: self.others.or(others), ..self }
    }

    /// With half of its 95 % interval.
    pub(crate) fn interval(self, half: Option<f64>) -> Self {
        Self { interval: half, ..self }
    }

    /// With the standard deviation of its repetitions.
    pub(crate) fn deviation(self, deviation: Option<f64>) -> Self {
        Self { deviation, ..self }
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

    /// Whether a picture shows it.
    pub(crate) fn is_drawn(&self) -> bool {
        !self.is_aside && (self.point.is_some() || self.breakdown.is_some())
    }

    /// Our figure, if it could be measured.
    pub fn ours(&self) -> Option<f64> {
        self.ours.as_ref().ok().copied()
    }

    fn verdict(&self) -> Option<Verdict> {
        let (target, ours) = (self.target?, self.ours()?);
        Some(match self.baseline_differs {
            Some(differs) if differs > DIFFERS_PERCENT_MAX => Verdict::Unsteady(differs),
            _ if target.is_met(ours) => Verdict::Met,
            _ => Verdict::NotMet,
        })
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
            "ours": self.ours().map(rounded),
            "target": self.target.map(|target| target.to_string()),
            "met": self.verdict().map(|verdict| verdict == Verdict::Met),
            "others_percent": self.others.map(rounded),
        });
        if let Some(half) = self.interval {
            json["interval_95"] = json!(rounded(half));
        }
        if let Some(deviation) = self.deviation {
            json["deviation"] = json!(rounded(deviation));
        }
        if let Some(differs) = self.baseline_differs {
            json["baseline_differs_percent"] = json!(rounded(differs));
            json["unsteady"] = json!(differs > DIFFERS_PERCENT_MAX);
        }
        if let Err(why) = &self.ours {
            json["missing"] = json!(why);
        }
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
pub const HEAD: &str = "figure   case                                                 unit       paper     model      ours  others  target";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |figure: Option<f64>| match figure {
            None => "-".to_owned(),
            Some(figure) if figure < 1.0 => format!("{figure:.4}"),
            Some(figure) => format!("{figure:.2}"),
        };
        let (paper, model, ours) = (cell(self.paper), cell(self.model), cell(self.ours()));
        let others = self.others.map_or("-".to_owned(), |others| format!("{others:.0} %"));
        write!(f, "{:<8} {:<52} {:<6} {paper:>9} {model:>9} {ours:>9} {others:>7}", self.figure, self.case, self.unit)?;
        if let (Some(target), Some(verdict)) = (self.target, self.verdict()) {
            write!(f, "  {target}: {verdict}")?;
        }
        if let Some(half) = self.interval.filter(|half| *half > 1e-9) {
            write!(f, "  +- {half:.2e}")?;
        }
        if let Some(deviation) = self.deviation.filter(|deviation| *deviation > 1e-9) {
            write!(f, "  sd {deviation:.2e}")?;
        }
        if let Err(why) = &self.ours {
            write!(f, "  missing: {why}")?;
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

    #[test]
    fn a_figure_beside_an_unsteady_baseline_is_not_called_met() {
        let row = |baseline: &[f64]| {
            let row = Row::new("8", "over no cache", "times", 9.0).target(Target::AtLeast(8.8)).beside(Some(31.4));
            row.baseline(baseline)
        };
        let unsteady = row(&[100.0, 130.0, 110.0]);
        assert_eq!((&unsteady.to_json()["met"], &unsteady.to_json()["unsteady"]), (&json!(false), &json!(true)));
        assert!(unsteady.to_string().ends_with("31 %  >= 8.8: unsteady, its baseline differs by 30 %"), "{unsteady}");
        assert_eq!(row(&[100.0, 120.0]).to_json()["met"], true);
        assert_eq!(row(&[100.0]).to_json()["met"], true, "of a lone one nobody knows");
        assert_eq!(row(&[]).beside(Some(1.0)).to_json()["others_percent"], 31.4);
    }

    #[test]
    fn a_row_that_is_missing_says_why() {
        let row = Row::missing("6", "one-sided lookup", "us", "there is no shim").target(Target::AtMost(0.2));
        assert!(row.to_string().ends_with("missing: there is no shim"), "{row}");
        let json = row.to_json();
        assert_eq!(
            (&json["ours"], &json["met"], &json["missing"]),
            (&Value::Null, &Value::Null, &json!("there is no shim"))
        );
    }
}
