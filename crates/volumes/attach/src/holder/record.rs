//! The records of a holder's log: one for each entry of the machine, in the order in which they were appended.
//!
//! ```text
//!   a copy (kind 1)
//!    0  volume u64
//!    8  epoch u64 | sequence u64 | flush epoch u64
//!   32  offset u64 | length u64
//!   48  content u32: 0 data, 1 trim, 2 zeros | stream u32: 0 live, 1 back
//!   56  CRC32C u32 of all that stands before and of the data | 0 u32
//!   64  the data
//!   an epoch (kind 2)
//!    0  volume u64 | epoch u64 | revision u64
//!   a volume of which nothing is kept (kind 3)
//!    0  volume u64
//! ```
//! A copy is read back when a host takes over, so it has a checksum of its own: the log's are of its frames.

use bytes::Bytes;
use log::{Log, Records};
use machines::HolderEntry;
use machines::messages::holder::{Content, Epoch, Extent, FlushEpoch, Record, Sequence, Stamp, Stream, VolumeId};
use types::limits::VOLUME_WRITE_BYTES_MAX;
use vfs::{Fields, FileError, Malformed};

const COPY: u8 = 1;
const EPOCH: u8 = 2;
const FORGET: u8 = 3;

const HEADER_BYTES: usize = 64;
/// Where the checksum stands.
const CRC_AT: usize = 56;

/// The records.
#[derive(Debug)]
pub(crate) struct Entries;

impl Records for Entries {
    type Record = HolderEntry;

    const BODY_BYTES_MAX: u32 = (HEADER_BYTES + VOLUME_WRITE_BYTES_MAX) as u32;
    const READ_BACK: bool = true;

    fn kind(entry: &HolderEntry) -> u8 {
        match entry {
            HolderEntry::Copy(..) => COPY,
            HolderEntry::Epoch(..) => EPOCH,
            HolderEntry::Forget(_) => FORGET,
        }
    }

    fn body_bytes(entry: &HolderEntry) -> usize {
        match entry {
            HolderEntry::Copy(_, _, record) => HEADER_BYTES + record.content.len() as usize,
            HolderEntry::Epoch(..) => 24,
            HolderEntry::Forget(_) => 8,
        }
    }

    fn encode(entry: &HolderEntry, put: &mut impl FnMut(&[u8])) {
        match entry {
            HolderEntry::Copy(volume, stream, record) => {
                put(&header(*volume, *stream, record));
                if let Content::Data(data) = &record.content {
                    put(data);
                }
            }
            HolderEntry::Epoch(volume, epoch, revision) => put(&numbers([volume.0, epoch.0, *revision])),
            HolderEntry::Forget(volume) => put(&volume.0.to_le_bytes()),
        }
    }

    fn decode(kind: u8, body: Bytes) -> Result<HolderEntry, Malformed> {
        if kind == COPY {
            return decode_copy(&body);
        }
        let mut fields = Fields::new(body);
        let volume = VolumeId(fields.u64()?);
        let entry = match kind {
            EPOCH => HolderEntry::Epoch(volume, Epoch(fields.u64()?), fields.u64()?),
            FORGET => HolderEntry::Forget(volume),
            _ => return Err(Malformed),
        };
        fields.end()?;
        Ok(entry)
    }
}

/// The copy at a position of the log; `None` if it is none, or is no longer there, or is damaged.
pub(crate) fn read_copy(log: &Log<Entries>, position: u64) -> Result<Option<HolderEntry>, FileError> {
    let mut body = vec![0; HEADER_BYTES];
    if !log.read(position, 0, &mut body)? {
        return Ok(None);
    }
    let Ok((_, _, extent, code)) = decode_header(&Bytes::copy_from_slice(&body)) else { return Ok(None) };
    if code == DATA && extent.len <= VOLUME_WRITE_BYTES_MAX as u64 {
        body.resize(HEADER_BYTES + extent.len as usize, 0);
        if !log.read(position, HEADER_BYTES, &mut body[HEADER_BYTES..])? {
            return Ok(None);
        }
    }
    Ok(decode_copy(&body.into()).ok())
}

const DATA: u32 = 0;
const TRIM: u32 = 1;
const ZERO: u32 = 2;

fn header(volume: VolumeId, stream: Stream, record: &Record) -> [u8; HEADER_BYTES] {
    let Record { stamp, extent, content } = record;
    let code = match content {
        Content::Data(_) => DATA,
        Content::Trim => TRIM,
        Content::Zero => ZERO,
    };
    let is_back = u32::from(stream == Stream::Back);
    let mut header = [0; HEADER_BYTES];
    let fields = [volume.0, stamp.epoch.0, stamp.sequence.0, stamp.flush.0, extent.offset, extent.len];
    header[..48].copy_from_slice(&numbers(fields));
    header[48..52].copy_from_slice(&code.to_le_bytes());
    header[52..56].copy_from_slice(&is_back.to_le_bytes());
    let data: &[u8] = if let Content::Data(data) = content { data } else { &[] };
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..CRC_AT]), data);
    header[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The numbers, little-endian, one behind the other.
fn numbers<const N: usize>(numbers: [u64; N]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn decode_header(body: &Bytes) -> Result<(VolumeId, (Stamp, Stream), Extent, u32), Malformed> {
    let mut fields = Fields::new(body.clone());
    let volume = VolumeId(fields.u64()?);
    let (epoch, sequence, flush) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let stamp = Stamp { epoch: Epoch(epoch), sequence: Sequence(sequence), flush: FlushEpoch(flush) };
    let extent = Extent { offset: fields.u64()?, len: fields.u64()? };
    let code = fields.u32()?;
    let stream = match fields.u32()? {
        0 => Stream::Live,
        1 => Stream::Back,
        _ => return Err(Malformed),
    };
    Ok((volume, (stamp, stream), extent, code))
}

fn decode_copy(body: &Bytes) -> Result<HolderEntry, Malformed> {
    let (volume, (stamp, stream), extent, code) = decode_header(body)?;
    let mut fields = Fields::new(body.slice(CRC_AT..));
    let crc = fields.u32()?;
    fields.zero()?;
    let data = body.slice(HEADER_BYTES..);
    if crc32c::crc32c_append(crc32c::crc32c(&body[..CRC_AT]), &data) != crc {
        return Err(Malformed);
    }
    let content = match code {
        DATA => Content::Data(data),
        TRIM if data.is_empty() => Content::Trim,
        ZERO if data.is_empty() => Content::Zero,
        _ => return Err(Malformed),
    };
    if !content.fits(extent) {
        return Err(Malformed);
    }
    Ok(HolderEntry::Copy(volume, stream, Record { stamp, extent, content }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(content: Content) -> HolderEntry {
        let stamp = Stamp { epoch: Epoch(2), sequence: Sequence(3), flush: FlushEpoch(4) };
        let record = Record { stamp, extent: Extent { offset: 8192, len: 5 }, content };
        HolderEntry::Copy(VolumeId(1), Stream::Back, record)
    }

    fn body(entry: &HolderEntry) -> Vec<u8> {
        let mut body = Vec::new();
        Entries::encode(entry, &mut |part| body.extend_from_slice(part));
        assert_eq!(body.len(), Entries::body_bytes(entry));
        body
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_no_other_body_is_one() {
        let contents = [Content::Data(Bytes::from_static(b"bytes")), Content::Trim, Content::Zero];
        let entries = contents.map(copy).into_iter();
        let others = [HolderEntry::Epoch(VolumeId(1), Epoch(2), 3), HolderEntry::Forget(VolumeId(1))];
        for entry in entries.chain(others) {
            let (kind, body) = (Entries::kind(&entry), body(&entry));
            assert_eq!(Entries::decode(kind, body.clone().into()), Ok(entry.clone()));
            assert_eq!(Entries::decode(9, body.clone().into()), Err(Malformed));
            assert_eq!(Entries::decode(kind, body[..body.len() - 1].to_vec().into()), Err(Malformed));
        }
    }

    #[test]
    fn a_copy_of_which_a_byte_has_changed_is_none() {
        let body = body(&copy(Content::Data(Bytes::from_static(b"bytes"))));
        for at in 0..body.len() {
            let mut other = body.clone();
            other[at] ^= 1;
            assert_eq!(Entries::decode(COPY, other.into()), Err(Malformed), "byte {at}");
        }
    }

    #[test]
    fn the_bytes_of_a_copy() {
        let body = body(&copy(Content::Data(Bytes::from_static(b"bytes"))));
        let fields = [(0, 1), (8, 2), (16, 3), (24, 4), (32, 8192), (40, 5), (52, 1)];
        let mut expected = [0; CRC_AT];
        for (at, number) in fields {
            expected[at..at + 2].copy_from_slice(&u16::to_le_bytes(number));
        }
        assert_eq!(body[..CRC_AT], expected);
        assert_eq!(&body[HEADER_BYTES..], b"bytes");
    }
}
