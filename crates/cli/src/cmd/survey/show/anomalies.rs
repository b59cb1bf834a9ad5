//! Anomalies of mounts, in words.

use ::mounts::diagnosis::{Anomaly, AnomalyKind, Diagnosis};
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

fn text(anomaly: &Anomaly<'_>) -> String {
    let text = match anomaly {
        Anomaly::Hung => "hung: it does not answer",
        Anomaly::Stale => "stale: its server or device is gone",
        Anomaly::Slow => "slow to answer",
        Anomaly::Denied => "access denied",
        Anomaly::Failing(Fault::ReadOnly) => {
            "failing: an error has made it read-only; the kernel log (dmesg) has the reason"
        }
        Anomaly::Failing(Fault::ShutDown) => "failing: it was shut down; nothing can be read",
        Anomaly::Failing(Fault::Errors(errors)) => {
            let errors = plural(*errors, "error", "errors");
            return format!("failing: it has recorded {errors}; unmount it and run fsck");
        }
        Anomaly::Hidden { at_same_path: true } => "hidden: another mount is on the same directory",
        Anomaly::Hidden {
            at_same_path: false,
        } => "hidden: another mount is on a parent directory",
        Anomaly::OnFile => "mounted on a file: programs that search only directories miss it",
        Anomaly::Covers(beneath) => {
            return format!(
                "hides {} ({}) in the directory below it",
                plural(beneath.files, "file", "files"),
                sized(beneath.bytes)
            );
        }
        Anomaly::Duplicate(first) => {
            return format!(
                "the same files as {}: a walk of both reads them twice",
                printable(first)
            );
        }
    };
    text.to_owned()
}
