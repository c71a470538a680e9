//! A picture of pixels, written as PNG. Its letters are bitmaps of the program's own, so that it looks the same on
//! machines that have no fonts.

use crate::Result;
use font8x8::UnicodeFonts;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::rc::Rc;

/// Letters are 8 pixels wide, and drawn twice as high.
const LETTER: (u32, u32) = (8, 16);

/// The result of an operation of plotters here: nothing can fail.
type Drawn = std::result::Result<(), DrawingErrorKind<Infallible>>;

/// A picture. Clones show the same pixels: plotters takes one, and the other is written.
#[derive(Clone, Debug)]
pub(crate) struct Raster {
    size: (u32, u32),
    /// Red, green and blue, row by row from the top.
    pixels: Rc<RefCell<Vec<u8>>>,
}

impl Raster {
    /// A white picture.
    pub(crate) fn new(size: (u32, u32)) -> Self {
        let bytes = 3 * size.0 as usize * size.1 as usize;
        Self { size, pixels: Rc::new(RefCell::new(vec![255; bytes])) }
    }

    /// Writes the picture as PNG.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let mut encoder = png::Encoder::new(BufWriter::new(File::create(file)?), self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header()?.write_image_data(&self.pixels.borrow())?;
        Ok(())
    }

    /// Lays a colour over a pixel, if it is in the picture.
    fn paint(&self, (x, y): BackendCoord, color: BackendColor) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        if x >= width || y >= height {
            return;
        }
        let at = 3 * (y * width + x);
        let over = [color.rgb.0, color.rgb.1, color.rgb.2].map(f64::from);
        for (under, over) in self.pixels.borrow_mut()[at..at + 3].iter_mut().zip(over) {
            *under = (f64::from(*under) * (1.0 - color.alpha) + over * color.alpha).round() as u8;
        }
    }
}

fn text_width(text: &str) -> u32 {
    LETTER.0 * text.chars().count() as u32
}

impl DrawingBackend for Raster {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        self.paint(point, color);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Drawn {
        let (width, height) = (text_width(text).cast_signed(), LETTER.1.cast_signed());
        let left = match style.anchor().h_pos {
            HPos::Left => x,
            HPos::Center => x - width / 2,
            HPos::Right => x - width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => y,
            VPos::Center => y - height / 2,
            VPos::Bottom => y - height,
        };
        for (place, letter) in (0..).zip(text.chars()) {
            let rows = font8x8::BASIC_FONTS.get(letter).unwrap_or_default();
            for (row, bits) in (0..).zip(rows) {
                for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                    let (x, y) = (left + 8 * place + column, top + 2 * row);
                    self.paint((x, y), style.color());
                    self.paint((x, y + 1), style.color());
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _: &S,
    ) -> std::result::Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok((text_width(text), LETTER.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::prelude::*;

    #[test]
    fn letters_and_areas_are_painted() {
        let raster = Raster::new((80, 40));
        let area = raster.clone().into_drawing_area();
        area.draw(&Rectangle::new([(40, 0), (79, 39)], RED.filled())).unwrap();
        area.draw(&Text::new("I", (0, 0), ("sans-serif", 14))).unwrap();
        let pixels = raster.pixels.borrow();
        assert_eq!(pixels[3 * (20 * 80 + 60)..][..3], [255, 0, 0]);
        let black = (0..16).filter(|row| (0..8).any(|x| pixels[3 * (row * 80 + x)] == 0)).count();
        assert!((12..=16).contains(&black), "a letter on {black} rows");
    }
}
