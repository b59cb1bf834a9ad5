//! Joins names with the inodes from bulkstat.
//!
//! The lists of names are cut into spans of inode numbers. A thread takes a span, sorts its names
//! by inode number, and reads the inodes from that of the first name on; bulkstat returns them in
//! the same order.

use std::convert::Infallible;

use base::pool::share;
use gate::fs::Time;
use gate::xfs::BulkBuffer;
use ondisk::xfs::{Geometry, Inode};

use super::inodes::{ROWS, bulkstat, is_settled, meta_of};
use super::names::{NameEntry, NameLists};
use crate::engine::crew::{crew, most_threads};
use crate::engine::stat::walk_below;
use crate::entry::{Entry, Meta};
use crate::job::{Job, JobDirectory};
use crate::key::DirKey;
use crate::sink::Worker;

/// Emits the entries of the name lists. Files that have changed at `since` or later are read by
/// name.
pub(super) fn join(job: &Job<'_>, names: &NameLists, shape: &Geometry, since: Time) {
    let spans = spans(names, shape);
    let most = spans.len().min(most_threads());
    let start = |run: &(dyn Fn(_) + Sync)| {
        crew(job.threads, most, || {
            let joiner = BulkstatJoiner {
                job,
                names,
                shape,
                since,
                worker: job.sink.worker(),
                dir: None,
                path: Vec::new(),
                place: None,
                batch: Vec::with_capacity(BATCH),
                unread: Vec::new(),
            };
            run((joiner, BulkBuffer::new(ROWS)));
        })
    };
    let Ok(()) = share(spans.len(), start, |(joiner, buffer), nth| {
        if !job.is_over() {
            joiner.span(&names_of(names, spans[nth]), buffer);
        }
        Ok::<(), Infallible>(())
    });
}

/// Maximum number of entries that are passed to the sink at a time.
const BATCH: usize = 128;
/// Maximum gap between inode numbers that one call reads, unless [`BulkstatBatchSize`] allows more.
const APART: u64 = 64;

/// A range of inode numbers: first and last.
type InodeSpan = (u64, u64);

/// Divides the inode numbers into spans with about equally many names, in an order that lets
/// threads work in different allocation groups.
fn spans(names: &NameLists, shape: &Geometry) -> Vec<InodeSpan> {
    const STEP: usize = 512;
    const STEPS: usize = 16;
    let samples = names
        .lists
        .iter()
        .flat_map(|list| list.iter().step_by(STEP));
    let mut samples: Vec<u64> = samples.map(|name| name.ino).collect();
    samples.sort_unstable();
    let mut starts: Vec<u64> = samples.chunks(STEPS).map(|some| some[0]).collect();
    starts.dedup();
    let next_starts = starts.iter().skip(1);
    let ends = next_starts.map(|start| start - 1).chain([u64::MAX]);
    let spans: Vec<InodeSpan> = starts.iter().copied().zip(ends).collect();
    // Sort the spans: the first span of each allocation group, then the second of each, and so on.
    let by_group = spans.chunk_by(|a, b| shape.group_of(a.0) == shape.group_of(b.0));
    let mut numbered: Vec<(usize, InodeSpan)> = by_group
        .flat_map(|spans| spans.iter().copied().enumerate())
        .collect();
    numbered.sort_unstable();
    numbered.into_iter().map(|(_, span)| span).collect()
}

fn names_of(names: &NameLists, (first, last): InodeSpan) -> Vec<NameEntry> {
    let mut all = Vec::new();
    let mut parts = 0;
    for list in &names.lists {
        let from = list.partition_point(|name| name.ino < first);
        let len = list[from..].partition_point(|name| name.ino <= last);
        all.extend_from_slice(&list[from..from + len]);
        parts += usize::from(len > 0);
    }
    if parts > 1 {
        // Merge the sorted parts: a stable sort is fast on these.
        all.sort_by_key(|name| name.ino);
    }
    all
}

struct BulkstatJoiner<'a> {
    job: &'a Job<'a>,
    names: &'a NameLists,
    shape: &'a Geometry,
    since: Time,
    worker: Box<dyn Worker + 'a>,
    /// Number and key of the directory whose entries are in the batch.
    dir: Option<(u32, DirKey)>,
    /// Path of the directory, if the sink needs paths.
    path: Vec<u8>,
    /// Location of the directory, once an entry was read by name.
    place: Option<JobDirectory>,
    batch: Vec<Entry<'a>>,
    /// Directories that had a different type, or did not exist, when the names were read, so that
    /// their own entries have not been read.
    unread: Vec<JobDirectory>,
}

impl BulkstatJoiner<'_> {
    fn span(&mut self, names: &[NameEntry], buffer: &mut BulkBuffer) {
        let mut at = 0;
        let mut stride = BulkstatBatchSize::default();
        while let Some(&NameEntry { ino: from, .. }) = names.get(at)
            && !self.job.is_over()
        {
            let before = at;
            let near = inodes_near(names[at..].iter().map(|name| name.ino));
            let most = near.max(stride.inodes.min(names.len() - at));
            let group = self.shape.group_of(from);
            match bulkstat(&self.job.top.fd, group, from, most, buffer) {
                Ok(_) => {
                    let mut known = 0;
                    for row in buffer.rows() {
                        let ino = Inode::parse_ino(row);
                        at += self.settle_while(&names[at..], |name| name.ino < ino);
                        let same = names[at..].iter().take_while(|name| name.ino == ino);
                        let same = same.count();
                        if same > 0 {
                            known += 1;
                            self.found(&names[at..at + same], &Inode::parse(row));
                            at += same;
                        }
                    }
                    stride.update(buffer.rows().len(), known);
                }
                Err(_) => {
                    at += self.settle_while(&names[at..], |name| name.ino / APART == from / APART)
                }
            }
            if at == before {
                // bulkstat returned no inode for the name: the inode is not in use, or bulkstat
                // skips it.
                at += self.settle_while(&names[at..], |name| name.ino == from);
            }
        }
        self.flush();
        for place in std::mem::take(&mut self.unread) {
            walk_below(self.job, &mut *self.worker, place);
        }
    }

    /// Calls statx(2) for the first names for which `condition` holds, and returns their number.
    fn settle_while(
        &mut self,
        names: &[NameEntry],
        condition: impl Fn(&NameEntry) -> bool,
    ) -> usize {
        let some = names.iter().take_while(|name| condition(name));
        some.map(|name| self.reread_name(*name)).count()
    }

    fn found(&mut self, names: &[NameEntry], inode: &Inode) {
        for &name in names {
            if is_settled(inode, self.since) {
                self.push(name, meta_of(inode, &self.job.top.meta, self.shape));
            } else {
                self.reread_name(name);
            }
        }
    }

    fn reread_name(&mut self, name: NameEntry) {
        self.enter(name.dir);
        let bytes = self.names.name(name);
        let place = self.place.get_or_insert_with(|| self.names.place(name.dir));
        let seen = self.job.look(place, bytes);
        if let Some(meta) = self.job.sort_out(seen, || place.clone(), bytes) {
            self.push(name, meta);
        }
    }

    fn push(&mut self, name: NameEntry, meta: Meta) {
        self.enter(name.dir);
        let bytes = self.names.name(name);
        self.batch.push(Entry { name: bytes, meta });
        if meta.is_dir() && !name.is_dir() {
            let place = self.names.place(name.dir);
            if self.job.enters_entry(&meta, place.key, bytes) {
                self.unread.push(place.below(bytes));
            }
        }
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    /// Begins a batch for a different directory.
    fn enter(&mut self, dir: u32) {
        if self.dir.is_some_and(|(number, ..)| number == dir) {
            return;
        }
        self.flush();
        self.dir = Some((dir, self.names.key(dir)));
        self.place = None;
        self.path = self.job.dir_path(|| self.names.place(dir));
    }

    fn flush(&mut self) {
        if let Some((_, dir)) = self.dir
            && !self.batch.is_empty()
        {
            let dir = dir.dir(&self.path);
            self.job.emit(&mut *self.worker, &dir, &self.batch);
            self.batch.clear();
        }
    }
}

/// Number of inodes that one bulkstat call reads, however far apart their numbers are. XFS skips
/// numbers that are not in use, so one call can replace many; but it also returns inodes outside of
/// the walk. So the number doubles with each call, until too many inodes are outside.
#[derive(Debug, Default)]
pub(super) struct BulkstatBatchSize {
    pub(super) inodes: usize,
    is_over: bool,
}

impl BulkstatBatchSize {
    /// Adapts the number of inodes per call, after a call that returned `inodes`, of which `known`
    /// have names.
    pub(super) fn update(&mut self, inodes: usize, known: usize) {
        self.is_over |= known < inodes - inodes / 8;
        self.inodes = if self.is_over {
            0
        } else {
            ROWS.min(2 * self.inodes.max(known))
        };
    }
}

/// Counts the inodes among ascending numbers up to the first large gap; at most [`ROWS`].
pub(super) fn inodes_near(mut numbers: impl Iterator<Item = u64>) -> usize {
    let (mut inodes, mut last) = (1, numbers.next().unwrap_or(0));
    for ino in numbers {
        let apart = ino - last;
        if inodes == ROWS || apart > APART {
            break;
        }
        inodes += usize::from(apart > 0);
        last = ino;
    }
    inodes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name lists with these inode numbers, and a file system with 65,536 inode numbers per group.
    fn some_names(lists: &[Vec<u64>]) -> (NameLists, Geometry) {
        let mut bytes = [0; 256];
        for (at, value) in [(0, 4096_u32), (8, 6400), (12, 4), (24, 512)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let list = |inos: &Vec<u64>| inos.iter().map(|&ino| NameEntry::new(ino)).collect();
        let mut names = NameLists::default();
        names.lists = lists.iter().map(list).collect();
        (names, Geometry::parse(&bytes).unwrap())
    }

    #[test]
    fn spans_hold_each_name_once_and_begin_in_different_groups() {
        let lists = [
            (0..40_000).map(|n| n * 6).collect(),
            (0..30_000).map(|n| n * 7).collect(),
            vec![5; 20_000],
            Vec::new(),
            vec![u64::MAX],
        ];
        let (names, shape) = some_names(&lists);
        let all_spans = spans(&names, &shape);
        let groups: Vec<u32> = all_spans
            .iter()
            .take(4)
            .map(|&(first, _)| shape.group_of(first))
            .collect();
        assert_eq!(groups, [0, 1, 2, 3]);
        let mut found: Vec<u64> = Vec::new();
        for &span in &all_spans {
            let some: Vec<u64> = names_of(&names, span).iter().map(|name| name.ino).collect();
            assert!(some.is_sorted() && some.len() < 60_000);
            found.extend(some);
        }
        let mut all = lists.concat();
        all.sort_unstable();
        found.sort_unstable();
        assert!(found == all);
        let (nothing, shape) = some_names(&[]);
        assert!(spans(&nothing, &shape).is_empty());
    }

    #[test]
    fn stride_doubles_while_most_inodes_have_names() {
        let mut stride = BulkstatBatchSize::default();
        let mut asked = |inodes, known| {
            stride.update(inodes, known);
            stride.inodes
        };
        assert_eq!(
            [(64, 64), (128, 120), (240, 240), (480, 480), (960, 960)].map(|(i, k)| asked(i, k)),
            [128, 256, 512, ROWS, ROWS]
        );
        assert_eq!(
            [(1024, 500), (64, 64), (0, 0)].map(|(i, k)| asked(i, k)),
            [0, 0, 0]
        );
    }

    #[test]
    fn only_inodes_near_the_first_name_are_counted() {
        let near = |inos: &[u64]| inodes_near(inos.iter().copied());
        assert_eq!(near(&[7]), 1);
        assert_eq!(near(&[7, 7, 8, 8 + APART]), 3);
        assert_eq!(near(&[7, 8, 9 + APART, 10 + APART]), 2);
        assert_eq!(near(&(0..9999).collect::<Vec<_>>()), ROWS);
    }
}
