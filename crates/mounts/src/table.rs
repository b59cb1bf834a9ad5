//! The kernel's mount table, from `kernel` (listmount and statmount) or from `mountinfo`.
//!
//! Neither is always cheaper. statmount takes a call per mount; mountinfo comes a page at a time,
//! but for each mount that receives propagation, the kernel walks peer groups to print
//! `propagate_from`, which takes longer the more mounts there are. [`read_either`] samples a few
//! mounts to decide.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use gate::fs::{CWD, Open, PROC_SUPER_MAGIC};
use gate::mount::{LSMT_ROOT, Order, StatmountMask, listmount, statmount};
use gate::notify::{Event, poll};
use gate::{Errno, Fd, Gate};
use ondisk::Mount;

use crate::error::{Error, ErrorKind, TableSource};

/// Why an interface was chosen to read the table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TableReason {
    #[error("listmount(2) and statmount(2) are unavailable ({0})")]
    NoStatmount(Error),
    #[error(
        "mountinfo takes fewer calls, and none of {sampled} sampled mounts is a slave, which would slow it down"
    )]
    NoSlaves { sampled: usize },
    #[error(
        "{slaves} of {sampled} sampled mounts are slaves, for each of which mountinfo searches peer groups"
    )]
    Slaves { slaves: usize, sampled: usize },
    #[error("the cheaper interface failed: {0}")]
    OtherFailed(Error),
    #[error("statmount(2) of this kernel does not report sources (since Linux 6.13)")]
    NoSources,
}

fn describe_failed(errno: Errno) -> Error {
    Error::failed(ErrorKind::DescribeMount, Gate::Statmount, errno)
}

fn list_failed(errno: Errno) -> Error {
    Error::failed(ErrorKind::ListMounts, Gate::Listmount, errno)
}

/// All columns of the table. `STATMOUNT_PROPAGATE_FROM` is excluded: it alone would cost the walk
/// of peer groups that makes mountinfo slow.
const EVERYTHING: StatmountMask = NAMELESS
    .union(StatmountMask::MNT_ROOT)
    .union(StatmountMask::MNT_POINT)
    .union(StatmountMask::MNT_OPTS)
    .union(StatmountMask::FS_SUBTYPE)
    .union(StatmountMask::SB_SOURCE);
/// Only ids, parents, devices and types: what the papers' programs took from the kernel's memory.
const NAMELESS: StatmountMask = StatmountMask::SB_BASIC
    .union(StatmountMask::MNT_BASIC)
    .union(StatmountMask::FS_TYPE);

/// The mount table, and the means to detect later changes.
#[derive(Debug)]
pub struct Table {
    /// Mounts, in the order of their creation.
    pub mounts: Vec<Mount>,
    read_by: TableReader,
}

#[derive(Debug)]
enum TableReader {
    Kernel { ids: Vec<u64> },
    Mountinfo { file: Fd },
}

impl Table {
    /// Reads the whole mount table by one interface.
    pub fn read(source: TableSource) -> Result<Table, Error> {
        match source {
            TableSource::Kernel => Table::from_kernel(EVERYTHING),
            TableSource::Mountinfo => Table::from_mountinfo(),
        }
    }

    /// Reads the table, without the paths of the mounts if `nameless`. Fails if it cannot be the
    /// table of a process whose root is on the mount `anchor`.
    fn read_checked(
        source: TableSource,
        nameless: bool,
        anchor: Option<u64>,
    ) -> Result<Table, Error> {
        let mut table = match source {
            TableSource::Kernel if nameless => Table::from_kernel(NAMELESS),
            _ => Table::read(source),
        }?;
        if nameless {
            table.mounts.iter_mut().for_each(|row| row.target = None);
        }
        if table.has_anchor(anchor) {
            Ok(table)
        } else {
            Err(ErrorKind::MissingRoot(source).into())
        }
    }

    fn from_kernel(ask: StatmountMask) -> Result<Table, Error> {
        let ids = list()?;
        let mut describe = Describe::new(ask);
        let mut mounts = Vec::with_capacity(ids.len());
        let mut last_error = None;
        for &id in &ids {
            match describe.mount(id) {
                Ok(Some(mount)) => mounts.push(mount),
                Ok(None) => return Err(ErrorKind::EmptyStatmount.into()),
                // The mount was unmounted since it was listed, or cannot be reached from this
                // process's root.
                Err(e @ (Errno::ENOENT | Errno::EPERM)) => last_error = Some(e),
                Err(e) => return Err(describe_failed(e)),
            }
        }
        match last_error {
            Some(e) if mounts.is_empty() => Err(describe_failed(e)),
            _ => Ok(Table {
                mounts,
                read_by: TableReader::Kernel { ids },
            }),
        }
    }

    fn from_mountinfo() -> Result<Table, Error> {
        const NAME: &CStr = c"/proc/self/mountinfo";
        let failed = |kind, gate| move |errno| Error::failed(kind, gate, errno);
        let file = gate::fs::openat(CWD, NAME, Open::NONBLOCK)
            .map_err(failed(ErrorKind::OpenMountinfo, Gate::Openat))?;
        let statfs =
            gate::fs::fstatfs(&file).map_err(failed(ErrorKind::IdentifyProc, Gate::Fstatfs))?;
        if statfs.magic != PROC_SUPER_MAGIC {
            return Err(ErrorKind::ForgedMountinfo.into());
        }
        let mut parser = Parser::default();
        let mut page = vec![0u8; 4 << 10]; // the kernel returns at most a page per read(2)
        loop {
            let n = gate::fs::read(&file, &mut page)
                .map_err(failed(ErrorKind::ReadMountinfo, Gate::Read))?;
            if n == 0 {
                let (mounts, read_by) = (parser.finish(), TableReader::Mountinfo { file });
                return Ok(Table { mounts, read_by });
            }
            parser.take(&page[..n]);
        }
    }

    /// Whether the table can be that of this process: it has the mount `anchor`, or one mounted on
    /// it. (In a chroot, the mount that contains the root may itself be unreachable.)
    pub fn has_anchor(&self, anchor: Option<u64>) -> bool {
        anchor.is_none_or(|anchor| {
            self.mounts
                .iter()
                .any(|row| row.id == anchor || row.parent == anchor)
        })
    }

    /// Whether mounts were added or removed since the table was read; takes one call.
    pub fn has_changed(&self) -> bool {
        match &self.read_by {
            TableReader::Kernel { ids } => list().map_or(true, |now| now != *ids),
            TableReader::Mountinfo { file } => {
                poll([(file.as_fd(), Event::Priority)], Some(Duration::ZERO))
                    .map_or(true, |[changed]| changed)
            }
        }
    }

    /// The file to poll for [`Event::Priority`] to detect changes, if the table was read from
    /// mountinfo.
    pub(crate) fn changes(&self) -> Option<BorrowedFd<'_>> {
        match &self.read_by {
            TableReader::Kernel { .. } => None,
            TableReader::Mountinfo { file } => Some(file.as_fd()),
        }
    }

    /// The interface by which the table was read.
    pub fn source(&self) -> TableSource {
        match self.read_by {
            TableReader::Kernel { .. } => TableSource::Kernel,
            TableReader::Mountinfo { .. } => TableSource::Mountinfo,
        }
    }
}

/// Calls statmount(2) for one mount after another, with one buffer for all.
pub(crate) struct Describe {
    ask: StatmountMask,
    buffer: Vec<u8>,
}

impl Describe {
    fn new(ask: StatmountMask) -> Describe {
        Describe {
            ask,
            buffer: vec![0; 4096],
        }
    }

    pub(crate) fn everything() -> Describe {
        Describe::new(EVERYTHING)
    }

    /// Describes one mount by its id from listmount; `Ok(None)` if the kernel has filled in
    /// nothing.
    pub(crate) fn mount(&mut self, id: u64) -> gate::Result<Option<Mount>> {
        loop {
            self.buffer[..16].fill(0); // otherwise a call that fills in nothing would leave the previous result
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
        // listmount returns ascending ids; without this check a faulty kernel could cause an
        // endless loop.
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

#[derive(Default)]
struct Parser {
    lines: ondisk::mountinfo::Parser,
    mounts: Vec<Mount>,
    /// The beginning of a line of mountinfo that continues in the next page.
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

    /// Removes duplicates: a mount is in two pages if others were mounted between two reads.
    fn finish(mut self) -> Vec<Mount> {
        let mut ids: Vec<u64> = self.mounts.iter().map(|mount| mount.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            let mut seen = HashSet::new();
            self.mounts.retain(|mount| seen.insert(mount.id));
        }
        self.mounts
    }
}

/// Chooses the cheaper interface that returns the needed columns, and says why. Whether /proc is
/// mounted turns out when it is read.
fn cheaper(nameless: bool) -> (TableSource, TableReason) {
    match sample() {
        Ok(rows) => choose(&rows, nameless),
        Err(error) => (TableSource::Mountinfo, TableReason::NoStatmount(error)),
    }
}

fn choose(rows: &[Mount], nameless: bool) -> (TableSource, TableReason) {
    let sampled = rows.len();
    let slaves = rows.iter().filter(|mount| mount.slave).count();
    if slaves == 0 {
        (TableSource::Mountinfo, TableReason::NoSlaves { sampled })
    } else if !nameless && rows.iter().all(|mount| mount.content.source.is_none()) {
        (TableSource::Mountinfo, TableReason::NoSources)
    } else {
        (TableSource::Kernel, TableReason::Slaves { slaves, sampled })
    }
}

/// Describes a few mounts: the oldest, and the newest ones, which are likely to resemble the many
/// others.
fn sample() -> Result<Vec<Mount>, Error> {
    const OF_EACH: usize = 4;
    let mut ids = [0; 2 * OF_EACH];
    let oldest =
        listmount(LSMT_ROOT, 0, Order::Oldest, &mut ids[..OF_EACH]).map_err(list_failed)?;
    let newest = listmount(LSMT_ROOT, 0, Order::Newest, &mut ids[oldest..]).unwrap_or(0);
    let mut describe = Describe::new(
        StatmountMask::SB_BASIC | StatmountMask::MNT_BASIC | StatmountMask::SB_SOURCE,
    );
    let (mut rows, mut failed) = (Vec::new(), None);
    for &id in &ids[..oldest + newest] {
        match describe.mount(id) {
            Ok(row) => rows.extend(row),
            Err(errno) => failed = failed.or(Some(errno)),
        }
    }
    match failed {
        _ if !rows.is_empty() => Ok(rows),
        Some(errno) => Err(describe_failed(errno)),
        None => Err(ErrorKind::EmptyStatmount.into()),
    }
}

/// The mounts of the whole table; none if it cannot be read.
pub fn read_mounts() -> Vec<Mount> {
    read_either(false, None).map_or(Vec::new(), |(table, _)| table.mounts)
}

/// Reads the table by the cheaper interface, and says why; by the other one if that fails, or
/// cannot be the table of a process whose root is on the mount `anchor`. A `nameless` table has no
/// paths.
///
/// # Errors
/// [`ErrorKind::NoTable`] if neither interface returns a table.
pub fn read_either(nameless: bool, anchor: Option<u64>) -> Result<(Table, TableReason), Error> {
    let (source, reason) = cheaper(nameless);
    let first = match Table::read_checked(source, nameless, anchor) {
        Ok(table) => return Ok((table, reason)),
        Err(error) => error,
    };
    let other = match source {
        TableSource::Kernel => TableSource::Mountinfo,
        TableSource::Mountinfo => TableSource::Kernel,
    };
    match Table::read_checked(other, nameless, anchor) {
        Ok(table) => Ok((table, TableReason::OtherFailed(first))),
        Err(second) => Err(ErrorKind::NoTable(Box::new([first, second])).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn slaves_are_read_from_the_kernel_only_if_it_reports_sources() {
        let parse = |line: &[u8]| ondisk::mountinfo::parse(line).unwrap();
        let plain = parse(b"22 1 8:1 / / rw - ext4 /dev/sda1 rw");
        let slave = parse(b"23 22 0:5 / /run rw master:1 - tmpfs run rw");
        let mut sourceless = parse(b"23 22 0:5 / /run rw master:1 - tmpfs run rw");
        Arc::make_mut(&mut sourceless.content).source = None;

        let by = |rows: &[Mount], nameless| choose(rows, nameless).0;
        assert_eq!(
            by(std::slice::from_ref(&plain), false),
            TableSource::Mountinfo
        );
        assert_eq!(by(&[plain, slave], false), TableSource::Kernel);
        let rows = [sourceless];
        assert_eq!(
            choose(&rows, false),
            (TableSource::Mountinfo, TableReason::NoSources)
        );
        assert_eq!(by(&rows, true), TableSource::Kernel);
    }
}
