//! The share of volumes that have lost nothing, over time: R(t), a curve for each number of copies.

use super::Lasting;
use crate::Result;
use crate::raster::Raster;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1000, 560);

/// In years: 1 to a million, in steps of a tenth of a power of ten.
const TIMES: std::ops::RangeInclusive<i32> = 0..=60;

/// Of each number of copies.
const COLOURS: [RGBColor; 4] =
    [RGBColor(90, 90, 90), RGBColor(192, 57, 43), RGBColor(36, 113, 163), RGBColor(30, 132, 73)];

/// Draws `reliability.svg` and `reliability.png` into a folder, of volumes on devices without capacitors.
///
/// # Errors
/// The folder cannot be written to.
pub fn draw_reliability(rows: &[Lasting], dir: &Path) -> Result<()> {
    curves(&SVGBackend::new(&dir.join("reliability.svg"), SIZE).into_drawing_area(), rows)?;
    let raster = Raster::new(SIZE);
    curves(&raster.clone().into_drawing_area(), rows)?;
    raster.write(&dir.join("reliability.png"))
}

fn curves<D: DrawingBackend>(area: &DrawingArea<D, Shift>, rows: &[Lasting]) -> Result<()>
where
    D::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(
            "R(t): volumes that have lost nothing, over the years (powers of ten), bare devices",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..6.0, 0.0..1.05)?;
    chart.configure_mesh().max_light_lines(1).label_style(("sans-serif", 14)).draw()?;
    for row in rows {
        let Lasting::Volume { copies, is_protected: false, estimate } = row else { continue };
        let colour = COLOURS[usize::from(*copies - 1) % COLOURS.len()];
        let points = TIMES.map(|tenth| f64::from(tenth) / 10.0).map(|at| (at, estimate.survives(10_f64.powf(at))));
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
        super::super::reliability(200, &|_| (), found).unwrap();
        assert_eq!(rows.len(), 4 + 8 + 4);
        assert!(rows.iter().all(|row| row.to_json()["mttf_years"].is_number() && !row.to_string().is_empty()));
        let dir = std::env::temp_dir().join(format!("thorp-reliability-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        draw_reliability(&rows, &dir).unwrap();
        assert!(std::fs::read_to_string(dir.join("reliability.svg")).unwrap().contains("W = 4"));
        assert_eq!(std::fs::read(dir.join("reliability.png")).unwrap()[..8], *b"\x89PNG\r\n\x1a\n");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
