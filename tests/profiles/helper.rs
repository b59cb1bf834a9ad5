//! The profiles themselves: each call that a profile forbids fails, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::support::profile::{ADDED, KERNELS, Profile, lacking};
use crate::support::tool::tool;

/// Prints the error number of each of the system calls from 424 to 479, with arguments that make
/// every kernel that has it fail at once.
const CALLS: &str = "import ctypes
c = ctypes.CDLL(None, use_errno=True)
bad = ctypes.c_long(-1)
for number in range(424, 480):
    if number not in (435, 446):
        ctypes.set_errno(0)
        c.syscall(ctypes.c_long(number), bad, bad, bad, bad, bad, bad)
        print(number, ctypes.get_errno())
";

fn errors(profile: &Profile) -> BTreeMap<u32, i32> {
    let mut python = Command::new("python3");
    python.args(["-c", CALLS]);
    profile.apply(&mut python);
    let printed = String::from_utf8(tool(&mut python)).unwrap();
    let pair = |line: &str| {
        let (number, errno) = line.split_once(' ').unwrap();
        (number.parse().unwrap(), errno.parse().unwrap())
    };
    printed.lines().map(pair).collect()
}

#[test]
fn a_kernel_profile_fails_the_calls_that_were_added_later() {
    let usual = errors(&Profile::none());
    for (profile, (name, version)) in Profile::kernels().iter().zip(KERNELS) {
        let is_lacking = |number| {
            lacking(version).any(|added| added.rule.number == number)
                || ADDED.iter().all(|added| added.rule.number != number)
        };
        for (number, errno) in errors(profile) {
            let expected = if is_lacking(number) {
                libc::ENOSYS
            } else {
                usual[&number]
            };
            assert_eq!(errno, expected, "{name}: {number}");
        }
    }
}

#[test]
fn a_filter_distinguishes_the_arguments_of_a_call() {
    const ASK: &str = "import ctypes, fcntl
c = ctypes.CDLL(None, use_errno=True)
for request in (0x420e, 0x4201):
    c.ptrace(ctypes.c_long(request), 1, 0, 0)
    print(ctypes.get_errno())
for request in (0x80111500, 0x8040587f, 0x5401):
    c.ioctl(-1, ctypes.c_ulong(request), 0)
    print(ctypes.get_errno())
";
    let asked = |profile: &Profile| {
        let mut python = Command::new("python3");
        python.args(["-c", ASK]);
        profile.apply(&mut python);
        let printed = String::from_utf8(tool(&mut python)).unwrap();
        let numbers = printed.lines().map(|line| line.parse().unwrap());
        numbers.collect::<Vec<i32>>()
    };
    let (bad, none) = (libc::EBADF, libc::ESRCH);
    assert_eq!(asked(&Profile::none()), [none, none, bad, bad, bad]);
    let kernels = Profile::kernels();
    let (oldest, newest) = (&kernels[0], &kernels[5]);
    let missing = libc::ENOTTY;
    assert_eq!(asked(oldest), [libc::EIO, none, missing, missing, bad]);
    assert_eq!(asked(newest), [none, none, missing, bad, bad]);
}

/// System calls that fathom makes, but that [`gate::Gate`] does not count.
const NOT_COUNTED: [&str; 4] = [
    "close_range",
    "pidfd_open",
    "PTRACE_GET_SYSCALL_INFO",
    "BPF_MAP_TYPE_RINGBUF",
];

#[test]
fn the_documentation_lists_what_each_kernel_lacks() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kernels.md");
    let page = std::fs::read_to_string(page).unwrap();
    let bare = |name: &'static str| name.rsplit([':', ' ']).next().unwrap();
    let gates = gate::Gate::ALL.iter().map(|gate| bare(gate.name()));
    let used: BTreeSet<&str> = gates.chain(NOT_COUNTED).chain(["FAN_REPORT_MNT"]).collect();
    let mut newer = BTreeSet::new();
    for (name, version) in KERNELS.into_iter().rev() {
        let all: BTreeSet<_> = lacking(version).map(|added| bare(added.name)).collect();
        let all: BTreeSet<_> = all.intersection(&used).copied().collect();
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {name} |")));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        let listed: BTreeSet<_> = row.split('`').skip(1).step_by(2).collect();
        assert_eq!(listed, &all - &newer, "{name}");
        newer = all;
    }
}
