//! Removes the tree, even if a different program created it.
//!
//! Each rank of a team removes some of the directories, and rank 0 removes ROOT.

use std::time::Instant;

use base::Warning;
use base::directory::each_entry;
use base::path::{join, without_slashes};
use gate::create::unlinkat_directory;
use gate::file::unlinkat;
use gate::fs::{FileType, Open, StatxMask, lstatat, openat};
use gate::interrupt::pending_signal;
use gate::long::{c_string, open_long};
use gate::{Errno, Fd};

use crate::create::remove_root;
use crate::error::{Error, Operation, Reason, StateAfterFailure};
use crate::report::RemovalReport;
use crate::shape::{DIRECTORY, Progress, Shape, c_name};
use crate::warning::{PathWarning, WarningKind};
use team::{Team, agree, share};

/// Removes the tree: the empty regular files with names of the benchmark, then the directories.
/// Other entries are kept with their directories, and a warning names them. With `stop_on_signal`,
/// stops when a signal asks the process to stop.
pub(crate) fn remove(
    root: &[u8],
    shape: Shape,
    team: &dyn Team,
    stop_on_signal: bool,
    progress: &Progress,
    warnings: &mut Vec<Warning>,
) -> Result<RemovalReport, Error> {
    // Slashes at the end would make the kernel follow a symbolic link.
    let root = without_slashes(root);
    team.barrier();
    let start = Instant::now();
    let mut remover = Remover {
        root,
        shape,
        stop_on_signal,
        progress,
        files: 0,
        left: 0,
        warnings: Vec::new(),
    };
    let removed = remover.remove_directories(team.rank() as u64, team.size());
    agree(team, removed)?;
    let counts = share(team, (remover.files, remover.left));
    let mut objects = counts.iter().map(|(files, _)| files).sum();
    let mut left = counts.iter().map(|(_, left)| left).sum();
    remover.warnings = share(team, remover.warnings).concat();
    if team.rank() == 0 {
        let left_by_this_rank = remover.left;
        objects += u64::from(remover.remove_root()?);
        left += remover.left - left_by_this_rank;
        remover.warn_if_missing(objects, left);
        warnings.extend(remover.warnings.into_iter().map(Warning::from));
    }
    Ok(RemovalReport {
        objects,
        left,
        elapsed: start.elapsed(),
    })
}

struct Remover<'a> {
    root: &'a [u8],
    shape: Shape,
    stop_on_signal: bool,
    progress: &'a Progress,
    /// The number of files removed so far.
    files: u64,
    /// The number of entries kept because the benchmark did not create them.
    left: u64,
    warnings: Vec<PathWarning>,
}

/// Entries of a directory that the benchmark did not create.
#[derive(Default)]
struct ForeignFiles {
    count: u64,
    example: Option<Vec<u8>>,
}

impl ForeignFiles {
    /// An entry that is only known from the error of rmdir(2).
    const UNSEEN: ForeignFiles = ForeignFiles {
        count: 1,
        example: None,
    };

    fn add(&mut self, name: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| name.to_vec());
    }
}

impl Remover<'_> {
    fn error(&self, path: &[u8], reason: impl Into<Reason>) -> Error {
        let aftermath = (self.files > 0).then_some(StateAfterFailure::FilesRemoved(self.files));
        Error {
            aftermath,
            ..Error::new(Operation::Remove, path, reason)
        }
    }

    fn open_root(&self) -> Result<Fd, Error> {
        open_long(self.root, Open::SCAN).map_err(|e| self.error(self.root, e))
    }

    /// Removes the directories of one rank.
    fn remove_directories(&mut self, first: u64, step: usize) -> Result<(), Error> {
        let top = self.open_root()?;
        for directory in (first..self.shape.length).step_by(step.max(1)) {
            let name = c_name(directory);
            let path = join(self.root, name.to_bytes());
            let dir = match openat(&top, &name, Open::SCAN) {
                Ok(dir) => dir,
                // Entries other than directories are found when ROOT is listed.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(e) => return Err(self.error(&path, e)),
            };
            let foreign = self.remove_files(&dir, directory, &path)?;
            if foreign.count > 0 {
                self.keep(&path, foreign);
                continue;
            }
            match unlinkat_directory(&top, &name) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::EBUSY) => {
                    self.keep(&path, ForeignFiles::UNSEEN);
                }
                Err(e) => return Err(self.error(&path, e)),
            }
        }
        Ok(())
    }

    /// Removes the benchmark's files from one directory, and returns the other entries.
    fn remove_files(
        &mut self,
        dir: &Fd,
        directory: u64,
        path: &[u8],
    ) -> Result<ForeignFiles, Error> {
        let stem = format!("{directory}.").into_bytes();
        let mut numbers = Vec::new();
        let mut foreign = ForeignFiles::default();
        let mut visit = |name: &[u8]| match name.strip_prefix(&stem[..]).and_then(parse_number) {
            Some(file) if file < self.shape.files => numbers.push(file),
            _ => foreign.add(name),
        };
        each_entry(dir, |entry| visit(entry.name.to_bytes())).map_err(|e| self.error(path, e))?;
        numbers.sort_unstable(); // in the order of their creation, as LLNL's program does
        for file in numbers {
            if self.stop_on_signal && pending_signal().is_some() {
                return Err(self.error(self.root, Reason::Interrupted));
            }
            let name = c_name(format_args!("{directory}.{file}"));
            match lstatat(dir, &name, StatxMask::TYPE | StatxMask::SIZE) {
                // A nonempty file contains data of a user, which must not be lost.
                Ok(seen) if seen.file_type != FileType::Regular || seen.size > 0 => {
                    foreign.add(name.to_bytes());
                    continue;
                }
                Ok(_) => {}
                Err(Errno::ENOENT) => continue,
                Err(e) => return Err(self.error(&join(path, name.to_bytes()), e)),
            }
            match unlinkat(dir, &name) {
                Ok(()) => {
                    self.files += 1;
                    self.progress.add_one();
                }
                Err(Errno::ENOENT) => {}
                Err(Errno::EBUSY) => foreign.add(name.to_bytes()), // the entry is a mount point
                Err(e) => return Err(self.error(&join(path, name.to_bytes()), e)),
            }
        }
        Ok(foreign)
    }

    /// Warns that a directory is kept.
    fn keep(&mut self, path: &[u8], foreign: ForeignFiles) {
        self.left += foreign.count;
        let (path, Shape { length, files }) = (path.to_vec(), self.shape);
        let kind = WarningKind::ForeignEntries {
            entries: foreign.count,
            example: foreign.example,
            length,
            files,
        };
        self.warnings.push(PathWarning { path, kind });
    }

    /// Removes ROOT if it is empty, and returns whether it was.
    fn remove_root(&mut self) -> Result<bool, Error> {
        let top = self.open_root()?;
        let mut names = Vec::new();
        each_entry(&top, |entry| names.push(entry.name.to_bytes().to_vec()))
            .map_err(|e| self.error(self.root, e))?;
        let mut foreign = ForeignFiles::default();
        for name in &names {
            let is_ours = parse_number(name).is_some_and(|at| at < self.shape.length)
                && c_string(name)
                    .and_then(|name| openat(&top, &name, DIRECTORY))
                    .is_ok();
            if !is_ours {
                foreign.add(name);
            }
        }
        if foreign.count > 0 {
            self.keep(self.root, foreign);
            return Ok(false);
        }
        if !names.is_empty() {
            return Ok(false); // ROOT contains directories that were kept
        }
        drop(top);
        match remove_root(self.root) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
                self.keep(self.root, ForeignFiles::UNSEEN);
                Ok(false)
            }
            Err(e) => Err(self.error(self.root, e)),
        }
    }

    /// Warns if the tree had fewer objects than its shape defines.
    fn warn_if_missing(&mut self, removed: u64, left: u64) {
        let objects = self.shape.objects().unwrap_or(u64::MAX);
        if removed < objects && left == 0 {
            let (path, Shape { length, files }) = (self.root.to_vec(), self.shape);
            let kind = WarningKind::ObjectsMissing {
                missing: objects - removed,
                objects,
                length,
                files,
            };
            self.warnings.push(PathWarning { path, kind });
        }
    }
}

/// Parses the number in a name of the benchmark: without leading zero or sign.
fn parse_number(digits: &[u8]) -> Option<u64> {
    let is_plain = !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && (digits == b"0" || digits[0] != b'0');
    let digits = std::str::from_utf8(digits).ok()?;
    digits.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_no_leading_zero_or_sign() {
        for (name, value) in [
            ("0", Some(0)),
            ("15", Some(15)),
            ("18446744073709551615", Some(u64::MAX)),
        ] {
            assert_eq!(parse_number(name.as_bytes()), value);
        }
        for bad in [
            "",
            "00",
            "01",
            "+1",
            "-1",
            " 1",
            "1x",
            "18446744073709551616",
        ] {
            assert_eq!(parse_number(bad.as_bytes()), None, "{bad}");
        }
    }
}
