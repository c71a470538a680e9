//! The lines of a byte value: 64 bytes each, one in each slot of a page. A line is the unit of conflict.
//!
//! Line `n` of a page is in slot `n`: the byte of a part, then the line's bytes up to the last one that is not zero. A
//! free slot is a line of zeros, too. A line that was written is freed with its page only, and line 0 is written with
//! every page: a page that a table leads to is never empty, else the store would grant it to others.

use crate::byte_head::PAGE_BYTES;
use crate::value::{part, part_in};
use bytes::Bytes;
use std::ops::Range;
use types::SlotNo;

/// The bytes of a line.
pub(crate) const LINE_BYTES: usize = 64;

/// The lines of a page.
pub(crate) const LINES: SlotNo = (PAGE_BYTES / LINE_BYTES as u64) as SlotNo;

/// One line.
pub(crate) type Line = [u8; LINE_BYTES];

/// A line of zeros.
pub(crate) const ZEROS: Line = [0; LINE_BYTES];

/// The line in a slot; the reason if it holds something else.
#[inline]
pub(crate) fn line_in(slot: Option<&[u8]>) -> Result<Line, &'static str> {
    let mut line = ZEROS;
    let Some(slot) = slot else { return Ok(line) };
    let bytes = part_in(slot).ok_or("it should be a line of a byte value, and is something else")?;
    let stored = line.get_mut(..bytes.len()).ok_or("it is longer than a line of a byte value")?;
    stored.copy_from_slice(bytes);
    Ok(line)
}

/// A line as it is in its slot.
pub(crate) fn slot_of(line: &Line) -> Bytes {
    let len = line.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    part(&line[..len])
}

/// Part of a page, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Piece {
    /// The lines that it is in.
    pub(crate) fn lines(self) -> Range<SlotNo> {
        (self.start / LINE_BYTES) as SlotNo..self.end.div_ceil(LINE_BYTES) as SlotNo
    }

    /// The bytes of a line that are in it: from where in the line, and where they are in the piece.
    pub(crate) fn of_line(self, line: SlotNo) -> (Range<usize>, Range<usize>) {
        let at = usize::from(line) * LINE_BYTES;
        let (start, end) = (self.start.max(at), self.end.min(at + LINE_BYTES));
        (start - at..end - at, start - self.start..end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut line = [0; LINE_BYTES];
        assert_eq!(slot_of(&line)[..], [0x28]);
        line[2] = 7;
        assert_eq!(slot_of(&line)[..], [0x28, 0, 0, 7]);
        assert_eq!(line_in(Some(&slot_of(&line))), Ok(line));
        let full = [9; LINE_BYTES];
        assert_eq!((slot_of(&full).len(), line_in(Some(&slot_of(&full)))), (65, Ok(full)));
        assert_eq!((line_in(None), line_in(Some(&[0x28]))), (Ok([0; LINE_BYTES]), Ok([0; LINE_BYTES])));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let too_long = [&[0x28][..], &[1; LINE_BYTES + 1]].concat();
        assert_eq!(line_in(Some(&too_long)), Err("it is longer than a line of a byte value"));
        for other in [&[][..], &[0x20, 0, 0, 0, 0, 1], &[0x29]] {
            assert!(line_in(Some(other)).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_piece_is_made_of_parts_of_lines() {
        let piece = Piece { start: 60, end: 130 };
        assert_eq!(piece.lines(), 0..3);
        assert_eq!(piece.of_line(0), (60..64, 0..4));
        assert_eq!(piece.of_line(1), (0..64, 4..68));
        assert_eq!(piece.of_line(2), (0..2, 68..70));
        assert_eq!(Piece { start: 4032, end: 4096 }.lines(), 63..LINES);
    }
}
