//! The figures as pictures: a curve for each model.

use crate::curves::{Axes, BLUE, GREEN, GREY, RED};
use crate::{Result, Row};
use plotters::prelude::*;
use std::path::Path;

fn axes(figure: &str) -> Axes {
    let (title, across): (_, fn(u64) -> f64) = match figure {
        "4" => ("milliseconds of a read in the mean, over the servers", |servers| servers as f64),
        "5" => ("percent of a line of 100 Mb/s, over the servers", |servers| servers as f64),
        _ => ("percent of a line of 100 Mb/s, over the reads a second (powers of ten)", |reads| {
            (reads as f64 / 100.0).log10()
        }),
    };
    Axes { title, across, key: SeriesLabelPosition::UpperLeft, colors: &[BLUE, RED, GREY, GREEN] }
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
        let rows = [1, 1000].map(|reads| Row::new("6", "PC", "%", 0.2).curve_at("PC", reads));
        let dir = std::env::temp_dir().join(format!("thorp-publish-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        draw(&rows, &dir).unwrap();
        assert!(std::fs::read_to_string(dir.join("figure-6.svg")).unwrap().contains("PC"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
