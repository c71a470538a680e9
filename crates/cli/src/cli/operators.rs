//! The options of every program that runs until it is stopped.

use super::listen_address;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The default address of a proxy's listener for operators.
pub(super) const DEFAULT_ADMIN: &str = "127.0.0.1:8081";

/// The operators' listener.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Operators")]
pub(crate) struct OperatorArgs {
    /// Listens here for operators, who ask by HTTP for /status, /health and /metrics. Port 0 takes any free port; the
    /// line that says "ready" names it. Without this option `thorp proxy` listens on 127.0.0.1:8081, and other programs
    /// do not listen for operators.
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) admin: Option<SocketAddr>,
    /// A file whose first line is the token that operators send, as `Authorization: Bearer TOKEN`. Required if other
    /// machines can reach --admin.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl OperatorArgs {
    /// Where a proxy listens for its operators.
    pub(crate) fn of_proxy(&self) -> SocketAddr {
        self.admin.unwrap_or_else(|| DEFAULT_ADMIN.parse().expect("it is an address"))
    }
}
