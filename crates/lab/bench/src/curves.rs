//! Pictures of curves, as SVG.

use crate::{Result, Row};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

/// The area of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) const CAPTION: (&str, u32) = ("sans-serif", 18);
pub(crate) const FONT: (&str, u32) = ("sans-serif", 14);

/// Somewhat larger than it looks: plotters makes a key's box for narrower letters than ours.
const KEY_FONT: (&str, u32) = ("sans-serif", 18);

pub(crate) const GREY: RGBColor = RGBColor(90, 90, 90);
pub(crate) const BLUE: RGBColor = RGBColor(36, 113, 163);
pub(crate) const GREEN: RGBColor = RGBColor(39, 174, 96);
pub(crate) const RED: RGBColor = RGBColor(192, 57, 43);

/// Points of a curve.
pub(crate) type Points = Vec<(f64, f64)>;

/// A curve: a thick line, and what is beside it in the same color.
#[derive(Default)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) color: RGBColor,
    pub(crate) thick: Points,
    pub(crate) thin: Points,
    pub(crate) dots: Points,
}

/// A picture.
pub(crate) struct Curves {
    pub(crate) caption: String,
    pub(crate) across: Range<f64>,
    pub(crate) up: Range<f64>,
    pub(crate) key: SeriesLabelPosition,
    pub(crate) series: Vec<Curve>,
}

impl Curves {
    /// Draws it into a file.
    pub(crate) fn draw(self, file: &Path) -> Result<()> {
        let area = area(file, (1000, 560))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.caption, CAPTION)
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(self.across, self.up)?;
        chart.configure_mesh().max_light_lines(1).label_style(FONT).draw()?;
        for Curve { name, color, thick, thin, dots } in self.series {
            let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(3));
            chart.draw_series(LineSeries::new(thick, color.stroke_width(3)))?.label(name).legend(key);
            chart.draw_series(LineSeries::new(thin, color.stroke_width(1)))?;
            chart.draw_series(dots.into_iter().map(|point| Circle::new(point, 4, color.filled())))?;
        }
        draw_key(&mut chart, self.key)?;
        Ok(area.present()?)
    }
}

/// The axes of a figure that has a curve for each name of its rows' points.
pub(crate) struct Axes {
    /// The axes in words.
    pub(crate) title: &'static str,
    /// The figure across, at a row's point.
    pub(crate) across: fn(u64) -> f64,
    /// The place of the names.
    pub(crate) key: SeriesLabelPosition,
    /// The colors of the names, in the order of their first appearance.
    pub(crate) colors: &'static [RGBColor],
}

impl Axes {
    /// Draws each figure that rows have points of, as SVG into a folder.
    pub(crate) fn draw_all(of: fn(&str) -> Self, rows: &[Row], dir: &Path) -> Result<()> {
        for figure in names(rows.iter().filter(|row| row.point.is_some()).map(|row| row.figure.as_str())) {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure).collect();
            of(figure).curves(figure, &rows).draw(&dir.join(format!("figure-{figure}.svg")))?;
        }
        Ok(())
    }

    fn curves(self, figure: &str, rows: &[&Row]) -> Curves {
        let at = |(name, at): &(String, u64)| (name.clone(), (self.across)(*at));
        let point = |row: &&Row| row.point.as_ref().map(at).and_then(|(name, at)| Some((name, at, row.ours()?)));
        let points: Vec<_> = rows.iter().filter_map(point).collect();
        let ends = |(first, last): (f64, f64), at: f64| (first.min(at), last.max(at));
        let (first, last) = points.iter().map(|(_, at, _)| *at).fold((0.0, 1.0), ends);
        let most = points.iter().map(|(.., value)| *value).fold(0.01, f64::max);
        let curve = |(name, color): (&str, &RGBColor)| {
            let own = points.iter().filter(|(other, ..)| other == name);
            let thick: Points = own.map(|(_, at, value)| (*at, *value)).collect();
            Curve { name: name.to_owned(), color: *color, dots: thick.clone(), thick, ..Curve::default() }
        };
        let names = names(points.iter().map(|(name, ..)| name.as_str()));
        Curves {
            caption: format!("Figure {figure}: {}", self.title),
            across: first..last * 1.02,
            up: 0.0..most * 1.2,
            key: self.key,
            series: names.into_iter().zip(self.colors).map(curve).collect(),
        }
    }
}

/// A white area of this size, in a file.
pub(crate) fn area(file: &Path, size: (u32, u32)) -> Result<Area<'_>> {
    let area = SVGBackend::new(file, size).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area)
}

/// Draws the names of what a chart shows.
pub(crate) fn draw_key<'a, 'b: 'a, X: Ranged, Y: Ranged>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
    position: SeriesLabelPosition,
) -> Result<()> {
    let mut key = chart.configure_series_labels();
    Ok(key.position(position).background_style(WHITE).border_style(BLACK).label_font(KEY_FONT).draw()?)
}

/// Names in the order of their first appearance.
pub(crate) fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
