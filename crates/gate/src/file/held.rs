//! Lock files: files that exist as long as a process holds them.

use std::ffi::CStr;

use super::temporary::Temporary;
use super::writer::{FOR_OWNER, NewFile, set_mode};
use crate::fs::{Open, openat, write};
use crate::{Errno, Fd, Result};

/// A lock file. The file is removed when this value is dropped, and when SIGINT, SIGTERM or SIGHUP
/// ends the process.
#[derive(Debug)]
pub struct LockFile {
    _name: Temporary,
}

impl LockFile {
    /// Creates a file with these contents and this mode, whatever the umask. The file is complete
    /// when its name appears.
    ///
    /// # Errors
    /// `EEXIST` if the name exists; `EMFILE` if too many temporary names are in use; the errors of
    /// openat(2), write(2) and linkat(2).
    pub fn create(dir: &Fd, name: &CStr, contents: &[u8], mode: u32) -> Result<LockFile> {
        let mut fresh = match NewFile::unnamed(dir, FOR_OWNER)? {
            Some(fresh) => fresh,
            None => NewFile::named(dir)?,
        };
        set_mode(fresh.fd(), mode)?;
        let mut left = contents;
        while !left.is_empty() {
            match write(fresh.fd(), left) {
                Ok(0) => return Err(Errno::EIO),
                Ok(n) => left = &left[n..],
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e),
            }
        }
        let own_dir = openat(dir, c".", Open::PATH | Open::DIRECTORY)?;
        let mut held = Temporary::named(own_dir, name.to_owned());
        held.make(|dir, name| fresh.publish(dir, name))?;
        Ok(LockFile { _name: held })
    }
}
