//! The figures as pictures: a curve for each scheme.

use crate::curves::{BLUE, Curve, Curves, GREY, Points, RED, names};
use crate::{Result, Row};
use plotters::prelude::*;
use std::path::Path;

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
    for figure in names(rows.iter().filter(|row| row.point.is_some()).map(|row| row.figure.as_str())) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure).collect();
        curves(figure, &rows).draw(&dir.join(format!("figure-{figure}.svg")))?;
    }
    Ok(())
}

fn curves(figure: &str, rows: &[&Row]) -> Curves {
    let point = |row: &&Row| row.point.as_ref().and_then(|(name, at)| Some((name.clone(), *at as f64, row.ours()?)));
    let points: Vec<_> = rows.iter().filter_map(point).collect();
    let furthest = points.iter().map(|(_, at, _)| *at).fold(1.0, f64::max);
    let most = points.iter().map(|(.., value)| *value).fold(1.0, f64::max);
    let curve = |(name, color): (&str, RGBColor)| {
        let own = points.iter().filter(|(other, ..)| other == name);
        let thick: Points = own.map(|(_, at, value)| (*at, *value)).collect();
        Curve { name: name.to_owned(), color, dots: thick.clone(), thick, ..Curve::default() }
    };
    Curves {
        caption: format!("Figure {figure}: {}", title(figure)),
        across: 0.0..furthest * 1.02,
        up: 0.0..most * 1.2,
        key: SeriesLabelPosition::UpperRight,
        series: names(points.iter().map(|(name, ..)| name.as_str()))
            .into_iter()
            .zip([GREY, RED, BLUE])
            .map(curve)
            .collect(),
    }
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
