//! BPF: maps, programs and raw tracepoints.
//! [bpf(2)](https://man7.org/linux/man-pages/man2/bpf.2.html)
//!
//! A program is a list of 64-bit instructions, which the kernel verifies. Programs, maps and
//! attachments live as long as their descriptors: nothing is left when the process ends. None of it is
//! file-system work, so only closing is counted.

use std::ffi::CStr;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{c_long, syscall};

use crate::errno::check;
use crate::memory::{Mapped, READ_WRITE, RingMemory, Shared, page_size};
use crate::{Errno, Fd, Result};

/// The types of maps that are used here: `BPF_MAP_TYPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any key. Memory for all entries is allocated when it is created.
    Hash,
    /// Keys are 0, 1, ...; values are whole words, which user space can map ([`Map::words`]).
    Array,
    /// An array that user space reads entry by entry.
    Entries,
    /// An array with one copy for each processor, for programs only.
    PercpuArray,
    /// An array of cgroups (v2), by descriptors of their directories: user space writes it, and
    /// programs test with it.
    Cgroups,
}

/// A map: memory that programs and user space share.
#[derive(Debug)]
pub struct Map {
    fd: Fd,
    kind: Kind,
    key: usize,
    value: usize,
    entries: u32,
}

// Each struct is the part of `union bpf_attr` that its command reads. The kernel takes further
// fields for 0.

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

/// Makes one bpf(2).
///
/// # Safety
/// `attr` must be what `command` reads, and the kernel may read or write what its addresses point to
/// as the command does.
unsafe fn bpf<T>(command: c_long, attr: &mut T) -> Result<usize> {
    let (attr, size) = (std::ptr::from_mut(attr), size_of::<T>());
    // SAFETY: as the caller promises; the kernel reads and writes at most `size` bytes of `attr`.
    check(unsafe { syscall(libc::SYS_bpf, command, attr, size) })
}

fn raw(fd: &Fd) -> u32 {
    fd.as_raw_fd() as u32
}

/// The first 15 bytes of a name, and NULs.
fn short(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

fn create(
    map_type: u32,
    map_flags: u32,
    name: &str,
    [key_size, value_size, max_entries]: [u32; 3],
) -> Result<Fd> {
    let mut attr = MapCreate {
        map_type,
        key_size,
        value_size,
        max_entries,
        map_flags,
        map_name: short(name),
        ..MapCreate::default()
    };
    // SAFETY: there are no addresses in it.
    unsafe { bpf(MAP_CREATE, &mut attr) }.map(Fd::take)
}

impl Map {
    /// Creates a map. bpftool shows the first 15 bytes of `name`: letters, digits and underscores.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` (before Linux 5.11 also when too little memory may be locked);
    /// `EINVAL` for sizes that the type does not support, `E2BIG` and `ENOMEM` for too large ones.
    pub fn new(kind: Kind, name: &str, key: usize, value: usize, entries: u32) -> Result<Map> {
        const MMAPABLE: u32 = 1 << 10;
        let (map_type, map_flags) = match kind {
            Kind::Hash => (1, 0),
            Kind::Array => (2, MMAPABLE),
            Kind::Entries => (2, 0),
            Kind::PercpuArray => (6, 0),
            Kind::Cgroups => (8, 0),
        };
        if kind == Kind::Array && !value.is_multiple_of(size_of::<u64>()) {
            return Err(Errno::EINVAL);
        }
        let size = |bytes| u32::try_from(bytes).map_err(|_| Errno::E2BIG);
        Ok(Map {
            fd: create(
                map_type,
                map_flags,
                name,
                [size(key)?, size(value)?, entries],
            )?,
            kind,
            key,
            value,
            entries,
        })
    }

    /// The most entries that it holds.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    /// `E2BIG`: the map is full. `EINVAL`: key or value are not of the map's size.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_sizes(key, value)?;
        // SAFETY: the kernel reads a key and a value of the sizes that were checked.
        unsafe { self.element(MAP_UPDATE_ELEM, key, value.as_ptr() as u64) }
    }

    /// Reads the entry of a key into `value`.
    ///
    /// # Errors
    /// `ENOENT`: there is none. `EINVAL`: key or value are not of the map's size.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        self.check_sizes(key, value)?;
        // SAFETY: the kernel reads a key and writes a value of the sizes that were checked.
        unsafe { self.element(MAP_LOOKUP_ELEM, key, value.as_mut_ptr() as u64) }
    }

    fn check_sizes(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let fits = key.len() == self.key && value.len() == self.value;
        if !fits || self.kind == Kind::PercpuArray {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// # Safety
    /// The kernel may read a key, and read or write a value at that address.
    unsafe fn element(&self, command: c_long, key: &[u8], value: u64) -> Result<()> {
        let mut attr = Element {
            map_fd: raw(&self.fd),
            pad: 0,
            key: key.as_ptr() as u64,
            value,
            flags: 0,
        };
        // SAFETY: as the caller promises.
        unsafe { bpf(command, &mut attr) }.map(drop)
    }

    /// Passes key and value of every entry of a hash to `show`. Entries that are added or removed
    /// meanwhile may be missing.
    ///
    /// # Errors
    /// Those of `BPF_MAP_LOOKUP_BATCH` (since Linux 5.6).
    pub fn each(&self, mut show: impl FnMut(&[u8], &[u8])) -> Result<()> {
        const BATCH: usize = 1024;
        if self.kind != Kind::Hash {
            return Err(Errno::EINVAL);
        }
        let mut room = BATCH.min(self.entries.max(1) as usize);
        let (mut keys, mut values) = (vec![0u8; self.key * room], vec![0u8; self.value * room]);
        // The position in a hash is a u32; the kernel may want room for a whole key.
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
            // the positions for one key.
            let done = unsafe { bpf(MAP_LOOKUP_BATCH, &mut attr) };
            match done {
                // One bucket of the hash has more entries than there is room for.
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

    /// Removes the entries of `keys`, which are concatenated. A missing entry is no error.
    ///
    /// # Errors
    /// `EINVAL` when the length is not a multiple of a key's.
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

    /// Maps the values of an array: words that programs and this process both see at once.
    ///
    /// # Errors
    /// `EINVAL` for another type of map; those of mmap(2).
    pub fn words(&self) -> Result<Shared> {
        if self.kind != Kind::Array {
            return Err(Errno::EINVAL);
        }
        Shared::of_array(&self.fd, self.value * self.entries as usize)
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The kernel's description of its own types (BTF), mapped: it has some megabytes.
#[derive(Debug)]
pub struct Types(Mapped);

impl Types {
    /// Maps all `len` bytes of the open file /sys/kernel/btf/vmlinux.
    ///
    /// # Errors
    /// `ENODEV` before Linux 6.16, which only supports read(2).
    pub fn map(file: impl AsFd, len: usize) -> Result<Types> {
        Mapped::new(
            file.as_fd().as_raw_fd(),
            0,
            len,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
        )
        .map(Types)
    }
}

impl Deref for Types {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel does not change it after its build.
        unsafe { self.0.bytes(0, self.0.len()) }.unwrap_or_default()
    }
}

/// A ring buffer: the records that programs submit to user space, in their order.
/// `BPF_MAP_TYPE_RINGBUF` (since Linux 5.8)
#[derive(Debug)]
pub struct Ring {
    fd: Fd,
    /// The position up to which user space has read: the one page that it may write.
    consumer: Mapped,
    /// The position up to which programs have written, and the data.
    data: RingMemory,
}

/// Length of a record's header: its length with two flags, and a number of the kernel's.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

impl Ring {
    /// Creates a ring of `size` bytes: a power of two, and whole pages.
    ///
    /// # Errors
    /// As of [`Map::new`]; `EINVAL` before Linux 5.8.
    pub fn new(name: &str, size: u32) -> Result<Ring> {
        const RINGBUF: u32 = 27;
        let fd = create(RINGBUF, 0, name, [0, 0, size])?;
        let page = page_size();
        Ok(Ring {
            consumer: Mapped::new(fd.as_raw_fd(), 0, page, READ_WRITE, libc::MAP_SHARED)?,
            // The kernel could map the data twice in a row, so that no record wraps around. But
            // then it would count twice as this process's memory.
            data: RingMemory::new(&fd, page, size as usize, libc::PROT_READ)?,
            fd,
        })
    }

    /// Passes every complete record to `show`, and returns how many there were.
    pub fn drain(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let (Some(consumer), Some(producer)) =
            (self.consumer.atomic::<AtomicU64>(0), self.data.position(0))
        else {
            return 0;
        };
        let size = self.data.size();
        let end = producer.load(Ordering::Acquire);
        let mut at = consumer.load(Ordering::Relaxed);
        let mut released = at;
        let mut shown = 0;
        while at < end {
            let Some(header) = self.data.head::<AtomicU32>(at) else {
                break;
            };
            let header = header.load(Ordering::Acquire);
            let len = (header & !(BUSY | DISCARDED)) as usize;
            if header & BUSY != 0 || len > size - HEADER {
                break;
            }
            if header & DISCARDED == 0 {
                // SAFETY: the record is complete; no program writes there before `consumer` has
                // passed it.
                let Some(record) = (unsafe { self.data.record(at + HEADER as u64, len) }) else {
                    break;
                };
                show(record);
                shown += 1;
            }
            at += (HEADER + len).next_multiple_of(8) as u64;
            // Programs read the position for each record. Writing it for each would move the cache
            // line back and forth between processors.
            if at - released > size as u64 / 16 {
                consumer.store(at, Ordering::Release);
                released = at;
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

/// A program that the kernel has loaded.
#[derive(Debug)]
pub struct Program(Fd);

/// Why the kernel did not load a program.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{errno}; {log}")]
pub struct LoadError {
    /// `EPERM` without the privilege, `EINVAL` or `EACCES` when the verifier refuses the program.
    #[source]
    pub errno: Errno,
    /// The last lines of the verifier's log; empty when the verifier did not run.
    pub log: String,
}

impl Program {
    /// Loads a program for a raw tracepoint, under a licence that the kernel knows.
    ///
    /// # Errors
    /// The verifier's message: the program is then loaded a second time with a log, so that the
    /// usual case needs none.
    pub fn load_raw_tracepoint(
        name: &str,
        instructions: &[u64],
        license: &CStr,
    ) -> std::result::Result<Program, LoadError> {
        const RAW_TRACEPOINT: u32 = 17;
        let load = |log: &mut [u8]| {
            let log_at = if log.is_empty() {
                0
            } else {
                log.as_mut_ptr() as u64
            };
            let mut attr = ProgLoad {
                prog_type: RAW_TRACEPOINT,
                insn_cnt: instructions.len() as u32,
                insns: instructions.as_ptr() as u64,
                license: license.as_ptr() as u64,
                log_level: u32::from(!log.is_empty()),
                log_size: log.len() as u32,
                log_buf: log_at,
                prog_name: short(name),
                ..ProgLoad::default()
            };
            // SAFETY: the kernel reads `insn_cnt` instructions and a NUL-terminated licence, and
            // writes at most `log_size` bytes of `log`.
            unsafe { bpf(PROG_LOAD, &mut attr) }.map(|fd| Program(Fd::take(fd)))
        };
        load(&mut []).or_else(|errno| {
            let mut log = vec![0; 1 << 20];
            load(&mut log).map_err(|_| LoadError {
                errno,
                log: last_lines(&log),
            })
        })
    }

    /// How many times it did not run, since it was running on that processor already (since Linux
    /// 5.12).
    pub fn recursion_misses(&self) -> Result<u64> {
        let mut info = [0u64; 27]; // struct bpf_prog_info, up to recursion_misses
        let mut attr = InfoByFd {
            fd: raw(&self.0),
            len: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        // SAFETY: the kernel writes at most `len` bytes of `info`, and no list, since all lengths
        // in it are 0.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }?;
        Ok(info[26])
    }
}

/// The last three lines of a verifier's log, without its statistics.
fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default());
    let lines = text.lines().rev();
    let mut last: Vec<&str> = lines
        .filter(|line| !line.starts_with("processed"))
        .take(3)
        .collect();
    last.reverse();
    last.join("; ")
}

/// Attaches a program to a tracepoint until the descriptor is closed. `BPF_RAW_TRACEPOINT_OPEN`
///
/// # Errors
/// `ENOENT`: there is no such tracepoint.
pub fn raw_tracepoint_open(name: &CStr, program: &Program) -> Result<Fd> {
    let mut attr = RawTracepoint {
        name: name.as_ptr() as u64,
        prog_fd: raw(&program.0),
        pad: 0,
    };
    // SAFETY: the name is NUL-terminated.
    unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attr) }.map(Fd::take)
}

/// A prctl(2) with an option that no kernel knows, which does nothing: a program at `sys_enter` tells
/// it from all other calls by its arguments. A child may make it between fork and execve.
pub fn prctl_unknown(option: u32, first: u64, second: u64) {
    // SAFETY: the kernel refuses an option that it does not know, whatever the arguments.
    unsafe { syscall(libc::SYS_prctl, c_long::from(option), first, second, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `None` without the privilege for maps: then there is nothing to test.
    fn map(kind: Kind, key: usize, value: usize, entries: u32) -> Option<Map> {
        Map::new(kind, "fathom_test", key, value, entries).ok()
    }

    #[test]
    fn a_hash_returns_each_entry_once() {
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
    fn wrong_sizes_are_refused() {
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
    fn words_are_the_values_of_an_array() {
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
    fn a_refused_program_comes_with_the_log_of_the_verifier() {
        if map(Kind::Hash, 4, 4, 1).is_none() {
            return;
        }
        // `exit` without a result in r0.
        let refused = Program::load_raw_tracepoint("fathom_test", &[0x95], c"GPL").unwrap_err();
        assert!(refused.log.contains("R0 !read_ok"), "{refused:?}");
        // `r0 = 0; exit`
        let program = Program::load_raw_tracepoint("fathom_test", &[0xb7, 0x95], c"GPL").unwrap();
        assert_eq!(program.recursion_misses(), Ok(0));
        assert_eq!(
            raw_tracepoint_open(c"no_such_place", &program).map(drop),
            Err(Errno::ENOENT)
        );
    }
}
