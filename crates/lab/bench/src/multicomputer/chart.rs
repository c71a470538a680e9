//! The figures as pictures: a curve for each machine, and for what the paper omits halved and doubled.

use crate::curves::{Axes, BLUE, GREEN, GREY, RED};
use crate::{Result, Row};
use plotters::prelude::*;
use std::path::Path;

const LIGHT_BLUE: RGBColor = RGBColor(133, 193, 233);
const LIGHT_RED: RGBColor = RGBColor(241, 148, 138);

fn axes(figure: &str) -> Axes {
    let title = match figure {
        "4" => "time of 10 transactions a node over that of one node, over the nodes (powers of two)",
        "5" => "speed-up of 1,024 transactions, over the nodes (powers of two)",
        _ => "wait for the sequencer in thousandths of a transaction's time, over the nodes (powers of two)",
    };
    let colors = &[BLUE, LIGHT_BLUE, GREEN, RED, LIGHT_RED, GREY];
    Axes { title, across: |nodes| (nodes as f64).log2(), key: SeriesLabelPosition::UpperLeft, colors }
}

/// Draws the figures that rows belong to into a folder, as SVG.
///
/// # Errors
/// The folder cannot be written to.
pub fn draw(rows: &[Row], dir: &Path) -> Result<()> {
    Axes::draw_all(axes, rows, dir)
}
