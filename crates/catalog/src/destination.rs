//! A file or an object that is complete or absent.

use std::ffi::CString;
use std::io::{self, Write};
use std::sync::Arc;

use gate::file::{Permissions, Reader, Writer, fsync, unlinkat};
use gate::fs::{At, Open, Statx, Want, openat, statx};
use gate::long::{c_string, open_long, split_path};
use gate::{Errno, Fd};

use crate::error::ErrorKind;
use crate::remote::{self, Upload, Version};

/// Something being written, which only its owner may read unless there was a file. It gets its name when it is
/// [published](Destination::publish); otherwise it disappears.
#[derive(Debug)]
pub enum Destination {
    /// A file, or standard output.
    File(Writer),
    /// An object of a store.
    Object(Box<dyn Upload>),
}

fn os_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}

impl Destination {
    /// `-` is standard output. An object replaces only the version that exists now.
    pub fn create(path: &[u8]) -> Result<Destination, ErrorKind> {
        Destination::replace(path, &Version::Current)
    }

    /// As [`Destination::create`]; an object replaces only the given version.
    pub fn replace(path: &[u8], version: &Version) -> Result<Destination, ErrorKind> {
        Ok(match remote::client(path)? {
            Some(client) => Destination::Object(client.create(path, version)?),
            None if path == b"-" => Destination::File(Writer::stdout()?),
            None => Destination::File(Writer::create(path, Permissions::Private)?),
        })
    }

    /// The attributes of the file.
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

    /// Waits until everything written is on the disk or in the store, so that little can fail when it is
    /// published.
    pub fn sync(&mut self) -> io::Result<()> {
        match self {
            Destination::File(writer) => writer.sync().map_err(os_error),
            Destination::Object(upload) => Ok(upload.sync()?),
        }
    }

    /// Gives it its name, atomically, when everything is durable.
    pub fn publish(self) -> io::Result<()> {
        match self {
            Destination::File(writer) => writer.publish().map_err(os_error),
            Destination::Object(upload) => Ok(upload.publish()?),
        }
    }
}

/// Copies a file, atomically.
pub fn copy_file(from: &[u8], to: &[u8]) -> Result<(), ErrorKind> {
    let reader = Reader::open(from)?;
    let mut writer = Writer::create(to, Permissions::Private)?;
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

/// Removes a file or an object, and waits until that is on the disk.
pub(crate) fn remove(path: &[u8]) -> Result<(), ErrorKind> {
    if remote::is_remote(path) {
        return Ok(remote::remove(path)?);
    }
    let (dir, name) = place(path)?;
    unlinkat(&dir, &name)?;
    Ok(fsync(&dir)?)
}

/// Removes a file if it is the right one, and waits until that is on the disk. What has been given its path since, in this directory or by
/// moving a directory, stays.
pub fn remove_if<E: From<ErrorKind>>(
    path: &[u8],
    is_right: impl FnOnce(&Arc<Fd>) -> Result<bool, E>,
) -> Result<bool, E> {
    let (dir, name) = place(path)?;
    let call = |errno: Errno| ErrorKind::from(errno);
    let file = Arc::new(openat(&dir, &name, Open::NONBLOCK).map_err(call)?);
    let identity = |seen: Statx| (seen.dev, seen.ino);
    let opened = statx(&*file, c"", At::EMPTY_PATH, Want::BASIC_STATS).map(identity);
    let opened = opened.map_err(call)?;
    if !is_right(&file)? {
        return Ok(false);
    }
    let named = statx(&dir, &name, At::empty(), Want::BASIC_STATS).map(identity);
    let named = named.map_err(call)?;
    if named == opened {
        unlinkat(&dir, &name).map_err(call)?;
        fsync(&dir).map_err(call)?;
    }
    Ok(named == opened)
}

/// The open directory of an absolute path, and the name there.
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
