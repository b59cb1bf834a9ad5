//! Selects members by the PATHs to restore.

use std::collections::HashSet;
use std::sync::Arc;

use base::path::{below, split};
use ondisk::pax::dumpdir::{self, Code};
use ondisk::pax::{Member, MemberKind};
use walk::entry::joined;

use super::name::{clean, strip};
use super::name_map::{NameMap, Renames};
use super::not_restored::{Failure, NotRestored};
use super::report::{Note, RestoreMessages};
use crate::error::{Action, Error, ErrorKind};
use crate::input::Input;
use crate::list::is_within;
use crate::pattern::{PathArgument, PathArguments, ends};
use crate::route::Region;

mod conflicts;

/// Whether a dumpdir lists files that are only in an earlier archive.
fn lists_earlier_files(dumpdir: &[u8]) -> bool {
    let entries = dumpdir::entries(dumpdir);
    entries.is_some_and(|mut entries| entries.any(|(code, _)| code == Code::N))
}

/// The PATHs to restore; without any, everything is selected. PATHs are final names, valid after
/// the last archive: a file with a different name in an earlier archive is restored under its final
/// name at once.
#[derive(Clone, Debug, Default)]
pub(super) struct SelectedPaths {
    /// The PATHs, and each name that a pattern matched in an earlier archive.
    paths: PathArguments,
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
    /// Whether increments remove only what this restore has created.
    pub(super) keeps_existing: bool,
    /// PATHs of existing entries that the last tree does not have, as given.
    kept: HashSet<Vec<u8>>,
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
        for raw in paths {
            let name =
                clean(raw).map_err(|why| Error::new(Action::Restore, raw, ErrorKind::BadName(why)));
            chosen.paths.add(raw, name?.path);
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

    /// Reports the defects of an archive found since the last call. Returns whether members are lost
    /// that may list renames: fathom lists those of an increment in its first directory, GNU tar in
    /// any. Without its renames, an increment lists directories by names that they do not have.
    pub(super) fn take_losses(
        &mut self,
        input: &mut Input,
        archive: &[u8],
        has_directory: bool,
        remarks: &mut RestoreMessages,
    ) -> bool {
        let defects = input.take_defects();
        let is_loss = defects.iter().any(|it| it.damage.is_loss());
        remarks.defects(archive, defects);
        self.is_incomplete |= is_loss;
        is_loss && !(has_directory && input.is_by_fathom())
    }

    pub(super) fn is_all(&self) -> bool {
        self.paths.given.is_empty()
    }

    /// For each PATH with wildcards the directory above its matches; any other PATH itself.
    pub(super) fn trees(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.given.iter().map(PathArgument::tree)
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

    /// Records the name that a pattern matched, so that a later archive can remove the file.
    fn keep_match(&mut self, place: &[u8]) {
        if self.renames.len() < 2 {
            return;
        }
        if let Some((name, at)) = self.paths.matched(place)
            && !self.paths.names.contains_key(name)
        {
            self.paths.names.insert(name.to_vec(), at);
        }
    }

    /// Records that an archive has removed a selected name: its PATH counts as missing, unless a
    /// different file matches it, or a member restores it again.
    pub(super) fn forget(&mut self, name: &[u8]) {
        let PathArguments { given, names, .. } = &mut self.paths;
        let Some(&at) = names.get(name) else {
            return;
        };
        let path = &mut given[at];
        if name != path.name {
            names.remove(name);
        }
        let mut others = names.iter();
        path.is_met = others.any(|(other, nth)| *nth == at && *other != path.name);
        if !path.is_met {
            self.removed.insert(path.given.clone());
        }
    }

    /// Deselects an existing entry that increments would remove. Returns whether it is a PATH
    /// without wildcards.
    pub(super) fn keep(&mut self, name: &[u8]) -> bool {
        let PathArguments { given, names, .. } = &mut self.paths;
        let at = names.get(name).map(|&at| &given[at]);
        let Some(path) = at.filter(|path| path.pattern.is_none()) else {
            return false;
        };
        self.kept.insert(path.given.clone());
        names.remove(name);
        true
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

    /// The final name of a normalized name, if it was selected.
    fn restored_name(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let place = self.place(path)?;
        (self.paths.mark(&place) || self.is_all()).then_some(place)
    }

    /// The final name of a file with a normalized name in the current archive; `None` if it is
    /// removed later.
    pub(super) fn place(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.then.place_of(path)
    }

    /// Whether a final name was selected.
    pub(super) fn has(&self, place: &[u8]) -> bool {
        self.is_all() || self.paths.has(place)
    }

    /// PATHs below a final name, and names below it that matched a pattern.
    pub(super) fn below(&self, dir: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut start = dir.to_vec();
        if !dir.is_empty() {
            start.push(b'/');
        }
        let names = &self.paths.names;
        names
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

    /// The paths to remove because an increment does not list an entry, which has the final name
    /// `place`, and the name `was` in the current archive: the entry, or if it was not selected, the
    /// selected files below it.
    pub(super) fn removed_with(&self, place: &[u8], was: &[u8]) -> Vec<Vec<u8>> {
        if self.has(place) {
            // A directory that already has entries of a later archive is purged by that archive.
            let is_removed = !self.has_ahead(place, was);
            return Vec::from_iter(is_removed.then(|| place.to_vec()));
        }
        let below = self.below(place).filter(|gone| !self.is_ahead(gone, was));
        below.map(<[u8]>::to_vec).collect()
    }

    /// Whether a rename of the current archive must be carried out: where the renames are known,
    /// selected files have been restored under their final names.
    pub(super) fn has_in(&self, dir: &[u8]) -> bool {
        let is_known = self.renames.get(self.turn).is_some_and(Option::is_some);
        self.is_all() || !is_known && (self.has(dir) || self.below(dir).next().is_some())
    }

    /// Warns of PATHs that are in no archive.
    pub(super) fn warn_of_missed(self, remarks: &mut RestoreMessages) {
        let mut given = self.paths.given;
        given.sort_by(|a, b| a.given.cmp(&b.given));
        let has_renames = self.renames.iter().flatten().any(|it| !it.is_empty());
        for PathArgument { given, .. } in given.iter().filter(|path| !path.is_met) {
            let reason = match self.is_incomplete {
                _ if self.kept.contains(given) => NotRestored::KeptExisting,
                _ if has_renames || self.removed.contains(given) => NotRestored::NotInLastTree,
                true => NotRestored::NotInUndamagedPart,
                false => NotRestored::NoSuchMember,
            };
            remarks.warn(given, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // One member is of several PATHs.
        let mut some = chosen(&["a", "a/b", "a/*/c", "./a"]);
        assert!(some.restored_name(b"a/b/c").is_some() && missed(&some).is_empty());
        assert!(SelectedPaths::new(&[b"../x".to_vec()]).is_err());
        assert!(chosen(&["."]).restored_name(b"anything").is_some());
        assert!(chosen(&[]).restored_name(b"anything").is_some() && chosen(&[]).is_all());
    }

    fn missed(some: &SelectedPaths) -> Vec<&str> {
        let missed = some.paths.given.iter().filter(|path| !path.is_met);
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
