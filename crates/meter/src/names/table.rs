//! Descriptor tables, and the threads that have them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt};

use super::kind::DescriptorKind;
use super::subject::Name;

/// The maximum total size of descriptors and their names in bytes.
pub const MOST_BYTES: usize = 8 << 20;

/// Assumed bytes of a descriptor with a name, without that name.
const DESCRIPTOR: usize = 96;

/// Assumed bytes of a descriptor that has no name.
const UNNAMED: usize = 32;

/// An open file in a descriptor table.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub(super) name: Name,
    /// As [`CallFile::real`]: the trailing components of the path that are no links.
    pub(super) real: u32,
    pub(super) opened: u64,
    pub(super) directory: bool,
    /// The descriptor is, or may be, close-on-exec.
    pub(super) cloexec: bool,
    pub(super) kind: DescriptorKind,
}

impl Descriptor {
    pub(super) fn bytes(&self) -> usize {
        DESCRIPTOR + self.name.len()
    }
}

/// An open descriptor that was not opened by a known name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unnamed {
    pub(super) kind: DescriptorKind,
    /// The descriptor is, or may be, close-on-exec.
    pub(super) cloexec: bool,
}

/// A descriptor table. `held` is the size of all tables in bytes.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) open: HashMap<u32, Descriptor>,
    pub(super) unnamed: HashMap<u32, Unnamed>,
    /// The process has an io_uring, whose requests may close and open descriptors unseen.
    pub(super) has_ring: bool,
    pub(super) held: Rc<Cell<usize>>,
}

impl Table {
    pub(super) fn new(held: &Rc<Cell<usize>>) -> Table {
        Table {
            open: HashMap::new(),
            unnamed: HashMap::new(),
            has_ring: false,
            held: Rc::clone(held),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let named: usize = self.open.values().map(Descriptor::bytes).sum();
        named + UNNAMED * self.unnamed.len()
    }

    pub(super) fn close(&mut self, fd: u32) {
        let named = self.open.remove(&fd).map_or(0, |open| open.bytes());
        let unnamed = self.unnamed.remove(&fd).map_or(0, |_| UNNAMED);
        let held = self.held.get();
        self.held.set(held.saturating_sub(named + unnamed));
    }

    /// Closes the descriptors for which `is_closed` returns true; the second argument of
    /// `is_closed` is the flag close-on-exec.
    pub(super) fn close_if(&mut self, is_closed: impl Fn(u32, bool) -> bool) {
        let open = self.open.iter().map(|(fd, open)| (*fd, open.cloexec));
        let unnamed = self.unnamed.iter().map(|(fd, open)| (*fd, open.cloexec));
        let closed = open.chain(unnamed);
        let closed = closed.filter(|(fd, cloexec)| is_closed(*fd, *cloexec));
        let closed: Vec<u32> = closed.map(|(fd, _)| fd).collect();
        closed.into_iter().for_each(|fd| self.close(fd));
    }

    /// Whether this number of additional bytes fits below the limit.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.held.get() + bytes <= MOST_BYTES
    }

    pub(super) fn set_unnamed(&mut self, fd: u32, kind: DescriptorKind, cloexec: bool) {
        self.close(fd);
        if self.has_room(UNNAMED) {
            self.held.set(self.held.get() + UNNAMED);
            self.unnamed.insert(fd, Unnamed { kind, cloexec });
        }
    }
}

impl Clone for Table {
    fn clone(&self) -> Table {
        self.held.set(self.held.get() + self.bytes());
        Table {
            open: self.open.clone(),
            unnamed: self.unnamed.clone(),
            has_ring: self.has_ring,
            held: Rc::clone(&self.held),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.held.set(self.held.get().saturating_sub(self.bytes()));
    }
}

/// The directory to which relative names are joined; by default unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct NameBase {
    pub(super) cwd: Option<Name>,
    /// As [`CallFile::real`]: the trailing components of the path that are no links.
    pub(super) real: u32,
    /// The root directory is the same as that of the command.
    pub(super) has_commands_root: bool,
}

/// The state of a thread. The outer cells are shared as the kernel shares them (`CLONE_FILES`,
/// `CLONE_FS`); the inner `Rc` is a copy on write after fork(2).
#[derive(Clone, Debug)]
pub(super) struct NamedTask {
    pub(super) process: u32,
    pub(super) files: Rc<RefCell<Rc<Table>>>,
    pub(super) place: Rc<RefCell<NameBase>>,
}

impl NamedTask {
    pub(super) fn open(&self, fd: u64) -> Option<Descriptor> {
        let files = self.files.borrow();
        if files.has_ring {
            return None;
        }
        files.open.get(&to_fd(fd)?).cloned()
    }

    pub(super) fn unnamed(&self, fd: u64) -> Option<Unnamed> {
        self.files.borrow().unnamed.get(&to_fd(fd)?).copied()
    }

    /// The kind of a descriptor; `None` if unknown.
    pub(super) fn kind(&self, fd: u32) -> Option<DescriptorKind> {
        let files = self.files.borrow();
        let named = files.open.get(&fd);
        let named = named.map(|open| open.kind);
        named.or_else(|| files.unnamed.get(&fd).map(|open| open.kind))
    }

    pub(super) fn unshare_files(&mut self) {
        let copy = Rc::clone(&*self.files.borrow());
        self.files = Rc::new(RefCell::new(copy));
    }

    pub(super) fn unshare_place(&mut self) {
        let copy = self.place.borrow().clone();
        self.place = Rc::new(RefCell::new(copy));
    }
}

/// The descriptor number in an argument register, of which the kernel reads 32 bits.
pub(super) fn to_fd(arg: u64) -> Option<u32> {
    u32::try_from(arg as i32).ok()
}
