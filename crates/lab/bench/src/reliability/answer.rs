//! The holders that have a write when it is answered, by the owner's own machine (**AckAtW**).

use crate::reliability::world::{Last, World};
use machines::messages::holder::{Counted, Opened};
use machines::{
    Content, Effect, Epoch, Extent, FromHolder, HostId, Owner, OwnerConfig, PartitionId, Registered, RequestId,
    Sequence, ToHolder, View, VolumeId, Write,
};
use std::time::Duration;
use types::Time;

/// The promise that a volume's answers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// W.
    pub(crate) copies: u8,
    /// The holders that have what is at stake, if there are so many.
    pub(crate) holders: usize,
}

impl Promise {
    /// That of a volume with this many copies.
    pub(crate) fn of(world: &World, copies: u8) -> Self {
        Self { copies, holders: holders_at_answer(world, copies) }
    }
}

/// How many holders have a write for certain: all of them, or those that had the last ones when these were answered.
fn holders_at_answer(world: &World, copies: u8) -> usize {
    let holders = copies - 1 + world.spare_holders;
    let Some(Last { ack, more_copies, .. }) = world.last else { return holders.into() };
    let config = OwnerConfig { ack, holders, broken: world.broken, ..OwnerConfig::new(1 << 40, 1 << 30) };
    let holders = (1..=u64::from(holders)).map(PartitionId);
    let entry = Registered {
        epoch: Epoch(1),
        owner: Some(HOST),
        holders: holders.clone().collect(),
        ..Registered::new(config.size, copies, Duration::from_secs_f64(world.lease_s))
    };
    let mut owner = Owner::attach(NOW, config, VolumeId(0), HOST, 0, View { revision: 1, entry });
    is_answered(&mut owner);
    let (extent, copies) = (Extent { offset: 0, len: 1 }, copies + more_copies);
    let write = Write { request: RequestId(0), extent, content: &Content::Trim, is_fua: false, copies };
    let live = owner.write(NOW, write).expect("it has its lease, and room").sequence;
    owner.appended(NOW, live);
    let lacks = |&partition: &PartitionId| {
        if is_answered(&mut owner) {
            return false;
        }
        let counted = Counted { live, back: live.before(), credit: ROOM };
        owner.heard(NOW, partition, &FromHolder::Counted(counted));
        true
    };
    holders.take_while(lacks).count()
}

/// The owner's host.
const HOST: HostId = HostId(1);

/// It takes no time.
const NOW: Time = Time::ZERO;

/// The room at each holder.
const ROOM: u64 = 1 << 30;

/// Has holders and the registry say yes, and says whether a request was answered in the meantime.
fn is_answered(owner: &mut Owner) -> bool {
    let mut is_answered = false;
    while let Some(effect) = owner.poll_effect() {
        match effect {
            Effect::Connect(partition) => owner.up(NOW, partition),
            Effect::Send(partition, ToHolder::Open(_)) => {
                let opened = Opened { partition, live: Sequence(0), back: Sequence(0), credit: ROOM };
                owner.heard(NOW, partition, &FromHolder::Opened(opened));
            }
            Effect::Change(change) => {
                owner.changed(NOW, Ok(View { revision: change.expects + 1, entry: change.entry }));
            }
            Effect::Answer(_, answer) => is_answered = answer.is_ok(),
            _ => {}
        }
    }
    is_answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reliability::world::Devices;
    use machines::Rule;
    use types::Broken;

    #[test]
    fn an_answer_waits_for_as_many_holders_as_it_promises() {
        let world = World::published(Devices::Bare);
        let spare = world.with_spare();
        let many = World { spare_holders: 3, ..world };
        let cases = [(world, 3, 2), (spare, 2, 2), (World::asynchronous(Devices::Bare), 3, 0)];
        let last = [(world.with_last(0), 1, 0), (spare.with_last(0), 2, 1), (spare.with_last(1), 2, 2)];
        // There are no more holders than these.
        let more = [(many.with_last(1), 2, 2), (many.with_last(2), 2, 3), (spare.with_last(5), 2, 2)];
        for (world, copies, holders) in cases.into_iter().chain(last).chain(more) {
            assert_eq!(holders_at_answer(&world, copies), holders, "{copies} copies, {world:?}");
        }
        let broken = World { broken: Broken::rule(Rule::AckAtW), ..spare };
        assert_eq!([0, 1].map(|more| holders_at_answer(&broken.with_last(more), 2)), [0, 1]);
    }
}
