//! What a panic has said.

use alloc::string::String;
use core::any::Any;

/// What a panic has said, for whoever contains it and tells why something has ended.
pub fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}
