//! Waiting is told apart by what a descriptor is.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::account::command::account;
use crate::account::counts::METERS;
use crate::support::{Need, require};

/// Calls and seconds by what they waited for.
fn waits(value: &Value) -> BTreeMap<&str, (u64, f64)> {
    let rows = value["waits"].as_array().unwrap().iter();
    rows.map(|row| {
        let (calls, seconds) = (row["calls"].as_u64(), row["seconds"].as_f64());
        (
            row["on"].as_str().unwrap(),
            (calls.unwrap(), seconds.unwrap()),
        )
    })
    .collect()
}

/// Seconds in calls on files, by every way to add them up.
fn file_seconds(value: &Value) -> [f64; 3] {
    let sum = |rows: &Value| {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["seconds"].as_f64().unwrap())
            .sum::<f64>()
    };
    let gates = value["gates"].as_object().unwrap().values();
    let gates = gates.map(|gate| gate["seconds"].as_f64().unwrap()).sum();
    [gates, sum(&value["programs"]), sum(&value["per_directory"])]
}

#[test]
fn time_on_a_pipe_is_in_no_row_of_files() {
    for meter in METERS {
        let value = account(&["--meter", meter], ["sh", "-c", "sleep 0.4 | cat"]);
        // cat waits for the pipe; perf reads records late, and may learn only that it is no file.
        let waited = waits(&value);
        let known = waited.get("pipe").or(waited.get("unknown"));
        let (calls, seconds) = *known.unwrap_or_else(|| panic!("{meter}: {value}"));
        assert!(calls > 0 && seconds >= 0.2, "{meter}: {waited:?}");
        assert!(
            meter == "perf" || waited.contains_key("pipe"),
            "{meter}: {waited:?}"
        );
        for seconds in file_seconds(&value) {
            assert!(seconds < 0.2, "{meter}: {seconds} {value}");
        }
    }
}

#[test]
fn sockets_timers_events_and_locks_are_told_apart() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
import os, socket, sys, fcntl, time, ctypes
a, b = socket.socketpair()
r, w = os.pipe()
c = ctypes.CDLL(None)
event, timer, watch = c.eventfd(0, 0), c.timerfd_create(1, 0), c.inotify_init()
c.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 10000000), None)
os.read(timer, 8)
c.inotify_add_watch(watch, sys.argv[1].encode(), 0x100)
os.write(event, (1).to_bytes(8, "little"))
os.read(event, 8)
file = open(sys.argv[2], "w")
fcntl.flock(file, fcntl.LOCK_EX)
os.read(watch, 4096)
os.write(b.fileno(), b"x" * 7)
os.read(a.fileno(), 9)
os.write(w, b"x")
os.read(r, 9)
fcntl.lockf(file, fcntl.LOCK_EX)
time.sleep(0.3)  # descriptors are looked at while the process lives
"#;
    for meter in METERS {
        let lock = dir.path().join(meter); // its creation is what inotify reports
        let words = [
            "python3",
            "-c",
            text,
            &dir.path().display().to_string(),
            &lock.display().to_string(),
        ];
        let value = account(&["--meter", meter], words);
        let found = waits(&value);
        for (on, calls) in [
            ("socket", 2),
            ("pipe", 2),
            ("timer", 1),
            ("eventfd", 2),
            ("inotify", 1),
            ("lock", 2),
        ] {
            assert!(
                found.get(on).is_some_and(|it| it.0 >= calls),
                "{meter}: no {on}: {found:?}"
            );
        }
        assert!(found["timer"].1 >= 0.009, "{meter}: {found:?}");
    }
}

#[test]
fn waiting_for_a_lock_is_a_line_of_its_own() {
    if !require(&[Need::Program("flock")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    let text = format!(
        "flock {0} sleep 0.4 & until ! flock -n {0} true; do :; done; flock {0} true; wait",
        lock.display()
    );
    let value = account(&[], ["sh", "-c", &text]);
    assert!(waits(&value)["lock"].1 > 0.1, "{value}");
    let of_lock = crate::account::command::row(&value["per_file"], &lock).unwrap();
    assert!(of_lock["seconds"].as_f64().unwrap() < 0.1, "{of_lock}");
}

/// Beyond the calls that are examined, only those that wait are looked at.
#[test]
fn waits_beyond_the_limit_of_calls_are_told_apart() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // The descriptors are opened beyond the limit, too, and are closed at once.
    let text = r#"
import os, socket, sys, time, threading, ctypes
for n in range(3000): os.stat("/")
def late(write, *args): threading.Timer(0.15, write, args).start()
r, w = os.pipe()
late(os.write, w, b"x"); os.read(r, 9); os.close(r)
a, b = socket.socketpair()
late(os.write, b.fileno(), b"x"); os.read(a.fileno(), 9); a.close()
late(os.open, sys.argv[1], os.O_WRONLY); f = os.open(sys.argv[1], os.O_RDONLY)
c = ctypes.CDLL(None)
timer = c.timerfd_create(1, 0)
c.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 150000000), None)
os.read(timer, 8)
time.sleep(0.3)
"#;
    let script = "python3 -c \"$1\" \"$2\"; sleep 0.3 | cat";
    for meter in METERS {
        for calls in ["100", "0"] {
            let fifo = fifo.to_str().unwrap();
            let words = ["sh", "-c", script, "sh", text, fifo];
            let value = account(&["--meter", meter, "--calls", calls], words);
            let found = waits(&value);
            let seconds = |on| found.get(on).map_or(0.0, |it| it.1);
            // perf learns of a call later: its descriptor is closed, or the number is another one's.
            let least = if meter == "perf" { 0.14 } else { 0.55 };
            for (on, least) in [("pipe", least), ("socket", 0.1), ("timer", 0.1)] {
                assert!(seconds(on) >= least, "{meter}, {calls}: {on}: {found:?}");
            }
            let all: f64 = found.values().map(|it| it.1).sum();
            assert!(all > 0.8, "{meter}, {calls}: {found:?}");
            // The waits of read(2) alone last 0.6 s and more.
            let read = value["gates"]["read"]["seconds"].as_f64().unwrap();
            assert!(read < 0.3, "{meter}, {calls}: {read} {value}");
            let [gates, programs, _] = file_seconds(&value);
            assert!(programs < gates + 0.1, "{meter}, {calls}: {value}");
            // Under ptrace, thousands of short calls take as long as the load of the machine lets them.
            let most = if meter == "bpf" { 0.25 } else { 0.7 };
            assert!(
                meter == "ptrace" || gates < most,
                "{meter}, {calls}: {value}"
            );
            assert!(value["detail"]["calls"].as_u64().unwrap() <= 100);
        }
    }
}

/// A FIFO, and a pipe by the name of its descriptor, are pipes whatever name they have.
#[test]
fn pipes_that_are_opened_by_name_are_pipes() {
    if !require(&[Need::Program("bash")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // The reader keeps the descriptor open, so that fathom can look at it.
    let by_name = format!(
        "(sleep 0.2; exec 4>{0}; sleep 0.2; echo x >&4) & exec 3<{0}; read x <&3; wait",
        fifo.display()
    );
    let substituted = "exec 3< <(sleep 0.4; echo x); read x <&3; sleep 0.4 | cat /dev/stdin";
    for meter in METERS {
        // perf sees no names.
        let texts = [(&by_name[..], 0.3), (substituted, 0.6)];
        let texts = texts.into_iter().take(if meter == "perf" { 1 } else { 2 });
        for (text, waited) in texts {
            let value = account(&["--meter", meter], ["bash", "-c", text]);
            let found = waits(&value);
            // On a busy machine a process may have ended before fathom looks at its descriptors.
            let [pipes, unknown] =
                ["pipe", "unknown"].map(|kind| found.get(kind).map_or(0.0, |it| it.1));
            assert!(
                pipes >= 0.3 && pipes + unknown >= waited,
                "{meter}, {text}: {found:?}"
            );
            for seconds in file_seconds(&value) {
                assert!(seconds < waited, "{meter}, {text}: {seconds} {value}");
            }
        }
    }
}
