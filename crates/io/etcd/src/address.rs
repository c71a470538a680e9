//! Addresses: `etcd://HOST:PORT[,HOST:PORT]/NAME`.

use std::fmt;
use std::str::FromStr;

/// The endpoints of one etcd cluster.
const ENDPOINTS_MAX: usize = 16;

/// Where etcd is, and the name under which a user keeps keys there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUrl {
    /// The endpoints, `HOST:PORT`, in the order in which they are tried.
    pub endpoints: Vec<String>,
    /// The name: letters, digits, `-`, `_` and `.`, at most 64.
    pub name: String,
}

impl FromStr for EtcdUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("invalid address '{text}': expected etcd://HOST:PORT/NAME, such as etcd://127.0.0.1:2379/main");
        let rest = text.strip_prefix("etcd://").ok_or_else(expected)?;
        let (endpoints, name) = rest.split_once('/').ok_or_else(expected)?;
        let endpoints: Vec<_> = endpoints.split(',').map(str::to_owned).collect();
        let is_endpoint = |endpoint: &String| {
            let parts = endpoint.rsplit_once(':');
            parts.is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
        };
        if endpoints.len() > ENDPOINTS_MAX || !endpoints.iter().all(is_endpoint) || !is_name(name) {
            return Err(expected());
        }
        Ok(Self { endpoints, name: name.to_owned() })
    }
}

impl fmt::Display for EtcdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}/{}", self.endpoints.join(","), self.name)
    }
}

fn is_host(host: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    !host.is_empty() && host.len() <= 255 && host.chars().all(is_part)
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let url: EtcdUrl = "etcd://a:2379,[::1]:1/main".parse().unwrap();
        assert_eq!((url.endpoints.len(), &*url.name), (2, "main"));
        assert_eq!(url.to_string(), "etcd://a:2379,[::1]:1/main");
        let wrong = ["", "etcd://", "etcd://a/main", "etcd://a:0/main", "etcd://a:1", "etcd://a:1/", "etcd://a:1/b/c"];
        for text in wrong.into_iter().chain(["http://a:1/b", "etcd://a:1,/b", "etcd://a b:1/c", "etcd://a:1/ü"]) {
            assert!(text.parse::<EtcdUrl>().unwrap_err().contains("expected etcd://"), "{text}");
        }
    }
}
