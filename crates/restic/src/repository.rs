//! The files of a repository in a local directory. They are read and written through the gate: each
//! is counted, and gets its name when it is complete and on the disk, so that a process that is
//! killed leaves no partial file.

use std::io::Write;

use bytes::Bytes;
use gate::file::{Reader, Writer, unlinkat};
use gate::fs::{At, CWD, Open, Want, getdents64, statx};
use gate::long::{c_string, open_long};
use gate::sync::Mutex;
use gate::{Errno, Fd};
use ondisk::dirent::entries;
use rustic_core::{
    BytesList, ErrorKind, FileType, Id, ReadBackend, RusticError, RusticResult, WriteBackend,
};

use crate::error::Error;

/// A repository in a local directory.
#[derive(Debug)]
pub(crate) struct LocalRepository {
    dir: Vec<u8>,
    /// The first call that failed: the engine reports it as text.
    failed: Mutex<Option<Error>>,
    /// The last snapshot that was written.
    snapshot: Mutex<Option<Id>>,
}

impl LocalRepository {
    /// The repository of a directory.
    ///
    /// # Errors
    /// The directory cannot be opened, or has no repository.
    pub(crate) fn open(dir: &[u8]) -> Result<LocalRepository, Error> {
        let action = "cannot open";
        let opened = open_long(dir, Open::PATH | Open::DIRECTORY);
        opened.map_err(|errno| Error::File {
            action,
            path: dir.to_vec(),
            errno,
        })?;
        let repository = LocalRepository {
            dir: dir.to_vec(),
            failed: Mutex::default(),
            snapshot: Mutex::default(),
        };
        match Reader::open(&repository.path(FileType::Config, &Id::default())) {
            Ok(_) => Ok(repository),
            Err(Errno::ENOENT | Errno::EISDIR) => Err(Error::NoRepository),
            Err(errno) => Err(Error::File {
                action,
                path: repository.path(FileType::Config, &Id::default()),
                errno,
            }),
        }
    }

    /// The error of the call that failed, or else the engine's.
    pub(crate) fn error(&self, engine: Box<RusticError>) -> Error {
        self.failed.lock().take().unwrap_or(Error::Engine(engine))
    }

    /// The device and inode number of the directory.
    pub(crate) fn identity(&self) -> Option<((u32, u32), u64)> {
        let seen = statx(
            open_long(&self.dir, Open::PATH | Open::DIRECTORY).ok()?,
            c"",
            At::EMPTY_PATH,
            Want::BASIC_STATS,
        );
        seen.ok().map(|seen| (seen.dev, seen.ino))
    }

    /// The name of the last snapshot that was written.
    pub(crate) fn last_snapshot_name(&self) -> String {
        let id = *self.snapshot.lock();
        id.map_or_else(String::new, |id| id.to_hex().to_string())
    }

    /// The path of a name in the repository.
    pub(crate) fn below(&self, name: &str) -> Vec<u8> {
        [&self.dir, &b"/"[..], name.as_bytes()].concat()
    }

    /// The path of a file.
    pub(crate) fn path(&self, kind: FileType, id: &Id) -> Vec<u8> {
        let id = id.to_hex();
        match kind {
            FileType::Config => self.below("config"),
            FileType::Pack => self.below(&format!("data/{}/{}", &id[..2], &id[..])),
            _ => self.below(&format!("{}/{}", kind.dirname(), &id[..])),
        }
    }

    /// Records a failure, and passes it to the engine.
    fn fail(&self, action: &'static str, path: Vec<u8>, errno: Errno) -> Box<RusticError> {
        let error = Error::File {
            action,
            path,
            errno,
        };
        let told = RusticError::new(ErrorKind::InputOutput, error.to_string());
        self.failed.lock().get_or_insert(error);
        told
    }

    fn list_dir(&self, name: &str, found: &mut Vec<(Id, u32)>) -> RusticResult<()> {
        let path = self.below(name);
        let read = || -> Result<Vec<(Id, u32)>, Errno> {
            let dir = open_long(&path, Open::DIRECTORY)?;
            let mut ids = Vec::new();
            for name in names(&dir)? {
                let Ok(id) = name.parse::<Id>() else { continue };
                match statx(&dir, &c_string(name.as_bytes())?, At::empty(), Want::SIZE) {
                    Ok(seen) => ids.push((id, u32::try_from(seen.size).unwrap_or(u32::MAX))),
                    Err(Errno::ENOENT) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(ids)
        };
        match read() {
            Ok(ids) => found.extend(ids),
            Err(Errno::ENOENT) => {}
            Err(e) => return Err(self.fail("cannot list", path.clone(), e)),
        }
        Ok(())
    }
}

/// The names in a directory that are UTF-8, without `.` and `..`.
pub(crate) fn names(dir: &Fd) -> Result<Vec<String>, Errno> {
    let (mut buffer, mut found) = (vec![0; 32 << 10], Vec::new());
    loop {
        let len = getdents64(dir, &mut buffer)?;
        if len == 0 {
            return Ok(found);
        }
        let names = entries(&buffer[..len]).map(|entry| entry.name.to_str().map(str::to_owned));
        found.extend(names.flatten());
    }
}

/// The hexadecimal digits of a hash.
pub(crate) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a part of a file; all of it without a range.
pub(crate) fn read_file(path: &[u8], range: Option<(u64, usize)>) -> Result<Vec<u8>, Errno> {
    let file = Reader::open(path)?;
    let (offset, len) = range.unwrap_or((0, file.len() as usize));
    let mut bytes = vec![0; len];
    match file.read_at(offset, &mut bytes)? {
        have if have == len => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}

impl ReadBackend for LocalRepository {
    fn location(&self) -> String {
        format!("local:{}", String::from_utf8_lossy(&self.dir))
    }

    fn list_with_size(&self, kind: FileType) -> RusticResult<Vec<(Id, u32)>> {
        let mut found = Vec::new();
        match kind {
            FileType::Config => found.push((Id::default(), 0)),
            FileType::Pack => {
                for first in 0..=u8::MAX {
                    self.list_dir(&format!("data/{first:02x}"), &mut found)?;
                }
            }
            _ => self.list_dir(kind.dirname(), &mut found)?,
        }
        Ok(found)
    }

    fn read_full(&self, kind: FileType, id: &Id) -> RusticResult<Bytes> {
        let path = self.path(kind, id);
        let read = read_file(&path, None);
        read.map(Bytes::from)
            .map_err(|e| self.fail("cannot read", path, e))
    }

    fn read_partial(
        &self,
        kind: FileType,
        id: &Id,
        _is_cacheable: bool,
        offset: u32,
        length: u32,
    ) -> RusticResult<Bytes> {
        let path = self.path(kind, id);
        let read = read_file(&path, Some((u64::from(offset), length as usize)));
        read.map(Bytes::from)
            .map_err(|e| self.fail("cannot read", path, e))
    }

    fn warmup_path(&self, kind: FileType, id: &Id) -> String {
        String::from_utf8_lossy(&self.path(kind, id)).into_owned()
    }
}

impl WriteBackend for LocalRepository {
    fn write_bytes(
        &self,
        kind: FileType,
        id: &Id,
        _is_cacheable: bool,
        content: BytesList,
    ) -> RusticResult<()> {
        // Not if anything before it could not be read or written.
        if let (FileType::Snapshot, Some(error)) = (kind, &*self.failed.lock()) {
            return Err(RusticError::new(ErrorKind::InputOutput, error.to_string()));
        }
        let path = self.path(kind, id);
        let write = || -> Result<(), Errno> {
            let mut file = Writer::create(&path)?;
            for piece in content.slice() {
                let written = file.write_all(piece);
                written.map_err(|e| Errno(e.raw_os_error().unwrap_or(Errno::EIO.0)))?;
            }
            file.publish()
        };
        write().map_err(|e| self.fail("cannot write", path.clone(), e))?;
        if kind == FileType::Snapshot {
            *self.snapshot.lock() = Some(*id);
        }
        Ok(())
    }

    fn remove(&self, kind: FileType, id: &Id, _is_cacheable: bool) -> RusticResult<()> {
        let path = self.path(kind, id);
        let removed = c_string(&path).and_then(|name| unlinkat(CWD, &name));
        removed.map_err(|e| self.fail("cannot remove", path, e))
    }
}
