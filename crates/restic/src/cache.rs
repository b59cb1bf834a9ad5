//! Index files of a repository on a server, in the directory in which restic keeps them: a file is named by the hash of its
//! contents, so it is as good as the repository's, whoever has written it.

use std::io::Write;

use gate::Errno;
use gate::create::mkdirat;
use gate::file::{Writer, unlinkat};
use gate::fs::{CWD, Open};
use gate::long::{c_string, open_long};
use gate::sync::Mutex;

use crate::id::Id;
use crate::repository::{names, read_file};

/// A cache that is never needed: what fails costs time only.
pub(crate) struct Cache {
    dir: Vec<u8>,
    failed: Mutex<Option<Errno>>,
}

impl Cache {
    /// The cache of a repository in the directory with the caches of all.
    pub(crate) fn open(base: &[u8], repository: &str) -> Cache {
        const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n";
        let cache = Cache {
            dir: [base, b"/", repository.as_bytes(), b"/index"].concat(),
            failed: Mutex::default(),
        };
        cache.try_to(|| {
            if make_dirs(base)? {
                // Backups skip the directory.
                write_file(&[base, b"/CACHEDIR.TAG"].concat(), SIGNATURE)?;
            }
            make_dirs(&cache.dir).map(drop)
        });
        cache
    }

    /// Why files are not kept, if they are not.
    pub(crate) fn failed(&self) -> Option<Errno> {
        *self.failed.lock()
    }

    fn try_to(&self, act: impl FnOnce() -> Result<(), Errno>) {
        if let Err(errno) = act() {
            self.failed.lock().get_or_insert(errno);
        }
    }

    fn subdir(&self, name: &str) -> Vec<u8> {
        [&self.dir, &b"/"[..], &name.as_bytes()[..2]].concat()
    }

    fn path(&self, name: &str) -> Vec<u8> {
        [&self.subdir(name), &b"/"[..], name.as_bytes()].concat()
    }

    /// A file, if it is here and undamaged.
    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = read_file(&self.path(name), None).ok()?;
        (Id::of(&bytes).to_string() == name).then_some(bytes)
    }

    /// Keeps a file.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        if self.failed().is_none() {
            self.try_to(|| {
                make_dirs(&self.subdir(name))?;
                write_file(&self.path(name), bytes)
            });
        }
    }

    /// Removes the files that the repository no longer has.
    pub(crate) fn retain(&self, is_used: impl Fn(&str) -> bool) {
        let list = |path: &[u8]| {
            let dir = open_long(path, Open::DIRECTORY);
            dir.and_then(|dir| names(&dir)).unwrap_or_default()
        };
        let subdirs = list(&self.dir);
        let files = subdirs.iter().filter(|dir| dir.len() == 2).flat_map(|dir| {
            let below = [&self.dir, &b"/"[..], dir.as_bytes()].concat();
            list(&below)
        });
        for name in files.filter(|name| name.len() > 2 && !is_used(name)) {
            let removed = c_string(&self.path(&name)).and_then(|path| unlinkat(CWD, &path));
            // Another process may have removed it, or the cache is read-only, and the file harmless.
            let _ = removed;
        }
    }
}

/// Makes a directory and those above it; whether it did not exist.
fn make_dirs(path: &[u8]) -> Result<bool, Errno> {
    let make = |path: &[u8]| mkdirat(CWD, &c_string(path)?, 0o700);
    match make(path) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(Errno::ENOENT) => {
            let above = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            if above == 0 {
                return Err(Errno::ENOENT);
            }
            make_dirs(&path[..above])?;
            make(path).map(|()| true)
        }
        Err(errno) => Err(errno),
    }
}

fn write_file(path: &[u8], content: &[u8]) -> Result<(), Errno> {
    let mut file = Writer::create(path)?;
    let written = file.write_all(content);
    written.map_err(|e| Errno(e.raw_os_error().unwrap_or(Errno::EIO.0)))?;
    file.publish()
}
