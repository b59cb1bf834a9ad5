//! One of several parts of a tree, each walked by a process that knows nothing of the others.
//!
//! A hash of the path assigns each entry to a shard: an entry not deeper than [`Shard::DEPTH`] by
//! its own path, a deeper entry by the path of its ancestor at that depth.
//!
//! ```text
//! DIR            0
//! ├── a          1   read by all shards, each of which takes some of the entries
//! │   └── b      2
//! │       ├── c  3   read by one shard, with everything below it
//! │       └── d  3   read by another one
//! ```
//!
//! The depth is fixed, so that shards agree on a tree that changes meanwhile.

use crate::entry::{Dir, Entry};
use crate::key::DirKey;
use crate::kind::EngineKind;
use crate::sink::{Fields, Sink, Worker};
use crate::top::MountContext;

/// A shard: one of several parts of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Number of this shard, from 0.
    pub number: u32,
    /// Number of shards.
    pub of: u32,
}

impl Shard {
    /// Depth at which a directory is assigned to a shard with everything below it.
    pub const DEPTH: u32 = 3;

    /// Whether this shard has the entry with this key, at most [`Shard::DEPTH`] levels below DIR.
    fn has(self, key: DirKey) -> bool {
        key.hash % u64::from(self.of) == u64::from(self.number)
    }

    /// Whether this shard has an entry of a directory that it [enters](Shard::enters).
    #[inline]
    pub(crate) fn has_entry(self, dir: DirKey, name: &[u8]) -> bool {
        dir.depth >= Shard::DEPTH
            || self.has(if name.is_empty() {
                dir
            } else {
                dir.below(name)
            })
    }

    /// Whether this shard reads a directory, given that it reads the parent.
    #[inline]
    pub(crate) fn enters(self, key: DirKey) -> bool {
        key.depth != Shard::DEPTH || self.has(key)
    }

    /// Whether this shard has the entries of a directory, for an engine that reads the whole file
    /// system.
    pub(crate) fn enters_below(self, root: &[u8], dir: &Dir<'_>) -> bool {
        if dir.key.depth < Shard::DEPTH {
            return true;
        }
        let below = dir.path.strip_prefix(root).unwrap_or(dir.path);
        let names = base::path::names(below).take(Shard::DEPTH as usize);
        self.has(names.fold(DirKey::default(), DirKey::below))
    }
}

/// A sink that passes on only the entries of a shard of the one DIR.
pub(crate) struct ShardSink<'a> {
    shard: Shard,
    root: &'a [u8],
    sink: &'a dyn Sink,
}

impl<'a> ShardSink<'a> {
    /// A sink for the shard; `None` if the whole tree is walked.
    pub(crate) fn new(
        shard: Option<Shard>,
        dirs: &'a [Vec<u8>],
        sink: &'a dyn Sink,
    ) -> Option<ShardSink<'a>> {
        match (shard, dirs) {
            (Some(shard), [root]) => Some(ShardSink { shard, root, sink }),
            _ => None,
        }
    }
}

impl Sink for ShardSink<'_> {
    fn begin(&self, context: &MountContext<'_>, by: EngineKind) {
        self.sink.begin(context, by);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(ShardWorker {
            to: self,
            worker: self.sink.worker(),
            last: None,
        })
    }

    fn fields(&self) -> Fields {
        self.sink.fields()
    }

    fn wants_shape(&self) -> bool {
        self.sink.wants_shape()
    }

    fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }
}

struct ShardWorker<'a> {
    to: &'a ShardSink<'a>,
    worker: Box<dyn Worker + 'a>,
    /// The directory of the last entries, and whether the shard has it.
    last: Option<(DirKey, bool)>,
}

impl ShardWorker<'_> {
    fn choose<'e>(&mut self, dir: &Dir<'_>, entries: &'e [Entry<'e>]) -> Vec<Entry<'e>> {
        let ShardSink { shard, root, .. } = *self.to;
        let key = dir.key;
        let is_entered = match self.last {
            Some((last, is_entered)) if last == key => is_entered,
            _ => shard.enters_below(root, dir),
        };
        self.last = Some((key, is_entered));
        let entries = entries.iter().copied();
        entries
            .filter(|entry| is_entered && shard.has_entry(key, entry.name))
            .collect()
    }
}

impl Worker for ShardWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let chosen = self.choose(dir, entries);
        if !chosen.is_empty() {
            self.worker.take(dir, &chosen);
        }
    }

    fn pass_over(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let chosen = self.choose(dir, entries);
        self.worker.pass_over(dir, &chosen);
    }

    fn flush(&mut self) {
        self.worker.flush();
    }
}
