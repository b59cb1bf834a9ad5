//! Archives a tree by several threads. A task is a range of entries of a directory. Each
//! subdirectory becomes a new task, or keeps its tree of the last snapshot; files are read, cut
//! into blobs and stored. Storing a large blob is a task, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use archive::dump::{AttributeReader, OpenAncestors, Progress};
use archive::{Users, WarningKind};
use base::pool::{Queue, in_threads};
use catalog::rows::Rows;
use gate::Gate;
use gate::fs::{Time, readlinkat};
use gate::machine::processors;
use jiff::tz::TimeZone;
use walk::moment::{Granularity, may_be_since};
use walk::{FileType, Meta};

use crate::blobs::{BlobStore, BlobWriter};
use crate::chunker::Chunker;
use crate::contents::{Contents, EntryWarnings};
use crate::error::Error;
use crate::id::Id;
use crate::layout::{Layout, SourceRoot};
use crate::node::{
    Attributes, DeviceIds, Extra, NodeEncoder, ReadAttributes, collect_attributes, write_contents,
    write_subtree,
};
use crate::parent::{OldNode, TreeReader};
use crate::repository_file::BlobKind;
use crate::snapshot_file::SnapshotSummary;
use crate::trees::{Directory, Trees};

/// Maximum number of directories that each thread keeps open.
const OPEN_DIRECTORIES: usize = 24;
/// Maximum number of entries in a task.
const ENTRIES: usize = 64;
/// Number of bytes per read(2) of a large file.
const PIECE: usize = 256 << 10;
/// Maximum number of times to reread a small file that changes while it is read.
const TRIES: u32 = 3;
/// Number of threads per processor: more than one, because some threads wait for the disk.
const THREADS: usize = 2;

/// The tree to archive, and options.
pub(crate) struct Archiver<'a> {
    pub(crate) rows: &'a Arc<Rows>,
    pub(crate) users: &'a Users,
    pub(crate) device_ids: DeviceIds,
    pub(crate) zone: &'a TimeZone,
    /// For each row to replace, the row of a SRC inside another SRC that takes its place; `None`
    /// skips the row, because its directory is the repository itself.
    pub(crate) instead: BTreeMap<usize, Option<usize>>,
    /// For each row, whether the entry or anything below it has changed since the last snapshot, if
    /// known.
    pub(crate) changed: Option<&'a [bool]>,
    /// The minimum change time of files that may have changed since the last snapshot began.
    pub(crate) changed_since: Time,
    /// Number of threads; by default [`THREADS`] per processor.
    pub(crate) threads: Option<usize>,
    pub(crate) store: &'a BlobStore<'a>,
    pub(crate) reader: TreeReader<'a>,
    pub(crate) chunker: &'a Chunker,
    pub(crate) progress: &'a Progress,
    pub(crate) warnings: &'a EntryWarnings,
}

enum TreeTask {
    /// The entries of the directory `row`, starting at the row `from`.
    Entries {
        directory: Arc<Directory>,
        row: usize,
        from: usize,
    },
    /// A blob, which is a part of a file.
    Blob { id: Id, bytes: Vec<u8> },
}

/// The state of one run: tasks and trees.
struct Run<'a> {
    archiver: &'a Archiver<'a>,
    trees: Trees<'a>,
    queue: Queue<TreeTask, Error>,
    /// The number of blobs among the tasks, at most `most_blobs`.
    blobs: AtomicUsize,
    most_blobs: usize,
}

/// The state of one thread.
struct Worker<'a> {
    writer: BlobWriter<'a>,
    places: OpenAncestors<Arc<Rows>>,
    attributes: AttributeReader,
    encoder: NodeEncoder<'a>,
    buffer: Vec<u8>,
    /// The files of this thread, and the directories that keep their trees.
    summary: SnapshotSummary,
}

impl Archiver<'_> {
    /// Archives the tree, and returns its id, and the numbers of files and directories. `root` is
    /// the tree of the last snapshot.
    ///
    /// # Errors
    /// If the repository cannot be read or written.
    pub(crate) fn archive(
        &self,
        layout: &Layout,
        root: Option<Id>,
    ) -> Result<(Id, SnapshotSummary), Error> {
        let threads = self.threads.unwrap_or((processors() * THREADS).max(4));
        let run = Run {
            archiver: self,
            trees: Trees::new(self.store),
            queue: Queue::new(),
            blobs: AtomicUsize::new(0),
            most_blobs: threads,
        };
        let mut workers = Vec::new();
        for _ in 0..threads {
            workers.push(self.worker()?);
        }
        run.begin(layout, root, &mut workers[0])?;
        let summaries = in_threads(workers, |mut worker| {
            run.queue.work(|task| run.perform(task, &mut worker));
            worker.summary
        });
        run.queue.into_result()?;
        let made = run.trees.into_root();
        let (tree, mut summary) = made.ok_or_else(|| Error::NoPath(Vec::new()))?;
        summaries.iter().for_each(|own| summary.add(own));
        Ok((tree, summary))
    }

    fn worker(&self) -> Result<Worker<'_>, Error> {
        Ok(Worker {
            writer: self.store.writer()?,
            places: OpenAncestors::new(self.rows.clone(), OPEN_DIRECTORIES),
            attributes: AttributeReader::default(),
            encoder: NodeEncoder::new(self.users, self.device_ids, self.zone),
            buffer: Vec::new(),
            summary: SnapshotSummary::default(),
        })
    }
}

impl<'a> Run<'a> {
    /// Creates the directories above the SRCs, and the tasks of the SRCs.
    fn begin(
        &self,
        layout: &Layout,
        root: Option<Id>,
        worker: &mut Worker<'a>,
    ) -> Result<(), Error> {
        let reader = &self.archiver.reader;
        let (above, tops) = layout.build_above(root, reader, &mut worker.encoder);
        for SourceRoot {
            up,
            place,
            name,
            rows,
        } in tops
        {
            let row = rows.start;
            if rows.is_empty() || self.archiver.instead.contains_key(&row) {
                continue;
            }
            let Some(place) = place else {
                up.hold();
                self.push_entries(up, row, row + 1);
                continue;
            };
            let old = up.old_tree(reader).node(name);
            match self.archiver.rows.is_dir(row) {
                true => self.add_directory(worker, (&up, place), name, row, old),
                false => self.add_entry(worker, (&up, place), name, row, old)?,
            }
        }
        let mut above = above.into_iter();
        above.try_for_each(|directory| self.trees.release(directory, &mut worker.writer))
    }

    fn perform(&self, task: TreeTask, worker: &mut Worker<'a>) -> Result<(), Error> {
        match task {
            TreeTask::Entries {
                directory,
                row,
                from,
            } => self.add_entries(worker, directory, row, from),
            TreeTask::Blob { id, bytes } => {
                let written = worker.writer.write(BlobKind::Data, id, &bytes);
                self.blobs.fetch_sub(1, Relaxed);
                written
            }
        }
    }

    /// Adds a task for the entries of a row, starting at row `from`. The caller has already called
    /// [`Directory::hold`] for this task.
    fn push_entries(&self, directory: Arc<Directory>, row: usize, from: usize) {
        self.queue.push(TreeTask::Entries {
            directory,
            row,
            from,
        });
    }

    /// Adds up to [`ENTRIES`] entries of a directory to its tree; the remaining entries become a
    /// new task.
    fn add_entries(
        &self,
        worker: &mut Worker<'a>,
        directory: Arc<Directory>,
        row: usize,
        from: usize,
    ) -> Result<(), Error> {
        let Archiver { rows, instead, .. } = self.archiver;
        let old = directory.old_tree(&self.archiver.reader);
        let (mut children, mut next, end) = (Vec::with_capacity(ENTRIES), from, rows.end(row));
        while next < end && children.len() < ENTRIES {
            let row = instead.get(&next).copied().unwrap_or(Some(next));
            children.extend(row.map(|row| (rows.name(next), row)));
            next = rows.end(next);
        }
        let first = directory.reserve(children.len());
        if next < end {
            directory.hold();
            self.push_entries(directory.clone(), row, next);
        }
        // Directories first, so that other threads can begin with them.
        let places = || children.iter().zip(first..);
        for (&(name, child), place) in places().filter(|(child, _)| rows.is_dir(child.1)) {
            self.add_directory(worker, (&directory, place), name, child, old.node(name));
        }
        for (&(name, child), place) in places().filter(|(child, _)| !rows.is_dir(child.1)) {
            self.add_entry(worker, (&directory, place), name, child, old.node(name))?;
        }
        self.trees.release(directory, &mut worker.writer)
    }

    fn add_directory(
        &self,
        worker: &mut Worker<'a>,
        (up, place): (&Arc<Directory>, usize),
        name: &[u8],
        row: usize,
        old: Option<&OldNode>,
    ) {
        let meta = self.archiver.rows.meta(row);
        if let Some(node) = old.and_then(|old| self.kept(worker, name, row, &meta, old)) {
            up.set(place, node);
            return;
        }
        self.archiver.progress.add_entry();
        let attributes = self.attributes(worker, row, &meta);
        let encoder = &mut worker.encoder;
        let directory = Directory::at((up, place), name, &meta, &attributes, old, encoder);
        self.push_entries(directory, row, row + 1);
    }

    /// The node of a directory that keeps its tree, because neither it nor anything below it has
    /// changed since the last snapshot. Extended attributes cannot change without the ctime.
    fn kept(
        &self,
        worker: &mut Worker<'a>,
        name: &[u8],
        row: usize,
        meta: &Meta,
        old: &OldNode,
    ) -> Option<Vec<u8>> {
        let Archiver {
            rows,
            instead,
            changed,
            progress,
            ..
        } = self.archiver;
        let (changed, end) = ((*changed)?, rows.end(row));
        if changed[row] || instead.range(row..end).next().is_some() {
            return None;
        }
        let ((json, attributes), tree) = (old.directory()?, old.tree?);
        let extra = Extra {
            attributes: Attributes::Encoded(attributes),
            ..Extra::default()
        };
        let mut node = Vec::with_capacity(json.len());
        worker.encoder.write(name, meta, extra, &mut node);
        write_subtree(tree, &mut node);
        if node != json.as_bytes() {
            return None;
        }
        let (mut files, mut directories, mut bytes) = (0, 0, 0_u64);
        for row in row..end {
            progress.add_entry();
            match rows.kind(row) {
                FileType::Directory => directories += 1,
                FileType::Regular => {
                    files += 1;
                    bytes = bytes.saturating_add(rows.meta(row).size);
                }
                _ => files += 1,
            }
        }
        progress.add_bytes(bytes);
        worker.summary.add(&SnapshotSummary {
            files_unmodified: files,
            dirs_unmodified: directories,
            total_bytes_processed: bytes,
            ..SnapshotSummary::default()
        });
        Some(node)
    }

    /// Adds an entry other than a directory; if it cannot be read, adds a warning instead.
    fn add_entry(
        &self,
        worker: &mut Worker<'a>,
        (up, place): (&Arc<Directory>, usize),
        name: &[u8],
        row: usize,
        old: Option<&OldNode>,
    ) -> Result<(), Error> {
        let Archiver { rows, progress, .. } = self.archiver;
        progress.add_entry();
        let mut meta = rows.meta(row);
        let Some(link) = self.read_link(worker, row, meta.kind()) else {
            return Ok(());
        };
        let times = &mut worker.encoder.times;
        let same = old.filter(|old| old.is_unchanged(&meta, times));
        let is_file = meta.kind() == FileType::Regular;
        let contents = match same.filter(|old| is_file && self.has_contents(old, &meta)) {
            Some(old) => {
                progress.add_bytes(meta.size);
                Some(old.contents.clone())
            }
            None if is_file => match self.store_file(worker, row, &mut meta)? {
                Some(contents) => Some(contents),
                None => return Ok(()),
            },
            None => None,
        };
        let is_same = |old: &OldNode| contents.as_ref().is_none_or(|it| *it == old.contents);
        let summary = &mut worker.summary;
        let count = match old {
            None => &mut summary.files_new,
            Some(_) if same.is_some_and(is_same) => &mut summary.files_unmodified,
            Some(_) => &mut summary.files_changed,
        };
        *count += 1;
        // Read extended attributes after the contents, because reading the contents may have
        // updated `meta`.
        let attributes = self.attributes(worker, row, &meta);
        if is_file {
            worker.summary.add_bytes(meta.size);
        }
        let extra = Extra {
            link: &link,
            attributes: Attributes::Read(&attributes),
        };
        let mut node = Vec::with_capacity(512);
        worker.encoder.write(name, &meta, extra, &mut node);
        write_contents(contents.as_deref(), &mut node);
        up.set(place, node);
        Ok(())
    }

    /// The target of a symbolic link; empty for other entries. `None`, with a warning, if it cannot
    /// be read.
    fn read_link(&self, worker: &mut Worker<'a>, row: usize, kind: FileType) -> Option<Vec<u8>> {
        if kind != FileType::Symlink {
            return Some(Vec::new());
        }
        let target = worker.places.at(row, |dir, name| readlinkat(dir, name));
        let warnings = self.archiver.warnings;
        let skip = |e| warnings.not_opened(row, Gate::Readlinkat, e);
        target.map_err(skip).ok()
    }

    /// Whether the contents of a file that matches its node in the last snapshot are unchanged and
    /// in the repository. The file may have changed within the same clock tick after it was read,
    /// and the repository may have lost data.
    fn has_contents(&self, old: &OldNode, meta: &Meta) -> bool {
        let Archiver {
            store,
            changed_since,
            ..
        } = self.archiver;
        (meta.size == 0 || !old.contents.is_empty())
            && old.contents.iter().all(|id| store.has_data(id))
            && !may_be_since(meta.ctime, Granularity::TwoSeconds, *changed_since)
    }

    fn attributes(&self, worker: &mut Worker<'a>, row: usize, meta: &Meta) -> ReadAttributes {
        if !worker.attributes.may_have(meta) {
            return Vec::new();
        }
        let (attributes, places) = (&mut worker.attributes, &mut worker.places);
        let (mut found, failures) =
            collect_attributes(|take| attributes.read_row(meta.dev, places, row, take));
        let warnings = self.archiver.warnings;
        for (name, _) in found.extract_if(.., |(name, _)| std::str::from_utf8(name).is_err()) {
            warnings.lose(row, WarningKind::XattrNotUtf8(name));
        }
        for (gate, errno, kind) in failures {
            warnings.failed(row, gate, errno, kind);
        }
        found
    }

    /// Stores the contents of a file, and returns its blobs. Sets `meta` to the metadata at the
    /// time of reading. `None`, with a warning, if the file cannot be read.
    fn store_file(
        &self,
        worker: &mut Worker<'a>,
        row: usize,
        meta: &mut Meta,
    ) -> Result<Option<Vec<Id>>, Error> {
        let Archiver {
            warnings, progress, ..
        } = self.archiver;
        for tries in 0.. {
            let file = Contents::open(&mut worker.places, warnings, progress, row, meta);
            let Some(mut file) = file else {
                break;
            };
            let Some(mut blobs) = self.cut(worker, &mut file)? else {
                break;
            };
            let end = file.end();
            // Only a small file, none of whose blobs are stored yet, can be read again.
            if file.must_be_repeated(blobs.is_empty() && tries < TRIES) {
                continue;
            }
            let Worker { writer, buffer, .. } = worker;
            if !buffer.is_empty() {
                let id = Id::hash(buffer);
                if self.archiver.store.claim(BlobKind::Data, id) {
                    writer.write(BlobKind::Data, id, buffer)?;
                }
                blobs.push(id);
            }
            meta.size = end.unwrap_or(meta.size);
            return Ok(Some(blobs));
        }
        Ok(None)
    }

    /// Reads a file, and stores all blobs except the last, which stays in the buffer. `None`, with
    /// a warning, if it cannot be read.
    fn cut(
        &self,
        worker: &mut Worker<'a>,
        file: &mut Contents<'_>,
    ) -> Result<Option<Vec<Id>>, Error> {
        let (chunker, Worker { writer, buffer, .. }) = (self.archiver.chunker, worker);
        let (mut blobs, mut seen) = (Vec::new(), 0);
        buffer.clear();
        while !file.is_at_end() {
            // Skip the whole zero blobs of a hole; read and cut the rest as zeros.
            let zeros = chunker.zeros();
            let count = if buffer.is_empty() {
                file.skip_hole(zeros)
            } else {
                0
            };
            if count > 0 {
                let id = self.store_large(writer, vec![0; zeros])?;
                blobs.extend((0..count).map(|_| id));
                continue;
            }
            let missing = chunker.shortest().saturating_sub(buffer.len());
            let most = if missing > 0 { missing } else { PIECE };
            if file.read(most, buffer).is_none() {
                return Ok(None);
            }
            while let Some(end) = chunker.end(buffer, seen) {
                let rest = buffer.split_off(end);
                blobs.push(self.store_large(writer, std::mem::replace(buffer, rest))?);
                seen = 0;
            }
            seen = buffer.len();
        }
        Ok(Some(blobs))
    }

    /// Stores a blob, or adds a task for it if few blobs are waiting.
    fn store_large(&self, writer: &mut BlobWriter<'_>, bytes: Vec<u8>) -> Result<Id, Error> {
        let id = Id::hash(&bytes);
        if self.archiver.store.claim(BlobKind::Data, id) {
            if self.blobs.fetch_add(1, Relaxed) < self.most_blobs {
                self.queue.push(TreeTask::Blob { id, bytes });
            } else {
                self.blobs.fetch_sub(1, Relaxed);
                writer.write(BlobKind::Data, id, &bytes)?;
            }
        }
        Ok(id)
    }
}
