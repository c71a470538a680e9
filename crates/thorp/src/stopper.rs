//! What closes a process that runs until it is told to stop.

use crate::Result;
use net::Host;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::sync::{Arc, Weak};

/// The first SIGTERM or Ctrl-C closes the host; a second ends the process, which loses nothing either.
pub(crate) fn close_on_signal(host: &Arc<Host>) -> Result {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let host = Arc::downgrade(host);
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            close_host(&host);
        }
        if let Some(signal) = signals.next() {
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Whoever started us and holds the other end of our standard input has gone.
pub(crate) fn close_with_stdin(host: &Arc<Host>) {
    let host = Arc::downgrade(host);
    std::thread::spawn(move || {
        // An error is an end, too.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        close_host(&host);
    });
}

fn close_host(host: &Weak<Host>) {
    if let Some(host) = host.upgrade() {
        host.close();
    }
}
