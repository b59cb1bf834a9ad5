//! Sums of calls by program, process and system call, in bounded space.

use foldhash::HashMap;

use crate::call::Total;
use crate::error::WarningKind;

/// The maximum number of rows; further processes are added up by program. A row with one kind of
/// error takes about 100 bytes.
const MOST_ROWS: usize = 1 << 16;
const MOST_PROGRAMS: usize = 1 << 10;

/// An index into the list of program names. 0 has no name: it stands for all programs beyond
/// [`MOST_PROGRAMS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ProgramIndex(u32);

#[derive(Debug, Default)]
struct Sum {
    calls: u64,
    nanos: u64,
    errors: Vec<(i32, u64)>,
}

/// Calls, errors and nanoseconds by program and system call number.
pub(crate) type Sums = HashMap<(ProgramIndex, u32), [u64; 3]>;

pub(crate) fn add(sums: &mut Sums, program: ProgramIndex, number: u32, more: [u64; 3]) {
    let sum = sums.entry((program, number)).or_default();
    *sum = [0, 1, 2].map(|at| sum[at] + more[at]);
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    programs: HashMap<Vec<u8>, ProgramIndex>,
    sums: HashMap<(ProgramIndex, u32, u32), Sum>,
    rows_overflowed: bool,
    has_many_programs: bool,
}

impl Totals {
    pub(crate) fn program(&mut self, name: &[u8]) -> ProgramIndex {
        if let Some(program) = self.programs.get(name) {
            return *program;
        }
        if self.programs.len() >= MOST_PROGRAMS {
            self.has_many_programs = true;
            return ProgramIndex(0);
        }
        let program = ProgramIndex(self.programs.len() as u32 + 1);
        self.programs.insert(name.to_vec(), program);
        program
    }

    /// Adds calls of one process with the same result, which took `nanos` together.
    pub(crate) fn add(
        &mut self,
        program: ProgramIndex,
        pid: u32,
        number: u32,
        calls: u64,
        nanos: u64,
        errno: Option<i32>,
    ) {
        let mut key = (program, pid, number);
        if self.sums.len() >= MOST_ROWS && !self.sums.contains_key(&key) {
            self.rows_overflowed = true;
            key.1 = 0;
        }
        let sum = self.sums.entry(key).or_default();
        sum.calls += calls;
        sum.nanos += nanos;
        if let Some(errno) = errno {
            match sum.errors.iter_mut().find(|(known, _)| *known == errno) {
                Some((_, times)) => *times += calls,
                None => sum.errors.push((errno, calls)),
            }
        }
    }

    /// Adds the calls, errors and nanoseconds to `sums`, by program and system call number.
    pub(crate) fn sum_by_call(&self, sums: &mut Sums) {
        for ((program, _, number), sum) in &self.sums {
            let errors = sum.errors.iter().map(|(_, times)| times).sum();
            add(sums, *program, *number, [sum.calls, errors, sum.nanos]);
        }
    }

    pub(crate) fn name(&self, program: ProgramIndex) -> Vec<u8> {
        let mut programs = self.programs.iter();
        let named = programs.find(|(_, known)| **known == program);
        named.map(|(name, _)| name.clone()).unwrap_or_default()
    }

    /// The sums, and warnings of full tables.
    pub(crate) fn finish(self) -> (Vec<Total>, Vec<WarningKind>) {
        let mut names = vec![Vec::new(); self.programs.len() + 1];
        for (name, ProgramIndex(index)) in self.programs {
            names[index as usize] = name;
        }
        let total =
            |((ProgramIndex(index), pid, number), sum): ((ProgramIndex, u32, u32), Sum)| Total {
                program: names[index as usize].clone(),
                pid,
                number,
                calls: sum.calls,
                nanos: sum.nanos,
                errors: sum.errors,
            };
        let mut warnings = Vec::new();
        if self.rows_overflowed {
            warnings.push(WarningKind::ManyProcesses);
        }
        if self.has_many_programs {
            warnings.push(WarningKind::ManyPrograms(MOST_PROGRAMS));
        }
        (self.sums.into_iter().map(total).collect(), warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up_and_errors_counted_by_number() {
        let mut totals = Totals::default();
        let (a, b) = (totals.program(b"/bin/a"), totals.program(b"/bin/b"));
        assert_eq!(totals.program(b"/bin/a"), a);
        for (program, errno) in [
            (a, None),
            (a, Some(2)),
            (b, None),
            (a, Some(2)),
            (a, Some(13)),
        ] {
            totals.add(program, 7, 1, 1, 10, errno);
        }
        let (mut rows, warnings) = totals.finish();
        rows.sort_by(|a, b| a.program.cmp(&b.program));
        let row = |program: &[u8], calls, errors: &[(i32, u64)]| Total {
            program: program.to_vec(),
            pid: 7,
            number: 1,
            calls,
            nanos: calls * 10,
            errors: errors.to_vec(),
        };
        assert_eq!(
            rows,
            [
                row(b"/bin/a", 4, &[(2, 2), (13, 1)]),
                row(b"/bin/b", 1, &[])
            ]
        );
        assert!(warnings.is_empty());
    }

    #[test]
    fn full_tables_lose_no_calls() {
        let mut totals = Totals::default();
        let programs: Vec<_> = (0..MOST_PROGRAMS + 2)
            .map(|n| totals.program(n.to_string().as_bytes()))
            .collect();
        assert_eq!(
            programs
                .iter()
                .filter(|program| **program == ProgramIndex(0))
                .count(),
            2
        );
        let many = MOST_ROWS as u32 + 100;
        (1..=many).for_each(|pid| totals.add(programs[0], pid, 1, 1, 1, None));
        let (rows, warnings) = totals.finish();
        assert!(
            rows.len() <= MOST_ROWS + 1 && warnings.len() == 2,
            "{warnings:?}"
        );
        assert_eq!(
            rows.iter().map(|row| row.calls).sum::<u64>(),
            u64::from(many)
        );
        assert_eq!(rows.iter().find(|row| row.pid == 0).unwrap().calls, 100);
    }
}
