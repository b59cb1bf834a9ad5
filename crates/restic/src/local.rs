//! Reads and writes local files and directories.

use std::io::Write;

use base::directory::each_entry;
use catalog::remote::MOST_BYTES;
use gate::create::mkdirat;
use gate::file::{Permissions, Reader, Writer};
use gate::fs::CWD;
use gate::long::c_string;
use gate::{Errno, Fd};

/// The name of the configuration file, which marks a directory as a repository.
pub(crate) const CONFIG: &str = "config";

/// The modes of new files and directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Modes {
    pub(crate) file: u32,
    pub(crate) dir: u32,
}

impl Modes {
    /// The modes in a cache.
    pub(crate) const PRIVATE: Modes = Modes {
        file: 0o600,
        dir: 0o700,
    };

    /// The modes in a repository whose configuration has the mode `config`. As in restic, the group
    /// gets read permission if it may read the configuration, and files are read-only
    /// (`internal/backend/util/file_helpers.go`).
    pub(crate) fn of_repository(config: u32) -> Modes {
        match config & 0o040 {
            0 => Modes {
                file: 0o400,
                dir: 0o700,
            },
            _ => Modes {
                file: 0o440,
                dir: 0o770,
            },
        }
    }
}

/// The UTF-8 names in a directory, without `.` and `..`.
pub(crate) fn names(dir: &Fd) -> Result<Vec<String>, Errno> {
    let mut found = Vec::new();
    each_entry(dir, |entry| {
        found.extend(entry.name.to_str().map(str::to_owned))
    })?;
    Ok(found)
}

/// Reads a range of a file; without a range all of it, or `EFBIG` for a size that no repository
/// file has.
pub(crate) fn read_file(path: &[u8], range: Option<(u64, usize)>) -> Result<Vec<u8>, Errno> {
    let file = Reader::open(path)?;
    if range.is_none() && file.len() > MOST_BYTES as u64 {
        return Err(Errno::EFBIG);
    }
    let (offset, len) = range.unwrap_or((0, file.len() as usize));
    let mut bytes = vec![0; len];
    match file.read_at(offset, &mut bytes)? {
        have if have == len => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}

/// Writes a file atomically: renames it into place after fsync(2).
pub(crate) fn write_file(path: &[u8], content: &[u8], modes: Modes) -> Result<(), Errno> {
    let mut file = Writer::create(path, Permissions::Exactly(modes.file))?;
    let written = file.write_all(content);
    written.map_err(|e| Errno(e.raw_os_error().unwrap_or(Errno::EIO.0)))?;
    file.publish()
}

/// Creates a directory and its parents; returns whether it did not exist.
pub(crate) fn make_dirs(path: &[u8], modes: Modes) -> Result<bool, Errno> {
    let make = |path: &[u8]| mkdirat(CWD, &c_string(path)?, modes.dir);
    match make(path) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(Errno::ENOENT) => {
            let above = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            if above == 0 {
                return Err(Errno::ENOENT);
            }
            make_dirs(&path[..above], modes)?;
            make(path).map(|()| true)
        }
        Err(errno) => Err(errno),
    }
}
