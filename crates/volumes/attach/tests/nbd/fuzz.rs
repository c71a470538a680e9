//! Input of any kind: nothing panics, and nothing depends on how the network cuts a stream. More cases:
//! `PROPTEST_CASES`.

use crate::handshake::{Two, contexts, go, option_bytes};
use crate::requests::{FULL, PLAIN, geometry, request};
use bytes::Bytes;
use nbd::numbers::{ALLOCATION, command, option};
use nbd::{Handshake, Item, Requests, Step};
use proptest::collection::vec;
use proptest::prelude::*;

/// Options as clients send them, and as they do not.
fn an_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("disk"), Just("archive"), Just(""), Just("no")];
    prop_oneof![
        (0..14_u32, vec(any::<u8>(), 0..40)).prop_map(|(option, data)| option_bytes(option, &data)),
        (name.clone(), vec(0..5_u16, 0..5)).prop_map(|(name, wanted)| option_bytes(option::INFO, &go(name, &wanted))),
        name.clone().prop_map(|name| option_bytes(option::SET_META_CONTEXT, &contexts(name, &[ALLOCATION, "base:"]))),
        name.prop_map(|name| option_bytes(option::GO, &go(name, &[3]))),
        Just(option_bytes(option::STRUCTURED_REPLY, b"")),
        vec(any::<u8>(), 0..60),
    ]
}

/// Requests as clients send them, and as they do not.
fn a_request() -> impl Strategy<Value = Vec<u8>> {
    let sane = (0..9_u16, 0..32_u16, 0..2050_u64, 0..9_u32).prop_map(|(command, flags, sector, sectors)| {
        let payload = vec![3; if command == command::WRITE { sectors as usize * 512 } else { 0 }];
        request(command, flags, sector * 512, sectors * 512, &payload)
    });
    let wild = (any::<u16>(), any::<u16>(), any::<u64>(), 0..5000_u32)
        .prop_map(|(command, flags, offset, len)| request(command, flags, offset, len, &[]));
    prop_oneof![8 => sane, 1 => wild, 1 => vec(any::<u8>(), 0..60)]
}

/// The stream in pieces that end where the cuts say.
fn pieces<'a>(stream: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut cuts = cuts.iter().cycle();
    let mut rest = stream;
    std::iter::from_fn(move || {
        let len = (*cuts.next()?).min(rest.len());
        let (piece, behind) = rest.split_at(len);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

fn shake(stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Step, usize) {
    let (mut handshake, mut output, mut input, mut used) = (Handshake::default(), Vec::new(), Vec::new(), 0);
    for piece in pieces(stream, cuts) {
        input.extend_from_slice(piece);
        let (taken, step) = handshake.advance(&Two, &input, &mut output);
        input.drain(..taken);
        used += taken;
        if step != Step::More {
            return (output, step, used);
        }
    }
    (output, Step::More, used)
}

fn parse(stream: &[u8], cuts: &[usize], structured: bool) -> Vec<String> {
    let mut requests = Requests::new(if structured { FULL } else { PLAIN });
    let (mut input, mut items) = (Vec::new(), Vec::new());
    for piece in pieces(stream, cuts) {
        input.extend_from_slice(piece);
        let mut bytes = Bytes::from(std::mem::take(&mut input));
        loop {
            match requests.next(&geometry(), &mut bytes) {
                Item::More(missing) => {
                    assert!(missing > 0, "something is missing");
                    break;
                }
                item @ (Item::Disconnect | Item::OutOfStep) => {
                    items.push(format!("{item:?}"));
                    return items;
                }
                item => items.push(format!("{item:?}")),
            }
        }
        input = bytes.to_vec();
    }
    items
}

proptest! {
    #[test]
    fn a_handshake_does_not_depend_on_how_it_is_cut(
        flags in 0..5_u32,
        options in vec(an_option(), 0..12),
        cuts in vec(1..50_usize, 1..8),
    ) {
        let stream = [&flags.to_be_bytes()[..], &options.concat()].concat();
        prop_assert_eq!(shake(&stream, &cuts), shake(&stream, &[usize::MAX]));
    }

    #[test]
    fn requests_do_not_depend_on_how_they_are_cut(
        requests in vec(a_request(), 0..12),
        cuts in vec(1..2000_usize, 1..8),
        structured: bool,
    ) {
        let stream = requests.concat();
        prop_assert_eq!(parse(&stream, &cuts, structured), parse(&stream, &[usize::MAX], structured));
    }

    #[test]
    fn noise_is_taken_by_neither(noise in vec(any::<u8>(), 0..300), cuts in vec(1..50_usize, 1..8)) {
        shake(&noise, &cuts);
        parse(&noise, &cuts, true);
    }
}
