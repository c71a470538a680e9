//! Where a store or a redirector is reached, as a user writes it.

use std::fmt;
use types::limits::{ADDRESS_BYTES_MAX, STORE_ADDRESSES_MAX};

/// The scheme that may stand before addresses. It says nothing: there is one protocol.
const SCHEME: &str = "thorp://";

/// Why a text is no list of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// This part of it is none.
    NoAddress(String),
    /// There are so many, which are too many.
    TooMany(usize),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(text) => write!(
                f,
                "'{text}' is not an address: write HOST:PORT, such as 127.0.0.1:7411, or several with commas between them"
            ),
            Self::TooMany(count) => write!(f, "{count} addresses are too many: write at most {STORE_ADDRESSES_MAX}"),
        }
    }
}

impl std::error::Error for AddressError {}

/// The addresses of a text such as `thorp://shed:7412,store:7411`, in their order. Whether anybody is there shows when
/// they are tried.
pub fn parse(text: &str) -> Result<Vec<String>, AddressError> {
    let list = text.trim().strip_prefix(SCHEME).unwrap_or(text.trim());
    let addresses: Vec<_> = list.split(',').map(|one| check(one.trim())).collect::<Result<_, _>>()?;
    if addresses.len() > STORE_ADDRESSES_MAX {
        return Err(AddressError::TooMany(addresses.len()));
    }
    Ok(addresses)
}

fn check(address: &str) -> Result<String, AddressError> {
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    // An address of IPv6 has colons of its own, and is in brackets.
    let bare =
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host.replace(':', "/")).to_owned();
    let is_host = !bare.is_empty() && !bare.contains(|c: char| c.is_whitespace() || "/[]@?#".contains(c));
    if is_host && port.parse::<u16>().is_ok_and(|port| port > 0) && address.len() <= ADDRESS_BYTES_MAX {
        Ok(address.to_owned())
    } else {
        Err(AddressError::NoAddress(address.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_several_with_or_without_a_scheme() {
        let both = Ok(vec!["shed:7412".to_owned(), "store:7411".to_owned()]);
        assert_eq!(parse("thorp://shed:7412,store:7411"), both);
        assert_eq!(parse(" shed:7412, store:7411 "), both);
        assert_eq!(parse("127.0.0.1:7411"), Ok(vec!["127.0.0.1:7411".to_owned()]));
        assert_eq!(parse("thorp://[::1]:7411"), Ok(vec!["[::1]:7411".to_owned()]));
    }

    #[test]
    fn a_text_that_is_no_address_is_named() {
        for (text, part) in [
            ("", ""),
            ("nonsense", "nonsense"),
            ("a:1,b", "b"),
            ("a:1,", ""),
            ("a:0", "a:0"),
            ("a:70000", "a:70000"),
            (":7411", ":7411"),
            ("::1", "::1"),
            ("[]:1", "[]:1"),
            ("http://a:1", "http://a:1"),
            ("thorp://a:1/shed", "a:1/shed"),
            ("a b:1", "a b:1"),
        ] {
            assert_eq!(parse(text), Err(AddressError::NoAddress(part.to_owned())), "{text}");
        }
        let many = vec!["a:1"; STORE_ADDRESSES_MAX + 1].join(",");
        assert_eq!(parse(&many), Err(AddressError::TooMany(STORE_ADDRESSES_MAX + 1)));
        assert!(parse(&many[4..]).is_ok());
    }
}
