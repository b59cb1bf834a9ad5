//! The files of a repository. In a local directory they are read and written through the crate
//! `gate`, which counts the calls, and written atomically, so that a killed process leaves no
//! partial file. Remote files are read and written by `catalog::remote` and `sftp`.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use base::pool::try_each;
use bytes::Bytes;
use catalog::StoreError;
use catalog::remote::{self, Files};
use gate::Errno;
use gate::file::{LockFile, unlinkat};
use gate::fs::{AtFlags, CWD, Dev, Open, StatxMask, fstat, statx};
use gate::long::{c_string, open_long, stat_long};
use gate::sync::Mutex;

use crate::cache::Cache;
use crate::error::{Action, Error, LockLoss};
use crate::id::Id;
use crate::local::{CONFIG, Modes, make_dirs, names, read_file, write_file};
use crate::options::{OnSilence, RepositoryOptions};
use crate::repository_file::RepositoryFile;
use crate::sftp::SftpFiles;

/// The location of a repository.
#[derive(Debug)]
enum Backend {
    /// A local directory.
    Local(Vec<u8>),
    Remote(Arc<dyn Files>),
}

impl Backend {
    /// The modes of new files and directories.
    fn modes(&self) -> Modes {
        let mode = match self {
            Backend::Local(dir) => {
                let config = [dir, &b"/"[..], CONFIG.as_bytes()].concat();
                stat_long(&config, StatxMask::BASIC_STATS).map_or(0, |seen| seen.mode)
            }
            Backend::Remote(_) => 0,
        };
        Modes::of_repository(mode)
    }
}

/// The error of reading or writing a file.
#[derive(Debug)]
pub(crate) enum Fault {
    Errno(Errno),
    Store(StoreError),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault::Errno(errno)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

/// The files of a repository.
#[derive(Debug)]
pub(crate) struct RepositoryFiles {
    backend: Backend,
    /// The modes in a local directory.
    modes: Modes,
    /// The first error that did not end the run, but prevents the snapshot.
    failure: Mutex<Option<Error>>,
    /// Why writing is no longer allowed: the lock was lost.
    stopped: OnceLock<LockLoss>,
    /// Dry run: nothing is written.
    is_dry: bool,
    cache: OnceLock<Cache>,
}

impl RepositoryFiles {
    /// Opens a repository by its location in restic's syntax: a directory, optionally with the
    /// prefix `local:`, `rest:URL`, `s3:HOST/BUCKET/PREFIX`, `sftp:USER@HOST:DIR` or
    /// `sftp://USER@HOST:PORT/DIR`. Also returns its encrypted configuration.
    ///
    /// # Errors
    /// If the location is malformed, cannot be opened, or has no repository.
    pub(crate) fn open(
        location: &[u8],
        options: &RepositoryOptions,
    ) -> Result<(RepositoryFiles, Vec<u8>), Error> {
        let backend = open_backend(location, options.on_silence)?;
        let repository = RepositoryFiles {
            modes: backend.modes(),
            backend,
            failure: Mutex::default(),
            stopped: OnceLock::new(),
            is_dry: options.is_dry,
            cache: OnceLock::new(),
        };
        match repository.read_part(CONFIG, None) {
            Ok(config) => Ok((repository, config)),
            Err(
                Fault::Errno(Errno::ENOENT | Errno::EISDIR) | Fault::Store(StoreError::NotFound),
            ) => Err(Error::NoRepository),
            Err(fault) => Err(repository.error_at(Action::Open, CONFIG, fault)),
        }
    }

    /// Caches index files, snapshots and tree packs. Only the first call has an effect.
    pub(crate) fn use_cache(&self, cache: Cache) {
        let _ = self.cache.set(cache);
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.get()
    }

    /// The value of a result. An error does not end the run: it is stored, and prevents the
    /// snapshot.
    pub(crate) fn keep_failure<T>(&self, result: Result<T, Error>) -> Option<T> {
        let keep = |error| {
            self.failure.lock().get_or_insert(error);
        };
        result.map_err(keep).ok()
    }

    /// The first error that did not end the run, but prevents the snapshot.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// The error of an action on a file, or on a directory.
    pub(crate) fn error_at(&self, action: Action, path: &str, fault: Fault) -> Error {
        match fault {
            Fault::Errno(errno) => Error::File {
                action,
                path: self.below(path),
                errno,
            },
            Fault::Store(error) => Error::Remote {
                action,
                path: path.to_owned(),
                error,
            },
        }
    }

    /// Makes all later writes fail.
    pub(crate) fn stop_writing(&self, why: LockLoss) {
        let _ = self.stopped.set(why);
    }

    /// The device and inode number of a local repository's directory.
    pub(crate) fn identity(&self) -> Option<(Dev, u64)> {
        let Backend::Local(dir) = &self.backend else {
            return None;
        };
        let seen = fstat(
            open_long(dir, Open::PATH | Open::DIRECTORY).ok()?,
            StatxMask::BASIC_STATS,
        );
        seen.ok().map(|seen| (seen.dev, seen.ino))
    }

    /// The path of a file of a local repository.
    fn below(&self, path: &str) -> Vec<u8> {
        match &self.backend {
            Backend::Local(dir) => [dir, &b"/"[..], path.as_bytes()].concat(),
            Backend::Remote(_) => path.as_bytes().to_vec(),
        }
    }

    /// The error of an action that needs the lock. If the lock is lost, another process may have
    /// removed the file, so the lost lock is the error.
    fn error_under_lock(&self, action: Action, path: &str, fault: Fault) -> Error {
        match self.stopped.get() {
            Some(loss) => Error::LockLost(*loss),
            None => self.error_at(action, path, fault),
        }
    }

    /// Reads a range of a file; the whole file without a range.
    pub(crate) fn read_part(
        &self,
        path: &str,
        range: Option<(u64, usize)>,
    ) -> Result<Vec<u8>, Fault> {
        match &self.backend {
            Backend::Local(_) => Ok(read_file(&self.below(path), range)?),
            Backend::Remote(files) => Ok(files.read(path, range)?.into()),
        }
    }

    fn write_file(&self, path: &str, content: &Bytes) -> Result<(), Fault> {
        match &self.backend {
            Backend::Local(_) => {
                let write = || write_file(&self.below(path), content, self.modes);
                Ok(self.in_its_directory(path, write)?)
            }
            Backend::Remote(files) => Ok(files.write(path, vec![content.clone()])?),
        }
    }

    /// Runs an action on a file of a local repository, and creates its missing directory, like
    /// restic: many copy programs skip empty directories.
    fn in_its_directory<T>(
        &self,
        path: &str,
        act: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match (act(), path.rsplit_once('/')) {
            (Err(Errno::ENOENT), Some((dir, _))) => {
                // Never create the repository's directory itself, which may be an unmounted mount
                // point.
                open_long(&self.below("."), Open::PATH | Open::DIRECTORY)?;
                make_dirs(&self.below(dir), self.modes)?;
                act()
            }
            (done, _) => done,
        }
    }

    /// Whether the repository is a local directory.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.backend, Backend::Local(_))
    }

    /// Writes a file that is removed on drop, and adds it to `held`. A local file is also removed
    /// when a signal ends the process.
    pub(crate) fn hold_file(
        &self,
        path: &str,
        content: &[u8],
        held: &Mutex<Vec<HeldFile>>,
    ) -> Result<(), Fault> {
        match &self.backend {
            Backend::Local(_) => {
                let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
                let open = || open_long(&self.below(dir), Open::DIRECTORY);
                let dir = self.in_its_directory(path, open)?;
                let file =
                    LockFile::create(&dir, &c_string(name.as_bytes())?, content, self.modes.file)?;
                held.lock().push(HeldFile {
                    path: path.to_owned(),
                    kept: HeldFileKind::Local { _file: file },
                });
                Ok(())
            }
            Backend::Remote(files) => {
                // Register the file before writing: if a signal or error ends the request, the
                // server may still have created the file.
                held.lock().push(HeldFile {
                    path: path.to_owned(),
                    kept: HeldFileKind::Remote(Arc::clone(files)),
                });
                Ok(files.write(path, vec![Bytes::copy_from_slice(content)])?)
            }
        }
    }

    /// The names and lengths of files in a directory and, if it is remote, in its subdirectories.
    /// Empty if the directory does not exist.
    pub(crate) fn list_dir(&self, dir: &str) -> Result<Vec<(String, u64)>, Fault> {
        if let Backend::Remote(files) = &self.backend {
            return Ok(files.list(dir)?);
        }
        let dir = match open_long(&self.below(dir), Open::DIRECTORY) {
            Err(Errno::ENOENT) => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut found = Vec::new();
        for name in names(&dir)? {
            match statx(
                &dir,
                &c_string(name.as_bytes())?,
                AtFlags::empty(),
                StatxMask::SIZE,
            ) {
                Ok(seen) => found.push((name, seen.size)),
                Err(Errno::ENOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(found)
    }

    /// Removes a file from the repository.
    pub(crate) fn remove_file(&self, kind: RepositoryFile, id: &Id) -> Result<(), Error> {
        let path = kind.path(id);
        let removed = match &self.backend {
            Backend::Local(_) => c_string(&self.below(&path))
                .and_then(|name| unlinkat(CWD, &name))
                .map_err(Fault::Errno),
            Backend::Remote(files) => files.remove(&path).map_err(Fault::Store),
        };
        removed.map_err(|fault| self.error_at(Action::Remove, &path, fault))
    }

    /// The ids of all files of a type other than packs. Removes other files of that type from the
    /// cache.
    pub(crate) fn list(&self, kind: RepositoryFile) -> Result<Vec<Id>, Error> {
        let dir = kind.dir();
        let listed = self.list_dir(dir);
        let listed = listed.map_err(|fault| self.error_under_lock(Action::List, dir, fault))?;
        let ids = listed.iter().map(|(name, _)| Id::parse(name.as_bytes()));
        let ids: Vec<Id> = ids.flatten().collect();
        if let Some(cache) = self.cache().filter(|_| kind.is_cached()) {
            cache.retain(kind, ids.iter().copied());
        }
        Ok(ids)
    }

    /// Reads a file of the repository.
    pub(crate) fn read(&self, kind: RepositoryFile, id: &Id) -> Result<Vec<u8>, Error> {
        let cache = self.cache().filter(|_| kind.is_cached());
        if let Some(bytes) = cache.and_then(|cache| cache.get(kind, id)) {
            return Ok(bytes);
        }
        let path = kind.path(id);
        let read = self.read_part(&path, None);
        let bytes = read.map_err(|fault| self.error_under_lock(Action::Read, &path, fault))?;
        if let Some(cache) = cache {
            cache.put(kind, id, &bytes);
        }
        Ok(bytes)
    }

    /// Reads a range, given as offset and length, of a file.
    pub(crate) fn read_range(
        &self,
        kind: RepositoryFile,
        id: &Id,
        range: (u64, usize),
    ) -> Result<Vec<u8>, Error> {
        let path = kind.path(id);
        if let Some(cache) = self.cache().filter(|_| kind.is_cached()) {
            let load = || self.read_part(&path, None).ok();
            if let Some(bytes) = cache.part(kind, id, range, load) {
                return Ok(bytes);
            }
        }
        let read = self.read_part(&path, Some(range));
        read.map_err(|fault| self.error_under_lock(Action::Read, &path, fault))
    }

    /// Reads all files of a type in several threads, which pass the contents of each to `use_file`.
    ///
    /// # Errors
    /// If the files cannot be listed, or an error of `use_file`. Then some files are not read.
    pub(crate) fn read_all(
        &self,
        kind: RepositoryFile,
        use_file: impl Fn(Id, Result<Vec<u8>, Error>) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let ids = self.list(kind)?;
        try_each(ids.len(), usize::MAX, |nth| {
            use_file(ids[nth], self.read(kind, &ids[nth]))
        })
    }

    /// Writes a file, and returns its id.
    ///
    /// # Errors
    /// If the file cannot be written, or the lock is lost.
    pub(crate) fn write(&self, kind: RepositoryFile, content: Vec<u8>) -> Result<Id, Error> {
        let id = Id::hash(&content);
        if self.is_dry {
            return Ok(id);
        }
        if let Some(loss) = self.stopped.get() {
            return Err(Error::LockLost(*loss));
        }
        let (path, content) = (kind.path(&id), Bytes::from(content));
        let written = self.write_file(&path, &content);
        written.map_err(|fault| self.error_under_lock(Action::Write, &path, fault))?;
        if let Some(cache) = self.cache().filter(|_| kind.is_cached()) {
            cache.put(kind, &id, &content);
        }
        Ok(id)
    }
}

fn open_backend(location: &[u8], on_silence: Option<OnSilence>) -> Result<Backend, Error> {
    let (scheme, rest) = match location.iter().position(|&b| b == b':') {
        Some(colon) if !location[..colon].contains(&b'/') => location.split_at(colon),
        _ => (&b"local"[..], location),
    };
    let text = || std::str::from_utf8(location).map_err(|_| Error::Location);
    let opened = match scheme {
        b"local" => {
            let dir = rest.strip_prefix(b":").unwrap_or(rest);
            let opened = open_long(dir, Open::PATH | Open::DIRECTORY);
            return match opened {
                Ok(_) => Ok(Backend::Local(dir.to_vec())),
                Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Error::NoRepository),
                Err(errno) => Err(Error::File {
                    action: Action::Open,
                    path: dir.to_vec(),
                    errno,
                }),
            };
        }
        b"rest" | b"s3" => remote::repository(text()?),
        b"sftp" => SftpFiles::connect(text()?, on_silence),
        _ => return Err(Error::Scheme(String::from_utf8_lossy(scheme).into_owned())),
    };
    match opened {
        Ok(files) => Ok(Backend::Remote(files)),
        Err(StoreError::BadUrl) => Err(Error::Location),
        Err(error) => Err(Error::Remote {
            action: Action::Open,
            path: CONFIG.to_owned(),
            error,
        }),
    }
}

/// A location for display: without the password of a URL, whatever characters it has.
pub fn without_password(location: &[u8]) -> Vec<u8> {
    let shown = || {
        let position = |wanted: &[u8]| location.windows(wanted.len()).position(|it| it == wanted);
        let user = match position(b"://") {
            // A colon comes before the slashes, but not in the path of a local repository.
            Some(slashes) if !location[..slashes].contains(&b'/') => slashes + 3,
            _ if location.starts_with(b"rest:") || location.starts_with(b"s3:") => {
                position(b":")? + 1
            }
            _ => return None,
        };
        // A password may contain slashes, at signs and colons that should have been escaped. So what looks like a port and a path with an
        // at sign may be a password, too.
        let host = location.iter().rposition(|&byte| byte == b'@')?;
        let secret = location.get(user..host)?;
        let colon = user + secret.iter().position(|&byte| byte == b':')?;
        Some([&location[..=colon], b"***", &location[host..]].concat())
    };
    shown().unwrap_or_else(|| location.to_vec())
}

/// The remote host to which a password would be sent unencrypted, from the location or the
/// environment.
pub fn host_of_plain_password(location: &[u8]) -> Option<Vec<u8>> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_password = is_set("RESTIC_REST_USERNAME") && is_set("RESTIC_REST_PASSWORD");
    plain_host(location, has_password)
}

fn plain_host(location: &[u8], has_password: bool) -> Option<Vec<u8>> {
    let location = std::str::from_utf8(location).ok()?;
    let authority = location.strip_prefix("rest:http://")?.split('/').next()?;
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let end = host.rfind(':').filter(|_| !host.ends_with(']'));
    let name = host[..end.unwrap_or(host.len())].trim_matches(['[', ']']);
    let address = name.parse::<IpAddr>();
    let is_local = name == "localhost" || address.is_ok_and(|address| address.is_loopback());
    let is_sent = user.contains(':') || user.is_empty() && has_password;
    (is_sent && !is_local).then(|| name.as_bytes().to_vec())
}

/// A file that is removed on drop, or by [`HeldFile::remove`].
pub(crate) struct HeldFile {
    path: String,
    kept: HeldFileKind,
}

enum HeldFileKind {
    Local { _file: LockFile },
    Remote(Arc<dyn Files>),
    Removed,
}

impl HeldFile {
    /// Whether the file has this name in its directory.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.path.rsplit('/').next() == Some(name)
    }

    /// Removes the file. After an error a lock becomes stale in half an hour.
    pub(crate) fn remove(mut self) -> Result<(), Error> {
        let kept = std::mem::replace(&mut self.kept, HeldFileKind::Removed);
        let HeldFileKind::Remote(files) = kept else {
            return Ok(()); // a local file is removed when `kept` is dropped
        };
        files.remove(&self.path).map_err(|error| Error::Remote {
            action: Action::Remove,
            path: self.path.clone(),
            error,
        })
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        if let HeldFileKind::Remote(files) = &self.kept {
            let _ = files.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (location, shown) in [
            (
                "rest:https://me:secret@host:1/p",
                "rest:https://me:***@host:1/p",
            ),
            ("rest:https://me@host:1/p", "rest:https://me@host:1/p"),
            ("rest:https://host:1/p@q", "rest:https://host:***@q"),
            ("rest:http://me:12/secret@host", "rest:http://me:***@host"),
            ("rest:http://me:a://b@host", "rest:http://me:***@host"),
            ("http://me:pw@host/p", "http://me:***@host/p"),
            ("sftp://me:pw@host/p", "sftp://me:***@host/p"),
            ("s3:https://K:S/x:y@host/b", "s3:https://K:***@host/b"),
            ("rest:http://me:p@s%2Fw@h/p", "rest:http://me:***@h/p"),
            ("rest:http://me:se/cret@host", "rest:http://me:***@host"),
            ("s3:KEY:SECRET@host/b", "s3:KEY:***@host/b"),
            ("s3:https://host/b@c", "s3:https://host/b@c"),
            ("sftp:me@host:/p@q", "sftp:me@host:/p@q"),
            ("/srv/a:b@c", "/srv/a:b@c"),
            ("/srv/x://a:b@c", "/srv/x://a:b@c"),
            ("backups/a:b@c", "backups/a:b@c"),
        ] {
            assert_eq!(without_password(location.as_bytes()), shown.as_bytes());
        }
    }

    #[test]
    fn passwords_on_their_way_to_other_hosts_are_noticed() {
        let found = plain_host(b"rest:http://host/p", true);
        assert_eq!(found.as_deref(), Some(&b"host"[..]));
        for (location, host) in [
            ("rest:http://me:secret@host:8000/p", Some("host")),
            ("rest:http://me:s@[fd00::1]:8000/", Some("fd00::1")),
            ("rest:https://me:secret@host/p", None),
            ("rest:http://me@host/p", None),
            ("rest:http://me:secret@localhost:8000/p", None),
            ("rest:http://me:secret@127.0.0.2/p", None),
            ("rest:http://me:secret@[::1]/p", None),
            ("rest:http://host/me:secret@p", None),
            ("/srv/rest:http://a:b@c", None),
        ] {
            let found = plain_host(location.as_bytes(), false);
            assert_eq!(found.as_deref(), host.map(str::as_bytes), "{location}");
        }
    }
}
