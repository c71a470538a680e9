//! A family of messages as a table: which end hears which message, and its number on the wire.

/// Declares the directions of a family: an enum of messages for each, with [`Direction`](crate::Direction). A message
/// has the name of its variant unless it names another type. `in order` declares that no message passes another;
/// without it, the family implements [`Message`](machine::Message) itself.
#[macro_export]
macro_rules! family {
    (of $family:literal; $(
        $(#[$of_all:meta])*
        $vis:vis enum $direction:ident, heard by $reader:literal $(, in $order:ident)? {
            $($(#[$of_one:meta])* $number:literal $name:ident $(($message:ty))?,)+
        }
    )+) => {
        /// The names of all messages of the family, by their numbers on the wire.
        const NAMES: &[(u8, &str)] = &[$($(($number, stringify!($name)),)+)+];

        $(
            $(#[$of_all])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            $vis enum $direction {
                $($(#[$of_one])* $name($crate::message_of!($name $(, $message)?)),)+
            }

            $(impl From<$crate::message_of!($name $(, $message)?)> for $direction {
                fn from(message: $crate::message_of!($name $(, $message)?)) -> Self {
                    Self::$name(message)
                }
            })+

            $($crate::in_order! { $direction, $order })?

            impl $crate::Direction for $direction {
                const READER: &'static str = $reader;
                const FAMILY: &'static str = $family;

                fn known(number: u8) -> Option<$crate::Known> {
                    match number {
                        $($number => Some($crate::Known {
                            name: stringify!($name),
                            limits: Some(<$crate::message_of!($name $(, $message)?) as $crate::Layout>::LIMITS),
                        }),)+
                        // Only the other end may hear it.
                        _ => {
                            let (_, name) = NAMES.iter().find(|(it, _)| *it == number)?;
                            Some($crate::Known { name, limits: None })
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
            }
        )+
    };
}

/// A direction in which no message passes another.
#[doc(hidden)]
#[macro_export]
macro_rules! in_order {
    ($direction:ident, order) => {
        impl $crate::Message for $direction {
            const IS_ORDERED: bool = true;

            fn pace(&self) -> $crate::Pace {
                $crate::Pace::Ordered
            }

            fn goodbye(&self) -> Option<&$crate::Goodbye> {
                if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
            }
        }
    };
}

/// The message of a variant.
#[doc(hidden)]
#[macro_export]
macro_rules! message_of {
    ($name:ident) => {
        $name
    };
    ($name:ident, $message:ty) => {
        $message
    };
}
