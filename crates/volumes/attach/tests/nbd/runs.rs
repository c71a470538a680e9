//! The runs of data and holes of a volume whose home is elsewhere: few questions for many answers, and none that is
//! old.

use crate::attached::{MIB, PATIENCE};
use crate::rig::{Folder, Random, Rig, ask};
use attach::{AttachConfig, Attached, FarHome, HomeServer};
use fixtures::Emulator;
use fixtures::nbd_client::{Client, Command};
use machines::messages::holder::VolumeId;
use net::Runtime;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const VOLUME: VolumeId = VolumeId(0x5EED);

const BLOCK: u64 = 4096;

/// Homes of this process, and a volume at them behind a line, of this size and with nothing that goes home by its age.
struct Far {
    rig: Rig,
    attached: Arc<Attached>,
    line: Emulator,
    _homes: HomeServer,
    _folder: Folder,
}

impl Far {
    fn new(size: u64) -> Self {
        let (folder, runtime) = (Folder::new(), Runtime::start().unwrap());
        let homes = HomeServer::start(&folder.path("homes"), &runtime).unwrap();
        let address = homes.listen(([127, 0, 0, 1], 0).into(), false).unwrap();
        let line = Emulator::start(address, Duration::from_millis(1), None).unwrap();
        let home = FarHome::create(&line.address().to_string(), VOLUME, size, &runtime).unwrap();
        let config = AttachConfig {
            log_bytes: 4 * MIB,
            clean_bytes: 2 * MIB,
            age_max: Duration::from_secs(600),
            ..AttachConfig::new(PathBuf::new(), folder.path("cache"))
        };
        let attached = Arc::new(Attached::attach_far(home, &config).unwrap());
        Self { rig: Rig::new(attached.clone()), attached, line, _homes: homes, _folder: folder }
    }

    fn bring_home(&self) {
        self.attached.bring_home(&|| false).unwrap();
    }

    fn end(self) {
        assert!(self.rig.server.stop(PATIENCE));
        self.attached.detach().unwrap();
    }
}

/// Whether each block of a range has contents, as a client is told that asks for this many bytes at a time.
fn map(client: &mut Client, range: std::ops::Range<u64>, step: u64) -> Vec<bool> {
    let (mut at, mut found) = (range.start, Vec::new());
    while at < range.end {
        let len = step.min(range.end - at);
        let command = Command::Extents { offset: at, len: len as u32, one: false };
        for (len, flags) in ask(client, &command).extents {
            let len = u64::from(len).min(range.end - at);
            found.extend(std::iter::repeat_n(flags & 2 == 0, (len / BLOCK) as usize));
            at += len;
        }
    }
    found
}

#[test]
fn the_map_of_a_large_volume_takes_few_round_trips() {
    const SIZE: u64 = 4 << 40;
    const STEP: u64 = 2 << 30;
    let far = Far::new(SIZE);
    let mut client = far.rig.connect();
    for offset in [5 << 30, 3 << 40] {
        ask(&mut client, &Command::Write { offset, data: &[7; BLOCK as usize], fua: false });
    }
    far.bring_home();
    let before = far.line.tally().messages_up;
    let mut data = Vec::new();
    let mut at = 0;
    while at < SIZE {
        let command = Command::Extents { offset: at, len: STEP as u32, one: false };
        for (len, flags) in ask(&mut client, &command).extents {
            if flags == 0 {
                data.push((at, len));
            }
            at += u64::from(len);
        }
    }
    assert_eq!(data, [(5 << 30, BLOCK as u32), (3 << 40, BLOCK as u32)]);
    // One question, and a few others that only ask whether home is there.
    let asked = far.line.tally().messages_up - before;
    assert!(asked < 20, "{asked} messages for {} questions", SIZE / STEP);
    drop(client);
    far.end();
}

/// Writes, trims and zeros, of which some have gone home and some have not, with questions in between: each answer is
/// as of its question, whatever was told before.
#[test]
fn what_home_has_told_is_never_old() {
    const SIZE: u64 = 24 * MIB;
    let far = Far::new(SIZE);
    let (mut client, mut random) = (far.rig.connect(), Random(8));
    let mut model = vec![false; (SIZE / BLOCK) as usize];
    for round in 0..300 {
        let (first, count) = (random.below(SIZE / BLOCK - 16), 1 + random.below(16));
        let (offset, len) = (first * BLOCK, (count * BLOCK) as u32);
        let kind = random.below(6);
        match kind {
            0..=2 => {
                let data = vec![9; len as usize];
                ask(&mut client, &Command::Write { offset, data: &data, fua: false });
            }
            3 => drop(ask(&mut client, &Command::Trim { offset, len, fua: false })),
            4 => drop(ask(&mut client, &Command::Zero { offset, len, flags: 0 })),
            _ => far.bring_home(),
        }
        if kind < 5 {
            model[first as usize..(first + count) as usize].fill(kind < 3);
        }
        let from = random.below(SIZE / BLOCK) * BLOCK;
        let step = (1 + random.below(2000)) * BLOCK;
        assert_eq!(map(&mut client, from..SIZE, step), model[(from / BLOCK) as usize..], "round {round}");
    }
    // Blocks that were cut off do not come back.
    ask(&mut client, &Command::Write { offset: SIZE - BLOCK, data: &[9; BLOCK as usize], fua: false });
    far.bring_home();
    assert_eq!(map(&mut client, SIZE - BLOCK..SIZE, BLOCK), [true]);
    far.attached.resize(SIZE / 2, true, &|| false).unwrap();
    far.attached.resize(SIZE, false, &|| false).unwrap();
    let mut client = far.rig.connect();
    model[(SIZE / 2 / BLOCK) as usize..].fill(false);
    assert_eq!(map(&mut client, 0..SIZE, SIZE), model);
    drop(client);
    far.end();
}
