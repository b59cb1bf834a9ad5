//! Tags: files that mark a directory whose contents are excluded, except for the tags themselves.

#[cfg(test)]
mod tests;

use std::ffi::{CStr, CString};

use gate::Fd;
use gate::fs::{FileType, Open, StatxMask, lstatat, openat, read};

/// The file name of a cache directory tag, and the beginning of its contents:
/// <https://bford.info/cachedir/>.
const CACHE: &CStr = c"CACHEDIR.TAG";
const SIGNATURE: &[u8; 43] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The names and conditions by which a file is a tag.
#[derive(Clone, Debug, Default)]
pub struct Tags {
    caches: bool,
    names: Vec<CString>,
}

impl Tags {
    /// Tags are files with these names, of any type; with `caches` also `CACHEDIR.TAG`, if it is a
    /// regular file that begins with the signature. A name with a NUL is ignored.
    pub fn new(caches: bool, names: &[impl AsRef<[u8]>]) -> Tags {
        let names = names.iter();
        let names = names.filter_map(|name| CString::new(name.as_ref()).ok());
        Tags {
            caches,
            names: names.collect(),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &CStr> {
        let names = self.names.iter().map(CString::as_c_str);
        names.chain(self.caches.then_some(CACHE))
    }

    /// The tags in an open directory.
    pub fn find(&self, dir: &Fd) -> FoundTags {
        let is_there = |name: &&CString| file_type(dir, name).is_some();
        let mut found: Vec<CString> = self.names.iter().filter(is_there).cloned().collect();
        if self.caches && is_cache(dir) {
            found.push(CACHE.to_owned());
        }
        FoundTags(found)
    }
}

/// The tags in a directory; none for a directory whose contents are not excluded.
#[derive(Clone, Debug, Default)]
pub struct FoundTags(Vec<CString>);

impl FoundTags {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an entry of the directory is kept: always without tags, otherwise only a tag itself.
    #[inline]
    pub fn keep(&self, name: &[u8]) -> bool {
        self.0.is_empty() || self.0.iter().any(|tag| tag.to_bytes() == name)
    }
}

fn file_type(dir: &Fd, name: &CStr) -> Option<FileType> {
    Some(lstatat(dir, name, StatxMask::TYPE).ok()?.file_type)
}

/// Whether a directory has a valid CACHEDIR.TAG. If the file cannot be read, the contents are kept,
/// and a walk or dump of them reports the error.
fn is_cache(dir: &Fd) -> bool {
    // Opening a device or FIFO may have side effects.
    if file_type(dir, CACHE) != Some(FileType::Regular) {
        return false;
    }
    let how = Open::NOFOLLOW | Open::NONBLOCK;
    let fd = openat(dir, CACHE, how | Open::NOATIME).or_else(|_| openat(dir, CACHE, how));
    let mut begin = [0; SIGNATURE.len()];
    fd.is_ok_and(|fd| read(&fd, &mut begin) == Ok(begin.len()) && begin == *SIGNATURE)
}
