//! The input of a load: a file, which can be read again, or a pipe, which cannot. It is opened once: of a pipe that is
//! opened a second time somebody else may have read.

use crate::Result;
use designs::step::{self, Reader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A pipe from which nothing comes for this long pauses.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Blanks and comments at the beginning of a design are at most this long.
const BEGINNING_BYTES_MAX: usize = 64 * 1024;

/// The input of a load, from its beginning.
pub(super) struct Input {
    name: String,
    path: PathBuf,
    is_file: bool,
    reader: BufReader<Source>,
}

/// A file or a pipe. A pipe that pauses is an error of the kind [`ErrorKind::WouldBlock`], unless that is of no
/// interest.
struct Source {
    file: File,
    is_file: bool,
    tells_pauses: bool,
    /// Bytes of a pipe that were read to recognize its format, in reverse order.
    ahead: Vec<u8>,
}

impl Input {
    /// Opens a file by its path; `-` is standard input. A named pipe waits for somebody to write to it, as always.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if is_stdin { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
        let kind = opened.and_then(|file| Ok((file.metadata()?.file_type(), file)));
        let (kind, file) = kind.map_err(|error| format!("cannot read {name}: {error}"))?;
        if kind.is_dir() {
            return Err(format!("cannot read {name}: it is a directory; name a file in it").into());
        }
        let source = Source { file, is_file: kind.is_file(), tells_pauses: true, ahead: Vec::new() };
        let reader = BufReader::with_capacity(1 << 20, source);
        Ok(Self { name, path: path.to_owned(), is_file: kind.is_file(), reader })
    }

    /// The name that errors give it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its name as a file; nothing for standard input.
    pub(super) fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether it can be read again.
    pub(super) fn is_file(&self) -> bool {
        self.is_file
    }

    /// Returns whether it begins like an ISO 10303-21 file, or like an archive. No JSON begins like that.
    pub(super) fn begins_like_a_design(&mut self) -> Result<bool> {
        let start = if self.is_file { Some(self.reader.stream_position()?) } else { None };
        let source = self.reader.get_mut();
        source.tells_pauses = false;
        let (mut beginning, mut answer) = (Vec::new(), None);
        while answer.is_none() && beginning.len() < BEGINNING_BYTES_MAX {
            let mut bytes = [0; 4096];
            let read = source.read(&mut bytes)?;
            beginning.extend_from_slice(&bytes[..read]);
            answer = if read == 0 { Some(false) } else { step::begins_like_a_design(&beginning) };
        }
        source.tells_pauses = true;
        match start {
            Some(start) => drop(self.reader.seek(SeekFrom::Start(start))?),
            None => source.ahead = beginning.into_iter().rev().collect(),
        }
        Ok(answer == Some(true))
    }

    /// It as a design's file.
    pub(super) fn into_design(mut self) -> Result<Reader> {
        if self.is_file && self.path.as_os_str() != "-" {
            return Ok(step::open(&self.path)?);
        }
        self.reader.get_mut().tells_pauses = false;
        Ok(step::read(Box::new(self.reader), Path::new(&self.name))?)
    }

    /// The length and the checksum of a file. It is read from where it stands, and stands there again afterwards.
    pub(super) fn contents(&mut self) -> Result<(u64, u32)> {
        let start = self.reader.stream_position()?;
        let (mut length, mut checksum) = (0, 0);
        loop {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                self.reader.seek(SeekFrom::Start(start))?;
                return Ok((length, checksum));
            }
            checksum = crc32c::crc32c_append(checksum, bytes);
            length += bytes.len() as u64;
            let read = bytes.len();
            self.reader.consume(read);
        }
    }

    /// Reads on into `line`, up to and with the line's end, which may be missing at the end of all; says whether there
    /// was anything. A line is read up to `bytes_max`.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
        let room = bytes_max.saturating_sub(line.len()) as u64;
        Ok(self.reader.by_ref().take(room).read_until(b'\n', line)? > 0)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let count = buffer.len().min(self.ahead.len());
            let rest = self.ahead.len() - count;
            buffer.iter_mut().zip(self.ahead.drain(rest..).rev()).for_each(|(to, byte)| *to = byte);
            return Ok(count);
        }
        // A file is always ready.
        if !self.is_file && self.tells_pauses {
            let mut waited = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut waited, Some(&PAUSE))? == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        self.file.read(buffer)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
