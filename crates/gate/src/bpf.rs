//! BPF: maps, programs that the kernel has verified, and raw tracepoints, by
//! [bpf(2)](https://man7.org/linux/man-pages/man2/bpf.2.html) and nothing else.
//!
//! A program is a row of instructions, 64 bits each; who assembles them is not of interest here,
//! since the kernel verifies them. Everything here lives by its descriptors: when the process ends,
//! however it ends, the kernel takes programs, maps and attachments away. None of it is file-system
//! work, so none of it is counted (but closing is).

use std::ffi::CStr;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{c_long, syscall};

use crate::errno::check;
use crate::{Errno, Fd, Result};

/// The kinds of maps that are used here: `BPF_MAP_TYPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any key; room for all entries is set aside when it is made.
    Hash,
    /// Keys are 0, 1, ...; entries are always there, and user space can map them ([`Map::words`]).
    /// Values are of whole words.
    Array,
    /// The same, but user space cannot map them, and reads them one by one.
    Entries,
    /// An array with one copy for each processor; of no use outside programs.
    PercpuArray,
}

/// A map: what programs and user space share.
#[derive(Debug)]
pub struct Map {
    fd: Fd,
    kind: Kind,
    key: usize,
    value: usize,
    entries: u32,
}

// Each is the part of `union bpf_attr` that its command reads. Further fields are 0 to the kernel.

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct Element {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Batch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

#[repr(C)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

#[repr(C)]
struct InfoByFd {
    fd: u32,
    len: u32,
    info: u64,
}

const MAP_CREATE: c_long = 0;
const MAP_LOOKUP_ELEM: c_long = 1;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const OBJ_GET_INFO_BY_FD: c_long = 15;
const RAW_TRACEPOINT_OPEN: c_long = 17;
const MAP_LOOKUP_BATCH: c_long = 24;
const MAP_DELETE_BATCH: c_long = 27;

/// One bpf(2).
///
/// # Safety
/// `attr` must be what `command` reads, and the addresses in it must be those of memory that the
/// kernel may read or write as the command does.
unsafe fn bpf<T>(command: c_long, attr: &mut T) -> Result<usize> {
    // SAFETY: as the caller promises; the kernel reads and writes at most `size_of::<T>()` bytes of
    // `attr`.
    check(unsafe {
        syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attr),
            size_of::<T>(),
        )
    })
}

fn raw(fd: impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd() as u32
}

/// A name as the kernel shows it: 15 bytes of it, and a NUL.
fn short(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

impl Map {
    /// Makes a map; `name` is shown by bpftool, 15 letters, digits and underscores of it.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` (before Linux 5.11 also when too little memory may be locked);
    /// `EINVAL` for sizes that the kind cannot have, `E2BIG` and `ENOMEM` for those that are too
    /// large.
    pub fn new(kind: Kind, name: &str, key: usize, value: usize, entries: u32) -> Result<Map> {
        const MMAPABLE: u32 = 1 << 10;
        let (map_type, map_flags) = match kind {
            Kind::Hash => (1, 0),
            Kind::Array => (2, MMAPABLE),
            Kind::Entries => (2, 0),
            Kind::PercpuArray => (6, 0),
        };
        if kind == Kind::Array && !value.is_multiple_of(size_of::<u64>()) {
            return Err(Errno::EINVAL);
        }
        let size = |bytes| u32::try_from(bytes).map_err(|_| Errno::E2BIG);
        let fd = create(map_type, map_flags, name, size(key)?, size(value)?, entries)?;
        Ok(Map {
            fd,
            kind,
            key,
            value,
            entries,
        })
    }

    /// How many entries it holds at most.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Writes an entry, a new one or in the place of one.
    ///
    /// # Errors
    /// `E2BIG`: the map is full. `EINVAL`: key or value are not of the map's size.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() != self.key || value.len() != self.value || self.kind == Kind::PercpuArray {
            return Err(Errno::EINVAL);
        }
        let (key, value) = (key.as_ptr() as u64, value.as_ptr() as u64);
        let mut attr = Element {
            map_fd: raw(&self.fd),
            pad: 0,
            key,
            value,
            flags: 0,
        };
        // SAFETY: the kernel reads a key and a value of the sizes that were compared above.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Reads the entry of a key into `value`.
    ///
    /// # Errors
    /// `ENOENT`: there is none. `EINVAL`: key or value are not of the map's size.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        if key.len() != self.key || value.len() != self.value || self.kind == Kind::PercpuArray {
            return Err(Errno::EINVAL);
        }
        let (key, value) = (key.as_ptr() as u64, value.as_mut_ptr() as u64);
        let mut attr = Element {
            map_fd: raw(&self.fd),
            pad: 0,
            key,
            value,
            flags: 0,
        };
        // SAFETY: the kernel reads a key and writes a value of the sizes that were compared above.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut attr) }.map(drop)
    }

    /// Shows every entry of a hash, key and value. An entry that stays all the while is shown once;
    /// whether one that comes or goes meanwhile is shown is open.
    ///
    /// # Errors
    /// Those of `BPF_MAP_LOOKUP_BATCH` (since Linux 5.6).
    pub fn each(&self, mut show: impl FnMut(&[u8], &[u8])) -> Result<()> {
        const ENOUGH: usize = 1024;
        if self.kind != Kind::Hash {
            return Err(Errno::EINVAL);
        }
        let mut room = ENOUGH.min(self.entries.max(1) as usize);
        let (mut keys, mut values) = (vec![0u8; self.key * room], vec![0u8; self.value * room]);
        // A hash's place is a u32; the kernel may want room for a whole key.
        let mut place = vec![0u8; self.key.max(8)];
        let mut next = place.clone();
        let mut begun = false;
        loop {
            let mut attr = Batch {
                in_batch: if begun { place.as_ptr() as u64 } else { 0 },
                out_batch: next.as_mut_ptr() as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: room as u32,
                map_fd: raw(&self.fd),
                ..Batch::default()
            };
            // SAFETY: `keys` and `values` have room for `count` of the map's keys and values, and
            // the places for one key.
            let done = unsafe { bpf(MAP_LOOKUP_BATCH, &mut attr) };
            match done {
                // More entries fall together in the hash than there is room for.
                Err(Errno::ENOSPC) if room <= self.entries as usize => {
                    room *= 2;
                    (keys, values) = (vec![0; self.key * room], vec![0; self.value * room]);
                    continue;
                }
                Err(Errno::EINTR) => continue,
                Ok(_) | Err(Errno::ENOENT) => (),
                Err(errno) => return Err(errno),
            }
            for (key, value) in keys
                .chunks_exact(self.key)
                .zip(values.chunks_exact(self.value))
                .take((attr.count as usize).min(room))
            {
                show(key, value);
            }
            if done.is_err() {
                return Ok(());
            }
            begun = true;
            std::mem::swap(&mut place, &mut next);
        }
    }

    /// Takes entries away: `keys` are whole keys, one after the other. One that is not there is no
    /// error.
    ///
    /// # Errors
    /// `EINVAL` when they are no whole keys.
    pub fn delete(&self, mut keys: &[u8]) -> Result<()> {
        if self.key == 0 || !keys.len().is_multiple_of(self.key) {
            return Err(Errno::EINVAL);
        }
        while !keys.is_empty() {
            let count = u32::try_from(keys.len() / self.key).unwrap_or(u32::MAX);
            let mut attr = Batch {
                keys: keys.as_ptr() as u64,
                count,
                map_fd: raw(&self.fd),
                ..Batch::default()
            };
            // SAFETY: the kernel reads at most `count` keys of the map's size.
            let done = unsafe { bpf(MAP_DELETE_BATCH, &mut attr) };
            let gone = (attr.count as usize).min(keys.len() / self.key);
            match done {
                Ok(_) => keys = &keys[gone * self.key..],
                Err(Errno::ENOENT) => keys = keys.get((gone + 1) * self.key..).unwrap_or_default(),
                Err(Errno::EINTR) => (),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Maps the values of an array into memory: whole words that programs and this process both see
    /// at once.
    ///
    /// # Errors
    /// `EINVAL` for another kind of map; those of mmap(2).
    pub fn words(&self) -> Result<Words> {
        if self.kind != Kind::Array {
            return Err(Errno::EINVAL);
        }
        let len = self.value * self.entries as usize / size_of::<u64>();
        let area = Area::map(&self.fd, 0, len * size_of::<u64>(), Access::Write)?;
        Ok(Words { area, len })
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn create(
    map_type: u32,
    map_flags: u32,
    name: &str,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
) -> Result<Fd> {
    let map_name = short(name);
    let mut attr = MapCreate {
        map_type,
        key_size,
        value_size,
        max_entries,
        map_flags,
        map_name,
        ..MapCreate::default()
    };
    // SAFETY: there are no addresses in it.
    unsafe { bpf(MAP_CREATE, &mut attr) }.map(Fd::take)
}

/// Memory that is mapped from a descriptor, as long as this lives.
#[derive(Debug)]
pub(crate) struct Area {
    at: *mut u8,
    len: usize,
}

// SAFETY: a mapping is the process's, and it is all the same which of its threads uses it and takes
// it away.
unsafe impl Send for Area {}

/// What it is mapped for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// To see what others write.
    Read,
    /// To write, and see what others write.
    Write,
    /// To read what nobody writes.
    Fixed,
}

impl Area {
    pub(crate) fn map(fd: impl AsFd, offset: usize, len: usize, access: Access) -> Result<Area> {
        let (protection, sharing) = match access {
            Access::Read => (libc::PROT_READ, libc::MAP_SHARED),
            Access::Write => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED),
            Access::Fixed => (libc::PROT_READ, libc::MAP_PRIVATE),
        };
        let (fd, offset) = (fd.as_fd().as_raw_fd(), offset as libc::off_t);
        // SAFETY: a fresh mapping, wherever the kernel likes, touches no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, sharing, fd, offset) };
        if at == libc::MAP_FAILED {
            Err(Errno::last())
        } else {
            Ok(Area { at: at.cast(), len })
        }
    }

    /// The word at an offset of whole words; `None` beyond the end.
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let inside = offset.checked_add(size_of::<u64>())? <= self.len
            && offset.is_multiple_of(size_of::<u64>());
        // SAFETY: inside of the mapping, which begins on a page, aligned, and alive as long as
        // `self`.
        inside.then(|| unsafe { &*self.at.add(offset).cast::<AtomicU64>() })
    }

    /// The half word at such an offset.
    fn half(&self, offset: usize) -> Option<&AtomicU32> {
        let inside = offset.checked_add(size_of::<u32>())? <= self.len
            && offset.is_multiple_of(size_of::<u32>());
        // SAFETY: as above.
        inside.then(|| unsafe { &*self.at.add(offset).cast::<AtomicU32>() })
    }

    /// Bytes of it; `None` unless all are inside.
    ///
    /// # Safety
    /// Nobody may write these bytes while the slice lives.
    pub(crate) unsafe fn bytes(&self, from: usize, len: usize) -> Option<&[u8]> {
        let inside = from.checked_add(len)? <= self.len;
        // SAFETY: inside of the mapping, and nobody writes there, as the caller promises.
        inside.then(|| unsafe { std::slice::from_raw_parts(self.at.add(from), len) })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length; no borrow outlives `self`.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// What the kernel says of its own types (BTF), as it has it in memory itself: some megabytes,
/// which nobody need copy.
#[derive(Debug)]
pub struct Types(Area);

impl Types {
    /// Maps `len` bytes, which is all of it, of the open file /sys/kernel/btf/vmlinux.
    ///
    /// # Errors
    /// `ENODEV` before Linux 6.16: it can be read all the same.
    pub fn map(file: impl AsFd, len: usize) -> Result<Types> {
        Area::map(file, 0, len, Access::Fixed).map(Types)
    }
}

impl Deref for Types {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel wrote it when it was built, and nobody has since.
        unsafe { self.0.bytes(0, self.0.len) }.unwrap_or_default()
    }
}

/// The values of an array, see [`Map::words`].
#[derive(Debug)]
pub struct Words {
    area: Area,
    len: usize,
}

impl Deref for Words {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `len` aligned words, any bits are a value, and it lives as long
        // as `self`.
        unsafe { std::slice::from_raw_parts(self.area.at.cast(), self.len) }
    }
}

/// Bytes in a page of memory.
pub(crate) fn page() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A ring buffer: what programs output to user space, in the order in which they did.
/// `BPF_MAP_TYPE_RINGBUF` (since Linux 5.8)
#[derive(Debug)]
pub struct Ring {
    fd: Fd,
    /// How far user space has come; the one page that it may write.
    consumer: Area,
    /// How far the programs have come, and after that page the data.
    data: Area,
    page: usize,
    size: usize,
    /// For what goes beyond the end of the data and continues at their beginning.
    whole: Vec<u8>,
}

/// What is before each record in a ring: its length with two flags, and a number of the kernel's.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

impl Ring {
    /// Makes one of `size` bytes: a power of two, and whole pages.
    ///
    /// # Errors
    /// As of [`Map::new`]; `EINVAL` before Linux 5.8.
    pub fn new(name: &str, size: u32) -> Result<Ring> {
        const RINGBUF: u32 = 27;
        let fd = create(RINGBUF, 0, name, 0, 0, size)?;
        let (page, size) = (page(), size as usize);
        let consumer = Area::map(&fd, 0, page, Access::Write)?;
        // The kernel would map the data twice in a row, so that nothing had to be put together; in
        // return they would count twice as this process's memory.
        let data = Area::map(&fd, page, page + size, Access::Read)?;
        Ok(Ring {
            fd,
            consumer,
            data,
            page,
            size,
            whole: Vec::new(),
        })
    }

    /// Shows every record that is there now; gives how many.
    pub fn drain(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let (Some(consumer), Some(producer)) = (self.consumer.word(0), self.data.word(0)) else {
            return 0;
        };
        let end = producer.load(Ordering::Acquire);
        let mut at = consumer.load(Ordering::Relaxed);
        let mut given_back = at;
        let mut shown = 0;
        while at < end {
            let offset = at as usize & (self.size - 1);
            let Some(header) = self
                .data
                .half(self.page + offset)
                .map(|len| len.load(Ordering::Acquire))
            else {
                break;
            };
            let len = (header & !(BUSY | DISCARDED)) as usize;
            if header & BUSY != 0 || len > self.size - HEADER {
                break;
            }
            if header & DISCARDED == 0 {
                let from = (offset + HEADER) & (self.size - 1);
                let first = len.min(self.size - from);
                // SAFETY: the record is complete; no program writes there before `consumer` says
                // that it has been read.
                let (first, rest) = unsafe {
                    (
                        self.data.bytes(self.page + from, first),
                        self.data.bytes(self.page, len - first),
                    )
                };
                match (first, rest) {
                    (Some(first), Some([])) => show(first),
                    (Some(first), Some(rest)) => {
                        self.whole.clear();
                        self.whole.extend_from_slice(first);
                        self.whole.extend_from_slice(rest);
                        show(&self.whole);
                    }
                    _ => break,
                }
                shown += 1;
            }
            at += (HEADER + len).next_multiple_of(8) as u64;
            // Programs look there for each record: what is written for each would go back and forth
            // between processors.
            if at - given_back > self.size as u64 / 16 {
                consumer.store(at, Ordering::Release);
                given_back = at;
            }
        }
        consumer.store(at, Ordering::Release);
        shown
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// A program that the kernel has taken.
#[derive(Debug)]
pub struct Program {
    fd: Fd,
}

/// Why the kernel did not load a program.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{errno}; {log}")]
pub struct LoadError {
    /// The error number: `EPERM` without the privilege, `EINVAL` or `EACCES` when the verifier
    /// refuses the program.
    #[source]
    pub errno: Errno,
    /// The last lines of the verifier's log; empty when the verifier was not reached.
    pub log: String,
}

/// What the kernel says of a program; counts since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// How often it should have run and did not, since it was running on that processor already
    /// (since Linux 5.12).
    pub recursion_misses: u64,
}

impl Program {
    /// Has the kernel verify and compile a program for a raw tracepoint, under a licence that it
    /// knows.
    ///
    /// # Errors
    /// What the verifier says. It is asked a second time for that, so that the usual case pays
    /// nothing for it.
    pub fn load_raw_tracepoint(
        name: &str,
        instructions: &[u64],
        license: &CStr,
    ) -> std::result::Result<Program, LoadError> {
        const RAW_TRACEPOINT: u32 = 17;
        let load = |log: &mut [u8]| {
            let mut attr = ProgLoad {
                prog_type: RAW_TRACEPOINT,
                insn_cnt: instructions.len() as u32,
                insns: instructions.as_ptr() as u64,
                license: license.as_ptr() as u64,
                log_level: u32::from(!log.is_empty()),
                log_size: log.len() as u32,
                log_buf: if log.is_empty() {
                    0
                } else {
                    log.as_mut_ptr() as u64
                },
                prog_name: short(name),
                ..ProgLoad::default()
            };
            // SAFETY: the kernel reads `insn_cnt` instructions and a NUL-terminated licence, and
            // writes at most `log_size` bytes of `log`.
            unsafe { bpf(PROG_LOAD, &mut attr) }.map(|fd| Program { fd: Fd::take(fd) })
        };
        load(&mut []).or_else(|errno| {
            let mut log = vec![0; 1 << 20];
            match load(&mut log) {
                Ok(program) => Ok(program),
                Err(_) => {
                    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                    let text = String::from_utf8_lossy(&log[..end]);
                    let last = text
                        .lines()
                        .rev()
                        .filter(|line| !line.starts_with("processed"))
                        .take(3);
                    let last: Vec<&str> = last.collect();
                    Err(LoadError {
                        errno,
                        log: last.into_iter().rev().collect::<Vec<_>>().join("; "),
                    })
                }
            }
        })
    }

    /// What the kernel says of it.
    pub fn info(&self) -> Result<Info> {
        // `struct bpf_prog_info`, as far as it is of interest.
        let mut words = [0u64; 27];
        let info = words.as_mut_ptr() as u64;
        let mut attr = InfoByFd {
            fd: raw(&self.fd),
            len: size_of_val(&words) as u32,
            info,
        };
        // SAFETY: the kernel writes at most `len` bytes of `words`; no list in it is asked for,
        // since all lengths are 0.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }?;
        Ok(Info {
            recursion_misses: words[26],
        })
    }
}

/// Has a program run at a tracepoint, as long as the descriptor lives. `BPF_RAW_TRACEPOINT_OPEN`
///
/// # Errors
/// `ENOENT`: there is no such tracepoint.
pub fn raw_tracepoint_open(name: &CStr, program: &Program) -> Result<Fd> {
    let mut attr = RawTracepoint {
        name: name.as_ptr() as u64,
        prog_fd: raw(&program.fd),
        pad: 0,
    };
    // SAFETY: the name is NUL-terminated.
    unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attr) }.map(Fd::take)
}

/// A prctl(2) that no kernel knows, and that does nothing: a call that a program at `sys_enter` can
/// tell from all others by its arguments. A child may make it between fork and execve.
pub fn prctl_unknown(option: u32, first: u64, second: u64) {
    // SAFETY: the kernel refuses an option that it does not know, whatever the arguments.
    unsafe { syscall(libc::SYS_prctl, c_long::from(option), first, second, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps need a privilege: without it there is nothing to test.
    fn map(kind: Kind, key: usize, value: usize, entries: u32) -> Option<Map> {
        Map::new(kind, "fathom_test", key, value, entries).ok()
    }

    #[test]
    fn what_is_put_into_a_hash_is_in_it_once() {
        let Some(map) = map(Kind::Hash, 4, 8, 3000) else {
            return;
        };
        for n in 0u32..2500 {
            map.update(&n.to_ne_bytes(), &u64::from(n).to_ne_bytes())
                .unwrap();
        }
        let mut seen = Vec::new();
        map.each(|key, value| {
            assert_eq!(key, &value[..4]);
            seen.push(u32::from_ne_bytes(key.try_into().unwrap()));
        })
        .unwrap();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..2500));

        let keys: Vec<u8> = [9000u32, 0, 8000, 7000, 1, 2, 9001]
            .iter()
            .flat_map(|n| n.to_ne_bytes())
            .collect();
        map.delete(&keys).unwrap();
        let mut left = 0;
        map.each(|_, _| left += 1).unwrap();
        assert_eq!(left, 2497);
        let mut value = [0; 8];
        assert_eq!(
            map.lookup(&1u32.to_ne_bytes(), &mut value),
            Err(Errno::ENOENT)
        );
        map.lookup(&3u32.to_ne_bytes(), &mut value).unwrap();
        assert_eq!(value, 3u64.to_ne_bytes());
    }

    #[test]
    fn sizes_that_are_not_the_maps_are_refused() {
        let Some(map) = map(Kind::Hash, 4, 8, 4) else {
            return;
        };
        assert_eq!(map.update(&[0; 3], &[0; 8]), Err(Errno::EINVAL));
        assert_eq!(map.update(&[0; 4], &[0; 9]), Err(Errno::EINVAL));
        assert_eq!(map.lookup(&[0; 4], &mut [0; 7]), Err(Errno::EINVAL));
        assert_eq!(map.delete(&[0; 5]), Err(Errno::EINVAL));
        assert_eq!(map.words().map(drop), Err(Errno::EINVAL));
    }

    #[test]
    fn words_are_the_arrays_values() {
        let Some(map) = map(Kind::Array, 4, 24, 2) else {
            return;
        };
        let words = map.words().unwrap();
        words[4].store(7, Ordering::Relaxed);
        let mut value = [0; 24];
        map.lookup(&1u32.to_ne_bytes(), &mut value).unwrap();
        assert_eq!((words.len(), &value[8..16]), (6, &7u64.to_ne_bytes()[..]));
    }

    #[test]
    fn the_verifier_says_why() {
        if map(Kind::Hash, 4, 4, 1).is_none() {
            return;
        }
        // `exit` without a result in r0.
        let refused = Program::load_raw_tracepoint("fathom_test", &[0x95], c"GPL").unwrap_err();
        assert!(refused.log.contains("R0 !read_ok"), "{refused:?}");
        // `r0 = 0; exit`
        let program = Program::load_raw_tracepoint("fathom_test", &[0xb7, 0x95], c"GPL").unwrap();
        assert_eq!(program.info().unwrap().recursion_misses, 0);
        assert_eq!(
            raw_tracepoint_open(c"no_such_place", &program).map(drop),
            Err(Errno::ENOENT)
        );
    }
}
