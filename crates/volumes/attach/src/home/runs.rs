//! The runs of data and holes of a home, in whole blocks.
//!
//! A file system reports them in its own blocks, which may be smaller than a volume's: ext4 and XFS take 1 KiB. A
//! block of the volume in which there is any data is data.

use crate::extents::BLOCK;
use machines::messages::{holder::Extent, home::Run};
use std::io;
use vfs::File;

const BLOCK_BYTES: u64 = BLOCK as u64;

/// The runs of an extent from its begin on, which is that of a block: as many as are asked for, and none behind the
/// file's end.
pub(crate) fn runs(file: &dyn File, extent: Extent, runs_max: usize) -> io::Result<Vec<Run>> {
    let end = extent.offset.saturating_add(extent.len).min(file.size()?);
    let (mut runs, mut at) = (Vec::<Run>::new(), extent.offset);
    while at < end {
        let (until, is_hole) = file.run_at(at)?;
        let (until, is_hole) = in_whole_blocks(at, until, is_hole);
        let len = until.min(end) - at;
        let count = runs.len();
        match runs.last_mut() {
            Some(last) if last.is_hole == is_hole => last.len += len,
            _ if count == runs_max => break,
            _ => runs.push(Run { len, is_hole }),
        }
        at += len;
    }
    Ok(runs)
}

/// The end of the run that begins with this block, and whether it is a hole: one that does not reach the block's end is
/// none.
fn in_whole_blocks(at: u64, until: u64, is_hole: bool) -> (u64, bool) {
    let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
    if is_hole && until >= block_end {
        (until / BLOCK_BYTES * BLOCK_BYTES, true)
    } else {
        (until.next_multiple_of(BLOCK_BYTES).max(block_end), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{Directory, Files, How};

    #[test]
    fn a_block_with_anything_in_it_is_data() {
        let found = |until: u64, is_hole| in_whole_blocks(4096, until, is_hole);
        // A hole up to the middle of the first block, to its end, and to the middle of a later one.
        assert_eq!([5120, 8192, 13_312].map(|until| found(until, true)), [(8192, false), (8192, true), (12_288, true)]);
        // Data up to there, and where a file system says that there is none.
        assert_eq!(
            [5120, 8192, 9216].map(|until| found(until, false)),
            [(8192, false), (8192, false), (12_288, false)]
        );
        assert_eq!(found(4096, true), (8192, false));
    }

    #[test]
    fn runs_cover_an_extent_and_end_with_the_file() {
        let dir = std::env::temp_dir().join(format!("thorp-runs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = Directory::new(&dir).open("disk", How::Create).unwrap();
        file.set_len(64 * BLOCK_BYTES).unwrap();
        file.write_at(9 * BLOCK_BYTES, &[1; 2 * BLOCK]).unwrap();
        let found = |offset: u64, len: u64, runs_max| {
            let runs = runs(&*file, Extent { offset: offset * BLOCK_BYTES, len: len * BLOCK_BYTES }, runs_max).unwrap();
            runs.into_iter().map(|run| (run.len / BLOCK_BYTES, run.is_hole)).collect::<Vec<_>>()
        };
        assert_eq!(found(0, 64, 8), [(9, true), (2, false), (53, true)]);
        assert_eq!((found(10, 5, 8), found(0, 64, 2)), (vec![(1, false), (4, true)], vec![(9, true), (2, false)]));
        // A question about what is not there has no answer, at once.
        assert_eq!((found(63, 1 << 50, 8), found(64, 1, 8)), (vec![(1, true)], vec![]));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
