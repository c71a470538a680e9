//! The index, made again at a start from what an earlier process has left.

use crate::area::{Area, Place, RECORD_BYTES_MAX};
use crate::format::{
    FOOTER_BYTES, HEADER_BYTES, Label, Listed, RecordHeader, add_to_table, read_footer, read_segment_header,
    read_table, table_room,
};
use crate::index::{Held, Index};
use crate::removals::{Position, Removed};
use bytes::Bytes;
use crc32c::crc32c;
use std::sync::Arc;

/// The segment that was begun last, to be continued with.
#[derive(Debug)]
pub(crate) struct Last {
    pub(crate) number: usize,
    pub(crate) generation: u64,
    /// Where the next record may begin, from the segment's begin.
    pub(crate) offset: u64,
    pub(crate) table: Vec<u8>,
}

/// Fills an empty index; gives the oldest generation that there is, and the last segment.
pub(crate) fn recover<C>(
    area: &Area,
    index: &mut Index<C>,
    removed: &Removed,
    hash: &dyn Fn(&[u8]) -> u64,
) -> (u64, Option<Last>) {
    let begun = (0..index.segments.len()).filter_map(|number| Some((generation(area, number)?, number)));
    let mut begun: Vec<_> = begun.collect();
    begun.sort_unstable();
    let mut last = None;
    for &(generation, number) in &begun {
        let begin = number as u64 * area.segment_bytes;
        index.segments[number].generation = generation;
        let mut table = table(area, begin, generation).map(Vec::from).unwrap_or_default();
        let offset = walk(area, begin, generation, &mut table);
        for Listed { offset: from, size, life, label, is_lasting, key } in read_table(&table) {
            let place = Place { at: begin + from, size };
            let is_inside = from >= HEADER_BYTES && from + size <= area.segment_bytes && size <= RECORD_BYTES_MAX;
            if !is_inside || !is_lasting || removed.is_void(key, Position { life, generation, at: place.at }) {
                continue;
            }
            list(index, number, place, hash(key), label);
        }
        last = Some(Last { number, generation, offset, table });
    }
    (begun.first().map_or(0, |(generation, _)| *generation), last)
}

fn list<C>(index: &mut Index<C>, segment: usize, place: Place, hash: u64, label: Label) {
    let held = Arc::new(Held::new(hash, label, None));
    index.list(&held);
    index.set_place(&held, segment, Some(place));
}

fn generation(area: &Area, number: usize) -> Option<u64> {
    let bytes = area.read(number as u64 * area.segment_bytes, HEADER_BYTES).ok()?;
    read_segment_header(bytes.first_chunk()?, area.epoch)
}

/// The table at the end of a segment.
fn table(area: &Area, begin: u64, generation: u64) -> Option<Bytes> {
    let end = begin + area.segment_bytes - FOOTER_BYTES;
    let footer = area.read(end, FOOTER_BYTES).ok()?;
    let (bytes, crc) = read_footer(footer.first_chunk()?, area.epoch, generation)?;
    let begin = end.checked_sub(bytes).filter(|at| *at >= begin)?;
    let table = area.read(begin, bytes).ok()?;
    (crc32c(&table) == crc).then_some(table)
}

/// Adds the records to a table that stand behind those that it has: of a segment that was not ended since. Gives
/// where the next one may begin. A power failure may have spared a record of an earlier life whose place was given to
/// others: behind one of a later life it is none.
fn walk(area: &Area, begin: u64, generation: u64, table: &mut Vec<u8>) -> u64 {
    let mut offset = read_table(table).map(|listed| listed.offset + listed.size).fold(HEADER_BYTES, u64::max);
    let mut life = read_table(table).last().map_or(0, |listed| listed.life);
    while let Some((header, key, size)) =
        record(area, begin + offset, generation).filter(|(header, ..)| header.life >= life)
    {
        let room = offset + size + table.len() as u64 + table_room(key.len()) + FOOTER_BYTES;
        if room > area.segment_bytes {
            break;
        }
        let RecordHeader { label, is_lasting, .. } = header;
        life = header.life;
        add_to_table(table, &Listed { offset, size, life, label, is_lasting, key: &key });
        offset += size;
    }
    offset
}

fn record(area: &Area, at: u64, generation: u64) -> Option<(RecordHeader, Bytes, u64)> {
    let header = area.header(at, generation)?;
    let key = area.read(at + HEADER_BYTES, header.key_bytes.into()).ok()?;
    Some((header, key, header.size()?))
}
