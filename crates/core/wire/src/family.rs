//! A family of messages as a table: which end hears which message, and its number on the wire.

/// Implements [`Direction`](crate::Direction) for both directions of a family. A message has the name of its variant,
/// and `opens` says that it may come first. Of a message that only the other end hears the name is known.
macro_rules! family {
    ($(
        $direction:ident, heard by $reader:literal, opened by $opening:literal {
            $($number:literal $name:ident $($opens:ident)?,)+
        }
    )+) => {
        /// The names of all messages of the family, by their numbers on the wire.
        const NAMES: &[(u8, &str)] = &[$($(($number, stringify!($name)),)+)+];

        $(impl $crate::Direction for $direction {
            const READER: &'static str = $reader;
            const OPENING: &'static str = $opening;

            fn known(number: u8) -> Option<$crate::Known> {
                match number {
                    $($number => Some($crate::Known {
                        name: stringify!($name),
                        limits: Some(<$name as $crate::Layout>::LIMITS),
                        may_open: $crate::family::opens!($($opens)?),
                    }),)+
                    // The other end hears it, or nobody does.
                    _ => {
                        let (_, name) = NAMES.iter().find(|(it, _)| *it == number)?;
                        Some($crate::Known { name, limits: None, may_open: false })
                    }
                }
            }

            fn encode(&self, batch: &mut $crate::Batch) -> Result<(), $crate::WireError> {
                match self {
                    $(Self::$name(message) => batch.frame($number, message),)+
                }
            }

            fn decode(number: u8, reader: $crate::Reader<'_>) -> Result<Self, $crate::WireError> {
                match number {
                    $($number => reader.message().map(Self::$name),)+
                    got => Err($crate::WireError::Kind { got }),
                }
            }
        })+
    };
}

/// Whether a line of the table has the word.
macro_rules! opens {
    () => {
        false
    };
    (opens) => {
        true
    };
}

pub(crate) use {family, opens};
