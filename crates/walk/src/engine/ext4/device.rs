//! The device below an ext4 file system: found, opened, read.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gate::fs::{
    Advice, At, CWD, FileType, Open, Want, fadvise64, openat, pread64, read, readlinkat, statx,
};
use gate::long::c_string;
use gate::{Errno, Fd};
use ondisk::ext4::{Error, Group, Superblock, group, superblock};
use ondisk::{Dev, Mount, split_options};

use crate::error::{EngineAction, EngineRefusal};

/// The device of a mounted ext4 file system.
#[derive(Debug)]
pub(super) struct Device {
    fd: Fd,
    pub(super) superblock: Superblock,
    /// `None` for a group whose descriptor cannot be right: the kernel is asked about its inodes.
    groups: Vec<Option<Group>>,
    /// How many of the next reads are taken to be from a disk and not from memory.
    cold: AtomicU32,
}

/// How far the kernel reads ahead of the rows, where it does not do so by itself.
const AHEAD: u64 = 4 << 20;

impl Device {
    /// Opens the device with number `dev`, on which the mount's files are, and reads the
    /// superblock.
    ///
    /// # Errors
    /// Why its tables cannot be read.
    pub(super) fn open(dev: Dev, mount: &Mount) -> Result<Device, EngineRefusal> {
        let mut options = split_options(&mount.content.options);
        if options.any(|option| option == b"nouid32") {
            return Err(EngineRefusal::Nouid32);
        }
        // Another driver keeps directories where the device's cache does not show them.
        let is_ext4 = mount.content.fstype != b"ext2"
            || kernel_name(dev).is_some_and(|name| is_driven_by_ext4(&name));
        if !is_ext4 {
            return Err(EngineRefusal::Ext2Driver);
        }
        let (fd, name) = find(dev, mount)?;
        let mut bytes = [0; superblock::LENGTH];
        let mut tries = 3;
        let superblock = loop {
            let read = read_whole(&fd, superblock::OFFSET, &mut bytes);
            read.map_err(|e| EngineAction::ReadDevice(name.clone()).failed(e))?;
            tries -= 1;
            match Superblock::parse(&bytes) {
                Ok(superblock) => break superblock,
                Err(Error::SuperblockChecksum) if tries > 0 => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                Err(error) => return Err(EngineRefusal::Superblock(error)),
            }
        };
        Ok(Device {
            fd,
            superblock,
            groups: Vec::new(),
            cold: AtomicU32::new(0),
        })
    }

    /// Reads the group descriptors.
    ///
    /// # Errors
    /// Those of pread(2).
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

    /// Where an inode lies, in bytes from the device's start. `None` where its group says that it
    /// was never used, or says nothing that can be right.
    pub(super) fn place_of(&self, inode: u32) -> Option<u64> {
        let per_group = self.superblock.inodes_per_group;
        let index = inode.checked_sub(1)?;
        let group = (*self.groups.get((index / per_group) as usize)?)?;
        let nth = index % per_group;
        (nth < group.used)
            .then(|| group.table + u64::from(nth) * u64::from(self.superblock.inode_size))
    }

    /// Reads rows of the inode tables, by number less one. What cannot be read, or was never used,
    /// comes as zeroes, which are no inode.
    pub(super) fn read_rows(&self, rows: Range<u32>, buffer: &mut Vec<u8>) {
        let (per_group, size) = (
            self.superblock.inodes_per_group,
            self.superblock.inode_size as usize,
        );
        buffer.resize(rows.len() * size, 0);
        let mut at = rows.start;
        while at < rows.end {
            let end = (at / per_group + 1).saturating_mul(per_group).min(rows.end);
            let piece =
                &mut buffer[(at - rows.start) as usize * size..(end - rows.start) as usize * size];
            let used = self
                .groups
                .get((at / per_group) as usize)
                .copied()
                .flatten()
                .map_or(0, |group| group.used);
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

    /// Fills a buffer.
    ///
    /// # Errors
    /// Those of pread(2); `EIO` where the device ends.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        /// How long a read from memory takes at most.
        const START: Duration = Duration::from_micros(60);
        const BYTES_PER_MICROSECOND: usize = 1000;
        /// Reads before it is believed that all is in memory after all.
        const PATIENCE: u32 = 64;
        let begun = Instant::now();
        let done = read_whole(&self.fd, at, buffer);
        if begun.elapsed()
            > START + Duration::from_micros((buffer.len() / BYTES_PER_MICROSECOND) as u64)
        {
            self.cold.store(PATIENCE, Relaxed);
        } else if self.is_cold() {
            let _ = self
                .cold
                .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        }
        done
    }

    /// Whether reads have come from a disk lately, so that it is worth its while to say beforehand
    /// what will be read.
    pub(super) fn is_cold(&self) -> bool {
        self.cold.load(Relaxed) > 0
    }

    /// Has the kernel begin to read; what comes of it is seen when it is read.
    pub(super) fn will_need(&self, at: u64, length: u64) {
        let _ = fadvise64(&self.fd, at, length, Advice::WillNeed);
    }
}

/// Whether the ids of this process are those that are stored: it is in no user namespace that shows
/// others.
///
/// # Errors
/// That it is, or that nothing says so.
pub(super) fn sees_ids_as_stored() -> Result<(), EngineRefusal> {
    for (map, name) in [
        (c"/proc/self/uid_map", "/proc/self/uid_map"),
        (c"/proc/self/gid_map", "/proc/self/gid_map"),
    ] {
        let text = slurp(map).ok_or(EngineRefusal::UnreadableIdMap(name))?;
        if !text
            .split(|b| b.is_ascii_whitespace())
            .filter(|word| !word.is_empty())
            .eq([&b"0"[..], b"0", b"4294967295"])
        {
            return Err(EngineRefusal::UserNamespace);
        }
    }
    Ok(())
}

/// Transactions that the journal of the ext4 file system on a device has committed: as long as it
/// does not change, and syncfs(2) does not change it, nothing in the file system has changed.
/// `None` without a journal in the file system itself, and where one is being committed for long.
///
/// A commit wakes those who wait for it in syncfs(2), and then counts itself. It has when its
/// thread sleeps again, waiting for work (S); within a commit the thread runs, or waits for the
/// disk (D).
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

/// The id of the thread that commits, from /sys/fs/ext4/*/journal_task; without a journal that says
/// `<none>`.
fn thread(task: &[u8]) -> Option<&[u8]> {
    Some(task.trim_ascii()).filter(|id| !id.is_empty() && id.iter().all(u8::is_ascii_digit))
}

/// The state of a process, from its /proc/PID/stat: it follows the last parenthesis.
fn state(stat: &[u8]) -> Option<u8> {
    stat.rsplit(|&b| b == b')')
        .next()
        .filter(|rest| rest.len() < stat.len())?
        .trim_ascii_start()
        .first()
        .copied()
}

/// What the kernel calls a device, with `!` for slashes: `sda1`, `dm-0`.
fn kernel_name(dev: Dev) -> Option<Vec<u8>> {
    let link = readlinkat(
        CWD,
        &c_string(format!("/sys/dev/block/{dev}").as_bytes()).ok()?,
    )
    .ok()?;
    link.rsplit(|&b| b == b'/').next().map(<[u8]>::to_vec)
}

fn is_driven_by_ext4(kernel_name: &[u8]) -> bool {
    let sys = c_string(&[b"/sys/fs/ext4/", kernel_name].concat());
    sys.is_ok_and(|sys| openat(CWD, &sys, Open::PATH).is_ok())
}

/// Opens a device by any of its names.
fn find(dev: Dev, mount: &Mount) -> Result<(Fd, String), EngineRefusal> {
    let mut names = Vec::new();
    names.extend(
        mount
            .content
            .source
            .clone()
            .filter(|source| source.starts_with(b"/")),
    );
    names.extend(kernel_name(dev).map(|name| {
        let name: Vec<u8> = name
            .iter()
            .map(|&b| if b == b'!' { b'/' } else { b })
            .collect();
        [b"/dev/", &name[..]].concat()
    }));
    names.push(format!("/dev/block/{dev}").into_bytes());
    let mut refusal = EngineRefusal::NoDevice(dev);
    for name in names {
        let Ok(path) = c_string(&name) else { continue };
        let is_it = |s: gate::fs::Statx| s.file_type == FileType::Block && Dev::from(s.rdev) == dev;
        if !statx(CWD, &path, At::NO_AUTOMOUNT, Want::TYPE).is_ok_and(is_it) {
            continue;
        }
        let shown = String::from_utf8_lossy(&name).into_owned();
        match openat(CWD, &path, Open::NONBLOCK) {
            // Whatever has come to have that name meanwhile is not it.
            Ok(fd) if statx(&fd, c"", At::EMPTY_PATH, Want::TYPE).is_ok_and(is_it) => {
                return Ok((fd, shown));
            }
            Ok(_) => {}
            Err(e) => refusal = EngineAction::OpenDevice(shown).failed(e),
        }
    }
    Err(refusal)
}

fn read_whole(fd: impl AsFd, at: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match pread64(&fd, &mut buffer[done..], at + done as u64)? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    Ok(())
}

/// The beginning of a small file.
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
    fn the_thread_of_a_journal() {
        assert_eq!(thread(b"841\n"), Some(&b"841"[..]));
        assert_eq!((thread(b"<none>\n"), thread(b"\n")), (None, None));
    }

    #[test]
    fn the_state_of_a_thread() {
        assert_eq!(state(b"841 (jbd2/a) S-8) S 2 0"), Some(b'S'));
        assert_eq!(state(b"841 (jbd2/vda-8) D 2 0"), Some(b'D'));
        assert_eq!(state(b"841"), None);
        assert_eq!(state(b""), None);
    }
}
