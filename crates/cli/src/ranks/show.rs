//! Notes and JSON about the ranks of an MPI job.

use serde::{Deserialize, Serialize};
use show::units::{count, plural};

use crate::out::Out;

/// Number of entries that a rank of an MPI job found, and its host; also a member of the JSON.
#[derive(Serialize, Deserialize)]
pub(crate) struct RankEntries {
    pub(crate) rank: usize,
    pub(crate) host: String,
    /// Number of processors that the rank may use.
    pub(crate) processors: usize,
    pub(crate) entries: u64,
}

/// Prints a note with the minimum and maximum number of entries of several ranks, and with the number of
/// parts that `--resume` kept, of all parts.
pub(crate) fn note_ranks(ranks: Option<&[RankEntries]>, kept: Option<(usize, usize)>, out: &Out) {
    if let Some(ranks) = ranks.filter(|ranks| ranks.len() > 1) {
        let entries = || ranks.iter().map(|found| found.entries);
        let (least, most) = (entries().min(), entries().max());
        let [least, most] = [least, most].map(|entries| count(entries.unwrap_or(0)));
        let all = plural(ranks.len() as u64, "rank", "ranks");
        out.note(format_args!("{all}, each with {least} to {most} entries"));
    }
    match kept {
        None => {}
        Some((0, _)) => out.note("no parts of an earlier attempt were kept"),
        Some((kept, of)) => {
            let (kept, of) = (count(kept as u64), count(of as u64));
            out.note(format_args!(
                "{kept} of {of} parts were kept from an earlier attempt"
            ));
        }
    }
}
