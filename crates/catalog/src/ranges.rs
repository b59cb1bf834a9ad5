//! A file or object that is read at any offset.

use std::sync::Arc;

use gate::file::Reader;
use gate::fs::{Open, StatxMask, Whence, fstat, lseek, openat};
use gate::long::c_string;
use gate::{Fd, Gate};

use crate::error::ErrorKind;
use crate::remote::{self, Object};
use crate::stream::Stream;
use crate::trusted;

/// A file or object, with its length when it was opened.
#[derive(Clone, Debug)]
pub enum Ranges {
    /// A file or a device.
    File(Reader),
    /// An object in a store.
    Object(Arc<dyn Object>),
}

impl Ranges {
    /// Opens a file or object.
    ///
    /// # Errors
    /// The file or object does not exist, or cannot be opened.
    pub fn open(path: &[u8]) -> Result<Ranges, ErrorKind> {
        Ok(match remote::open(path)? {
            Some(object) => Ranges::Object(object),
            None => Ranges::File(Reader::open(path)?),
        })
    }

    /// Opens a file in an open directory, without following a symlink.
    pub fn open_in(dir: &Fd, name: &[u8]) -> Result<Ranges, ErrorKind> {
        let name = c_string(name)?;
        let file = openat(dir, &name, Open::NONBLOCK | Open::NOFOLLOW)?;
        let seen = fstat(&file, StatxMask::BASIC_STATS)?;
        Ok(Ranges::File(Reader::new(Arc::new(file), seen.size)))
    }

    /// Length in bytes at the time of opening.
    #[expect(
        clippy::len_without_is_empty,
        reason = "nobody asks whether it is empty"
    )]
    pub fn len(&self) -> u64 {
        match self {
            Ranges::File(file) => file.len(),
            Ranges::Object(object) => object.len(),
        }
    }

    /// Checks that no other user can have written the file. Objects are not checked: anyone with
    /// write access to a store can write them all.
    pub fn check_trusted(&self) -> Result<(), ErrorKind> {
        match self {
            Ranges::File(file) => trusted::check(&**file.fd()),
            Ranges::Object(_) => Ok(()),
        }
    }

    /// The version id of an object, if the store has one.
    pub fn version(&self) -> Option<&str> {
        match self {
            Ranges::File(_) => None,
            Ranges::Object(object) => object.version(),
        }
    }

    /// Whether each read is a request to another machine.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Ranges::Object(_))
    }

    /// Reads at an offset until the buffer is full or the file ends.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ErrorKind> {
        match self {
            Ranges::File(file) => file
                .read_at(offset, buffer)
                .map_err(ErrorKind::call(Gate::Pread64)),
            Ranges::Object(object) => Ok(object.read_at(offset, buffer)?),
        }
    }

    /// Reads sequentially from an offset.
    pub fn stream(&self, offset: u64) -> Stream {
        match self {
            Ranges::File(file) => {
                // If lseek(2) fails, the stream reads wrong data, which the reader of the stream
                // rejects.
                let _ = lseek(&**file.fd(), offset, Whence::Set);
                Stream::File(Arc::clone(file.fd()))
            }
            Ranges::Object(object) => Stream::Object(object.stream(offset)),
        }
    }
}
