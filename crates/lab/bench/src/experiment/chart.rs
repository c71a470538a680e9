//! The figures as pictures: stacked bars of where the time goes, and curves over the distance.

use super::row::Row;
use crate::Result;
use crate::curves::{self, Area, BLUE, CAPTION, Curve, Curves, FONT, GREEN, GREY, Points, RED, draw_key, names};
use plotters::prelude::*;
use std::path::Path;

const BARS_HEIGHT: u32 = 560;
const BAR_WIDTH: u32 = 96;

/// The kinds of time that the bars are stacked of, from the bottom, as in the paper.
const KINDS: [(&str, RGBColor); 4] =
    [("CPU", GREY), ("commit", RGBColor(214, 137, 16)), ("server fetch", BLUE), ("peer fetch", GREEN)];

/// Draws the figures that rows belong to into a folder, as SVG.
pub fn draw(rows: &[Row], dir: &Path) -> Result<()> {
    for figure in names(rows.iter().filter(|row| row.is_drawn()).map(|row| row.figure.as_str())) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure && row.is_drawn()).collect();
        let file = dir.join(format!("figure-{figure}.svg"));
        if rows.iter().any(|row| row.point.is_some()) {
            curves(figure, &rows).draw(&file)?;
        } else {
            // Each bar has the room that its name takes.
            let width = 100 + BAR_WIDTH * rows.len().max(4) as u32;
            bars(&curves::area(&file, (width, BARS_HEIGHT))?, figure, &rows)?;
        }
    }
    Ok(())
}

/// One bar for each row, from left to right, with its kinds of time on top of each other and its name below.
fn bars(area: &Area<'_>, figure: &str, rows: &[&Row]) -> Result<()> {
    let most = rows.iter().filter_map(|row| row.ours()).fold(1.0, f64::max) * 1.25;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Figure {figure}: milliseconds of a transaction"), CAPTION)
        .margin(12)
        .x_label_area_size(70)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..rows.len() as f64, 0.0..most)?;
    chart.configure_mesh().disable_x_mesh().disable_x_axis().y_max_light_lines(1).label_style(FONT).draw()?;
    for (kind, (name, color)) in KINDS.into_iter().enumerate() {
        let rectangles = rows.iter().enumerate().filter_map(|(at, row)| {
            let heights = row.breakdown?.kinds();
            let bottom: f64 = heights[..kind].iter().sum();
            let left = at as f64;
            Some(Rectangle::new([(left + 0.15, bottom), (left + 0.85, bottom + heights[kind])], color.filled()))
        });
        let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled());
        chart.draw_series(rectangles)?.label(name).legend(key);
    }
    draw_key(&mut chart, SeriesLabelPosition::UpperRight)?;
    for (at, row) in rows.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(at as f64 + 0.15, 0.0));
        // A name has a line for each of its parts.
        for (line, part) in (0..).zip(row.case.split(", ")) {
            area.draw(&Text::new(part.to_owned(), (x, y + 6 + 18 * line), FONT))?;
        }
        if let Some(ours) = row.ours() {
            let (x, y) = chart.backend_coord(&(at as f64 + 0.15, ours));
            area.draw(&Text::new(format!("{ours:.1}"), (x, y - 20), FONT))?;
        }
    }
    Ok(area.present()?)
}

/// A thick curve for each case, a thin one for the model, dots for the paper.
fn curves(figure: &str, rows: &[&Row]) -> Curves {
    let points: Vec<_> = rows.iter().filter_map(|row| Some((row.point.as_ref()?, *row))).collect();
    let least = points.iter().filter_map(|(_, row)| row.ours()).fold(0.0, f64::min);
    let furthest = points.iter().map(|((_, at), _)| *at as f64).fold(1.0, f64::max);
    let curve = |(name, color): (&str, RGBColor)| {
        let own = points.iter().filter(|((other, _), _)| other == name);
        let of = |value: fn(&Row) -> Option<f64>| -> Points {
            own.clone().filter_map(|((_, at), row)| Some((*at as f64, value(row)?))).collect()
        };
        let (thick, thin, dots) = (of(Row::ours), of(|row| row.model), of(|row| row.paper));
        Curve { name: name.to_owned(), color, thick, thin, dots }
    };
    Curves {
        caption: format!("Figure {figure}: percent saved, over the round trip in ms (thin: model; dots: paper)"),
        across: 0.0..furthest * 1.02,
        up: least..90.0,
        key: SeriesLabelPosition::LowerRight,
        series: names(points.iter().map(|((name, _), _)| name.as_str()))
            .into_iter()
            .zip([BLUE, GREEN, RED])
            .map(curve)
            .collect(),
    }
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
