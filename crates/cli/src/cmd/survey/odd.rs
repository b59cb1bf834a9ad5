//! What is odd about mounts.

use std::collections::{HashMap, HashSet};

use ondisk::split_options;

use report::mounts::{Row, Rows, all};
use show::name::printable;
use show::units::{plural, sized};

/// Kinds of what is odd, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    /// It does not answer.
    Unanswering,
    /// It answers slowly.
    Slow,
    /// No path reaches it.
    Hidden,
    /// Something lies beneath it.
    Covers,
    /// It shows what another one shows.
    Twice,
    /// It is read-only, as an error would make it.
    ReadOnly,
    /// It may not be looked at.
    Denied,
    /// It is mounted on a file.
    File,
}

impl Kind {
    /// All of them, the worst first.
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Unanswering,
        Kind::Slow,
        Kind::Hidden,
        Kind::Covers,
        Kind::Twice,
        Kind::ReadOnly,
        Kind::Denied,
        Kind::File,
    ];

    /// What so many of them are, in a word or two.
    pub(crate) fn are(self) -> &'static str {
        match self {
            Kind::Unanswering => "not answering",
            Kind::Slow => "slow to answer",
            Kind::Hidden => "hidden",
            Kind::Covers => "over files",
            Kind::Twice => "the same as another",
            Kind::ReadOnly => "read-only, perhaps by an error",
            Kind::Denied => "not to be looked at",
            Kind::File => "on a file",
        }
    }
}

/// A mount that is odd.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Odd<'a> {
    /// Its name.
    pub(crate) target: &'a [u8],
    /// What is worst about it.
    pub(crate) kind: Kind,
    /// All that is odd about it, in words.
    pub(crate) why: String,
}

/// The odd ones, the worst first, and among equals in the order of the table.
pub(crate) fn odd(rows: &dyn Rows) -> Vec<Odd<'_>> {
    let mut seen = HashMap::new();
    let visible: HashSet<&[u8]> = all(rows)
        .filter(|row| !row.hidden)
        .map(|row| row.target)
        .collect();
    let mut found: Vec<Odd<'_>> = Vec::new();
    for row in all(rows) {
        let mut reasons = reasons(&row, visible.contains(row.target));
        if let Some(part) = row.fsroot.filter(|_| !row.hidden) {
            let first = *seen.entry((row.dev, part)).or_insert(row.target);
            if first != row.target {
                let why = format!(
                    "it shows the same as {}: what walks into both goes through it twice",
                    printable(first)
                );
                reasons.push((Kind::Twice, why));
            }
        }
        reasons.sort_by_key(|(kind, _)| *kind);
        if let Some((kind, _)) = reasons.first() {
            let why: Vec<&str> = reasons.iter().map(|(_, why)| why.as_str()).collect();
            found.push(Odd {
                target: row.target,
                kind: *kind,
                why: why.join("; "),
            });
        }
    }
    found.sort_by_key(|odd| odd.kind);
    found
}

fn reasons(row: &Row<'_>, covered: bool) -> Vec<(Kind, String)> {
    let mut reasons = Vec::new();
    let mut add = |kind, why: &str| reasons.push((kind, why.to_owned()));
    match row.verdict {
        Some("hung") => add(Kind::Unanswering, "it does not answer: hung"),
        Some("stale") => add(
            Kind::Unanswering,
            "its server does not know it any more: stale",
        ),
        Some("slow") => add(Kind::Slow, "it answers slowly"),
        Some("denied") => add(Kind::Denied, "it may not be looked at: denied"),
        _ => {}
    }
    let options = |wanted: &[u8]| {
        row.options
            .is_some_and(|all| split_options(all).any(|option| option == wanted))
    };
    if options(b"ro") && options(b"errors=remount-ro") {
        add(
            Kind::ReadOnly,
            "it is read-only, and an error makes it so (errors=remount-ro): see whether there was one",
        );
    }
    if row.hidden {
        let over = if covered {
            "it"
        } else {
            "a directory above it"
        };
        add(
            Kind::Hidden,
            &format!("no path reaches it: another mount lies over {over}"),
        );
    }
    if let Some(beneath) = row.beneath.filter(|beneath| beneath.files > 0) {
        let lie = if beneath.files == 1 { "lies" } else { "lie" };
        let (files, bytes) = (plural(beneath.files, "file", "files"), sized(beneath.bytes));
        add(
            Kind::Covers,
            &format!("beneath it {lie} {files} with {bytes} that no path reaches"),
        );
    }
    if row.kind == Some("file") {
        add(
            Kind::File,
            "it is mounted on a file: who looks at directories only misses it",
        );
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::example::{Listed, row};
    use super::*;

    #[test]
    fn what_is_odd_is_told_and_the_worst_comes_first() {
        let rows = Listed(vec![
            row(b"/"),
            Row {
                kind: Some("file"),
                ..row(b"/etc/hosts")
            },
            Row {
                hidden: true,
                ..row(b"/mnt")
            },
            row(b"/mnt"),
            Row {
                hidden: true,
                ..row(b"/mnt/x")
            },
            Row {
                verdict: Some("hung"),
                ..row(b"/nfs")
            },
            Row {
                options: Some(b"ro,errors=remount-ro"),
                ..row(b"/srv")
            },
            Row {
                dev: row(b"/").dev,
                ..row(b"/again")
            },
            Row {
                verdict: Some("ok"),
                ..row(b"/fine")
            },
        ]);
        let found = odd(&rows);
        let kinds: Vec<_> = found.iter().map(|odd| (odd.target, odd.kind)).collect();
        assert_eq!(
            kinds,
            [
                (&b"/nfs"[..], Kind::Unanswering),
                (b"/mnt", Kind::Hidden),
                (b"/mnt/x", Kind::Hidden),
                (b"/again", Kind::Twice),
                (b"/srv", Kind::ReadOnly),
                (b"/etc/hosts", Kind::File),
            ]
        );
        assert!(
            found[1].why.ends_with("lies over it")
                && found[2].why.ends_with("over a directory above it")
        );
        assert!(found[3].why.contains("the same as /:"), "{}", found[3].why);
    }
}
