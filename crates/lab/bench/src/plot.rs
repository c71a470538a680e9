//! Plots of measured lines: one bar for each ratio, beside the most that it should be or the least.

use crate::{Line, Result};
use plotters::prelude::*;
use std::path::Path;

/// A ratio that has a bound.
struct Target {
    case: &'static str,
    field: &'static str,
    bound: f64,
    /// Whether the bound is the most that the figure may be, or the least.
    is_most: bool,
}

const TARGETS: [Target; 6] = [
    Target { case: "read", field: "over_hashmap", bound: 3.0, is_most: true },
    Target { case: "commit", field: "over_floor", bound: 1.3, is_most: true },
    Target { case: "commit", field: "over_fdatasync", bound: 6.0, is_most: false },
    Target { case: "fetch", field: "over_ping", bound: 1.5, is_most: true },
    Target { case: "recover", field: "over_read", bound: 0.5, is_most: false },
    Target { case: "load", field: "over_sequential", bound: 0.4, is_most: false },
];

/// Draws `ratios.svg` and, if OO7 was measured, `oo7.svg` into a folder.
pub fn plot(lines: &[Line], dir: &Path) -> Result<()> {
    ratios(lines, &dir.join("ratios.svg"))?;
    let traversals: Vec<&Line> = lines.iter().filter(|line| line.case() == "oo7").collect();
    if !traversals.is_empty() {
        oo7(&traversals, &dir.join("oo7.svg"))?;
    }
    Ok(())
}

fn ratios(lines: &[Line], file: &Path) -> Result<()> {
    let measured = |target: &Target| {
        lines.iter().filter(|line| line.case() == target.case).find_map(|line| line.get(target.field))
    };
    let bars: Vec<(String, f64, f64)> =
        TARGETS.iter().filter_map(|target| Some((target.label(), measured(target)?, target.bound))).collect();
    bars_and_bounds("each figure over the machine's own (line: its bound)", &bars, file)
}

impl Target {
    fn label(&self) -> String {
        let relation = if self.is_most { "<=" } else { ">=" };
        format!("{} {} {relation} {}", self.case, self.field, self.bound)
    }
}

fn oo7(lines: &[&Line], file: &Path) -> Result<()> {
    let label = |line: &Line| {
        let word = |name| line.to_json()[name].as_str().unwrap_or_default().to_owned();
        format!("{} x{}", word("traversal"), line.get("clients").unwrap_or(1.0))
    };
    let bars: Vec<_> = lines.iter().filter_map(|line| Some((label(line), line.get("seconds")?, 0.0))).collect();
    bars_and_bounds("OO7 medium behind a slow link: seconds", &bars, file)
}

fn bars_and_bounds(title: &str, bars: &[(String, f64, f64)], file: &Path) -> Result<()> {
    let most = bars.iter().map(|(_, value, bound)| value.max(*bound)).fold(1.0, f64::max) * 1.1;
    let root = SVGBackend::new(file, (900, 60 + 60 * bars.len().max(1) as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(25)
        .build_cartesian_2d(0.0..most, 0.0..bars.len() as f64)?;
    chart.configure_mesh().disable_y_mesh().disable_y_axis().draw()?;
    for (i, (label, value, bound)) in bars.iter().enumerate() {
        let bottom = i as f64;
        let bar = Rectangle::new([(0.0, bottom + 0.15), (*value, bottom + 0.55)], BLUE.mix(0.5).filled());
        let line = PathElement::new(vec![(*bound, bottom + 0.05), (*bound, bottom + 0.65)], RED.stroke_width(2));
        let text = format!("{label}: {value:.2}");
        chart.draw_series([bar])?;
        if *bound > 0.0 {
            chart.draw_series([line])?;
        }
        chart.draw_series([Text::new(text, (most * 0.005, bottom + 0.9), ("sans-serif", 14))])?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_shows_every_ratio_with_its_bound() {
        let lines = [
            Line::new("read").figure("over_hashmap", 2.5),
            Line::new("oo7").word("traversal", "t1").figure("seconds", 1.5),
        ];
        let dir = std::env::temp_dir().join(format!("thorp-plot-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        plot(&lines, &dir).unwrap();
        let ratios = std::fs::read_to_string(dir.join("ratios.svg")).unwrap();
        assert!(ratios.contains("over_hashmap") && ratios.contains("2.50"));
        assert!(std::fs::read_to_string(dir.join("oo7.svg")).unwrap().contains("1.50"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
