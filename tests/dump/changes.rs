//! Makes random changes to a tree between dumps.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, RenameFlags, Timespec, Timestamps, Uid, XattrFlags, chownat,
    lsetxattr, mknodat, renameat_with, utimensat,
};

use crate::support::build::chmod;
use crate::support::trees::{Dice, any_times};

/// All paths below a directory; a directory precedes its entries.
fn below(top: &Path) -> Vec<PathBuf> {
    let (mut all, mut next) = (vec![top.to_owned()], 0);
    while let Some(at) = all.get(next).cloned() {
        next += 1;
        if at.symlink_metadata().is_ok_and(|status| status.is_dir()) {
            let mut inside: Vec<PathBuf> = fs::read_dir(&at)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            inside.sort();
            all.extend(inside);
        }
    }
    all.remove(0);
    all
}

/// atime and mtime, to be restored later.
fn times(path: &Path) -> Option<Timestamps> {
    let status = path.symlink_metadata().ok()?;
    Some(Timestamps {
        last_access: Timespec {
            tv_sec: status.atime(),
            tv_nsec: status.atime_nsec(),
        },
        last_modification: Timespec {
            tv_sec: status.mtime(),
            tv_nsec: status.mtime_nsec(),
        },
    })
}

/// Overwrites a file with the same size and times: only the ctime changes.
pub(crate) fn overwrite_unseen(path: &Path, with: u8) {
    let times = times(path).unwrap();
    let size = path.metadata().unwrap().len();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&vec![with; usize::try_from(size.min(5000)).unwrap()], 0)
        .unwrap();
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn remove(path: &Path) {
    let _ = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

/// Creates an entry of a random type.
fn sprout(at: &Path, dice: &mut Dice) {
    match dice.below(9) {
        0 | 1 => {
            let _ = fs::create_dir(at);
            for n in 0..dice.below(4) {
                let _ = fs::write(at.join(format!("inner {n}")), [b'i'; 100]);
            }
        }
        2 => drop(symlink("nowhere", at)),
        3 => drop(symlink("/nowhere/at/all", at)),
        4 => drop(symlink("..", at)),
        5 => drop(mknodat(CWD, at, FileType::Fifo, Mode::from(0o600), 0)),
        6 => {
            let file = File::create(at).unwrap();
            file.set_len(3 << 20).unwrap();
            file.write_all_at(b"far out", 1 << 20).unwrap();
        }
        _ => fs::write(at, vec![b'n'; dice.below(20_000)]).unwrap(),
    }
}

/// Makes `count` random changes below `top`.
pub(crate) fn change(top: &Path, dice: &mut Dice, count: usize) {
    for n in 0..count {
        let all = below(top);
        let dirs: Vec<&PathBuf> = all
            .iter()
            .filter(|path| path.is_dir() && !path.is_symlink())
            .collect();
        let into = if dirs.is_empty() || dice.one_in(8) {
            top.to_owned()
        } else {
            (*dice.pick(&dirs)).clone()
        };
        // Names are reused, so that new entries replace others.
        let fresh = into.join(format!("{}", dice.below(12)));
        if all.len() < 40 || dice.one_in(6) {
            if fresh.symlink_metadata().is_err() {
                sprout(&fresh, dice);
            }
            continue;
        }
        let one = dice.pick(&all).clone();
        let dir = if dirs.is_empty() {
            top.to_owned()
        } else {
            (*dice.pick(&dirs)).clone()
        };
        let is_file = one.symlink_metadata().is_ok_and(|status| status.is_file());
        match dice.below(18) {
            0 => drop(fs::rename(&one, &fresh)),
            1 | 2 => drop(renameat_with(
                CWD,
                &dir,
                CWD,
                &fresh,
                RenameFlags::NOREPLACE,
            )),
            3 => drop(renameat_with(CWD, &dir, CWD, &one, RenameFlags::EXCHANGE)),
            4 => drop(renameat_with(
                CWD,
                &dir,
                CWD,
                *dice.pick(&dirs),
                RenameFlags::EXCHANGE,
            )),
            // A directory replaces an entry.
            5 if !one.starts_with(&dir) && !dir.starts_with(&one) => {
                remove(&one);
                let _ = fs::rename(&dir, &one);
            }
            // A directory moves into one of its former subdirectories.
            6 => {
                let aside = top.join("aside");
                if let Some(inner) = below(&dir)
                    .into_iter()
                    .find(|path| path.is_dir() && !path.is_symlink())
                {
                    fs::rename(&inner, &aside).unwrap();
                    fs::rename(&dir, aside.join(format!("was above {}", dice.roll()))).unwrap();
                    fs::rename(&aside, &dir).unwrap();
                }
            }
            7 => {
                remove(&one);
                if dice.one_in(2) {
                    sprout(&one, dice);
                }
            }
            8 => drop(fs::hard_link(&one, &fresh)),
            9 if !one.is_symlink() => {
                let mode = 0o600 | u32::try_from(dice.below(0o200)).unwrap();
                chmod(&one, mode);
            }
            10 => {
                let (user, group) = (
                    Uid::from_raw(1000),
                    Gid::from_raw(dice.below(4000).try_into().unwrap()),
                );
                let _ = chownat(
                    CWD,
                    &one,
                    Some(user),
                    Some(group),
                    AtFlags::SYMLINK_NOFOLLOW,
                );
            }
            11 => {
                let value = vec![b'v'; dice.below(100)];
                let name = if one.is_symlink() {
                    "trusted.changed"
                } else {
                    "user.changed"
                };
                let _ = lsetxattr(&one, name, &value, XattrFlags::empty());
            }
            12 if is_file => overwrite_unseen(&one, n as u8 | 1),
            13 if is_file => OpenOptions::new()
                .append(true)
                .open(&one)
                .unwrap()
                .write_all(&[b'a'; 3000])
                .unwrap(),
            14 if is_file => {
                let size = one.metadata().unwrap().len();
                OpenOptions::new()
                    .write(true)
                    .open(&one)
                    .unwrap()
                    .set_len(size / 2)
                    .unwrap();
            }
            15 => utimensat(CWD, &one, &any_times(dice), AtFlags::SYMLINK_NOFOLLOW).unwrap(),
            _ => {
                // The file may be a fifo: opening it must not wait..
                let how = libc::O_NOFOLLOW | libc::O_NONBLOCK;
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .custom_flags(how)
                    .open(&fresh);
                if let Ok(file) = file
                    && file.metadata().unwrap().is_file()
                {
                    file.write_all_at(b"a hole before this", 300_000).unwrap();
                }
            }
        }
    }
}
