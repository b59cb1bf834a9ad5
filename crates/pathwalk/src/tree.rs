//! The tree: made as LLNL's program makes it, and removed again, whoever made it.
//!
//! Each directory belongs to one rank of a team, which makes it with its files, and removes it.

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gate::create::{mkdirat, openat_new, unlinkat_directory};
use gate::file::unlinkat;
use gate::fs::{At, CWD, FileType, Open, Want, fstatfs, getdents64, openat, statx};
use gate::interrupt::asked;
use gate::long::{c_string, open_long, reach};
use gate::{Errno, Fd};
use mounts::Warning;
use mounts::path::join;

use crate::team::{agree, share_warnings, share_words};
use crate::{Failure, Team};

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Directories; at least 1.
    pub length: u64,
    /// Files in each of them.
    pub files: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            length: 16,
            files: 10_000,
        }
    }
}

impl Shape {
    /// Objects, as LLNL's program counts them: the files, and ROOT. `None` for more than can be
    /// counted.
    pub fn objects(self) -> Option<u64> {
        self.length
            .checked_mul(self.files)?
            .checked_add(1)
            .filter(|objects| *objects <= i64::MAX as u64)
    }
}

/// How many objects have been made or removed so far.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

impl Progress {
    /// Objects so far.
    pub fn far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Objects that were removed, counted as in [`Shape::objects`].
    pub objects: u64,
    /// Entries that were left, since the benchmark did not make them.
    pub left: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// What a directory of the tree is called.
pub(crate) fn name_of(directory: u64) -> Vec<u8> {
    directory.to_string().into_bytes()
}

/// The name of something in the tree, for the kernel. A number has no NUL in it.
fn c_name(name: impl std::fmt::Display) -> CString {
    CString::new(name.to_string()).unwrap_or_default()
}

/// A directory that something is made in or taken out of; no symlink.
const PLACE: Open = Open::PATH.union(Open::DIRECTORY).union(Open::NOFOLLOW);
/// What stops a tree from being made.
const CREATE: &str = "cannot create";
/// What stops a tree from being removed.
const REMOVE: &str = "cannot remove";

/// Makes the tree. Where that fails, what was made is taken away again.
pub(crate) fn make(
    root: &[u8],
    shape: Shape,
    team: &dyn Team,
    progress: &Progress,
) -> Result<Duration, Failure> {
    let root = without_slashes(root);
    team.barrier();
    let start = Instant::now();
    agree(
        team,
        if team.rank() == 0 {
            begin(root, shape)
        } else {
            Ok(())
        },
    )?;
    let mut own = Own {
        root,
        shape,
        first: team.rank() as u64,
        step: team.size(),
        last: None,
    };
    let filled = agree(team, own.fill(progress));
    let took = start.elapsed();
    let Err(failure) = filled else {
        return Ok(took);
    };
    let left: u64 = share_words(team, &[own.undo()]).iter().flatten().sum();
    let undone = match team.rank() {
        0 => end(root).map_or_else(|_| left + 1, |()| left),
        _ => left,
    };
    let undone = share_words(team, &[undone])
        .first()
        .and_then(|said| said.first().copied())
        .unwrap_or(left);
    let next = match undone {
        0 => "nothing of the tree is left".to_owned(),
        _ => "not all that was made could be removed again: fathom pathwalk -r with the same -l and -f".to_owned(),
    };
    let next = if failure.next.is_empty() {
        next
    } else {
        format!("{}; {next}", failure.next)
    };
    Err(Failure { next, ..failure })
}

/// Makes ROOT itself, if there is room for the tree in it.
fn begin(root: &[u8], shape: Shape) -> Result<(), Failure> {
    let cannot = |e: Errno, next: &str| Failure::new(CREATE, root, e, next);
    let reached = reach(CWD, root).map_err(|e| cannot(e, ""))?;
    mkdirat(reached.dir(), reached.rest(), 0o777).map_err(|e| {
        let next = match e {
            Errno::EEXIST => "give a name that is free, or remove it first (-r, if it is a tree of this benchmark)",
            Errno::ENOENT => "the directory that it is to be in must be there",
            Errno::EACCES | Errno::EROFS => "give a place where you may make directories",
            _ => "",
        };
        cannot(e, next)
    })?;
    room(root, shape).inspect_err(|_| {
        let _ = end(root); // it is empty, and was just made
    })
}

/// Refuses what there can be no room for, before anything is filled.
fn room(root: &[u8], shape: Shape) -> Result<(), Failure> {
    /// No file system that does not count its inodes takes less than this for an entry and its
    /// inode.
    const LEAST: u64 = 64;
    let top = open_long(root, PLACE).map_err(|e| Failure::new("cannot open", root, e, ""))?;
    let Ok(there) = fstatfs(&top) else {
        return Ok(());
    };
    let wanted = shape.length.saturating_mul(shape.files.saturating_add(1));
    let (free, what) = match there.files {
        0 if there.size == 0 => return Ok(()), // it does not say
        0 => (there.available / LEAST, "at the very most "),
        _ => (there.files_free, ""),
    };
    if wanted <= free {
        return Ok(());
    }
    let error = format!("it takes {wanted} inodes, and the file system has {what}{free} to give");
    Err(Failure::new(
        CREATE,
        root,
        error,
        "give fewer with -l and -f",
    ))
}

/// Takes ROOT away, which must be empty.
fn end(root: &[u8]) -> gate::Result<()> {
    let reached = reach(CWD, root)?;
    unlinkat_directory(reached.dir(), reached.rest())
}

/// The directories of one rank, while they are made.
struct Own<'a> {
    root: &'a [u8],
    shape: Shape,
    /// The first of them.
    first: u64,
    /// How far the next is from each.
    step: usize,
    /// The directory that was made last, and how many files in it.
    last: Option<(u64, u64)>,
}

impl Own<'_> {
    fn directories(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..self.shape.length).step_by(self.step.max(1))
    }

    fn fill(&mut self, progress: &Progress) -> Result<(), Failure> {
        let root = self.root;
        let top = open_long(root, PLACE).map_err(|e| Failure::new("cannot open", root, e, ""))?;
        for directory in self.directories() {
            let name = c_name(directory);
            let cannot = |e: Errno, file: Option<&CString>| {
                let path = join(root, name.to_bytes());
                let path = file.map_or(path.clone(), |file| join(&path, file.to_bytes()));
                let next = match e {
                    Errno::ENOSPC => {
                        "the file system is full, or out of inodes: give fewer with -l and -f"
                    }
                    Errno::EDQUOT => "your quota is used up: give fewer with -l and -f",
                    _ => "",
                };
                Failure::new(CREATE, &path, e, next)
            };
            mkdirat(&top, &name, 0o777).map_err(|e| cannot(e, None))?;
            self.last = Some((directory, 0));
            let dir = openat(&top, &name, PLACE).map_err(|e| cannot(e, None))?;
            for file in 0..self.shape.files {
                if asked().is_some() {
                    return Err(Failure::stopped(CREATE, root));
                }
                let name = c_name(format_args!("{directory}.{file}"));
                openat_new(&dir, &name, 0o644).map_err(|e| cannot(e, Some(&name)))?;
                self.last = Some((directory, file + 1));
                progress.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Takes away what was made, and gives how much could not be.
    fn undo(&self) -> u64 {
        let Some((last, files)) = self.last else {
            return 0;
        };
        let Ok(top) = open_long(self.root, PLACE) else {
            return 1;
        };
        let mut left = 0;
        for directory in self
            .directories()
            .take_while(|directory| *directory <= last)
        {
            let name = c_name(directory);
            let files = if directory == last {
                files
            } else {
                self.shape.files
            };
            if let Ok(dir) = openat(&top, &name, PLACE) {
                let taken = |file: &u64| {
                    unlinkat(&dir, &c_name(format_args!("{directory}.{file}"))).is_ok()
                };
                left += (0..files).filter(|file| !taken(file)).count() as u64;
            }
            left += u64::from(unlinkat_directory(&top, &name).is_err());
        }
        left
    }
}

/// Removes the tree: of what has a name that the benchmark gives, empty plain files, and then the
/// directories. Whatever else is there stays, with the directories that it is in, and is named in a
/// warning. With `heed` it stops where it is when somebody asks for that.
pub(crate) fn remove(
    root: &[u8],
    shape: Shape,
    team: &dyn Team,
    heed: bool,
    progress: &Progress,
    warnings: &mut Vec<Warning>,
) -> Result<Removed, Failure> {
    let root = without_slashes(root);
    team.barrier();
    let start = Instant::now();
    let mut broom = Broom {
        root,
        shape,
        heed,
        progress,
        files: 0,
        left: 0,
        warnings: Vec::new(),
    };
    agree(team, broom.sweep(team.rank() as u64, team.size()))?;
    let all = share_words(team, &[broom.files, broom.left]);
    let sum = |at: usize| all.iter().filter_map(|said| said.get(at)).sum::<u64>();
    let (files, mut left) = (sum(0), sum(1));
    broom.warnings = share_warnings(team, broom.warnings);
    let mut objects = files;
    if team.rank() == 0 {
        let gone = broom.finish()?;
        left += broom.left
            - all
                .first()
                .and_then(|said| said.get(1))
                .copied()
                .unwrap_or(0);
        objects += u64::from(gone);
        let whole = shape.objects().unwrap_or(u64::MAX);
        if objects < whole && left == 0 {
            let Shape { length, files } = shape;
            let missing = whole - objects;
            let message = format!(
                "{missing} of {whole} objects were not there; was it made with -l {length} -f {files}?"
            );
            broom.warnings.push(Warning::about(root, message));
        }
        warnings.append(&mut broom.warnings);
    }
    Ok(Removed {
        objects,
        left,
        elapsed: start.elapsed(),
    })
}

/// What is removing a tree.
struct Broom<'a> {
    root: &'a [u8],
    shape: Shape,
    heed: bool,
    progress: &'a Progress,
    /// Files removed.
    files: u64,
    /// Entries left.
    left: u64,
    warnings: Vec<Warning>,
}

/// Entries of a directory that the benchmark did not make.
#[derive(Default)]
struct Foreign {
    count: u64,
    example: Option<Vec<u8>>,
}

impl Foreign {
    fn add(&mut self, name: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| name.to_vec());
    }
}

impl Broom<'_> {
    fn cannot(&self, path: &[u8], e: impl std::fmt::Display, next: &str) -> Failure {
        let far = match self.files {
            0 => String::new(),
            files => format!("{files} files were removed before"),
        };
        let next = [next, &far]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        Failure::new(REMOVE, path, e, next)
    }

    fn open_root(&self) -> Result<Fd, Failure> {
        open_long(self.root, Open::SCAN).map_err(|e| match e {
            Errno::ENOENT => self.cannot(self.root, e, "there is nothing to remove"),
            Errno::ELOOP | Errno::ENOTDIR => self.cannot(
                self.root,
                e,
                "give the directory itself, and no symlink to it: -c has made no such thing",
            ),
            e => self.cannot(self.root, e, ""),
        })
    }

    /// Removes the directories of one rank.
    fn sweep(&mut self, first: u64, step: usize) -> Result<(), Failure> {
        let top = self.open_root()?;
        for directory in (first..self.shape.length).step_by(step.max(1)) {
            let name = c_name(directory);
            let path = join(self.root, name.to_bytes());
            let dir = match openat(&top, &name, Open::SCAN) {
                Ok(dir) => dir,
                // What is no directory is found, and named, when ROOT is looked through.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(e) => return Err(self.cannot(&path, e, "")),
            };
            let foreign = self.empty(&dir, directory, &path)?;
            if foreign.count > 0 {
                self.keep(&path, foreign);
                continue;
            }
            match unlinkat_directory(&top, &name) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::EBUSY) => {
                    self.keep(
                        &path,
                        Foreign {
                            count: 1,
                            example: None,
                        },
                    );
                }
                Err(e) => return Err(self.cannot(&path, e, "")),
            }
        }
        Ok(())
    }

    /// Removes the benchmark's files from one of its directories, and gives what else is there.
    fn empty(&mut self, dir: &Fd, directory: u64, path: &[u8]) -> Result<Foreign, Failure> {
        let stem = format!("{directory}.").into_bytes();
        let mut numbers = Vec::new();
        let mut foreign = Foreign::default();
        each_entry(
            dir,
            &mut |name| match name.strip_prefix(&stem[..]).and_then(number) {
                Some(file) if file < self.shape.files => numbers.push(file),
                _ => foreign.add(name),
            },
        )
        .map_err(|e| self.cannot(path, e, ""))?;
        numbers.sort_unstable(); // in the order in which they were made, as LLNL's program does
        for file in numbers {
            if self.heed && asked().is_some() {
                return Err(self.cannot(self.root, "interrupted", ""));
            }
            let name = c_name(format_args!("{directory}.{file}"));
            let at = At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT;
            match statx(dir, &name, at, Want::TYPE | Want::SIZE) {
                // Whoever has written something into it does not want to lose it.
                Ok(seen) if seen.file_type != FileType::Regular || seen.size > 0 => {
                    foreign.add(name.to_bytes());
                    continue;
                }
                Ok(_) => {}
                Err(Errno::ENOENT) => continue,
                Err(e) => return Err(self.cannot(&join(path, name.to_bytes()), e, "")),
            }
            match unlinkat(dir, &name) {
                Ok(()) => {
                    self.files += 1;
                    self.progress.0.fetch_add(1, Ordering::Relaxed);
                }
                Err(Errno::ENOENT) => {}
                Err(Errno::EBUSY) => foreign.add(name.to_bytes()), // something is mounted on it
                Err(e) => return Err(self.cannot(&join(path, name.to_bytes()), e, "")),
            }
        }
        Ok(foreign)
    }

    /// Says what stays in a directory, and why.
    fn keep(&mut self, path: &[u8], foreign: Foreign) {
        self.left += foreign.count;
        let Shape { length, files } = self.shape;
        let many = if foreign.count == 1 {
            "1 entry is".to_owned()
        } else {
            format!("{} entries are", foreign.count)
        };
        let such = foreign.example.map_or(String::new(), |name| {
            // A control character must not reach a message.
            let name: String = String::from_utf8_lossy(&name).escape_debug().collect();
            format!(" (such as '{name}')")
        });
        let message = format!(
            "left as it is: {many}{such} in it that -c -l {length} -f {files} did not make"
        );
        self.warnings.push(Warning::about(path, message));
    }

    /// Takes ROOT away, if nothing is in it any more; whether it has.
    fn finish(&mut self) -> Result<bool, Failure> {
        let top = self.open_root()?;
        let mut foreign = Foreign::default();
        let mut kept = false;
        let mut names = Vec::new();
        each_entry(&top, &mut |name| names.push(name.to_vec()))
            .map_err(|e| self.cannot(self.root, e, ""))?;
        for name in &names {
            let ours = number(name).is_some_and(|directory| directory < self.shape.length);
            let is_directory = || {
                c_string(name)
                    .and_then(|name| openat(&top, &name, PLACE))
                    .is_ok()
            };
            if ours && is_directory() {
                kept = true
            } else {
                foreign.add(name)
            }
        }
        if foreign.count > 0 {
            self.keep(self.root, foreign);
            return Ok(false);
        }
        if kept {
            return Ok(false);
        }
        drop(top);
        match end(self.root) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
                self.keep(
                    self.root,
                    Foreign {
                        count: 1,
                        example: None,
                    },
                );
                Ok(false)
            }
            Err(e) => Err(self.cannot(self.root, e, "")),
        }
    }
}

/// A number as it is written in a name: no zero before it, no sign.
fn number(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && (digits == b"0" || digits[0] != b'0');
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| plain)?
        .parse()
        .ok()
}

/// Shows the names in a directory, read from its beginning.
fn each_entry(dir: &Fd, show: &mut dyn FnMut(&[u8])) -> gate::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match getdents64(dir, &mut buffer)? {
            0 => return Ok(()),
            n => ondisk::dirent::entries(&buffer[..n.min(buffer.len())])
                .for_each(|entry| show(entry.name.to_bytes())),
        }
    }
}

/// A name without the slashes at its end, with which a symlink would be followed.
fn without_slashes(mut root: &[u8]) -> &[u8] {
    while let [rest @ .., b'/'] = root
        && !rest.is_empty()
    {
        root = rest;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_the_files_and_the_root() {
        assert_eq!(Shape::default().objects(), Some(160_001));
        assert_eq!(
            Shape {
                length: 3,
                files: 0
            }
            .objects(),
            Some(1)
        );
        assert_eq!(
            Shape {
                length: 1 << 40,
                files: 1 << 40
            }
            .objects(),
            None
        );
    }

    #[test]
    fn numbers_in_names() {
        for (name, value) in [
            ("0", Some(0)),
            ("15", Some(15)),
            ("18446744073709551615", Some(u64::MAX)),
        ] {
            assert_eq!(number(name.as_bytes()), value);
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
            assert_eq!(number(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn slashes_at_the_end_go() {
        assert_eq!(without_slashes(b"a/b//"), b"a/b");
        assert_eq!(without_slashes(b"///"), b"/");
        assert_eq!(without_slashes(b""), b"");
    }
}
