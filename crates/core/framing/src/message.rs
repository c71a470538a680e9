//! A message as it is declared: a struct, and the bytes of each of its fields.

/// Declares messages: structs whose fields follow each other in the meta, in the order in which they are
/// written here, and are read back and checked in that order. A field of a type that has bytes of its own
/// ([`Field`](crate::Field)) says no more; any other names its layout ([`FieldLayout`](crate::FieldLayout)).
///
/// ```
/// use bytes::Bytes;
/// use framing::{Data, Layout, Rest, messages};
///
/// messages! {
///     /// Asks for pages.
///     #[derive(Clone, Debug, PartialEq, Eq)]
///     pub struct Ask {
///         /// The question's number.
///         pub id: u64,
///         /// The pages.
///         pub pages: Vec<u32> as Rest<1024>,
///     }
///
///     /// The answer.
///     #[derive(Clone, Debug, PartialEq, Eq)]
///     pub struct Answered {
///         /// The question's number.
///         pub id: u64,
///         /// The bytes.
///         pub data: Bytes as Data<65536>,
///     }
/// }
/// assert!(Ask::LIMITS.allow(8 + 1024 * 4, 0) && !Ask::LIMITS.allow(8 + 1025 * 4, 0));
/// assert!(Answered::LIMITS.allow(8, 65536) && !Answered::LIMITS.allow(9, 0));
/// ```
#[macro_export]
macro_rules! messages {
    ($(#[$of_message:meta])* $vis:vis struct $message:ident;) => {
        $(#[$of_message])*
        $vis struct $message;

        impl $crate::Layout for $message {
            const LIMITS: $crate::Limits = $crate::Limits::NOTHING;

            fn put(&self, _: &mut $crate::Meta<'_>) -> Result<(), $crate::WireError> {
                Ok(())
            }

            fn get(_: &mut $crate::Reader<'_>) -> Result<Self, $crate::WireError> {
                Ok(Self)
            }
        }
    };
    ($(
        $(#[$of_message:meta])*
        $vis:vis struct $message:ident {
            $($(#[$of_field:meta])* $field_vis:vis $field:ident: $type:ty $(as $layout:ty)?,)+
        }
    )+) => {
        $(
            $(#[$of_message])*
            $vis struct $message {
                $($(#[$of_field])* $field_vis $field: $type,)+
            }

            impl $crate::Layout for $message {
                const LIMITS: $crate::Limits = $crate::Limits::NOTHING
                    $(.and(<$crate::layout_of!($($layout)?) as $crate::FieldLayout<$type>>::LIMITS))+;

                fn put(&self, meta: &mut $crate::Meta<'_>) -> Result<(), $crate::WireError> {
                    $(<$crate::layout_of!($($layout)?) as $crate::FieldLayout<$type>>::put(
                        &self.$field,
                        stringify!($field),
                        meta,
                    )?;)+
                    Ok(())
                }

                fn body(&self) -> impl Iterator<Item = &$crate::Bytes> {
                    [$(<$crate::layout_of!($($layout)?) as $crate::FieldLayout<$type>>::body(&self.$field)),+]
                        .into_iter()
                        .flatten()
                }

                fn get(reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::WireError> {
                    $(let $field = <$crate::layout_of!($($layout)?) as $crate::FieldLayout<$type>>::get(
                        stringify!($field),
                        reader,
                    )?;)+
                    Ok(Self { $($field),+ })
                }
            }
        )+
    };
}

/// Declares structs that are fields of messages, of a size of their own: their fields stand one behind the other.
#[macro_export]
macro_rules! fields {
    ($(
        $(#[$of_struct:meta])*
        $vis:vis struct $struct:ident {
            $($(#[$of_field:meta])* $field_vis:vis $field:ident: $type:ty,)+
        }
    )+) => {
        $(
            $(#[$of_struct])*
            $vis struct $struct {
                $($(#[$of_field])* $field_vis $field: $type,)+
            }

            impl $crate::Field for $struct {
                const BYTES: usize = 0 $(+ <$type as $crate::Field>::BYTES)+;

                fn put(&self, meta: &mut $crate::Meta<'_>) {
                    $($crate::Field::put(&self.$field, meta);)+
                }

                fn get(what: &'static str, reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::WireError> {
                    let _ = what;
                    $(let $field = <$type as $crate::Field>::get(stringify!($field), reader)?;)+
                    Ok(Self { $($field),+ })
                }
            }
        )+
    };
}

/// Gives newtypes of numbers the bytes of their numbers.
#[macro_export]
macro_rules! number_fields {
    ($($type:ident($number:ty))+) => {
        $(impl $crate::Field for $type {
            const BYTES: usize = <$number as $crate::Field>::BYTES;

            fn put(&self, meta: &mut $crate::Meta<'_>) {
                self.0.put(meta);
            }

            fn get(what: &'static str, reader: &mut $crate::Reader<'_>) -> Result<Self, $crate::WireError> {
                <$number as $crate::Field>::get(what, reader).map($type)
            }
        })+
    };
}

/// The layout that a field names, or that of its type.
#[doc(hidden)]
#[macro_export]
macro_rules! layout_of {
    () => {
        $crate::Plain
    };
    ($layout:ty) => {
        $layout
    };
}
