//! Passes the results of rows, in row groups, from the writer of the archive to that of the
//! catalog.

use std::sync::mpsc::{Receiver, Sender, channel};

use catalog::rows_of_group;
use walk::Meta;

/// The results of the rows of one row group. Rows without a result are recorded as collected,
/// without a new checksum.
#[derive(Debug, Default)]
pub(crate) struct RowGroupResults {
    /// Rows of dumped files, with the checksums of the data in the archive.
    pub(crate) hashes: Vec<(usize, [u8; 32])>,
    /// Rows whose metadata changed since they were collected.
    pub(crate) amended: Vec<(usize, Meta)>,
    /// Rows that the catalog must record as unknown, so that the next increment dumps them.
    pub(crate) missing: Vec<usize>,
}

/// The sending end of the channel for row groups. If dropped before [`ResultSender::finish`], the
/// receiver learns that the dump failed.
pub(crate) struct ResultSender {
    rows: usize,
    size: usize,
    nth: usize,
    group: RowGroupResults,
    to: Sender<RowGroupResults>,
}

impl ResultSender {
    pub(crate) fn new(rows: usize) -> (ResultSender, Receiver<RowGroupResults>) {
        let (to, from) = channel();
        let results = ResultSender {
            rows,
            size: rows_of_group(rows),
            nth: 0,
            group: RowGroupResults::default(),
            to,
        };
        (results, from)
    }

    /// The results for the row group of a row. Sends those of all earlier groups.
    pub(crate) fn at(&mut self, row: usize) -> &mut RowGroupResults {
        while self.nth < row / self.size {
            self.send();
        }
        &mut self.group
    }

    fn send(&mut self) {
        // Sending fails only if the writer of the catalog has failed, which reports its own error.
        let _ = self.to.send(std::mem::take(&mut self.group));
        self.nth += 1;
    }

    /// Sends the results of all remaining row groups.
    pub(crate) fn finish(mut self) {
        while self.nth < self.rows.div_ceil(self.size) {
            self.send();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        reason = "the tests need no counts of their threads"
    )]
    use super::*;

    #[test]
    fn results_come_in_portions_of_row_groups() {
        const ROWS: usize = 50_000;
        let (mut results, result_groups) = ResultSender::new(ROWS);
        let size = results.size;
        assert!(6 * size < ROWS && 7 * size >= ROWS, "{size}");
        for row in [3, size - 1, 2 * size] {
            results.at(row).missing.push(row);
        }
        let missing = || result_groups.recv().map(|group| group.missing);
        assert_eq!((missing(), missing()), (Ok(vec![3, size - 1]), Ok(vec![])));
        std::thread::scope(|scope| {
            scope.spawn(|| results.finish());
            assert_eq!(missing(), Ok(vec![2 * size]));
        });
        let rest: Vec<_> = result_groups.iter().collect();
        assert!(rest.len() == 4 && rest.iter().all(|group| group.missing.is_empty()));
    }

    #[test]
    fn receiver_does_not_wait_for_a_writer_that_gave_up() {
        let (results, result_groups) = ResultSender::new(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || result_groups.recv().is_err());
            drop(results);
            assert!(waits.join().unwrap());
        });
    }
}
