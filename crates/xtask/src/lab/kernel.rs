//! The two calls into the kernel for which there is no safe function: the only unsafe code of this crate.
//! `docs/decisions/0012-lab-of-namespaces.md` says why it is here and not in a library.

use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Where TUN devices come from.
const TUN: &str = "/dev/net/tun";

/// `TUNSETIFF`, as the kernel's `if_tun.h` has it: its type is said to be an int, and it is an `ifreq` all the same.
const ATTACH: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

/// `IFF_TUN` with `IFF_NO_PI`: packets as they are, with nothing before the IP header.
const PLAIN_TUN: u16 = 0x0001 | 0x1000;

/// The part of the kernel's `struct ifreq` that matters here, in its full length.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

// The kernel reads and writes this many bytes (32 where pointers have four).
const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// Returns the calling thread a network namespace of its own, and so everything that it starts and opens from now on.
/// It is gone when the thread, those processes and those files are.
#[expect(unsafe_code, reason = "rustix has one function for all flags, and one of them is dangerous")]
pub(super) fn enter_new_network() -> io::Result<()> {
    // SAFETY: what must not be unshared is the table of files (`UnshareFlags::FILES`), and it is not.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Makes a TUN device in the calling thread's network. The file reads what is sent into the device, a packet at a time,
/// and does not wait for one; what is written to it the device receives. The device is gone when the file is closed.
#[expect(unsafe_code, reason = "a device is attached by an ioctl, which the libraries for TUN hide below much else")]
pub(super) fn open_tun(name: &str) -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(TUN);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{TUN}: {error}")))?;
    let mut request = InterfaceRequest { name: [0; 16], flags: PLAIN_TUN, rest: [0; 22] };
    // The name ends with a zero.
    let length = name.len().min(request.name.len() - 1);
    request.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `InterfaceRequest` is as long as, and keeps no
    // pointer to it. The file is open for the whole call.
    unsafe { ioctl(&file, Updater::<ATTACH, InterfaceRequest>::new(&mut request)) }?;
    Ok(file)
}
