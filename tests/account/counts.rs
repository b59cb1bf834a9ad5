//! Tests that a meter counts the same system calls as `strace -f -c`, by name.
//!
//! Each command makes the same calls in every run, as far as possible. Where the scheduler decides
//! (how a pipe's bytes are divided into reads, which process gets make's first token), or where a
//! meter reports lost calls on a busy machine, pairs of runs are repeated until one agrees. A meter
//! that misses a call, or counts one twice, never agrees.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::build::{chmod, dir, name};

use crate::support::restrict::{as_nobody, fathom_in, populate_chroot};
use crate::support::run::{Ran, program};
use crate::support::tool::tool;
use crate::support::{Need, in_namespace, require, run};

/// Every meter. A new meter must pass all of these tests, so add its name here.
pub(crate) const METERS: [&str; 2] = ["bpf", "ptrace"];

/// Maximum number of pairs of runs; the test passes as soon as one pair agrees.
const ROUNDS: usize = 5;

type Counts = BTreeMap<String, (u64, u64)>;

/// How to run the programs of a test.
struct Place<'a> {
    /// The meters that must agree with strace.
    meters: &'a [&'a str],
    /// A directory for files of the test.
    at: &'a Path,
    /// The program under test.
    fathom: PathBuf,
    /// Prepares a command, whether a meter or strace counts its calls.
    prepare: &'a dyn Fn(&mut Command),
}

impl<'a> Place<'a> {
    fn new(at: &'a Path) -> Place<'a> {
        Place {
            meters: &METERS,
            at,
            fathom: env!("CARGO_BIN_EXE_fathom").into(),
            prepare: &|_| {},
        }
    }

    /// The calls that the meter counts, and the status and output of the command.
    fn metered(&self, meter: &str, words: &[OsString]) -> (Ran, Counts, Value) {
        let report = self.at.join("report");
        let _ = std::fs::remove_file(&report);
        let mut args: Vec<OsString> = ["account", "--meter", meter, "--json", "-o"]
            .map(OsString::from)
            .to_vec();
        args.extend([report.clone().into_os_string(), "--".into()]);
        args.extend(words.iter().cloned());
        let mut command = program(&self.fathom, args);
        (self.prepare)(&mut command);
        let ran = run(&mut command);
        let text =
            std::fs::read(&report).unwrap_or_else(|error| panic!("no report ({error}): {ran}"));
        let value: Value = serde_json::from_slice(&text).unwrap();
        crate::support::schema::check(&value);
        let result = &value["result"];
        assert_eq!(result["meter"], meter, "{ran}");
        let gates = result["gates"].as_object().unwrap();
        let count = |gate: &Value| {
            (
                gate["calls"].as_u64().unwrap(),
                gate["errors"].as_u64().unwrap(),
            )
        };
        (
            ran,
            gates
                .iter()
                .map(|(name, gate)| (name.clone(), count(gate)))
                .collect(),
            value,
        )
    }

    /// The calls that strace counts.
    fn traced(&self, words: &[OsString]) -> (Ran, Counts) {
        let log = self.at.join("log");
        let _ = std::fs::remove_file(&log);
        let mut args: Vec<OsString> = ["-f", "-c", "-U", "name,calls,errors", "-o"]
            .map(OsString::from)
            .to_vec();
        args.extend([log.clone().into_os_string(), "--".into()]);
        args.extend(words.iter().cloned());
        let mut command = program(Path::new("strace"), args);
        (self.prepare)(&mut command);
        let ran = run(&mut command);
        let mut counts = Counts::new();
        for row in std::fs::read_to_string(&log).unwrap_or_default().lines() {
            let fields: Vec<&str> = row.split_whitespace().collect();
            if let [name, calls, errors @ ..] = &fields[..]
                && *name != "total"
                && let Ok(calls) = calls.parse()
            {
                counts.insert(
                    (*name).to_owned(),
                    (
                        calls,
                        errors.first().map_or(0, |errors| errors.parse().unwrap()),
                    ),
                );
            }
        }
        assert!(!counts.is_empty(), "strace counts nothing: {ran}");
        (ran, counts)
    }

    /// Checks that every meter agrees with strace about this command, whose output and status are
    /// the same under both.
    fn agree<W: AsRef<OsStr>>(&self, words: &[W]) {
        let words: Vec<OsString> = words.iter().map(|word| word.as_ref().to_owned()).collect();
        for meter in self.meters {
            let mut differ = String::new();
            let agrees = (0..ROUNDS).any(|_| {
                let (ran, counted, value) = self.metered(meter, &words);
                let (witness, mut traced) = self.traced(&words);
                assert_eq!(ran.stdout, witness.stdout, "{ran}\n{witness}");
                let code = |ran: &Ran| {
                    ran.status
                        .code()
                        .or(ran.status.signal().map(|signal| 128 + signal))
                };
                assert_eq!(code(&ran), code(&witness), "{ran}\n{witness}");
                traced.retain(|name, _| is_metered(name));
                differ = difference(&counted, &traced);
                let lost = &value["result"]["lost"];
                if *lost != 0 {
                    differ.push_str(&format!("lost: {lost}\n"));
                }
                differ.is_empty()
            });
            assert!(
                agrees,
                "{meter}, {words:?}: (calls, errors) here and by strace\n{differ}"
            );
        }
    }
}

/// Whether a meter must count a system call of strace's table. The list has the calls that are no
/// file-system work: waiting, memory, sockets, processes, signals, clocks. All others must be
/// counted, so that a new call in the table fails the test.
pub(crate) fn is_metered(name: &str) -> bool {
    const OTHERS: &str = "mmap munmap mprotect mremap madvise brk poll ppoll select pselect6 epoll_create epoll_create1 \
        epoll_ctl epoll_wait epoll_pwait rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigpending \
        sigaltstack pause nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times getrusage clone clone3 \
        fork vfork exit exit_group wait4 waitid kill tkill tgkill getpid getppid gettid getpgid getpgrp setpgid getsid setsid \
        getuid geteuid getgid getegid getgroups setgroups setuid setgid setreuid setregid setresuid setresgid getresuid \
        getresgid prctl arch_prctl set_tid_address set_robust_list get_robust_list rseq futex sched_yield sched_getaffinity \
        sched_setaffinity sched_getparam sched_getscheduler getrlimit setrlimit prlimit64 getrandom uname sysinfo getcpu \
        restart_syscall capget capset socket connect sendto recvfrom sendmsg recvmsg bind listen accept accept4 getsockname \
        getpeername setsockopt getsockopt socketpair shutdown eventfd2 timerfd_create signalfd4 memfd_create personality \
        getpriority setpriority mincore alarm setitimer getitimer membarrier";
    !OTHERS.split_whitespace().any(|other| other == name)
}

fn difference(here: &Counts, there: &Counts) -> String {
    let all = here
        .keys()
        .chain(there.keys())
        .collect::<std::collections::BTreeSet<_>>();
    let of = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or_default();
    all.into_iter()
        .filter(|name| of(here, name) != of(there, name))
        .map(|name| format!("{name}: {:?} and {:?}\n", of(here, name), of(there, name)))
        .collect()
}

/// Compiles `busy.c`, and returns the path of the program.
pub(crate) fn busy(at: &Path) -> PathBuf {
    let built = at.join("busy");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../meter/src/tests/busy.c");
    tool(
        Command::new("cc")
            .args(["-O1", "-w", "-pthread", source, "-o"])
            .arg(&built),
    );
    built
}

const STRACE: Need = Need::Program("strace");
const CC: Need = Need::Program("cc");

fn on_a_plain_directory(needs: &[Need], test: impl FnOnce(&Place<'_>)) {
    if require(needs) {
        let at = tempfile::tempdir().unwrap();
        test(&Place::new(at.path()));
    }
}

#[test]
fn shell_scripts_with_pipelines_and_background_jobs() {
    on_a_plain_directory(&[STRACE], |place| {
        let script = place.at.join("script");
        let text = "cd /usr/lib && for i in 1 2 3; do ls / >/dev/null & done; wait\n\
            cat /etc/passwd | sort | head -n 1 >/dev/null\n\
            x=$(echo one) && test -d \"$x\" || (cd / && pwd -P) >/dev/null\n\
            sh -c 'kill -9 $$' & wait $!; exec ls -l /no/such/file\n";
        std::fs::write(&script, text).unwrap();
        for shell in ["sh", "bash"] {
            place.agree(&[OsStr::new(shell), script.as_os_str()]);
        }
    });
}

#[test]
fn threads_forks_and_vforks_at_once() {
    on_a_plain_directory(&[STRACE, CC], |place| {
        let busy = busy(place.at);
        place.agree(&[busy.as_os_str(), "crowd".as_ref()]);
    });
}

#[test]
fn daemons_crashes_bad_pointers_and_exec_by_threads() {
    on_a_plain_directory(&[STRACE, CC], |place| {
        let busy = busy(place.at);
        for words in [
            &["daemon"][..],
            &["thread-exec"],
            &["end-in-call"],
            &["restart"],
            &["names"],
            &["family"],
            &["filtered"],
            &["traced"],
        ] {
            let words: Vec<&OsStr> = [busy.as_os_str()]
                .into_iter()
                .chain(words.iter().map(OsStr::new))
                .collect();
            place.agree(&words);
        }
        for signal in ["9", "11", "15"] {
            place.agree(&[busy.as_os_str(), "die".as_ref(), signal.as_ref()]);
        }
    });
}

#[test]
fn start_of_python() {
    on_a_plain_directory(&[STRACE, Need::Program("python3")], |place| {
        let python = ["/usr/bin/python3", "python3"]
            .into_iter()
            .find(|it| Path::new(it).exists() || !it.contains('/'));
        place.agree(&[
            python.unwrap_or("python3"),
            "-B",
            "-c",
            "import json, decimal; print(decimal.Decimal(2) ** 9)",
        ]);
    });
}

#[test]
fn parallel_build() {
    on_a_plain_directory(&[STRACE, CC, Need::Program("make")], |place| {
        let tree = dir(place.at.join("tree"));
        for unit in 1..=3 {
            std::fs::write(
                tree.join(format!("u{unit}.c")),
                format!("int u{unit}(void) {{ return {unit}; }}\n"),
            )
            .unwrap();
        }
        std::fs::write(tree.join("main.c"), "int main(void) { return 0; }\n").unwrap();
        // make starts four compilers at once, and no fifth: whether a fifth gets make's own
        // standard input, or an invalid one by dup2, depends on the order in which jobs end. A run
        // leaves no files behind for the next one.
        let text = "all: main.o u1.o u2.o u3.o\n\t$(CC) -o main $^\n\t@rm -f main $^\n%.o: %.c\n\t$(CC) -c -o $@ $<\n";
        std::fs::write(tree.join("Makefile"), text).unwrap();
        place.agree(&[
            OsStr::new("make"),
            "-r".as_ref(),
            "-j4".as_ref(),
            "-C".as_ref(),
            tree.as_os_str(),
        ]);
    });
}

#[test]
fn names_that_are_not_utf8() {
    on_a_plain_directory(&[STRACE], |place| {
        // `ls -la` prints the time of the parent directory, so nothing else may create files there
        // meanwhile.
        let parent = dir(place.at.join("parent"));
        let odd = parent.join(name(b"\xff\xfe\n\x1b[1m"));
        place.agree(&[OsStr::new("mkdir"), "-p".as_ref(), odd.as_os_str()]);
        place.agree(&[
            OsStr::new("ls"),
            "-la".as_ref(),
            "--".as_ref(),
            odd.as_os_str(),
        ]);
    });
}

#[test]
fn pid_namespace() {
    on_a_plain_directory(&[STRACE, Need::Root, Need::Program("unshare")], |place| {
        place.agree(&[
            "unshare",
            "-p",
            "-f",
            "sh",
            "-c",
            "ls / >/dev/null; cat /etc/passwd | wc -c; true",
        ]);
    });
}

#[test]
fn chroot() {
    if require(&[STRACE, Need::Root]) {
        in_namespace(|ground| {
            let jail = dir(ground.join("jail"));
            populate_chroot(&jail);
            let place = Place::new(ground);
            place.agree(&[
                OsStr::new("chroot"),
                jail.as_os_str(),
                "/usr/bin/ls".as_ref(),
                "-l".as_ref(),
                "/usr/".as_ref(),
            ]);
        });
    }
}

#[test]
fn unprivileged_user() {
    if require(&[STRACE, Need::Root]) {
        in_namespace(|ground| {
            let open = dir(ground.join("open"));
            chmod(&open, 0o777);
            let prepare = &|command: &mut Command| as_nobody(command);
            let place = Place {
                meters: &["ptrace"],
                at: &open,
                fathom: fathom_in(ground),
                prepare,
            };
            place.agree(&["sh", "-c", "ls /root /usr; cat /etc/shadow"]);
        });
    }
}

#[test]
fn set_user_id_programs_cause_a_warning() {
    if require(&[Need::Root, Need::Program("setpriv")]) {
        in_namespace(|ground| {
            let open = dir(ground.join("open"));
            chmod(&open, 0o777);
            let gains = ground.join("gains");
            std::fs::copy("/usr/bin/id", &gains).unwrap();
            chmod(&gains, 0o4755);
            let words = [gains.clone().into_os_string(), "-u".into()];
            let prepare = &|command: &mut Command| as_nobody(command);
            let place = Place {
                meters: &["ptrace"],
                at: &open,
                fathom: fathom_in(ground),
                prepare,
            };
            let (ran, _, value) = place.metered("ptrace", &words);
            assert_eq!(ran.lines(), ["1000"]);
            let warned = value["warnings"].to_string();
            assert!(
                warned.contains("without its set-user-ID privilege"),
                "{value}"
            );
            // Metered by the superuser, the program gains the privilege of its set-user-ID bit.
            let place = Place::new(&open);
            let user = ["setpriv", "--reuid", "1000", "--clear-groups"].map(OsString::from);
            let (ran, _, value) = place.metered("ptrace", &[&user[..], &words[..]].concat());
            assert_eq!(
                (ran.lines(), &value["warnings"]),
                (vec!["0"], &serde_json::json!([]))
            );
        });
    }
}
