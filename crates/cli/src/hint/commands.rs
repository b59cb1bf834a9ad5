//! The remedies for warnings of commands that measure.

use std::borrow::Cow;

use crate::cmd::probe::show::{self as probe, methods};

pub(super) fn hint_for_pathsearch(kind: pathsearch::WarningKind) -> Option<&'static str> {
    use pathsearch::WarningKind;
    match kind {
        WarningKind::Nameless(_, meter) | WarningKind::Unrecorded(_, meter) => {
            (meter != "ptrace").then_some("use --meter ptrace, which reports every call")
        }
        WarningKind::NothingRemote => Some("set --rtt, or name a directory with --network"),
        WarningKind::RttNotMeasured => Some("set --rtt"),
        WarningKind::SearchesOmitted(_)
        | WarningKind::DirectoriesOmitted(_)
        | WarningKind::NamesOmitted(_)
        | WarningKind::SilentPath
        | WarningKind::Untracked(_) => None,
    }
}

pub(super) fn hint_for_pathwalk(kind: &pathwalk::WarningKind) -> Option<Cow<'static, str>> {
    use pathwalk::WarningKind;
    let hint = match kind {
        WarningKind::NoCgroup => {
            "use systemd-run --scope, or drop the caches of the host with --cold=host"
        }
        WarningKind::CgroupNotDropped => "run as root, or use --cold=host",
        WarningKind::HostNotDropped => "run as root, outside a container",
        WarningKind::DirectoriesMissing { length, .. } => {
            return Some(
                format!("use the -l with which the tree was created, not {length}").into(),
            );
        }
        WarningKind::ObjectsMissing { length, files, .. } => {
            return Some(
                format!(
                    "use the -l and -f with which the tree was created, not -l {length} -f {files}"
                )
                .into(),
            );
        }
        WarningKind::LookupsFailed { .. } | WarningKind::ForeignEntries { .. } => return None,
    };
    Some(hint.into())
}

pub(super) fn hint_for_probe(kind: &probe::WarningKind) -> Option<&'static str> {
    use probe::WarningKind;
    let hint = match kind {
        WarningKind::Stopped(why)
        | WarningKind::Prevented { why, .. }
        | WarningKind::NothingMeasured(why) => methods::hint(why),
        WarningKind::Contradicted(_) => "",
    };
    Some(hint).filter(|hint| !hint.is_empty())
}
