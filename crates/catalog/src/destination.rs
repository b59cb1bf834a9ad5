//! A file or object that is written atomically: complete or absent.

use std::ffi::CString;
use std::io::{self, Write};
use std::sync::Arc;

use gate::file::{Permissions, Writer, fsync, unlinkat};
use gate::fs::{AtFlags, Open, Statx, StatxMask, fstat, openat, statx};
use gate::long::{c_string, open_long, split_path};
use gate::{Errno, Fd};

use crate::error::ErrorKind;
use crate::ranges::Ranges;
use crate::remote::{self, Upload, Version};

/// A file or object being written, readable only by its owner unless it replaces a file.
/// [Publishing](Destination::publish) renames it into place; otherwise it disappears.
#[derive(Debug)]
pub enum Destination {
    /// A file, or standard output.
    File(Writer),
    /// An object in an S3-compatible store.
    Object(Box<dyn Upload>),
}

fn os_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}

impl Destination {
    /// Opens a destination; `-` is standard output. An object replaces only the version that exists
    /// now.
    pub fn create(path: &[u8]) -> Result<Destination, ErrorKind> {
        Destination::replace(path, &Version::Current)
    }

    /// Like [`Destination::create`]; an object replaces only the given version.
    pub fn replace(path: &[u8], version: &Version) -> Result<Destination, ErrorKind> {
        Ok(match remote::client(path)? {
            Some(client) => Destination::Object(client.create(path, version)?),
            None if path == b"-" => Destination::File(Writer::stdout()?),
            None => Destination::File(Writer::create(path, Permissions::Private)?),
        })
    }

    /// The result of statx(2) for the file; `None` for an object, or on an error.
    pub fn statx(&self) -> Option<Statx> {
        match self {
            Destination::File(writer) => writer.statx().ok(),
            Destination::Object(_) => None,
        }
    }

    /// See [`Writer::bypass_cache`].
    pub fn bypass_cache(&mut self, size: usize) -> bool {
        match self {
            Destination::File(writer) => writer.bypass_cache(size),
            Destination::Object(_) => false,
        }
    }

    /// See [`Writer::use_cache`].
    pub fn use_cache(&mut self) -> io::Result<()> {
        match self {
            Destination::File(writer) => writer.use_cache().map_err(os_error),
            Destination::Object(_) => Ok(()),
        }
    }

    /// Waits until all data is on disk or in the store, so that publishing is unlikely to fail.
    pub fn sync(&mut self) -> io::Result<()> {
        match self {
            Destination::File(writer) => writer.sync().map_err(os_error),
            Destination::Object(upload) => Ok(upload.sync()?),
        }
    }

    /// Waits until all data is durable, then renames the file into place.
    pub fn publish(self) -> io::Result<()> {
        match self {
            Destination::File(writer) => writer.publish().map_err(os_error),
            Destination::Object(upload) => Ok(upload.publish()?),
        }
    }
}

/// Copies a file or object, atomically.
pub fn copy_file(from: &[u8], to: &[u8]) -> Result<(), ErrorKind> {
    let reader = Ranges::open(from)?;
    let mut writer = Destination::create(to)?;
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    loop {
        let n = reader.read_at(at, &mut buffer)?;
        if n == 0 {
            return Ok(writer.publish()?);
        }
        writer.write_all(&buffer[..n])?;
        at += n as u64;
    }
}

/// Removes a file or object, and syncs its directory.
pub(crate) fn remove(path: &[u8]) -> Result<(), ErrorKind> {
    if remote::is_remote(path) {
        return Ok(remote::remove(path)?);
    }
    let (dir, name) = place(path)?;
    unlinkat(&dir, &name)?;
    Ok(fsync(&dir)?)
}

/// Removes a file if `is_right` accepts it, and syncs its directory. If the path has been given to
/// a different file meanwhile, by a rename of the file or of a directory, that file is kept.
pub fn remove_if<E: From<ErrorKind>>(
    path: &[u8],
    is_right: impl FnOnce(&Arc<Fd>) -> Result<bool, E>,
) -> Result<bool, E> {
    let (dir, name) = place(path)?;
    let call = |errno: Errno| ErrorKind::from(errno);
    let file = Arc::new(openat(&dir, &name, Open::NONBLOCK).map_err(call)?);
    let identity = |seen: Statx| (seen.dev, seen.ino);
    let opened = fstat(&*file, StatxMask::BASIC_STATS).map(identity);
    let opened = opened.map_err(call)?;
    if !is_right(&file)? {
        return Ok(false);
    }
    let named = statx(&dir, &name, AtFlags::empty(), StatxMask::BASIC_STATS).map(identity);
    let named = named.map_err(call)?;
    if named == opened {
        unlinkat(&dir, &name).map_err(call)?;
        fsync(&dir).map_err(call)?;
    }
    Ok(named == opened)
}

/// Opens the directory of an absolute path; also returns the name in it.
fn place(path: &[u8]) -> Result<(Fd, CString), ErrorKind> {
    let (dir, name) = split_path(path);
    Ok((open_long(dir, Open::DIRECTORY)?, c_string(name)?))
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::File(writer) => writer.write(bytes),
            Destination::Object(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
