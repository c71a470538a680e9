//! The faults of a scenario, and how often each strikes.

use crate::faults::Fault;
use core::time::Duration;

/// How often each fault strikes; `None` for never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) store_crash: Option<Duration>,
    pub(crate) store_close: Option<Duration>,
    pub(crate) restore: Option<Duration>,
    pub(crate) client_crash: Option<Duration>,
    pub(crate) redirector_crash: Option<Duration>,
    pub(crate) sever: Option<Duration>,
    pub(crate) cut: Option<Duration>,
    pub(crate) stall: Option<Duration>,
    pub(crate) pause: Option<Duration>,
    pub(crate) slow_disk: Option<Duration>,
    pub(crate) home_full: Option<Duration>,
    pub(crate) refuse: Option<Duration>,
}

/// Something that goes wrong, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFault {
    /// The store's process dies, and its disk loses what was not durable.
    StoreCrash,
    /// It dies again while it recovers.
    StoreCrashAgain,
    /// The store is closed in good order, and started again.
    StoreClose,
    /// An operator copies the store's directory, or stops the store and puts the copy in its place.
    Restore,
    /// A client's process dies.
    ClientCrash,
    /// A redirector's process dies.
    RedirectorCrash,
    /// The disk has no room for new pages for a while.
    HomeFull,
    /// There is room again.
    RoomAgain,
}

impl Rates {
    /// The faults that strike, each with the mean time between two.
    pub(crate) fn all(&self) -> Vec<(Fault<StoreFault>, Duration)> {
        let all = [
            (Fault::Own(StoreFault::StoreCrash), self.store_crash),
            (Fault::Own(StoreFault::StoreClose), self.store_close),
            (Fault::Own(StoreFault::Restore), self.restore),
            (Fault::Own(StoreFault::ClientCrash), self.client_crash),
            (Fault::Own(StoreFault::RedirectorCrash), self.redirector_crash),
            (Fault::Sever, self.sever),
            (Fault::Cut, self.cut),
            (Fault::Stall, self.stall),
            (Fault::Pause, self.pause),
            (Fault::SlowDisk, self.slow_disk),
            (Fault::Own(StoreFault::HomeFull), self.home_full),
            (Fault::DiskRefuses, self.refuse),
        ];
        all.into_iter().filter_map(|(fault, rate)| Some((fault, rate?))).collect()
    }
}
