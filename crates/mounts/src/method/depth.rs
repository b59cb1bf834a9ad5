//! Depth-first search for changes of `st_dev`: what naive, getmnt1 and getmnt2 have in common.
//!
//! Each directory on the way down is read whole, then its entries are asked for one by one, and a
//! directory among them is entered at once. There is no recursion, so that depth costs memory, not
//! stack.

use std::ffi::CStr;
use std::os::fd::AsFd;

use gate::fs::{At, CWD, FileType, Open, Stat, newfstatat};
use gate::long::{newfstatat_long, open_long_no_symlinks};
use gate::{Errno, Fd, Gate};
use ondisk::Dev;

use super::breadth::read_whole;
use super::{SearchContext, root_point};
use crate::path::below;
use crate::root::Root;
use crate::{Incompleteness, Kind, Point};

/// How the search names files, and what it leaves out.
pub(super) struct Style<'a> {
    /// Full names, each looked up from `/`; else names relative to the directory that the search
    /// has gone to.
    pub(super) full_names: bool,
    /// Bytes of directory read at a time.
    pub(super) buffer: usize,
    /// Entries this deep are the last to be looked at; `None` for no bound.
    pub(super) bound: Option<usize>,
    /// Whether no mount can be beneath a device.
    pub(super) leaf: &'a dyn Fn(Dev) -> bool,
}

/// A directory on the way down.
struct Frame {
    /// Length of its name in the common buffer.
    path_len: usize,
    dev: Dev,
    dev_is_sure: bool,
    /// The names in it, each with its NUL.
    names: Vec<u8>,
    /// Where in `names` the next one begins.
    next: usize,
    /// Where we have gone to, with relative names; `None` when descriptors ran out and it had to be
    /// let go.
    here: Option<Fd>,
}

/// Every visible directory below `root` where `st_dev` changes, and `root` itself if it is one.
pub(super) fn search(root: &Root, style: &Style<'_>, hunt: &mut SearchContext<'_>) -> Vec<Point> {
    let before =
        (!style.full_names).then(|| gate::fs::openat(CWD, c".", Open::PATH | Open::DIRECTORY));
    let mut walk = Walk {
        root,
        style,
        hunt,
        path: root.path.clone(),
        frames: Vec::new(),
        points: Vec::new(),
        cut_off: 0,
    };
    walk.points.extend(root_point(root, walk.hunt));
    if !(style.leaf)(root.dev) {
        walk.enter(root.dev);
    } else {
        walk.hunt.progress.pruned += 1;
    }
    while walk.step() {}
    let Walk {
        points, cut_off, ..
    } = walk;
    if cut_off > 0 {
        let bound = style.bound.unwrap_or_default();
        hunt.mark_incomplete(Incompleteness::DepthBound {
            bound,
            unread: cut_off,
        });
    }
    if let Some(Ok(before)) = before {
        let _ = gate::fs::fchdir(&before);
    }
    points
}

struct Walk<'a, 'h> {
    root: &'a Root,
    style: &'a Style<'a>,
    hunt: &'a mut SearchContext<'h>,
    path: Vec<u8>,
    frames: Vec<Frame>,
    points: Vec<Point>,
    cut_off: u64,
}

impl Walk<'_, '_> {
    /// Looks at the next entry of the deepest directory, or goes back up. False when there is
    /// nothing left.
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
        self.hunt.progress.entries += 1;
        match self.stat(&name) {
            Ok(stat) if stat.file_type == FileType::Directory => self.directory(stat.dev.into()),
            Ok(_) => {}
            Err(errno) => self.hunt.failed(&self.path, Gate::Newfstatat, errno),
        }
        true
    }

    /// The name of what lies on the way down, as seen from the root of the search.
    fn name(&self, path_len: usize) -> &[u8] {
        match below(&self.root.path, &self.path[..path_len]) {
            None | Some(b"") => b".",
            Some(name) => name,
        }
    }

    fn stat(&self, name: &CStr) -> gate::Result<Stat> {
        let at = At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT;
        if self.style.full_names {
            newfstatat_long(self.root.fd.as_fd(), self.name(self.path.len()), at)
        } else {
            newfstatat(CWD, name, at)
        }
    }

    fn directory(&mut self, dev: Dev) {
        if self.parent_dev(dev) != Some(dev) {
            self.points
                .push(Point::bare(self.path.clone(), dev, Some(Kind::Dir)));
        }
        // Looked at before going there: from the top, as the papers say.
        if (self.style.leaf)(dev) {
            self.hunt.progress.pruned += 1;
        } else if self
            .style
            .bound
            .is_some_and(|bound| self.frames.len() >= bound)
        {
            self.cut_off += 1;
        } else {
            self.enter(dev);
        }
    }

    /// The device of the directory being read. When an entry's differs, it is asked for once more:
    /// something may have been mounted on the directory between our asking for it and our going
    /// there.
    fn parent_dev(&mut self, entry: Dev) -> Option<Dev> {
        let top = self.frames.last()?;
        if top.dev == entry || top.dev_is_sure {
            return Some(top.dev);
        }
        let asked = match &top.here {
            Some(fd) => newfstatat(fd, c"", At::EMPTY_PATH),
            None => newfstatat_long(
                self.root.fd.as_fd(),
                self.name(top.path_len),
                At::SYMLINK_NOFOLLOW,
            ),
        };
        let top = self.frames.last_mut()?;
        top.dev = asked.map_or(top.dev, |stat| stat.dev.into());
        top.dev_is_sure = true;
        Some(top.dev)
    }

    /// Opens and reads the directory that `path` names, and makes it the deepest one.
    fn enter(&mut self, dev: Dev) {
        self.hunt.directory(&self.path);
        let fd = match self.open() {
            Ok(fd) => fd,
            Err(errno) => return self.hunt.failed(&self.path, Gate::Openat, errno),
        };
        let names = match read_names(&fd, self.style.buffer) {
            Ok(names) => names,
            Err(errno) => return self.hunt.failed(&self.path, Gate::Getdents64, errno),
        };
        let here = match self.style.full_names {
            true => None,
            false => match gate::fs::fchdir(&fd) {
                Ok(()) => Some(fd),
                Err(errno) => return self.hunt.failed(&self.path, Gate::Fchdir, errno),
            },
        };
        self.frames.push(Frame {
            path_len: self.path.len(),
            dev,
            dev_is_sure: false,
            names,
            next: 0,
            here,
        });
    }

    fn open(&mut self) -> gate::Result<Fd> {
        loop {
            let opened = match (self.style.full_names, self.frames.last()) {
                (false, Some(top)) => {
                    let from = if self.path[..top.path_len] == *b"/" {
                        1
                    } else {
                        top.path_len + 1
                    };
                    let name = gate::long::c_string(&self.path[from..])?;
                    gate::fs::openat(CWD, &name, Open::SCAN)
                }
                _ => self.open_by_name(self.path.len()),
            };
            // Out of descriptors: let go of those furthest up; the way back to them goes by name.
            match opened {
                Err(Errno::EMFILE)
                    if self.frames.iter().filter(|f| f.here.is_some()).count() > 1 =>
                {
                    let held = self.frames.len() - 1;
                    self.frames[..held]
                        .iter_mut()
                        .filter(|f| f.here.is_some())
                        .take(held.div_ceil(2))
                        .for_each(|f| {
                            f.here = None;
                        });
                }
                other => return other,
            }
        }
    }

    fn open_by_name(&self, path_len: usize) -> gate::Result<Fd> {
        open_long_no_symlinks(self.root.fd.as_fd(), self.name(path_len), Open::SCAN)
    }

    /// With relative names, goes back to the directory above, and further up if that is gone.
    fn return_to_parent(&mut self) {
        while !self.style.full_names
            && let Some(mut top) = self.frames.pop()
        {
            if top.here.is_none() {
                top.here = self.open_by_name(top.path_len).ok();
            }
            match top
                .here
                .as_ref()
                .map_or(Err(Errno::ENOENT), gate::fs::fchdir)
            {
                Ok(()) => return self.frames.push(top),
                Err(errno) => self
                    .hunt
                    .failed(&self.path[..top.path_len], Gate::Fchdir, errno),
            }
        }
    }
}

/// All names in a directory, each with its NUL.
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
