//! Bytes of a peer that is broken or hostile: each is a message, or refused by name.

use crate::samples::{Sample, samples};
use framing::{HEADER_BYTES, Header, WireError};
use proptest::prelude::*;

/// A frame with this meta and body.
fn frame(kind: u8, meta: &[u8], body: &[u8]) -> Vec<u8> {
    let header = Header { kind, meta_bytes: meta.len() as u32, body_bytes: body.len() as u32 };
    [&header.to_bytes()[..], meta, body].concat()
}

/// The meta and the body of a frame.
fn parts(frame: &[u8]) -> (&[u8], &[u8]) {
    let meta = u32::from_le_bytes(frame[4..8].try_into().unwrap()) as usize;
    frame[HEADER_BYTES..].split_at(meta)
}

#[test]
fn what_ends_early_is_never_the_message() {
    for sample in samples() {
        let whole = sample.encode().unwrap();
        let kind = whole[2];
        for end in 0..whole.len() {
            // More is awaited, as the header says.
            assert_eq!(sample.hear(&whole[..end]), Ok(None), "{sample:?} after {end} bytes");
        }
        // A header that says less: refused, or another message, whose list or text is shorter.
        let (meta, body) = parts(&whole);
        let cut = (0..meta.len()).map(|end| frame(kind, &meta[..end], body));
        for cut in cut.chain((0..body.len()).map(|end| frame(kind, meta, &body[..end]))) {
            match sample.hear(&cut) {
                Ok(None) => panic!("{sample:?}: more is awaited"),
                Ok(Some(heard)) => {
                    assert_ne!(heard, sample);
                    assert_eq!(heard.encode().as_ref(), Ok(&cut), "{heard:?}");
                }
                Err(refused) => assert!(!refused.name().is_empty() && !refused.to_string().is_empty()),
            }
        }
        // So is one that says more.
        let refused = sample.hear(&frame(kind, &[meta, &[0; 3]].concat(), body));
        assert!(!refused.is_ok_and(|heard| heard == Some(sample)));
    }
}

#[test]
fn fixed_fields_that_are_cut_are_refused_by_name() {
    for sample in samples() {
        let whole = sample.encode().unwrap();
        let (meta, body) = parts(&whole);
        let (_, fixed) = FIXED.into_iter().find(|(kind, _)| *kind == whole[2]).expect("each kind is there");
        for end in 0..fixed {
            let refused = sample.hear(&frame(whole[2], &meta[..end], body)).map_err(WireError::name);
            let is_named = matches!(refused, Err("lengths" | "short" | "long"));
            assert!(is_named, "{sample:?} cut to {end} bytes: {refused:?}");
        }
    }
}

/// The bytes of meta that the shortest message of each kind has: its fields, without lists and texts to the end.
const FIXED: [(u8, usize); 45] = [
    (44, 2),
    (45, 2),
    (46, 8 + 2 + 2),
    (47, 8 + 8 + 4 + 4),
    (1, 4 + 8 + 8 + 16 + 16 + 2 + 2),
    (2, 4 + 8 + 16),
    (3, 4 + 16),
    (4, 4),
    (5, 0),
    (6, 8),
    (7, 8 + 2 + 2),
    (8, 8 + 16 + 2 + 2 + 36 + 32 + 8 + 16 + 4 + 4 + 4 + 4),
    (9, 8 + 4 + 4 * 8 + 2 + 2),
    (10, 8),
    (11, 8 + 2 + 2),
    (12, 4 + 16 + 4),
    (13, 4),
    (14, 16 + 2 + 2),
    (15, 8 + 8),
    (16, 16),
    (17, 4 + 16 + 4),
    (18, 4),
    (19, 4),
    (20, 4 + 8 + 4 + 16 + 32 + 4 + 32 + 4 + 4 + 4),
    (21, 4 + 4),
    (22, 4 + 16 + 32 + 32 + 4 + 4),
    (23, 4 + 8 + 4),
    (24, 4),
    (25, 4 + 16 + 4),
    (26, 32),
    (27, 32),
    (28, 8),
    (29, 8),
    (30, 8 + 16 + 32 + 4),
    (31, 8),
    (32, 8),
    (33, 8 + 8 + 8),
    (34, 8 + 16),
    (35, 8 + 4 + 16),
    (36, 8 + 16 + 16 + 36),
    (39, 4),
    (40, 8 + 4),
    (41, 16),
    (42, 16),
    (43, 32),
];

/// Numbers that stand for something, behind these bytes of a message's meta.
#[test]
fn unknown_codes_are_refused() {
    let places = [
        (8, 132, "merges"),
        (8, 136, "ends_locks"),
        (36, 40, "root"),
        (9, 8, "kind"),
        (9, 12, "keep"),
        (9, 32, "consistency"),
        (9, 40, "when_stale"),
        (20, 100, "consistency"),
        (20, 104, "when_stale"),
        (21, 4, "why"),
        (35, 8, "why"),
        (22, 84, "reports"),
        (22, 88, "answers"),
        (12, 20, "shares"),
        (25, 20, "is_held"),
        (30, 56, "is_new"),
    ];
    for (kind, at, what) in places {
        let sample = samples().into_iter().find(|sample| sample.encode().unwrap()[2] == kind).unwrap();
        let whole = sample.encode().unwrap();
        let (meta, body) = parts(&whole);
        let mut meta = meta.to_vec();
        meta[at..at + 4].copy_from_slice(&99_u32.to_le_bytes());
        assert_eq!(sample.hear(&frame(kind, &meta, body)), Err(WireError::Code { what, got: 99 }));
    }
}

/// A frame of each kind with some of its bytes changed. Half of the time its header fits again.
fn damaged() -> impl Strategy<Value = (Sample, Vec<u8>)> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    let ends = (any::<bool>(), any::<prop::sample::Index>());
    (prop::sample::select(samples()), changes, any::<bool>(), ends).prop_map(|(sample, changes, fits, (cuts, end))| {
        let mut bytes = sample.encode().unwrap();
        let kind = bytes[2];
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cuts {
            bytes.truncate(end.index(bytes.len() + 1));
        }
        if fits && bytes.len() > HEADER_BYTES {
            let payload = bytes.len() - HEADER_BYTES;
            let body = (parts(&sample.encode().unwrap()).1.len()).min(payload);
            let header = Header { kind, meta_bytes: (payload - body) as u32, body_bytes: body as u32 };
            bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        }
        (sample, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn changed_bytes_are_messages_or_refused_by_name((sample, bytes) in damaged()) {
        match sample.hear(&bytes) {
            Ok(None) => {}
            Ok(Some(heard)) => {
                // A message that was taken can be said again, and is the same.
                prop_assert_eq!(heard.hear(&heard.encode().unwrap()), Ok(Some(heard)));
            }
            Err(refused) => prop_assert!(!refused.name().is_empty() && !refused.to_string().is_empty()),
        }
    }

    #[test]
    fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 16..200)) {
        for sample in [&samples()[0], samples().last().unwrap()] {
            prop_assert!(sample.hear(&bytes).is_err());
        }
    }
}
