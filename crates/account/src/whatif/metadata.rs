//! Calls for metadata, by file system type.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use crate::ledger::{Detail, LastDirectory};
use crate::prices::PricedCalls;

/// The metadata calls on the files of one file system type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataCalls {
    /// The number of different files.
    pub(super) entries: u64,
    pub(super) work: PricedCalls,
    /// Metered time of these calls, in nanoseconds.
    pub(super) nanos: u64,
}

impl MetadataCalls {
    /// The sum over the file system types for which `is_one` holds.
    pub(super) fn sum(
        asked: &BTreeMap<Vec<u8>, MetadataCalls>,
        is_one: impl Fn(&[u8]) -> bool,
    ) -> MetadataCalls {
        let mut sum = MetadataCalls::default();
        for (_, row) in asked.iter().filter(|(fstype, _)| is_one(fstype)) {
            sum.entries += row.entries;
            sum.work.join(&row.work);
            sum.nanos += row.nanos;
        }
        sum
    }
}

/// The metadata calls by file system type; an empty name is an unknown type. Files for which the
/// table of files had no room are assumed to be like the others.
pub(crate) fn metadata_calls(
    detail: &Detail,
    fstype: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> BTreeMap<Vec<u8>, MetadataCalls> {
    let mut types: HashMap<&[u8], usize> = HashMap::new();
    let mut asked: Vec<(Vec<u8>, MetadataCalls)> = Vec::new();
    let mut last = LastDirectory::default();
    for file in &detail.files {
        let (work, nanos) = file.metadata_work();
        if work.calls() == 0 {
            continue;
        }
        let find = |dir: &&[u8]| {
            let fstype = fstype(dir).unwrap_or_default();
            let known = asked.iter().position(|(known, _)| *known == fstype);
            known.unwrap_or_else(|| {
                asked.push((fstype, MetadataCalls::default()));
                asked.len() - 1
            })
        };
        let at = last.get(file.dir(), |dir| *types.entry(dir).or_insert_with_key(find));
        if let Some((_, row)) = asked.get_mut(at) {
            row.entries += 1;
            row.work.join(&work);
            row.nanos += nanos;
        }
    }
    let named = detail.work.calls().saturating_sub(detail.nameless.calls);
    let held = named.saturating_sub(detail.unheld.calls);
    let times = match held {
        0 => 1.0,
        held => named as f64 / held as f64,
    };
    for (_, row) in &mut asked {
        row.entries = (row.entries as f64 * times).round() as u64;
        row.work = row.work.scaled(times);
        row.nanos = (row.nanos as f64 * times).round() as u64;
    }
    asked.into_iter().collect()
}
