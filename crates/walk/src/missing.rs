//! Names that a directory lists, but that the kernel does not find.
//!
//! Most of these files were removed after their directory was read. But a faulty server or disk
//! gives the same errors for files that exist. So each directory is listed again: a name that is
//! not listed any more was removed, and one that is still listed is looked up again. A file that
//! fails several times, though it is listed each time, is reported. A file that is removed and
//! created again all the time, such as a lock file, hardly ever fails several times.

use std::collections::BTreeMap;

use base::Warning;
use gate::fs::{FileType, Statx};
use gate::{Errno, Gate};
use mounts::listed::{is_gone, is_removed_from, listed};

use crate::engine::stat::walk_below;
use crate::entry::{Entry, Meta};
use crate::error::WarningKind;
use crate::job::{Job, JobDirectory, Missing};

/// Number of times that a directory is listed again for a missing name.
const LOOKS: usize = 4;

impl Job<'_> {
    /// Looks up missing files again: emits those that exist after all, with everything below them,
    /// and reports those that are listed and cannot be found.
    pub(crate) fn look_again(&self) {
        for _ in 0..LOOKS {
            let missing = std::mem::take(&mut self.missing.lock().0);
            if missing.is_empty() || self.is_over() {
                break;
            }
            let mut by_dir: BTreeMap<Vec<u8>, Vec<Missing>> = BTreeMap::new();
            for one in missing {
                let dir = one.listed().0.to_vec();
                by_dir.entry(dir).or_default().push(one);
            }
            for (dir, missing) in by_dir {
                self.look_again_in(&dir, missing);
            }
        }
        let (left, more) = std::mem::take(&mut *self.missing.lock());
        left.iter().for_each(|one| self.report(one));
        if more > 0 {
            self.warn(Warning::general(WarningKind::NotFound(more)));
        }
    }

    fn look_again_in(&self, dir: &[u8], mut missing: Vec<Missing>) {
        let place = |rel: &[u8]| JobDirectory {
            rel: rel.to_vec(),
            ..self.place()
        };
        let dir = place(dir);
        let open = |rel: &[u8]| self.open(&place(rel));
        for _ in 0..LOOKS {
            let names = missing.iter().map(|one| one.listed().1).collect();
            match self.open(&dir).and_then(|fd| listed(&fd, &names)) {
                Ok(listed) => missing.retain(|one| listed.contains(one.listed().1)),
                Err(errno) if is_gone(errno) && is_removed_from(&dir.rel, true, open) => return,
                Err(errno) => return self.warn_failed(&dir, b"", Gate::Openat2, errno),
            }
            missing.retain_mut(|one| self.is_still_missing(&dir, one));
            if missing.is_empty() {
                return;
            }
        }
        missing.iter().for_each(|one| self.report(one));
    }

    /// Looks up a file again that a directory lists, and emits it if it exists. Returns whether it
    /// is still missing.
    fn is_still_missing(&self, dir: &JobDirectory, one: &mut Missing) -> bool {
        let Missing { place, name, .. } = &*one;
        let looked = if one.gate == Gate::Getdents64 {
            // After a failed getdents64, do not read the directory again: the entries before the
            // failure have been emitted, and a different directory may have this name now.
            Err(one.errno)
        } else if name.is_empty() {
            self.open(place)
                .map(|_| walk_below(self, &mut *self.sink.worker(), place.clone()))
        } else {
            self.look(place, name)
                .map(|seen| self.emit_found(place, name, &seen))
        };
        let Err(errno) = looked else {
            return false;
        };
        one.errno = errno;
        if !is_gone(errno) {
            self.report(one);
            return false;
        }
        // If a file of a different type has replaced a directory, the directory is not missing.
        let seen = || self.look(dir, one.listed().1);
        let is_dir = |seen: Statx| seen.file_type == FileType::Directory;
        !one.name.is_empty() || seen().map_or(true, is_dir)
    }

    fn emit_found(&self, place: &JobDirectory, name: &[u8], seen: &Statx) {
        if self.is_crossing(seen) {
            return self.cross(place.clone(), name);
        }
        let mut worker = self.sink.worker();
        let (path, meta) = (self.dir_path(|| place), Meta::from_statx(seen));
        self.emit(&mut *worker, &place.key.dir(&path), &[Entry { name, meta }]);
        if self.enters_entry(&meta, place.key, name) {
            walk_below(self, &mut *worker, place.below(name));
        }
    }

    fn report(&self, missing: &Missing) {
        let Missing { place, name, .. } = missing;
        if missing.errno == Errno::EXDEV {
            self.unopened(place, Errno::EXDEV);
        } else {
            self.warn_failed(place, name, missing.gate, missing.errno);
        }
    }
}
