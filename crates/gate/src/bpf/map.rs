//! BPF maps: memory that programs and user space share.

use std::os::fd::{AsRawFd, RawFd};

use libc::c_long;

use super::{bpf, raw, short};
use crate::memory::SharedWords;
use crate::{Errno, Fd, Result};

const MAP_CREATE: c_long = 0;
const MAP_LOOKUP_ELEM: c_long = 1;
const MAP_UPDATE_ELEM: c_long = 2;
const MAP_FREEZE: c_long = 22;
const MAP_LOOKUP_BATCH: c_long = 24;
const MAP_DELETE_BATCH: c_long = 27;

/// The supported types of BPF maps: `BPF_MAP_TYPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A hash table with keys of any value. The kernel allocates all entries when it creates the
    /// map.
    Hash,
    /// An array with keys 0, 1, ...; values are whole words, which user space can map
    /// ([`Map::words`]).
    Array,
    /// An array whose entries user space reads one by one.
    Entries,
    /// The read-only array of [`Map::constants`].
    Constants,
    /// An array with one copy per processor, which only BPF programs access.
    PercpuArray,
    /// An array of cgroups (v2): user space writes descriptors of their directories, and programs
    /// test whether a process is in one.
    Cgroups,
}

/// A BPF map: memory that programs and user space share.
#[derive(Debug)]
pub struct Map {
    fd: Fd,
    kind: Kind,
    key: usize,
    value: usize,
    entries: u32,
}

// Each struct below is the part of `union bpf_attr` that one command of bpf(2) reads. The kernel
// takes missing fields as 0.

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
struct Freeze {
    map_fd: u32,
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

pub(super) fn create(
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
    // SAFETY: the attributes have no addresses.
    unsafe { bpf(MAP_CREATE, &mut attr) }.map(Fd::take)
}

impl Map {
    /// Creates a map, except one of [`Kind::Constants`] ([`Map::constants`]). bpftool shows the
    /// first 15 bytes of `name`: letters, digits and underscores.
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` (before Linux 5.11 also if too little memory may be locked);
    /// `EINVAL` for sizes that the type does not support, `E2BIG` and `ENOMEM` for too large ones.
    pub fn new(kind: Kind, name: &str, key: usize, value: usize, entries: u32) -> Result<Map> {
        const READ_ONLY_BY_PROGRAMS: u32 = 1 << 7;
        const MMAPABLE: u32 = 1 << 10;
        let (map_type, map_flags) = match kind {
            Kind::Hash => (1, 0),
            Kind::Array => (2, MMAPABLE),
            Kind::Entries => (2, 0),
            Kind::Constants => (2, READ_ONLY_BY_PROGRAMS),
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

    /// Creates an array with one read-only value: the verifier takes its bytes as constants, and
    /// skips the branches of a program that they exclude.
    ///
    /// # Errors
    /// The errors of [`Map::new`].
    pub fn constants(name: &str, value: &[u8]) -> Result<Map> {
        let map = Map::new(Kind::Constants, name, size_of::<u32>(), value.len(), 1)?;
        map.update(&[0; 4], value)?;
        let mut attr = Freeze {
            map_fd: raw(&map.fd),
        };
        // SAFETY: the attributes have no addresses.
        unsafe { bpf(MAP_FREEZE, &mut attr) }?;
        Ok(map)
    }

    /// The maximum number of entries of the map.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    /// `E2BIG`: the map is full. `EINVAL`: the length of key or value is not the map's.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_sizes(key, value)?;
        // SAFETY: the kernel reads a key and a value of the sizes that were checked.
        unsafe { self.element(MAP_UPDATE_ELEM, key, value.as_ptr() as u64) }
    }

    /// Reads the value of a key into `value`.
    ///
    /// # Errors
    /// `ENOENT`: the map has no such key. `EINVAL`: the length of key or value is not the map's.
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

    /// Calls `show` with key and value of every entry of a hash. Entries that are added or removed
    /// meanwhile may be missing.
    ///
    /// # Errors
    /// The errors of `BPF_MAP_LOOKUP_BATCH` (since Linux 5.6).
    pub fn each(&self, mut show: impl FnMut(&[u8], &[u8])) -> Result<()> {
        const BATCH: usize = 1024;
        if self.kind != Kind::Hash {
            return Err(Errno::EINVAL);
        }
        let mut room = BATCH.min(self.entries.max(1) as usize);
        let (mut keys, mut values) = (vec![0u8; self.key * room], vec![0u8; self.value * room]);
        // The kernel's position in a hash table is a u32, but the kernel may copy as many bytes as
        // a key has.
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
                // One bucket of the hash has more entries than the buffers: enlarge them.
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

    /// Removes the entries with the concatenated `keys`. A missing entry is no error.
    ///
    /// # Errors
    /// `EINVAL` if the length is not a multiple of the key length.
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

    /// Maps the values of an array: words that programs and this process share.
    ///
    /// # Errors
    /// `EINVAL` for a different type of map; the errors of mmap(2).
    pub fn words(&self) -> Result<SharedWords> {
        if self.kind != Kind::Array {
            return Err(Errno::EINVAL);
        }
        SharedWords::of_array(&self.fd, self.value * self.entries as usize)
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// Creates a map for a test. `None` without the privilege to create maps: then the test is
    /// skipped.
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
    fn constants_cannot_be_changed() {
        let Ok(map) = Map::constants("fathom_test", &[1, 2, 3]) else {
            return;
        };
        assert_eq!(map.update(&[0; 4], &[4; 3]), Err(Errno::EPERM));
        let mut value = [0; 3];
        map.lookup(&[0; 4], &mut value).unwrap();
        assert_eq!(value, [1, 2, 3]);
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
}
