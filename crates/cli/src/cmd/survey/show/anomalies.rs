//! What is unusual about mounts, in words.

use ::mounts::diagnosis::{Anomaly, AnomalyKind, Diagnosis};
use show::name::printable;
use show::units::{plural, sized};

/// What several mounts of a kind are.
pub(crate) fn kind(kind: AnomalyKind) -> &'static str {
    match kind {
        AnomalyKind::Unresponsive => "not answering",
        AnomalyKind::Slow => "slow to answer",
        AnomalyKind::Hidden => "hidden",
        AnomalyKind::Covers => "hides files",
        AnomalyKind::Duplicate => "duplicate",
        AnomalyKind::ReadOnly => "read-only, possibly because of an error",
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
        Anomaly::ReadOnly => {
            "read-only, possibly because of an error (errors=remount-ro): check the kernel log"
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
