//! Deleted files that processes hold open or have mapped, as `lsof +L1` finds them.
//!
//! The text of a link in /proc/PID/fd shows that a file is deleted, and /proc/PID/fdinfo its mount, so that only files of the
//! examined file system are accessed. Still, /proc/PID/maps can block while a thread of that process waits for a dead server.
//! So a child process searches, and is abandoned if it makes no progress; the next child continues after the process that
//! blocked it.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use base::Warning;
use base::directory::numbers;
use gate::file::{kernel_field, read_kernel_in, read_kernel_up_to};
use gate::fs::{AtFlags, CWD, FileType, Open, Statx, StatxMask, openat, readlinkat, statx};
use gate::long::c_string;
use gate::process::{Child, SharedWords};
use gate::{Errno, Fd, Tally};
use ondisk::mountinfo::Parser;
use ondisk::{Dev, Mount, Time};

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
    let board = SharedWords::new(ScanProgress::WORDS).map(|words| ScanProgress { words });
    let (Ok(pids), Ok(board)) = (pids, board) else {
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
    let mut files: HashMap<(Dev, u64), DeletedFile> = HashMap::new();
    for found in board.records() {
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
#[derive(Clone, PartialEq, Eq, Debug)]
struct DeletedRecord {
    pid: u32,
    /// The file descriptor of a regular file; `None` for a mapping, and for other types of files.
    fd: Option<u32>,
    /// The device number of the file; on btrfs, that of its subvolume.
    dev: Dev,
    ino: u64,
    blocks: u64,
    owner: u32,
    ctime: Time,
    path: Vec<u8>,
}

impl DeletedRecord {
    /// Number of 64-bit words before the path in a record.
    const HEAD: usize = 9;
    /// The word of a record without a file descriptor.
    const NO_FD: u64 = u64::MAX;

    fn to_words(&self) -> Vec<u64> {
        let path = self.path.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        let head: [u64; DeletedRecord::HEAD] = [
            self.path.len() as u64,
            self.pid.into(),
            self.fd.map_or(DeletedRecord::NO_FD, u64::from),
            u64::from(self.dev.major) << 32 | u64::from(self.dev.minor),
            self.ino,
            self.blocks,
            self.owner.into(),
            self.ctime.sec.cast_unsigned(),
            self.ctime.nsec.into(),
        ];
        head.into_iter().chain(path).collect()
    }

    /// Decodes the first record, and advances `words` past it.
    fn parse(words: &mut &[u64]) -> Option<DeletedRecord> {
        let (head, rest) = words.split_first_chunk::<{ DeletedRecord::HEAD }>()?;
        let [len, pid, fd, dev, ino, blocks, owner, sec, nsec] = *head;
        let len = usize::try_from(len).ok()?;
        let (path, rest) = rest.split_at_checked(len.div_ceil(8))?;
        *words = rest;
        let mut path: Vec<u8> = path.iter().flat_map(|word| word.to_ne_bytes()).collect();
        path.truncate(len);
        Some(DeletedRecord {
            pid: pid as u32,
            fd: (fd != DeletedRecord::NO_FD).then_some(fd as u32),
            dev: Dev::new((dev >> 32) as u32, dev as u32),
            ino,
            blocks,
            owner: owner as u32,
            ctime: Time::new(sec.cast_signed(), nsec as u32),
            path,
        })
    }
}

/// Memory that the searching child process shares: its position, its system calls, and the files
/// found.
struct ScanProgress {
    words: SharedWords,
}

impl ScanProgress {
    /// Size of the buffer for records of deleted files, in words of 64 bits. Files that do not fit
    /// are not accounted for.
    const RECORDS: usize = 512 << 10;
    const TALLY: usize = 3;
    const HEAD: usize = ScanProgress::TALLY + Tally::WORDS;
    const WORDS: usize = ScanProgress::HEAD + ScanProgress::RECORDS;

    /// Number of processes that the last child has begun to examine.
    fn at(&self) -> usize {
        self.words[0].load(Relaxed) as usize
    }

    /// The length of the records in words.
    fn used(&self) -> &AtomicU64 {
        &self.words[1]
    }

    fn unreadable(&self) -> &AtomicU64 {
        &self.words[2]
    }

    fn tally(&self) -> &[AtomicU64] {
        &self.words[ScanProgress::TALLY..ScanProgress::HEAD]
    }

    fn put(&self, found: &DeletedRecord) {
        let words = found.to_words();
        let used = self.used().load(Relaxed) as usize;
        if let Some(room) = self.words[ScanProgress::HEAD..].get(used..used + words.len()) {
            room.iter()
                .zip(&words)
                .for_each(|(to, word)| to.store(*word, Relaxed));
            self.used().store((used + words.len()) as u64, Release);
        }
    }

    fn records(&self) -> impl Iterator<Item = DeletedRecord> {
        let used = self.used().load(Acquire) as usize;
        let words = self.words[ScanProgress::HEAD..].iter().take(used);
        let words: Vec<u64> = words.map(|word| word.load(Relaxed)).collect();
        let mut at = 0;
        std::iter::from_fn(move || {
            let mut rest = words.get(at..)?;
            let found = DeletedRecord::parse(&mut rest)?;
            at = words.len() - rest.len();
            Some(found)
        })
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
        DeletedFile {
            item: Item {
                path: Some(found.path),
                ino: Some(found.ino),
                owner: Some(found.owner),
                since: Some(found.ctime),
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
            self.board.put(&DeletedRecord {
                pid,
                fd: fd.filter(|_| found.file_type == FileType::Regular),
                dev: found.dev,
                ino: found.ino,
                blocks: found.blocks,
                owner: found.uid,
                ctime: found.ctime,
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
    fn records_are_passed_on_in_words() {
        let found = |path: &[u8]| DeletedRecord {
            pid: 7,
            fd: (!path.is_empty()).then_some(u32::MAX),
            dev: Dev::new(0xfd, 0x12_3456),
            ino: u64::MAX,
            blocks: 8,
            owner: 1000,
            ctime: Time::new(-1, 999),
            path: path.to_vec(),
        };
        let board = ScanProgress {
            words: SharedWords::new(ScanProgress::WORDS).unwrap(),
        };
        let all = [
            found(b""),
            found(b"/a\xffb"),
            found(b"12345678"),
            found(&[b'x'; 99]),
        ];
        all.iter().for_each(|found| board.put(found));
        assert!(board.records().eq(all));
        // A record that does not fit is dropped.
        board.put(&found(&vec![b'y'; ScanProgress::RECORDS * 8]));
        assert_eq!(board.records().count(), 4);
        assert_eq!(DeletedRecord::parse(&mut &[u64::MAX; 9][..]), None);
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
