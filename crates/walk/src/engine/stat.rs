//! `stat`: one thread, directory by directory, statx(2) of every name. The plain reference, and what the other engines
//! fall back on where their own way does not lead.

use std::ffi::CStr;

use gate::Gate;
use gate::fs::{Statx, getdents64};

use super::{Engine, Ground, Refusal};
use crate::entry::{Dir, Entry, Meta};
use crate::job::{Crossing, Job, Place, look_at};
use crate::sink::Worker;

/// One thread, statx(2) of every name.
#[derive(Clone, Copy, Debug)]
pub struct Stat;

impl Engine for Stat {
    fn name(&self) -> &'static str {
        "stat"
    }

    fn possible(&self, _: &Ground<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), Refusal> {
        subtree(job, &mut *job.sink.worker(), job.place());
        Ok(())
    }
}

/// Bytes of directory entries that are read at a time.
pub(crate) const BUFFER: usize = 64 << 10;

/// Hands over everything below a place.
pub(crate) fn subtree(job: &Job<'_>, worker: &mut dyn Worker, place: Place) {
    let mut buffer = vec![0; BUFFER];
    let mut pending = vec![place];
    while let Some(place) = pending.pop() {
        if job.is_over() {
            return;
        }
        let path = if job.wants_paths() { job.path(&place) } else { Vec::new() };
        let dir = Dir { path: &path, hash: place.hash, depth: place.depth };
        list(job, &place, &dir, &mut buffer, |entries| {
            for entry in entries {
                if entry.meta.is_dir() && job.filter.enters(dir.depth + 1) && job.enters(entry.meta.dev) {
                    pending.push(place.below(entry.name));
                }
            }
            job.give(worker, &dir, entries);
        });
    }
}

/// Reads a directory, looks at every name, and gives what is in this mount, a buffer at a time. Names at which other mounts
/// lie, and failures, go to the job.
pub(crate) fn list(job: &Job<'_>, place: &Place, dir: &Dir<'_>, buffer: &mut [u8], mut each: impl FnMut(&[Entry<'_>])) {
    if !job.filter.enters(dir.depth) {
        return;
    }
    let fd = match job.open(place) {
        Ok(fd) => fd,
        Err(gate::Errno::EXDEV) => return cross_at(job, place),
        Err(e) => return job.failed(place, b"", Gate::Openat2, e),
    };
    loop {
        let bytes = match getdents64(&fd, buffer) {
            Ok(0) => return,
            Ok(n) => &buffer[..n],
            Err(gate::Errno::ENOENT) => return, // removed while it was being read
            Err(e) => return job.failed(place, b"", Gate::Getdents64, e),
        };
        let mut found = Vec::new();
        for entry in ondisk::dirent::entries(bytes) {
            let name = entry.name.to_bytes();
            if !job.filter.keeps(dir.path, name) {
                continue;
            }
            match look_at(&fd, entry.name) {
                Ok(s) => sort_out(job, || place.clone(), entry.name, &s, &mut found),
                Err(e) => job.failed(place, name, Gate::Statx, e),
            }
        }
        each(&found);
        if job.is_over() {
            return;
        }
    }
}

/// What was seen at a name is an entry of this mount, or the way into another.
pub(crate) fn sort_out<'a>(
    job: &Job<'_>,
    place: impl FnOnce() -> Place,
    name: &'a CStr,
    s: &Statx,
    found: &mut Vec<Entry<'a>>,
) {
    if job.is_crossing(s) {
        job.cross(Crossing { dir: place(), name: name.to_bytes().to_vec() });
    } else {
        found.push(Entry { name: name.to_bytes(), meta: Meta::of(s) });
    }
}

/// A mount has come to lie on a directory that was found to be one of this mount, and has been handed over.
pub(crate) fn cross_at(job: &Job<'_>, place: &Place) {
    job.warn(mounts::Warning::about(
        &job.path(place),
        "was mounted on while the tree was being walked; what is in it is left out, walk it again",
    ));
}
