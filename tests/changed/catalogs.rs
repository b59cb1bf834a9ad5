//! Tests of catalogs: catalogs of other programs, damaged catalogs, full disks and kills; and other
//! programs that read our catalogs.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use super::since::{catalog, changed};
use crate::support::build::{bush, chmod, dir, file, tmpfs};
use crate::support::need::tool_path;
use crate::support::reference::{Census, census};
use crate::support::restrict::limit_memory;
use crate::support::run::args;
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::tool::tool;
use crate::support::trees::{Dice, grow};
use crate::support::{Need, fathom, in_namespace, require, run};

fn within(at: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn file_that_is_not_a_catalog_is_refused() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, out) = (tmpfs(ground.join("top")), dir(ground.join("out")));
            grow(&top, 1, 100);
            let whole = fs::read(catalog(&top, &out.join("whole"))).unwrap();
            let bad = out.join("bad");
            let mut tries: Vec<(String, Vec<u8>)> = vec![
                ("nothing".to_owned(), Vec::new()),
                ("text".to_owned(), b"not a catalog\n".repeat(100)),
                ("the magic alone".to_owned(), b"PAR1PAR1".to_vec()),
                (
                    "a footer of great length".to_owned(),
                    b"PAR1\xff\xff\xff\x7fPAR1".to_vec(),
                ),
                (
                    "no magic at the end".to_owned(),
                    [&whole[..whole.len() - 4], b"PARX"].concat(),
                ),
            ];
            for part in 1..8 {
                tries.push((
                    format!("{part} eighths of it"),
                    whole[..whole.len() * part / 8].to_vec(),
                ));
            }
            for (what, bytes) in &tries {
                fs::write(&bad, bytes).unwrap();
                for more in [&["--json"][..], &["--update"]] {
                    let ran = changed(&top, &bad, more).refused();
                    assert!(ran.stderr.contains("/bad'"), "{what}: {ran}");
                    assert_eq!(&fs::read(&bad).unwrap(), bytes, "{what}");
                }
            }
            for missing in ["missing", "whole/below"] {
                changed(&top, &out.join(missing), &[]).refused();
            }
            changed(&top, &out, &[]).refused();
            assert_eq!(within(&out), ["bad", "whole"]);
        });
    }
}

/// Random changes to a catalog: it is refused, or read as it is now. fathom must not panic, and
/// must not allocate gigabytes.
#[test]
fn random_bytes_in_a_catalog_do_not_panic() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, bad) = (tmpfs(ground.join("top")), ground.join("bad"));
            grow(&top, 1, 100);
            let whole = fs::read(catalog(&top, &ground.join("whole"))).unwrap();
            let mut dice = Dice::new(3);
            for round in 0..60 {
                let mut bytes = whole.clone();
                for _ in 0..=dice.below(20) {
                    // Half of the changes hit the footer, which contains the offsets of everything
                    // else.
                    let from = if round % 2 == 0 {
                        bytes.len() - bytes.len().min(4000)
                    } else {
                        0
                    };
                    let at = from + dice.below(bytes.len() - from);
                    bytes[at] = dice.roll().to_le_bytes()[0];
                }
                fs::write(&bad, &bytes).unwrap();
                let mut command = fathom(args!["changed", &top, "--since", &bad, "--json"]);
                crate::support::restrict::limit_memory(&mut command, 512);
                let ran = run(&mut command);
                if ran.code() == 2 {
                    ran.refused();
                } else {
                    ran.json();
                }
            }
        });
    }
}

#[test]
fn catalog_of_another_tree_is_refused() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (one, other, to) = (
                tmpfs(ground.join("one")),
                tmpfs(ground.join("other")),
                ground.join("catalog"),
            );
            grow(&one, 1, 20);
            grow(&other, 2, 20);
            let old = fs::read(catalog(&one, &to)).unwrap();
            for more in [&["--json"][..], &["--update"]] {
                let ran = changed(&other, &to, more).refused();
                assert!(ran.stderr.contains("catalog"), "{ran}");
            }
            changed(&one.join("missing"), &to, &[]).refused();
            let within = dir(one.join("within"));
            for (top, why) in [
                (&*within, "another directory"),
                (Path::new("/proc"), "another file system"),
            ] {
                let ran = changed(top, &to, &[]).refused();
                assert!(ran.stderr.contains(why), "{ran}");
            }
            assert_eq!(fs::read(&to).unwrap(), old);
        });
    }
}

#[test]
fn full_disk_leaves_the_old_catalog() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, small) = (tmpfs(ground.join("top")), dir(ground.join("small")));
            bush(&top, 1, 3);
            mount("small", &small, "tmpfs", MountFlags::empty(), c"size=128k").unwrap();
            let to = catalog(&top, &small.join("catalog"));
            let old = fs::read(&to).unwrap();
            for n in 0..30 {
                bush(&top.join(format!("more {n}")), 10, 50);
            }
            assert!(fs::write(small.join("filler"), vec![0; 1 << 20]).is_err());
            let ran = changed(&top, &to, &["--update"]).refused();
            assert!(
                ran.stderr.contains("No space left on device (os error 28)"),
                "{ran}"
            );
            assert_eq!(fs::read(&to).unwrap(), old);
            assert_eq!(within(&small), ["catalog", "filler"]);
        });
    }
}

#[test]
fn killed_process_leaves_the_old_catalog() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let (at, out) = (ground.join("far"), dir(ground.join("out")));
            let far = SyntheticTree {
                directories: 300,
                files: 50,
                latency: Duration::from_millis(1),
                ..SyntheticTree::default()
            };
            let server = serve_synthetic(far, &at);
            let to = catalog(&at, &out.join("catalog"));
            let old = fs::read(&to).unwrap();
            for (n, signal) in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM, libc::SIGKILL]
                .into_iter()
                .enumerate()
            {
                let before = server.load.requests.load(Ordering::Relaxed);
                let arguments = args![
                    "changed", &at, "--since", &to, "--update", "--engine", "stat"
                ];
                let mut child = fathom(arguments)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let enough = before + 20 + 10 * n as u64;
                while server.load.requests.load(Ordering::Relaxed) < enough
                    && child.try_wait().unwrap().is_none()
                {
                    std::thread::sleep(Duration::from_micros(100));
                }
                // SAFETY: the child has not been waited for, unless it has ended: then no process
                // gets the signal.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
                let status = child.wait().unwrap();
                assert!(
                    status.signal() == Some(signal) || status.code() == Some(128 + signal),
                    "{status}"
                );
                assert_eq!(fs::read(&to).unwrap(), old);
                assert_eq!(within(&out), ["catalog"]);
            }
        });
    }
}

#[test]
fn closed_pipe_ends_it_by_sigpipe() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, to) = (tmpfs(ground.join("top")), ground.join("catalog"));
            catalog(&top, &to);
            bush(&top, 20, 300);
            for format in ["paths", "paths0", "ndjson", "tar"] {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                let arguments = args!["changed", &top, "--since", &to, "--format", format];
                let mut child = fathom(arguments)
                    .stdout(writer)
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                let status = child.wait().unwrap();
                assert_eq!(status.signal(), Some(libc::SIGPIPE), "{format}: {status}");
                assert_eq!(
                    std::io::read_to_string(child.stderr.take().unwrap()).unwrap(),
                    ""
                );
            }
        });
    }
}

/// If the output fails after the changes were found, the catalog must not be updated: the changes
/// would be lost.
#[test]
fn failed_output_leaves_the_old_catalog() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, to) = (tmpfs(ground.join("top")), ground.join("catalog"));
            let old = fs::read(catalog(&top, &to)).unwrap();
            bush(&top, 20, 300);
            let full = fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap();
            let arguments = args![
                "changed", &top, "--since", &to, "--format", "paths", "--update"
            ];
            let out = fathom(arguments)
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap();
            assert_eq!(out.status.code(), Some(2), "{out:?}");
            assert!(fs::read(&to).unwrap() == old, "the catalog has moved on");
        });
    }
}

/// The Python of the virtual environment that tools/setup makes, if it has some modules.
pub(crate) fn python(modules: &str) -> Option<std::path::PathBuf> {
    let python = tool_path("venv/bin/python");
    let mut import = Command::new(&python);
    import
        .args(["-c", &format!("import {modules}")])
        .stderr(Stdio::null());
    if python.is_file() && import.status().is_ok_and(|status| status.success()) {
        return Some(python);
    }
    let wanted = format!("{modules} ({}, from tools/setup test)", python.display());
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "a test needs {wanted}"
    );
    let _ = writeln!(
        std::io::stderr(),
        "\n*** SKIPPED a test of catalogs: it needs {wanted}"
    );
    None
}

const QUESTION: &str = r#"
import duckdb, sys
rows = duckdb.sql("SELECT dir, name, ino, mode, nlink, uid, gid, size, blocks, mtime, mtime_ns, ctime, ctime_ns FROM '%s'" % sys.argv[1])
for row in rows.fetchall():
    print(row[0].hex(), row[1].hex(), *row[2:])
"#;

#[test]
fn duckdb_reads_the_metadata_of_every_entry() {
    let Some(python) = python("duckdb") else {
        return;
    };
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (top, to) = (tmpfs(ground.join("top")), ground.join("catalog.parquet"));
            grow(&top, 1, 300);
            let expected: Census = census(&top);
            catalog(&top, &to);
            let printed = tool(Command::new(python).args(["-c", QUESTION]).arg(&to));
            let mut found: Vec<String> = String::from_utf8(printed)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect();
            let hex = |bytes: &[u8]| {
                bytes
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
            };
            let root = top.as_os_str().as_bytes();
            let mut lines: Vec<String> = expected
                .iter()
                .map(|(path, e)| {
                    // Names are relative to DIR.
                    let below = path[root.len()..].strip_prefix(b"/").unwrap_or_default();
                    let (dir, name) = match below.iter().rposition(|&b| b == b'/') {
                        Some(slash) => (&below[..slash], &below[slash + 1..]),
                        None => (&b""[..], below),
                    };
                    let mode = u32::from_str_radix(&e.mode, 8).unwrap() | kind(&e.kind);
                    let time = |time: &str| {
                        let (seconds, nanos) = time.split_once('.').unwrap();
                        format!("{seconds} {}", nanos.parse::<u32>().unwrap())
                    };
                    let (dir, name) = (hex(dir), hex(name));
                    let (mtime, ctime) = (time(&e.mtime), time(&e.ctime));
                    format!(
                        "{dir} {name} {} {mode} {} {} {} {} {} {mtime} {ctime}",
                        e.ino, e.nlink, e.uid, e.gid, e.size, e.blocks
                    )
                })
                .collect();
            found.sort();
            lines.sort();
            assert_eq!(found.len(), lines.len());
            for (found, expected) in found.iter().zip(&lines) {
                assert_eq!(found, expected);
            }
        });
    }
}

fn kind(kind: &str) -> u32 {
    match kind {
        "file" => libc::S_IFREG,
        "directory" => libc::S_IFDIR,
        "symlink" => libc::S_IFLNK,
        "fifo" => libc::S_IFIFO,
        "socket" => libc::S_IFSOCK,
        "block" => libc::S_IFBLK,
        _ => libc::S_IFCHR,
    }
}

const DOCS: &str = include_str!("../../docs/catalog.md");

/// The code below a heading of docs/catalog.md.
fn code(heading: &str) -> &'static str {
    let (_, rest) = DOCS.split_once(&format!("### {heading}\n")).unwrap();
    let (_, rest) = rest.split_once("```").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0
}

/// A result: rows in any order.
type Rows = BTreeSet<Vec<String>>;

/// The results of fathom query for the ten questions of docs/catalog.md, and the digest.
fn our_answers(base: &Path) -> Vec<Rows> {
    let questions = (1..=10).map(|number| {
        let row = format!("| {number} |");
        let line = DOCS.lines().find(|line| line.starts_with(&row)).unwrap();
        let command = line.rsplit('|').nth(1).unwrap().trim().trim_matches('`');
        let words = command.split_whitespace();
        words
            .map(|word| word.trim_matches('\'').to_owned())
            .collect()
    });
    let answers = questions.map(|words: Vec<String>| {
        let is_list = words.iter().any(|word| word == "paths");
        let json = if is_list { "-q" } else { "--json" };
        let mut query = fathom(args!["query", "c.parquet", json]);
        let ran = run(query.args(&words).current_dir(base)).exits(0);
        match is_list {
            true => ran.lines().into_iter().map(below).collect(),
            false => numbers(&ran.json()["result"]),
        }
    });
    let mut answers: Vec<Rows> = answers.collect();
    let ran = run(fathom(args!["query", "c.parquet", "--json"]).current_dir(base)).exits(0);
    let digest = ran.json()["result"]["digest"].as_str().unwrap().to_owned();
    answers.push(Rows::from([vec![digest]]));
    answers
}

/// Directory and name of a path, below DIR.
fn below(path: &str) -> Vec<String> {
    let path = path.strip_prefix("directory/").unwrap();
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    vec![dir.to_owned(), name.to_owned()]
}

/// The totals, or the groups, of a result.
fn numbers(result: &serde_json::Value) -> Rows {
    let text = |of: &serde_json::Value, fields: &[&str]| -> Vec<String> {
        fields.iter().map(|field| of[*field].to_string()).collect()
    };
    let Some(groups) = result["groups"].as_array() else {
        return Rows::from([text(result, &["entries", "bytes"])]);
    };
    let row = |group: &serde_json::Value| {
        let key = match group["key"].as_str().unwrap() {
            "root" => "0",
            "directory" => "",
            key => key.strip_prefix("directory/").unwrap_or(key),
        };
        let sums = text(group, &["entries", "bytes", "allocated"]);
        [vec![key.to_owned()], sums].concat()
    };
    groups.iter().map(row).collect()
}

/// A script that prints each result of DuckDB as JSON.
const BY_DUCKDB: &str = r#"
import duckdb, json, sys
def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
for statement in sys.argv[1].split(";"):
    lines = [line for line in statement.splitlines() if not line.startswith("--")]
    statement = "\n".join(lines).strip()
    if statement.startswith("SELECT"):
        print(json.dumps([[text(v) for v in row] for row in duckdb.sql(statement).fetchall()]))
    elif statement:
        duckdb.sql(statement)
"#;

const BY_PANDAS: &str = r#"
import contextlib, io, json, sys
with contextlib.redirect_stdout(io.StringIO()):
    exec(sys.argv[1])
def text(value):
    return value.decode() if isinstance(value, bytes) else str(int(value))
for answer in answers:
    if isinstance(answer, pandas.DataFrame):
        if "dir" in answer:
            answer = answer[["dir", "name"]]
        rows = answer.itertuples(index=False)
    else:
        rows = [answer]
    print(json.dumps([[text(value) for value in row] for row in rows]))
"#;

#[test]
fn duckdb_and_pandas_answer_the_ten_questions_as_query_does() {
    let Some(python) = python("duckdb, pandas, pyarrow") else {
        return;
    };
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let base = tmpfs(ground.join("base"));
            let top = dir(base.join("directory"));
            bush(&top, 3, 20);
            file(top.join("the largest.iso"), 2_345_678);
            let linked = file(top.join("d1/linked.zzz"), 5000);
            fs::hard_link(&linked, dir(top.join("another")).join("linked.aaa")).unwrap();
            fs::hard_link(&linked, top.join("d1/again.mmm")).unwrap();
            let old = file(top.join("another/core.1"), 10);
            let time = std::time::SystemTime::UNIX_EPOCH;
            fs::File::open(&old).unwrap().set_modified(time).unwrap();
            for (name, mode) in [("open.txt", 0o666), ("setuid", 0o4755), (".hidden", 0o600)] {
                let at = file(top.join("another").join(name), 100);
                std::os::unix::fs::chown(&at, Some(123_456), None).unwrap();
                chmod(&at, mode);
            }
            let walk = args!["walk", "directory", "--catalog", "c.parquet", "-q"];
            run(fathom(walk).current_dir(&base)).exits(0);
            let expected = our_answers(&base);
            assert!(
                expected.iter().all(|rows| !rows.is_empty()),
                "{expected:#?}"
            );
            for (heading, script) in [("DuckDB", BY_DUCKDB), ("pandas", BY_PANDAS)] {
                let mut command = Command::new(&python);
                command.args(["-c", script, code(heading)]);
                let printed = tool(command.current_dir(&base));
                let answers = printed
                    .split(|&b| b == b'\n')
                    .filter(|line| !line.is_empty());
                let answers: Vec<Rows> = answers
                    .map(|line| serde_json::from_slice(line).unwrap())
                    .collect();
                assert_eq!(answers[..], expected[..answers.len()], "{heading}");
                assert!(answers.len() >= 10, "{heading}: {answers:?}");
            }
        });
    }
}

/// A script that writes `rewritten.parquet` with different options of pyarrow.
const REWRITE: &str = r#"
original = pyarrow.parquet.read_table("c.parquet")
encodings = {"name": "DELTA_BYTE_ARRAY", "dir": "DELTA_LENGTH_BYTE_ARRAY", "size": "DELTA_BINARY_PACKED", "ino": "BYTE_STREAM_SPLIT"}
more = table.select(table.column_names[::-1]).append_column("more", pyarrow.array([[1]] * table.num_rows))
def with_type(name, to):
    return table.set_column(table.column_names.index(name), name, table[name].cast(to))
ways = {
    "none": (table, {"compression": "none"}),
    "gzip": (table, {"compression": "gzip", "row_group_size": 70}),
    "lz4": (table, {"compression": "lz4", "use_dictionary": False}),
    "zstd": (table, {"compression": "zstd", "write_statistics": False}),
    "pages": (table, {"data_page_version": "2.0", "use_dictionary": False, "column_encoding": encodings}),
    "columns": (more, {"data_page_size": 64}),
    "wide": (with_type("mode", pyarrow.int64()), {}),
    "brotli": (table, {"compression": "brotli"}),
    "missing": (table.drop_columns(["uid"]), {}),
    "type": (with_type("part", pyarrow.float64()), {}),
    "rows": (table.slice(1), {}),
    "null": (table.set_column(table.column_names.index("uid"), "uid", pyarrow.nulls(table.num_rows, pyarrow.uint32())), {}),
    "stale": (original, {}),
}
for name, (some, options) in ways.items():
    pyarrow.parquet.write_table(some, name + ".parquet", **options)
"#;

/// Writes `claims.parquet` with many rows of one long name: the file is small, but the names would
/// take 300 MB. In `dictionary.parquet` two names alternate, which would take 1 GB; in
/// `delta.parquet` each name is a prefix of the next.
const CLAIM: &str = r#"
rows = 1 << 18
def write(path, names, **options):
    alternating = pyarrow.array([row % len(names) for row in range(rows)])
    def column(field):
        if field.name == "name":
            return pyarrow.array(names, type=field.type).take(alternating)
        return pyarrow.repeat(table[field.name][0], rows)
    columns = [column(field) for field in table.schema]
    large = pyarrow.Table.from_arrays(columns, schema=table.schema.with_metadata({b"fathom.catalog": json.dumps(about).encode()}))
    pyarrow.parquet.write_table(large, path, row_group_size=rows, **options)
about = json.loads(table.schema.metadata[b"fathom.catalog"]) | {"entries": rows}
write("claims.parquet", [b"n" * 1200], compression="zstd", use_dictionary=False)
write("dictionary.parquet", [b"a" * 4000, b"b" * 4000], compression="gzip", use_dictionary=["name"])
write("delta.parquet", [b"n" * 2000], compression="snappy", use_dictionary=False, column_encoding={"name": "DELTA_BYTE_ARRAY"})
"#;

/// Memory use depends on the data in a catalog, not on the sizes that it claims.
#[test]
fn catalog_that_claims_much_takes_no_memory() {
    let script = [code("Rewriting with pyarrow"), "\nimport json\n", CLAIM].concat();
    is_rewritten("pyarrow", &script, |base, _| {
        let catalog = base.join("claims.parquet");
        assert!(catalog.metadata().unwrap().len() < 2 << 20);
        for words in [
            args!["query", "claims.parquet"].to_vec(),
            args!["changed", "--since", "claims.parquet", "tree"].to_vec(),
            args![
                "dump",
                "tree",
                "-o",
                "claimed.tar",
                "--since",
                "claims.parquet"
            ]
            .to_vec(),
        ] {
            let mut command = fathom(words);
            limit_memory(command.current_dir(base), 250);
            let refused = run(&mut command).refused();
            assert!(refused.stderr.contains("it claims to have"), "{refused}");
        }
        let query = |catalog: &str, mib| {
            let mut command = fathom(args!["query", catalog, "--name", "n*"]);
            limit_memory(command.current_dir(base), mib);
            run(&mut command)
        };
        let refused = query("dictionary.parquet", 900).refused();
        assert!(
            refused.stderr.contains("names of more than 256 MiB"),
            "{refused}"
        );
        let found = query("delta.parquet", 250).exits(0);
        assert!(found.lines()[0].ends_with("262,144"), "{found}");
    });
}

/// The rows in a catalog, as lines of JSON. Row groups are read in any order.
fn rows_of(base: &Path, catalog: &str) -> BTreeSet<Vec<u8>> {
    let query = args!["query", catalog, "--format", "ndjson", "-q"];
    let printed = run(fathom(query).current_dir(base)).exits(0).stdout;
    printed
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// Dumps a tree with a catalog, lets a program rewrite the catalog, and checks that fathom uses it
/// like its own.
fn is_rewritten(modules: &str, script: &str, look: impl FnOnce(&Path, &BTreeSet<Vec<u8>>) + Send) {
    let Some(python) = python(modules) else {
        return;
    };
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let base = tmpfs(ground.join("base"));
            grow(&dir(base.join("tree")), 1, 300);
            let dump = |out: &str, catalogs: [&str; 2]| {
                let mut dump = fathom(["dump", "-q", "tree", "-o", out]);
                let ran = run(dump.args(catalogs).current_dir(&base));
                assert!(ran.code() < 2, "{ran}");
                fs::read(base.join(out)).unwrap()
            };
            dump("0.tar", ["--catalog", "c.parquet"]);
            fs::write(base.join("tree/new"), "new").unwrap();
            tool(
                Command::new(&python)
                    .args(["-c", script])
                    .current_dir(&base),
            );
            let rows = rows_of(&base, "c.parquet");
            assert!(rows_of(&base, "rewritten.parquet") == rows);
            let expected = dump("1.tar", ["--since", "c.parquet"]);
            assert!(dump("2.tar", ["--since", "rewritten.parquet"]) == expected);
            look(&base, &rows);
            // `changed --update` writes a catalog with a different description.
            let changed = args![
                "changed",
                "tree",
                "--since",
                "rewritten.parquet",
                "--update",
                "-q"
            ];
            run(fathom(changed).current_dir(&base)).exits(0);
            let changed = args!["changed", "tree", "--since", "rewritten.parquet", "-q"];
            run(fathom(changed).current_dir(&base)).exits(0);
        });
    }
}

#[test]
fn duckdb_rewrites_a_catalog_that_is_read() {
    let script = code("Rewriting with DuckDB in Python");
    is_rewritten("duckdb", script, |_, _| {});
}

#[test]
fn pyarrow_rewrites_catalogs_that_are_read() {
    let script = [code("Rewriting with pyarrow"), REWRITE].concat();
    is_rewritten("pyarrow", &script, |base, rows| {
        for way in ["none", "gzip", "lz4", "zstd", "pages", "columns", "wide"] {
            assert!(rows_of(base, &format!("{way}.parquet")) == *rows, "{way}");
        }
        for (way, message) in [
            (
                "brotli",
                "it is compressed with brotli, which fathom cannot read",
            ),
            ("missing", "it has no column 'uid'"),
            ("type", "column 'part' has the type DOUBLE instead of INT32"),
            ("rows", "the file is damaged"),
            ("null", "the file is damaged: some rows have no value"),
            (
                "stale",
                "its checksums are wrong: another program has written it",
            ),
        ] {
            let query = args!["query", format!("{way}.parquet"), "--format", "ndjson"];
            let ran = run(fathom(query).current_dir(base)).exits(2);
            assert!(ran.stderr.contains(message), "{ran}");
            assert!(ran.stderr.contains("hint: "), "{ran}");
        }
    });
}

const CHECK: &str = r#"
import pyarrow.parquet, sys
print(pyarrow.parquet.read_table(sys.argv[1], page_checksum_verification=True).num_rows)
"#;

/// Each page has a checksum that other programs verify, too.
#[test]
fn pyarrow_detects_a_damaged_page() {
    let Some(python) = python("pyarrow") else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let (top, to) = (
        dir(place.path().join("top")),
        place.path().join("catalog.parquet"),
    );
    for n in 1..=500u64 {
        file(
            top.join(format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            0,
        );
    }
    catalog(&top, &to);
    let check = || {
        Command::new(&python)
            .args(["-c", CHECK])
            .arg(&to)
            .output()
            .unwrap()
    };
    let sound = check();
    assert_eq!(
        String::from_utf8_lossy(&sound.stdout).trim(),
        "501",
        "{sound:?}"
    );
    // The offset is among the names, which compress little.
    let mut bytes = fs::read(&to).unwrap();
    bytes[3000] ^= 1;
    fs::write(&to, bytes).unwrap();
    let damaged = check();
    assert!(
        !damaged.status.success() && String::from_utf8_lossy(&damaged.stderr).contains("CRC"),
        "{damaged:?}"
    );
}
