//! The checksum that tells bytes from older ones that may lie in their place: XXH64 (Collet), cut to 32 bits.
//!
//! A CRC does not. All bytes that have their own CRC right behind them have the same CRC in the end, so whatever differs
//! between two versions of such bytes, the CRC of anything that contains them is the same. The superblock of ext4 ends
//! with its CRC32C, and so do the blocks of its extent trees and the control file of PostgreSQL.

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// The bytes that are taken in at a time, eight for each of four lanes.
const STRIPE: usize = 32;

/// The checksum of some bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    xxh64(bytes) as u32
}

/// With the seed 0.
fn xxh64(bytes: &[u8]) -> u64 {
    let (stripes, rest) = bytes.split_at(bytes.len() / STRIPE * STRIPE);
    let begun = if stripes.is_empty() { P5 } else { of_stripes(stripes) };
    avalanche(of_rest(begun.wrapping_add(bytes.len() as u64), rest))
}

fn of_stripes(bytes: &[u8]) -> u64 {
    let mut lanes = [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)];
    for stripe in bytes.chunks_exact(STRIPE) {
        for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
            *lane = round(*lane, u64_of(word));
        }
    }
    let turned = lanes.into_iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
    let joined = turned.fold(0, u64::wrapping_add);
    lanes.into_iter().fold(joined, |sum, lane| (sum ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4))
}

/// Takes in the last bytes, which are no stripe.
fn of_rest(mut sum: u64, rest: &[u8]) -> u64 {
    let (words, rest) = rest.split_at(rest.len() / 8 * 8);
    for word in words.chunks_exact(8) {
        sum = (sum ^ round(0, u64_of(word))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    let (half, rest) = rest.split_at(rest.len() / 4 * 4);
    if let Ok(half) = half.try_into() {
        let half = u64::from(u32::from_le_bytes(half));
        sum = (sum ^ half.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    rest.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1))
}

fn u64_of(word: &[u8]) -> u64 {
    u64::from_le_bytes(word.try_into().expect("eight bytes"))
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn avalanche(mut sum: u64) -> u64 {
    sum = (sum ^ (sum >> 33)).wrapping_mul(P2);
    sum = (sum ^ (sum >> 29)).wrapping_mul(P3);
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums are those of the reference implementation: they are on disks.
    #[test]
    fn it_is_xxh64() {
        let counted: Vec<u8> = (0..4096).map(|at| at as u8).collect();
        let expected = [
            (0, 0xef46_db37_51d8_e999),
            (3, 0xe5c7_bb45_33bc_65dd),
            (8, 0x884a_1736_14b8_1b8d),
            (13, 0x13d1_7c4c_7797_23a8),
            (31, 0xc346_d2b5_9b4d_8ee1),
            (32, 0xcbf5_9c51_16ff_32b4),
            (47, 0x0d98_83a0_3e7b_fbb8),
            (100, 0x6ac1_e580_3216_6597),
            (4096, 0x0f6e_64be_186a_f6a4),
        ];
        for (len, sum) in expected {
            assert_eq!(xxh64(&counted[..len]), sum, "of {len} bytes");
        }
        assert_eq!(checksum(&counted), 0x186a_f6a4);
    }
}
