//! `stat`: one thread, directory by directory, statx(2) of every name. The plain reference, and
//! what the other engines fall back on where their own way does not lead.

use std::ffi::CStr;

use std::sync::Arc;

use gate::fs::Statx;
use gate::process::raise_open_files;
use gate::{Errno, Fd, Gate};

use super::opened::{OpenDirs, Opened};
use super::{Engine, MountContext};
use crate::entry::{Dir, Entry, Meta};
use crate::error::{EngineRefusal, WarningKind};
use crate::job::{Crossing, Job, Place, look_at};
use crate::sink::Worker;

/// One thread, statx(2) of every name.
#[derive(Clone, Copy, Debug)]
pub struct Stat;

impl Engine for Stat {
    fn possible(&self, _: &MountContext<'_>) -> Result<(), EngineRefusal> {
        Ok(())
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        subtree(job, &mut *job.sink.worker(), job.place());
        Ok(())
    }
}

/// A way to learn of a name in an open directory what statx(2) says, and whether it has extended
/// attributes.
pub(super) type Look = fn(&Fd, &CStr) -> Result<(Statx, Option<bool>), Errno>;

/// With one call.
fn at_once(dir: &Fd, name: &CStr) -> Result<(Statx, Option<bool>), Errno> {
    Ok((look_at(dir, name)?, None))
}

/// Bytes of directory entries that are read at a time.
pub(crate) const BUFFER: usize = 64 << 10;

/// Hands over everything below a place.
pub(crate) fn subtree(job: &Job<'_>, worker: &mut dyn Worker, place: Place) {
    subtree_by(at_once, job, worker, place);
}

/// [`subtree`], by a way to look of one's own.
pub(super) fn subtree_by(look: Look, job: &Job<'_>, worker: &mut dyn Worker, place: Place) {
    let open = OpenDirs::within(raise_open_files() / 4);
    let mut buffer = vec![0; BUFFER];
    let mut pending = vec![(place, None::<Arc<Opened>>)];
    while let Some((place, from)) = pending.pop() {
        if !job.filter.enters(place.depth) {
            continue;
        }
        let name = place.rel.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let opened = match open.directory(job, || place.clone(), name, from.as_deref()) {
            Ok(opened) => opened,
            Err(Errno::EXDEV) => {
                cross_at(job, &place);
                continue;
            }
            Err(e) => {
                job.failed(&place, b"", Gate::Openat2, e);
                continue;
            }
        };
        let path = if job.wants_paths() {
            job.path(&place)
        } else {
            Vec::new()
        };
        let dir = Dir {
            path: &path,
            hash: place.hash,
            depth: place.depth,
        };
        read(look, job, &place, &dir, &opened, &mut buffer, |entries| {
            for entry in entries {
                if entry.meta.is_dir()
                    && job.filter.enters(dir.depth + 1)
                    && job.enters(entry.meta.dev)
                {
                    pending.push((place.below(entry.name), open.keep(&opened)));
                }
            }
            job.give(worker, &dir, entries);
        });
        if job.is_over() {
            return;
        }
    }
}

/// Opens a directory, and reads it.
pub(crate) fn list(
    job: &Job<'_>,
    place: &Place,
    dir: &Dir<'_>,
    buffer: &mut [u8],
    each: impl FnMut(&[Entry<'_>]),
) {
    match OpenDirs::within(0).directory(job, || place.clone(), b"", None) {
        Ok(opened) => read(at_once, job, place, dir, &opened, buffer, each),
        Err(Errno::EXDEV) => cross_at(job, place),
        Err(e) => job.failed(place, b"", Gate::Openat2, e),
    }
}

/// Reads a directory, looks at every name, and gives what is in this mount, a buffer at a time.
/// Names at which other mounts lie, and failures, go to the job.
fn read(
    look: Look,
    job: &Job<'_>,
    place: &Place,
    dir: &Dir<'_>,
    opened: &Opened,
    buffer: &mut [u8],
    mut each: impl FnMut(&[Entry<'_>]),
) {
    loop {
        let bytes = match opened.read(buffer) {
            Ok(0) => return,
            Ok(n) => &buffer[..n],
            Err(e) => return job.failed(place, b"", Gate::Getdents64, e),
        };
        let mut found = Vec::new();
        for entry in ondisk::dirent::entries(bytes) {
            let name = entry.name.to_bytes();
            if !job.filter.keeps(dir.path, name) {
                continue;
            }
            let known = found.len();
            match look(opened.fd(), entry.name) {
                Ok((s, xattrs)) => {
                    sort_out(job, || place.clone(), entry.name, &s, &mut found);
                    found
                        .get_mut(known)
                        .into_iter()
                        .for_each(|new: &mut Entry<'_>| new.meta.xattrs = xattrs);
                }
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
        job.cross(Crossing {
            dir: place(),
            name: name.to_bytes().to_vec(),
        });
    } else {
        found.push(Entry {
            name: name.to_bytes(),
            meta: Meta::from_statx(s),
        });
    }
}

/// A mount has come to lie on a directory that was found to be one of this mount, and has been
/// handed over.
pub(crate) fn cross_at(job: &Job<'_>, place: &Place) {
    job.warn(mounts::Warning::about(
        &job.path(place),
        WarningKind::MountedMeanwhile,
    ));
}
