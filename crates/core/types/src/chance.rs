//! Numbers that look drawn, and are the same on every machine and in every version.

/// The next number of SplitMix64, whose state is any number: small, fast, and good enough for faults, workloads and
/// places on a circle. Nothing that must be secret is drawn with it. Of states side by side the numbers are far apart.
pub const fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of its authors' program, from the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut state = 1_234_567;
        let drawn = [(); 3].map(|()| splitmix(&mut state));
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
