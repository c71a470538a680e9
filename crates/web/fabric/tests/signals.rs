//! Signals stay the program's when the library is loaded.

use fabric::Shim;
use std::fs::read_to_string;

/// The signals that this process handles.
fn handled() -> String {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("SigCgt:")).unwrap_or_default().to_owned()
}

#[test]
fn a_library_that_handles_signals_does_not_have_them() {
    if std::env::var_os("THORP_FABRIC_SHIM").is_none() {
        assert!(std::env::var_os("CI").is_none(), "cargo xtask test builds the library");
        return println!("skipped: no library, see cargo xtask shim");
    }
    let before = handled();
    Shim::load().unwrap();
    assert_eq!(handled(), before);
}
