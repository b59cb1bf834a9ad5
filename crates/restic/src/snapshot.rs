//! Makes a snapshot.

use std::sync::Arc;

use archive::Users;
use archive::dump::Progress;
use archive::rows::Rows;
use mounts::Warning;
use rustic_core::repofile::SnapshotFile;
use rustic_core::{
    BackupOptions, Credentials, OpenStatus, RepositoryBackends, RepositoryOptions, RusticError,
};

use crate::error::Error;
use crate::lock::{Lock, Owner};
use crate::repository::LocalRepository;
use crate::source::Source;

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
    /// and paths has, with the same size and times, are not read.
    ///
    /// # Errors
    /// The repository cannot be read or written. Then there is no snapshot; data that is already in
    /// the repository spares the next run its work.
    pub fn back_up(
        self,
        rows: Rows,
        options: &SnapshotOptions,
        progress: Arc<Progress>,
    ) -> Result<Snapshot, Error> {
        let failed = |e: Box<RusticError>| self.files.error(e);
        let source = Source::new(rows, self.files.identity(), progress)?;
        let engine = self.engine.to_indexed_ids().map_err(failed)?;
        let mut about = rustic_core::SnapshotOptions::default().host(options.host.clone());
        for tag in &options.tags {
            about = about.add_tags(tag).map_err(failed)?;
        }
        let snapshot = SnapshotFile {
            program_version: options.program.clone(),
            username: self.owner.user.clone(),
            uid: self.owner.uid,
            gid: self.owner.gid,
            ..about.to_snapshot().map_err(failed)?
        };
        let how = BackupOptions::default().no_scan(true);
        let made = engine.archive(&how, &source, snapshot, source.paths());
        let made = made.map_err(failed)?;
        let summary = made.summary.unwrap_or_default();
        Ok(Snapshot {
            id: made.id.to_hex().to_string(),
            parent: made.parent.map(|parent| parent.to_hex().to_string()),
            tree: made.tree.to_hex().to_string(),
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
        })
    }
}
