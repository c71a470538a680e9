//! The messages of the family, and their bytes: everything that framing has to know of them.

use framing::{Codec, End, Tail, family, messages};
use machine::Goodbye;

/// The longest text, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

messages! {
    /// A text to be written down and said again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Shout {
        /// The text.
        pub(crate) text: String as Tail<TEXT_BYTES_MAX>,
    }

    /// A text is durable.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Heard {
        /// As this many are now.
        pub(crate) count: u64,
        /// The text.
        pub(crate) text: String as Tail<TEXT_BYTES_MAX>,
    }

    /// How many texts are durable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Count {
        /// So many.
        pub(crate) count: u64,
    }
}

family! {
    of "echo";

    /// The messages that an echo hears.
    pub(crate) enum ToEcho, heard by "echo", in order {
        /// A text to be written down and said again.
        1 Shout,
        /// The caller goes.
        39 Goodbye,
    }

    /// The messages that its caller hears.
    pub(crate) enum ToCaller, heard by "caller", in order {
        /// A text is durable.
        2 Heard,
        /// How many are.
        3 Count,
        /// The echo goes.
        39 Goodbye,
    }
}

/// The server's end of a link, and its client's.
pub(crate) const ECHO: &dyn Codec = End::<ToEcho, ToCaller>::CODEC;
/// The client's end.
pub(crate) const CALLER: &dyn Codec = End::<ToCaller, ToEcho>::CODEC;
