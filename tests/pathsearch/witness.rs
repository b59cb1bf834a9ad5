//! Tests that the failed lookups in each directory equal those that strace shows.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::{compile, misses, searched, sh};
use crate::support::run::{args, program};
use crate::support::{Need, require, run};

const LOOKUPS: &str = "execve,execveat,open,openat,openat2,creat,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,\
                       readlink,readlinkat";

/// Misses of each directory by strace, which writes a file for each process, strings in hexadecimal,
/// and descriptors with their names.
fn witnessed(
    dir: &Path,
    command: &[OsString],
    prepare: impl FnOnce(&mut Command),
) -> BTreeMap<Vec<u8>, u64> {
    let log = dir.join("log");
    std::fs::create_dir(&log).unwrap();
    let mut strace = program(
        Path::new("strace"),
        args!["-ff", "-y", "-xx", "-s", "4096", "-o"],
    );
    strace
        .env_remove("LD_LIBRARY_PATH")
        .arg(log.join("of"))
        .arg("-e")
        .arg(format!("trace={LOOKUPS}"))
        .arg("--")
        .args(command);
    prepare(&mut strace);
    let cwd = strace
        .get_current_dir()
        .map_or_else(|| std::env::current_dir().unwrap(), Path::to_path_buf);
    run(&mut strace);
    let mut misses = BTreeMap::new();
    for file in std::fs::read_dir(&log).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text
            .lines()
            .filter(|line| line.contains(" = -1 ENOENT ") || line.contains(" = -1 ENOTDIR "))
        {
            if let Some(dir) = directory(line, &cwd) {
                *misses.entry(dir).or_default() += 1;
            }
        }
    }
    misses
}

/// The directory that the name of a line was looked up in.
fn directory(line: &str, cwd: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let (before, rest) = line.split_once('"')?;
    let name = unhex(rest.split('"').next()?);
    let base = match before.split_once('<') {
        Some((_, path)) => unhex(path.split('>').next()?),
        None => cwd.as_os_str().as_bytes().to_vec(),
    };
    let mut path = if name.starts_with(b"/") {
        name
    } else {
        [&base[..], b"/", &name].concat()
    };
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    let at = path.iter().rposition(|&b| b == b'/')?;
    let parts = path[..at]
        .split(|&b| b == b'/')
        .filter(|part| !part.is_empty() && *part != b".");
    let dir = parts.fold(Vec::new(), |dir, part| [&dir[..], b"/", part].concat());
    Some(if dir.is_empty() { b"/".to_vec() } else { dir })
}

fn unhex(text: &str) -> Vec<u8> {
    text.split("\\x")
        .skip(1)
        .map(|byte| u8::from_str_radix(&byte[..2], 16).unwrap())
        .collect()
}

/// Runs the same command under both, and compares the misses.
fn agree(command: &[OsString], prepare: impl Fn(&mut Command)) {
    let place = tempfile::tempdir().unwrap();
    let (value, ran) = searched(place.path(), command, &prepare);
    let witness = witnessed(place.path(), command, &prepare);
    let ours = misses(&value);
    assert_eq!(shown(&ours), shown(&witness), "{command:?}\n{ran}");
    let total: u64 = ours.values().sum();
    assert_eq!(value["result"]["totals"]["misses"], total, "{command:?}");
    assert!(total > 0, "{command:?} misses nothing");
}

fn shown(misses: &BTreeMap<Vec<u8>, u64>) -> BTreeMap<String, u64> {
    misses
        .iter()
        .map(|(dir, misses)| (dir.escape_ascii().to_string(), *misses))
        .collect()
}

/// Sets a PATH that begins with directories that contain nothing.
fn long_path(command: &mut Command) {
    command.env(
        "PATH",
        "/nowhere/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    );
}

#[test]
fn failed_lookups_of_shells_and_env_equal_those_of_strace() {
    if require(&[
        Need::Program("strace"),
        Need::Program("bash"),
        Need::Program("dash"),
    ]) {
        let script = "ls / >/dev/null; no-such-program; cat /dev/null; (cd /; true; id >/dev/null); test -e /no/such";
        agree(&sh("bash", script), long_path);
        agree(&sh("dash", script), long_path);
        agree(&args!["env", "-u", "X", "ls", "/"], long_path);
        agree(&args!["env", "no-such-program"], long_path);
    }
}

#[test]
fn failed_lookups_of_python_equal_those_of_strace() {
    if require(&[Need::Program("strace"), Need::Program("python3")]) {
        let place = tempfile::tempdir().unwrap();
        let nowhere = place.path().join("modules");
        agree(&args!["python3", "-c", "import json, decimal"], |command| {
            long_path(command);
            command
                .env("PYTHONPATH", &nowhere)
                .env("PYTHONDONTWRITEBYTECODE", "1");
        });
    }
}

#[test]
fn failed_lookups_of_perl_equal_those_of_strace() {
    if require(&[Need::Program("strace"), Need::Program("perl")]) {
        agree(
            &args![
                "perl",
                "-e",
                "use List::Util; use POSIX; eval { require No::Such; };"
            ],
            long_path,
        );
    }
}

#[test]
fn failed_lookups_of_a_compiler_equal_those_of_strace() {
    if require(&[Need::Program("strace"), Need::Program("gcc")]) {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(
            place.path().join("small.c"),
            "#include <stdio.h>\nint main(void) { puts(\"\"); return 0; }\n",
        )
        .unwrap();
        agree(
            &args!["gcc", "-Inowhere", "-o", "small", "small.c"],
            |command| {
                let _ = std::fs::remove_file(place.path().join("small"));
                command.current_dir(place.path());
                long_path(command);
            },
        );
    }
}

#[test]
fn failed_lookups_along_a_long_runpath_equal_those_of_strace() {
    if require(&[Need::Program("strace"), Need::Program("gcc")]) {
        let place = tempfile::tempdir().unwrap();
        let tool = with_runpath(place.path(), 30);
        agree(&args![&tool], long_path);
        agree(&args![&tool], |command| {
            command.env("LD_LIBRARY_PATH", "/nowhere/lib:/nowhere/lib64");
        });
    }
}

/// A program whose library is in the last of many directories of its RUNPATH, of which every other
/// one exists.
pub(super) fn with_runpath(place: &Path, dirs: usize) -> std::path::PathBuf {
    let dir = |n: usize| place.join(format!("lib{n:02}"));
    (0..dirs)
        .filter(|n| n % 2 == 1 || n + 1 == dirs)
        .for_each(|n| std::fs::create_dir(dir(n)).unwrap());
    let last = dir(dirs - 1);
    let library = last.join("libfar.so");
    compile(
        "int far(void) { return 0; }\n",
        &library,
        &["-shared".into(), "-fPIC".into()],
    );
    let mut flags = vec![format!("-L{}", last.display()), "-lfar".to_owned()];
    flags.extend((0..dirs).map(|n| format!("-Wl,-rpath,{}", dir(n).display())));
    let source = "int far(void); int main(void) { return far(); }\n";
    let object = place.join("tool.o");
    std::fs::write(place.join("tool.c"), source).unwrap();
    run(Command::new("gcc")
        .arg("-c")
        .arg("-o")
        .arg(&object)
        .arg(place.join("tool.c")))
    .exits(0);
    let tool = place.join("tool");
    run(Command::new("gcc")
        .arg("-o")
        .arg(&tool)
        .arg(&object)
        .args(&flags))
    .exits(0);
    tool
}

#[test]
fn failed_lookups_of_node_equal_those_of_strace() {
    if require(&[Need::Program("strace"), Need::Program("node")]) {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("a/b/main.js");
        std::fs::create_dir_all(script.parent().unwrap()).unwrap();
        std::fs::write(&script, "try { require('no-such') } catch {}\n").unwrap();
        agree(&args!["node", &script], long_path);
    }
}
