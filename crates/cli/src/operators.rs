//! The operators' listener of a program that runs until it is stopped.

use crate::cli::OperatorArgs;
use crate::error::usage;
use crate::{Error, Result};
use machine::metrics::Described;
use net::Host;
use ops::{Limits, Listener, Observed, Server, Service};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// An address for operators that is taken and not served yet, if there is one.
#[derive(Debug)]
pub(crate) struct Operators(Option<Listener>);

impl Operators {
    /// Takes the address of the options.
    pub(crate) fn listen(args: &OperatorArgs) -> Result<Self> {
        let Some(address) = args.admin else {
            return match args.token_file {
                Some(_) => {
                    Err(usage("--token-file is for --admin: say where to listen, such as --admin 127.0.0.1:9411"))
                }
                None => Ok(Self(None)),
            };
        };
        let token = args.token_file.as_deref().map(token).transpose()?;
        let listener = Listener::bind(address, token);
        listener.map(|listener| Self(Some(listener))).map_err(|error| cannot_listen(address, &error))
    }

    /// Returns the address, with its port.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().and_then(Listener::address)
    }

    /// Serves a program until the result is dropped.
    pub(crate) fn serve(self, service: Arc<dyn Service>) -> Result<Option<Server>> {
        let Some(listener) = self.0 else { return Ok(None) };
        Ok(Some(Server::start("operators", vec![listener], Limits::OPERATORS, service)?))
    }
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    format!("cannot listen on {address}: {error}").into()
}

/// The end of the line that says "ready".
pub(crate) fn and_operators(address: Option<SocketAddr>) -> String {
    address.map(|address| format!("; operators on {address}")).unwrap_or_default()
}

/// A host, as its operators see it.
pub(crate) fn of_host(
    host: &Arc<Host>,
    described: &[&[Described<'static>]],
    troubles: impl Fn() -> Vec<String> + Send + Sync + 'static,
) -> Arc<dyn Service> {
    // The host ends when the program has closed it.
    let host = Arc::downgrade(host);
    of_current_host(move || host.upgrade(), described, troubles)
}

/// The host that a program has at the moment, as its operators see it.
pub(crate) fn of_current_host(
    host: impl Fn() -> Option<Arc<Host>> + Send + Sync + 'static,
    described: &[&[Described<'static>]],
    troubles: impl Fn() -> Vec<String> + Send + Sync + 'static,
) -> Arc<dyn Service> {
    let described = [described.concat(), vec![net::LINKS.described()]].concat();
    let tables = move || {
        let status = host().map(|host| host.recent_status()).unwrap_or_default();
        (described.clone(), status.tables)
    };
    Arc::new(Observed { tables, troubles })
}

/// The token in a file: its first line.
pub(crate) fn token(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(token.to_owned()),
        _ => Err(format!("{}: expected a token on the first line", file.display()).into()),
    }
}
