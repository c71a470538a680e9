//! The edits of an offer: to the byte, applied, and damaged.

use bytes::Bytes;
use proptest::prelude::*;
use sim::sites::Chunks;
use spread::member_work::Edited;
use spread::trees::{self, edits_between};
use std::convert::Infallible;
use std::fmt::Write;
use tree::limits::{EDITS_MAX, PIECES_MAX};
use tree::{
    ApplyError, Attributes, ChunkHash, Content, Descent, Entry, Kind, Name, Parts, Piece, write_directory, write_pieces,
};
use types::limits::{EDITS_BYTES_MAX, OFFER_CONTENT_BYTES_MAX};

/// A directory of files; the content of each is a chunk.
fn directory(files: &[(String, Vec<u8>)], chunks: &mut Chunks) -> ChunkHash {
    let entry = |(name, content): &(String, Vec<u8>)| {
        let piece = Piece { hash: ChunkHash::of(content), bytes: content.len() as u32 };
        chunks.0.insert(piece.hash, content.clone().into());
        let (size, content) = (content.len() as u64, Content::Pieces(vec![piece]));
        let kind = Kind::File { size, content, link: 0 };
        (Name::new(name.as_bytes()).unwrap(), Entry { kind, attributes: Attributes::default() })
    };
    let entries: Vec<_> = files.iter().map(entry).collect();
    write_directory(&entries, chunks).unwrap()
}

/// A file server's chunks, two trees, the edits between them, and a member's chunks: those of the older tree.
fn two_trees() -> (Chunks, ChunkHash, ChunkHash, Bytes) {
    let (mut member, mut new) = (Chunks::default(), Chunks::default());
    let file = |name: &str, content: u8| (name.to_owned(), vec![content; 600]);
    let older = directory(&[file("a", 1), file("b", 2)], &mut member);
    let newer = directory(&[file("a", 3), file("b", 2)], &mut new);
    let server = Chunks(member.0.clone().into_iter().chain(new.0).collect());
    let edits = edits_between(&server, older, newer).unwrap();
    (member, older, newer, edits)
}

type Applied = Result<Descent, ApplyError<ChunkHash, Infallible>>;

fn apply(member: &Chunks, older: ChunkHash, newer: ChunkHash, edits: Bytes, made: &mut Chunks) -> Applied {
    let has = &mut |hashes: &[ChunkHash]| Ok(hashes.iter().map(|hash| member.0.contains_key(hash)).collect());
    let edited = Edited { base: older, root: newer, parts: Parts::Whole, edits };
    trees::apply_edits(member, has, edited, made).map(|applied| applied.found)
}

/// Whether the edits made the offered tree, and what it lacks.
fn apply_edits(
    member: &Chunks,
    older: ChunkHash,
    newer: ChunkHash,
    edits: Bytes,
    made: &mut Chunks,
) -> Result<(bool, usize), ApplyError<ChunkHash, Infallible>> {
    apply(member, older, newer, edits, made).map(|found| (found.waits.is_empty(), found.lacks.len()))
}

#[test]
fn edits_have_their_golden_bytes() {
    let (.., edits) = two_trees();
    let hex = edits.iter().fold(String::new(), |mut s, byte| write!(s, "{byte:02x}").map(|()| s).unwrap());
    let parts = [
        // The bytes of the edits, and the one edit: `a` becomes a file of one piece.
        "54000000 000000 0161 0000 0000000000000000 000000000000000000000000 0000",
        "01 5802000000000000 0000000000000000 0100",
        "65b02db853f68cef0146ffc311efd82dbc84f3fb850f7a719855a0f607f7d5f8 58020000",
        // The bytes of the piece, and the piece.
        "58020000",
        &"03".repeat(600),
    ];
    assert_eq!(hex, parts.concat().replace(' ', ""));
}

#[test]
fn edits_lead_from_the_older_tree_to_the_newer_one() {
    let (member, older, newer, edits) = two_trees();
    let mut made = Chunks::default();
    assert_eq!(apply_edits(&member, older, newer, edits.clone(), &mut made), Ok((true, 0)));
    assert_eq!(made.0.len(), 2, "the piece and the directory");
    // They do not lead to a third tree, and cannot be applied to one that is missing.
    let mut other = Chunks::default();
    assert_eq!(apply_edits(&member, older, older, edits.clone(), &mut other), Ok((false, 0)));
    let missing = ChunkHash::of(b"not there");
    assert!(apply_edits(&member, missing, newer, edits, &mut other).is_err());
}

/// A file of many pieces has them in lists. The edits name the lists and not the pieces: the tree is descended into,
/// and relies on what the edits have made.
#[test]
fn edits_of_a_file_with_lists_keep_what_they_make() {
    let (mut member, mut server) = (Chunks::default(), Chunks::default());
    let older = directory(&[("a".to_owned(), vec![1; 600])], &mut member);
    let pieces = (0..=PIECES_MAX as u8).map(|byte| Piece { hash: ChunkHash::of(&[byte]), bytes: 1 }).collect();
    let content = write_pieces(pieces, &mut server).unwrap();
    let kind = Kind::File { size: PIECES_MAX as u64 + 1, content, link: 0 };
    let entry = Entry { kind, attributes: Attributes::default() };
    let newer = write_directory(&[(Name::new(b"a").unwrap(), entry)], &mut server).unwrap();
    let server = Chunks(member.0.clone().into_iter().chain(server.0).collect());
    let edits = edits_between(&server, older, newer).unwrap();
    let mut made = Chunks::default();
    let found = apply(&member, older, newer, edits, &mut made).unwrap();
    assert_eq!((found.waits.len(), found.lacks.len()), (1, 0));
    assert_eq!(found.relies, made.0.keys().copied().collect::<Vec<_>>(), "the list and the directory");
    assert_eq!(made.0.len(), 2);
}

/// Edits that end early make no tree, or the tree without its last chunks, which are fetched.
#[test]
fn edits_that_end_early_do_no_harm() {
    let (member, older, newer, edits) = two_trees();
    for end in 0..edits.len() {
        let mut made = Chunks::default();
        let found = apply_edits(&member, older, newer, edits.slice(..end), &mut made).unwrap();
        let of_edits = 4 + u32::from_le_bytes(edits[..4].try_into().unwrap()) as usize;
        let expected = if end < of_edits { ((false, 0), 0) } else { ((true, 1), 1) };
        assert_eq!((found, made.0.len()), expected, "{end} bytes");
    }
}

#[test]
fn large_edits_are_left_out() {
    let files = |count: usize, bytes: usize, byte: u8| -> Vec<_> {
        (0..count).map(|at| (format!("{at:05}"), [&at.to_le_bytes()[..], &vec![byte; bytes]].concat())).collect()
    };
    let between = |count, bytes| {
        let mut chunks = Chunks::default();
        let older = directory(&files(count, bytes, 1), &mut chunks);
        let newer = directory(&files(count, bytes, 2), &mut chunks);
        let edits = edits_between(&chunks, older, newer).unwrap();
        let mut made = Chunks::default();
        let is_made =
            !edits.is_empty() && apply_edits(&chunks, older, newer, edits.clone(), &mut made) == Ok((true, 0));
        (edits.len(), is_made, made.0.len())
    };
    assert_eq!(between(EDITS_MAX + 1, 600), (0, false, 0), "too many");
    for (files, made) in [(10, 11), (11, 1)] {
        let (bytes, is_made, found) = between(files, OFFER_CONTENT_BYTES_MAX / 10 - 8);
        assert_eq!((is_made, found), (true, made), "all content goes along, or none");
        assert!(bytes <= EDITS_BYTES_MAX, "{bytes} bytes");
    }
}

proptest! {
    #[test]
    fn damaged_edits_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let (member, older, newer, edits) = two_trees();
        let mut bytes = edits.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - end.index(bytes.len()) / 8);
        let mut made = Chunks::default();
        let is_made = apply_edits(&member, older, newer, bytes.into(), &mut made).is_ok_and(|(is_made, _)| is_made);
        // Added chunks have their own names, and the tree that was made is the offered one.
        prop_assert!(made.0.iter().all(|(hash, bytes)| ChunkHash::of(bytes) == *hash));
        prop_assert!(!is_made || made.0.contains_key(&newer));
    }

    #[test]
    fn noise_is_no_edit(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (member, older, newer, _) = two_trees();
        let found = apply_edits(&member, older, newer, bytes.into(), &mut Chunks::default());
        prop_assert!(!found.is_ok_and(|(is_made, _)| is_made));
    }
}

#[test]
fn where_only_directories_are_there_edits_bring_their_nodes_and_content() {
    let (mut member, older, newer, edits) = two_trees();
    member.0.retain(|hash, _| *hash == older);
    let has = &mut |_: &[ChunkHash]| panic!("no content is looked for");
    let (parts, mut made) = (Parts::Directories, Chunks::default());
    let edited = Edited { base: older, root: newer, parts, edits };
    let applied = trees::apply_edits(&member, has, edited, &mut made).unwrap();
    assert_eq!(applied.found, Descent { relies: vec![newer], ..Descent::default() });
    assert_eq!(applied.content, [(ChunkHash::of(&[3; 600]), 600)]);
    assert!(made.0.len() == 2 && applied.is_stored());
}
