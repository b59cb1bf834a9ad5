//! The space that deleting a directory would free: extents that only files in the directory refer
//! to.
//!
//! FS_IOC_FIEMAP flags the extents of a file to which something else refers as well: another file,
//! a snapshot, or another part of the same file. Flagged extents are kept as byte ranges of the
//! device. After the walk, each range to which several of the found files refer is looked up: if
//! nothing else refers to it, the range is freed with the nearest directory that contains all of
//! these files.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::extent::{DelallocMode, fiemap};
use gate::fs::{Open, Resolve, openat};
use gate::long::openat2_long;
use gate::sync::Mutex;
use gate::xfs::XFS_SUPER_MAGIC;
use gate::{Errno, Fd};
use ondisk::Dev;
use ondisk::fiemap::collect;

use crate::entry::{Meta, relative};
use crate::owners::Owners;
use crate::top::MountContext;

/// The `f_type` of file systems without shared extents: ext2 to ext4, tmpfs, ramfs, FAT, exFAT,
/// F2FS.
const WITHOUT_SHARING: [u64; 6] = [
    0xef53,
    0x0102_1994,
    0x8584_58f6,
    0x4d44,
    0x2011_bab0,
    0xf2f5_2010,
];

/// The file system that is being walked.
#[derive(Debug)]
struct FileSystem {
    /// Device number of the mount: the same for all subvolumes of a btrfs.
    device: Dev,
    owners: Owners,
    /// Path of the directory where the walk of this file system begins, and its descriptor if files
    /// of the file system may share extents.
    path: Vec<u8>,
    top: Option<Result<Fd, Errno>>,
}

impl FileSystem {
    fn new(context: &MountContext<'_>) -> FileSystem {
        let magic = context.statfs.magic;
        let may_share = !WITHOUT_SHARING.contains(&magic);
        let place = Open::PATH | Open::DIRECTORY;
        FileSystem {
            device: context
                .mount
                .map_or(context.top.meta.dev, |mount| mount.dev),
            owners: match magic {
                BTRFS_SUPER_MAGIC => Owners::Btrfs,
                XFS_SUPER_MAGIC => Owners::Xfs,
                _ => Owners::Unknown,
            },
            path: context.top.path.clone(),
            top: may_share.then(|| openat(&context.top.fd, c".", place)),
        }
    }
}

/// Files whose extents could not be read, so that their shared extents are unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadExtents {
    /// Number of files with unread extents.
    pub files: u64,
    /// Allocated space of the files with unread extents, in units of 512 bytes.
    pub blocks: u64,
    /// Path of a file whose extents could not be read.
    pub path: Vec<u8>,
    /// Error of the call for the file `path`.
    pub errno: Errno,
}

/// Extents to which several found files refer, where it is unknown whether other files do, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOwners {
    /// Total length of the extents with unknown owners, in bytes.
    pub bytes: u64,
    /// Error of the call that looks up the files of one of the extents.
    pub errno: Errno,
}

/// A part of an extent that is flagged as shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ExtentPart {
    /// Byte offset on the device. Of a compressed extent only the first byte is used: FIEMAP
    /// reports the start on the device, but not the length there.
    start: u64,
    end: u64,
    /// Length of this part of the extent in the file, in bytes.
    bytes: u64,
}

/// A shared part of an extent, and one file that refers to it.
#[derive(Clone, Debug)]
struct Reference<P> {
    device: Dev,
    part: ExtentPart,
    ino: u64,
    /// The directory whose deletion deletes the file.
    place: P,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SharedExtents {
    device: Dev,
    ino: u64,
    parts: Vec<ExtentPart>,
}

/// References of files to shared extents. `P` identifies a directory.
#[derive(Clone, Debug)]
pub(crate) struct References<P>(Vec<Reference<P>>);

impl<P> Default for References<P> {
    fn default() -> References<P> {
        References(Vec::new())
    }
}

impl<P: Copy> References<P> {
    /// Adds the references of a file in the directory `place`.
    pub(crate) fn add(&mut self, file: &SharedExtents, place: P) {
        self.0.extend(file.parts.iter().map(|&part| Reference {
            device: file.device,
            part,
            ino: file.ino,
            place,
        }));
    }

    pub(crate) fn append(&mut self, other: References<P>) {
        if self.0.is_empty() {
            *self = other;
        } else {
            self.0.extend(other.0);
        }
    }

    /// Replaces the directory of each reference to an extent by the result of `place`; drops
    /// references for which `place` returns `None`.
    pub(crate) fn with_places<Q>(self, place: impl Fn(P) -> Option<Q>) -> References<Q> {
        let references = self.0.into_iter().filter_map(|reference| {
            Some(Reference {
                device: reference.device,
                part: reference.part,
                ino: reference.ino,
                place: place(reference.place)?,
            })
        });
        References(references.collect())
    }

    /// Calls `emit` for each range of a device to which several references lead, with the file and
    /// the directory of each of these references.
    fn for_each_part(mut self, mut emit: impl FnMut(Dev, ExtentPart, &[(u64, P)])) {
        self.0
            .sort_unstable_by_key(|reference| (reference.device, reference.part.start));
        // The references whose range contains the byte at offset `at`.
        let mut active: Vec<Reference<P>> = Vec::new();
        let mut files = Vec::new();
        let mut at = 0;
        let mut rest = self.0.into_iter().peekable();
        loop {
            let device = active.first().or(rest.peek()).map(|first| first.device);
            let next = rest.peek().filter(|next| Some(next.device) == device);
            let ends = active.iter().map(|reference| reference.part.end);
            let Some(until) = ends.chain(next.map(|next| next.part.start)).min() else {
                break;
            };
            if let [first, _, ..] = &active[..]
                && until > at
            {
                files.clear();
                files.extend(active.iter().map(|it| (it.ino, it.place)));
                let is_whole = |it: &Reference<P>| it.part.end - it.part.start == it.part.bytes;
                let bytes = match active.iter().all(is_whole) {
                    true => until - at,
                    false => active.iter().map(|it| it.part.bytes).max().unwrap_or(0),
                };
                let (start, end) = (at, until);
                emit(first.device, ExtentPart { start, end, bytes }, &files);
            }
            at = until;
            active.retain(|reference| reference.part.end > at);
            let starts = |it: &Reference<P>| Some(it.device) == device && it.part.start == at;
            while let Some(reference) = rest.next_if(starts) {
                if reference.part.end > at {
                    active.push(reference);
                }
            }
        }
    }
}

/// Finds the shared extents of files during a walk.
#[derive(Debug, Default)]
pub(crate) struct ExtentReader {
    file_system: Mutex<Option<Arc<FileSystem>>>,
    /// One file of each file system with shared extents: the ioctls need a descriptor.
    files: Mutex<HashMap<Dev, (Owners, Fd)>>,
    unread: Mutex<Option<UnreadExtents>>,
}

impl ExtentReader {
    /// Buffer size for FIEMAP, in 64-bit words: a `struct fiemap` and 64 extents.
    const BUFFER: usize = 4 + 7 * 64;

    /// Stores the file system of a mount, for [`ExtentReader::read`]. Called before the mount is
    /// walked.
    pub(crate) fn begin(&self, context: &MountContext<'_>) {
        *self.file_system.lock() = Some(Arc::new(FileSystem::new(context)));
    }

    /// The shared extents of a regular file; `None` if they could not be read.
    pub(crate) fn read(
        &self,
        path: &[u8],
        meta: &Meta,
        buffer: &mut Vec<u64>,
    ) -> Option<SharedExtents> {
        let file_system = self.file_system.lock().clone();
        let Some(file_system) = file_system.filter(|_| meta.blocks > 0) else {
            return Some(SharedExtents::default());
        };
        let Some(top) = &file_system.top else {
            return Some(SharedExtents::default());
        };
        let (device, owners) = (file_system.device, file_system.owners);
        buffer.resize(ExtentReader::BUFFER, 0);
        // `NO_SYMLINKS`: even if the tree changes meanwhile, no symlink leads to a file outside.
        let open = |top: &Fd| {
            let name = relative(&file_system.path, path);
            let how = Open::NOFOLLOW | Open::NONBLOCK;
            openat2_long(top.as_fd(), name, how, Resolve::NO_SYMLINKS)
        };
        let read = top
            .as_ref()
            .map_err(|errno| *errno)
            .and_then(open)
            .and_then(|file| {
                let extents = collect(buffer, usize::MAX, |from, buffer| {
                    fiemap(&file, from, DelallocMode::Report, buffer)
                })?;
                Ok((file, extents))
            });
        let (file, extents) = match read {
            Ok(read) => read,
            // The file was deleted after the walk had found it.
            Err(Errno::ENOENT) => return None,
            Err(errno) => {
                self.put_unread(path, meta, errno);
                return None;
            }
        };
        let shared = extents
            .iter()
            .filter(|extent| extent.flags.is_shared() && extent.flags.is_placed());
        let parts = shared.map(|extent| {
            let on_device = match extent.flags.is_encoded() {
                true => 1,
                false => extent.length,
            };
            ExtentPart {
                start: extent.physical,
                end: extent.physical.saturating_add(on_device),
                bytes: extent.length,
            }
        });
        let parts: Vec<ExtentPart> = parts.collect();
        if !parts.is_empty() {
            self.files.lock().entry(device).or_insert((owners, file));
        }
        Some(SharedExtents {
            device,
            ino: meta.ino,
            parts,
        })
    }

    fn put_unread(&self, path: &[u8], meta: &Meta, errno: Errno) {
        let mut unread = self.unread.lock();
        let unread = unread.get_or_insert_with(|| UnreadExtents {
            files: 0,
            blocks: 0,
            path: path.to_vec(),
            errno,
        });
        unread.files += 1;
        unread.blocks = unread.blocks.saturating_add(meta.blocks);
    }

    /// Finds the ranges that deleting a directory frees, and calls `put` with the number of bytes
    /// of each and the nearest directory that contains all files which refer to the range.
    pub(crate) fn resolve<P: Copy>(
        &self,
        references: References<P>,
        nearest: impl Fn(P, P) -> Option<P>,
        mut put: impl FnMut(P, u64),
    ) -> Option<UnknownOwners> {
        let files = self.files.lock();
        let mut unknown: Option<UnknownOwners> = None;
        references.for_each_part(|device, part, found| {
            let mut places = found.iter().map(|(_, place)| Some(*place));
            let joined = |a: Option<P>, b: Option<P>| nearest(a?, b?);
            let Some(place) = places.next().and_then(|first| places.fold(first, joined)) else {
                return;
            };
            let Some((owners, file)) = files.get(&device) else {
                return;
            };
            match owners.read(file, device, part.start, found.len()) {
                Ok(all) => {
                    let mut known: Vec<u64> = found.iter().map(|(ino, _)| *ino).collect();
                    known.sort_unstable();
                    if known == all {
                        put(place, part.bytes);
                    }
                }
                Err(errno) => {
                    let unknown = unknown.get_or_insert(UnknownOwners { bytes: 0, errno });
                    unknown.bytes = unknown.bytes.saturating_add(part.bytes);
                }
            }
        });
        unknown
    }

    pub(crate) fn into_unread(self) -> Option<UnreadExtents> {
        self.unread.into_inner()
    }
}

impl SharedExtents {
    /// Total length of the file's shared extents, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let lengths = self.parts.iter().map(|part| part.bytes);
        lengths.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Dev = Dev::new(8, 1);
    const OTHER: Dev = Dev::new(8, 2);

    type Found = (Dev, u64, u64, u64, Vec<(u64, char)>);

    fn part(start: u64, end: u64) -> ExtentPart {
        let bytes = end - start;
        ExtentPart { start, end, bytes }
    }

    fn parts(files: &[(Dev, u64, char, &[ExtentPart])]) -> Vec<Found> {
        let mut references = References::default();
        for &(device, ino, place, parts) in files {
            let parts = parts.to_vec();
            references.add(&SharedExtents { device, ino, parts }, place);
        }
        let mut all = Vec::new();
        references.for_each_part(|device, part, files| {
            let mut files = files.to_vec();
            files.sort_unstable();
            all.push((device, part.start, part.end, part.bytes, files));
        });
        all
    }

    #[test]
    fn parts_end_where_their_references_change() {
        let found = parts(&[
            (DISK, 1, 'a', &[part(0, 100), part(500, 600)]),
            (DISK, 2, 'b', &[part(50, 150)]),
            (DISK, 3, 'c', &[part(90, 95), part(150, 200)]),
            (DISK, 1, 'a', &[part(90, 91)]),
            (OTHER, 4, 'd', &[part(0, 100)]),
            (OTHER, 5, 'd', &[part(0, 100), part(100, 100)]),
        ]);
        let (a, b, c) = ((1, 'a'), (2, 'b'), (3, 'c'));
        let expected: Vec<Found> = vec![
            (DISK, 50, 90, 40, vec![a, b]),
            (DISK, 90, 91, 1, vec![a, a, b, c]),
            (DISK, 91, 95, 4, vec![a, b, c]),
            (DISK, 95, 100, 5, vec![a, b]),
            (OTHER, 0, 100, 100, vec![(4, 'd'), (5, 'd')]),
        ];
        assert_eq!(found, expected);
        assert_eq!(parts(&[]), []);
    }

    #[test]
    fn compressed_extents_are_as_long_as_their_data() {
        let compressed = |start, bytes| ExtentPart {
            start,
            end: start + 1,
            bytes,
        };
        let found = parts(&[
            (
                DISK,
                1,
                'a',
                &[compressed(4096, 131_072), compressed(8192, 4096)],
            ),
            (DISK, 2, 'b', &[compressed(4096, 65_536)]),
        ]);
        let both = vec![(1, 'a'), (2, 'b')];
        assert_eq!(found, [(DISK, 4096, 4097, 131_072, both)]);
    }
}
