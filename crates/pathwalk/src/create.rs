//! Creates the tree, as LLNL's program does.
//!
//! Each directory belongs to one rank of a team, which creates the directory and its files.

use std::time::{Duration, Instant};

use base::path::{join, without_slashes};
use gate::Errno;
use gate::create::{mkdirat, openat_new, unlinkat_directory};
use gate::file::unlinkat;
use gate::fs::{CWD, fstatfs, openat};
use gate::interrupt::pending_signal;
use gate::long::{open_long, reach, refresh_parent};

use crate::error::{Error, Operation, Reason, StateAfterFailure};
use crate::shape::{DIRECTORY, Progress, Shape, c_name};
use team::{Team, agree, share};

/// Creates the tree. On failure, removes everything that was created.
pub(crate) fn create(
    root: &[u8],
    shape: Shape,
    team: &dyn Team,
    progress: &Progress,
) -> Result<Duration, Error> {
    // Slashes at the end would make the kernel follow a symbolic link.
    let root = without_slashes(root);
    let is_first = team.rank() == 0;
    team.barrier();
    let start = Instant::now();
    let created_root = is_first.then(|| create_root(root, shape));
    agree(team, created_root.unwrap_or(Ok(())))?;
    if !is_first {
        refresh_parent(root);
    }
    let mut part = RankTree {
        root,
        shape,
        first: team.rank() as u64,
        step: team.size(),
        last: None,
    };
    let filled = agree(team, part.fill(progress));
    let elapsed = start.elapsed();
    let Err(error) = filled else {
        return Ok(elapsed);
    };
    let mut left: u64 = share(team, part.undo()).iter().sum();
    if is_first && remove_root(root).is_err() {
        left += 1;
    }
    let aftermath = match share(team, left).first() {
        Some(0) => StateAfterFailure::NothingLeft,
        _ => StateAfterFailure::PartlyLeft,
    };
    Err(Error {
        aftermath: Some(aftermath),
        ..error
    })
}

/// Creates ROOT itself, if the file system has enough inodes for the tree.
fn create_root(root: &[u8], shape: Shape) -> Result<(), Error> {
    let error = |e: Errno| Error::new(Operation::CreateRoot, root, e);
    let reached = reach(CWD, root).map_err(error)?;
    mkdirat(reached.dir(), reached.rest(), 0o777).map_err(error)?;
    check_free_inodes(root, shape).inspect_err(|_| {
        let _ = remove_root(root); // ROOT is empty, and was created just now
    })
}

/// Fails if the tree has more entries than the file system has free inodes, before any entry is
/// created.
fn check_free_inodes(root: &[u8], shape: Shape) -> Result<(), Error> {
    /// Minimum bytes of an entry with its inode, for file systems that do not count inodes.
    const LEAST: u64 = 64;
    let top = open_long(root, DIRECTORY).map_err(|e| Error::new(Operation::Open, root, e))?;
    let Ok(statfs) = fstatfs(&top) else {
        return Ok(());
    };
    let wanted = shape.length.saturating_mul(shape.files.saturating_add(1));
    let is_estimate = statfs.files == 0;
    let free = match is_estimate {
        true if statfs.size == 0 => return Ok(()), // the size is unknown, too
        true => statfs.available / LEAST,
        false => statfs.files_free,
    };
    if wanted <= free {
        return Ok(());
    }
    let reason = Reason::TooFewInodes {
        wanted,
        free,
        is_estimate,
    };
    Err(Error::new(Operation::Create, root, reason))
}

/// Removes ROOT, which must be empty.
pub(crate) fn remove_root(root: &[u8]) -> gate::Result<()> {
    let reached = reach(CWD, root)?;
    unlinkat_directory(reached.dir(), reached.rest())
}

/// The directories of one rank, while it creates them.
struct RankTree<'a> {
    root: &'a [u8],
    shape: Shape,
    /// The first directory of this rank.
    first: u64,
    /// The distance from one directory of this rank to the next.
    step: usize,
    /// The last created directory, and the number of files in it.
    last: Option<(u64, u64)>,
}

impl RankTree<'_> {
    fn directories(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..self.shape.length).step_by(self.step.max(1))
    }

    fn fill(&mut self, progress: &Progress) -> Result<(), Error> {
        let root = self.root;
        let top = open_long(root, DIRECTORY).map_err(|e| Error::new(Operation::Open, root, e))?;
        for directory in self.directories() {
            let name = c_name(directory);
            let path = join(root, name.to_bytes());
            let error = |e: Errno| Error::new(Operation::Create, &path, e);
            mkdirat(&top, &name, 0o777).map_err(error)?;
            self.last = Some((directory, 0));
            let dir = openat(&top, &name, DIRECTORY).map_err(error)?;
            for file in 0..self.shape.files {
                if pending_signal().is_some() {
                    return Err(Error::new(Operation::Create, root, Reason::Interrupted));
                }
                let name = c_name(format_args!("{directory}.{file}"));
                openat_new(&dir, &name, 0o644).map_err(|e| {
                    let file = join(&path, name.to_bytes());
                    Error::new(Operation::Create, &file, e)
                })?;
                self.last = Some((directory, file + 1));
                progress.add_one();
            }
        }
        Ok(())
    }

    /// Removes everything created, and returns the number of entries that could not be removed.
    fn undo(&self) -> u64 {
        let Some((last, files)) = self.last else {
            return 0;
        };
        let Ok(top) = open_long(self.root, DIRECTORY) else {
            return 1;
        };
        let mut left = 0;
        for directory in self.directories().take_while(|at| *at <= last) {
            let name = c_name(directory);
            let all = self.shape.files;
            let files = if directory == last { files } else { all };
            if let Ok(dir) = openat(&top, &name, DIRECTORY) {
                let name = |file: u64| c_name(format_args!("{directory}.{file}"));
                let is_left = |file: &u64| unlinkat(&dir, &name(*file)).is_err();
                left += (0..files).filter(is_left).count() as u64;
            }
            left += u64::from(unlinkat_directory(&top, &name).is_err());
        }
        left
    }
}
