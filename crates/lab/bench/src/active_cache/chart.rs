//! The figures as pictures: a curve for each scheme.

use crate::{Result, Row};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (1000, 560);
const FONT: (&str, u32) = ("sans-serif", 14);

/// Somewhat larger than it looks: plotters makes a key's box for narrower letters than ours.
const KEY_FONT: (&str, u32) = ("sans-serif", 18);

/// Of each curve.
const COLOURS: [RGBColor; 3] = [RGBColor(90, 90, 90), RGBColor(192, 57, 43), RGBColor(36, 113, 163)];

/// The axes of a figure, in words.
fn title(figure: &str) -> &'static str {
    match figure {
        "8" => "pages a second, over the trace",
        "9" => "misses of a thousand pages, over the trace",
        "10" => "pages a second, over the share of the pages that a cache has room for",
        "11" => "pages a second, over the dependencies of a page",
        _ => "pages a second, over the busy threads on the back end",
    }
}

/// Draws the figures that rows belong to into a folder, as SVG.
///
/// # Errors
/// The folder cannot be written to.
pub fn draw(rows: &[Row], dir: &Path) -> Result<()> {
    let mut figures: Vec<&str> = rows.iter().filter(|row| row.curve().is_some()).map(Row::figure).collect();
    figures.dedup();
    for figure in figures {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure() == figure).collect();
        let svg = dir.join(format!("figure-{figure}.svg"));
        curves(&SVGBackend::new(&svg, SIZE).into_drawing_area(), figure, &rows)?;
    }
    Ok(())
}

fn curves<D: DrawingBackend>(area: &DrawingArea<D, Shift>, figure: &str, rows: &[&Row]) -> Result<()>
where
    D::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let points: Vec<(&str, f64, f64)> =
        rows.iter().filter_map(|row| Some((row.curve()?, row.at()?, row.ours()?))).collect();
    let furthest = points.iter().map(|(_, at, _)| *at).fold(1.0, f64::max);
    let most = points.iter().map(|(.., value)| *value).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Figure {figure}: {}", title(figure)), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..furthest * 1.02, 0.0..most * 1.2)?;
    chart.configure_mesh().max_light_lines(1).label_style(FONT).draw()?;
    let mut names: Vec<&str> = Vec::new();
    for (name, ..) in &points {
        if !names.contains(name) {
            names.push(name);
        }
    }
    for (name, colour) in names.into_iter().zip(COLOURS) {
        let own = || points.iter().filter(move |(other, ..)| *other == name).map(|(_, at, value)| (*at, *value));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(3));
        chart.draw_series(LineSeries::new(own(), colour.stroke_width(3)))?.label(name).legend(key);
        chart.draw_series(own().map(|point| Circle::new(point, 4, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .label_font(KEY_FONT)
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn() {
        let rows = [1, 5].map(|trace| Row::new("8", "no cache", "pages/s", 100.0).curve_at("no cache", trace));
        let dir = std::env::temp_dir().join(format!("thorp-active-cache-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        draw(&rows, &dir).unwrap();
        assert!(std::fs::read_to_string(dir.join("figure-8.svg")).unwrap().contains("no cache"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
