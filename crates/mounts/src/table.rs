//! The kernel's table of mounts, by either door: `kernel` (listmount and statmount) or `mountinfo`.
//!
//! Neither is always the cheaper. statmount costs a call for each mount; mountinfo comes a page at
//! a time, but for each mount that receives propagation the kernel walks peer groups to print
//! `propagate_from`, which takes longer the more mounts there are. [`read_either`] looks at a few
//! mounts to see which it will be.

use gate::fs::{CWD, Open, PROC_SUPER_MAGIC};
use gate::mount::{Ask, LSMT_ROOT, Order, listmount, statmount};
use gate::notify::{Event, poll};
use gate::{Errno, Fd, Gate};
use ondisk::Mount;
use std::fmt;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::reason::TableSource;

/// Why a source was chosen for the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableReason {
    /// mountinfo, because the kernel's calls fail.
    NoStatmount(Error),
    /// mountinfo, because none of the sampled mounts receives propagation.
    NoSlaves {
        /// How many mounts were sampled.
        sampled: usize,
    },
    /// The kernel's calls, because some of the sampled mounts receive propagation.
    Slaves {
        /// How many do.
        slaves: usize,
        /// Of how many.
        sampled: usize,
    },
    /// The other one, because the cheaper one failed.
    OtherFailed(Error),
}

impl fmt::Display for TableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableReason::NoStatmount(error) => {
                write!(
                    f,
                    "listmount(2) and statmount(2) are not to be had ({error})"
                )
            }
            TableReason::NoSlaves { sampled } => write!(
                f,
                "none of {sampled} mounts looked at is a slave, so a page of rows costs less than a call for each"
            ),
            TableReason::Slaves { slaves, sampled } => write!(
                f,
                "{slaves} of {sampled} mounts looked at are slaves, which cost mountinfo a search of peer groups"
            ),
            TableReason::OtherFailed(error) => write!(f, "the cheaper way failed: {error}"),
        }
    }
}

fn describe_failed(errno: Errno) -> Error {
    Error::failed(ErrorKind::DescribeMount, Gate::Statmount, errno)
}

fn list_failed(errno: Errno) -> Error {
    Error::failed(ErrorKind::ListMounts, Gate::Listmount, errno)
}

/// All that statmount is asked for. `STATMOUNT_PROPAGATE_FROM` is left out: it alone would cost
/// what makes mountinfo slow.
fn everything() -> Ask {
    Ask::SB_BASIC
        | Ask::MNT_BASIC
        | Ask::MNT_ROOT
        | Ask::MNT_POINT
        | Ask::FS_TYPE
        | Ask::MNT_OPTS
        | Ask::FS_SUBTYPE
        | Ask::SB_SOURCE
}

/// The table, and what is needed to see whether it has changed since.
#[derive(Debug)]
pub struct Table {
    /// Its rows, in the order in which the mounts were made.
    pub mounts: Vec<Mount>,
    read_by: Reader,
}

#[derive(Debug)]
enum Reader {
    Kernel { ids: Vec<u64> },
    Mountinfo { file: Fd },
}

impl Table {
    /// Reads the whole table.
    pub fn read(source: TableSource) -> Result<Table, Error> {
        match source {
            TableSource::Kernel => Table::from_kernel(everything()),
            TableSource::Mountinfo => Table::from_mountinfo(),
        }
    }

    /// Reads ids, parents, devices and types, and no names: what the papers' programs took from the
    /// kernel's memory.
    pub fn read_nameless(source: TableSource) -> Result<Table, Error> {
        let mut table = match source {
            TableSource::Kernel => {
                Table::from_kernel(Ask::SB_BASIC | Ask::MNT_BASIC | Ask::FS_TYPE)
            }
            TableSource::Mountinfo => Table::from_mountinfo(),
        }?;
        for mount in &mut table.mounts {
            mount.target = None;
        }
        Ok(table)
    }

    fn from_kernel(ask: Ask) -> Result<Table, Error> {
        let ids = list()?;
        let mut describe = Describe::new(ask);
        let mut mounts = Vec::with_capacity(ids.len());
        let mut last_error = None;
        for &id in &ids {
            match describe.mount(id) {
                Ok(Some(mount)) => mounts.push(mount),
                Ok(None) => return Err(ErrorKind::EmptyStatmount.into()),
                // Gone since it was listed, or not to be reached from this process's root.
                Err(e @ (Errno::ENOENT | Errno::EPERM)) => last_error = Some(e),
                Err(e) => return Err(describe_failed(e)),
            }
        }
        match last_error {
            Some(e) if mounts.is_empty() => Err(describe_failed(e)),
            _ => Ok(Table {
                mounts,
                read_by: Reader::Kernel { ids },
            }),
        }
    }

    fn from_mountinfo() -> Result<Table, Error> {
        let (file, mounts) = read_mountinfo()?;
        Ok(Table {
            mounts,
            read_by: Reader::Mountinfo { file },
        })
    }

    /// Whether the table can be that of this process: it holds the mount `anchor`, or one that is
    /// on it. (In a chroot, the mount that holds the root may itself be out of reach.)
    pub fn holds(&self, anchor: Option<u64>) -> bool {
        anchor.is_none_or(|anchor| {
            self.mounts
                .iter()
                .any(|row| row.id == anchor || row.parent == anchor)
        })
    }

    /// [`Table::read`], and a refusal when what comes cannot be the table of this process.
    fn read_sound(
        source: TableSource,
        nameless: bool,
        anchor: Option<u64>,
    ) -> Result<Table, Error> {
        let table = if nameless {
            Table::read_nameless(source)
        } else {
            Table::read(source)
        }?;
        if table.holds(anchor) {
            return Ok(table);
        }
        Err(ErrorKind::MissingRoot(source).into())
    }

    /// Whether mounts have come or gone since the table was read: one call.
    pub fn has_changed(&self) -> bool {
        match &self.read_by {
            Reader::Kernel { ids } => list().map_or(true, |now| now != *ids),
            Reader::Mountinfo { file } => {
                poll([(file.as_fd(), Event::Priority)], Some(Duration::ZERO))
                    .map_or(true, |[changed]| changed)
            }
        }
    }

    /// What to poll, for [`Event::Priority`], to hear of changes of a table that was read by
    /// [`TableSource::Mountinfo`].
    pub(crate) fn changes(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match &self.read_by {
            Reader::Kernel { .. } => None,
            Reader::Mountinfo { file } => Some(file.as_fd()),
        }
    }

    /// The door by which it was read.
    pub fn source(&self) -> TableSource {
        match self.read_by {
            Reader::Kernel { .. } => TableSource::Kernel,
            Reader::Mountinfo { .. } => TableSource::Mountinfo,
        }
    }
}

/// Describes mounts one after another, with one buffer for all.
pub(crate) struct Describe {
    ask: Ask,
    buffer: Vec<u8>,
}

impl Describe {
    pub(crate) fn new(ask: Ask) -> Describe {
        Describe {
            ask,
            buffer: vec![0; 4096],
        }
    }

    /// Asks for all that a row of the table holds.
    pub(crate) fn everything() -> Describe {
        Describe::new(everything())
    }

    /// One mount, by the id that listmount gave; `Ok(None)` when the kernel's answer says nothing.
    pub(crate) fn mount(&mut self, id: u64) -> gate::Result<Option<Mount>> {
        loop {
            self.buffer[..16].fill(0); // a call that fills nothing in must not leave the last answer standing
            match statmount(id, self.ask, &mut self.buffer) {
                Err(Errno::EOVERFLOW) if self.buffer.len() < 1 << 24 => {
                    self.buffer.resize(self.buffer.len() * 4, 0)
                }
                Err(e) => return Err(e),
                Ok(()) => return Ok(ondisk::statmount::parse(&self.buffer)),
            }
        }
    }
}

/// The 64-bit ids of all mounts of the namespace that this process may see.
pub(crate) fn list() -> Result<Vec<u64>, Error> {
    const AT_A_TIME: usize = 16_384;
    let mut ids = vec![0; AT_A_TIME];
    let mut n: usize = 0;
    loop {
        let after = n.checked_sub(1).map_or(0, |last| ids[last]);
        let got = listmount(LSMT_ROOT, after, Order::Oldest, &mut ids[n..]).map_err(list_failed)?;
        // Ids that do not rise are no answer of listmount's: without this check they could come for
        // ever.
        if ids[n..n + got].iter().any(|&id| id <= after) {
            return Err(ErrorKind::InvalidIds.into());
        }
        n += got;
        if n < ids.len() {
            ids.truncate(n);
            return Ok(ids);
        }
        ids.resize(n + AT_A_TIME, 0);
    }
}

fn read_mountinfo() -> Result<(Fd, Vec<Mount>), Error> {
    const NAME: &std::ffi::CStr = c"/proc/self/mountinfo";
    let file = gate::fs::openat(CWD, NAME, Open::NONBLOCK)
        .map_err(|e| Error::failed(ErrorKind::OpenMountinfo, Gate::Openat, e))?;
    let kind = gate::fs::fstatfs(&file)
        .map_err(|e| Error::failed(ErrorKind::IdentifyProc, Gate::Fstatfs, e))?;
    if kind.magic != PROC_SUPER_MAGIC {
        return Err(ErrorKind::ForgedMountinfo.into());
    }
    let mut parser = Parser::default();
    let mut page = vec![0u8; 4 << 10]; // the kernel gives no more at a time
    loop {
        match gate::fs::read(&file, &mut page) {
            Ok(0) => return Ok((file, parser.finish())),
            Ok(n) => parser.take(&page[..n]),
            Err(e) => return Err(Error::failed(ErrorKind::ReadMountinfo, Gate::Read, e)),
        }
    }
}

/// Puts pages of mountinfo together into rows.
#[derive(Default)]
struct Parser {
    lines: ondisk::mountinfo::Parser,
    mounts: Vec<Mount>,
    /// The beginning of a line whose end is still to come.
    begun: Vec<u8>,
}

impl Parser {
    fn take(&mut self, page: &[u8]) {
        let mut rest = page;
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            if self.begun.is_empty() {
                self.mounts.extend(self.lines.line(&rest[..end]));
            } else {
                self.begun.extend_from_slice(&rest[..end]);
                self.mounts.extend(self.lines.line(&self.begun));
                self.begun.clear();
            }
            rest = &rest[end + 1..];
        }
        self.begun.extend_from_slice(rest);
    }

    /// The rows, each mount once: the file is read a page at a time while mounts come and go, so
    /// that one may show twice.
    fn finish(mut self) -> Vec<Mount> {
        let mut ids: Vec<u64> = self.mounts.iter().map(|mount| mount.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            let mut seen = std::collections::HashSet::new();
            self.mounts.retain(|mount| seen.insert(mount.id));
        }
        self.mounts
    }
}

/// The source that is cheaper here, and why. Samples a few mounts, the oldest and the newest;
/// whether /proc is there is found out when it is read.
fn cheaper() -> (TableSource, TableReason) {
    let rows = match sample() {
        Ok(rows) => rows,
        Err(error) => return (TableSource::Mountinfo, TableReason::NoStatmount(error)),
    };
    let sampled = rows.len();
    match rows.iter().filter(|mount| mount.slave).count() {
        0 => (TableSource::Mountinfo, TableReason::NoSlaves { sampled }),
        slaves => (TableSource::Kernel, TableReason::Slaves { slaves, sampled }),
    }
}

/// Rows of a few mounts: the oldest, and the newest, which are most likely to be like the many
/// others.
fn sample() -> Result<Vec<Mount>, Error> {
    const OF_EACH: usize = 4;
    let mut ids = [0; 2 * OF_EACH];
    let oldest =
        listmount(LSMT_ROOT, 0, Order::Oldest, &mut ids[..OF_EACH]).map_err(list_failed)?;
    let newest = listmount(LSMT_ROOT, 0, Order::Newest, &mut ids[oldest..]).unwrap_or(0);
    let mut describe = Describe::new(Ask::SB_BASIC | Ask::MNT_BASIC);
    let answers: Vec<_> = ids[..oldest + newest]
        .iter()
        .map(|&id| describe.mount(id))
        .collect();
    let rows: Vec<Mount> = answers
        .iter()
        .filter_map(|answer| answer.clone().ok()?)
        .collect();
    match answers.into_iter().find_map(Result::err) {
        _ if !rows.is_empty() => Ok(rows),
        Some(e) => Err(describe_failed(e)),
        None => Err(ErrorKind::EmptyStatmount.into()),
    }
}

/// Reads the table from the cheaper source; from the other if that fails, or cannot be the table
/// of a process whose root is on the mount `anchor`. Says why it was that one.
///
/// # Errors
/// [`ErrorKind::NoTable`], when neither can be read.
pub fn read_either(nameless: bool, anchor: Option<u64>) -> Result<(Table, TableReason), Error> {
    let (source, reason) = cheaper();
    let first = match Table::read_sound(source, nameless, anchor) {
        Ok(table) => return Ok((table, reason)),
        Err(error) => error,
    };
    let other = match source {
        TableSource::Kernel => TableSource::Mountinfo,
        TableSource::Mountinfo => TableSource::Kernel,
    };
    match Table::read_sound(other, nameless, anchor) {
        Ok(table) => Ok((table, TableReason::OtherFailed(first))),
        Err(second) => Err(ErrorKind::NoTable(Box::new([first, second])).into()),
    }
}
