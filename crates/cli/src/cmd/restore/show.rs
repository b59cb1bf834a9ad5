//! The output of `fathom restore`.

use std::borrow::Cow;

use archive::restore::{Note, RestoreStep, RestoreSummary};
use serde::{Serialize, Serializer};
use show::json_object;
use show::name::printable;
use show::units::{count, duration, plural, sized};
use walk::{KeptPath, PathTree};

use crate::json::{Json, list_of};
use crate::ranks::show::RankEntries;

pub(crate) const SCHEMA: &str = "fathom.restore/1";

pub(crate) struct RestoreReport<'a> {
    pub(crate) summary: &'a RestoreSummary,
    /// The steps of a dry run; `None` otherwise.
    pub(crate) steps: Option<&'a DryRunSteps>,
    pub(crate) seconds: f64,
    /// Whether the archives are parts of one dump.
    pub(crate) are_parts: bool,
    /// The entries of each rank of an MPI job.
    pub(crate) ranks: Option<&'a [RankEntries]>,
}

json_object!(RestoreReport<'_>, |report| {
    "files": report.summary.counts.files,
    "directories": report.summary.counts.directories,
    "symlinks": report.summary.counts.symlinks,
    "links": report.summary.counts.links,
    "other": report.summary.counts.other,
    "bytes": report.summary.counts.bytes,
    "removed": report.summary.counts.removed,
    "renamed": report.summary.counts.renamed,
    "skipped": report.summary.counts.skipped,
    "steps": report.steps.map(Json),
    "seconds": report.seconds,
    "ranks": report.ranks,
});

/// The steps of a dry run. Paths are stored as a tree, which saves memory.
#[derive(Default)]
pub(crate) struct DryRunSteps {
    paths: PathTree,
    steps: Vec<(&'static str, KeptPath, Option<Vec<u8>>)>,
}

impl DryRunSteps {
    pub(crate) fn add(&mut self, RestoreStep { what, path, other }: &RestoreStep) {
        let path = self.paths.add(path);
        self.steps.push((what, path, other.clone()));
    }
}

impl Serialize for Json<'_, DryRunSteps> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let steps = self.steps.iter().map(|(what, path, other)| RestoreStep {
            what,
            path: self.paths.path(*path),
            other: other.clone(),
        });
        list_of::<_, RestoreStep>(serializer, steps)
    }
}

json_object!(Json<'_, RestoreStep>, |step| {
    "what": step.what,
    name "path": Some(path(step)),
    name "other": step.other.as_deref(),
});

pub(crate) fn note(note: &Note) -> Cow<'static, str> {
    let text = match note {
        Note::SlashLeftOut => {
            "the leading slash of names is removed: everything is restored below the directory"
        }
        Note::OwnersIgnored => {
            "owners are not restored, because only root can set them: the files belong to you"
        }
        Note::XattrsLeftOut => {
            "extended attributes other than user.* are not restored, because only root can set them"
        }
        Note::DevicesLeftOut => "devices are skipped, because of --no-devices",
        Note::FirstIsIncrement => {
            "the first archive is an increment: unchanged files are only in the archives before it"
        }
        Note::Repeated(archive, same) => {
            let (archive, same) = (printable(archive), printable(same));
            return format!("'{archive}' is the same archive as '{same}', and is restored once")
                .into();
        }
        Note::RemovedExisting(removed, first) => {
            let entries = plural(*removed, "existing entry", "existing entries");
            let names: Vec<_> = first.iter().map(|name| printable(name)).collect();
            let names = format!("'{}'", names.join("', '"));
            let more = match removed.saturating_sub(first.len() as u64) {
                0 => String::new(),
                more => format!(" and {} more", count(more)),
            };
            return format!(
                "removed {entries} that the increments do not list: {names}{more}; existing entries of directories that no increment has stay"
            )
            .into();
        }
        Note::Reordered(archives) => {
            let order = names(archives);
            return format!(
                "the archives are restored in the order in which they were made: {order}"
            )
            .into();
        }
    };
    text.into()
}

/// The status line: the values of `RestoreProgress::get`, after `seconds` of restoring.
pub(crate) fn progress_message(
    (members, bytes, place): (u64, u64, Vec<u8>),
    seconds: f64,
) -> String {
    let rate = bytes as f64 / seconds / f64::from(1 << 20);
    format!(
        "{members} members, {} MiB, {rate:.0} MiB/s, in {}",
        bytes >> 20,
        printable(&place)
    )
}

/// A note with the archives that `--at` selected.
pub(crate) fn chosen(archives: &[Vec<u8>]) -> String {
    format!("restoring {}", names(archives))
}

fn names(archives: &[Vec<u8>]) -> String {
    let names: Vec<_> = archives.iter().map(|archive| printable(archive)).collect();
    names.join(" ")
}

/// The path of a step; `.` for the destination directory.
fn path(step: &RestoreStep) -> &[u8] {
    match &step.path[..] {
        b"" => b".",
        path => path,
    }
}

/// A line of a dry run.
pub(crate) fn step_line(step: &RestoreStep) -> String {
    let other = step.other.as_deref();
    let other = other.map_or(String::new(), |other| format!(" -> {}", printable(other)));
    format!("{} {}{other}\n", step.what, printable(path(step)))
}

pub(crate) fn summary(report: &RestoreReport<'_>) -> String {
    let counts = &report.summary.counts;
    // Each part contains the directories above its entries.
    let directories = match report.are_parts {
        true => "directories (once for each part)",
        false => "directories",
    };
    let kinds = [
        (counts.files, "file", "files"),
        (counts.directories, "directory", directories),
        (counts.symlinks, "symlink", "symlinks"),
        (counts.links, "link", "links"),
        (counts.other, "fifo or device", "fifos and devices"),
    ];
    let kinds = kinds.into_iter().filter(|(n, ..)| *n > 0);
    let kinds: Vec<String> = kinds.map(|(n, one, many)| plural(n, one, many)).collect();
    let what = match &kinds[..] {
        [] => "nothing".to_owned(),
        kinds => kinds.join(", "),
    };
    let (how, would) = match report.steps {
        Some(_) => ("would be restored".to_owned(), "would be "),
        None => (format!("restored in {}", duration(report.seconds)), ""),
    };
    // The removed entries can be those that this restore took from an earlier archive.
    let removed = match &kinds[..] {
        [] => "removed, as a later archive does not have them",
        _ => "removed",
    };
    let effects = [
        (counts.renamed, "renamed"),
        (counts.removed, removed),
        (counts.skipped, "skipped"),
    ];
    let effects = effects.into_iter().filter(|(n, _)| *n > 0);
    let effects: String = effects
        .map(|(n, how)| format!("; {} {would}{how}", count(n)))
        .collect();
    format!("{what} ({}) {how}{effects}", sized(counts.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::restore::Counts;

    #[test]
    fn summary_and_steps() {
        let counts = Counts {
            files: 1,
            links: 2,
            bytes: 7,
            removed: 3,
            ..Counts::default()
        };
        let restored = RestoreSummary {
            counts,
            ..RestoreSummary::default()
        };
        let report_of = |restored, steps, seconds, are_parts| {
            summary(&RestoreReport {
                summary: restored,
                steps,
                seconds,
                are_parts,
                ranks: None,
            })
        };
        let report = |restored, steps, seconds| report_of(restored, steps, seconds, false);
        assert_eq!(
            report(&restored, None, 0.5),
            "1 file, 2 links (7 bytes) restored in 500 ms; 3 removed"
        );
        let counts = Counts {
            directories: 2,
            skipped: 2440,
            ..Counts::default()
        };
        let parts = RestoreSummary {
            counts,
            ..RestoreSummary::default()
        };
        assert_eq!(
            report_of(&parts, None, 0.5, true),
            "2 directories (once for each part) (0 bytes) restored in 500 ms; 2,440 skipped"
        );
        let (nothing, steps) = (RestoreSummary::default(), DryRunSteps::default());
        assert_eq!(
            report(&nothing, Some(&steps), 0.0),
            "nothing (0 bytes) would be restored"
        );
        let removed = RestoreSummary {
            counts: Counts {
                removed: 2,
                ..Counts::default()
            },
            ..RestoreSummary::default()
        };
        assert_eq!(
            report(&removed, None, 0.5),
            "nothing (0 bytes) restored in 500 ms; 2 removed, as a later archive does not have them"
        );
        let step = RestoreStep {
            what: "symlink",
            path: b"a\nb".to_vec(),
            other: Some(b"\xff".to_vec()),
        };
        assert_eq!(step_line(&step), "symlink a\\nb -> \\xff\n");
        let json = serde_json::to_value(Json(&step)).unwrap();
        assert_eq!(
            (json["path"].as_str(), json["other_b64"].as_str()),
            (Some("a\nb"), Some("/w=="))
        );
    }
}
