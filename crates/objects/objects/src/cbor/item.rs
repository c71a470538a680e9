//! Bytes to items. The bytes may be anything: no length is believed beyond the bytes that are there, and no nesting
//! beyond [`DEPTH_MAX`].

use super::{
    ARRAY, BREAK, BYTE, BYTES, CborError, DEPTH_MAX, DOUBLE, FALSE, HALF, INDEFINITE, LONG, MAP, NEGATIVE, NULL,
    Result, SIMPLE, SINGLE, TAG, TEXT, TRUE, UNSIGNED, WORD,
};

#[cold]
fn cut() -> CborError {
    CborError::malformed("it ends in the middle of a value")
}

#[cold]
pub(super) fn unknown() -> CborError {
    CborError::malformed("it has an item of a kind that is never written")
}

/// Takes items from the front of bytes.
pub(crate) struct Reader<'de> {
    pub(super) rest: &'de [u8],
    pub(super) depth: usize,
}

/// An item, or the beginning of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'de> {
    Unsigned(u64),
    /// -1 less the number.
    Negative(u64),
    Bytes(&'de [u8]),
    Text(&'de str),
    /// How many items follow; unless that is said, up to a break.
    Array(Option<u64>),
    Map(Option<u64>),
    Tag(u64),
    Bool(bool),
    Null,
    Single(f32),
    Double(f64),
}

impl<'de> Reader<'de> {
    pub(crate) fn new(bytes: &'de [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    /// The bytes behind what was taken.
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest
    }

    /// Takes a text.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'de str> {
        match self.item()? {
            Item::Text(text) => Ok(text),
            _ => Err(CborError::malformed("it has no text where one should be")),
        }
    }

    #[inline]
    fn take(&mut self, bytes: u64) -> Result<&'de [u8]> {
        let bytes = usize::try_from(bytes).map_err(|_| cut())?;
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(cut)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn argument(&mut self, info: u8) -> Result<u64> {
        Ok(match info {
            0..BYTE => u64::from(info),
            BYTE => u64::from(u8::from_be_bytes(self.array()?)),
            HALF => u64::from(u16::from_be_bytes(self.array()?)),
            WORD => u64::from(u32::from_be_bytes(self.array()?)),
            LONG => u64::from_be_bytes(self.array()?),
            _ => return Err(unknown()),
        })
    }

    fn count(&mut self, info: u8) -> Result<Option<u64>> {
        if info == INDEFINITE { Ok(None) } else { self.argument(info).map(Some) }
    }

    #[inline]
    pub(super) fn item(&mut self) -> Result<Item<'de>> {
        let [first] = self.array()?;
        let info = first & 0x1f;
        Ok(match first >> 5 {
            UNSIGNED => Item::Unsigned(self.argument(info)?),
            NEGATIVE => Item::Negative(self.argument(info)?),
            BYTES => {
                let bytes = self.argument(info)?;
                Item::Bytes(self.take(bytes)?)
            }
            TEXT => {
                let bytes = self.argument(info)?;
                let text = std::str::from_utf8(self.take(bytes)?);
                Item::Text(text.map_err(|_| CborError::malformed("it has a text that is not UTF-8"))?)
            }
            ARRAY => Item::Array(self.count(info)?),
            MAP => Item::Map(self.count(info)?),
            TAG => Item::Tag(self.argument(info)?),
            SIMPLE.. => match first {
                FALSE => Item::Bool(false),
                TRUE => Item::Bool(true),
                NULL => Item::Null,
                SINGLE => Item::Single(f32::from_be_bytes(self.array()?)),
                DOUBLE => Item::Double(f64::from_be_bytes(self.array()?)),
                _ => return Err(unknown()),
            },
        })
    }

    /// Whether an array or a map ends here. One that says how long it is counts down.
    #[inline]
    pub(super) fn ends(&mut self, left: &mut Option<u64>) -> bool {
        match left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => match self.rest.split_first() {
                Some((&BREAK, rest)) => {
                    self.rest = rest;
                    *left = Some(0);
                    true
                }
                _ => false,
            },
        }
    }

    #[inline]
    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(CborError::too_deep()) } else { Ok(()) }
    }

    /// Takes an item, and everything that is in it.
    pub(super) fn skip(&mut self) -> Result<()> {
        let (mut left, items) = loop {
            match self.item()? {
                Item::Array(count) => break (count, 1),
                Item::Map(count) => break (count, 2),
                Item::Tag(_) => {}
                _ => return Ok(()),
            }
        };
        self.enter()?;
        while !self.ends(&mut left) {
            (0..items).try_for_each(|_| self.skip())?;
        }
        self.depth -= 1;
        Ok(())
    }

    pub(super) fn byte_string(&mut self) -> Result<&'de [u8]> {
        match self.item()? {
            Item::Bytes(bytes) => Ok(bytes),
            _ => Err(unknown()),
        }
    }

    pub(super) fn big(&mut self) -> Result<u128> {
        let bytes = self.byte_string()?;
        if bytes.len() > size_of::<u128>() {
            return Err(unknown());
        }
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }
}
