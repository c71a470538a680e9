//! Messages as they are carried: nodes, drivers and the simulator pass them on and do not read them.

use crate::{Goodbye, Pace};
use alloc::boxed::Box;
use core::any::{Any, type_name};
use core::fmt;

/// The messages of a family in one direction, with everything that their carrier may ask of one.
pub trait Message: fmt::Debug + PartialEq + From<Goodbye> + Send + 'static {
    /// Whether all messages of this direction keep their order, whatever they are: nothing ever passes anything.
    const IS_ORDERED: bool = false;

    /// The rule by which it passes, or lets pass, those that were said before it.
    fn pace(&self) -> Pace;

    /// The goodbye that it is, if it is one. Every family has that, in every direction.
    fn goodbye(&self) -> Option<&Goodbye>;

    /// How a server that says it takes the session. Unless a family has a message for that, any message does.
    fn welcome(&self) -> Welcomed {
        Welcomed::Alone
    }
}

/// How a server takes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Welcomed {
    /// Not by this message.
    Not,
    /// As one that has nothing to do with others.
    Alone,
    /// With peers, which connect to it.
    AmongPeers,
}

/// A message of any family, in any direction.
pub struct Parcel(Box<dyn Carried>);

impl Parcel {
    /// Wraps a message.
    pub fn new(message: impl Message) -> Self {
        Self(Box::new(message))
    }

    /// The message, if it is of this type.
    pub fn get<M: Message>(&self) -> Option<&M> {
        let message: &dyn Any = &*self.0;
        message.downcast_ref()
    }

    /// Unwraps the message.
    ///
    /// # Errors
    /// The parcel, if the message is of another type.
    pub fn open<M: Message>(self) -> Result<M, Self> {
        if self.get::<M>().is_none() {
            return Err(self);
        }
        let message: Box<dyn Any> = self.0;
        Ok(*message.downcast().expect("just seen"))
    }

    /// Unwraps a message of the type that its connection carries.
    ///
    /// # Panics
    /// If it is of another type: the driver has opened the connection with another codec than the machine's.
    pub fn expect<M: Message>(self) -> M {
        self.open().unwrap_or_else(|other| panic!("expected a {}, got {other:?}", type_name::<M>()))
    }

    /// The message's pace.
    pub fn pace(&self) -> Pace {
        self.0.pace()
    }

    /// The goodbye that it is, if it is one.
    pub fn goodbye(&self) -> Option<&Goodbye> {
        self.0.goodbye()
    }

    /// How a server that says it takes the session.
    pub fn welcome(&self) -> Welcomed {
        self.0.welcome()
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Parcels are equal if their messages are of the same type, and equal.
impl PartialEq for Parcel {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_equal(&*other.0)
    }
}

/// [`Message`], whatever its type.
trait Carried: Any + fmt::Debug + Send {
    fn pace(&self) -> Pace;
    fn goodbye(&self) -> Option<&Goodbye>;
    fn welcome(&self) -> Welcomed;
    fn is_equal(&self, other: &dyn Any) -> bool;
}

impl<M: Message> Carried for M {
    fn pace(&self) -> Pace {
        Message::pace(self)
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        Message::goodbye(self)
    }

    fn welcome(&self) -> Welcomed {
        Message::welcome(self)
    }

    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}
