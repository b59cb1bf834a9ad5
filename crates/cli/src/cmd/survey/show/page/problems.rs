//! The top of the page: problems in the order of severity, and the used capacity of file systems.

use mounts::diagnosis::{AnomalyKind, diagnose};
use show::figure::bar;
use show::name::printable;
use show::units::plural;
use survey::capacity::{Capacity, FileSystem, FsState};
use survey::{Section, Survey};

use crate::cmd::mounts::show::cell;
use crate::cmd::survey::show::anomalies;
use crate::cmd::survey::show::title::section_title;
use show::units::size;
use walk::compare::Agreement;

/// The severity of a problem, the most severe first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Severity {
    Error,
    Warning,
    Note,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
            Severity::Note => "Note",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// A problem, and the section with the details.
pub(super) struct Problem {
    pub(super) severity: Severity,
    pub(super) text: String,
    pub(super) section: Section,
}

impl Problem {
    /// The title of the section with the details.
    pub(super) fn more(&self) -> &'static str {
        section_title(self.section).0
    }
}

/// All problems, the most severe first.
pub(super) fn problems(survey: &Survey<'_>) -> Vec<Problem> {
    let mut all = mounts(survey);
    all.extend(capacity(survey));
    let walking = &survey.found.walking;
    if let Some(walking) = walking
        && walking.engines.agreement() == Agreement::Disagree
    {
        all.push(Problem {
            severity: Severity::Error,
            text: "the engines of fathom walk report different trees: one of them is wrong"
                .to_owned(),
            section: Section::Walk,
        });
    }
    all.sort_by_key(|problem| problem.severity);
    all
}

/// Problems of mounts: one for each kind of anomaly.
fn mounts(survey: &Survey<'_>) -> Vec<Problem> {
    use AnomalyKind::*;
    const NAMED: usize = 3;
    let Some(mounted) = &survey.found.mounts else {
        return Vec::new();
    };
    let diagnoses = diagnose(&mounted.all());
    let kinds = [
        (Severity::Error, Unresponsive),
        (Severity::Error, Failing),
        (Severity::Warning, Slow),
        (Severity::Warning, Hidden),
        (Severity::Warning, Covers),
        (Severity::Note, Duplicate),
        (Severity::Note, Denied),
        (Severity::Note, OnFile),
    ];
    let problem = |(severity, kind)| {
        let of_kind = diagnoses.iter().filter(|one| one.kind() == kind);
        let targets: Vec<_> = of_kind.map(|one| printable(one.target)).collect();
        let names = targets.iter().take(NAMED).map(|name| &name[..]);
        let mut names = names.collect::<Vec<_>>().join(", ");
        if targets.len() > NAMED {
            names += &format!(" and {} more", targets.len() - NAMED);
        }
        let mounts = plural(targets.len() as u64, "mount", "mounts");
        (!targets.is_empty()).then(|| Problem {
            severity,
            text: format!("{mounts} {}: {names}", anomalies::kind(kind)),
            section: Section::Mounts,
        })
    };
    kinds.into_iter().filter_map(problem).collect()
}

/// File systems that are full, or nearly so.
fn capacity(survey: &Survey<'_>) -> Vec<Problem> {
    let (all, _) = survey.file_systems();
    let problem = |one: &FileSystem| {
        let severity = match one.state {
            FsState::Full => Severity::Error,
            FsState::NearlyFull => Severity::Warning,
            _ => return None,
        };
        let target = printable(&one.target);
        let state = one.state.name();
        let capacity = one.capacity?;
        let space = format!("{} % of the space", capacity.df_percent()?);
        let inodes = capacity.inodes_df_percent();
        let inodes = inodes.map_or(String::new(), |inodes| {
            format!(", {inodes} % of the inodes")
        });
        Some(Problem {
            severity,
            text: format!("{target} is {state}: {space}{inodes} in use"),
            section: Section::Mounts,
        })
    };
    all.iter().filter_map(problem).collect()
}

/// Number of problems by severity: `1 error, 2 warnings`.
pub(super) fn verdict(problems: &[Problem]) -> String {
    let count = |wanted| {
        let of_kind = problems.iter().filter(|one| one.severity == wanted);
        of_kind.count() as u64
    };
    let counts = [
        (count(Severity::Error), "error", "errors"),
        (count(Severity::Warning), "warning", "warnings"),
        (count(Severity::Note), "note", "notes"),
    ];
    let counts = counts.into_iter().filter(|(n, ..)| *n > 0);
    let counts: Vec<_> = counts.map(|(n, one, many)| plural(n, one, many)).collect();
    match counts.is_empty() {
        true => "No problems found".to_owned(),
        false => counts.join(", "),
    }
}

/// The used capacity of a file system.
pub(super) struct Disk {
    pub(super) target: String,
    /// The type and the source of the file system.
    pub(super) what: String,
    pub(super) state: &'static str,
    /// The CSS class of the state.
    pub(super) class: &'static str,
    /// Used space and inodes: as text, and as the HTML of a bar.
    pub(super) meters: Vec<(String, String)>,
}

/// The `most` worst and fullest file systems with files; and the number of further ones.
pub(super) fn disks(survey: &Survey<'_>, most: usize) -> (Vec<Disk>, usize) {
    let (all, _) = survey.file_systems();
    let left = all.len().saturating_sub(most);
    (all.iter().take(most).map(disk).collect(), left)
}

fn disk(one: &FileSystem) -> Disk {
    let source = one.source.as_deref().map(printable);
    let fstype = cell(Some(&one.fstype));
    let class = match one.state {
        state if state <= FsState::Failing => "error",
        state if state.is_bad() => "warning",
        _ => "",
    };
    Disk {
        target: printable(&one.target).into_owned(),
        what: match source {
            Some(source) if source != fstype => format!("{fstype}, {source}"),
            _ => fstype.into_owned(),
        },
        state: one.state.name(),
        class,
        meters: one.capacity.as_ref().map(meters).unwrap_or_default(),
    }
}

fn meters(capacity: &Capacity) -> Vec<(String, String)> {
    let meter = |text: String, percent: f64| {
        let class = match percent {
            p if p >= 98.0 => "bad",
            p if p >= 90.0 => "warn",
            _ => "",
        };
        (text, bar(class, percent))
    };
    let space = capacity.df_percent().zip(capacity.percent());
    let space = space.map(|(whole, percent)| {
        let text = format!("{whole} % of {} used", size(capacity.size));
        meter(text, percent)
    });
    let inodes = capacity.inodes_df_percent().zip(capacity.inodes_percent());
    let inodes = inodes.map(|(whole, percent)| meter(format!("{whole} % of inodes used"), percent));
    space.into_iter().chain(inodes).collect()
}
