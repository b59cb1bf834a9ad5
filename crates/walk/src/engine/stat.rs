//! `stat`: one thread, directory by directory, statx(2) of every name. The reference, and the
//! fallback of the other engines.

use std::ffi::CStr;
use std::sync::Arc;

use gate::fs::Statx;
use gate::process::spare_open_files;
use gate::{Errno, Fd, Gate};

use super::crew;
use super::node::DirectoryNode;
use super::opened::{OpenDirs, OpenedDirectory};
use crate::entry::{Dir, Entry, Meta};
use crate::error::EngineRefusal;
use crate::filter::Matcher;
use crate::job::{Engine, Job, JobDirectory, look_at};
use crate::sink::Worker;

pub(super) struct Stat;

impl Engine for Stat {
    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        walk_alone(look_once, job);
        Ok(())
    }
}

/// A function that returns the statx(2) result for a name in an open directory, and whether the
/// file has extended attributes.
pub(super) type StatFunction = fn(&Fd, &CStr) -> Result<(Statx, Option<bool>), Errno>;

pub(super) fn look_once(dir: &Fd, name: &CStr) -> Result<(Statx, Option<bool>), Errno> {
    Ok((look_at(dir, name)?, None))
}

pub(crate) const BUFFER: usize = 64 << 10;

/// Emits everything below a directory. Several threads of an engine may call this at the same time.
pub(crate) fn walk_below(job: &Job<'_>, worker: &mut dyn Worker, place: JobDirectory) {
    let threads = job.threads.unwrap_or(crew::MOST).max(1);
    let open = OpenDirs::within(spare_open_files() / 4 / threads);
    walk_below_by(look_once, job, worker, place, &open);
}

/// Emits everything below the top of a walk, in one thread.
pub(super) fn walk_alone(look: StatFunction, job: &Job<'_>) {
    let open = OpenDirs::within(spare_open_files() / 4);
    walk_below_by(look, job, &mut *job.sink.worker(), job.place(), &open);
}

fn walk_below_by(
    look: StatFunction,
    job: &Job<'_>,
    worker: &mut dyn Worker,
    place: JobDirectory,
    open: &OpenDirs,
) {
    let mut lister = DirectoryLister::new(job, look);
    let mut pending = vec![(
        Arc::new(DirectoryNode::new(place, None)),
        None::<Arc<OpenedDirectory>>,
    )];
    while let Some((node, from)) = pending.pop() {
        if !job.filter.enters(node.key.depth) {
            continue;
        }
        let place = node.place();
        let opened = match open.directory(job, || place.clone(), &node.name, from.as_deref()) {
            Ok(opened) => opened,
            Err(errno) => {
                job.unopened(&place, errno);
                continue;
            }
        };
        let path = job.dir_path(|| &place);
        let dir = place.key.dir(&path);
        lister.read(&place, &dir, &opened, |entries| {
            for Entry { name, meta } in entries {
                if job.enters_entry(meta, place.key, name) {
                    pending.push((node.child(name, meta.ino), open.keep(&opened)));
                }
            }
            job.emit(worker, &dir, entries);
        });
        if job.is_over() {
            return;
        }
    }
}

pub(super) struct DirectoryLister<'a> {
    job: &'a Job<'a>,
    look: StatFunction,
    matcher: Matcher<'a>,
    buffer: Vec<u8>,
}

impl<'a> DirectoryLister<'a> {
    pub(super) fn new(job: &'a Job<'a>, look: StatFunction) -> DirectoryLister<'a> {
        DirectoryLister {
            job,
            look,
            matcher: job.filter.matcher(),
            buffer: vec![0; BUFFER],
        }
    }

    pub(super) fn list(
        &mut self,
        place: &JobDirectory,
        dir: &Dir<'_>,
        each: impl FnMut(&[Entry<'_>]),
    ) {
        match OpenDirs::within(0).directory(self.job, || place.clone(), b"", None) {
            Ok(opened) => self.read(place, dir, &opened, each),
            Err(errno) => self.job.unopened(place, errno),
        }
    }

    /// Reads a directory, calls statx(2) for every name, and passes the entries on this mount to
    /// `each`, a buffer at a time.
    fn read(
        &mut self,
        place: &JobDirectory,
        dir: &Dir<'_>,
        opened: &OpenedDirectory,
        mut each: impl FnMut(&[Entry<'_>]),
    ) {
        let job = self.job;
        self.matcher.enter(dir.path);
        loop {
            let bytes = match opened.read(&mut self.buffer) {
                Ok(0) => return,
                Ok(n) => &self.buffer[..n],
                Err(e) => return job.failed(place, b"", Gate::Getdents64, e),
            };
            let mut found = Vec::new();
            for entry in ondisk::dirent::entries(bytes) {
                let name = entry.name.to_bytes();
                if !self.matcher.keeps(name)
                    || !opened.tags.keep(name)
                    || job.is_elsewhere(place.key, entry)
                {
                    continue;
                }
                let (seen, xattrs) = match (self.look)(&opened.fd, entry.name) {
                    Ok((seen, xattrs)) => (Ok(seen), xattrs),
                    Err(errno) => (Err(errno), None),
                };
                if let Some(meta) = job.sort_out(seen, || place.clone(), name) {
                    let meta = Meta { xattrs, ..meta };
                    found.push(Entry { name, meta });
                }
            }
            each(&found);
            if job.is_over() {
                return;
            }
        }
    }
}
