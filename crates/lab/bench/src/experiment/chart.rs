//! The figures as pictures: stacked bars of where the time goes, and curves over the distance.

use super::row::Row;
use crate::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

const CURVES: (u32, u32) = (1000, 560);
const BARS_HEIGHT: u32 = 560;
const BAR_WIDTH: u32 = 96;
const FONT: (&str, u32) = ("sans-serif", 14);

/// Somewhat larger than it looks: plotters makes a key's box for narrower letters than ours.
const KEY_FONT: (&str, u32) = ("sans-serif", 18);

/// The kinds of time that the bars are stacked of, from the bottom, as in the paper.
const KINDS: [(&str, RGBColor); 4] = [
    ("CPU", RGBColor(90, 90, 90)),
    ("commit", RGBColor(214, 137, 16)),
    ("server fetch", RGBColor(36, 113, 163)),
    ("peer fetch", RGBColor(39, 174, 96)),
];

/// Of each curve.
const COLOURS: [RGBColor; 3] = [RGBColor(36, 113, 163), RGBColor(39, 174, 96), RGBColor(192, 57, 43)];

/// An area to draw on, of a backend or of the other.
type Area<D> = DrawingArea<D, Shift>;

/// Draws the figures that rows belong to into a folder, as SVG.
pub fn draw(rows: &[Row], dir: &Path) -> Result<()> {
    let mut figures: Vec<&str> = rows.iter().filter(|row| row.is_drawn()).map(Row::figure).collect();
    figures.dedup();
    for figure in figures {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure() == figure && row.is_drawn()).collect();
        let svg = dir.join(format!("figure-{figure}.svg"));
        let size = size(&rows);
        picture(&SVGBackend::new(&svg, size).into_drawing_area(), figure, &rows)?;
    }
    Ok(())
}

fn are_curves(rows: &[&Row]) -> bool {
    rows.iter().any(|row| row.at().is_some())
}

/// Each bar has the room that its name takes.
fn size(rows: &[&Row]) -> (u32, u32) {
    if are_curves(rows) { CURVES } else { (100 + BAR_WIDTH * rows.len().max(4) as u32, BARS_HEIGHT) }
}

fn picture<D: DrawingBackend>(area: &Area<D>, figure: &str, rows: &[&Row]) -> Result<()>
where
    D::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    if are_curves(rows) {
        curves(area, figure, rows)?;
    } else {
        bars(area, figure, rows)?;
    }
    area.present()?;
    Ok(())
}

/// One bar for each row, from left to right, with its kinds of time on top of each other and its name below.
fn bars<D: DrawingBackend>(area: &Area<D>, figure: &str, rows: &[&Row]) -> Result<()>
where
    D::ErrorType: 'static,
{
    let most = rows.iter().filter_map(|row| row.ours()).fold(1.0, f64::max) * 1.25;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Figure {figure}: milliseconds of a transaction"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(70)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..rows.len() as f64, 0.0..most)?;
    chart.configure_mesh().disable_x_mesh().disable_x_axis().y_max_light_lines(1).label_style(FONT).draw()?;
    for (kind, (name, colour)) in KINDS.into_iter().enumerate() {
        let rectangles = rows.iter().enumerate().filter_map(|(at, row)| {
            let heights = row.bar()?.kinds();
            let bottom: f64 = heights[..kind].iter().sum();
            let left = at as f64;
            Some(Rectangle::new([(left + 0.15, bottom), (left + 0.85, bottom + heights[kind])], colour.filled()))
        });
        let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled());
        chart.draw_series(rectangles)?.label(name).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .label_font(KEY_FONT)
        .draw()?;
    for (at, row) in rows.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(at as f64 + 0.15, 0.0));
        // A name has a line for each of its parts.
        for (line, part) in (0..).zip(row.case().split(", ")) {
            area.draw(&Text::new(part.to_owned(), (x, y + 6 + 18 * line), FONT))?;
        }
        if let Some(ours) = row.ours() {
            let (x, y) = chart.backend_coord(&(at as f64 + 0.15, ours));
            area.draw(&Text::new(format!("{ours:.1}"), (x, y - 20), FONT))?;
        }
    }
    Ok(())
}

/// A thick curve for each case, a thin one for what the model says of it, dots for what the paper says.
fn curves<D: DrawingBackend>(area: &Area<D>, figure: &str, rows: &[&Row]) -> Result<()>
where
    D::ErrorType: 'static,
{
    let points: Vec<(&str, f64, &Row)> = rows.iter().filter_map(|row| Some((row.curve()?, row.at()?, *row))).collect();
    let least = points.iter().filter_map(|(.., row)| row.ours()).fold(0.0, f64::min);
    let furthest = points.iter().map(|(_, at, _)| *at).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("Figure {figure}: percent saved, over the round trip in ms (thin: model; dots: paper)"),
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..furthest * 1.02, least..90.0)?;
    chart.configure_mesh().max_light_lines(1).label_style(FONT).draw()?;
    let mut names: Vec<&str> = points.iter().map(|(name, ..)| *name).collect();
    names.dedup();
    for (name, colour) in names.into_iter().zip(COLOURS) {
        let own = || points.iter().filter(move |(other, ..)| *other == name);
        let ours = LineSeries::new(own().filter_map(|(_, at, row)| Some((*at, row.ours()?))), colour.stroke_width(3));
        let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(3));
        chart.draw_series(ours)?.label(name).legend(key);
        let model = own().filter_map(|(_, at, row)| Some((*at, row.modelled()?)));
        chart.draw_series(LineSeries::new(model, colour.stroke_width(1)))?;
        let paper = own().filter_map(|(_, at, row)| Some((*at, row.stated()?)));
        chart.draw_series(paper.map(|point| Circle::new(point, 5, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .label_font(KEY_FONT)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::worker::Breakdown;
    use super::*;

    #[test]
    fn bars_and_curves_are_drawn() {
        let bar = Breakdown { cpu: 1.0, commit: 40.0, server_fetch: 60.5, peer_fetch: 2.0 };
        let rows = [
            Row::new("7", "3 clients, Base", "ms", bar.total()).breakdown(bar),
            Row::new("9", "3 clients, 10 ms", "%", 20.0).model(22.0).curve_at("3 clients", 10),
            Row::new("9", "3 clients, 40 ms", "%", 39.0).model(41.0).paper(39.0).curve_at("3 clients", 40),
        ];
        let dir = std::env::temp_dir().join(format!("thorp-chart-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        draw(&rows, &dir).unwrap();
        let svg = |figure| std::fs::read_to_string(dir.join(format!("figure-{figure}.svg"))).unwrap();
        assert!(svg(7).contains("103.5") && svg(7).contains("server fetch"));
        assert!(svg(9).contains("3 clients"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
