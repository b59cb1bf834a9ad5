//! Machine formats of a command's system calls: CSV, and folded stacks for flame graphs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use account::report::AccountReport;
use account::stacks::{Stack, StackDirectory};
use base::path::names;
use show::name::printable;

use crate::out::seconds;

use super::costliest_calls;

/// The table of system calls as CSV (RFC 4180), costliest first.
pub(crate) fn system_calls_csv(account: &AccountReport<'_>, most: usize) -> String {
    let mut text =
        "system_call,calls,errors,seconds,wait_calls,wait_seconds,errnos,ms_per_call\n".to_owned();
    for (name, gate) in costliest_calls(account).into_iter().take(most) {
        let errors = gate.errors.iter();
        let errnos = errors.map(|(errno, n)| format!("{}:{n}", errno.name()));
        let errnos = errnos.collect::<Vec<_>>().join(" ");
        let (calls, errors) = (gate.sum.calls, gate.sum.errors);
        let waits = account.waits_in(name);
        let (time, waited) = (seconds(gate.sum.nanos), seconds(waits.nanos));
        let wait_calls = waits.calls;
        let _ = writeln!(
            text,
            "{name},{calls},{errors},{time},{wait_calls},{waited},{errnos},{}",
            rounded(gate.without(&waits).ms_per_call())
        );
    }
    text
}

/// A quotient with at most 9 significant digits.
fn rounded(quotient: f64) -> f64 {
    format!("{quotient:.8e}").parse().unwrap_or(quotient)
}

/// Lines of `program;directory;...;call count`, as flamegraph.pl and inferno read them.
pub(crate) fn folded(stacks: &BTreeMap<Stack<'_>, u64>) -> String {
    let mut text = String::new();
    for (stack, calls) in stacks {
        text.push_str(&match stack.program {
            b"" => Cow::Borrowed("[unknown program]"),
            program => frame(program),
        });
        match stack.place {
            StackDirectory::Directory(path) => {
                text.push_str(";/");
                for component in names(path) {
                    text.push(';');
                    text.push_str(&frame(component));
                }
            }
            StackDirectory::Nameless => text.push_str(";[no path]"),
            StackDirectory::Unheld => text.push_str(";[more files]"),
            StackDirectory::Unexamined => text.push_str(";[not examined]"),
        }
        let _ = writeln!(text, ";{} {calls}", stack.call);
    }
    text
}

/// A name in which `;` and control characters are escaped, because these separate frames and lines.
/// Blanks are kept: flamegraph.pl takes only the last number of a line as the count.
fn frame(name: &[u8]) -> Cow<'_, str> {
    match printable(name) {
        shown if shown.contains(';') => Cow::Owned(shown.replace(';', "\\x3b")),
        shown => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quotient_has_at_most_nine_digits() {
        let shown = [0.359_452_368_421_052_66, 1.0 / 3e-9, 0.0, 0.5].map(rounded);
        assert_eq!(shown, [0.359_452_368, 333_333_333.0, 0.0, 0.5]);
    }

    fn line(program: &[u8], place: StackDirectory<'_>, calls: u64) -> String {
        let stack = Stack {
            program,
            place,
            call: "openat",
        };
        folded(&BTreeMap::from([(stack, calls)]))
    }

    #[test]
    fn stacks_are_escaped() {
        for (program, place, text) in [
            (
                &b"/bin/ls"[..],
                StackDirectory::Directory(b"/"),
                "/bin/ls;/;openat 7",
            ),
            (
                b"/bin/ls",
                StackDirectory::Directory(b"/a b/c"),
                "/bin/ls;/;a b;c;openat 7",
            ),
            (
                b"/x;y",
                StackDirectory::Directory(b"/a;b\n/\xff"),
                "/x\\x3by;/;a\\x3bb\\n;\\xff;openat 7",
            ),
            (
                b"",
                StackDirectory::Nameless,
                "[unknown program];[no path];openat 7",
            ),
            (b"a", StackDirectory::Unheld, "a;[more files];openat 7"),
            (
                b"a",
                StackDirectory::Unexamined,
                "a;[not examined];openat 7",
            ),
        ] {
            assert_eq!(line(program, place, 7), format!("{text}\n"));
        }
    }

    proptest! {
        #[test]
        fn any_name_gives_one_line_of_flamegraph_pl(
            program in prop::collection::vec(any::<u8>(), 0..30),
            path in prop::collection::vec(any::<u8>(), 0..30),
            calls in any::<u64>(),
        ) {
            let text = line(&program, StackDirectory::Directory(&path), calls);
            // The regular expression with which flamegraph.pl parses a line:
            // /^(.*)\s+?(\d+(?:\.\d*)?)$/
            let format = regex::Regex::new(r"^[^\n]*;openat (\d+)\n$").unwrap();
            let found = format.captures(&text).unwrap();
            prop_assert_eq!(&found[1], calls.to_string());
            prop_assert_eq!(text.matches(';').count(), names(&path).count() + 2);
        }
    }
}
