//! restic's local cache of index files, snapshots and tree packs of a remote repository. A file is
//! named by the hash of its contents, so its writer need not be trusted.

use gate::Errno;
use gate::file::unlinkat;
use gate::fs::{CWD, Open};
use gate::long::{c_string, open_long};
use gate::sync::Mutex;

use crate::id::{Id, IdSet};
use crate::local::{Modes, make_dirs, names, read_file, write_file};
use crate::repository_file::RepositoryFile;

const MODES: Modes = Modes::PRIVATE;

/// The local cache of a remote repository. Failures of the cache only cost time.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: Vec<u8>,
    /// Ids of cached packs whose contents were verified.
    checked: Mutex<IdSet>,
    failed: Mutex<Option<Errno>>,
}

impl Cache {
    /// Opens the cache of a repository in `base`, the directory of all caches.
    pub(crate) fn open(base: &[u8], repository: &str) -> Cache {
        const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n";
        let cache = Cache {
            dir: [base, b"/", repository.as_bytes()].concat(),
            checked: Mutex::default(),
            failed: Mutex::default(),
        };
        cache.try_to(|| {
            if make_dirs(base, MODES)? {
                // CACHEDIR.TAG, so that backups skip the directory.
                write_file(&[base, b"/CACHEDIR.TAG"].concat(), SIGNATURE, MODES)?;
            }
            make_dirs(&cache.dir, MODES).map(drop)
        });
        cache
    }

    /// The error that disabled writing to the cache, if any.
    pub(crate) fn failed(&self) -> Option<Errno> {
        *self.failed.lock()
    }

    fn try_to(&self, act: impl FnOnce() -> Result<(), Errno>) {
        if let Err(errno) = act() {
            self.failed.lock().get_or_insert(errno);
        }
    }

    fn subdir(&self, kind: RepositoryFile, id: &Id) -> Vec<u8> {
        let below = format!("/{}/{}", kind.dir(), &id.to_string()[..2]);
        [&self.dir, below.as_bytes()].concat()
    }

    fn path(&self, kind: RepositoryFile, id: &Id) -> Vec<u8> {
        [&self.subdir(kind, id), &b"/"[..], id.to_string().as_bytes()].concat()
    }

    /// A cached file, if it exists and is undamaged.
    pub(crate) fn get(&self, kind: RepositoryFile, id: &Id) -> Option<Vec<u8>> {
        let bytes = read_file(&self.path(kind, id), None).ok()?;
        is_sound(id, &bytes).then_some(bytes)
    }

    /// Adds a file, unless it is damaged.
    pub(crate) fn put(&self, kind: RepositoryFile, id: &Id, bytes: &[u8]) {
        if self.failed().is_none() && is_sound(id, bytes) {
            self.try_to(|| {
                make_dirs(&self.subdir(kind, id), MODES)?;
                let path = self.path(kind, id);
                // Remove an existing file first: writing would follow a symbolic link, or write to
                // a FIFO.
                match remove(&path) {
                    Ok(()) | Err(Errno::ENOENT) => write_file(&path, bytes, MODES),
                    Err(errno) => Err(errno),
                }
            });
        }
    }

    /// A range of a cached file. A missing file is loaded from the repository; an existing one is
    /// verified on first use.
    pub(crate) fn part(
        &self,
        kind: RepositoryFile,
        id: &Id,
        part: (u64, usize),
        load: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        // Hold the lock while loading: other threads probably need the same file.
        let mut checked = self.checked.lock();
        if !checked.contains(id) {
            if self.get(kind, id).is_none() {
                if self.failed().is_some() {
                    return None;
                }
                let bytes = load()?;
                self.put(kind, id, &bytes);
                if self.failed().is_some() || !is_sound(id, &bytes) {
                    return None;
                }
            }
            checked.insert(*id);
        }
        drop(checked);
        read_file(&self.path(kind, id), Some(part)).ok()
    }

    /// Removes the cached files of a kind that the repository no longer has.
    pub(crate) fn retain(&self, kind: RepositoryFile, used: impl Iterator<Item = Id>) {
        let used: IdSet = used.collect();
        let list = |path: &[u8]| {
            let dir = open_long(path, Open::DIRECTORY | Open::NOFOLLOW);
            dir.and_then(|dir| names(&dir)).unwrap_or_default()
        };
        let id = |name: &String| Id::parse(name.as_bytes());
        let is_unused = |name: &String| id(name).is_some_and(|id| !used.contains(&id));
        let dir = [&self.dir, &b"/"[..], kind.dir().as_bytes()].concat();
        for subdir in list(&dir) {
            let subdir = [&dir, &b"/"[..], subdir.as_bytes()].concat();
            for name in list(&subdir).into_iter().filter(is_unused) {
                // Errors are harmless: another process may have removed the file, or the cache is
                // read-only.
                let _ = remove(&[&subdir, &b"/"[..], name.as_bytes()].concat());
            }
        }
    }
}

fn remove(path: &[u8]) -> Result<(), Errno> {
    unlinkat(CWD, &c_string(path)?)
}

fn is_sound(id: &Id, bytes: &[u8]) -> bool {
    Id::hash(bytes) == *id
}
