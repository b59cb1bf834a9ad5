//! The entries that a dump could not read, and which earlier dumps contain them.

use base::Warning;
use base::path::split;
use catalog::stored;
use serde::{Deserialize, Serialize};

use crate::list::{is_within, plain};
use crate::plan::member_name;
use crate::warning::is_loss;

/// The existing entries that a dump lacks, in whole or in part, because they could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UnreadEntries {
    /// Number of unread entries; an unreadable directory counts once.
    pub count: u64,
    /// Member names of unread entries, ascending. An empty name stands for unnamed entries.
    names: Vec<UnreadName>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
struct UnreadName {
    #[serde(flatten, with = "stored::path")]
    path: Vec<u8>,
}

impl UnreadEntries {
    /// Maximum number of names recorded; further entries are only counted.
    const MOST: usize = 1000;

    /// Collects the unread entries from the warnings of a dump.
    pub fn from_warnings(warnings: &[Warning]) -> UnreadEntries {
        let mut unread = UnreadEntries::default();
        for warning in warnings.iter().filter(|warning| is_loss(warning)) {
            match (&warning.path, warning.reason()) {
                (Some(path), _) => unread.names.push(UnreadName { path: name(path) }),
                (None, Some(walk::WarningKind::More(more))) => unread.count += more,
                (None, _) => unread.count += 1,
            }
        }
        unread.names.sort_unstable();
        unread.names.dedup();
        let is_all_named = unread.count == 0 && unread.names.len() <= UnreadEntries::MOST;
        unread.count += unread.names.len() as u64;
        if !is_all_named {
            unread.names.truncate(UnreadEntries::MOST);
            unread.names.insert(0, UnreadName { path: Vec::new() });
        }
        unread
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Recorded member names of unread entries.
    pub fn names(&self) -> Vec<&Vec<u8>> {
        let names = self.names.iter().map(|name| &name.path);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Whether an unread entry may be at, above or below one of these member names, which may have
    /// wildcards; without names, whether anything is unread.
    pub fn concerns(&self, names: &[Vec<u8>]) -> bool {
        let is_all_named = self.names.len() as u64 == self.count && !self.has(b"");
        let is_concerned = |given: &Vec<u8>| {
            let wild = given.iter().position(|b| matches!(b, b'*' | b'?' | b'['));
            let before = split(&given[..wild.unwrap_or(given.len())]).0;
            let dir = name(if wild.is_some() { before } else { &given[..] });
            self.has(&dir) || self.below(&dir).next().is_some()
        };
        !self.is_empty() && (names.is_empty() || !is_all_named || names.iter().any(is_concerned))
    }

    /// Whether an entry, or a directory above it, is unread. An empty name stands for the whole
    /// tree.
    fn has(&self, name: &[u8]) -> bool {
        self.names
            .iter()
            .any(|unread| is_within(name, &unread.path))
    }

    /// Unread entries at or below a directory.
    fn below(&self, name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let all = self.names.iter().map(|unread| unread.path.clone());
        all.filter(|unread| is_within(unread, name))
    }
}

/// The member name of a path, normalized: without `.` and repeated slashes.
pub(super) fn name(path: &[u8]) -> Vec<u8> {
    plain(member_name(path)).into_owned()
}

/// Finds the dumps with the last data of every entry, from the unread entries of each dump, newest
/// first, up to the last complete one.
pub(super) fn last_with_data<'a>(
    dumps: impl Iterator<Item = (usize, &'a UnreadEntries)>,
) -> Vec<usize> {
    // The empty name: at first the data of the whole tree is wanted.
    let mut wanted = vec![Vec::new()];
    let mut found = Vec::new();
    for (dump, unread) in dumps {
        let (missing, has): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|name| unread.has(name));
        if !has.is_empty() || unread.is_empty() {
            found.push(dump);
        }
        if unread.is_empty() {
            break;
        }
        let below = has.iter().flat_map(|name| unread.below(name));
        wanted = missing.into_iter().chain(below).collect();
        wanted.sort_unstable();
        wanted.dedup();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(names: &[&str]) -> UnreadEntries {
        let names = names.iter().map(|name| UnreadName {
            path: name.as_bytes().to_vec(),
        });
        let names: Vec<UnreadName> = names.collect();
        UnreadEntries {
            count: names.len() as u64,
            names,
        }
    }

    #[test]
    fn dumps_with_the_last_data_are_found() {
        // The dumps are ordered newest first.
        for (dumps, expected) in [
            (&[&[][..], &["s/a"]][..], &[0][..]),
            (&[&["s/a"], &[]], &[0, 1]),
            // Dump 1 lacks the same file as dump 0, but dump 2 has it.
            (&[&["s/a"], &["s/a"], &["s/b"], &[]], &[0, 2, 3]),
            (&[&["s/a"], &["s/b"], &["s/a"], &[]], &[0, 1, 3]),
            // Dump 1 has a part of the directory that dump 0 could not read, and older dumps have
            // the rest.
            (&[&["s/d"], &["s/d/x"], &["s/d/y"], &[]], &[0, 1, 2, 3]),
            (&[&["s/d/x"], &["s/d"], &["s/dd"], &[]], &[0, 2, 3]),
            // An unnamed entry may be anything, so such a dump is never relied upon.
            (&[&[""], &["", "s/a"], &["s/b"], &[]], &[2, 3]),
            (&[&["s/a"], &["s/a"]], &[0]),
            (&[], &[]),
        ] {
            let dumps: Vec<UnreadEntries> = dumps.iter().map(|names| unread(names)).collect();
            assert_eq!(
                last_with_data(dumps.iter().enumerate()),
                expected,
                "{dumps:?}"
            );
        }
    }

    #[test]
    fn what_vanished_or_changed_does_not_count() {
        use crate::warning::WarningKind;
        use gate::{Errno, Gate};
        let failed =
            |path: &str, kind| Warning::failed(path.as_bytes(), Gate::Openat, Errno::EACCES, kind);
        let mut warnings = vec![
            failed("/s/gone", WarningKind::Vanished),
            Warning::about(b"/s/busy", WarningKind::ChangedWhileRead),
            Warning::about(b"/s/cut", WarningKind::changed(5, 3)),
            failed("./../s//b", WarningKind::Unreadable),
            failed("/s/b", WarningKind::XattrsUnreadable),
            failed("/s/a", WarningKind::ZerosFrom { at: 1 }),
        ];
        let unread = UnreadEntries::from_warnings(&warnings);
        assert_eq!(unread.names(), [b"s/a", b"s/b"]);
        assert_eq!(
            (unread.count, unread.has(b"s/a/x"), unread.has(b"s")),
            (2, true, false)
        );
        warnings.push(Warning::general(walk::WarningKind::More(7)));
        let unread = UnreadEntries::from_warnings(&warnings);
        assert_eq!(
            (unread.count, unread.names().len(), unread.has(b"")),
            (9, 2, true)
        );
        assert!(UnreadEntries::from_warnings(&warnings[..3]).is_empty());
    }
}
