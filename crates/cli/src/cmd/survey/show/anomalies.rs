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
        AnomalyKind::Covers => "over files",
        AnomalyKind::Duplicate => "the same as another",
        AnomalyKind::ReadOnly => "read-only, perhaps by an error",
        AnomalyKind::Denied => "not to be looked at",
        AnomalyKind::OnFile => "on a file",
    }
}

pub(crate) fn all(diagnosis: &Diagnosis<'_>) -> String {
    let texts: Vec<String> = diagnosis.anomalies.iter().map(text).collect();
    texts.join("; ")
}

fn text(anomaly: &Anomaly<'_>) -> String {
    let text = match anomaly {
        Anomaly::Hung => "it does not answer: hung",
        Anomaly::Stale => "its server does not know it any more: stale",
        Anomaly::Slow => "it answers slowly",
        Anomaly::Denied => "it may not be looked at: denied",
        Anomaly::ReadOnly => {
            "it is read-only, and an error makes it so (errors=remount-ro): see whether there was one"
        }
        Anomaly::Hidden { at_same_path: true } => "no path reaches it: another mount lies over it",
        Anomaly::Hidden {
            at_same_path: false,
        } => "no path reaches it: another mount lies over a directory above it",
        Anomaly::OnFile => "it is mounted on a file: who looks at directories only misses it",
        Anomaly::Covers(beneath) => {
            let lie = if beneath.files == 1 { "lies" } else { "lie" };
            return format!(
                "beneath it {lie} {} with {} that no path reaches",
                plural(beneath.files, "file", "files"),
                sized(beneath.bytes)
            );
        }
        Anomaly::Duplicate(first) => {
            return format!(
                "it shows the same as {}: what walks into both goes through it twice",
                printable(first)
            );
        }
    };
    text.to_owned()
}
