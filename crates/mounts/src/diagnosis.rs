//! Diagnoses the mounts of a table: which ones an administrator should look at, and why.

use std::collections::{HashMap, HashSet};

use crate::fault::Fault;
use crate::kind::is_pseudo;
use crate::point::{HiddenFiles, Point, PointKind, Verdict};

/// An unusual state of a mount, which an administrator should look at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MountAnomaly<'a> {
    /// The mount did not respond within the deadline.
    Hung,
    /// The server or device is gone.
    Stale,
    /// The mount responded late.
    Slow,
    /// No path reaches the mount: another mount covers it, at the same path or at a directory above
    /// it.
    #[allow(missing_docs, reason = "explained above")]
    Hidden { at_same_path: bool },
    /// The mount hides files beneath its mount point.
    Covers(HiddenFiles),
    /// The mount shows the same directory as the one at this path.
    Duplicate(&'a [u8]),
    /// The file system has recorded an error.
    Failing(Fault),
    /// The mount point could not be read for lack of permission.
    Denied,
    /// The mount point is a file, not a directory.
    OnFile,
}

/// A kind of [`MountAnomaly`], the most serious first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "explained at Anomaly")]
pub enum AnomalyKind {
    /// [`MountAnomaly::Hung`] or [`MountAnomaly::Stale`].
    Unresponsive,
    Failing,
    Slow,
    Hidden,
    Covers,
    Duplicate,
    Denied,
    OnFile,
}

impl MountAnomaly<'_> {
    /// The kind of this anomaly.
    pub fn kind(&self) -> AnomalyKind {
        match self {
            MountAnomaly::Hung | MountAnomaly::Stale => AnomalyKind::Unresponsive,
            MountAnomaly::Slow => AnomalyKind::Slow,
            MountAnomaly::Hidden { .. } => AnomalyKind::Hidden,
            MountAnomaly::Covers(_) => AnomalyKind::Covers,
            MountAnomaly::Duplicate(_) => AnomalyKind::Duplicate,
            MountAnomaly::Failing(_) => AnomalyKind::Failing,
            MountAnomaly::Denied => AnomalyKind::Denied,
            MountAnomaly::OnFile => AnomalyKind::OnFile,
        }
    }
}

/// A mount and its anomalies.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnosis<'a> {
    /// Path of the mount point.
    pub target: &'a [u8],
    /// The anomalies, at least one, the most serious first.
    pub anomalies: Vec<MountAnomaly<'a>>,
}

impl Diagnosis<'_> {
    /// The kind of the most serious anomaly.
    pub fn kind(&self) -> AnomalyKind {
        self.anomalies[0].kind()
    }
}

/// The mounts with anomalies, the most serious first, otherwise in the order of the table.
pub fn diagnose<'a>(points: &[&'a Point]) -> Vec<Diagnosis<'a>> {
    let visible: HashSet<&[u8]> = points
        .iter()
        .filter(|point| !point.hidden)
        .map(|point| &point.target[..])
        .collect();
    let mut shown: HashMap<_, &[u8]> = HashMap::new();
    let mut diagnoses = Vec::new();
    for &point in points {
        let target = &point.target[..];
        let mut anomalies = own_anomalies(point, visible.contains(target));
        if is_pseudo(point) {
            // A pseudo file system stores no files, so it does not matter whether it is hidden or
            // mounted twice.
            anomalies
                .retain(|one| matches!(one.kind(), AnomalyKind::Unresponsive | AnomalyKind::Slow));
        } else if let Some(fsroot) = point.fsroot().filter(|_| !point.hidden) {
            let first = *shown.entry((point.dev, fsroot)).or_insert(target);
            if first != target {
                anomalies.push(MountAnomaly::Duplicate(first));
            }
        }
        anomalies.sort_by_key(MountAnomaly::kind);
        if !anomalies.is_empty() {
            diagnoses.push(Diagnosis { target, anomalies });
        }
    }
    diagnoses.sort_by_key(Diagnosis::kind);
    diagnoses
}

/// The anomalies that do not depend on other mounts. `is_visible`: a path reaches some mount at the
/// same path.
fn own_anomalies(point: &Point, is_visible: bool) -> Vec<MountAnomaly<'static>> {
    let verdict = match point.verdict {
        Some(Verdict::Hung) => Some(MountAnomaly::Hung),
        Some(Verdict::Stale) => Some(MountAnomaly::Stale),
        Some(Verdict::Slow) => Some(MountAnomaly::Slow),
        Some(Verdict::Denied) => Some(MountAnomaly::Denied),
        Some(Verdict::Ok | Verdict::Failing | Verdict::Hidden) | None => None,
    };
    let hidden = MountAnomaly::Hidden {
        at_same_path: is_visible,
    };
    let covered = point.beneath.filter(|beneath| beneath.files > 0);
    let anomalies = [
        verdict,
        point.fault.map(MountAnomaly::Failing),
        point.hidden.then_some(hidden),
        covered.map(MountAnomaly::Covers),
        (point.kind == Some(PointKind::File)).then_some(MountAnomaly::OnFile),
    ];
    anomalies.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ondisk::{Content, Dev};

    use super::*;

    /// A mount without anomalies; `minor` makes its device number distinct.
    fn mount(target: &[u8], minor: u32, options: &[u8]) -> Point {
        let dev = Dev::new(8, minor);
        let content = Content {
            fsroot: b"/".to_vec(),
            fstype: b"ext4".to_vec(),
            source: None,
            options: options.to_vec(),
            ..Content::default()
        };
        Point {
            content: Some(Arc::new(content)),
            ..Point::bare(target.to_vec(), dev, Some(PointKind::Dir))
        }
    }

    #[test]
    fn most_serious_anomaly_comes_first() {
        let hidden = |point| Point {
            hidden: true,
            ..point
        };
        let judged = |point, verdict| Point {
            verdict: Some(verdict),
            ..point
        };
        let points = [
            mount(b"/", 1, b"rw"),
            Point {
                kind: Some(PointKind::File),
                ..mount(b"/etc/hosts", 2, b"rw")
            },
            hidden(mount(b"/mnt", 3, b"rw")),
            mount(b"/mnt", 4, b"rw"),
            hidden(mount(b"/mnt/x", 5, b"rw")),
            judged(mount(b"/nfs", 6, b"rw"), Verdict::Hung),
            mount(b"/srv", 7, b"ro,errors=remount-ro"),
            Point {
                fault: Some(Fault::ReadOnly),
                ..mount(b"/failed", 9, b"ro")
            },
            mount(b"/again", 1, b"rw"),
            judged(mount(b"/fine", 8, b"rw"), Verdict::Ok),
        ];
        let points: Vec<&Point> = points.iter().collect();
        let found: Vec<_> = diagnose(&points)
            .into_iter()
            .map(|one| (one.target, one.anomalies))
            .collect();
        let hidden = |at_same_path| vec![MountAnomaly::Hidden { at_same_path }];
        assert_eq!(
            found,
            [
                (&b"/nfs"[..], vec![MountAnomaly::Hung]),
                (b"/failed", vec![MountAnomaly::Failing(Fault::ReadOnly)]),
                (b"/mnt", hidden(true)),
                (b"/mnt/x", hidden(false)),
                (b"/again", vec![MountAnomaly::Duplicate(b"/")]),
                (b"/etc/hosts", vec![MountAnomaly::OnFile]),
            ]
        );
    }
}
