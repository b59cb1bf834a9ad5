//! Parses the records that BPF programs write to the ring buffer.

use super::layout::{arguments, double, slot, task, word};
use crate::call::Call;

/// Parses the call in a record, without names.
pub(super) fn call_in(record: &[u8], has_returned: bool) -> Call<'static> {
    let at = |field: i16| field - task::RECORD;
    let registers = record.get(at(task::REGISTERS) as usize..);
    let (result, nanos) = match has_returned {
        true => (
            Some(double(record, at(task::RESULT)).cast_signed()),
            double(record, at(task::NANOS)),
        ),
        false => (None, 0),
    };
    Call {
        pid: word(record, at(task::PID)),
        tid: word(record, at(task::TID)),
        number: word(record, at(task::NUMBER)),
        args: arguments(registers.unwrap_or_default()),
        name: None,
        other: None,
        result,
        start: double(record, at(task::START)),
        nanos,
    }
}

/// The two names in a record, consecutive from offset `at`, each with a NUL. Their lengths are at
/// the offsets `lengths`, 0 for none.
pub(super) fn names_in(record: &[u8], at: i16, lengths: [i16; 2]) -> [Option<&[u8]>; 2] {
    let bytes = record.get(at as usize..).unwrap_or_default();
    let [first, second] = lengths.map(|at| word(record, at) as usize);
    let name = |from: usize, len: usize| bytes.get(from..from.checked_add(len.checked_sub(1)?)?);
    [name(0, first), name(first, second)]
}

/// The name of the executable in a slot, without its NUL.
pub(super) fn program_name(slot: &[u8]) -> &[u8] {
    let name = slot.get(slot::NAME as usize..).unwrap_or_default();
    let len = word(slot, slot::NAME_LEN) as usize;
    let name = &name[..len.min(name.len())];
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::layout::names;
    use super::*;

    #[test]
    fn names_of_a_record_are_without_their_nul() {
        let mut record = vec![0; names::BYTES as usize];
        record[names::FIRST as usize] = 4;
        record[names::SECOND as usize] = 1;
        record.extend(b"a/b\0\0");
        let both = |record: &[u8]| {
            names_in(record, names::BYTES, [names::FIRST, names::SECOND])
                .map(|name| name.map(<[u8]>::to_vec))
        };
        assert_eq!(both(&record), [Some(b"a/b".to_vec()), Some(Vec::new())]);
        // Lengths that exceed the record must give no names.
        record[names::FIRST as usize] = 9;
        assert_eq!(both(&record), [None, None]);
        assert_eq!(both(&record[..9]), [None, None]);
    }

    #[test]
    fn the_name_of_a_slot_has_the_length_of_the_slot() {
        let mut value = vec![0; slot::LEN as usize];
        value[slot::NAME as usize..][..9].copy_from_slice(b"/bin/true");
        value[slot::NAME_LEN as usize] = 10;
        assert_eq!(program_name(&value), b"/bin/true");
        value[slot::NAME_LEN as usize] = 5;
        assert_eq!(
            (
                program_name(&value),
                program_name(&value[..40]),
                program_name(b"")
            ),
            (&b"/bin/"[..], &b"/bin/"[..], &b""[..])
        );
    }
}
