//! A disk over a home that is not a file: it needs nothing of a home but what the trait says.

use crate::page_file::{Found, Home, Installed};
use crate::real::{Parts, RealDisk};
use crate::records::StoreRecords;
use crate::tests::node::{config, image, record};
use bytes::Bytes;
use log::{Log, LogId, Scan};
use machine::Disk;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use store::{Checkpoint, DiskDone, DiskWork, HomeImage, Position};
use types::{PageId, Version};
use vfs::memory::Memory;
use vfs::{FileError, Files, Locking};

/// Pages in memory, with room for two.
#[derive(Clone, Debug, Default)]
struct TwoPages(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    pages: BTreeMap<PageId, (Version, Bytes)>,
    checkpoint: Checkpoint,
    durable: u64,
    installs: u64,
}

impl Home for TwoPages {
    fn checkpoint(&self) -> Checkpoint {
        self.0.lock().unwrap().checkpoint.clone()
    }

    fn durable(&self) -> u64 {
        self.0.lock().unwrap().durable
    }

    fn installs(&self) -> u64 {
        self.0.lock().unwrap().installs
    }

    fn must_have(&self, _: u64) -> Result<(), FileError> {
        Ok(())
    }

    fn read(&self, pages: &[PageId]) -> Result<Vec<(PageId, Found)>, FileError> {
        let contents = self.0.lock().unwrap();
        Ok(pages.iter().map(|page| (*page, Ok(contents.pages.get(page).cloned()))).collect())
    }

    fn install(&self, images: &[HomeImage], checkpoint: Checkpoint, durable: u64) -> Result<Installed, FileError> {
        let mut contents = self.0.lock().unwrap();
        if images.len() > 2 {
            return Ok(Installed::Full);
        }
        contents.pages.extend(images.iter().cloned().map(|image| (image.page, (image.version, image.image))));
        (contents.checkpoint, contents.durable) = (checkpoint, durable);
        contents.installs += 1;
        Ok(Installed::Done)
    }

    fn close(&self, durable: u64) -> Result<(), FileError> {
        self.0.lock().unwrap().durable = durable;
        Ok(())
    }
}

#[test]
fn a_disk_drives_any_home() {
    let files: Arc<dyn Files> = Arc::new(Memory::default());
    Log::<StoreRecords>::create(&*files, LogId(1), config().limits(), 2).unwrap();
    let mut scan = Scan::begin(files.clone(), LogId(1), 0).unwrap();
    assert_eq!(scan.next_record().unwrap(), None);
    let log = Log::resume(files.clone(), LogId(1), config().limits(), 1, &scan).unwrap();
    let (home, lock) = (TwoPages::default(), files.lock("lock", Locking::Signed).unwrap().unwrap());
    let (log_id, patience) = (LogId(1), Arc::default());
    let parts = Parts { files: files.clone(), readers: 1, log, log_id, home: Box::new(home.clone()), patience };
    let disk = RealDisk::start(parts, lock).unwrap();
    let (events, heard) = channel();
    disk.on_done(Box::new(move |done| drop(events.send(done))));
    let install = |pages: u32| {
        let images = (0..pages).map(|number| image(PageId::new(1, number), Version(5))).collect();
        disk.submit(DiskWork::Install(images, Checkpoint { applied: Version(5).into(), ..Checkpoint::default() }));
        heard.recv().unwrap()
    };
    assert_eq!((install(3), install(2)), (DiskDone::HomeFull, DiskDone::Installed));
    disk.submit(DiskWork::Read(vec![PageId::new(1, 1), PageId::new(1, 2)]));
    let there = image(PageId::new(1, 1), Version(5));
    let expected = vec![(there.page, Some((there.version, there.image))), (PageId::new(1, 2), None)];
    assert_eq!(heard.recv().unwrap(), DiskDone::Pages(expected));
    disk.submit(DiskWork::Append(Position(1), record(1)));
    assert!(!disk.flush(&mut |_| {}));
    disk.close().unwrap();
    assert_eq!((home.durable(), home.checkpoint().applied), (1, Version(5).into()));
    let mut scan = Scan::<StoreRecords>::begin(files, LogId(1), home.durable()).unwrap();
    assert_eq!(scan.next_record().unwrap(), Some((1, record(1))));
    assert_eq!((scan.next_record().unwrap(), u64::from(scan.witness())), (None, home.installs()));
}
