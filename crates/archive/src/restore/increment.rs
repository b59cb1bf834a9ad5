//! What an increment says of a directory besides its members: which directories were renamed, and
//! what is in it. GNU tar's `GNU.dumpdir`.
//!
//! Only archives after the first rename or take away anything: the first is laid over what is
//! there.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::rc::Rc;

use gate::file::renameat2;
use gate::fs::{At, FileType, Open, Want, getdents64, statx};
use gate::long::{c_string, open_beneath, statx_long};
use gate::{Errno, Fd, Gate};
use ondisk::dirent::{EntryType, entries};
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Kind, Member};

use super::name::{Renames, after, clean, join, split};
use super::remove::remove;
use super::{Restorer, Trouble, help, on_the_way};
use crate::error::BadName;
use crate::input::Input;
use crate::shown;
use crate::warning::WarningKind;

/// One name of a directory here.
struct Present {
    name: CString,
    is_directory: bool,
    /// Whether it stays.
    stays: bool,
    /// The name that a list has it by.
    listed: Vec<u8>,
}

impl Restorer<'_> {
    /// Carries out the renames, in their order.
    pub(super) fn renames(&mut self, path: &[u8], text: &[u8]) {
        let Some(entries) = dumpdir::entries(text) else {
            return;
        }; // `purge` warns of it
        let (mut temporary, mut from) = (None, None);
        for (code, name) in entries {
            let done = match code {
                Code::X => {
                    let dir = clean(if name.is_empty() { b"." } else { name }).map_err(refused);
                    dir.and_then(|dir| self.free_name(&dir.path))
                        .map(|free| temporary = Some(free))
                }
                Code::R => {
                    from = Some(name);
                    continue;
                }
                Code::T => self.rename(from.unwrap_or_default(), name, temporary.as_deref()),
                Code::Y | Code::N | Code::D => continue,
            };
            if let Err(trouble) = done {
                self.remarks
                    .warn(if name.is_empty() { path } else { name }, trouble);
            }
        }
    }

    /// A name in a directory that nothing has: that of the temporary directory for renames in a
    /// circle.
    fn free_name(&mut self, dir: &[u8]) -> Result<Vec<u8>, Trouble> {
        const TRIES: u32 = 1000;
        let here = open_beneath(self.top.as_fd(), dir, Open::PATH | Open::DIRECTORY)
            .map_err(on_the_way)?;
        for n in 0..TRIES {
            let name = format!(".fathom-renamed-{n}");
            let c_name = c_string(name.as_bytes()).map_err(on_the_way)?;
            if statx(&here, &c_name, At::SYMLINK_NOFOLLOW, Want::TYPE).is_err() {
                return Ok(if dir.is_empty() {
                    name.into_bytes()
                } else {
                    [dir, b"/", name.as_bytes()].concat()
                });
            }
        }
        Err(Trouble::because(
            "there is no name free for a directory to be renamed to meanwhile",
        ))
    }

    fn rename(&mut self, from: &[u8], to: &[u8], temporary: Option<&[u8]>) -> Result<(), Trouble> {
        let whole = |name: &[u8]| match (name, temporary) {
            (b"", Some(temporary)) => Ok(temporary.to_vec()),
            (b"", None) => Err(Trouble::because(
                "not renamed: the archive names no temporary directory",
            )),
            (name, _) => clean(name).map(|name| name.path).map_err(refused),
        };
        let last = |name: Vec<u8>| self.chosen.place(&name).unwrap_or(name);
        let (from, to) = (last(whole(from)?), last(whole(to)?));
        if from.is_empty() || to.is_empty() {
            return Err(Trouble::because(
                "not renamed: it is the directory to restore into",
            ));
        }
        let is_temporary = temporary == Some(&from[..]);
        if !is_temporary && !self.chosen.has_in(&from) {
            return Ok(());
        }
        // What is known of directories on the way goes by their old names.
        self.leave_all();
        self.linked = None;
        let failed = |gate, errno| {
            let next = match errno {
                Errno::ENOENT => "is an earlier archive of the chain missing?",
                Errno::ENOTEMPTY | Errno::EEXIST => {
                    "something has the new name; restore into an empty directory"
                }
                _ => "what is in it may be missing under its new name",
            };
            let kind = WarningKind::NotRenamed {
                from: from.clone(),
                consequence: format!("{next}{}", help(errno)),
            };
            Trouble::failed(gate, errno, kind)
        };
        let is_there = |own: &Self, name: &[u8]| {
            open_beneath(own.top.as_fd(), name, Open::PATH | Open::DIRECTORY).is_ok()
        };
        let ((old_dir, old), (new_dir, new)) = (split(&from), split(&to));
        let old_dir = match open_beneath(self.top.as_fd(), old_dir, Open::SCAN) {
            // Nothing in it was chosen that was there; or GNU tar tells of a directory that came
            // along with the one it is in.
            Err(Errno::ENOENT) if !self.chosen.is_all() || is_there(self, &to) => return Ok(()),
            other => other.map_err(|e| failed(Gate::Openat2, e))?,
        };
        let names = c_string(old)
            .and_then(|old| Ok((old, c_string(new)?)))
            .map_err(|e| failed(Gate::Renameat2, e))?;
        let seen = match statx(&old_dir, &names.0, At::SYMLINK_NOFOLLOW, Want::BASIC_STATS) {
            Err(Errno::ENOENT) if !self.chosen.is_all() || is_there(self, &to) => return Ok(()),
            other => other.map_err(|e| failed(Gate::Statx, e))?,
        };
        // The directory above the new name may be new itself.
        self.enter(new_dir)?;
        let new_dir = self.here()?;
        let mut done = renameat2(&old_dir, &names.0, &new_dir, &names.1);
        if done == Err(Errno::EACCES) && !self.rights.is_root {
            done = self.rename_own(
                &old_dir,
                &new_dir,
                &names,
                seen.file_type == FileType::Directory,
            );
        }
        done.map_err(|e| failed(Gate::Renameat2, e))?;
        self.counts.renamed += 1;
        Ok(())
    }

    /// A user's own directories may be read-only: for the time of a rename, those that it writes to
    /// are not.
    fn rename_own(
        &self,
        old_dir: &Fd,
        new_dir: &Fd,
        names: &(CString, CString),
        is_directory: bool,
    ) -> gate::Result<()> {
        let itself = is_directory
            .then(|| open_beneath(old_dir.as_fd(), names.0.to_bytes(), Open::SCAN))
            .transpose()?;
        let mut changed = Vec::new();
        for dir in [Some(old_dir), Some(new_dir), itself.as_ref()]
            .into_iter()
            .flatten()
        {
            let seen = statx(dir, c"", At::EMPTY_PATH, Want::BASIC_STATS)?;
            if seen.uid == self.rights.uid && seen.mode & 0o700 != 0o700 {
                gate::create::fchmod(dir, seen.mode | 0o700)?;
                changed.push((dir, seen.mode));
            }
        }
        let done = renameat2(old_dir, &names.0, new_dir, &names.1);
        for (dir, mode) in changed.into_iter().rev() {
            gate::create::fchmod(dir, mode)?;
        }
        done
    }

    /// Does what an increment says of a directory that was not chosen, as far as it is about what
    /// was.
    pub(super) fn pass_by(&mut self, member: &Member, text: &[u8]) -> Result<(), Trouble> {
        self.renames(&member.path, text);
        let Ok(name) = clean(&member.path) else {
            return Ok(());
        };
        let Some(place) = self.chosen.place(&name.path) else {
            return Ok(());
        };
        let is_above = self.chosen.below(&place).next().is_some();
        if !is_above
            || open_beneath(self.top.as_fd(), &place, Open::PATH | Open::DIRECTORY).is_err()
        {
            return Ok(());
        }
        self.enter(&place)?;
        self.purge(&place, &name.path, text)
    }

    /// Takes away what is in a directory, the last on the way, and was not when the increment was
    /// made. The archive has it by the name `name`.
    pub(super) fn purge(&mut self, path: &[u8], name: &[u8], text: &[u8]) -> Result<(), Trouble> {
        let Some(said) = dumpdir::entries(text) else {
            let what =
                "what the archive says of its entries cannot be read: nothing in it is taken away";
            return Err(Trouble::because(what));
        };
        let here = self.here()?;
        let mut present = list(&here)?;
        present.retain_mut(|entry| {
            let listed = self.chosen.listed(name, path, entry.name.to_bytes());
            listed.map(|listed| entry.listed = listed).is_some()
        });
        present.sort_unstable_by(|a, b| a.listed.cmp(&b.listed));
        let is_whole = self.chosen.has(path);
        let dir = name;
        let (mut missing, mut first_missing) = (0_u64, None);
        for (code, name) in said {
            let at = present
                .binary_search_by(|entry| entry.listed[..].cmp(name))
                .ok();
            match (code, at.and_then(|at| present.get_mut(at))) {
                (Code::Y, Some(entry)) => entry.stays = !entry.is_directory,
                (Code::D, Some(entry)) => entry.stays = entry.is_directory,
                // Of a directory, GNU tar says so now and then.
                (Code::N, Some(entry)) => entry.stays = true,
                // It may be known to come to lie elsewhere.
                (Code::N, None)
                    if is_whole
                        && self.chosen.place(&join(dir, name)) == Some(join(path, name)) =>
                {
                    missing += 1;
                    first_missing.get_or_insert(name);
                }
                (Code::Y | Code::N | Code::D | Code::R | Code::T | Code::X, _) => {}
            }
        }
        if let Some(first) = first_missing {
            let first = shown(first);
            let others = if missing > 1 {
                format!(" and {} others", missing - 1)
            } else {
                String::new()
            };
            let what = format!(
                "'{first}'{others} should be in it from an earlier archive of the chain: is one missing?"
            );
            self.remarks.warn(
                if path.is_empty() { b"." } else { path },
                Trouble::because(what),
            );
        }
        for entry in present.iter().filter(|entry| !entry.stays) {
            let (whole, was) = (join(path, entry.name.to_bytes()), join(dir, &entry.listed));
            if self.chosen.has(&whole) {
                // A directory with something ahead of its time in it has a list of its own in a
                // later archive.
                if !self.chosen.has_ahead(&whole, &was) {
                    self.counts.removed += remove(&here, &entry.name, &whole, &mut self.remarks);
                }
                self.linked = None;
                continue;
            }
            // Of what was not chosen, what was is taken away.
            for gone in self
                .chosen
                .below(&whole)
                .filter(|gone| !self.chosen.is_ahead(gone, &was))
            {
                let (above, name) = split(gone);
                if let (Ok(above), Ok(name)) = (
                    open_beneath(self.top.as_fd(), above, Open::SCAN),
                    c_string(name),
                ) {
                    self.counts.removed += remove(&Rc::new(above), &name, gone, &mut self.remarks);
                }
            }
            self.linked = None;
        }
        Ok(())
    }
}

fn refused(why: BadName) -> Trouble {
    Trouble::because(format!("not renamed: {why}"))
}

/// What is in an open directory.
fn list(here: &Rc<Fd>) -> Result<Vec<Present>, Trouble> {
    let failed = |e| {
        Trouble::call(
            Gate::Getdents64,
            e,
            "its entries cannot be read: nothing in it is taken away",
        )
    };
    let mut buffer = vec![0; 32 << 10];
    let mut present = Vec::new();
    // A descriptor of its own, to be read from the beginning.
    let dir = open_beneath(here.as_fd(), b".", Open::SCAN).map_err(failed)?;
    loop {
        let n = getdents64(&dir, &mut buffer).map_err(failed)?;
        if n == 0 {
            return Ok(present);
        }
        for entry in entries(&buffer[..n.min(buffer.len())]) {
            let is_directory = match entry.entry_type {
                EntryType::Directory => true,
                EntryType::Other => false,
                EntryType::Unknown => statx(&dir, entry.name, At::SYMLINK_NOFOLLOW, Want::TYPE)
                    .is_ok_and(|seen| seen.file_type == FileType::Directory),
            };
            let name = entry.name.to_owned();
            present.push(Present {
                name,
                is_directory,
                stays: false,
                listed: Vec::new(),
            });
        }
    }
}

/// The renames that archives carry out, each in its first directory; none for one that cannot be
/// read twice. The first archive carries out none.
pub(super) fn traced(archives: &[Vec<u8>]) -> Vec<Option<Renames>> {
    let of = |(at, archive): (usize, &Vec<u8>)| {
        let is_plain = || {
            statx_long(archive, At::empty(), Want::TYPE)
                .is_ok_and(|seen| seen.file_type == FileType::Regular)
        };
        if at == 0 || archive == b"-" || !is_plain() {
            return None;
        }
        let mut input = Input::open(archive).ok()?;
        loop {
            match input.next().ok()? {
                None => return Some(Renames::new()),
                Some(first) if first.kind == Kind::Directory => {
                    return Some(first.dumpdir.as_deref().map_or_else(Renames::new, pairs));
                }
                Some(_) => {}
            }
        }
    };
    archives.iter().enumerate().map(of).collect()
}

/// The renames that a dumpdir tells of. Of directories that came along with the one that they are
/// in, GNU tar tells as well: those are left out.
pub(super) fn pairs(text: &[u8]) -> Renames {
    /// More than these are not kept; only names that were chosen are looked for by them.
    const MOST: usize = 50_000;
    /// Nor more bytes of names.
    const BYTES: usize = 4 << 20;
    /// With more than these, nobody looks which go without saying: that takes time with their
    /// square.
    const FEW: usize = 1000;
    let (mut renames, mut bytes) = (Renames::new(), 0);
    let mut from = Vec::new();
    // No name has a NUL in it, so that it can be that of the temporary directory.
    let key = |name: &[u8]| clean(name).map_or(b"\0".to_vec(), |name| name.path);
    for (code, name) in dumpdir::entries(text).into_iter().flatten() {
        match code {
            Code::R => from = key(name),
            Code::T => {
                let (old, new) = (std::mem::take(&mut from), key(name));
                let is_known =
                    renames.len() < FEW && renames.iter().fold(old.clone(), after) == new;
                let size = bytes + old.len() + new.len();
                if !is_known && renames.len() < MOST && size <= BYTES {
                    bytes = size;
                    renames.push((old, new));
                }
            }
            Code::X | Code::Y | Code::N | Code::D => {}
        }
    }
    renames
}
