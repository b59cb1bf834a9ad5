//! What a dump could not read, and which earlier dumps have it.

use base::Warning;
use base::path::components;
use catalog::stored;
use serde::{Deserialize, Serialize};

use crate::plan::member_name;
use crate::warning::is_loss;

/// The entries that exist and are not in a dump, or not with all of their data, because they could not be
/// read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Unread {
    /// How many they are; a directory that could not be read counts once.
    pub count: u64,
    /// Their names in the archive, ascending. An empty one stands for entries that are not named.
    names: Vec<UnreadName>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
struct UnreadName {
    #[serde(flatten, with = "stored::path")]
    path: Vec<u8>,
}

impl Unread {
    /// Of more entries only the number is recorded.
    const MOST: usize = 1000;

    /// What the warnings of a dump tell.
    pub(crate) fn from_warnings(warnings: &[Warning]) -> Unread {
        let mut unread = Unread::default();
        for warning in warnings.iter().filter(|warning| is_loss(warning)) {
            match (&warning.path, warning.reason()) {
                (Some(path), _) => unread.names.push(UnreadName { path: name(path) }),
                (None, Some(walk::WarningKind::More(more))) => unread.count += more,
                (None, _) => unread.count += 1,
            }
        }
        unread.names.sort_unstable();
        unread.names.dedup();
        let is_all_named = unread.count == 0 && unread.names.len() <= Unread::MOST;
        unread.count += unread.names.len() as u64;
        if !is_all_named {
            unread.names.truncate(Unread::MOST);
            unread.names.insert(0, UnreadName { path: Vec::new() });
        }
        unread
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their names in the archive, as far as they are recorded.
    pub fn names(&self) -> Vec<&Vec<u8>> {
        let names = self.names.iter().map(|name| &name.path);
        names.filter(|name| !name.is_empty()).collect()
    }

    /// Whether an entry, or a directory above it, could not be read. An empty name stands for the whole tree.
    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|unread| is_in(name, &unread.path))
    }

    /// What could not be read below a directory.
    fn below(&self, name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let all = self.names.iter().map(|unread| unread.path.clone());
        all.filter(|unread| is_in(unread, name))
    }
}

/// The name that the member of a path has, without what means nothing in it.
pub(super) fn name(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = components(member_name(path)).collect();
    parts.join(&b'/')
}

/// Whether a name is that of a directory, or of something in it.
pub(super) fn is_in(name: &[u8], dir: &[u8]) -> bool {
    match name.strip_prefix(dir) {
        Some(rest) => dir.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

/// From what each dump could not read, newest first, finds the dumps that have the last data of every
/// entry, up to the last complete one.
pub(super) fn last_with_data<'a>(dumps: impl Iterator<Item = (usize, &'a Unread)>) -> Vec<usize> {
    // The whole tree.
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

    fn unread(names: &[&str]) -> Unread {
        let names = names.iter().map(|name| UnreadName {
            path: name.as_bytes().to_vec(),
        });
        let names: Vec<UnreadName> = names.collect();
        Unread {
            count: names.len() as u64,
            names,
        }
    }

    #[test]
    fn dumps_with_the_last_data_are_found() {
        // Newest first.
        for (dumps, expected) in [
            (&[&[][..], &["s/a"]][..], &[0][..]),
            (&[&["s/a"], &[]], &[0, 1]),
            // The second one has nothing that the first one lacks, but the third one does.
            (&[&["s/a"], &["s/a"], &["s/b"], &[]], &[0, 2, 3]),
            (&[&["s/a"], &["s/b"], &["s/a"], &[]], &[0, 1, 3]),
            // Of an unreadable directory, one has a part, and an older one the rest.
            (&[&["s/d"], &["s/d/x"], &["s/d/y"], &[]], &[0, 1, 2, 3]),
            (&[&["s/d/x"], &["s/d"], &["s/dd"], &[]], &[0, 2, 3]),
            // What is not named may be anything.
            (&[&[""], &["", "s/a"], &["s/b"], &[]], &[2, 3]),
            (&[&["s/a"], &["s/a"]], &[0]),
            (&[], &[]),
        ] {
            let dumps: Vec<Unread> = dumps.iter().map(|names| unread(names)).collect();
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
        let unread = Unread::from_warnings(&warnings);
        assert_eq!(unread.names(), [b"s/a", b"s/b"]);
        assert_eq!(
            (unread.count, unread.has(b"s/a/x"), unread.has(b"s")),
            (2, true, false)
        );
        warnings.push(Warning::general(walk::WarningKind::More(7)));
        let unread = Unread::from_warnings(&warnings);
        assert_eq!(
            (unread.count, unread.names().len(), unread.has(b"")),
            (9, 2, true)
        );
        assert!(Unread::from_warnings(&warnings[..3]).is_empty());
    }
}
