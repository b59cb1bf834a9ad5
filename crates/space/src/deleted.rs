//! Deleted files that processes hold open or have mapped, as `lsof +L1` finds them.
//!
//! The text of a link in /proc/PID/fd shows that a file is deleted, and /proc/PID/fdinfo its mount, so that only files of the
//! examined file system are accessed. Still, /proc/PID/maps can block while a thread of that process waits for a dead server.
//! So a child process searches, and is abandoned if it makes no progress; the next child continues after the process that
//! blocked it.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base::Warning;
use base::directory::numbers;
use base::log::Log;
use gate::file::{kernel_field, read_kernel_in, read_kernel_up_to};
use gate::fs::{AtFlags, CWD, FileType, Open, Statx, StatxMask, openat, readlinkat, statx};
use gate::long::c_string;
use gate::process::{Child, SharedWords};
use gate::{Errno, Fd, Tally};
use ondisk::mountinfo::Parser;
use ondisk::{Dev, Mount, Time};
use serde::{Deserialize, Serialize};

use crate::bill::{Holder, InodeSums, Item, ItemKind, Remedy, Unit};
use crate::error::WarningKind;
use crate::source::signed;

/// The suffix that the kernel appends to the path of a deleted file in /proc.
pub(crate) const DELETED: &[u8] = b" (deleted)";

/// The deleted files that processes hold open.
#[derive(Debug, Default)]
pub(crate) struct OpenDeletedFiles {
    /// The files with allocated bytes, one item for each.
    pub(crate) items: Vec<Item>,
    /// The number of files for each process, empty files included.
    pub(crate) inodes: Vec<InodeSums>,
}

/// Finds the deleted files with this device number. Must be called before threads are started, because it forks.
pub(crate) fn find(dev: Dev, table: &[Mount], warnings: &mut Vec<Warning>) -> OpenDeletedFiles {
    /// Maximum number of abandoned searches: each costs seconds.
    const MOST_STUCK: usize = 8;
    let pids = numbers_in(b"/proc");
    let (Ok(pids), Ok(board)) = (pids, ScanProgress::new()) else {
        warnings.push(Warning::general(WarningKind::NoProcesses));
        return OpenDeletedFiles::default();
    };
    let (mut from, mut stuck) = (0, 0);
    while from < pids.len() && stuck < MOST_STUCK {
        let Ok(mut child) = Child::fork_detached(|| scan(&pids[from..], dev, table, &board)) else {
            warnings.push(Warning::general(WarningKind::NoProcesses));
            break;
        };
        let has_ended = board.wait(&mut child);
        gate::meter::add(&Tally::collect(board.tally()));
        if has_ended {
            break;
        }
        from += board.at();
        stuck += 1;
        let pid = pids[from - 1];
        warnings.push(Warning::general(WarningKind::Stuck(pid)));
    }
    let unreadable = board.unreadable().load(Relaxed);
    if unreadable > 0 {
        let kind = WarningKind::Processes(unreadable as usize);
        warnings.push(Warning::general(kind));
    }
    let mut files: HashMap<((u32, u32), u64), DeletedFile> = HashMap::new();
    let mut at = 0;
    while let Some(found) = board.files.read::<DeletedRecord>(&mut at) {
        let id = (found.dev, found.ino);
        let (pid, fd) = (found.pid, found.fd);
        let file = match files.entry(id) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => slot.insert(DeletedFile::new(found)),
        };
        file.add(pid, fd);
    }
    let mut by_process: BTreeMap<u32, InodeSums> = BTreeMap::new();
    for file in files.values() {
        let (pid, _) = file.holder();
        let sums = by_process.entry(pid).or_insert_with(|| InodeSums {
            kind: ItemKind::Deleted,
            path: None,
            holder: Some(read_holder(pid)),
            inodes: 0,
        });
        sums.inodes += 1;
    }
    let holder = |pid: u32| by_process.get(&pid)?.holder.clone();
    let files = files.into_values().filter(|file| file.item.bytes > 0);
    OpenDeletedFiles {
        items: files.map(|file| file.into_item(holder)).collect(),
        inodes: by_process.values().cloned().collect(),
    }
}

/// A deleted file that one process holds open.
#[derive(Serialize, Deserialize)]
struct DeletedRecord {
    pid: u32,
    /// The file descriptor of a regular file; `None` for a mapping, and for other types of files.
    fd: Option<u32>,
    /// The major and minor device number of the file; on btrfs, those of its subvolume.
    dev: (u32, u32),
    ino: u64,
    blocks: u64,
    owner: u32,
    /// Seconds and nanoseconds.
    ctime: (i64, u32),
    path: Vec<u8>,
}

/// Memory that the searching child process shares: its position, its system calls, and the files
/// found.
struct ScanProgress {
    words: SharedWords,
    /// A [`DeletedRecord`] for each file. Files that do not fit are not accounted for.
    files: Log,
}

impl ScanProgress {
    const TALLY: usize = 2;

    fn new() -> gate::Result<ScanProgress> {
        /// Size of the log in words of 64 bits.
        const ROOM: usize = 512 << 10;
        Ok(ScanProgress {
            words: SharedWords::new(ScanProgress::TALLY + Tally::WORDS)?,
            files: Log::new(ROOM)?,
        })
    }

    /// Number of processes that the last child has begun to examine.
    fn at(&self) -> usize {
        self.words[0].load(Relaxed) as usize
    }

    fn unreadable(&self) -> &AtomicU64 {
        &self.words[1]
    }

    fn tally(&self) -> &[AtomicU64] {
        &self.words[ScanProgress::TALLY..]
    }

    /// Waits for the end of a child's search; returns false if the child was abandoned because it
    /// made no progress.
    fn wait(&self, child: &mut Child) -> bool {
        const PATIENCE: Duration = Duration::from_secs(2);
        const STEP: Duration = Duration::from_millis(100);
        let (mut last, mut since) = (self.at(), Instant::now());
        while child.wait(STEP).is_none() {
            if self.at() != last {
                (last, since) = (self.at(), Instant::now());
            }
            if since.elapsed() > PATIENCE {
                child.kill();
                child.wait(STEP);
                return false;
            }
        }
        true
    }
}

/// Searches the processes; runs in the child process.
fn scan(pids: &[u32], dev: Dev, table: &[Mount], board: &ScanProgress) {
    let before = gate::meter::tally();
    let mut search = Search {
        dev,
        mounts: table.iter().map(|row| (row.id, Some(row.dev))).collect(),
        board,
    };
    for (at, pid) in pids.iter().enumerate() {
        board.words[0].store(at as u64 + 1, Relaxed);
        search.process(*pid);
        gate::meter::tally().since(&before).publish(board.tally());
    }
}

/// A deleted file, and all processes that hold it open.
struct DeletedFile {
    item: Item,
    /// The processes, with a file descriptor of each.
    pids: BTreeMap<u32, Option<u32>>,
    /// Whether every process uses the file only through file descriptors.
    is_only_open: bool,
}

impl DeletedFile {
    fn new(found: DeletedRecord) -> DeletedFile {
        let (sec, nsec) = found.ctime;
        DeletedFile {
            item: Item {
                path: Some(found.path),
                ino: Some(found.ino),
                owner: Some(found.owner),
                since: Some(Time { sec, nsec }),
                ..Item::new(ItemKind::Deleted, signed(found.blocks.saturating_mul(512)))
            },
            pids: BTreeMap::new(),
            is_only_open: true,
        }
    }

    fn add(&mut self, pid: u32, fd: Option<u32>) {
        self.is_only_open &= fd.is_some();
        self.pids.entry(pid).or_insert(fd);
    }

    /// The process with the lowest id, and its file descriptor if the file can be emptied.
    fn holder(&self) -> (u32, Option<u32>) {
        let first = self.pids.first_key_value();
        let (pid, fd) = first.map_or((0, None), |(pid, fd)| (*pid, *fd));
        // Only root can follow the links in /proc/PID/map_files, and so find all mappings.
        let is_safe = self.is_only_open && gate::process::is_root();
        (pid, fd.filter(|_| is_safe))
    }

    /// `holder` returns what is known of a process.
    fn into_item(self, holder: impl Fn(u32) -> Option<Holder>) -> Item {
        let (pid, fd) = self.holder();
        let processes = self.pids.len();
        let holder = holder(pid).map(|holder| Holder {
            processes,
            fd,
            ..holder
        });
        let unit = holder.as_ref().and_then(|holder| holder.unit.clone());
        Item {
            remedy: unit.map(Remedy::Restart),
            holder,
            ..self.item
        }
    }
}

/// Reads the name and the unit of a process that holds deleted files open.
fn read_holder(pid: u32) -> Holder {
    let dir = format!("/proc/{pid}").into_bytes();
    let program = read_kernel_in(&dir, b"comm").unwrap_or_default();
    let cgroup = read_kernel_in(&dir, b"cgroup").ok();
    Holder {
        pid: Some(pid),
        program: program.trim_ascii_end().to_vec(),
        processes: 1,
        fd: None,
        unit: cgroup.and_then(|text| unit_of(&text)),
    }
}

struct Search<'a> {
    dev: Dev,
    /// The device numbers of mounts, by mount id; `None` for mounts that no mount table contains.
    mounts: HashMap<u64, Option<Dev>>,
    board: &'a ScanProgress,
}

impl Search<'_> {
    fn process(&mut self, pid: u32) {
        let dir = format!("/proc/{pid}").into_bytes();
        match open_dir(&[&dir, &b"/fd"[..]].concat()) {
            Ok(fds) => self.open_files(pid, &dir, &fds),
            Err(Errno::ENOENT | Errno::ESRCH) => return,
            // Do not count kernel threads, which have no files and no command line, as unreadable.
            Err(_) => {
                let command = read_kernel_in(&dir, b"cmdline");
                let is_user = command.is_ok_and(|text| !text.is_empty());
                self.board.unreadable().fetch_add(is_user.into(), Relaxed);
                return;
            }
        }
        self.mapped_files(pid, &dir);
    }

    fn open_files(&mut self, pid: u32, dir: &[u8], fds: &Fd) {
        for number in numbers(fds).unwrap_or_default() {
            let Ok(name) = c_string(number.to_string().as_bytes()) else {
                continue;
            };
            let Ok(link) = readlinkat(fds, &name) else {
                continue;
            };
            let Some(path) = link.strip_suffix(DELETED) else {
                continue;
            };
            let info = read_kernel_in(dir, &[b"fdinfo/", name.to_bytes()].concat());
            let mount = info
                .ok()
                .and_then(|info| kernel_field(&info, "mnt_id:")?.parse().ok());
            if mount.is_some_and(|mount| self.is_on_file_system(mount, dir)) {
                self.put(
                    (pid, Some(number)),
                    path,
                    statx(fds, &name, AtFlags::STATX_DONT_SYNC, StatxMask::BASIC_STATS),
                );
            }
        }
    }

    /// Finds deleted files that are mapped, such as replaced programs and libraries.
    fn mapped_files(&mut self, pid: u32, dir: &[u8]) {
        const MOST: usize = 16 << 20;
        let Ok(maps) = c_string(&[dir, b"/maps"].concat()) else {
            return;
        };
        let Ok(maps) = read_kernel_up_to(&maps, MOST) else {
            return;
        };
        let mut seen = HashSet::new();
        for line in maps.split(|&byte| byte == b'\n') {
            let Some(mapped) = line.strip_suffix(DELETED).and_then(Mapped::parse) else {
                continue;
            };
            if mapped.dev == self.dev && seen.insert(mapped.ino) {
                let name = [dir, b"/map_files/", &mapped.range].concat();
                let Ok(name) = c_string(&name) else { continue };
                let found = statx(CWD, &name, AtFlags::STATX_DONT_SYNC, StatxMask::BASIC_STATS);
                self.put((pid, None), mapped.path, found);
            }
        }
    }

    fn put(&mut self, (pid, fd): (u32, Option<u32>), path: &[u8], found: Result<Statx, Errno>) {
        // The suffix " (deleted)" proves nothing: it can be part of a name, or the file can have
        // further names.
        if let Ok(found) = found.as_ref()
            && found.nlink == 0
        {
            self.board.files.write(&DeletedRecord {
                pid,
                fd: fd.filter(|_| found.file_type == FileType::Regular),
                dev: (found.dev.major, found.dev.minor),
                ino: found.ino,
                blocks: found.blocks,
                owner: found.uid,
                ctime: (found.ctime.sec, found.ctime.nsec),
                path: path.to_vec(),
            });
        }
    }

    /// Whether a mount belongs to the examined file system. For a process in a different mount namespace, reads its
    /// mount table.
    fn is_on_file_system(&mut self, mount: u64, dir: &[u8]) -> bool {
        const MOST: usize = 16 << 20;
        if !self.mounts.contains_key(&mount) {
            let table = c_string(&[dir, b"/mountinfo"].concat());
            let table = table.and_then(|name| read_kernel_up_to(&name, MOST));
            let mut parser = Parser::default();
            for line in table.unwrap_or_default().split(|&byte| byte == b'\n') {
                if let Some(row) = parser.line(line) {
                    self.mounts.entry(row.id).or_insert(Some(row.dev));
                }
            }
        }
        // memfd_create(2) and System V shared memory use internal mounts, which no table contains.
        *self.mounts.entry(mount).or_default() == Some(self.dev)
    }
}

/// A line of /proc/PID/maps.
struct Mapped<'a> {
    /// The name of the mapping in /proc/PID/map_files.
    range: Vec<u8>,
    dev: Dev,
    ino: u64,
    path: &'a [u8],
}

impl Mapped<'_> {
    fn parse(line: &[u8]) -> Option<Mapped<'_>> {
        let mut rest = line;
        // The fields of a line are range, permissions, offset, device and inode number; then follow
        // blanks and the path.
        let mut word = || {
            let (word, after) = rest.split_at(rest.iter().position(|&byte| byte == b' ')?);
            rest = &after[1..];
            str::from_utf8(word).ok()
        };
        let [range, _, _, dev, ino] = [word()?, word()?, word()?, word()?, word()?];
        let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
        let (from, to) = range.split_once('-')?;
        let (major, minor) = dev.split_once(':')?;
        Some(Mapped {
            range: format!("{:x}-{:x}", number(from)?, number(to)?).into_bytes(),
            dev: Dev::new(number(major)? as u32, number(minor)? as u32),
            ino: ino.parse().ok()?,
            path: rest.trim_ascii_start(),
        })
    }
}

/// The systemd service in /proc/PID/cgroup, whose lines are `NUMBER:CONTROLLERS:PATH`.
fn unit_of(cgroup: &[u8]) -> Option<Unit> {
    let lines = cgroup.split(|&byte| byte == b'\n');
    let path = lines.filter_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        (number == b"0" || controllers == b"name=systemd").then_some(path)
    });
    let path = path.max_by_key(|path| path.len())?;
    let is_service = |name: &&[u8]| name.ends_with(b".service");
    let mut services = path.split(|&byte| byte == b'/').filter(is_service);
    let (first, last) = (services.next()?, services.next_back());
    let is_of_user = first.starts_with(b"user@");
    let name = if is_of_user { last? } else { first };
    Some(Unit {
        name: name.to_vec(),
        is_of_user,
    })
}

fn open_dir(path: &[u8]) -> Result<Fd, Errno> {
    openat(CWD, &c_string(path)?, Open::DIRECTORY)
}

/// The names in a directory that are numbers.
fn numbers_in(path: &[u8]) -> Result<Vec<u32>, Errno> {
    numbers(&open_dir(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_in_both_versions_of_cgroups() {
        let unit = |text: &str| {
            unit_of(text.as_bytes())
                .map(|unit| (String::from_utf8(unit.name).unwrap(), unit.is_of_user))
        };
        let service = |name: &str, is_of_user| Some((name.to_owned(), is_of_user));
        assert_eq!(
            unit("0::/system.slice/nginx.service\n"),
            service("nginx.service", false)
        );
        let v1 = "4:memory:/x\n1:name=systemd:/system.slice/cron.service\n0::/\n";
        assert_eq!(unit(v1), service("cron.service", false));
        let user = "/user.slice/user-1000.slice/user@1000.service";
        assert_eq!(
            unit(&format!("0::{user}/app.slice/a b.service\n")),
            service("a b.service", true)
        );
        assert_eq!(unit(&format!("0::{user}/init.scope\n")), None);
        assert_eq!(unit("0::/user.slice/user-0.slice/session-1.scope\n"), None);
        assert_eq!(unit("0::/\n"), None);
    }

    #[test]
    fn a_mapping_is_parsed() {
        let line = b"00400000-0040b000 r-xp 00001000 fd:10 1234                       /tmp/a b";
        let mapped = Mapped::parse(line).unwrap();
        assert_eq!(
            (&mapped.range[..], mapped.ino),
            (&b"400000-40b000"[..], 1234)
        );
        assert_eq!(
            (mapped.dev, mapped.path),
            (Dev::new(0xfd, 0x10), &b"/tmp/a b"[..])
        );
        assert!(Mapped::parse(b"00400000-0040b000 rw-p 0000").is_none());
    }
}
