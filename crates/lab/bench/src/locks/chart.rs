//! The figures as pictures: a curve for each model.

use crate::curves::{BLUE, Curve, Curves, GREEN, GREY, Points, RED, names};
use crate::{Result, Row};
use plotters::prelude::*;
use std::path::Path;

/// The axes of a figure, in words, and the figure across at a row's point.
fn axes(figure: &str) -> (&'static str, fn(u64) -> f64) {
    match figure {
        "4" => ("milliseconds of a read in the mean, over the servers", |servers| servers as f64),
        "5" => ("percent of a line of 100 Mb/s, over the servers", |servers| servers as f64),
        _ => ("percent of a line of 100 Mb/s, over the reads a second (powers of ten)", |reads| {
            (reads as f64 / 100.0).log10()
        }),
    }
}

/// Draws the figures that rows belong to into a folder, as SVG.
///
/// # Errors
/// The folder cannot be written to.
pub fn draw(rows: &[Row], dir: &Path) -> Result<()> {
    for figure in names(rows.iter().filter(|row| row.point.is_some()).map(|row| row.figure.as_str())) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure).collect();
        curves(figure, &rows).draw(&dir.join(format!("figure-{figure}.svg")))?;
    }
    Ok(())
}

fn curves(figure: &str, rows: &[&Row]) -> Curves {
    let (title, across) = axes(figure);
    let point = |row: &&Row| row.point.as_ref().and_then(|(name, at)| Some((name.clone(), across(*at), row.ours()?)));
    let points: Vec<_> = rows.iter().filter_map(point).collect();
    let (first, last) = points
        .iter()
        .map(|(_, at, _)| *at)
        .fold((0.0, 1.0), |(first, last): (f64, f64), at| (first.min(at), last.max(at)));
    let most = points.iter().map(|(.., value)| *value).fold(0.01, f64::max);
    let curve = |(name, color): (&str, RGBColor)| {
        let own = points.iter().filter(|(other, ..)| other == name);
        let thick: Points = own.map(|(_, at, value)| (*at, *value)).collect();
        Curve { name: name.to_owned(), color, dots: thick.clone(), thick, ..Curve::default() }
    };
    let names = names(points.iter().map(|(name, ..)| name.as_str()));
    Curves {
        caption: format!("Figure {figure}: {title}"),
        across: first..last * 1.02,
        up: 0.0..most * 1.2,
        key: SeriesLabelPosition::UpperLeft,
        series: names.into_iter().zip([BLUE, RED, GREY, GREEN]).map(curve).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn() {
        let rows = [1, 1000].map(|reads| Row::new("6", "PC", "%", 0.2).curve_at("PC", reads));
        let dir = std::env::temp_dir().join(format!("thorp-publish-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        draw(&rows, &dir).unwrap();
        assert!(std::fs::read_to_string(dir.join("figure-6.svg")).unwrap().contains("PC"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
