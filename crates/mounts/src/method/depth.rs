//! Depth-first search for changes of `st_dev`: the common part of naive, getmnt1 and getmnt2.
//!
//! Each directory is read completely, then fstatat(2) is called for its entries one by one, and a
//! subdirectory is entered at once. There is no recursion, so depth costs memory, not stack.

use std::ffi::CStr;
use std::os::fd::AsFd;

use base::path::below;
use gate::fs::{AtFlags, CWD, FileType, Open, Stat, newfstatat};
use gate::long::{c_string, newfstatat_long, open_long_no_symlinks};
use gate::{Errno, Fd, Gate};
use ondisk::Dev;

use super::breadth::read_whole;
use super::context::SearchContext;
use crate::point::{Point, PointKind};
use crate::root::Root;

/// How a search names files, and how it is pruned.
pub(super) struct SearchStyle<'a> {
    /// Whether file names are full paths; otherwise they are relative to the working directory.
    pub(super) full_names: bool,
    pub(super) buffer: usize,
    /// Maximum depth of the entries that are examined; `None` for no limit.
    pub(super) bound: Option<usize>,
    pub(super) is_leaf: &'a dyn Fn(Dev) -> bool,
}

struct Frame {
    /// Length of the directory's path in [`Walk::path`].
    path_len: usize,
    dev: Dev,
    dev_is_sure: bool,
    /// The names in the directory, each with its NUL.
    names: Vec<u8>,
    next: usize,
    /// Descriptor of the directory if names are relative; `None` if it was closed when descriptors
    /// ran out.
    fd: Option<Fd>,
}

/// Finds every visible directory below `root` where `st_dev` changes, and `root` itself if `st_dev`
/// changes there.
pub(super) fn search(
    root: &Root,
    style: &SearchStyle<'_>,
    context: &mut SearchContext<'_>,
) -> Vec<Point> {
    let before =
        (!style.full_names).then(|| gate::fs::openat(CWD, c".", Open::PATH | Open::DIRECTORY));
    let mut walk = Walk {
        root,
        style,
        context,
        path: root.path.clone(),
        frames: Vec::new(),
        points: Vec::new(),
        unread: 0,
    };
    walk.points.extend(walk.context.root_point(root));
    if (style.is_leaf)(root.dev) {
        walk.context.progress.pruned += 1;
    } else {
        walk.enter(root.dev);
    }
    while walk.step() {}
    let Walk { points, unread, .. } = walk;
    context.mark_unread(style.bound, unread);
    if let Some(Ok(before)) = before {
        let _ = gate::fs::fchdir(&before);
    }
    points
}

struct Walk<'a, 'h> {
    root: &'a Root,
    style: &'a SearchStyle<'a>,
    context: &'a mut SearchContext<'h>,
    path: Vec<u8>,
    frames: Vec<Frame>,
    points: Vec<Point>,
    unread: u64,
}

impl Walk<'_, '_> {
    /// Examines the next entry of the deepest directory, or returns to its parent. False when
    /// nothing is left.
    fn step(&mut self) -> bool {
        let Some(top) = self.frames.last_mut() else {
            return false;
        };
        self.path.truncate(top.path_len);
        let Ok(name) = CStr::from_bytes_until_nul(&top.names[top.next..]).map(CStr::to_owned)
        else {
            self.frames.pop();
            self.return_to_parent();
            return true;
        };
        top.next += name.count_bytes() + 1;
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
        self.context.progress.entries += 1;
        match self.stat(&name) {
            Ok(stat) if stat.file_type == FileType::Directory => self.directory(stat.dev),
            Ok(_) => {}
            Err(errno) => self.context.failed(&self.path, Gate::Newfstatat, errno),
        }
        true
    }

    /// The path of a directory relative to the root of the search.
    fn relative_path(&self, path_len: usize) -> &[u8] {
        match below(&self.root.path, &self.path[..path_len]) {
            None | Some(b"") => b".",
            Some(name) => name,
        }
    }

    fn stat(&self, name: &CStr) -> gate::Result<Stat> {
        let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        if self.style.full_names {
            newfstatat_long(
                self.root.fd.as_fd(),
                self.relative_path(self.path.len()),
                at,
            )
        } else {
            newfstatat(CWD, name, at)
        }
    }

    fn directory(&mut self, dev: Dev) {
        if self.parent_dev(dev) != Some(dev) {
            self.points
                .push(Point::bare(self.path.clone(), dev, Some(PointKind::Dir)));
        }
        if (self.style.is_leaf)(dev) {
            self.context.progress.pruned += 1;
        } else if self
            .style
            .bound
            .is_some_and(|bound| self.frames.len() >= bound)
        {
            self.unread += 1;
        } else {
            self.enter(dev);
        }
    }

    /// Device number of the directory being read. If an entry has a different number, the
    /// directory's number is read again: something may have been mounted on the directory before it
    /// was entered.
    fn parent_dev(&mut self, entry: Dev) -> Option<Dev> {
        let top = self.frames.last()?;
        if top.dev == entry || top.dev_is_sure {
            return Some(top.dev);
        }
        let path = self.relative_path(top.path_len);
        let stat = match &top.fd {
            Some(fd) => newfstatat(fd, c"", AtFlags::EMPTY_PATH),
            None => newfstatat_long(self.root.fd.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW),
        };
        let top = self.frames.last_mut()?;
        top.dev = stat.map_or(top.dev, |stat| stat.dev);
        top.dev_is_sure = true;
        Some(top.dev)
    }

    /// Opens and reads the directory at `path`, which becomes the deepest one.
    fn enter(&mut self, dev: Dev) {
        self.context.directory(&self.path);
        let fd = match self.open() {
            Ok(fd) => fd,
            Err(errno) => return self.context.failed(&self.path, Gate::Openat, errno),
        };
        let names = match read_names(&fd, self.style.buffer) {
            Ok(names) => names,
            Err(errno) => return self.context.failed(&self.path, Gate::Getdents64, errno),
        };
        let fd = if self.style.full_names {
            None
        } else if let Err(errno) = gate::fs::fchdir(&fd) {
            return self.context.failed(&self.path, Gate::Fchdir, errno);
        } else {
            Some(fd)
        };
        self.frames.push(Frame {
            path_len: self.path.len(),
            dev,
            dev_is_sure: false,
            names,
            next: 0,
            fd,
        });
    }

    fn open(&mut self) -> gate::Result<Fd> {
        loop {
            let opened = match (self.style.full_names, self.frames.last()) {
                (false, Some(top)) => {
                    let name = below(&self.path[..top.path_len], &self.path).unwrap_or_default();
                    gate::fs::openat(CWD, &c_string(name)?, Open::SCAN)
                }
                _ => self.open_by_path(self.path.len()),
            };
            let Err(Errno::EMFILE) = opened else {
                return opened;
            };
            // Descriptors have run out: close the directories nearest to the root, and reopen them
            // by path later.
            let mut held: Vec<&mut Frame> = self
                .frames
                .iter_mut()
                .filter(|frame| frame.fd.is_some())
                .collect();
            if held.len() <= 1 {
                return opened;
            }
            let half = held.len() / 2;
            held[..half].iter_mut().for_each(|frame| frame.fd = None);
        }
    }

    fn open_by_path(&self, path_len: usize) -> gate::Result<Fd> {
        open_long_no_symlinks(
            self.root.fd.as_fd(),
            self.relative_path(path_len),
            Open::SCAN,
        )
    }

    /// With relative names, changes to the parent directory, or further up if the parent is gone.
    fn return_to_parent(&mut self) {
        while !self.style.full_names
            && let Some(mut top) = self.frames.pop()
        {
            if top.fd.is_none() {
                top.fd = self.open_by_path(top.path_len).ok();
            }
            let path = &self.path[..top.path_len];
            match top.fd.as_ref().map_or(Err(Errno::ENOENT), gate::fs::fchdir) {
                Ok(()) => return self.frames.push(top),
                Err(errno) => self.context.failed(path, Gate::Fchdir, errno),
            }
        }
    }
}

fn read_names(dir: &Fd, buffer: usize) -> gate::Result<Vec<u8>> {
    let mut buffer = vec![0u8; buffer];
    let mut names = Vec::new();
    read_whole(dir, &mut buffer, |bytes| {
        for entry in ondisk::dirent::entries(bytes) {
            names.extend_from_slice(entry.name.to_bytes_with_nul());
        }
    })?;
    names.shrink_to_fit();
    Ok(names)
}
