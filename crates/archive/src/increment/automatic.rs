//! Chooses the archive name and the level of a dump from its state directory: one command for every
//! night.
//!
//! Every increment has level 1, so it is based on the last full dump: restoring any night needs at
//! most two archives, and removing one night affects no other one.

use std::ffi::CString;
use std::sync::Arc;

use base::path::trim_slashes;
use base::{Warning, path};
use catalog::remote;
use gate::fs::{AtFlags, Attributes, Open, StatxMask};
use gate::long::{c_string, open_long, split_path, stat_long, statx_long};
use gate::{Errno, Fd, Gate};
use ondisk::mnttab::mount_point;
use ondisk::utc;
use walk::Moment;
use walk::entry::joined;

use super::base::Base;
use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::history::{History, Lock, absolute_state};
use crate::increment::levels::Level;
use crate::increment::record::{ArchiveStatus, catalog_id, catalog_of};
use crate::increment::retention::not_pruned;
use crate::passwd::read_head;
use crate::plan::in_archive;

/// The options for choosing the names and the levels of dumps in a state directory.
#[derive(Clone, Copy, Debug)]
pub struct AutomaticOptions<'a> {
    /// The state directory.
    pub state: &'a [u8],
    /// The SRCs of the dump, as given.
    pub sources: &'a [Vec<u8>],
    /// The interval of full dumps, counted in dumps.
    pub full_every: u32,
    /// The suffix of the archives' names.
    pub suffix: &'a str,
}

/// The archive name and the level chosen for a dump.
#[derive(Debug)]
pub struct Automatic {
    /// Path of the archive, in the state directory; the file does not exist yet.
    pub archive: Vec<u8>,
    /// The chosen level: 0 for a full dump, 1 for an increment.
    pub level: Level,
    /// Why the dump is full; `None` for an increment.
    pub full: Option<FullReason>,
    /// Whether the state directory was created for this dump.
    pub is_created: bool,
    /// Lock that excludes other dumps from the state directory; `None` if nothing is to be written.
    pub lock: Option<Arc<Lock>>,
    /// The warning that files left by an earlier dump could not be removed.
    pub unremoved: Option<Warning>,
}

/// Why a dump is full.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FullReason {
    /// This is the first dump.
    First,
    /// As many increments as allowed are based on the last full dump.
    Due {
        /// Number of increments based on the last full dump.
        increments: u32,
    },
    /// There is no catalog of a full dump.
    NoCatalog,
    /// The catalog of the last full dump is damaged.
    DamagedCatalog,
    /// The catalog belongs to a dump that is not recorded.
    NotRecorded,
    /// The last full dump had different SRCs.
    OtherSources {
        /// The SRCs of the last full dump.
        roots: Vec<Vec<u8>>,
    },
    /// The archive of the last full dump is missing, or was replaced.
    ArchiveGone {
        /// Path of the archive; `None` if it was streamed.
        archive: Option<Vec<u8>>,
    },
    /// A verification found damage in the archive of the last full dump.
    DamagedArchive {
        /// Path of the archive.
        archive: Vec<u8>,
    },
    /// A SRC is not the directory of the last full dump.
    ReplacedSource {
        /// The SRC, as given.
        source_path: Vec<u8>,
        /// Whether it is on a different file system.
        is_other_file_system: bool,
    },
}

impl FullReason {
    /// The reason for a full dump after an increment failed with this error; `None` if a full dump
    /// would fail, too.
    pub fn from_error(error: &ErrorKind) -> Option<FullReason> {
        let replaced = |source_path: &[u8], is_other_file_system| FullReason::ReplacedSource {
            source_path: source_path.to_vec(),
            is_other_file_system,
        };
        match error {
            ErrorKind::ReplacedSource {
                source_path,
                is_other_file_system,
            } => Some(replaced(source_path, *is_other_file_system)),
            ErrorKind::SourceChangedType { source_path, .. } => Some(replaced(source_path, false)),
            kind => kind
                .is_unusable_catalog()
                .then_some(FullReason::DamagedCatalog),
        }
    }
}

/// Opens the parent of a missing state directory; `None` if the state directory exists.
///
/// # Errors
/// The parent does not exist.
fn parent_of_missing(state: &[u8]) -> Result<Option<(Fd, CString)>> {
    let error = |kind: ErrorKind| Error::new(Action::CreateState, state, kind);
    if remote::is_remote(state) {
        return Ok(None); // stores have no directories
    }
    match stat_long(state, StatxMask::TYPE) {
        Err(Errno::ENOENT) => {}
        _ => return Ok(None),
    }
    let (dir, name) = split_path(trim_slashes(state));
    let dir = open_long(dir, Open::DIRECTORY).map_err(|errno| match errno {
        Errno::ENOENT => error(ErrorKind::NoParent),
        errno => error(catalog::ErrorKind::call(Gate::Openat)(errno).into()),
    })?;
    let name = c_string(name).map_err(|errno| error(errno.into()))?;
    Ok(Some((dir, name)))
}

/// Checks that a state directory without dumps is not on an unmounted file system: the dump would
/// fill the file system below the mount point.
///
/// # Errors
/// /etc/fstab has a mount point at or above the state directory, and nothing is mounted there.
fn check_mounted(state: &[u8]) -> Result<()> {
    const MOST: u64 = 1 << 20;
    if remote::is_remote(state)
        || stat_long(&joined(state, b"dumps.ndjson"), StatxMask::TYPE).is_ok()
    {
        return Ok(());
    }
    let above = || mounts::root::absolute_file(trim_slashes(state));
    let Some(place) = mounts::root::absolute(state).or_else(above) else {
        return Ok(());
    };
    for line in read_head(b"/etc/fstab", MOST).split(|&byte| byte == b'\n') {
        let Some(mount_point) = mount_point(line) else {
            continue;
        };
        let is_above = path::below(trim_slashes(&mount_point), &place).is_some();
        // Only mount points above the state directory are examined: a server of another one may not
        // answer.
        let is_unused = || {
            let seen = statx_long(&mount_point, AtFlags::NO_AUTOMOUNT, StatxMask::TYPE);
            seen.is_ok_and(|seen| {
                let knows = seen.attributes_known.contains(Attributes::MOUNT_ROOT);
                knows && !seen.attributes.contains(Attributes::MOUNT_ROOT)
            })
        };
        if mount_point != b"/" && is_above && is_unused() {
            let kind = ErrorKind::NotMounted { mount_point };
            return Err(Error::new(Action::OpenState, state, kind));
        }
    }
    Ok(())
}

/// Creates a state directory with mode 0700. Returns `false` if it exists already.
///
/// # Errors
/// The parent does not exist, or the directory is on a file system of /etc/fstab that is not
/// mounted.
pub fn create_state(state: &[u8]) -> Result<bool> {
    check_mounted(state)?;
    let Some((dir, name)) = parent_of_missing(state)? else {
        return Ok(false);
    };
    match gate::create::mkdirat(&dir, &name, 0o700) {
        Err(Errno::EEXIST) => Ok(false),
        done => {
            let created = done.map(|()| true);
            created.map_err(|errno| Error::new(Action::CreateState, state, errno))
        }
    }
}

impl AutomaticOptions<'_> {
    /// Locks the state directory, which is created if it does not exist, removes the files of a
    /// killed dump, and chooses the level and the name.
    ///
    /// # Errors
    /// The directory cannot be used, or another dump is using it.
    pub fn choose(&self) -> Result<Automatic> {
        let is_created = create_state(self.state)?;
        let (mut history, lock) = History::open(self.state)?;
        // A failed removal only gives a warning, since it does not prevent the dump.
        let unremoved = history.finish_removal().err();
        Ok(Automatic {
            is_created,
            lock: Some(Arc::new(lock)),
            unremoved: unremoved.map(not_pruned),
            ..self.choose_from(&history)?
        })
    }

    /// Makes the same choice as [`AutomaticOptions::choose`], without creating, locking or removing
    /// anything.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn predict_next(&self) -> Result<Automatic> {
        check_mounted(self.state)?;
        let history = match parent_of_missing(self.state)? {
            Some(_) => History::default(),
            None => History::read(self.state)?,
        };
        self.choose_from(&history)
    }

    /// A full dump instead of the chosen increment, whose base cannot be used. The archive gets a
    /// new name, because the name has the level.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn choose_full_instead(&self, chosen: Automatic, why: FullReason) -> Result<Automatic> {
        let history = History::read(self.state)?;
        let full = self.choose_name(&history, Some(why))?;
        Ok(Automatic {
            archive: full.archive,
            level: full.level,
            full: full.full,
            ..chosen
        })
    }

    fn choose_from(&self, history: &History) -> Result<Automatic> {
        self.choose_name(history, self.choose_full(history)?)
    }

    /// The level and the name of the next dump, which is full for the given reason.
    fn choose_name(&self, history: &History, full: Option<FullReason>) -> Result<Automatic> {
        let begun = Moment::now();
        let level = Level {
            number: u8::from(full.is_none()),
            state: self.state.to_vec(),
        };
        if full.is_some() {
            Base::check_full(&level, self.sources)?;
        }
        let name = name_of(self.sources, begun.time().sec, level.number);
        Ok(Automatic {
            archive: free_name(history, self.state, &name, self.suffix)?,
            level,
            full,
            is_created: false,
            lock: None,
            unremoved: None,
        })
    }

    /// Why the next dump is a full one; `None` for an increment.
    ///
    /// # Errors
    /// The store does not answer.
    fn choose_full(&self, history: &History) -> Result<Option<FullReason>> {
        let level = Level {
            number: 0,
            state: self.state.to_vec(),
        };
        let reader = match catalog::Reader::open(&level.catalog()) {
            Ok(reader) => reader,
            Err(error) => match &error.kind {
                kind if kind.is_missing() => {
                    let is_first = history.dumps().is_empty();
                    let first = is_first.then_some(FullReason::First);
                    return Ok(first.or(Some(FullReason::NoCatalog)));
                }
                catalog::ErrorKind::Store(_) => return Err(error.into()),
                _ => return Ok(Some(FullReason::DamagedCatalog)),
            },
        };
        let about = reader.about();
        let roots = about.roots.iter().map(|root| in_archive(&root.path));
        if !roots.eq(self.sources.iter().map(|source| in_archive(source))) {
            let roots = about.roots.iter().map(|root| root.path.clone()).collect();
            return Ok(Some(FullReason::OtherSources { roots }));
        }
        let id = catalog_id(about);
        let Some(base) = history.dumps().iter().position(|dump| dump.catalog == id) else {
            return Ok(Some(FullReason::NotRecorded));
        };
        let chain = history.chain(base).unwrap_or_default();
        for dump in chain.into_iter().map(|at| &history.dumps()[at]) {
            let archive = dump.archive.clone();
            match dump.status() {
                ArchiveStatus::Present => {}
                ArchiveStatus::Damaged => {
                    let archive = archive.unwrap_or_default();
                    return Ok(Some(FullReason::DamagedArchive { archive }));
                }
                ArchiveStatus::Missing | ArchiveStatus::Replaced | ArchiveStatus::Streamed => {
                    return Ok(Some(FullReason::ArchiveGone { archive }));
                }
            }
        }
        let increments = history.next_nth(Some(&id)) - 1;
        let is_due = increments + 1 >= self.full_every;
        Ok(is_due.then_some(FullReason::Due { increments }))
    }
}

/// The file name of an archive without its suffix: the last component of the first SRC, the time
/// when the dump began, and the level.
fn name_of(sources: &[Vec<u8>], second: i64, level: u8) -> String {
    let date: String = utc(second).chars().take(16).filter(|c| *c != ':').collect();
    let source = sources.first().map_or(&b""[..], |source| source);
    format!("{}-{date}Z-{level}", source_name(source))
}

/// The last component of a SRC, without characters that are special to shells or file systems;
/// `root` for the root directory.
fn source_name(source: &[u8]) -> String {
    /// Maximum length of the name: leaves room for date, level and suffix in a file name of 255
    /// bytes.
    const MOST: usize = 100;
    let last = |path: &[u8]| base::path::components(path).last().map(<[u8]>::to_vec);
    let given = last(source).filter(|name| name != b"..");
    let name = given.or_else(|| last(&mounts::root::absolute(path::or_dot(source))?));
    let mut safe = String::new();
    for c in String::from_utf8_lossy(&name.unwrap_or_default()).chars() {
        let is_safe = c.is_alphanumeric() || matches!(c, '_' | '-' | '.') && !safe.is_empty();
        let c = if is_safe && c != '\u{fffd}' { c } else { '_' };
        if safe.len() + c.len_utf8() > MOST {
            break;
        }
        safe.push(c);
    }
    match safe.is_empty() {
        true => "root".to_owned(),
        false => safe,
    }
}

/// A path that no file or object, no recorded archive and no kept catalog has.
fn free_name(history: &History, state: &[u8], name: &str, suffix: &str) -> Result<Vec<u8>> {
    let is_remote = remote::is_remote(state);
    let state = absolute_state(state).unwrap_or_else(|| state.to_vec());
    let mut number = 1_u32;
    loop {
        let nth = if number == 1 {
            String::new()
        } else {
            format!(".{number}")
        };
        let path = joined(&state, format!("{name}{nth}{suffix}").as_bytes());
        let is_recorded = history
            .dumps()
            .iter()
            .any(|dump| dump.archive.as_ref() == Some(&path));
        let error = |kind: ErrorKind| Error::new(Action::WriteArchive, &path, kind);
        let is_free = |path: &[u8]| match is_remote {
            true => {
                let found = remote::find(path).map(|object| object.is_none());
                found.map_err(|kind| error(catalog::ErrorKind::from(kind).into()))
            }
            false => match statx_long(path, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE) {
                Err(Errno::ENOENT) => Ok(true),
                Ok(_) => Ok(false),
                Err(errno) => Err(error(errno.into())),
            },
        };
        if !is_recorded && is_free(&path)? && is_free(&catalog_of(&path))? {
            return Ok(path);
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe() {
        for (source, expected) in [
            (&b"/srv"[..], "srv"),
            (b"/srv/www/", "www"),
            (b"/", "root"),
            (b"/srv/-rf *", "_rf__"),
            (b"/srv/.hidden", "_hidden"),
            (b"/srv/a.b-c_d", "a.b-c_d"),
            (b"/srv/\xff\n", "__"),
            ("/srv/données".as_bytes(), "données"),
        ] {
            assert_eq!(source_name(source), expected, "{source:?}");
        }
        assert_eq!(source_name(&vec![b'x'; 255]).len(), 100);
        let sources = [b"/srv".to_vec(), b"/home".to_vec()];
        assert_eq!(
            name_of(&sources, 1_795_831_200, 1),
            "srv-2026-11-28T0200Z-1"
        );
    }
}
