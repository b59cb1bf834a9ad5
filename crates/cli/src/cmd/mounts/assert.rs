//! `fathom mounts --assert`: checks that paths are mount points.

use std::os::unix::ffi::OsStrExt;

use ::show::name::printable;
use base::runs::time_text;
use base::{Warning, WarningReason};
use gate::fs::{AtFlags, Attributes, CWD, Statx, StatxMask};
use gate::long::{newfstatat_long, statx_long};
use gate::{Errno, Gate};
use mounts::check::{ANSWER_WITHIN, find_silent_mount};

use super::args::{Format, Mounts as Args};
use super::show::{AssertResult, Mounts, SCHEMA};
use crate::error::{Error, Outcome};
use crate::out::Out;

pub(super) fn run(args: &Args, format: Format, out: &Out) -> Outcome {
    let mut asserted = Vec::new();
    let mut warnings = Vec::new();
    for path in args.assert.iter().map(|path| path.as_bytes()) {
        let touch = || {
            let _ = is_mount_point(path, look(path));
        };
        if find_silent_mount(path, ANSWER_WITHIN, touch).is_some() {
            warnings.push(Warning::about(path, WarningKind::Silent));
            let path = path.to_vec();
            asserted.push(AssertResult {
                path,
                mountpoint: false,
            });
            continue;
        }
        let seen = look(path);
        let mountpoint = is_mount_point(path, seen)?;
        if !mountpoint {
            warnings.push(match seen {
                Ok(_) => Warning::about(path, WarningKind::NotMountPoint),
                Err(e @ (Errno::ENOENT | Errno::ENOTDIR)) => {
                    Warning::failed(path, Gate::Statx, e, WarningKind::NotMountPoint)
                }
                Err(e) => Warning::failed(path, Gate::Statx, e, WarningKind::Unknown),
            });
        } else if !out.quiet && format == Format::Table {
            out.data(format!("{} is a mount point\n", printable(path)))?;
        }
        let path = path.to_vec();
        asserted.push(AssertResult { path, mountpoint });
    }
    if format == Format::Json {
        let result = Mounts {
            by: "search",
            why: "statx(2) of each path",
            complete: true,
            asserted: Some(&asserted),
            ..Mounts::default()
        };
        out.envelope(SCHEMA, result, &warnings)?;
    }
    Ok(out.warn(&warnings))
}

/// Reads whether a path is the root of a mount, without waiting for the server of that mount.
fn look(path: &[u8]) -> gate::Result<Statx> {
    let at = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    statx_long(path, at, StatxMask::empty())
}

/// Whether a path is a mount point, by the result of [`look`].
fn is_mount_point(path: &[u8], seen: gate::Result<Statx>) -> Result<bool, Error> {
    match seen {
        Ok(seen) if seen.attributes_known.contains(Attributes::MOUNT_ROOT) => {
            Ok(seen.attributes.contains(Attributes::MOUNT_ROOT))
        }
        Ok(_) | Err(Errno::ENOSYS | Errno::EPERM) => is_on_other_device(path),
        Err(_) => Ok(false),
    }
}

/// Whether a directory and its parent have different device numbers: the test for a mount point on
/// kernels whose statx(2) does not report mount roots.
fn is_on_other_device(path: &[u8]) -> Result<bool, Error> {
    const WHY: &str = "statx(2) does not report mount points here";
    const NEXT: &str = "run it on Linux 5.8 or later, where statx(2) is permitted";
    let parent = base::path::join(path, b"..");
    let stat = |name: &[u8]| newfstatat_long(CWD, name, AtFlags::NO_AUTOMOUNT);
    match (stat(path), stat(&parent)) {
        (Ok(a), Ok(b)) if a.dev != b.dev || a.ino == b.ino => Ok(true),
        (Err(_), _) => Ok(false),
        _ => Err(Error::read(
            "cannot find out whether there is a mount on",
            path,
            WHY,
            NEXT,
        )),
    }
}

#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("not a mount point")]
    NotMountPoint,
    #[error("cannot find out whether it is a mount point")]
    Unknown,
    #[error(
        "cannot find out whether it is a mount point: no answer within {}",
        time_text(ANSWER_WITHIN)
    )]
    Silent,
}

impl WarningReason for WarningKind {
    fn explains_errno(&self) -> bool {
        matches!(self, WarningKind::NotMountPoint)
    }
}
