//! A file for values that are read in a transaction and shown when it has committed: until then it may have to be read
//! again. The file has no name, and no limit to its size.

use crate::Result;
use crate::output::cannot_write;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// A temporary file that only this process has.
#[derive(Debug)]
pub(crate) struct Spool(File);

impl Spool {
    /// Makes one in the folder for temporary files.
    pub(crate) fn new() -> Result<Self> {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("thorp-dump-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| format!("cannot keep a dump in {}: {error}; set TMPDIR", folder.display()))?;
        std::fs::remove_file(&path)?;
        Ok(Self(file))
    }

    /// Writes it from its beginning, in place of what was in it.
    pub(crate) fn begin(&self) -> thorp::Result<BufWriter<impl Write>> {
        let emptied = (&self.0).seek(SeekFrom::Start(0)).and_then(|_| self.0.set_len(0));
        emptied.map_err(thorp::Error::application)?;
        Ok(BufWriter::with_capacity(1 << 20, Unshown(&self.0)))
    }

    /// Shows all of it.
    pub(crate) fn copy_to(mut self, out: &mut impl Write) -> Result {
        self.0.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.0, out).map_err(cannot_write)?;
        Ok(())
    }
}

/// The file while it is written.
struct Unshown<'a>(&'a File);

impl Write for Unshown<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| match error.kind() {
            // A full disk here is not the store's.
            io::ErrorKind::StorageFull => {
                let text = "the folder for temporary files has no room for the dump: set TMPDIR to another, or dump with \
                            --in-parts";
                io::Error::new(error.kind(), text)
            }
            _ => error,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
