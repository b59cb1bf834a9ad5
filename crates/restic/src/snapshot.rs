//! Makes a snapshot in a restic repository.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use archive::Users;
use archive::dump::Progress;
use catalog::SnapshotRecord;
use catalog::rows::Rows;
use gate::Errno;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};
use walk::FileType;

use crate::archiver::Archiver;
use crate::blobs::BlobStore;
use crate::cache::Cache;
use crate::chunker::Chunker;
use crate::config::Config;
use crate::contents::EntryWarnings;
use crate::error::{Action, Error};
use crate::id::Id;
use crate::index::Index;
use crate::key::open_key;
use crate::layout::{DirectoriesAbove, Layout, SourceRoot};
use crate::lock::{Lock, Owner};
use crate::node::{DeviceIds, NodeEncoder};
use crate::options::{RepositoryOptions, SnapshotOptions};
use crate::packer::WrittenBlobs;
use crate::parent::{TreeReader, changed_since};
use crate::report::{Snapshot, summary};
use crate::repository::RepositoryFiles;
use crate::repository_file::RepositoryFile;
use crate::seal::Cipher;
use crate::snapshot_file::{SnapshotFile, SnapshotSummary};
use crate::times::LocalTime;
use crate::trees::Trees;

/// An open repository, locked against the removal of data.
pub struct Repository {
    files: Arc<RepositoryFiles>,
    config: Config,
    cipher: Arc<Cipher>,
    /// The index, read on first use.
    index: OnceCell<Index>,
    users: Users,
    device_ids: DeviceIds,
    zone: TimeZone,
    /// The metadata of directories above the SRCs.
    above: DirectoriesAbove,
    owner: Owner,
    /// The lock; `None` in a dry run.
    lock: Option<Lock>,
    /// The time of opening, which is before the tree is read.
    begun: LocalTime,
}

/// The last snapshot: the next one reuses its tree if nothing has changed, or else its trees of
/// unchanged directories.
pub struct LastSnapshot {
    parent: SnapshotFile,
    summary: SnapshotSummary,
    record: SnapshotRecord,
    layout: Layout,
    /// The nodes of the SRCs, if directories above them have changed.
    tops: Option<Vec<Vec<u8>>>,
}

impl Repository {
    /// Opens and locks a repository by its location in restic's syntax.
    ///
    /// # Errors
    /// If there is no repository, the password is wrong, or another process holds an exclusive
    /// lock.
    pub fn open(location: &[u8], options: &RepositoryOptions) -> Result<Repository, Error> {
        let (files, mut sealed) = RepositoryFiles::open(location, options)?;
        let files = Arc::new(files);
        let key = open_key(&files, &options.password, &options.key_hint)?;
        let cipher = Arc::new(key);
        let config = Config::open(&mut sealed, &cipher, options)?;
        let caches = options.caches.as_ref().filter(|_| !files.is_local());
        if let Some(base) = caches {
            files.use_cache(Cache::open(base, &config.id.to_string()));
        }
        let ((uid, gid), users) = (gate::process::ids(), Users::read());
        let owner = Owner {
            host: options.host.clone(),
            user: String::from_utf8_lossy(users.user(uid)).into_owned(),
            uid,
            gid,
        };
        let lock = || Lock::acquire(&files, cipher.clone(), owner.clone(), options.retry);
        let lock = (!options.is_dry).then(lock).transpose()?;
        let zone = options.zone.clone().unwrap_or(TimeZone::UTC);
        Ok(Repository {
            config,
            files,
            cipher,
            index: OnceCell::new(),
            users,
            device_ids: options.device_ids,
            above: DirectoriesAbove::default(),
            owner,
            lock,
            begun: LocalTime::now(&zone),
            zone,
        })
    }

    /// Makes a snapshot of a collected tree. Files are not read if the last snapshot of the same
    /// host and paths has them with the same size and times. `last` has that snapshot and, for each
    /// row, whether the entry or anything below it has changed since: unchanged directories keep
    /// their trees.
    ///
    /// # Errors
    /// If the repository cannot be read or written. Then there is no snapshot, but data already
    /// written saves work in the next run.
    pub fn back_up(
        self,
        rows: Arc<Rows>,
        last: Option<&(LastSnapshot, Vec<bool>)>,
        options: &SnapshotOptions,
        progress: Arc<Progress>,
    ) -> Result<Snapshot, Error> {
        let sources = rows.sources().iter();
        let layout = Layout::new(
            sources.map(|it| (&it.path[..], it.rows.clone())),
            &self.above,
        )?;
        let mut next = self.snapshot_file(options, &layout);
        let parent = match last {
            Some((kept, _)) => Some(kept.parent.clone()),
            None => next.find_last(&self.files, &self.cipher),
        };
        next.parent = parent.as_ref().map(|parent| parent.id);
        let index = self.index()?;
        let chunker = Chunker::new(&self.config.chunking()?)?;
        let store = self.store(index);
        let warnings = EntryWarnings::new(rows.clone());
        let files = (0..rows.len()).filter(|&row| rows.kind(row) == FileType::Regular);
        let bytes = files.map(|row| rows.meta(row).size);
        progress.begin_with(rows.len() as u64, bytes.fold(0, u64::saturating_add));
        let instead = self.instead(&layout, &rows)?;
        let skips_repository = instead.values().any(Option::is_none);
        let archiver = Archiver {
            rows: &rows,
            users: &self.users,
            device_ids: self.device_ids,
            zone: &self.zone,
            instead,
            changed: last.map(|(_, changed)| &changed[..]),
            changed_since: parent.as_ref().map(changed_since).unwrap_or_default(),
            threads: options.threads,
            store: &store,
            reader: self.reader(index),
            chunker: &chunker,
            progress: &progress,
            warnings: &warnings,
        };
        self.wait_for_exclusive_locks()?;
        let root = parent.map(|parent| parent.tree);
        let (tree, counted) = archiver.archive(&layout, root)?;
        let written = store.finish()?;
        let ended = LocalTime::now(&self.zone);
        let summary = summary([next.time, ended], counted, written);
        let record = self.record(&layout, tree)?;
        let made = Snapshot {
            summary,
            skips_repository,
            is_complete: !warnings.has_skipped(),
            warnings: warnings.take(),
            record,
            ..Snapshot::default()
        };
        self.save(next, tree, made)
    }

    /// Checks SRCs before they are read.
    ///
    /// # Errors
    /// If a SRC has no absolute path, or has the path of another SRC in the snapshot.
    pub fn check_sources(&self, sources: &[Vec<u8>]) -> Result<(), Error> {
        self.layout(sources).map(drop)
    }

    fn layout(&self, sources: &[Vec<u8>]) -> Result<Layout, Error> {
        Layout::new(sources.iter().map(|path| (&path[..], 0..0)), &self.above)
    }

    /// The name of the catalog for the last snapshot of some sources: one per repository, host and
    /// set of absolute paths.
    ///
    /// # Errors
    /// If a SRC has no absolute path.
    pub fn catalog_name(
        &self,
        sources: &[Vec<u8>],
        options: &SnapshotOptions,
    ) -> Result<String, Error> {
        let mut hash = Sha256::new();
        for part in [&self.id(), &options.host] {
            hash.update(part);
            hash.update([0]);
        }
        for path in self.layout(sources)?.paths {
            hash.update(path);
            hash.update([0]);
        }
        Ok(format!(
            "restic-{}.parquet",
            &Id::from(hash).to_string()[..DIGITS]
        ))
    }

    /// The last snapshot of the same host and paths, if it has the tree that a catalog records, and
    /// if a new snapshot of the same entries would have that tree except for directories above the
    /// SRCs.
    ///
    /// # Errors
    /// If a SRC has no absolute path, or has the path of another SRC in the snapshot; or if the
    /// repository cannot be read.
    pub fn find_last(
        &self,
        record: &SnapshotRecord,
        sources: &[Vec<u8>],
        options: &SnapshotOptions,
    ) -> Result<Option<LastSnapshot>, Error> {
        let layout = self.layout(sources)?;
        if record.repository != self.id()
            || record.context != layout.context(&self.users, self.device_ids)
        {
            return Ok(None);
        }
        // While the index files of the last run exist, so do all blobs that they name: blobs are
        // only removed, or rewritten by a repair, together with the index files that name them.
        let indexes = indexes(&self.files)?;
        if !record.indexes.iter().all(|name| indexes.contains(name)) {
            return Ok(None);
        }
        let next = self.snapshot_file(options, &layout);
        let parent = next.find_last(&self.files, &self.cipher);
        let has_tree = |it: &SnapshotFile| it.tree.to_string() == record.tree;
        let Some(parent) = parent.filter(has_tree) else {
            return Ok(None);
        };
        let Some(summary) = parent.summary.clone() else {
            return Ok(None);
        };
        let mut encoder = self.encoder();
        let tops = match record.above == layout.above(&mut encoder) {
            true => None,
            false => {
                let (reader, root) = (self.reader(self.index()?), parent.tree);
                let (_, tops) = layout.build_above(Some(root), &reader, &mut encoder);
                let node = |top: &SourceRoot<'_>| {
                    let node = top.up.old_tree(&reader).node(top.name)?.directory()?.0;
                    Some(node.as_bytes().to_vec())
                };
                match tops.iter().map(node).collect::<Option<Vec<_>>>() {
                    Some(tops) => Some(tops),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(LastSnapshot {
            parent,
            summary,
            record: record.clone(),
            layout,
            tops,
        }))
    }

    /// Makes a snapshot with the tree of the last one, except for directories above the SRCs.
    ///
    /// # Errors
    /// If the repository cannot be read or written.
    pub fn keep(self, kept: LastSnapshot, options: &SnapshotOptions) -> Result<Snapshot, Error> {
        let mut next = self.snapshot_file(options, &kept.layout);
        next.parent = Some(kept.parent.id);
        self.wait_for_exclusive_locks()?;
        let (mut record, root) = (kept.record, kept.parent.tree);
        let ((tree, counted), written) = match kept.tops {
            None => ((root, SnapshotSummary::default()), Default::default()),
            Some(tops) => {
                let made = self.replace_above(&kept.layout, root, tops)?;
                record = self.record(&kept.layout, made.0.0)?;
                made
            }
        };
        let last = kept.summary;
        let ended = LocalTime::now(&self.zone);
        let mut summary = summary([next.time, ended], counted, written);
        summary.files_unmodified = last.total_files_processed;
        summary.total_files_processed = last.total_files_processed;
        summary.total_bytes_processed = last.total_bytes_processed;
        summary.dirs_unmodified += last.dirs().saturating_sub(summary.dirs());
        let made = Snapshot {
            summary,
            is_complete: true,
            record,
            ..Snapshot::default()
        };
        self.save(next, tree, made)
    }

    /// Creates the directories above the SRCs again; `nodes` are the unchanged nodes of the SRCs.
    fn replace_above(
        &self,
        layout: &Layout,
        root: Id,
        nodes: Vec<Vec<u8>>,
    ) -> Result<((Id, SnapshotSummary), [WrittenBlobs; 2]), Error> {
        let index = self.index()?;
        let store = self.store(index);
        let (trees, mut writer) = (Trees::new(&store), store.writer()?);
        let mut encoder = self.encoder();
        let (above, tops) = layout.build_above(Some(root), &self.reader(index), &mut encoder);
        for (SourceRoot { up, place, .. }, node) in tops.into_iter().zip(nodes) {
            up.set(place.unwrap_or_default(), node);
        }
        for directory in above {
            trees.release(directory, &mut writer)?;
        }
        drop(writer);
        let made = trees.into_root();
        let made = made.unwrap_or_else(|| (root, SnapshotSummary::default()));
        Ok((made, store.finish()?))
    }

    /// The rows of SRCs inside other SRCs, with the rows that replace them; and the rows of the
    /// repository itself, which is skipped and may be in several SRCs.
    fn instead(
        &self,
        layout: &Layout,
        rows: &Rows,
    ) -> Result<BTreeMap<usize, Option<usize>>, Error> {
        let inner = layout.inner_rows(rows)?.into_iter();
        let mut instead: BTreeMap<_, _> = inner.map(|(row, top)| (row, Some(top))).collect();
        if let Some((dev, ino)) = self.files.identity() {
            let all = rows.directories().map(|row| row as usize);
            let own = all.filter(|row| {
                let meta = rows.meta(*row);
                meta.ino == ino && meta.dev == dev
            });
            instead.extend(own.map(|row| (row, None)));
        }
        Ok(instead)
    }

    fn save(mut self, next: SnapshotFile, root: Id, made: Snapshot) -> Result<Snapshot, Error> {
        let parent = next.parent.map(|parent| parent.to_string());
        let next = SnapshotFile {
            tree: root,
            summary: Some(made.summary.clone()),
            ..next
        };
        let id = match &self.lock {
            None => None,
            Some(lock) => Some(self.save_under(lock, &next)?),
        };
        Ok(Snapshot {
            id: id.map(|id| id.to_string()),
            parent,
            left_lock: self.lock.take().and_then(Lock::release),
            cache_failed: self.files.cache().and_then(Cache::failed),
            ..made
        })
    }

    /// Saves a snapshot, if the lock was held all the time, and nothing failed.
    fn save_under(&self, lock: &Lock, next: &SnapshotFile) -> Result<Id, Error> {
        lock.check()?;
        if let Some(error) = self.files.take_failure() {
            return Err(error);
        }
        let sealed = self.seal(next).map_err(|(action, errno)| {
            let dir = RepositoryFile::Snapshot.dir();
            self.files.error_at(action, dir, errno.into())
        })?;
        let id = self.files.write(RepositoryFile::Snapshot, sealed)?;
        // Check again, because the process may have been suspended just before the write.
        lock.check().map_err(|why| self.take_back(&id, why))?;
        Ok(id)
    }

    /// The encrypted form of a snapshot file.
    fn seal(&self, next: &SnapshotFile) -> Result<Vec<u8>, (Action, Errno)> {
        let json = serde_json::to_vec(next).map_err(|_| (Action::Encrypt, Errno::EINVAL))?;
        let level = self.config.compression_level();
        let sealed = self.cipher.seal_file(&json, level);
        let sealed = sealed.map_err(|errno| (Action::Encrypt, errno))?;
        let is_sound = || self.cipher.open_file(&mut sealed.clone()).as_ref() == Some(&json);
        match self.config.extra_verify() && !is_sound() {
            true => Err((Action::VerifyEncrypted, Errno::EBADMSG)),
            false => Ok(sealed),
        }
    }

    fn wait_for_exclusive_locks(&self) -> Result<(), Error> {
        self.lock
            .as_ref()
            .map_or(Ok(()), Lock::wait_for_exclusive_locks)
    }

    /// Removes a snapshot that may refer to removed data.
    fn take_back(&self, id: &Id, why: Error) -> Error {
        let removed = self.files.remove_file(RepositoryFile::Snapshot, id);
        let Err(error) = removed else {
            return why;
        };
        Error::UnsafeSnapshot {
            id: id.to_string(),
            why: Box::new(why),
            error: Box::new(error),
        }
    }

    fn record(&self, layout: &Layout, root: Id) -> Result<SnapshotRecord, Error> {
        Ok(SnapshotRecord {
            above: layout.above(&mut self.encoder()),
            context: layout.context(&self.users, self.device_ids),
            indexes: indexes(&self.files)?,
            repository: self.id(),
            tree: root.to_string(),
        })
    }

    fn encoder(&self) -> NodeEncoder<'_> {
        NodeEncoder::new(&self.users, self.device_ids, &self.zone)
    }

    fn index(&self) -> Result<&Index, Error> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let index = Index::read(&self.files, &self.cipher)?;
        Ok(self.index.get_or_init(|| index))
    }

    fn store<'a>(&'a self, index: &'a Index) -> BlobStore<'a> {
        BlobStore::new(&self.files, &self.cipher, &self.config, index)
    }

    fn reader<'a>(&'a self, index: &'a Index) -> TreeReader<'a> {
        TreeReader {
            repository: &self.files,
            cipher: &self.cipher,
            index,
        }
    }

    /// The next snapshot, without its tree.
    fn snapshot_file(&self, options: &SnapshotOptions, layout: &Layout) -> SnapshotFile {
        // Like restic, split tags at commas, and skip empty ones.
        let tags = options.tags.iter().flat_map(|tags| tags.split(','));
        let tags = tags.map(str::trim).filter(|tag| !tag.is_empty());
        let paths = layout.paths.iter();
        SnapshotFile {
            time: self.begun,
            paths: paths
                .map(|path| String::from_utf8_lossy(path).into_owned())
                .collect(),
            hostname: options.host.clone(),
            username: self.owner.user.clone(),
            uid: self.owner.uid,
            gid: self.owner.gid,
            tags: tags.map(str::to_owned).collect(),
            program_version: options.program.clone(),
            ..SnapshotFile::default()
        }
    }

    /// The id of the repository.
    fn id(&self) -> String {
        self.config.id.to_string()
    }
}

/// Number of hexadecimal digits of an id by which a snapshot record identifies an index file.
const DIGITS: usize = 16;

/// The index files of a repository, by prefixes of their ids.
fn indexes(files: &RepositoryFiles) -> Result<Vec<String>, Error> {
    let listed = files.list(RepositoryFile::Index)?.into_iter();
    Ok(listed
        .map(|id| id.to_string()[..DIGITS].to_owned())
        .collect())
}
