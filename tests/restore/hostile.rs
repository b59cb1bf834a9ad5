//! Tests of hostile archives: nothing outside the directory is changed, and the reason is printed.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

use crate::support::build::{dir, file, tmpfs};
use crate::support::concurrent::{Done, with_threads};
use crate::support::effort::effort;
use crate::support::repeat::repeat_until;
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{Snapshot, kept, same};
use crate::support::{Need, fathom, in_namespace, require, run};

/// The maximum memory that a restore may use, in KiB.
const MOST: i64 = 64 << 10;

/// The beginning of a Python script that writes an archive. `A` is the archive, and `OUT` a directory
/// outside the target.
const HEAD: &str = r#"
import io, os, struct, sys, tarfile
A, OUT = sys.argv[1], sys.argv[2]
def info(name, kind=tarfile.REGTYPE, size=0, link="", pax=None):
    t = tarfile.TarInfo(name)
    t.type, t.size, t.linkname, t.mode = kind, size, link, 0o6777
    t.pax_headers = pax or {}
    t.devmajor, t.devminor = 1, 3
    return t
def block(name, kind=b"0", size=0, link=b"", sizetext=None):
    h = bytearray(512)
    h[0:len(name)] = name
    h[100:108] = b"0000777\0"; h[108:116] = b"0000000\0"; h[116:124] = b"0000000\0"
    h[124:136] = sizetext if sizetext is not None else b"%011o\0" % size
    h[136:148] = b"00000000000\0"; h[148:156] = b"        "; h[156:157] = kind
    h[157:157+len(link)] = link; h[257:265] = b"ustar\x0000"
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)
def pad(b): return b + b"\0" * (-len(b) % 512)
def record(key, value):
    n = len(key) + len(value) + 3
    while len(str(n)) + len(key) + len(value) + 3 != n: n = len(str(n)) + len(key) + len(value) + 3
    return str(n).encode() + b" " + key + b"=" + value + b"\n"
def extended(*records, kind=b"x"):
    text = b"".join(record(k, v) for k, v in records)
    return block(b"pax", kind, len(text)) + pad(text)
def dumpdir(*entries): return b"".join(e + b"\0" for e in entries) + b"\0"
END = b"\0" * 1024
raw = lambda *parts: open(A, "wb").write(b"".join(parts) + END)
def members(*all):
    with tarfile.open(A, "w", format=tarfile.PAX_FORMAT) as t:
        for m in all:
            t.addfile(m, io.BytesIO(b"evil" * m.size) if m.size else None)
"#;

/// A hostile archive: its name, the script that writes it, the exit status of the restore, and a part
/// of the warnings.
struct Case {
    name: &'static str,
    script: &'static str,
    status: i32,
    said: &'static str,
}

const fn case(name: &'static str, status: i32, said: &'static str, script: &'static str) -> Case {
    Case {
        name,
        script,
        status,
        said,
    }
}

const CASES: [Case; 33] = [
    case(
        "absolute name",
        0,
        "slash",
        r#"members(info(OUT + "/made", size=4), info("/" + OUT + "/made", size=4))"#,
    ),
    case(
        "dots before",
        1,
        "'..'",
        r#"members(info("../outside/made", size=4), info("x/../../outside/made", size=4))"#,
    ),
    case(
        "dots behind",
        1,
        "'..'",
        r#"members(info("x", tarfile.DIRTYPE), info("x/..", tarfile.DIRTYPE))"#,
    ),
    case(
        "through a symlink",
        1,
        "symlink",
        r#"members(info("l", tarfile.SYMTYPE, link=OUT), info("l/made", size=4), info("l/d/", tarfile.DIRTYPE), info("l/kept", size=4))"#,
    ),
    case(
        "through a relative symlink",
        1,
        "symlink",
        r#"members(info("d/l", tarfile.SYMTYPE, link="../../outside"), info("d/l/made", size=4))"#,
    ),
    case(
        "over a symlink to a file",
        0,
        "",
        r#"members(info("l", tarfile.SYMTYPE, link=OUT + "/kept"), info("l", size=4))"#,
    ),
    case(
        "a directory over a symlink",
        0,
        "",
        r#"members(info("l", tarfile.SYMTYPE, link=OUT), info("l/", tarfile.DIRTYPE), info("l/kept", size=4))"#,
    ),
    case(
        "a symlink over a directory and back",
        1,
        "symlink",
        r#"members(info("l/", tarfile.DIRTYPE), info("l", tarfile.SYMTYPE, link=OUT), info("l/kept", size=4),
                   info("l/", tarfile.DIRTYPE), info("l/kept", size=4), info("l", tarfile.SYMTYPE, link=OUT))"#,
    ),
    case(
        "a hard link to the outside",
        1,
        "does not exist",
        r#"members(info("h", tarfile.LNKTYPE, link=OUT + "/kept"), info("h", size=4))"#,
    ),
    case(
        "a hard link by dots",
        1,
        "'..'",
        r#"members(info("h", tarfile.LNKTYPE, link="../outside/kept"), info("h", size=4))"#,
    ),
    case(
        "a hard link through a symlink",
        1,
        "",
        r#"members(info("l", tarfile.SYMTYPE, link=OUT), info("h", tarfile.LNKTYPE, link="l/kept"), info("h", size=4))"#,
    ),
    case(
        "a hard link to a symlink to a file",
        0,
        "",
        r#"members(info("l", tarfile.SYMTYPE, link=OUT + "/kept"), info("h", tarfile.LNKTYPE, link="l"), info("h", size=4))"#,
    ),
    case(
        "a hard link to itself",
        0,
        "",
        r#"members(info("h", size=4), info("h", tarfile.LNKTYPE, link="./h"))"#,
    ),
    case(
        "the directory itself",
        1,
        "target directory",
        r#"members(info(".", size=4), info("./", tarfile.SYMTYPE, link=OUT))"#,
    ),
    case(
        "no name",
        1,
        "name is empty",
        r#"raw(extended((b"path", b"")), block(b"", b"0", 0))"#,
    ),
    case(
        "a NUL in a name",
        1,
        "NUL",
        r#"raw(extended((b"path", b"a\0b")), block(b"x"))"#,
    ),
    case(
        "a NUL in a target",
        1,
        "NUL",
        r#"raw(extended((b"linkpath", b"a\0b")), block(b"x", b"2"))"#,
    ),
    case(
        "a newline in a name",
        0,
        "",
        r#"raw(extended((b"path", b"a\nb")), block(b"x"))"#,
    ),
    case(
        "a record longer than its header",
        1,
        "at byte",
        r#"raw(block(b"pax", b"x", 20) + pad(b"9999 path=x\n"), block(b"x"))"#,
    ),
    case(
        "a record of no length",
        1,
        "at byte",
        r#"raw(block(b"pax", b"x", 20) + pad(b"0 path=x\n"), block(b"x"))"#,
    ),
    case(
        "a size that overflows",
        1,
        "at byte",
        r#"raw(extended((b"size", b"99999999999999999999999")), block(b"x"))"#,
    ),
    case(
        "a size that nearly does",
        1,
        "at byte",
        r#"raw(extended((b"size", b"18446744073709551615")), block(b"x"))"#,
    ),
    case(
        "a size beyond the end",
        1,
        "truncated",
        r#"raw(block(b"x", sizetext=b"77777777777\0"))"#,
    ),
    case(
        "a size of 2^95",
        1,
        "at byte",
        r#"raw(block(b"x", sizetext=b"\x80" + b"\x7f" * 11))"#,
    ),
    case(
        "a checksum that lies",
        1,
        "wrong header checksum",
        r#"b = bytearray(block(b"x")); b[0] = 0x79; raw(bytes(b))"#,
    ),
    case(
        "headers of headers",
        1,
        "at byte",
        r#"raw(extended((b"path", b"a")) * 3, extended((b"path", b"b"), kind=b"g") * 3, b"garbage" * 512)"#,
    ),
    case(
        "an extended header without end",
        1,
        "at byte",
        r#"raw(block(b"pax", b"x", 8 << 30))"#,
    ),
    case(
        "a long name without end",
        1,
        "at byte",
        r#"raw(block(b"././@LongLink", b"L", 8 << 30))"#,
    ),
    case(
        "a sparse file of all that there is",
        0,
        "",
        r#"raw(extended((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.realsize", b"9223372036854775807"),
               (b"GNU.sparse.name", b"s")), block(b"s", size=512), pad(b"1\n9223372036854775807\n0\n"), block(b"t"))"#,
    ),
    case(
        "a sparse map beyond its file",
        1,
        "map",
        r#"raw(extended((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.realsize", b"10"),
               (b"GNU.sparse.name", b"s")), block(b"s", size=1024), pad(b"1\n9223372036854775800\n512\n"), b"x" * 512)"#,
    ),
    case(
        "an old sparse map without end",
        1,
        "at byte",
        r#"h = bytearray(block(b"s", b"S")); h[257:265] = b"ustar  \0"; h[482] = 1; h[483:495] = b"%011o\0" % 10
h[148:156] = b" " * 8; h[148:156] = b"%06o\0 " % sum(h)
raw(bytes(h), (b"00000000000\0" * 42 + b"\1" + b"\0" * 7) * 60000)"#,
    ),
    case(
        "an extended header before an extended header, and so on",
        1,
        "at byte",
        r#"raw(*[block(b"pax", b"x", 512) + pad(record(b"path", b"a" * 400))] * 20000, block(b"x"))"#,
    ),
    case(
        "a sparse map of millions",
        1,
        "map",
        r#"m = b"100000000\n" + b"0\n0\n" * 20000000
raw(extended((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.realsize", b"10"),
               (b"GNU.sparse.name", b"s")), block(b"s", size=len(m)), pad(m))"#,
    ),
];

struct Scene {
    outside: PathBuf,
    to: PathBuf,
    archive: PathBuf,
    before: Snapshot,
}

impl Scene {
    fn new(ground: &Path) -> Scene {
        let outside = dir(ground.join("outside"));
        file(outside.join("kept"), 10);
        file(outside.join("d/also kept"), 10);
        let before = kept(&outside);
        Scene {
            outside,
            to: dir(ground.join("to")),
            archive: ground.join("archive"),
            before,
        }
    }

    fn write(&self, script: &str) {
        write_all([(self, script)]);
    }

    fn holds(&self, what: &str) {
        same(
            &kept(&self.outside),
            &self.before,
            &format!("{what}: the outside was touched"),
        );
    }
}

/// Runs the Python scripts that write hostile archives, each for one test directory. One process
/// runs them all, because starting Python for each is slow.
fn write_all<'a>(scenes: impl IntoIterator<Item = (&'a Scene, &'a str)>) {
    const WRITER: &str = "
import json, sys
for head, archive, outside, script in json.load(sys.stdin):
    sys.argv[1:] = archive, outside
    exec(head + script, {})";
    let scenes = scenes.into_iter().map(|(scene, script)| {
        let [archive, outside] = [&scene.archive, &scene.outside].map(|path| path.to_str());
        [HEAD, archive.unwrap(), outside.unwrap(), script].map(str::to_owned)
    });
    python(WRITER, &scenes.collect::<Vec<_>>()).exits(0);
}

/// Runs a Python program with JSON on standard input.
fn python(program: &str, input: &impl serde::Serialize) -> Ran {
    let mut file = tempfile::tempfile().unwrap();
    serde_json::to_writer(&file, input).unwrap();
    file.rewind().unwrap();
    run(Command::new("python3").args(["-c", program]).stdin(file))
}

/// Runs commands; returns for each its status, its messages, and its peak memory in KiB. The peak
/// includes the memory of the process before exec(2), so a small process starts the commands.
fn measured(commands: &[Command]) -> Vec<(i32, String, i64)> {
    const STARTER: &str = r#"
import json, os, subprocess, sys
for words in json.load(sys.stdin):
    done = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = done.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(done.pid, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), said, usage.ru_maxrss]))"#;
    let words = |command: &Command| -> Vec<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words
            .map(|word| word.to_str().unwrap().to_owned())
            .collect()
    };
    let ran = python(STARTER, &commands.iter().map(words).collect::<Vec<_>>()).exits(0);
    let lines = ran.lines().into_iter();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn hostile_archives_change_nothing_outside_the_directory() {
    const COMMANDS: [&[&str]; 5] = [
        &["restore"],
        &["restore", "--dry-run"],
        &["restore", "--strip-components=1"],
        &["list"],
        &["verify", "--against", "."],
    ];
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let scenes = CASES.map(|case| Scene::new(&dir(ground.join(case.name))));
            write_all(scenes.iter().zip(CASES.map(|case| case.script)));
            let command = |scene: &Scene, words: &[&str]| {
                let mut command = fathom(args![words[0], &scene.archive]);
                command.args(&words[1..]);
                if words[0] == "restore" {
                    command.arg("-C").arg(&scene.to);
                }
                command
            };
            let commands = scenes
                .iter()
                .flat_map(|scene| COMMANDS.map(|words| command(scene, words)));
            let results = measured(&commands.collect::<Vec<_>>());
            let results = results.chunks(COMMANDS.len());
            for ((case, scene), results) in CASES.iter().zip(&scenes).zip(results) {
                for (words, (status, said, memory)) in COMMANDS.into_iter().zip(results) {
                    let what = format!("{} {words:?}: {status}, {memory} KiB: {said}", case.name);
                    assert!(!said.contains("panicked") && *memory < MOST, "{what}");
                    if words == COMMANDS[0] {
                        assert_eq!(*status, case.status, "{what}");
                        assert!(said.contains(case.said), "{what}");
                    } else {
                        assert!((0..=2).contains(status), "{what}");
                    }
                }
                scene.holds(case.name);
            }
        });
    }
}

#[test]
fn hostile_increments_change_nothing_outside_the_directory() {
    // Two records of the top dumpdir in the second archive, and a part of the warning.
    let cases = [
        (r#"b"R../outside", b"Ttaken""#, "'..'"),
        (r#"b"Rd", b"T../outside/given""#, "'..'"),
        (r#"b"Rd", b"T" + OUT.encode() + b"/given""#, ""),
        (r#"b"R" + OUT.encode(), b"Ttaken""#, "cannot rename"),
        (r#"b"Rl/d", b"Ttaken""#, "cannot rename"),
        (r#"b"Rd", b"Tl/given""#, "symlink"),
        (r#"b"R.", b"Td/x""#, "restore into"),
        (r#"b"Rd", b"T.""#, "restore into"),
        (r#"b"Rd", b"Td/inside/itself""#, "cannot rename"),
        (r#"b"R", b"Td""#, "temporary"),
        (r#"b"X../outside", b"Rd", b"T", b"R", b"Te""#, "'..'"),
        (r#"b"Rl", b"Tm""#, ""),
        (r#"b"Y../outside/kept""#, "invalid list"),
        (r#"b"Yl", b"Nkept", b"Dd""#, "'kept'"),
        (r#"b"Dl", b"Dd""#, ""),
        (r#"b"Q""#, "invalid list"),
    ];
    if require(&[Need::Root, Need::Program("python3")]) {
        for (entries, said) in cases {
            in_namespace(|ground| {
                let scene = Scene::new(ground);
                scene.write(r#"members(info("l", tarfile.SYMTYPE, link=OUT), info("d/", tarfile.DIRTYPE), info("d/f", size=4))"#);
                let full = ground.join("full");
                fs::rename(&scene.archive, &full).unwrap();
                scene.write(&format!(
                    r#"raw(extended((b"GNU.dumpdir", dumpdir({entries}))), block(b"./", b"5"))"#
                ));
                let ran = run(&mut fathom(args![
                    "restore",
                    full,
                    &scene.archive,
                    "-C",
                    &scene.to
                ]));
                assert!(
                    ran.code() <= 2
                        && (said.is_empty() || ran.code() > 0)
                        && ran.stderr.contains(said),
                    "{entries}: {ran}"
                );
                scene.holds(entries);
            });
        }
    }
}

#[test]
fn hard_links_from_outside_are_not_written_through() {
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let scene = Scene::new(ground);
            fs::hard_link(scene.outside.join("kept"), scene.to.join("f")).unwrap();
            symlink(scene.outside.join("kept"), scene.to.join("g")).unwrap();
            scene.write(r#"members(info("f", size=4), info("g", size=4))"#);
            run(&mut fathom(args![
                "restore",
                &scene.archive,
                "-C",
                &scene.to
            ]))
            .exits(0);
            fs::remove_file(scene.to.join("f")).unwrap();
            scene.holds("a hard link");
            assert!(scene.to.join("g").symlink_metadata().unwrap().is_file());
        });
    }
}

#[test]
fn devices_are_created_by_root_only() {
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let scene = Scene::new(ground);
            scene.write(
                r#"members(info("null", tarfile.CHRTYPE), info("disk", tarfile.BLKTYPE), info("set", size=4), info("fifo", tarfile.FIFOTYPE))"#,
            );
            std::os::unix::fs::chown(&scene.to, Some(1000), Some(1000)).unwrap();
            let restore = args!["restore", &scene.archive, "-C", &scene.to];
            let ran = run(&mut fathom_as_nobody(ground, restore)).exits(1);
            assert!(ran.stderr.contains("only root"), "{ran}");
            let found = kept(&scene.to);
            assert_eq!(found.len(), 3, "{found:?}");
            assert_eq!(found[&b"set"[..]].mode, 0o777);
        });
    }
}

#[test]
fn memory_stays_small_in_deep_trees() {
    if require(&[Need::Root, Need::Program("python3")]) {
        for (depth, status) in [(5_000, 0), (100_000, 0), (3_000_000, 1)] {
            in_namespace(|ground| {
                let scene = Scene::new(ground);
                scene.write(&format!(
                    r#"raw(extended((b"path", b"d/" * {depth} + b"f")), block(b"x"))"#
                ));
                let restore = fathom(args!["restore", &scene.archive, "-C", &scene.to]);
                let (ended, said, memory) = measured(&[restore]).remove(0);
                let what = format!("{depth} deep: {ended}, {memory} KiB: {said}");
                assert!(
                    ended == status && memory < MOST && said.len() < 10_000,
                    "{what}"
                );
                scene.holds(&what);
            });
        }
    }
}

#[test]
fn memory_stays_small_with_many_warnings() {
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let scene = Scene::new(ground);
            scene.write(
                r#"raw(*(extended((b"path", b"../" * 30000)) + block(b"x") for n in range(3000)))"#,
            );
            let restore = fathom(args!["restore", &scene.archive, "-C", &scene.to, "--json"]);
            let (status, said, memory) = measured(&[restore]).remove(0);
            assert!(
                status == 1 && memory < MOST,
                "{status}, {memory} KiB: {said}"
            );
            scene.holds("many warnings");
        });
    }
}

#[test]
fn directory_replaced_by_a_symlink_during_the_restore_is_not_followed() {
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let ground = tmpfs(ground.join("swap"));
            let scene = Scene::new(&ground);
            let full = ground.join("full");
            scene.write(
                r#"members(*[m for d in range(40) for m in [info("a/", tarfile.DIRTYPE), info("a/b/", tarfile.DIRTYPE)] + [info("a/b/kept%d" % n, size=4) for n in range(5)] + [info("a/b/link%d" % n, tarfile.LNKTYPE, link="a/b/kept%d" % n) for n in range(5)] + [info("a/b/kept", size=4), info("a/c", size=1)]])"#,
            );
            fs::rename(&scene.archive, &full).unwrap();
            scene.write(
                r#"raw(*[extended((b"GNU.dumpdir", dumpdir(b"Db", b"R" + b"a/b", b"Ta/e", b"Ra/e", b"Ta/b"))) + block(b"a/", b"5") + extended((b"GNU.dumpdir", dumpdir())) + block(b"a/b/", b"5") + block(b"a/b/kept") + block(b"a/b/d/also kept")] * 40)"#,
            );
            for inner in ["a", "b"] {
                symlink(
                    &scene.outside,
                    scene
                        .outside
                        .parent()
                        .unwrap()
                        .join(format!("symlink-{inner}")),
                )
                .unwrap();
            }
            let swap = |thread, done: &Done| {
                let (at, link) = [("a", "symlink-a"), ("a/b", "symlink-b")][thread as usize];
                let (at, link) = (scene.to.join(at), ground.join(link));
                while !done.is_set() {
                    let _ = renameat_with(CWD, &at, CWD, &link, RenameFlags::EXCHANGE);
                    // Without this pause, these threads would take most of the processors.
                    thread::sleep(Duration::from_micros(50));
                }
            };
            // openat2(2) with RESOLVE_BENEATH fails with EXDEV at a symlink to the outside.
            let has_met_symlink =
                |warning: &Value| warning["errno"] == "EXDEV" || warning["errno"] == "ELOOP";
            with_threads(2, swap, || {
                for _ in 0..effort(2, 20) {
                    repeat_until("a restore that meets a symlink", || {
                        let restore = args!["restore", "--overwrite", "-v", "--json"];
                        let archives = args![&full, &scene.archive, "-C", &scene.to];
                        let ran = run(fathom(restore).args(archives));
                        assert!(ran.code() <= 2, "{ran}");
                        let warnings = (ran.code() == 1).then(|| ran.json()["warnings"].take());
                        let mut warnings = warnings.iter().flat_map(|all| all.as_array().unwrap());
                        warnings.any(has_met_symlink).then_some(())
                    });
                }
            });
            // The restore may have read the outside directory through the symlinks, but must not
            // have changed it.
            scene.holds("swaps");
            let mut text = String::new();
            File::open(scene.outside.join("kept"))
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert_eq!(
                (text.as_str(), scene.outside.metadata().unwrap().nlink()),
                ("xxxxxxxxxx", 3)
            );
        });
    }
}
