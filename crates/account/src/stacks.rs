//! Calls as stacks of frames for flame graphs: program, directories, system call.

use std::collections::BTreeMap;

use meter::syscalls;

use crate::command::CommandAccount;

pub use crate::ledger::StackDirectory;

/// The calls of one program with the same system call and the same directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack<'a> {
    /// The path of the executable; empty if unknown.
    pub program: &'a [u8],
    /// The directory of the files on which the calls were made, or why it is unknown.
    pub place: StackDirectory<'a>,
    /// The system call.
    pub call: &'static str,
}

/// All calls of a command as stacks; the counts add up to its number of system calls.
pub fn stacks(account: &CommandAccount) -> BTreeMap<Stack<'_>, u64> {
    let detail = &account.detail;
    let mut stacks = BTreeMap::new();
    let mut examined = BTreeMap::<(&[u8], &'static str), u64>::new();
    let mut add = |program: u16, place, number: u16, calls: u64| {
        let program = detail.programs.get(usize::from(program));
        let program = program.map_or(&b""[..], |program| program);
        let Some(call) = syscalls::by_number(number.into()).map(|call| call.name) else {
            return;
        };
        let stack = Stack {
            program,
            place,
            call,
        };
        *stacks.entry(stack).or_default() += calls;
        *examined.entry((program, call)).or_default() += calls;
    };
    for file in &detail.files {
        for ((program, number), calls) in file.by_program() {
            add(
                program,
                StackDirectory::Directory(file.dir()),
                number,
                calls,
            );
        }
    }
    for (&(program, number, place), &calls) in &detail.elsewhere {
        add(program, place, number, calls);
    }
    let mut all = BTreeMap::<(&[u8], &'static str), u64>::new();
    for total in &account.metered.totals {
        if let Some(call) = syscalls::by_number(total.number) {
            *all.entry((&total.program, call.name)).or_default() += total.calls;
        }
    }
    for ((program, call), calls) in all {
        let known = examined.get(&(program, call)).copied().unwrap_or(0);
        if calls > known {
            let stack = Stack {
                program,
                place: StackDirectory::Unexamined,
                call,
            };
            stacks.insert(stack, calls - known);
        }
    }
    stacks
}
