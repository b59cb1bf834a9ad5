//! Iterates over the members of archives.

use std::borrow::Cow;

use base::Warning;
use base::path::{below, components};
use ondisk::pax::Member;

use crate::error::{Defect, Error, ErrorKind, Result};
use crate::input::Input;
use crate::pattern::{PathArgument, PathArguments};
use crate::route::Region;
use crate::warning::WarningKind;

/// Selects members by names or patterns, including everything below them.
#[derive(Clone, Debug, Default)]
pub struct MemberSelection {
    paths: PathArguments,
    /// Whether members may be lost, because an archive is damaged.
    pub(crate) is_incomplete: bool,
}

impl MemberSelection {
    /// Without names, selects all members.
    pub fn new(given: &[Vec<u8>]) -> MemberSelection {
        let mut wanted = MemberSelection::default();
        for name in given {
            wanted.paths.add(name, plain(name).into_owned());
        }
        wanted
    }

    pub(crate) fn is_all(&self) -> bool {
        self.paths.given.is_empty()
    }

    /// Whether a member is selected; marks the names that match.
    pub fn has(&mut self, path: &[u8]) -> bool {
        self.is_all() || self.paths.mark(&plain(path))
    }

    /// Like [`MemberSelection::has`], without marking the names that match.
    pub(crate) fn includes(&self, path: &[u8]) -> bool {
        self.is_all() || self.paths.has(&plain(path))
    }

    /// The regions of an archive that can contain selected members; `None` for the whole archive.
    pub(crate) fn regions(&self) -> Option<Vec<Region>> {
        let trees = self.paths.given.iter().map(PathArgument::tree);
        (!self.is_all()).then(|| trees.map(Region::tree).collect())
    }

    /// A warning for each name that no member had.
    pub fn missing(&self) -> impl Iterator<Item = Warning> {
        let unmet = self.paths.given.iter().filter(|name| !name.is_met);
        unmet.map(|name| match self.is_incomplete {
            true => Warning::about(&name.given, WarningKind::NotInUndamagedPart),
            false => Warning::about(&name.given, WarningKind::NoSuchMember),
        })
    }
}

/// A normalized name relative to a directory: empty for the directory itself, `None` outside it. All
/// names are in the directory with the empty name.
pub(crate) fn relative<'a>(name: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    match dir.is_empty() {
        true => Some(name),
        false => below(dir, name),
    }
}

/// Whether a normalized name equals that of a directory, or is below it.
pub(crate) fn is_within(name: &[u8], dir: &[u8]) -> bool {
    relative(name, dir).is_some()
}

/// A normalized name: without `.`, and without leading, trailing or repeated slashes.
pub(crate) fn plain(name: &[u8]) -> Cow<'_, [u8]> {
    // Most names are normalized already: exactly one slash between components.
    let len: usize = components(name).map(|part| part.len() + 1).sum();
    match len == name.len() + 1 {
        true => Cow::Borrowed(name),
        false => Cow::Owned(components(name).collect::<Vec<_>>().join(&b'/')),
    }
}

/// The name of an archive, and the archive open for reading.
pub type NamedInput<'a> = (&'a [u8], Input);

/// Opens all archives before any is read, so that a missing one is reported first.
///
/// # Errors
/// That of the first archive that cannot be opened.
pub fn open(names: &[Vec<u8>]) -> Result<Vec<NamedInput<'_>>> {
    names
        .iter()
        .map(|name| Ok((&name[..], Input::open(name)?)))
        .collect()
}

/// The warning for an archive that cannot be read any further.
pub fn unreadable(error: &Error) -> Warning {
    match &error.kind {
        ErrorKind::Catalog(catalog::ErrorKind::Call {
            gate: Some(gate),
            errno,
        }) => Warning::failed(&error.path, *gate, *errno, WarningKind::ArchiveUnreadable),
        _ => Warning::about(&error.path, WarningKind::ArchiveEnds(error.kind.clone())),
    }
}

/// The warning for a defect of the archive `name`.
pub(crate) fn defect(name: &[u8], defect: Defect) -> Warning {
    let Defect { member, at, damage } = defect;
    let kind = ErrorKind::DamagedArchive { at, damage };
    Warning::about(
        member.as_deref().unwrap_or(name),
        WarningKind::Damaged(kind),
    )
}

/// Calls `take` for each selected member of the archive `name`, with the offset of its headers.
/// Defects are added to the warnings.
///
/// # Errors
/// The archive ends early, or `take` fails.
pub fn each<E: From<Error>>(
    (name, input): &mut NamedInput<'_>,
    wanted: &mut MemberSelection,
    warnings: &mut Vec<Warning>,
    mut take: impl FnMut(u64, &Member) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    if let Some(regions) = wanted.regions() {
        input.narrow(regions);
    }
    loop {
        let next = input.next_or_resume();
        let defects = input.take_defects();
        wanted.is_incomplete |= next.is_err() || defects.iter().any(|it| it.damage.is_loss());
        warnings.extend(defects.into_iter().map(|it| defect(name, it)));
        let Some(member) = next? else { return Ok(()) };
        if wanted.has(&member.path) {
            take(input.at(), &member)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_of_one_file_are_equal() {
        for name in ["a/b", "./a/b", "/a//b/", "a/./b/."] {
            assert_eq!(plain(name.as_bytes()), &b"a/b"[..], "{name}");
        }
        assert_eq!(plain(b"./"), &b""[..]);
    }
}
