//! Base64 (RFC 4648), the form of keys and values in the gateway's JSON.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let is_there = at <= three.len();
            let digit = (bits >> (18 - 6 * at)) as usize & 63;
            text.push(if is_there { char::from(ALPHABET[digit]) } else { '=' });
        }
    }
    text
}

/// Decodes a text; `None` if it is not the encoding of any bytes.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let digits = four.iter().take_while(|&&c| c != b'=').count();
        if four.len() != 4 || digits < 2 || four[digits..].iter().any(|&c| c != b'=') {
            return None;
        }
        let value = |&c: &u8| ALPHABET.iter().position(|&digit| digit == c).map(|digit| digit as u32);
        let bits = four[..digits].iter().try_fold(0, |bits, c| Some(bits << 6 | value(c)?))? << (6 * (4 - digits));
        bytes.extend(&bits.to_be_bytes()[1..digits]);
    }
    // Rejects padding before the end, and unused bits that are not zero.
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "====", "Zg==Zg==", "Zm9v\n", "Zm9-", "=Zg=", "Zü=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
