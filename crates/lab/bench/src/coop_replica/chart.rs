//! R(t), the share of volumes that have lost nothing, and f(t), the density of losses, over time: a curve for each
//! number of copies.

use super::Lasting;
use crate::Result;
use crate::curves::{BLUE, Curve, Curves, GREEN, GREY, RED};
use crate::reliability::{Devices, Estimate};
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

/// In years, as powers of ten.
const TIMES: Range<f64> = -1.0..16.0;

/// Of each number of copies.
const COLORS: [RGBColor; 4] = [GREY, RED, BLUE, GREEN];

/// A picture: a figure over the years.
struct Picture {
    name: &'static str,
    caption: &'static str,
    range: Range<f64>,
    figure: fn(&Estimate, f64) -> f64,
}

const PICTURES: [Picture; 2] = [
    Picture {
        name: "reliability",
        caption: "R(t): volumes that have lost nothing, over the years (powers of ten), bare devices",
        range: 0.0..1.05,
        figure: Estimate::survives,
    },
    Picture {
        name: "density",
        caption: "f(t): losses a year of a volume, over the years (both as powers of ten), bare devices",
        range: -20.0..0.0,
        figure: |estimate, years| estimate.density(years).log10(),
    },
];

/// Draws `reliability` and `density`, as SVG into a folder, of volumes on devices without capacitors.
///
/// # Errors
/// The folder cannot be written to.
pub fn draw_reliability(rows: &[Lasting], dir: &Path) -> Result<()> {
    PICTURES.into_iter().try_for_each(|picture| {
        let file = dir.join(format!("{}.svg", picture.name));
        picture.curves(rows).draw(&file)
    })
}

impl Picture {
    fn curves(self, rows: &[Lasting]) -> Curves {
        let curve = |row: &Lasting| {
            let Lasting::Volume { copies, devices: Devices::Bare, estimate } = row else { return None };
            let steps = (10.0 * TIMES.start) as i32..=(10.0 * TIMES.end) as i32;
            let at = |tenth| f64::from(tenth) / 10.0;
            let points = steps.map(at).map(|at| (at, (self.figure)(estimate, 10_f64.powf(at))));
            // A figure below the picture is not drawn along its edge.
            let thick = points.filter(|(_, figure)| *figure >= self.range.start).collect();
            let color = COLORS[usize::from(*copies - 1) % COLORS.len()];
            Some(Curve { name: format!("W = {copies}"), color, thick, ..Curve::default() })
        };
        Curves {
            caption: self.caption.to_owned(),
            across: TIMES,
            up: self.range.clone(),
            key: SeriesLabelPosition::LowerLeft,
            series: rows.iter().filter_map(curve).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_study_is_a_table_and_a_picture() {
        let mut rows = Vec::new();
        let found = |row| {
            rows.push(row);
            Ok::<_, Infallible>(())
        };
        super::super::reliability(200, &|_, _| Ok(()), found).unwrap();
        assert_eq!(rows.len(), 4 + 2 + 12 + 3 + 6 + 4);
        let has_figure = |row: &Lasting| ["mttf_years", "apart"].iter().any(|it| row.to_json()[it].is_number());
        assert!(rows.iter().all(|row| has_figure(row) && !row.to_string().is_empty()));
        let dir = std::env::temp_dir().join(format!("thorp-reliability-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        draw_reliability(&rows, &dir).unwrap();
        for name in ["reliability", "density"] {
            let file = dir.join(name);
            assert!(std::fs::read_to_string(file.with_extension("svg")).unwrap().contains("W = 4"));
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
