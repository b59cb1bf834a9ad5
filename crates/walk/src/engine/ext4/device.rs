//! The device of an ext4 file system, and the commits of its journal.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gate::file::read_full_at;
use gate::fs::{Advice, CWD, Open, fadvise64, openat, read};
use gate::long::c_string;
use gate::{Errno, Fd};
use mounts::names::{UnopenedDevice, kernel_name, open_device};
use ondisk::ext4::{Error, Group, Superblock, group, superblock};
use ondisk::{Dev, Mount, split_options};

use crate::error::{EngineAction, EngineRefusal};

#[derive(Debug)]
pub(super) struct Device {
    fd: Fd,
    pub(super) superblock: Superblock,
    /// By block group: its descriptor; `None` if that is invalid, so that inodes of the group are
    /// read with statx(2).
    groups: Vec<Option<Group>>,
    /// Number of fast reads until the page cache counts as warm; while above 0, it counts as cold,
    /// and readahead is used.
    cold: AtomicU32,
}

/// Readahead distance in the inode tables with a cold cache, in bytes.
const AHEAD: u64 = 4 << 20;

impl Device {
    /// Opens the device `dev` of a mount, and reads the superblock.
    pub(super) fn open(dev: Dev, mount: &Mount) -> Result<Device, EngineRefusal> {
        let mut options = split_options(&mount.content.options);
        if options.any(|option| option == b"nouid32") {
            return Err(EngineRefusal::Nouid32);
        }
        // The ext2 driver does not cache directories in the page cache of the block device.
        let is_ext4 = mount.content.fstype != b"ext2"
            || kernel_name(dev).is_some_and(|name| is_driven_by_ext4(&name));
        if !is_ext4 {
            return Err(EngineRefusal::Ext2Driver);
        }
        let (fd, name) = find(dev, mount)?;
        Device::on(fd, name)
    }

    pub(super) fn on(fd: Fd, name: String) -> Result<Device, EngineRefusal> {
        Ok(Device {
            superblock: read_superblock(&fd, name)?,
            fd,
            groups: Vec::new(),
            cold: AtomicU32::new(0),
        })
    }

    pub(super) fn read_groups(&mut self) -> Result<(), Errno> {
        let superblock = &self.superblock;
        let size = superblock.descriptor_size as usize;
        let mut block = vec![0; superblock.block_size as usize];
        for nth in 0..superblock.descriptor_blocks() {
            let place = superblock.descriptor_block(nth).ok_or(Errno::EUCLEAN)?;
            read_whole(
                &self.fd,
                place * u64::from(superblock.block_size),
                &mut block,
            )?;
            for descriptor in block.chunks_exact(size) {
                let next = self.groups.len() as u32;
                if next == superblock.groups {
                    break;
                }
                self.groups.push(group::parse(superblock, next, descriptor));
            }
        }
        Ok(())
    }

    /// Byte offset of an inode on the device. `None` if it was never used, or its group is invalid.
    pub(super) fn place_of(&self, inode: u32) -> Option<u64> {
        let per_group = self.superblock.inodes_per_group;
        let index = inode.checked_sub(1)?;
        let group = (*self.groups.get((index / per_group) as usize)?)?;
        let nth = index % per_group;
        (nth < group.used)
            .then(|| group.table + u64::from(nth) * u64::from(self.superblock.inode_size))
    }

    /// Reads rows of the inode tables; a row's number is the inode number minus 1. Rows that were
    /// never used, or cannot be read, are filled with zeros, which parse as no inode.
    pub(super) fn read_rows(&self, rows: Range<u32>, buffer: &mut Vec<u8>) {
        let per_group = self.superblock.inodes_per_group;
        let size = self.superblock.inode_size as usize;
        buffer.resize(rows.len() * size, 0);
        let mut at = rows.start;
        while at < rows.end {
            let end = (at / per_group + 1).saturating_mul(per_group).min(rows.end);
            let [from, to] = [at, end].map(|row| (row - rows.start) as usize * size);
            let piece = &mut buffer[from..to];
            let group = self
                .groups
                .get((at / per_group) as usize)
                .copied()
                .flatten();
            let used = group.map_or(0, |group| group.used);
            let used = used.saturating_sub(at % per_group).min(end - at) as usize * size;
            let (used, unused) = piece.split_at_mut(used);
            unused.fill(0);
            if let Some(place) = self.place_of(at + 1).filter(|_| !used.is_empty()) {
                if self.is_cold() {
                    self.will_need(place + AHEAD, used.len() as u64);
                }
                if self.read(place, used).is_err() {
                    used.fill(0);
                }
            }
            at = end;
        }
    }

    /// Fills a buffer from the device. `EIO` also means that the device is too short.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        /// Maximum duration of a read from the page cache, besides the time of copying the bytes.
        const START: Duration = Duration::from_micros(60);
        const BYTES_PER_MICROSECOND: usize = 1000;
        /// Number of fast reads after a slow one until the cache counts as warm again.
        const PATIENCE: u32 = 64;
        let copying = Duration::from_micros((buffer.len() / BYTES_PER_MICROSECOND) as u64);
        let begun = Instant::now();
        let done = read_whole(&self.fd, at, buffer);
        if begun.elapsed() > START + copying {
            self.cold.store(PATIENCE, Relaxed);
        } else if self.is_cold() {
            let less = |left: u32| left.checked_sub(1);
            let _ = self.cold.fetch_update(Relaxed, Relaxed, less);
        }
        done
    }

    /// Whether reads came from a disk recently, so that readahead helps.
    pub(super) fn is_cold(&self) -> bool {
        self.cold.load(Relaxed) > 0
    }

    pub(super) fn will_need(&self, at: u64, length: u64) {
        let _ = fadvise64(&self.fd, at, length, Advice::WillNeed);
    }
}

/// Fails if this process is in a user namespace that maps user or group ids, or if that is unknown:
/// the device has the ids without mapping, so they would differ from those of statx(2).
pub(super) fn sees_ids_as_stored() -> Result<(), EngineRefusal> {
    for (map, name) in [
        (c"/proc/self/uid_map", "/proc/self/uid_map"),
        (c"/proc/self/gid_map", "/proc/self/gid_map"),
    ] {
        let text = slurp(map).ok_or(EngineRefusal::UnreadableIdMap(name))?;
        let words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        if !words.eq([&b"0"[..], b"0", b"4294967295"]) {
            return Err(EngineRefusal::UserNamespace);
        }
    }
    Ok(())
}

/// The number of transactions that the journal of the ext4 file system on a device has committed:
/// as long as it stays the same, also after a syncfs(2), nothing in the file system has changed.
/// `None` without an internal journal, and while a commit takes long.
///
/// A commit wakes the callers of syncfs(2) before it is counted. It has been counted when the
/// thread of the journal sleeps again (S); during a commit the thread runs, or waits for the disk
/// (D).
pub fn journal_transactions(dev: Dev) -> Option<u64> {
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_micros(200);
    let name = kernel_name(dev)?;
    let read = |parts: [&[u8]; 3]| slurp(&c_string(&parts.concat()).ok()?);
    let task = read([b"/sys/fs/ext4/", &name, b"/journal_task"])?;
    let thread = thread(&task)?;
    let is_asleep = || Some(state(&read([b"/proc/", thread, b"/stat"])?)? == b'S');
    let mut tries = 0;
    while !is_asleep()? {
        tries += 1;
        if tries > TRIES {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    let info = read([b"/proc/fs/jbd2/", &name, b"-8/info"])?;
    let digits = info.split(|b| !b.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Parses /sys/fs/ext4/*/journal_task: the id of the journal's thread; `<none>` without a journal.
fn thread(task: &[u8]) -> Option<&[u8]> {
    Some(task.trim_ascii()).filter(|id| !id.is_empty() && id.iter().all(u8::is_ascii_digit))
}

/// Parses /proc/PID/stat: the state of a process follows the last parenthesis.
fn state(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&b| b == b')')?;
    stat[end + 1..].trim_ascii_start().first().copied()
}

fn is_driven_by_ext4(kernel_name: &[u8]) -> bool {
    let sys = c_string(&[b"/sys/fs/ext4/", kernel_name].concat());
    sys.is_ok_and(|sys| openat(CWD, &sys, Open::PATH).is_ok())
}

/// Opens the device of a mount.
fn find(dev: Dev, mount: &Mount) -> Result<(Fd, String), EngineRefusal> {
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    match open_device(dev, mount.content.source.as_deref()) {
        Ok((fd, path)) => Ok((fd, shown(&path))),
        Err(Some(UnopenedDevice { path, errno })) => {
            Err(EngineAction::OpenDevice(shown(&path)).failed(errno))
        }
        Err(None) => Err(EngineRefusal::NoDevice(dev)),
    }
}

/// Reads the superblock of the device `name`. The kernel may be writing it, so a superblock with a
/// wrong checksum is read again.
///
/// # Errors
/// The device cannot be read; its superblock is invalid, or of an unsupported file system.
pub fn read_superblock(device: &Fd, name: String) -> Result<Superblock, EngineRefusal> {
    let mut bytes = [0; superblock::LENGTH];
    let mut tries = 3;
    loop {
        let read = read_whole(device, superblock::OFFSET, &mut bytes);
        read.map_err(|e| EngineAction::ReadDevice(name.clone()).failed(e))?;
        tries -= 1;
        match Superblock::parse(&bytes) {
            Err(Error::SuperblockChecksum) if tries > 0 => {
                std::thread::sleep(Duration::from_millis(1))
            }
            parsed => return parsed.map_err(EngineRefusal::Superblock),
        }
    }
}

fn read_whole(fd: &Fd, at: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let is_whole = read_full_at(fd, at, buffer)? == buffer.len();
    is_whole.then_some(()).ok_or(Errno::EIO)
}

fn slurp(path: &std::ffi::CStr) -> Option<Vec<u8>> {
    let file = openat(CWD, path, Open::NONBLOCK).ok()?;
    let mut text = vec![0; 256];
    let n = read(&file, &mut text).ok()?;
    text.truncate(n);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_id_of_a_journal() {
        assert_eq!(thread(b"841\n"), Some(&b"841"[..]));
        assert_eq!((thread(b"<none>\n"), thread(b"\n")), (None, None));
    }

    #[test]
    fn state_of_a_thread() {
        assert_eq!(state(b"841 (jbd2/a) S-8) S 2 0"), Some(b'S'));
        assert_eq!(state(b"841 (jbd2/vda-8) D 2 0"), Some(b'D'));
        assert_eq!(state(b"841"), None);
        assert_eq!(state(b""), None);
    }
}
