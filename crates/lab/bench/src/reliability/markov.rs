//! Markov chains: the times to loss that a Monte Carlo run can be held against, where failures are independent and
//! every time is exponential; and those of disks in a RAID.

/// A chain of states that lead to each other at constant rates, and to a loss.
#[derive(Clone, Debug)]
struct Chain {
    /// The rate from each state to each other one.
    rates: Vec<Vec<f64>>,
    /// The rate from each state to the loss.
    loss: Vec<f64>,
}

impl Chain {
    fn new(states: usize) -> Self {
        Self { rates: vec![vec![0.0; states]; states], loss: vec![0.0; states] }
    }

    /// The mean time from each state to the loss. States are left out one by one, and those that lead there lead on:
    /// nothing is subtracted, so nothing is lost however far apart the rates are (Grassmann, Taksar and Heyman,
    /// Operations Research 33, 1985).
    fn time_to_loss(mut self) -> f64 {
        let states = self.rates.len();
        // The mean time that is spent with each visit of a state, as a multiple of its way out.
        let mut time = vec![1.0; states];
        for gone in (1..states).rev() {
            let out: f64 = self.rates[gone][..gone].iter().sum::<f64>() + self.loss[gone];
            for from in 0..gone {
                let share = self.rates[from][gone] / out;
                time[from] += share * time[gone];
                for to in 0..gone {
                    if to != from {
                        self.rates[from][to] += share * self.rates[gone][to];
                    }
                }
                self.loss[from] += share * self.loss[gone];
            }
        }
        time[0] / self.loss[0]
    }
}

/// The mean time until dirty data of a volume with `copies` is lost, when each copy's device dies at the rate `death`
/// and everything takes a time of the rate `mend`: data that lacks a holder is home then, and so is what a host brings
/// home that takes over. A device that died is replaced at once.
pub fn volume(copies: u8, death: f64, mend: f64) -> f64 {
    let holders = usize::from(copies) - 1;
    // States: the owner lives or not, times the holders that are lost.
    let state = |owner_lives: bool, lost: usize| if owner_lives { lost } else { holders + 1 + lost };
    let mut chain = Chain::new(2 * holders + 1);
    for lost in 0..=holders {
        let left = (holders - lost) as f64 * death;
        for owner_lives in [true, false] {
            // Nobody has the data any more.
            if !owner_lives && lost == holders {
                continue;
            }
            let from = state(owner_lives, lost);
            if !owner_lives && lost + 1 == holders {
                chain.loss[from] += left;
            } else if lost < holders {
                chain.rates[from][state(owner_lives, lost + 1)] += left;
            }
            if owner_lives && lost == holders {
                chain.loss[from] += death;
            } else if owner_lives {
                chain.rates[from][state(false, lost)] += death;
            }
            if from != 0 {
                chain.rates[from][0] += mend;
            }
        }
    }
    chain.time_to_loss()
}

/// The mean time until the last writes of a volume with two copies and a spare holder are lost, which one holder has
/// and the other has not yet, where everything is as with [`volume`]. Data that both have lasts as long as with three
/// copies: if it lacks a holder, it has another one after that time, or is home.
pub fn last_beside_spare(death: f64, mend: f64) -> f64 {
    // States: all is well; one holder lacks data; both do; the owner is lost, and one holder has the data.
    let [well, short, alone, taking] = [0, 1, 2, 3];
    let mut chain = Chain::new(4);
    chain.rates[well][short] = 2.0 * death;
    chain.rates[short][alone] = death;
    for owner_lives in [well, short] {
        chain.rates[owner_lives][taking] = death;
    }
    for one_is_left in [alone, taking] {
        chain.loss[one_is_left] = death;
    }
    for from in [short, alone, taking] {
        chain.rates[from][well] = mend;
    }
    chain.time_to_loss()
}

/// The mean time until a RAID of `disks` of which `spare` may be lost at a time loses data: each dies at the rate
/// `death`, and one at a time is built again at the rate `rebuild` (Patterson, Gibson and Katz, SIGMOD 1988).
pub fn raid(disks: u32, spare: u32, death: f64, rebuild: f64) -> f64 {
    let states = spare as usize + 1;
    let mut chain = Chain::new(states);
    for lost in 0..states {
        let rate = f64::from(disks - lost as u32) * death;
        if lost + 1 < states {
            chain.rates[lost][lost + 1] = rate;
        } else {
            chain.loss[lost] = rate;
        }
        if lost > 0 {
            chain.rates[lost][lost - 1] = rebuild;
        }
    }
    chain.time_to_loss()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-9, "{got}, expected {expected}");
    }

    #[test]
    fn chains_agree_with_what_can_be_written_down() {
        let (death, mend) = (1e-9, 0.1);
        is_near(volume(1, death, mend), 1.0 / death);
        // Two copies: after the first death, of either, a second within the repairing.
        is_near(volume(2, death, mend), (3.0 * death + mend) / (2.0 * death * death));
        // One holder has them: the owner's death, and within the repairing that one's; all else is rarer by far.
        assert!((last_beside_spare(death, mend) * death * death / mend - 1.0).abs() < 1e-7);
        // A mirror: (3 death + rebuild) / (2 death^2); a RAID 5 of n: ((2n - 1) death + rebuild) / (n (n - 1) death^2).
        is_near(raid(2, 1, death, mend), (3.0 * death + mend) / (2.0 * death * death));
        is_near(raid(8, 1, death, mend), (15.0 * death + mend) / (56.0 * death * death));
        is_near(raid(5, 0, death, mend), 0.2 / death);
    }

    #[test]
    fn another_copy_lasts_longer_by_what_mending_is_faster_than_dying() {
        let times: Vec<f64> = (1..=4).map(|copies| volume(copies, 1e-6, 1e-2)).collect();
        assert!(times.windows(2).all(|pair| pair[1] > 1000.0 * pair[0]), "{times:?}");
    }
}
