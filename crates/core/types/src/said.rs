//! The message of a panic.

use alloc::string::String;
use core::any::Any;

/// The message of a panic, for the code that contains it and tells why something has ended.
pub fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}
