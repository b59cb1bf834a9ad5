//! Anomalies of mounts, in words.

use ::mounts::diagnosis::{AnomalyKind, Diagnosis, MountAnomaly};
use ::mounts::fault::Fault;
use show::name::printable;
use show::units::{plural, sized};

/// A kind of anomaly as an adjective: `2 mounts hidden`.
pub(crate) fn kind(kind: AnomalyKind) -> &'static str {
    match kind {
        AnomalyKind::Unresponsive => "not answering",
        AnomalyKind::Slow => "slow to answer",
        AnomalyKind::Hidden => "hidden",
        AnomalyKind::Covers => "hides files",
        AnomalyKind::Duplicate => "duplicate",
        AnomalyKind::Failing => "failing",
        AnomalyKind::Denied => "access denied",
        AnomalyKind::OnFile => "on a file",
    }
}

pub(crate) fn all(diagnosis: &Diagnosis<'_>) -> String {
    let texts: Vec<String> = diagnosis.anomalies.iter().map(text).collect();
    texts.join("; ")
}

fn text(anomaly: &MountAnomaly<'_>) -> String {
    let text = match anomaly {
        MountAnomaly::Hung => "hung: it does not answer",
        MountAnomaly::Stale => "stale: its server or device is gone",
        MountAnomaly::Slow => "slow to answer",
        MountAnomaly::Denied => "access denied",
        MountAnomaly::Failing(Fault::ReadOnly) => {
            "failing: an error has made it read-only; the kernel log (dmesg) has the reason"
        }
        MountAnomaly::Failing(Fault::Unwritable) => {
            "failing: read-only although it was mounted writable, after an error or by a remount; the kernel log (dmesg) may have the reason"
        }
        MountAnomaly::Failing(Fault::ShutDown) => "failing: it was shut down; nothing can be read",
        MountAnomaly::Failing(Fault::Errors(errors)) => {
            let errors = plural(*errors, "error", "errors");
            return format!("failing: it has recorded {errors}; unmount it and run fsck");
        }
        MountAnomaly::Hidden { at_same_path: true } => {
            "hidden: another mount is on the same directory"
        }
        MountAnomaly::Hidden {
            at_same_path: false,
        } => "hidden: another mount is on a parent directory",
        MountAnomaly::OnFile => "mounted on a file: programs that search only directories miss it",
        MountAnomaly::Covers(beneath) => {
            return format!(
                "hides {} ({}) in the directory below it",
                plural(beneath.files, "file", "files"),
                sized(beneath.bytes)
            );
        }
        MountAnomaly::Duplicate(first) => {
            return format!(
                "the same files as {}: a walk of both reads them twice",
                printable(first)
            );
        }
    };
    text.to_owned()
}
