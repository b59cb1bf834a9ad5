//! Random trees from a seed, and random changes to them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, IFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid,
    XattrFlags, chownat, ioctl_getflags, ioctl_setflags, lsetxattr, makedev, mknodat,
    renameat_with, utimensat,
};

use super::build::{deep, name, odd_names};
use super::tool::tool;

/// Pseudo-random numbers, equal for equal seeds (splitmix64).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll().to_le_bytes()[0]).collect()
    }
}

/// Sets the times of last access of a tree into the future. Otherwise, on a file system with
/// relatime, another program that reads the tree changes them, and dumps made before and after
/// that differ.
pub(crate) fn fix_atimes(top: &Path) {
    let touch = ["-exec", "touch", "-a", "-h", "-d", "1 hour", "{}", "+"];
    tool(Command::new("find").arg(top).args(touch));
}

/// Directories with longer paths stay empty, so that each path fits into one system call.
const LONGEST: usize = 3500;

/// Creates about `entries` entries of every type under `top`, with odd names, owners, modes, times,
/// extended attributes and flags; also a wide directory, one with scattered blocks, a chain of 60
/// directories, and hard links between directories. Skips what the file system does not support.
pub(crate) fn grow(top: &Path, seed: u64, entries: usize) {
    let mut dice = Dice::new(seed);
    let mut directories = vec![top.to_owned()];
    let mut others: Vec<PathBuf> = Vec::new();
    for n in 0..entries {
        let within = dice.pick(&directories);
        let within = if within.as_os_str().len() < LONGEST {
            within
        } else {
            top
        };
        let at = within.join(name(&any_name(&mut dice, n)));
        let at = if at.symlink_metadata().is_ok() {
            within.join(format!("again {n}"))
        } else {
            at
        };
        if dice.one_in(5) {
            fs::create_dir(&at).unwrap();
            directories.push(at);
        } else if dice.one_in(8) && !others.is_empty() {
            let _ = fs::hard_link(dice.pick(&others), &at);
        } else {
            sprout(&mut dice, &at);
            others.push(at);
        }
    }
    let fill = |directory: &str, n: usize| {
        let name = format!("{n} is a name of no more than moderate length");
        fs::write(top.join(directory).join(name), b"x").unwrap();
    };
    for directory in ["wide", "scattered/a", "scattered/b", "deep"] {
        fs::create_dir_all(top.join(directory)).unwrap();
    }
    (0..350).for_each(|n| fill("wide", n));
    (0..100).for_each(|n| {
        ["scattered/a", "scattered/b"]
            .into_iter()
            .for_each(|directory| fill(directory, n))
    });
    deep(&top.join("deep"), "down", 60);
    others.extend(directories.into_iter().skip(1));
    for path in &others {
        dress(&mut dice, path);
    }
}

/// A random name; `n` makes most of them unique.
fn any_name(dice: &mut Dice, n: usize) -> Vec<u8> {
    match dice.below(8) {
        0 => dice.pick(&odd_names()).clone(),
        1 => {
            let length = 1 + dice.below(255);
            let wild: Vec<u8> = dice
                .bytes(length)
                .into_iter()
                .map(|b| if b == b'/' || b == 0 { b'_' } else { b })
                .collect();
            if wild == b"." || wild == b".." {
                b"dots".to_vec()
            } else {
                wild
            }
        }
        2 => format!("{n:0>255}").into_bytes(),
        3 => format!("-{n}").into_bytes(),
        _ => format!("entry {n}").into_bytes(),
    }
}

/// Creates an entry other than a directory.
fn sprout(dice: &mut Dice, at: &Path) {
    let special = |kind, device| {
        if mknodat(CWD, at, kind, Mode::from(0o640), device).is_err() {
            fs::write(at, "instead").unwrap(); // on an overlay, creating a whiteout fails
        }
    };
    match dice.below(16) {
        0 => symlink("short", at).unwrap(),
        1 => symlink("long/".repeat(30), at).unwrap(),
        2 => symlink(name(&[0xf0; 60]), at).unwrap(),
        3 => special(FileType::Fifo, 0),
        4 => special(FileType::CharacterDevice, 0), // an overlay's whiteout
        5 => special(FileType::CharacterDevice, makedev(1, 3)),
        6 => special(FileType::BlockDevice, makedev(4095, 250_000)),
        // The path in a socket address has at most 107 bytes.
        7 if UnixListener::bind(at).is_err() => special(FileType::Socket, 0),
        7 => {}
        8 => {
            let sparse = File::create(at).unwrap();
            let _ = sparse.set_len(1 << (20 + dice.below(12)));
            let _ = sparse.write_at(b"far out", 1 << 19);
        }
        9 | 10 => drop(File::create(at).unwrap()),
        _ => fs::write(at, vec![b'x'; dice.below(10_000)]).unwrap(),
    }
}

/// Gives an entry unusual metadata. What the file system refuses stays unchanged.
fn dress(dice: &mut Dice, path: &Path) {
    let Ok(status) = path.symlink_metadata() else {
        return;
    };
    if dice.one_in(2) {
        let owners = [0, 1000, 65_535, 65_536, 100_000, 1 << 31, u32::MAX - 1];
        let (user, group) = (*dice.pick(&owners), *dice.pick(&owners));
        let _ = chownat(
            CWD,
            path,
            Some(Uid::from_raw(user)),
            Some(Gid::from_raw(group)),
            AtFlags::SYMLINK_NOFOLLOW,
        );
    }
    if dice.one_in(2) && !status.is_symlink() {
        let modes = [0, 0o7777, 0o4755, 0o2755, 0o1777, 0o600, 0o111, 0o6644];
        let _ = fs::set_permissions(path, Permissions::from_mode(*dice.pick(&modes)));
    }
    if dice.one_in(3) {
        let longest = if dice.one_in(4) { 3000 } else { 40 };
        let value = vec![b'v'; dice.below(longest)];
        for attribute in ["user.colour", "trusted.colour", "security.colour"] {
            let _ = lsetxattr(path, attribute, &value, XattrFlags::empty());
        }
    }
    if dice.one_in(6) {
        let _ = lsetxattr(path, "system.posix_acl_access", &acl(), XattrFlags::empty());
        if status.is_dir() {
            let _ = lsetxattr(
                path,
                "system.posix_acl_default",
                &acl(),
                XattrFlags::empty(),
            );
        }
    }
    if dice.one_in(2) {
        let _ = utimensat(CWD, path, &any_times(dice), AtFlags::SYMLINK_NOFOLLOW);
    }
    if dice.one_in(5) && (status.is_file() || status.is_dir()) {
        let flags = [
            IFlags::IMMUTABLE,
            IFlags::APPEND,
            IFlags::NODUMP,
            IFlags::NOATIME,
            IFlags::COMPRESSED,
        ];
        flag(path, *dice.pick(&flags));
    }
}

/// Sets a flag of chattr(1), if the file system supports it.
pub(crate) fn flag(path: &Path, flag: IFlags) {
    if let Ok(file) = File::open(path)
        && let Ok(flags) = ioctl_getflags(&file)
    {
        let _ = ioctl_setflags(&file, flags | flag);
    }
}

/// An access control list in the format of setxattr(2): for the owner, the user 1000, the group,
/// the mask and others.
fn acl() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries = [
        (0x01, 6, NOBODY),
        (0x02, 4, 1000),
        (0x04, 4, NOBODY),
        (0x10, 6, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let entry = |(tag, may, id): (u16, u16, u32)| {
        [
            &tag.to_le_bytes()[..],
            &may.to_le_bytes(),
            &id.to_le_bytes(),
        ]
        .concat()
    };
    [2_u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat()
}

/// Times before 1970, after 2038 and after 2106, to the nanosecond.
pub(crate) fn any_times(dice: &mut Dice) -> Timestamps {
    let seconds = [
        0,
        -1,
        -1_000_000_000,
        1 << 31,
        (1 << 31) - 1,
        5_000_000_000,
        1_700_000_000,
    ];
    let mut time = || Timespec {
        tv_sec: *dice.pick(&seconds),
        tv_nsec: *dice.pick(&[0, 1, 999_999_999, 123_456_789]),
    };
    Timestamps {
        last_access: time(),
        last_modification: time(),
    }
}

/// The entries that [`mutate`] may change, as of the last listing.
struct Wood {
    /// Every directory, to create entries in.
    places: Vec<PathBuf>,
    /// Every entry that may be renamed, changed and removed.
    free: Vec<PathBuf>,
}

impl Wood {
    /// Lists the entries below `top`. Names that begin with `keep` must not be changed.
    fn survey(top: &Path) -> Wood {
        let mut wood = Wood {
            places: vec![top.to_owned()],
            free: Vec::new(),
        };
        let mut next = 0;
        while let Some(directory) = wood.places.get(next).cloned() {
            next += 1;
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && path.as_os_str().len() < LONGEST
                {
                    wood.places.push(path.clone());
                }
                if !entry.file_name().as_bytes().starts_with(b"keep") {
                    wood.free.push(path);
                }
            }
        }
        wood
    }
}

/// Options to open files without blocking, because a concurrent writer may have replaced the file
/// by a FIFO.
fn at_once() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Makes `changes` random changes under `top`: creates, links, renames, exchanges, removes,
/// truncates, writes, changes of mode, owner, times and attributes. Keeps some removed files open
/// as long as the result lives. Changes no entry whose name begins with `keep`, but may create
/// entries in such a directory.
pub(crate) fn mutate(top: &Path, dice: &mut Dice, changes: usize) -> Vec<File> {
    let mut orphans = Vec::new();
    let mut wood = Wood::survey(top);
    for n in 0..changes {
        if n % 500 == 499 {
            wood = Wood::survey(top);
        }
        // The path may have changed since the listing: then this change is skipped.
        let fresh = dice
            .pick(&wood.places)
            .join(format!("{}-{n}", dice.below(1_000_000)));
        if wood.free.len() < 50 || dice.one_in(5) {
            match dice.below(6) {
                0 => drop(fs::create_dir(&fresh)),
                1 => drop(symlink("somewhere", &fresh)),
                2 => drop(mknodat(CWD, &fresh, FileType::Fifo, Mode::from(0o600), 0)),
                _ => drop(fs::write(&fresh, vec![b'm'; dice.below(9000)])),
            }
            continue;
        }
        let old = dice.pick(&wood.free);
        match dice.below(14) {
            0 | 1 => drop(fs::rename(old, &fresh)),
            2 => drop(fs::rename(old, dice.pick(&wood.free))),
            3 => drop(renameat_with(
                CWD,
                old,
                CWD,
                dice.pick(&wood.free),
                RenameFlags::EXCHANGE,
            )),
            4 => drop(fs::hard_link(old, &fresh)),
            5 if !old.is_symlink() => {
                drop(fs::set_permissions(
                    old,
                    Permissions::from_mode(0o600 | u32::from(dice.one_in(2))),
                ));
            }
            6 => drop(chownat(
                CWD,
                old,
                Some(Uid::from_raw(1000)),
                None,
                AtFlags::SYMLINK_NOFOLLOW,
            )),
            7 => drop(utimensat(
                CWD,
                old,
                &any_times(dice),
                AtFlags::SYMLINK_NOFOLLOW,
            )),
            8 => drop(lsetxattr(
                old,
                "user.mutated",
                &dice.bytes(20),
                XattrFlags::empty(),
            )),
            9 | 10 if old.symlink_metadata().is_ok_and(|status| status.is_file()) => {
                if let Ok(mut file) = at_once().append(true).open(old) {
                    let _ = if dice.one_in(2) {
                        file.set_len(0)
                    } else {
                        file.write_all(&[b'm'; 5000])
                    };
                }
            }
            11 => {
                if orphans.len() < 20 && old.symlink_metadata().is_ok_and(|status| status.is_file())
                {
                    orphans.extend(at_once().read(true).open(old));
                }
                drop(fs::remove_file(old));
            }
            _ => drop(fs::remove_file(old).or_else(|_| fs::remove_dir(old))),
        }
    }
    orphans
}

/// The directories of a tree with few names, so that renames often hit an existing path.
const DIRS: [&str; 9] = ["a", "b", "c", "a/a", "a/b", "b/a", "b/b", "c/a", "c/b"];

/// Fills a tree of few names with files, some of which have hard links in several directories.
pub(crate) fn plant(top: &Path, dice: &mut Dice) {
    for at in DIRS {
        // Existing entries stay.
        let _ = fs::create_dir(top.join(at));
        for name in ["x", "y", "z"] {
            let file = top.join(at).join(name);
            match dice.below(4) {
                0 => drop(fs::write(&file, vec![b'x'; dice.below(100)])),
                1 | 2 => drop(fs::hard_link(top.join(dice.pick(&DIRS)).join(name), &file)),
                _ => {}
            }
        }
    }
}

/// Changes a tree of [`plant`]: renames and exchanges directories, removes some with their
/// contents, and renames files.
pub(crate) fn shuffle(top: &Path, dice: &mut Dice, changes: usize) {
    for _ in 0..changes {
        let (one, other) = (top.join(dice.pick(&DIRS)), top.join(dice.pick(&DIRS)));
        let (file, name) = (
            one.join(dice.pick(&["x", "y", "z"])),
            other.join(dice.pick(&["x", "y", "z"])),
        );
        // Operations that fail are skipped.
        match dice.below(14) {
            0 if !one.starts_with(&other) => {
                drop(fs::remove_dir_all(&other).and_then(|()| fs::rename(&one, &other)));
            }
            1 => drop(fs::rename(&one, &other)),
            2 => drop(fs::create_dir_all(&one)),
            3..=6 => drop(renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE)),
            7 => drop(fs::write(&file, vec![b'x'; dice.below(100)])),
            8 | 9 => drop(fs::hard_link(&file, &name)),
            10 => drop(fs::rename(&file, &name)),
            _ => drop(fs::remove_file(&file)),
        }
    }
}
