//! Makes a snapshot.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use archive::Users;
use archive::catalog::SnapshotRecord;
use archive::dump::Progress;
use archive::rows::Rows;
use mounts::Warning;
use rustic_core::jiff::Zoned;
use rustic_core::repofile::{SnapshotFile, SnapshotSummary};
use rustic_core::{
    BackupOptions, Credentials, FileType, OpenStatus, ParentOptions, ReadBackend,
    RepositoryBackends, RepositoryOptions, RusticError, SnapshotGroup, SnapshotGroupCriterion,
    TreeId,
};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::lock::{Lock, Owner};
use crate::repository::{LocalRepository, hex};
use crate::source::{Layout, Source};

/// What a snapshot says of itself.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// Its tags.
    pub tags: Vec<String>,
    /// The name of the host.
    pub host: String,
    /// The program and its version.
    pub program: String,
}

/// An open repository, locked against the removal of data.
pub struct Repository {
    files: Arc<LocalRepository>,
    engine: rustic_core::Repository<OpenStatus>,
    owner: Owner,
    _lock: Lock,
}

/// A snapshot that was made.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// The id of the snapshot that it is based on: the last one of the same host and paths.
    pub parent: Option<String>,
    /// The id of its tree.
    pub tree: String,
    /// Files that the parent does not have.
    pub files_new: u64,
    /// Files that differ from the parent's.
    pub files_changed: u64,
    /// Files that were not read, because the parent has them.
    pub files_unmodified: u64,
    /// Directories that the parent does not have.
    pub directories_new: u64,
    /// Directories whose trees differ from the parent's.
    pub directories_changed: u64,
    /// Directories with the parent's trees.
    pub directories_unmodified: u64,
    /// The size of all files.
    pub bytes: u64,
    /// Bytes that the repository did not have.
    pub bytes_added: u64,
    /// The same, compressed and encrypted.
    pub bytes_stored: u64,
    /// The repository is in the tree, and was skipped.
    pub skips_repository: bool,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// What a catalog of the tree records of it.
    pub record: SnapshotRecord,
}

/// The last snapshot: the next one has its tree if nothing has changed, and else its trees of directories in which
/// nothing has.
pub struct Kept {
    parent: SnapshotFile,
    summary: SnapshotSummary,
    record: SnapshotRecord,
}

impl Repository {
    /// Opens the repository of a local directory with a password, and locks it.
    ///
    /// # Errors
    /// There is no repository, the password is wrong, or another process has locked it for itself.
    pub fn open(dir: &[u8], password: &[u8], host: &str) -> Result<Repository, Error> {
        let password = std::str::from_utf8(password).map_err(|_| Error::PasswordNotUtf8)?;
        let files = Arc::new(LocalRepository::open(dir)?);
        let failed = |e: Box<RusticError>| match e.is_incorrect_password() {
            true => Error::WrongPassword,
            false => files.error(e),
        };
        // A cache would only repeat the local files.
        let options = RepositoryOptions::default().no_cache(true);
        let backends = RepositoryBackends::new(files.clone(), None);
        let closed = rustic_core::Repository::new(&options, &backends).map_err(failed)?;
        let engine = closed
            .open(&Credentials::password(password))
            .map_err(failed)?;
        let (uid, gid) = gate::process::ids();
        let owner = Owner {
            host: host.to_owned(),
            user: String::from_utf8_lossy(Users::read().user(uid)).into_owned(),
            uid,
            gid,
        };
        let lock = Lock::acquire(&files, &engine.key(), owner.clone())?;
        Ok(Repository {
            files,
            engine,
            owner,
            _lock: lock,
        })
    }

    /// Makes a snapshot of a tree that was collected. Files that the last snapshot of the same host
    /// and paths has, with the same size and times, are not read. With the last snapshot and, for each row, whether
    /// the entry or anything below it has changed since, directories in which nothing has keep their trees.
    ///
    /// # Errors
    /// The repository cannot be read or written. Then there is no snapshot; data that is already in
    /// the repository spares the next run its work.
    pub fn back_up(
        self,
        rows: Arc<Rows>,
        last: Option<&(Kept, Vec<bool>)>,
        options: &SnapshotOptions,
        progress: Arc<Progress>,
    ) -> Result<Snapshot, Error> {
        let failed = |e: Box<RusticError>| self.files.error(e);
        let mut source = Source::new(rows, self.files.identity(), progress)?;
        let (snapshot, repository) = (self.snapshot_file(options)?, self.id());
        let context = source.context();
        let engine = self.engine.to_indexed_ids().map_err(failed)?;
        let mut how = BackupOptions::default().no_scan(true);
        if let Some((kept, changed)) = last {
            let read_tree = |id: &TreeId| engine.get_tree(id).ok().map(|tree| tree.nodes);
            source.reuse(changed, kept.parent.tree, read_tree);
            let parents = vec![kept.parent.id.to_hex().to_string()];
            how = how.parent_opts(ParentOptions::default().parents(parents));
        }
        // The engine cannot count what is in directories that keep their trees.
        self.files.hold_snapshots(true);
        let made = engine.archive(&how, &source, snapshot, source.paths());
        self.files.hold_snapshots(false);
        let mut made = made.map_err(failed)?;
        let mut summary = made.summary.take().unwrap_or_default();
        source.correct(&mut summary);
        made.summary = Some(summary.clone());
        let tree = made.tree.to_hex().to_string();
        engine.save_snapshots(vec![made.clone()]).map_err(failed)?;
        Ok(Snapshot {
            id: self.files.last_snapshot_name(),
            parent: made.parent.map(|parent| parent.to_hex().to_string()),
            tree: tree.clone(),
            files_new: summary.files_new,
            files_changed: summary.files_changed,
            files_unmodified: summary.files_unmodified,
            directories_new: summary.dirs_new,
            directories_changed: summary.dirs_changed,
            directories_unmodified: summary.dirs_unmodified,
            bytes: summary.total_bytes_processed,
            bytes_added: summary.data_added,
            bytes_stored: summary.data_added_packed,
            skips_repository: source.skips_repository(),
            warnings: source.take_warnings(),
            record: SnapshotRecord {
                context,
                indexes: indexes(&self.files)?,
                repository,
                tree,
            },
        })
    }

    /// The name of the catalog of the last snapshot of some sources: one for each repository, host and set of
    /// absolute paths.
    ///
    /// # Errors
    /// A SRC has no absolute path, or lies below another one.
    pub fn catalog_name(&self, sources: &[Vec<u8>]) -> Result<String, Error> {
        let mut hash = Sha256::new();
        for part in [&self.id(), &self.owner.host] {
            hash.update(part);
            hash.update([0]);
        }
        for path in layout(sources)?.paths {
            hash.update(path.as_os_str().as_bytes());
            hash.update([0]);
        }
        Ok(format!(
            "restic-{}.parquet",
            &hex(&hash.finalize())[..DIGITS]
        ))
    }

    /// The last snapshot of the same host and paths, if it has the tree of the one that a catalog records, and a
    /// snapshot of the same entries would have that tree again.
    ///
    /// # Errors
    /// A SRC has no absolute path, or lies below another one; the repository cannot be read.
    pub fn find_kept(
        &self,
        record: &SnapshotRecord,
        sources: &[Vec<u8>],
        options: &SnapshotOptions,
    ) -> Result<Option<Kept>, Error> {
        let layout = layout(sources)?;
        if record.repository != self.id() || record.context != layout.context() {
            return Ok(None);
        }
        // Blobs disappear from a repository, for good or to be repaired, only with the index files that name
        // them.
        let indexes = indexes(&self.files)?;
        if !record.indexes.iter().all(|name| indexes.contains(name)) {
            return Ok(None);
        }
        let mut next = self.snapshot_file(options)?;
        for path in &layout.paths {
            match path.to_str() {
                Some(path) => next.paths.add(path.to_owned()),
                None => return Ok(None),
            }
        }
        let group = SnapshotGroup::from_snapshot(&next, SnapshotGroupCriterion::default());
        let is_last = |snapshot: &SnapshotFile| group.matches(snapshot);
        let Ok(parent) = self.engine.get_snapshot_from_str("latest", is_last) else {
            return Ok(None); // there is none
        };
        let has_tree = parent.tree.to_hex().to_string() == record.tree;
        let summary = parent.summary.clone().filter(|_| has_tree);
        Ok(summary.map(|summary| Kept {
            parent,
            summary,
            record: record.clone(),
        }))
    }

    /// Makes a snapshot with the tree of the last one.
    ///
    /// # Errors
    /// The repository cannot be written.
    pub fn keep(self, kept: Kept, options: &SnapshotOptions) -> Result<Snapshot, Error> {
        let Kept {
            parent,
            summary: last,
            record,
        } = kept;
        let mut summary = SnapshotSummary::default();
        summary.files_unmodified = last.total_files_processed;
        summary.total_files_processed = last.total_files_processed;
        summary.total_bytes_processed = last.total_bytes_processed;
        summary.dirs_unmodified = last.total_dirs_processed;
        summary.total_dirs_processed = last.total_dirs_processed;
        summary.total_dirsize_processed = last.total_dirsize_processed;
        summary.backup_end = Zoned::now();
        let made = Snapshot {
            parent: Some(parent.id.to_hex().to_string()),
            tree: record.tree.clone(),
            files_unmodified: summary.files_unmodified,
            directories_unmodified: summary.dirs_unmodified,
            bytes: summary.total_bytes_processed,
            record,
            ..Snapshot::default()
        };
        let next = SnapshotFile {
            tree: parent.tree,
            parent: Some(parent.id),
            parents: vec![parent.id],
            paths: parent.paths,
            summary: Some(summary),
            ..self.snapshot_file(options)?
        };
        let saved = self.engine.save_snapshots(vec![next]);
        saved.map_err(|e| self.files.error(e))?;
        Ok(Snapshot {
            id: self.files.last_snapshot_name(),
            ..made
        })
    }

    /// What a snapshot says of itself, as yet without paths and tree.
    fn snapshot_file(&self, options: &SnapshotOptions) -> Result<SnapshotFile, Error> {
        let failed = |e: Box<RusticError>| self.files.error(e);
        let mut about = rustic_core::SnapshotOptions::default().host(options.host.clone());
        for tag in &options.tags {
            about = about.add_tags(tag).map_err(failed)?;
        }
        Ok(SnapshotFile {
            program_version: options.program.clone(),
            username: self.owner.user.clone(),
            uid: self.owner.uid,
            gid: self.owner.gid,
            ..about.to_snapshot().map_err(failed)?
        })
    }

    /// The id of the repository.
    fn id(&self) -> String {
        self.engine.config().id.to_hex().to_string()
    }
}

/// The digits of a hash that name a file.
const DIGITS: usize = 16;

/// The index files of a repository, by the beginnings of their names.
fn indexes(files: &LocalRepository) -> Result<Vec<String>, Error> {
    let listed = files.list_with_size(FileType::Index);
    let listed = listed.map_err(|e| files.error(e))?.into_iter();
    Ok(listed
        .map(|(id, _)| id.to_hex()[..DIGITS].to_owned())
        .collect())
}

/// Where sources are in a snapshot, without their entries.
fn layout(sources: &[Vec<u8>]) -> Result<Layout, Error> {
    Layout::new(sources.iter().map(|path| (&path[..], 0..0)))
}
