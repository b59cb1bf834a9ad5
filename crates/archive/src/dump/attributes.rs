//! Reads extended attributes of a file, including access control lists.

use std::ffi::CStr;
use std::ops::Deref;
use std::os::fd::BorrowedFd;

use catalog::rows::Rows;
use gate::xattr::{fgetxattr, flistxattr, getxattrat, listxattrat};
use gate::{Errno, Fd, Gate};
use ondisk::Dev;
use ondisk::pax::acl;
use walk::Meta;

use super::places::{NotOpened, OpenAncestors};
use crate::warning::WarningKind;

/// The file whose attributes are read.
#[derive(Clone, Copy, Debug)]
pub enum AttributesOf<'a> {
    /// An open file, read with fgetxattr(2).
    Open(&'a Fd),
    /// A name in a directory. A symlink is not followed.
    Named(BorrowedFd<'a>, &'a CStr),
}

/// A failure to read extended attributes: the system call, its error number, and the kind of
/// warning.
pub type AttributeFailure = (Gate, Errno, WarningKind);

/// Reads extended attributes, with buffers reused for many files.
#[derive(Debug, Default)]
pub struct AttributeReader {
    list: Vec<u8>,
    value: Vec<u8>,
    /// Device number of a file system without extended attributes: its other files are not asked
    /// for any.
    bare: Option<Dev>,
}

impl AttributeReader {
    /// Whether a file may have extended attributes. A file without any need not be opened to read
    /// them.
    pub fn may_have(&self, meta: &Meta) -> bool {
        meta.xattrs != Some(false) && self.bare != Some(meta.dev)
    }

    /// Passes the name and value of each extended attribute to `take`, sorted by name. Returns a
    /// failure for each unreadable attribute; an attribute that vanishes meanwhile is no failure.
    pub fn read(
        &mut self,
        dev: Dev,
        of: AttributesOf<'_>,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Vec<AttributeFailure> {
        let mut failures = Vec::new();
        if let Err((gate, e)) = of.list(&mut self.list) {
            self.list.clear();
            match e {
                Errno::EOPNOTSUPP | Errno::ENOSYS => self.bare = Some(dev),
                _ => failures.push((gate, e, WarningKind::XattrsUnreadable)),
            }
        }
        let mut names: Vec<&[u8]> = self.list.split_inclusive(|&b| b == 0).collect();
        names.sort_unstable();
        for name in names {
            let Ok(attribute) = CStr::from_bytes_with_nul(name) else {
                continue;
            };
            let name = attribute.to_bytes();
            if acl::is_xfs_form(name) {
                continue;
            }
            match of.get(attribute, &mut self.value) {
                Ok(()) => take(name, &self.value),
                Err((_, Errno::ENODATA)) => {}
                Err((gate, e)) => {
                    failures.push((gate, e, WarningKind::XattrUnreadable(name.to_vec())));
                }
            }
        }
        failures
    }

    /// Like [`AttributeReader::read`], for the file of a row, by its name.
    pub fn read_row<R: Deref<Target = Rows>>(
        &mut self,
        dev: Dev,
        places: &mut OpenAncestors<R>,
        row: usize,
        take: impl FnMut(&[u8], &[u8]),
    ) -> Vec<AttributeFailure> {
        let read = places.at(row, |dir, name| {
            Ok(self.read(dev, AttributesOf::Named(dir, name), take))
        });
        read.unwrap_or_else(|why| {
            let (errno, kind) = match why {
                NotOpened::Call(errno) => (errno, WarningKind::XattrsUnreadable),
                NotOpened::Replaced => (Errno::ESTALE, WarningKind::Replaced),
                NotOpened::OtherSource => (Errno::ESTALE, WarningKind::OtherSource),
            };
            vec![(Gate::Listxattrat, errno, kind)]
        })
    }
}

impl AttributesOf<'_> {
    fn list(self, list: &mut Vec<u8>) -> Result<(), (Gate, Errno)> {
        match self {
            Self::Open(fd) => flistxattr(fd, list).map_err(|e| (Gate::Flistxattr, e)),
            Self::Named(dir, name) => {
                listxattrat(dir, name, list).map_err(|e| (Gate::Listxattrat, e))
            }
        }
    }

    fn get(self, attribute: &CStr, value: &mut Vec<u8>) -> Result<(), (Gate, Errno)> {
        match self {
            Self::Open(fd) => fgetxattr(fd, attribute, value).map_err(|e| (Gate::Fgetxattr, e)),
            Self::Named(dir, name) => {
                getxattrat(dir, name, attribute, value).map_err(|e| (Gate::Getxattrat, e))
            }
        }
    }
}
