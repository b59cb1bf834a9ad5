//! The rows that a rank dumps, in one piece or in several written one after the other.
//!
//! The piece of an entry depends only on the tree, not on the rank that finds it. So sums over all
//! ranks tell whether a piece is the same as in an earlier dump.

use catalog::rows::Rows;
use catalog::{Sums, sums_of_pieces};
use team::{Team, share};
use walk::{Diagnostics, Moment};

use super::options::{DumpOptions, DumpSummary};
use super::progress::Progress;
use crate::gather::{Gathered, OF_OTHERS, RankRows, collect_together};
use crate::plan::{Plan, PlanStep};

/// The rows that a dump is responsible for. Other rows are in its archive only as parent
/// directories.
#[derive(Clone, Copy)]
pub(crate) enum OwnRows<'a> {
    All,
    /// The rows of one piece: the piece number of each row, and the number of the selected piece.
    Piece(&'a [u32], u32),
}

impl OwnRows<'_> {
    pub(crate) fn has(self, row: usize) -> bool {
        match self {
            OwnRows::All => true,
            OwnRows::Piece(piece_of, piece) => piece_of[row] == piece,
        }
    }

    /// A summary with the numbers of owned entries and directories.
    pub(crate) fn summary(self, rows: &Rows) -> DumpSummary {
        let (entries, directories) = match self {
            OwnRows::All => (rows.len(), rows.directories().len()),
            OwnRows::Piece(..) => (
                (0..rows.len()).filter(|row| self.has(*row)).count(),
                rows.directories()
                    .filter(|row| self.has(*row as usize))
                    .count(),
            ),
        };
        DumpSummary {
            entries: entries as u64,
            gathered: entries as u64,
            directories: directories as u64,
            ..DumpSummary::default()
        }
    }
}

/// The rows that a rank dumps.
pub struct DumpShare {
    share: RankRows,
    pieces: u32,
    plan: Plan,
}

impl DumpShare {
    /// Collects the rows that this rank dumps, together with all ranks, and divides them into
    /// pieces.
    ///
    /// # Errors
    /// The tree cannot be walked; [`walk::Error::OtherRank`] if another rank has failed.
    pub fn collect(
        options: &DumpOptions,
        pieces: u32,
        team: &dyn Team,
        diagnostics: &Diagnostics,
    ) -> Result<DumpShare, walk::Error> {
        let for_catalog = options.catalog.is_some().then(Moment::now);
        let request = options.collect_options(for_catalog);
        let share = collect_together(&request, pieces, team, diagnostics)?;
        let plan = Plan::full(&share.rows);
        Ok(DumpShare {
            share,
            pieces,
            plan,
        })
    }

    /// For each piece, the sums over the entries of all ranks.
    pub fn sums(&self, team: &dyn Team) -> Vec<Sums> {
        let RankRows { rows, piece_of, .. } = &self.share;
        let own = sums_of_pieces(rows, piece_of, self.pieces);
        let mut all = vec![Sums::default(); own.len()];
        for of_rank in share(team, own) {
            for (sums, of_rank) in all.iter_mut().zip(&of_rank) {
                sums.merge(of_rank);
            }
        }
        all
    }

    /// Sets the totals of the progress, without the pieces for which `is_kept` is true.
    pub fn begin(&self, progress: &Progress, is_kept: impl Fn(u32) -> bool) {
        let piece_of = &self.share.piece_of;
        let is_written = |row: usize| piece_of[row] != OF_OTHERS && !is_kept(piece_of[row]);
        progress.begin(&self.share.rows, &self.plan, is_written);
    }

    /// A summary of the entries of a piece that this rank has found.
    pub fn found(&self, piece: u32) -> DumpSummary {
        DumpSummary {
            parts: self.share.parts.clone(),
            ..self.own(piece).summary(&self.share.rows)
        }
    }

    pub(super) fn own(&self, piece: u32) -> OwnRows<'_> {
        OwnRows::Piece(&self.share.piece_of, piece)
    }

    /// The rows and the plan of a piece, with the directories above its rows.
    pub(super) fn planned(&self, piece: u32) -> (&Rows, Vec<Gathered>, Plan) {
        let RankRows { rows, parts, .. } = &self.share;
        let own = self.own(piece);
        let mut plan = self.plan.clone();
        if self.pieces > 1 {
            let mut is_needed = vec![false; rows.len()];
            let tops = rows
                .sources()
                .iter()
                .filter(|source| !source.rows.is_empty());
            tops.for_each(|source| is_needed[source.rows.start] = true);
            for row in (0..rows.len()).filter(|row| own.has(*row)) {
                let mut next = Some(row);
                while let Some(row) = next.filter(|row| !is_needed[*row]) {
                    is_needed[row] = true;
                    next = rows.parent(row);
                }
            }
            let others = (0..rows.len()).filter(|row| !is_needed[*row]);
            others.for_each(|row| plan.set(row, PlanStep::LeftOut));
        }
        (rows, parts.clone(), plan)
    }
}
