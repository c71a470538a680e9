//! The figures as pictures: a curve for each scheme.

use crate::curves::{Axes, BLUE, GREY, RED};
use crate::{Result, Row};
use plotters::prelude::*;
use std::path::Path;

fn axes(figure: &str) -> Axes {
    let title = match figure {
        "8" => "pages a second, over the trace",
        "9" => "misses of a thousand pages, over the trace",
        "10" => "pages a second, over the share of the pages that a cache has room for",
        "11" => "pages a second, over the dependencies of a page",
        _ => "pages a second, over the busy threads on the back end",
    };
    let key = SeriesLabelPosition::UpperRight;
    Axes { title, across: |at| at as f64, key, colors: &[GREY, RED, BLUE] }
}

/// Draws the figures that rows belong to into a folder, as SVG.
///
/// # Errors
/// The folder cannot be written to.
pub fn draw(rows: &[Row], dir: &Path) -> Result<()> {
    Axes::draw_all(axes, rows, dir)
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
