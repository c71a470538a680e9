//! The handshake, as bytes.

use nbd::Geometry;
use nbd::numbers::{ALLOCATION, OPTION_MAGIC, OPTION_REPLY_MAGIC, info, option, reply, transmission};
use nbd::{Catalog, Ended, Handshake, OPTION_BYTES_MAX, OPTIONS_MAX, Session, Step, greeting};

/// Two exports, one of them read-only.
pub(crate) struct Two;

impl Catalog for Two {
    fn count(&self) -> usize {
        2
    }

    fn name(&self, export: usize) -> &str {
        ["disk", "archive"][export]
    }

    fn description(&self, export: usize) -> &str {
        ["", "last year"][export]
    }

    fn geometry(&self, export: usize) -> Geometry {
        Geometry { read_only: export == 1, block_min: 512, ..Geometry::new(1 << 20) }
    }
}

/// A client's bytes, and the server's replies to them.
pub(crate) struct Talk {
    pub(crate) handshake: Handshake,
    pub(crate) step: Step,
    pub(crate) replies: Vec<(u32, u32, Vec<u8>)>,
}

impl Talk {
    fn begin(flags: u32) -> Self {
        let mut talk = Self { handshake: Handshake::default(), step: Step::More, replies: Vec::new() };
        talk.say(&flags.to_be_bytes());
        talk
    }

    fn say(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        let (used, step) = self.handshake.advance(&Two, bytes, &mut output);
        assert!(used == bytes.len() || step != Step::More, "nothing of these bytes waits for more");
        self.step = step;
        output
    }

    /// Sends an option; gives the kinds of the replies to it.
    fn option(&mut self, option: u32, data: &[u8]) -> Vec<u32> {
        let output = self.say(&option_bytes(option, data));
        self.replies = split(&output);
        assert!(self.replies.iter().all(|(about, ..)| *about == option));
        self.replies.iter().map(|(_, kind, _)| *kind).collect()
    }
}

pub(crate) fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let head = [option, data.len() as u32].map(u32::to_be_bytes);
    [&OPTION_MAGIC.to_be_bytes()[..], head.as_flattened(), data].concat()
}

/// Replies to options: option, kind and data.
fn split(mut output: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !output.is_empty() {
        assert_eq!(output[..8], OPTION_REPLY_MAGIC.to_be_bytes());
        let field = |at: usize| u32::from_be_bytes(output[at..at + 4].try_into().unwrap());
        let end = 20 + field(16) as usize;
        replies.push((field(8), field(12), output[20..end].to_vec()));
        output = &output[end..];
    }
    replies
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

pub(crate) fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let kinds: Vec<u8> = wanted.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    [&text(name)[..], &(wanted.len() as u16).to_be_bytes(), &kinds].concat()
}

pub(crate) fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let queries_bytes: Vec<u8> = queries.iter().flat_map(|query| text(query)).collect();
    [&text(name)[..], &(queries.len() as u32).to_be_bytes(), &queries_bytes].concat()
}

const FIXED: u32 = 1;
const NO_ZEROES: u32 = 2;

#[test]
fn a_server_greets_as_a_fixed_newstyle_server() {
    assert_eq!(greeting(), *b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn an_export_is_chosen_by_its_name() {
    let session = |export| Session { export, structured: false, allocation: false };
    for (flags, len) in [(FIXED | NO_ZEROES, 10), (FIXED, 134), (0, 134)] {
        let mut talk = Talk::begin(flags);
        let output = talk.say(&option_bytes(option::EXPORT_NAME, b"archive"));
        assert_eq!((output.len(), talk.step), (len, Step::Transmission(session(1))));
        assert_eq!(output[..8], (1_u64 << 20).to_be_bytes());
        let flags = u16::from_be_bytes([output[8], output[9]]);
        assert_eq!(flags & transmission::READ_ONLY, transmission::READ_ONLY);
        assert_eq!(flags & (transmission::SEND_TRIM | transmission::SEND_DF), 0);
    }
    let mut talk = Talk::begin(FIXED);
    talk.say(&option_bytes(option::EXPORT_NAME, b""));
    assert_eq!(talk.step, Step::Transmission(session(0)), "the first is also the one without a name");
    let mut talk = Talk::begin(FIXED);
    assert!(talk.say(&option_bytes(option::EXPORT_NAME, b"no")).is_empty());
    assert_eq!(talk.step, Step::Ended(Ended::UnknownExport));
}

#[test]
fn go_tells_what_it_was_asked() {
    let mut talk = Talk::begin(FIXED | NO_ZEROES);
    let wanted = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 77];
    let kinds = talk.option(option::INFO, &go("archive", &wanted));
    assert_eq!(kinds, [reply::INFO, reply::INFO, reply::INFO, reply::INFO, reply::ACK]);
    let told: Vec<_> = talk.replies.iter().map(|(_, _, data)| data.clone()).collect();
    assert_eq!((told[0].len(), &told[0][..2]), (12, &[0, 0][..]));
    assert_eq!(told[1], [&[0, 1][..], b"archive"].concat());
    assert_eq!(told[2], [&[0, 2][..], b"last year"].concat());
    let blocks = [512_u32, 4096, 32 << 20].map(u32::to_be_bytes);
    assert_eq!(told[3], [&[0, 3][..], blocks.as_flattened()].concat());
    assert_eq!(talk.step, Step::More, "asking is not going");
    assert_eq!(talk.option(option::GO, &go("no", &[])), [reply::ERR_UNKNOWN]);
    assert_eq!(talk.option(option::GO, &go("disk", &[])), [reply::INFO, reply::ACK]);
    assert_eq!(talk.step, Step::Transmission(Session { export: 0, structured: false, allocation: false }));
}

#[test]
fn options_that_make_no_sense_are_refused_and_the_next_is_read() {
    let mut talk = Talk::begin(FIXED);
    assert_eq!(talk.option(99, b"whatever"), [reply::ERR_UNSUP]);
    assert_eq!(talk.option(11, b""), [reply::ERR_UNSUP], "extended headers");
    assert_eq!(talk.option(option::STARTTLS, b""), [reply::ERR_UNSUP]);
    assert_eq!(talk.option(option::STARTTLS, b"x"), [reply::ERR_INVALID]);
    assert_eq!(talk.option(option::LIST, b"x"), [reply::ERR_INVALID]);
    assert_eq!(talk.option(option::STRUCTURED_REPLY, b"x"), [reply::ERR_INVALID]);
    assert_eq!(talk.option(option::INFO, b""), [reply::ERR_INVALID]);
    assert_eq!(talk.option(option::INFO, &[0xFF; 6]), [reply::ERR_INVALID]);
    assert_eq!(talk.option(option::GO, &[&go("disk", &[])[..], b"x"].concat()), [reply::ERR_INVALID]);
    let too_long = vec![0; OPTION_BYTES_MAX + 1];
    assert_eq!(talk.option(option::LIST, &too_long), [reply::ERR_TOO_BIG]);
    assert_eq!(talk.option(option::LIST, b""), [reply::SERVER, reply::SERVER, reply::ACK]);
    assert_eq!(talk.replies[1].2, [&text("archive")[..], b"last year"].concat());
}

#[test]
fn a_client_out_of_step_is_left() {
    assert_eq!(Talk::begin(4).step, Step::Ended(Ended::ClientFlags));
    let mut talk = Talk::begin(FIXED);
    talk.say(&[b'x'; 16]);
    assert_eq!(talk.step, Step::Ended(Ended::OptionMagic));
    let mut talk = Talk::begin(0);
    talk.say(&option_bytes(option::LIST, b""));
    assert_eq!(talk.step, Step::Ended(Ended::NotFixed));
    let mut talk = Talk::begin(FIXED);
    assert_eq!(talk.option(option::ABORT, b"ignored"), [reply::ACK]);
    assert_eq!(talk.step, Step::Ended(Ended::Aborted));
    let mut talk = Talk::begin(FIXED);
    for _ in 0..OPTIONS_MAX {
        assert_eq!(talk.option(99, b""), [reply::ERR_UNSUP]);
    }
    talk.say(&option_bytes(99, b""));
    assert_eq!(talk.step, Step::Ended(Ended::Options));
}

#[test]
fn a_metadata_context_holds_for_its_export() {
    let (list, set) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    let allocated = |talk: &mut Talk, name: &str| {
        talk.option(option::GO, &go(name, &[]));
        let Step::Transmission(session) = talk.step else { panic!("{:?}", talk.step) };
        session.allocation
    };
    let begin = || {
        let mut talk = Talk::begin(FIXED);
        assert_eq!(talk.option(set, &contexts("disk", &[ALLOCATION])), [reply::ERR_INVALID], "structured comes first");
        assert_eq!(talk.option(option::STRUCTURED_REPLY, b""), [reply::ACK]);
        talk
    };
    let mut talk = begin();
    for queries in [&[][..], &["base:"], &[ALLOCATION], &["x-other:y", ALLOCATION, ALLOCATION]] {
        assert_eq!(talk.option(list, &contexts("disk", queries)), [reply::META_CONTEXT, reply::ACK], "{queries:?}");
    }
    assert_eq!(talk.option(list, &contexts("disk", &["base:other", "x-y:"])), [reply::ACK]);
    assert_eq!(talk.option(list, &contexts("no", &[])), [reply::ERR_UNKNOWN]);
    assert_eq!(talk.option(list, &contexts("disk", &["allocation"])), [reply::ERR_INVALID]);
    assert_eq!(talk.option(list, &u32::MAX.to_be_bytes()), [reply::ERR_INVALID]);
    let many = [&text("disk")[..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(talk.option(list, &many), [reply::ERR_INVALID], "more queries than there are");
    assert!(!allocated(&mut talk, "disk"), "to list is not to choose");

    let mut talk = begin();
    assert_eq!(talk.option(set, &contexts("disk", &["base:"])), [reply::ACK], "no wildcards in a choice");
    assert_eq!(talk.option(set, &contexts("disk", &[ALLOCATION])), [reply::META_CONTEXT, reply::ACK]);
    assert_eq!(talk.replies[0].2, [&[0, 0, 0, 1][..], ALLOCATION.as_bytes()].concat());
    assert!(allocated(&mut talk, ""), "the export without a name is the first");

    let mut talk = begin();
    talk.option(set, &contexts("disk", &[ALLOCATION]));
    assert!(!allocated(&mut talk, "archive"), "it was chosen for another export");

    for undone in [contexts("disk", &[]), b"?".to_vec(), vec![0; OPTION_BYTES_MAX + 1]] {
        let mut talk = begin();
        talk.option(set, &contexts("disk", &[ALLOCATION]));
        talk.option(set, &undone);
        assert!(!allocated(&mut talk, "disk"), "every choice replaces the one before");
    }
}
