//! `thorp holder`: room for copies of others' dirty writes, from its start to its stop.

use crate::Result;
use crate::cli::HolderArgs;
use crate::output::Output;
use crate::stopper::{when_stdin_closes, when_told};
use net::{HostEnd, Runtime};
use serde_json::json;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use volumes::{HolderServer, HolderSettings};

/// How often to look whether it has failed, or is empty.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(args: &HolderArgs, output: &mut Output) -> Result {
    let (stop, stopped) = channel();
    // Before anything is opened: a signal that comes early is not lost.
    let tell = |stop: Sender<()>| {
        move || {
            // Nobody waits any more: it is stopping already.
            let _ = stop.send(());
        }
    };
    when_told(tell(stop.clone()))?;
    if args.until_stdin_closes {
        when_stdin_closes(tell(stop));
    }
    let HolderArgs { dir, room, listen, insecure, .. } = args;
    let settings = HolderSettings { dir: dir.clone(), room: *room as u64, listen: *listen, insecure: *insecure };
    let holder = HolderServer::start(&settings, &Runtime::start()?)?;
    let (address, status) = (holder.address(), holder.status());
    let partition = format!("{:016x}", holder.partition().0);
    let found = match status.volumes {
        0 => String::new(),
        volumes => format!(", with {} bytes of {volumes} volumes", status.used),
    };
    output.line(
        &json!({"listen": address, "partition": partition, "used": status.used, "free": status.free}),
        format_args!("ready: holder {partition} on {address}{found}"),
    )?;
    output.flush()?;
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_EVERY) {
        look(&holder)?;
    }
    if args.leave {
        holder.leave();
        while holder.status().used > 0 {
            look(&holder)?;
        }
    }
    holder.stopper()();
    look(&holder)?;
    let used = holder.status().used;
    output.line(&json!({"stopped": partition, "used": used}), format_args!("stopped: it keeps {used} bytes"))
}

/// Waits a while, and says why it has ended if it has done so by itself.
fn look(holder: &HolderServer) -> Result {
    match holder.wait_end_within(LOOK_EVERY) {
        Some(HostEnd::Failed(why)) => {
            Err(format!("{why}; what it has counted is in its folder: mend that, and start it again").into())
        }
        _ => Ok(()),
    }
}
