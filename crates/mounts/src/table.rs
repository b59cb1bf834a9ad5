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
use std::os::fd::AsFd;
use std::time::Duration;

/// How the table is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// listmount(2) and statmount(2).
    Kernel,
    /// /proc/self/mountinfo.
    Mountinfo,
}

/// Why the table cannot be read by a door.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The call that was refused.
    pub gate: Gate,
    /// How; `None` when the answer made no sense.
    pub errno: Option<Errno>,
    /// In words, without the error's.
    pub message: String,
}

impl Refusal {
    fn new(gate: Gate, errno: Errno, message: &str) -> Refusal {
        Refusal {
            gate,
            errno: Some(errno),
            message: message.to_owned(),
        }
    }

    /// An answer that makes no sense.
    fn senseless(gate: Gate, message: impl Into<String>) -> Refusal {
        Refusal {
            gate,
            errno: None,
            message: message.into(),
        }
    }

    fn cannot_list(errno: Errno) -> Refusal {
        Refusal::new(Gate::Listmount, errno, "cannot list the mounts")
    }

    fn cannot_describe(errno: Errno) -> Refusal {
        Refusal::new(Gate::Statmount, errno, "cannot describe a mount")
    }

    fn says_nothing() -> Refusal {
        Refusal::senseless(
            Gate::Statmount,
            "statmount(2) says nothing of the mounts that listmount(2) gave",
        )
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.errno {
            Some(errno) => write!(f, "{}: {errno}", self.message),
            None => f.write_str(&self.message),
        }
    }
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
    pub fn read(door: Door) -> Result<Table, Refusal> {
        match door {
            Door::Kernel => Table::from_kernel(everything()),
            Door::Mountinfo => Table::from_mountinfo(),
        }
    }

    /// Reads ids, parents, devices and types, and no names: what the papers' programs took from the
    /// kernel's memory.
    pub fn read_nameless(door: Door) -> Result<Table, Refusal> {
        let mut table = match door {
            Door::Kernel => Table::from_kernel(Ask::SB_BASIC | Ask::MNT_BASIC | Ask::FS_TYPE),
            Door::Mountinfo => Table::from_mountinfo(),
        }?;
        for mount in &mut table.mounts {
            mount.target = None;
        }
        Ok(table)
    }

    fn from_kernel(ask: Ask) -> Result<Table, Refusal> {
        let ids = list()?;
        let mut describe = Describe::new(ask);
        let mut mounts = Vec::with_capacity(ids.len());
        let mut last_error = None;
        for &id in &ids {
            match describe.mount(id) {
                Ok(Some(mount)) => mounts.push(mount),
                Ok(None) => return Err(Refusal::says_nothing()),
                // Gone since it was listed, or not to be reached from this process's root.
                Err(e @ (Errno::ENOENT | Errno::EPERM)) => last_error = Some(e),
                Err(e) => return Err(Refusal::cannot_describe(e)),
            }
        }
        match last_error {
            Some(e) if mounts.is_empty() => Err(Refusal::cannot_describe(e)),
            _ => Ok(Table {
                mounts,
                read_by: Reader::Kernel { ids },
            }),
        }
    }

    fn from_mountinfo() -> Result<Table, Refusal> {
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
    fn read_sound(door: Door, nameless: bool, anchor: Option<u64>) -> Result<Table, Refusal> {
        let table = if nameless {
            Table::read_nameless(door)
        } else {
            Table::read(door)
        }?;
        if table.holds(anchor) {
            return Ok(table);
        }
        let (gate, name) = match door {
            Door::Kernel => (Gate::Listmount, "listmount(2)"),
            Door::Mountinfo => (Gate::Read, "/proc/self/mountinfo"),
        };
        Err(Refusal::senseless(
            gate,
            format!("{name} does not give the mount that the root is on"),
        ))
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
    /// [`Door::Mountinfo`].
    pub(crate) fn changes(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match &self.read_by {
            Reader::Kernel { .. } => None,
            Reader::Mountinfo { file } => Some(file.as_fd()),
        }
    }

    /// The door by which it was read.
    pub fn door(&self) -> Door {
        match self.read_by {
            Reader::Kernel { .. } => Door::Kernel,
            Reader::Mountinfo { .. } => Door::Mountinfo,
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
pub(crate) fn list() -> Result<Vec<u64>, Refusal> {
    const AT_A_TIME: usize = 16_384;
    let mut ids = vec![0; AT_A_TIME];
    let mut n: usize = 0;
    loop {
        let after = n.checked_sub(1).map_or(0, |last| ids[last]);
        let got = listmount(LSMT_ROOT, after, Order::Oldest, &mut ids[n..])
            .map_err(Refusal::cannot_list)?;
        // Ids that do not rise are no answer of listmount's: without this check they could come for
        // ever.
        if ids[n..n + got].iter().any(|&id| id <= after) {
            return Err(Refusal::senseless(
                Gate::Listmount,
                "listmount(2) gave ids that make no sense",
            ));
        }
        n += got;
        if n < ids.len() {
            ids.truncate(n);
            return Ok(ids);
        }
        ids.resize(n + AT_A_TIME, 0);
    }
}

fn read_mountinfo() -> Result<(Fd, Vec<Mount>), Refusal> {
    const NAME: &std::ffi::CStr = c"/proc/self/mountinfo";
    let file = gate::fs::openat(CWD, NAME, Open::NONBLOCK)
        .map_err(|e| Refusal::new(Gate::Openat, e, "cannot open /proc/self/mountinfo"))?;
    let kind = gate::fs::fstatfs(&file)
        .map_err(|e| Refusal::new(Gate::Fstatfs, e, "cannot tell what /proc is"))?;
    if kind.magic != PROC_SUPER_MAGIC {
        let message = "/proc/self/mountinfo is an ordinary file, not the kernel's";
        return Err(Refusal::senseless(Gate::Fstatfs, message));
    }
    let mut parser = Parser::default();
    let mut page = vec![0u8; 4 << 10]; // the kernel gives no more at a time
    loop {
        match gate::fs::read(&file, &mut page) {
            Ok(0) => return Ok((file, parser.finish())),
            Ok(n) => parser.take(&page[..n]),
            Err(e) => {
                return Err(Refusal::new(
                    Gate::Read,
                    e,
                    "cannot read /proc/self/mountinfo",
                ));
            }
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

/// Which door is the cheaper here, and why. Asks after a few mounts, the oldest and the newest;
/// whether /proc is to be had is seen when it is read.
fn cheaper() -> (Door, String) {
    let rows = match sample() {
        Ok(rows) => rows,
        Err(refusal) => {
            return (
                Door::Mountinfo,
                format!("listmount(2) and statmount(2) are not to be had ({refusal})"),
            );
        }
    };
    let looked_at = rows.len();
    match rows.iter().filter(|mount| mount.slave).count() {
        0 => {
            let why = "is a slave, so a page of rows costs less than a call for each";
            (
                Door::Mountinfo,
                format!("none of {looked_at} mounts looked at {why}"),
            )
        }
        slaves => {
            let why = "are slaves, which cost mountinfo a search of peer groups";
            (
                Door::Kernel,
                format!("{slaves} of {looked_at} mounts looked at {why}"),
            )
        }
    }
}

/// Rows of a few mounts: the oldest, and the newest, which are most likely to be like the many
/// others.
fn sample() -> Result<Vec<Mount>, Refusal> {
    const OF_EACH: usize = 4;
    let mut ids = [0; 2 * OF_EACH];
    let oldest = listmount(LSMT_ROOT, 0, Order::Oldest, &mut ids[..OF_EACH])
        .map_err(Refusal::cannot_list)?;
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
        Some(e) => Err(Refusal::cannot_describe(e)),
        None => Err(Refusal::says_nothing()),
    }
}

/// Reads the table by the cheaper door, or by the other if that fails or cannot be the table of a
/// process whose root is on the mount `anchor`, and says why it was that one.
///
/// # Errors
/// When neither door is open: the refusals of both.
pub fn read_either(nameless: bool, anchor: Option<u64>) -> Result<(Table, String), [Refusal; 2]> {
    let (door, why) = cheaper();
    let first = match Table::read_sound(door, nameless, anchor) {
        Ok(table) => return Ok((table, why)),
        Err(refusal) => refusal,
    };
    let other = if door == Door::Kernel {
        Door::Mountinfo
    } else {
        Door::Kernel
    };
    match Table::read_sound(other, nameless, anchor) {
        Ok(table) => Ok((table, format!("the cheaper way failed: {first}"))),
        Err(second) => Err([first, second]),
    }
}
