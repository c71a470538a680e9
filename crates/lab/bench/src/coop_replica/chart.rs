//! R(t), the share of volumes that have lost nothing, and f(t), the density of losses, over time: a curve for each
//! number of copies.

use super::Lasting;
use crate::Result;
use crate::reliability::{Devices, Estimate};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

const SIZE: (u32, u32) = (1000, 560);

/// In years, as powers of ten.
const TIMES: Range<f64> = -1.0..16.0;

/// Of each number of copies.
const COLOURS: [RGBColor; 4] =
    [RGBColor(90, 90, 90), RGBColor(192, 57, 43), RGBColor(36, 113, 163), RGBColor(30, 132, 73)];

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
    for picture in PICTURES {
        let file = dir.join(format!("{}.svg", picture.name));
        picture.draw(&SVGBackend::new(&file, SIZE).into_drawing_area(), rows)?;
    }
    Ok(())
}

impl Picture {
    fn draw<D: DrawingBackend>(&self, area: &DrawingArea<D, Shift>, rows: &[Lasting]) -> Result<()>
    where
        D::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(self.caption, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(TIMES, self.range.clone())?;
        chart.configure_mesh().max_light_lines(1).label_style(("sans-serif", 14)).draw()?;
        for row in rows {
            let Lasting::Volume { copies, devices: Devices::Bare, estimate } = row else { continue };
            let colour = COLOURS[usize::from(*copies - 1) % COLOURS.len()];
            let steps = (10.0 * TIMES.start) as i32..=(10.0 * TIMES.end) as i32;
            let figure = |at: f64| (self.figure)(estimate, 10_f64.powf(at));
            let points = steps.map(|tenth| f64::from(tenth) / 10.0).map(|at| (at, figure(at)));
            // A figure below the picture is not drawn along its edge.
            let points = points.filter(|(_, figure)| *figure >= self.range.start);
            let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(3));
            let name = format!("W = {copies}");
            chart.draw_series(LineSeries::new(points, colour.stroke_width(3)))?.label(name).legend(key);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerLeft)
            .background_style(WHITE)
            .border_style(BLACK)
            .label_font(("sans-serif", 18))
            .draw()?;
        area.present()?;
        Ok(())
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
