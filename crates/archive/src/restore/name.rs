//! Names in archives: validation and selection.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::directory::each_entry;
use base::path::{below, components, or_dot, split, trim_slashes};
use gate::Fd;
use gate::fs::{AtFlags, FileType, Open, StatxMask};
use gate::long::{open_beneath, statx_long};
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Member, MemberKind};
use walk::entry::joined;

use super::created::is_empty;
use super::not_restored::{Failure, NotRestored};
use super::report::{Note, RestoreMessages};
use crate::error::{Action, BadName, Error, ErrorKind};
use crate::input::{Input, is_regular};
use crate::list::{is_within, plain};
use crate::pattern::PathArgument;
use crate::route::Region;

/// A normalized member name, relative to DIR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ArchiveName {
    /// Components joined by single slashes; empty for DIR itself.
    pub(super) path: Vec<u8>,
    /// Whether the name began with a slash.
    pub(super) was_absolute: bool,
}

/// Normalizes a name: without leading, trailing and repeated slashes, and without `.`.
///
/// # Errors
/// The name is invalid, so its member is not restored.
pub(super) fn clean(raw: &[u8]) -> Result<ArchiveName, BadName> {
    if raw.is_empty() {
        return Err(BadName::Empty);
    }
    if raw.contains(&0) {
        return Err(BadName::Nul);
    }
    if components(raw).any(|part| part == b"..") {
        return Err(BadName::DotDot);
    }
    Ok(ArchiveName {
        path: plain(raw).into_owned(),
        was_absolute: raw.starts_with(b"/"),
    })
}

/// Removes the first `components` of a name, counting `.` as one like GNU tar; `None` if nothing
/// remains.
fn strip(raw: &[u8], components: usize) -> Option<&[u8]> {
    let without_slashes = |name: &[u8]| name.iter().take_while(|&&b| b == b'/').count();
    let mut rest = trim_slashes(raw);
    for _ in 0..components {
        rest = &rest[without_slashes(rest)..];
        let slash = rest.iter().position(|&b| b == b'/')?;
        rest = &rest[slash..];
    }
    Some(&rest[without_slashes(rest)..])
}

/// Whether a dumpdir lists files that are only in an earlier archive.
fn lists_earlier_files(dumpdir: &[u8]) -> bool {
    let entries = dumpdir::entries(dumpdir);
    entries.is_some_and(|mut entries| entries.any(|(code, _)| code == Code::N))
}

/// Renames of directories in order, as pairs of old and new name. The temporary directory is named
/// by a NUL.
pub(super) type Renames = Vec<(Vec<u8>, Vec<u8>)>;

type NameSet = BTreeSet<Vec<u8>>;

/// The PATHs to restore; without any, everything is selected. PATHs are final names, valid after
/// the last archive: a file with a different name in an earlier archive is restored under its final
/// name at once.
#[derive(Debug, Default)]
pub(super) struct SelectedPaths {
    given: Vec<PathArgument>,
    /// Index in `given` of each normalized PATH, and of each name that a pattern matched in an
    /// earlier archive.
    names: BTreeMap<Vec<u8>, usize>,
    /// Indexes in `given` of PATHs with wildcards.
    patterns: Vec<usize>,
    /// Number of leading components to remove from restored names; only with a single archive.
    /// PATHs still refer to the names in the archive.
    pub(super) stripped: usize,
    pub(super) skips_devices: bool,
    /// Names of skipped devices.
    devices: HashSet<Vec<u8>>,
    /// The renames of each archive, where known.
    renames: Arc<Vec<Option<Renames>>>,
    /// Index of the current archive.
    turn: usize,
    /// Maps names in the current archive to final names.
    then: NameMap,
    /// Maps final names to names in the current archive.
    before: NameMap,
    /// PATHs that a later archive has removed, as given.
    removed: HashSet<Vec<u8>>,
    /// Whether members may be lost, because an archive is damaged.
    pub(super) is_incomplete: bool,
    /// Paths below DIR of mounts that do not answer.
    pub(super) silent: Vec<Vec<u8>>,
}

impl SelectedPaths {
    /// Parses PATHs.
    ///
    /// # Errors
    /// A PATH is invalid as a member name.
    pub(super) fn new(paths: &[Vec<u8>]) -> Result<SelectedPaths, Error> {
        let mut chosen = SelectedPaths::default();
        for (at, raw) in paths.iter().enumerate() {
            let name =
                clean(raw).map_err(|why| Error::new(Action::Restore, raw, ErrorKind::BadName(why)));
            let path = PathArgument::new(raw, name?.path);
            chosen.patterns.extend(path.pattern.is_some().then_some(at));
            chosen.names.insert(path.name.clone(), at);
            chosen.given.push(path);
        }
        Ok(chosen)
    }

    /// Checks that a path below DIR is on no mount that does not answer: a system call there could
    /// block forever.
    pub(super) fn check_mount(&self, path: &[u8]) -> Result<(), NotRestored> {
        let mut silent = self.silent.iter();
        match silent.any(|mount| below(mount, path).is_some()) {
            true => Err(NotRestored::SilentMount),
            false => Ok(()),
        }
    }

    /// Reports the defects of an archive found since the last call; returns whether members are
    /// lost.
    pub(super) fn take_losses(
        &mut self,
        input: &mut Input,
        archive: &[u8],
        remarks: &mut RestoreMessages,
    ) -> bool {
        let defects = input.take_defects();
        let is_loss = defects.iter().any(|it| it.damage.is_loss());
        remarks.defects(archive, defects);
        self.is_incomplete |= is_loss;
        is_loss
    }

    pub(super) fn is_all(&self) -> bool {
        self.given.is_empty()
    }

    /// For each PATH with wildcards the directory above its matches; any other PATH itself.
    pub(super) fn trees(&self) -> impl Iterator<Item = &[u8]> {
        self.given.iter().map(PathArgument::tree)
    }

    /// Sets the renames of each archive, where known, to trace the PATHs through them.
    pub(super) fn trace(&mut self, renames: Vec<Option<Renames>>) {
        self.renames = Arc::new(renames);
        self.find_places();
    }

    /// The renames of each archive, where known.
    pub(super) fn renames(&self) -> Arc<Vec<Option<Renames>>> {
        Arc::clone(&self.renames)
    }

    pub(super) fn next_archive(&mut self) {
        self.turn += 1;
        self.find_places();
    }

    fn find_places(&mut self) {
        (self.then, self.before) = Default::default();
        let renames = self.renames();
        let later = || renames.iter().skip(self.turn + 1).flatten().flatten();
        later()
            .rev()
            .for_each(|(old, new)| self.then.carry(old, new));
        later().for_each(|(old, new)| self.before.carry(new, old));
    }

    /// Whether a member is a device, or a hard link to a skipped one.
    fn is_device(&mut self, member: &Member, name: &[u8]) -> bool {
        let is_device = match member.kind {
            MemberKind::Char | MemberKind::Block => true,
            MemberKind::Link => clean(&member.link).is_ok_and(|to| self.devices.contains(&to.path)),
            _ => false,
        };
        match is_device {
            true => self.devices.insert(name.to_vec()),
            false => self.devices.remove(name),
        };
        is_device
    }

    /// The path to restore a member to; `None` if it was not selected, or has too few components to
    /// strip.
    pub(super) fn take_member(
        &mut self,
        member: &Member,
        remarks: &mut RestoreMessages,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let name = clean(&member.path).map_err(NotRestored::BadName)?;
        let Some(place) = self.restored_name(&name.path) else {
            return Ok(None);
        };
        // A later archive has a directory at this path, whose entries may have been restored
        // already.
        if member.kind != MemberKind::Directory && self.has_ahead(&place, &name.path) {
            return Ok(None);
        }
        self.keep_match(&place);
        if self.skips_devices && self.is_device(member, &name.path) {
            remarks.note(Note::DevicesLeftOut);
            return Ok(None);
        }
        if name.was_absolute {
            remarks.note(Note::SlashLeftOut);
        }
        if self.turn == 0 && member.dumpdir.as_deref().is_some_and(lists_earlier_files) {
            remarks.note(Note::FirstIsIncrement);
        }
        let path = match self.stripped {
            0 => Some(place),
            stripped => {
                let rest = strip(&member.path, stripped).map(clean).transpose();
                rest.map_err(NotRestored::BadName)?.map(|name| name.path)
            }
        };
        path.iter().try_for_each(|path| self.check_mount(path))?;
        Ok(path)
    }

    /// The path to which the target of a hard link is restored.
    pub(super) fn take_link(&self, link: &[u8]) -> Result<Vec<u8>, NotRestored> {
        let target = clean(link).map_err(NotRestored::BadLink)?.path;
        if self.stripped == 0 {
            // The target may be removed by a later archive, so it has no final name.
            let place = self.place(&target).unwrap_or(target);
            return self.check_mount(&place).map(|()| place);
        }
        let rest = strip(link, self.stripped).map(clean).transpose();
        let rest = rest.map_err(NotRestored::BadLink)?;
        let path = rest.map(|name| name.path);
        let path = path.ok_or(NotRestored::NoSuchTarget(target))?;
        self.check_mount(&path).map(|()| path)
    }

    /// Whether the target of a hard link was selected.
    pub(super) fn has_link(&self, link: &[u8]) -> bool {
        let place = clean(link).ok().and_then(|name| self.place(&name.path));
        place.is_some_and(|place| self.has(&place))
    }

    /// Checks that each PATH is in some archive, unless one of the archives cannot be read twice or
    /// to its end.
    ///
    /// # Errors
    /// The first PATH that is in no archive.
    pub(super) fn check_paths(&mut self, archives: &[Vec<u8>]) -> Result<(), Error> {
        let is_complete = self.read_members(archives, |own, member| {
            let name = clean(&member.path);
            let is_new = name.is_ok_and(|name| own.restored_name(&name.path).is_some());
            is_new && own.given.iter().all(|path| path.is_met)
        });
        self.turn = 0;
        self.find_places();
        let missed = self.given.iter().find(|path| !path.is_met);
        let missed = missed.map(|path| path.given.clone());
        self.given.iter_mut().for_each(|path| path.is_met = false);
        match missed.filter(|_| is_complete == Some(true)) {
            None => Ok(()),
            Some(path) => {
                let seen = statx_long(&path, AtFlags::empty(), StatxMask::TYPE);
                let is_directory = seen.is_ok_and(|seen| seen.file_type == FileType::Directory);
                let kind = ErrorKind::NoSuchPath { is_directory };
                Err(Error::new(Action::Restore, &path, kind))
            }
        }
    }

    /// Whether a path below DIR is a directory with entries, on a mount that answers.
    pub(super) fn is_filled(&self, dir: &Fd, path: &[u8]) -> bool {
        let open = || open_beneath(dir.as_fd(), or_dot(path), Open::SCAN);
        self.check_mount(path).is_ok() && open().is_ok_and(|here| !is_empty(&here))
    }

    pub(super) fn has_wildcards(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The name that a pattern matches, a final name or a directory above it, and the index of the
    /// pattern's PATH.
    fn matched<'a>(&self, place: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let mut patterns = self.patterns.iter();
        patterns.find_map(|&at| Some((self.given[at].find(place)?, at)))
    }

    /// The directories below `dir` with entries that a restore would remove or mix with its own:
    /// PATHs, directories that wildcards match, and directories of increments with an existing
    /// entry that wildcards match and no archive has. `None` if an archive cannot be read twice or
    /// to its end.
    pub(super) fn find_conflicts(
        &mut self,
        archives: &[Vec<u8>],
        dir: &Fd,
    ) -> Option<Vec<Vec<u8>>> {
        let found = self.find_matches(archives, dir);
        self.turn = 0;
        self.find_places();
        let (names, purged) = found?;
        let literal = self.given.iter().filter(|path| path.pattern.is_none());
        let whole = literal.map(|path| &path.name).chain(&names);
        let mut conflicts: Vec<_> = whole
            .filter(|path| self.is_filled(dir, path))
            .cloned()
            .collect();
        conflicts.extend(purged.into_iter().filter(|path| {
            let mut is_lost = false;
            if let Ok(here) = open_beneath(dir.as_fd(), or_dot(path), Open::SCAN) {
                // A directory that cannot be read is not purged.
                let _ = each_entry(&here, |entry| {
                    let whole = joined(path, entry.name.to_bytes());
                    let matched = self.matched(&whole);
                    is_lost |= matched.is_some_and(|(name, _)| !names.contains(name));
                });
            }
            is_lost
        }));
        Some(conflicts)
    }

    /// The names that wildcards match in the archives, and the existing directories below `dir`
    /// from which increments remove unlisted entries.
    fn find_matches(&mut self, archives: &[Vec<u8>], dir: &Fd) -> Option<(NameSet, NameSet)> {
        let (mut names, mut purged) = (NameSet::new(), NameSet::new());
        self.read_members(archives, |own, member| {
            let name = clean(&member.path).ok();
            let Some(place) = name.and_then(|name| own.place(&name.path)) else {
                return false;
            };
            if let Some((name, _)) = own.matched(&place)
                && !names.contains(name)
            {
                names.insert(name.to_vec());
            }
            if own.turn > 0 && member.dumpdir.is_some() && own.is_filled(dir, &place) {
                purged.insert(place);
            }
            false
        })?;
        Some((names, purged))
    }

    /// Records the name that a pattern matched, so that a later archive can remove the file.
    fn keep_match(&mut self, place: &[u8]) {
        if self.renames.len() < 2 {
            return;
        }
        if let Some((name, at)) = self.matched(place)
            && !self.names.contains_key(name)
        {
            self.names.insert(name.to_vec(), at);
        }
    }

    /// Records that an archive has removed a selected name: its PATH counts as missing, unless a
    /// different file matches it, or a member restores it again.
    pub(super) fn forget(&mut self, name: &[u8]) {
        let Some(&at) = self.names.get(name) else {
            return;
        };
        let path = &mut self.given[at];
        if name != path.name {
            self.names.remove(name);
        }
        let mut others = self.names.iter();
        path.is_met = others.any(|(other, nth)| *nth == at && *other != path.name);
        if !path.is_met {
            self.removed.insert(path.given.clone());
        }
    }

    /// The regions of the current archive to read: PATHs, or the directories above wildcards, by
    /// their names in this archive; and in an increment their parent directories, whose dumpdirs
    /// tell what is removed. `None` for the whole archive.
    pub(super) fn regions(&self) -> Option<Vec<Region>> {
        if self.is_all() {
            return None;
        }
        let mut regions = Vec::new();
        for path in self.trees() {
            let names = self.before.place_of(path);
            let names = names.iter().map(|name| &name[..]);
            regions.extend(names.chain(self.before.below(path)).map(Region::tree));
            if self.turn > 0 {
                let above = ends(path, b'/').filter(|&end| end < path.len());
                let above = above.filter_map(|end| self.before.place_of(&path[..end]));
                regions.extend(above.map(|name| Region::single(&name)));
            }
        }
        // Unknown renames could move members of any name into a selected directory.
        let is_known = self.renames.iter().skip(1).all(Option::is_some);
        is_known.then_some(regions)
    }

    /// Passes the members of archives to `take`, until it returns `true`. Returns whether no member
    /// is lost; `None` if an archive cannot be read twice or to its end.
    fn read_members(
        &mut self,
        archives: &[Vec<u8>],
        mut take: impl FnMut(&mut SelectedPaths, &Member) -> bool,
    ) -> Option<bool> {
        let mut is_complete = true;
        for archive in archives {
            if !is_regular(archive) {
                return None;
            }
            let mut input = Input::open(archive).ok()?;
            if let Some(regions) = self.regions() {
                input.narrow(regions);
            }
            while let Some(member) = input.next_or_resume().ok()? {
                if take(self, &member) {
                    return Some(is_complete);
                }
            }
            let defects = input.take_defects();
            is_complete &= !defects.iter().any(|it| it.damage.is_loss());
            self.next_archive();
        }
        Some(is_complete)
    }

    /// The final name of a normalized name, if it was selected.
    fn restored_name(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let place = self.place(path)?;
        if let Some(at) = self.named(&place) {
            self.given[at].is_met = true;
        }
        for &at in &self.patterns {
            let path = &mut self.given[at];
            path.is_met = path.is_met || path.find(&place).is_some();
        }
        self.has(&place).then_some(place)
    }

    /// The final name of a file with a normalized name in the current archive; `None` if it is
    /// removed later.
    pub(super) fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.then.place_of(path)
    }

    /// Whether a final name was selected.
    pub(super) fn has(&self, place: &[u8]) -> bool {
        self.is_all() || self.named(place).is_some() || self.matched(place).is_some()
    }

    /// PATHs below a final name, and names below it that matched a pattern.
    pub(super) fn below(&self, dir: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut start = dir.to_vec();
        if !dir.is_empty() {
            start.push(b'/');
        }
        self.names
            .range(start.clone()..)
            .map(|(name, _)| &name[..])
            .take_while(move |name| name.starts_with(&start))
            .filter(|name| !name.is_empty())
    }

    /// The name of a directory's entry in its dumpdir. The directory is named `dir` in the current
    /// archive, with the final name `place`. `None` if the entry is not in this directory in the
    /// current archive, or if nothing of it was selected.
    pub(super) fn listed(&self, dir: &[u8], place: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        if self.is_all() {
            return Some(name.to_vec());
        }
        let whole = joined(place, name);
        let was = self
            .before
            .place_of(&whole)
            .filter(|_| self.has(&whole) || self.below(&whole).next().is_some())?;
        let (above, name) = split(&was);
        (above == dir).then(|| name.to_vec())
    }

    /// Whether an entry below `place` was restored ahead of a later archive: its final name is
    /// below `place`, but in the current archive it is not below `dir`. A later archive creates a
    /// new directory at `place`.
    pub(super) fn has_ahead(&self, place: &[u8], dir: &[u8]) -> bool {
        self.before.below(place).any(|was| !is_within(was, dir))
    }

    /// [`SelectedPaths::has_ahead`], including `place` itself.
    pub(super) fn is_ahead(&self, place: &[u8], dir: &[u8]) -> bool {
        self.before
            .place_of(place)
            .is_some_and(|was| !is_within(&was, dir))
            || self.has_ahead(place, dir)
    }

    /// Whether a rename of the current archive must be carried out: where the renames are known,
    /// selected files have been restored under their final names.
    pub(super) fn has_in(&self, dir: &[u8]) -> bool {
        let is_known = self.renames.get(self.turn).is_some_and(Option::is_some);
        self.is_all() || !is_known && (self.has(dir) || self.below(dir).next().is_some())
    }

    /// The index of the PATH that equals a normalized name, or is above it, ignoring wildcards.
    fn named(&self, path: &[u8]) -> Option<usize> {
        ends(path, b'/')
            .find_map(|end| self.names.get(&path[..end]))
            .copied()
    }

    /// Warns of PATHs that are in no archive.
    pub(super) fn warn_of_missed(mut self, remarks: &mut RestoreMessages) {
        self.given.sort_by(|a, b| a.given.cmp(&b.given));
        let has_renames = self.renames.iter().flatten().any(|it| !it.is_empty());
        for PathArgument { given, .. } in self.given.iter().filter(|path| !path.is_met) {
            let reason = match self.is_incomplete {
                _ if has_renames || self.removed.contains(given) => NotRestored::NotInLastTree,
                true => NotRestored::NotInUndamagedPart,
                false => NotRestored::NoSuchMember,
            };
            remarks.warn(given, reason);
        }
    }
}

/// The name of a file after a rename of the directory `old`.
pub(super) fn after(name: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    match name.strip_prefix(old) {
        Some(rest @ ([] | [b'/', ..])) => [new, rest].concat(),
        _ => name,
    }
}

/// Maps names at one time to names of the same files at another time. Files below a name move with
/// it, unless the map has a longer name for them; an unmapped file keeps its name. `None`: the file
/// does not exist at the other time.
///
/// Keys have NUL instead of slash, so that a name sorts directly before all names below it.
#[derive(Debug, Default)]
struct NameMap(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl NameMap {
    fn place_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        let key = key(name);
        match ends(&key, 0).find_map(|end| Some((end, self.0.get(&key[..end])?))) {
            None => Some(name.to_vec()),
            Some((end, to)) => to.as_ref().map(|to| [to, &name[end..]].concat()),
        }
    }

    /// The mapped names of entries below a name that do not move with it.
    fn below(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        starting_with(&self.0, inside(name)).filter_map(|(_, to)| to.as_deref())
    }

    /// Extends the map by a rename: `from` maps to what `to` has mapped to so far, with everything
    /// below, and `to` maps to no file.
    fn carry(&mut self, from: &[u8], to: &[u8]) {
        if from.is_empty() || to.is_empty() || is_within(from, to) || is_within(to, from) {
            return;
        }
        let whole = self.place_of(to);
        let (from, to) = (key(from), key(to));
        self.take(&from);
        for (name, place) in self.take(&to) {
            self.0.insert([&from, &name[to.len()..]].concat(), place);
        }
        self.0.insert(from, whole);
        self.0.insert(to, None);
    }

    /// Removes a key, and all keys below it.
    fn take(&mut self, key: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        take_tree(&mut self.0, key)
    }
}

/// The key prefix of all names below a name.
fn inside(name: &[u8]) -> Vec<u8> {
    match name {
        b"" => Vec::new(),
        name => [&key(name)[..], b"\0"].concat(),
    }
}

/// The entries whose keys start with a prefix.
fn starting_with<T>(
    map: &BTreeMap<Vec<u8>, T>,
    prefix: Vec<u8>,
) -> impl Iterator<Item = (&Vec<u8>, &T)> {
    map.range((Bound::Included(prefix.clone()), Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(&prefix))
}

/// Removes a key and all keys below it from a map.
fn take_tree<T>(map: &mut BTreeMap<Vec<u8>, T>, key: &[u8]) -> Vec<(Vec<u8>, T)> {
    let is_below = |name: &[u8]| matches!(name[key.len()..], [] | [0, ..]);
    let all = starting_with(map, key.to_vec()).map(|(name, _)| name);
    let tree: Vec<_> = all.filter(|name| is_below(name)).cloned().collect();
    tree.into_iter()
        .filter_map(|name| map.remove_entry(&name))
        .collect()
}

/// Converts a name to a key: NUL instead of slash.
fn key(path: &[u8]) -> Vec<u8> {
    let mut key = path.to_vec();
    key.iter_mut().filter(|b| **b == b'/').for_each(|b| *b = 0);
    key
}

/// The lengths of a path and of each of its ancestors, up to DIR itself.
pub(super) fn ends(path: &[u8], slash: u8) -> impl Iterator<Item = usize> {
    let above = path
        .iter()
        .enumerate()
        .rev()
        .filter(move |(_, b)| **b == slash)
        .map(|(at, _)| at);
    std::iter::once(path.len()).chain(above).chain([0])
}

/// Whether all renames of an increment were read, once a directory of it was: fathom lists them in
/// the first directory, GNU tar in any. Without its renames, an increment lists directories by names
/// that they do not have.
pub(super) fn has_renames(input: &Input, has_directory: bool) -> bool {
    has_directory && input.is_by_fathom()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized() {
        let plain = |raw: &[u8]| clean(raw).map(|name| name.path);
        assert_eq!(plain(b"./a//b/./c/"), Ok(b"a/b/c".to_vec()));
        assert_eq!(plain(b"./"), Ok(b"".to_vec()));
        assert_eq!(
            clean(b"//etc/passwd"),
            Ok(ArchiveName {
                path: b"etc/passwd".to_vec(),
                was_absolute: true
            })
        );
        assert_eq!(plain(b"..a/b.."), Ok(b"..a/b..".to_vec()));
        for bad in [&b""[..], b"..", b"a/..", b"a/../b", b"a\0b", b"/../x"] {
            assert!(clean(bad).is_err(), "{bad:?}");
        }
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }

    #[test]
    fn components_are_counted_as_gnu_tar_does() {
        for (name, components, rest) in [
            ("a/b/c", 0, Some("a/b/c")),
            ("a/b/c", 1, Some("b/c")),
            ("a/b/c/", 2, Some("c")),
            ("a/b/c", 3, None),
            ("a//b", 1, Some("b")),
            ("//a/b", 1, Some("b")),
            ("./a/b", 1, Some("a/b")),
            ("./a/b", 2, Some("b")),
            ("a/.", 1, Some(".")),
            ("a/", 1, None),
            ("./", 1, None),
            ("", 1, None),
            ("/", 1, None),
        ] {
            let rest = rest.map(str::as_bytes);
            assert_eq!(
                strip(name.as_bytes(), components),
                rest,
                "{name} {components}"
            );
        }
    }

    fn chosen(paths: &[&str]) -> SelectedPaths {
        SelectedPaths::new(
            &paths
                .iter()
                .map(|path| path.as_bytes().to_vec())
                .collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn a_chosen_path_includes_what_is_below_it() {
        let mut some = chosen(&["a/b/", "x", "never"]);
        for (path, is_taken) in [
            ("a/b", true),
            ("a/b/c", true),
            ("a/bc", false),
            ("a", false),
            ("x", true),
            ("xy", false),
        ] {
            assert_eq!(
                some.restored_name(path.as_bytes()).is_some(),
                is_taken,
                "{path}"
            );
        }
        assert_eq!(missed(&some), ["never"]);
        assert!(SelectedPaths::new(&[b"../x".to_vec()]).is_err());
        assert!(chosen(&["."]).restored_name(b"anything").is_some());
        assert!(chosen(&[]).restored_name(b"anything").is_some() && chosen(&[]).is_all());
    }

    fn missed(some: &SelectedPaths) -> Vec<&str> {
        let missed = some.given.iter().filter(|path| !path.is_met);
        missed
            .map(|path| str::from_utf8(&path.given).unwrap())
            .collect()
    }

    /// The paths to which some members of the current archive are restored; empty if not selected.
    fn taken<const N: usize>(some: &mut SelectedPaths, paths: [&str; N]) -> [String; N] {
        paths.map(|path| {
            String::from_utf8(some.restored_name(path.as_bytes()).unwrap_or_default()).unwrap()
        })
    }

    fn renames(all: &[(&str, &str)]) -> Option<Renames> {
        Some(
            all.iter()
                .map(|(old, new)| (old.as_bytes().to_vec(), new.as_bytes().to_vec()))
                .collect(),
        )
    }

    #[test]
    fn a_chosen_path_is_found_by_its_earlier_names() {
        let mut some = chosen(&["now/x", "into", "swap1"]);
        let swap = [("swap1", "\0"), ("swap2", "swap1"), ("\0", "swap2")];
        some.trace(vec![
            renames(&[]),
            renames(&[("first", "then")]),
            renames(&[("then", "now"), ("from", "into/it")]),
            renames(&swap),
        ]);
        let paths = [
            "first/x", "then/x", "now/x", "then/y", "into/z", "from/z", "swap1", "swap2/f",
        ];
        assert_eq!(
            taken(&mut some, paths),
            ["now/x", "", "", "", "into/z", "into/it/z", "", "swap1/f"]
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["", "now/x", "", "", "into/z", "into/it/z", "", "swap1/f"]
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["", "", "now/x", "", "into/z", "", "", "swap1/f"]
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["", "", "now/x", "", "into/z", "", "swap1", ""]
        );
        assert!(missed(&some).is_empty());
    }

    #[test]
    fn a_file_restored_ahead_of_its_time_is_not_the_one_of_that_archive() {
        let mut some = chosen(&["new"]);
        some.trace(vec![
            renames(&[]),
            renames(&[]),
            renames(&[("old", "new/deep/in")]),
        ]);
        for archive in 0..3 {
            let (place, is_before) = (|of: &str| of.as_bytes().to_vec(), archive < 2);
            assert_eq!(
                some.has_ahead(&place("new"), b"new"),
                is_before,
                "{archive}"
            );
            assert_eq!(
                some.is_ahead(&place("new/deep/in"), b"new"),
                is_before,
                "{archive}"
            );
            assert!(
                !some.has_ahead(&place("new/deep/in"), b"new")
                    && !some.has_ahead(&place("ne"), b"ne"),
                "{archive}"
            );
            assert!(
                !some.is_ahead(&place("new/deep/other"), b"new"),
                "{archive}"
            );
            some.next_archive();
        }
    }

    #[test]
    fn a_file_that_is_moved_away_or_removed_later_is_not_chosen() {
        let mut some = chosen(&["z", "a"]);
        some.trace(vec![
            renames(&[]),
            renames(&[("a", "z")]),
            renames(&[("z/out", "b"), ("c", "z/in")]),
        ]);
        let paths = ["a", "a/f", "a/out", "a/out/f", "z/f", "c/f", "b"];
        assert_eq!(
            taken(&mut some, paths),
            ["z", "z/f", "", "", "", "z/in/f", ""],
            "another z, which was removed"
        );
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["a", "a/f", "a/out", "a/out/f", "z/f", "z/in/f", ""],
            "another a, which is new"
        );
        assert_eq!(some.listed(b"z", b"z", b"f"), Some(b"f".to_vec()));
        assert_eq!(some.listed(b"z", b"z", b"in"), None, "not yet in it");
        assert_eq!(some.listed(b"", b"", b"z"), Some(b"z".to_vec()));
        assert_eq!(some.listed(b"", b"", b"other"), None);
        some.next_archive();
        assert_eq!(
            taken(&mut some, paths),
            ["a", "a/f", "a/out", "a/out/f", "z/f", "", ""]
        );
    }
}
