//! The results of rows, on their way from the writer of the archive to that of the catalog: a
//! portion for each row group.

use std::sync::mpsc::{Receiver, Sender, channel};

use walk::Meta;

use crate::catalog::rows_of_group;

/// The results of some rows. The others are as they were collected, and have no checksum of their
/// own.
#[derive(Debug, Default)]
pub(crate) struct Portion {
    /// Checksums of what the archive has.
    pub(crate) hashes: Vec<(usize, [u8; 32])>,
    /// Rows that changed since they were collected.
    pub(crate) amended: Vec<(usize, Meta)>,
    /// Rows that the catalog must record as unknown, so that the next increment dumps them.
    pub(crate) missing: Vec<usize>,
}

/// The sending end. Dropping it before [`Settling::finish`] tells the receiver that the rest will
/// not come.
pub(crate) struct Settling {
    rows: usize,
    /// Rows of a portion.
    size: usize,
    nth: usize,
    portion: Portion,
    to: Sender<Portion>,
}

impl Settling {
    pub(crate) fn new(rows: usize) -> (Settling, Receiver<Portion>) {
        let (to, from) = channel();
        let settling = Settling {
            rows,
            size: rows_of_group(rows),
            nth: 0,
            portion: Portion::default(),
            to,
        };
        (settling, from)
    }

    /// The portion of a row. All rows before that portion are settled.
    pub(crate) fn at(&mut self, row: usize) -> &mut Portion {
        while self.nth < row / self.size {
            self.send();
        }
        &mut self.portion
    }

    fn send(&mut self) {
        // The receiver may have failed: it reports its own error.
        let _ = self.to.send(std::mem::take(&mut self.portion));
        self.nth += 1;
    }

    /// Settles all rows.
    pub(crate) fn finish(mut self) {
        while self.nth < self.rows.div_ceil(self.size) {
            self.send();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_portions_of_row_groups() {
        let (mut settling, portions) = Settling::new(100);
        let size = settling.size;
        assert!(3 * size < 100 && 7 * size >= 100, "{size}");
        for row in [3, size - 1, 2 * size] {
            settling.at(row).missing.push(row);
        }
        let missing = || portions.recv().map(|portion| portion.missing);
        assert_eq!((missing(), missing()), (Ok(vec![3, size - 1]), Ok(vec![])));
        std::thread::scope(|scope| {
            scope.spawn(|| settling.finish());
            assert_eq!(missing(), Ok(vec![2 * size]));
        });
        let rest: Vec<_> = portions.iter().collect();
        assert!(rest.len() == 4 && rest.iter().all(|portion| portion.missing.is_empty()));
    }

    #[test]
    fn receiver_does_not_wait_for_a_writer_that_gave_up() {
        let (settling, portions) = Settling::new(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || portions.recv().is_err());
            drop(settling);
            assert!(waits.join().unwrap());
        });
    }
}
