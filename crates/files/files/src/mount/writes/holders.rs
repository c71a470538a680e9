//! Other descriptors of a file that is being closed.
//!
//! The kernel does not tell a file system which close is the last one. A shell opens the file of a redirection, and its
//! commands close their copies of the descriptor one by one: the file is finished when the shell closes it.

use std::fs::{read_dir, read_to_string};
use std::iter::successors;

/// How far up the processes above the one that closes a file are looked at, and how many descriptors of each.
const PROCESSES_MAX: usize = 8;
const DESCRIPTORS_MAX: usize = 1024;

/// The bits of the flags of a descriptor that say whether it can be written.
const ACCESS: u32 = 0o3;

/// Whether a process, or one above it, has a file open to be written. A process that cannot be looked at has none.
pub(in crate::mount) fn has_writer(process: u32, inode: u64) -> bool {
    let mut all = successors(Some(process), |at| above(*at)).take_while(|at| *at > 1).take(PROCESSES_MAX);
    all.any(|at| is_writer(at, inode))
}

fn is_writer(process: u32, inode: u64) -> bool {
    let Ok(descriptors) = read_dir(format!("/proc/{process}/fdinfo")) else { return false };
    let mut info = descriptors.take(DESCRIPTORS_MAX).flatten().filter_map(|it| read_to_string(it.path()).ok());
    info.any(|info| is_written(&info, inode))
}

/// Whether the information on a descriptor is that of a file which it can write.
fn is_written(info: &str, inode: u64) -> bool {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_it = field("ino:").and_then(|ino| ino.parse().ok()) == Some(inode);
    is_it && field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok()).is_some_and(|it| it & ACCESS != 0)
}

/// The process above one.
fn above(process: u32) -> Option<u32> {
    let status = read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::Folder;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::process;

    #[test]
    fn descriptors_that_can_be_written_are_found() {
        let folder = Folder::new();
        let [written, read] = ["written", "read"].map(|name| folder.path().join(name));
        let (writer, own) = (File::create(&written).unwrap(), process::id());
        File::create(&read).unwrap();
        let reader = File::open(&read).unwrap();
        let inode = |file: &File| file.metadata().unwrap().ino();
        assert!(has_writer(own, inode(&writer)) && !has_writer(own, inode(&reader)));
        // A command of this process has it through this process.
        let mut command = process::Command::new("cat").stdin(process::Stdio::piped()).spawn().unwrap();
        assert!(has_writer(command.id(), inode(&writer)));
        drop(command.stdin.take());
        command.wait().unwrap();
        let number = inode(&writer);
        drop(writer);
        assert!(!has_writer(own, number) && !has_writer(u32::MAX, number));
    }
}
