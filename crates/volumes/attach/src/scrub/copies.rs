//! The outcome of a comparison of an owner's writes that are not written back with the copies of them at its holders.

use super::repair::Repair;
use serde::{Deserialize, Serialize};

/// The most differences that are told one by one; all are counted.
const TOLD_MAX: usize = 1024;

/// The meaning of a difference between the owner's log and a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyMeaning {
    /// The holder has counted the copy, and does not have it.
    CopyMissing,
    /// The holder has it, and what is read there is not what was written.
    CopyDamaged,
    /// The holder's is sound, and not what the owner has.
    CopyDiffers,
    /// The owner's own cannot be read, or is not what was written.
    LogDamaged,
}

impl CopyMeaning {
    /// It for people, with what to do.
    pub const fn text(self) -> &'static str {
        match self {
            Self::CopyMissing => {
                "the holder counted the copy and does not have it: its folder was put back from an older copy, or lost a part; \
                 start it again with `--as-new`"
            }
            Self::CopyDamaged => {
                "the holder's copy cannot be read, or is not what was written: it is needed until the block is home; look at the \
                 holder's disk, and have it leave (`thorp holder --leave`) if that fails"
            }
            Self::CopyDiffers => {
                "the holder's copy is sound, and another one than the owner's: do not take the volume over before the block is \
                 home; then have the holder leave (`thorp holder --leave`), and please report it"
            }
            Self::LogDamaged => {
                "the owner's own cannot be read, or is not what was written: nothing goes home any more; end this attachment, and \
                 attach the volume with another cache, which takes the holders' copies"
            }
        }
    }
}

/// Blocks that are not the same at the owner and at a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyDifference {
    /// The first block: its place in bytes is 4096 times this.
    pub block: u64,
    /// So many from there: of a copy that is damaged it is unknown which of its blocks is.
    pub blocks: u64,
    /// The holder's name, or its partition's number.
    pub holder: String,
    /// See there.
    pub meaning: CopyMeaning,
}

/// A holder that was not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCompared {
    /// Its name, or its partition's number.
    pub holder: String,
    /// The reason, for people.
    pub why: String,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedCopies {
    /// The blocks that were compared, each once for each holder.
    pub blocks: u64,
    /// The differences, and the first of them.
    pub differing: u64,
    /// See `differing`.
    pub differences: Vec<CopyDifference>,
    /// The holders of the volume that were not compared, or not to the end.
    pub without: Vec<NotCompared>,
    /// The outcomes of their repair, if that was asked for.
    #[serde(default)]
    pub repairs: Vec<Repair>,
}

impl ComparedCopies {
    /// Everything that is dirty was written back, or was not for this reason.
    pub(crate) fn repaired(&mut self, why: Option<&str>) {
        let repair = |it: &CopyDifference| {
            let (at, from) = if it.meaning == CopyMeaning::LogDamaged {
                ("in the owner's log".to_owned(), format!("the copy at holder {}", it.holder))
            } else {
                let from = "the owner's log: it was written back, and the holder's copy is not needed";
                (format!("at holder {}", it.holder), from.to_owned())
            };
            Repair {
                block: it.block,
                blocks: it.blocks,
                at,
                from: why.is_none().then_some(from),
                why: why.map(Into::into),
            }
        };
        self.repairs = self.differences.iter().map(repair).collect();
    }

    /// Another difference.
    pub(crate) fn add(&mut self, difference: CopyDifference) {
        self.differing += 1;
        if self.differences.len() < TOLD_MAX {
            self.differences.push(difference);
        }
    }
}
