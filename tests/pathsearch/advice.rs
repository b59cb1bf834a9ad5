//! Tests that the advice preserves the behaviour of a program: for programs of many kinds, every
//! name is found at the same path as before, with fewer lookups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{compile, of_kind, searched, searched_with, sh};
use crate::support::build::chmod;
use crate::support::restrict::as_nobody;
use crate::support::run::args;
use crate::support::{Need, fathom, require, run};

/// The texts of the proposed changes of a kind.
fn changes(value: &Value, kind: &str) -> Vec<String> {
    let fixes = value["result"]["fixes"].as_array().unwrap().iter();
    let fixes = fixes.filter(|fix| fix["kind"] == kind);
    let texts = fixes.map(|fix| fix["change"].as_str().unwrap().to_owned());
    texts.collect()
}

/// The paths at which each name was found.
fn found(value: &Value) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut all: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for search in value["result"]["searches"].as_array().unwrap() {
        let text = |name: &str| search[name].as_str().unwrap_or_default().to_owned();
        // Python also looks up the directories of its path, even removed ones.
        let is_file = search["found"]
            .as_str()
            .is_some_and(|found| !Path::new(found).is_dir());
        if is_file && search["kind"] != "other" {
            let places = all.entry((text("kind"), text("name"))).or_default();
            places.insert(text("found"));
        }
    }
    all
}

/// How a program lists the directories of its libraries.
#[derive(Clone, Copy, PartialEq)]
enum Paths {
    Rpath,
    Runpath,
}

/// A program, the environment that it is run with, and how it finds its libraries. `@` is the
/// directory of the case.
struct Case {
    dir: PathBuf,
    /// Environment variables, set by the wrapper script if there is one.
    variables: BTreeMap<&'static str, String>,
    is_wrapped: bool,
    /// The RPATH or RUNPATH of `@/bin/p`, which needs libx.so and liby.so.
    program: Option<(Paths, String)>,
    /// The RUNPATH of `@/y/liby.so`, which needs libx.so.
    library: Option<String>,
    command: Vec<String>,
}

/// Sets up a case.
type Prepare = fn(Case) -> Case;

impl Case {
    fn new(dir: &Path, command: &[&str]) -> Case {
        let case = Case {
            dir: dir.to_owned(),
            variables: BTreeMap::new(),
            is_wrapped: false,
            program: None,
            library: None,
            command: command
                .iter()
                .map(|word| word.replace('@', dir.to_str().unwrap()))
                .collect(),
        };
        for name in ["empty", "other", "a", "b", "y", "bin", "tools"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        for (name, version) in [("other/libother.so", 0), ("a/libx.so", 1), ("b/libx.so", 2)] {
            let source = format!("int x(void) {{ return {version}; }}\n");
            compile(
                &source,
                &dir.join(name),
                &["-shared".into(), "-fPIC".into()],
            );
        }
        case
    }

    fn expanded(&self, text: &str) -> String {
        text.replace('@', self.dir.to_str().unwrap())
    }

    fn with(mut self, variable: &'static str, value: &str) -> Case {
        let value = self.expanded(value);
        self.variables.insert(variable, value);
        self
    }

    fn wrapped(mut self) -> Case {
        self.is_wrapped = true;
        self
    }

    fn linked(mut self, paths: Paths, value: &str) -> Case {
        self.program = Some((paths, self.expanded(value)));
        self
    }

    fn library(mut self, value: &str) -> Case {
        self.library = Some(self.expanded(value));
        self
    }

    /// Links the program and its library, and writes the wrapper.
    fn build(&self) {
        let dir = |name: &str| self.dir.join(name);
        let link = |source: &str, into: &str, paths: Option<(Paths, &str)>, flags: &[&str]| {
            let mut flags: Vec<String> = flags.iter().map(|flag| self.expanded(flag)).collect();
            flags.push("-Wl,--allow-shlib-undefined".into());
            if let Some((paths, value)) = paths {
                flags.push(format!("-Wl,-rpath,{value}"));
                flags.push(match paths {
                    Paths::Rpath => "-Wl,--disable-new-dtags".into(),
                    Paths::Runpath => "-Wl,--enable-new-dtags".into(),
                });
            }
            // The flags follow the object, whose libraries they name.
            let object = dir(into).with_extension("o");
            std::fs::write(object.with_extension("c"), source).unwrap();
            let compiler = || Command::new("gcc");
            run(compiler()
                .args(["-c", "-fPIC", "-o"])
                .arg(&object)
                .arg(object.with_extension("c")))
            .exits(0);
            run(compiler()
                .arg("-o")
                .arg(dir(into))
                .arg(&object)
                .args(&flags))
            .exits(0);
        };
        let library = self.library.as_deref().map(|value| (Paths::Runpath, value));
        let source = "int x(void); int y(void) { return x(); }\n";
        link(source, "y/liby.so", library, &["-shared", "-L@/a", "-lx"]);
        let program = self.program.as_ref();
        let program = program.map(|(paths, value)| (*paths, value.as_str()));
        let source = "#include <stdio.h>\nint y(void);\n\
                      int main(void) { printf(\"%d\\n\", y()); return 0; }\n";
        // A program whose library has a RUNPATH does not need libx.so itself.
        let own: &[&str] = match self.library {
            Some(_) => &["-L@/y", "-ly"],
            None => &["-L@/a", "-L@/y", "-Wl,--no-as-needed", "-lx", "-ly"],
        };
        link(source, "bin/p", program, own);
        let each = self.variables.iter();
        let set: String = each
            .map(|(name, value)| format!("{name}='{value}'; export {name}\n"))
            .collect();
        let command = self.command.iter().map(|word| format!("'{word}'"));
        let command = command.collect::<Vec<_>>().join(" ");
        std::fs::write(dir("wrapper"), format!("#!/bin/sh\n{set}exec {command}\n")).unwrap();
        chmod(dir("wrapper"), 0o755);
    }

    fn run(&self) -> (Value, String) {
        let command = match self.is_wrapped {
            true => args![self.dir.join("wrapper")].to_vec(),
            false => self.command.iter().map(Into::into).collect(),
        };
        let place = tempfile::tempdir().unwrap();
        let flags = ["--rtt", "10ms"];
        let (value, ran) = searched_with(place.path(), &flags, &command, |program| {
            program
                .env("PATH", "/usr/bin:/bin")
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .current_dir(self.dir.join("other"));
            if !self.is_wrapped {
                program.envs(&self.variables);
            }
        });
        assert_eq!(ran.code(), 0, "{ran}");
        (value, String::from_utf8(ran.stdout).unwrap())
    }

    /// Applies a proposed change; returns whether the test can apply it.
    fn apply(&mut self, change: &str) -> bool {
        let quoted = |text: &str| text.split('\'').nth(1).unwrap_or_default().to_owned();
        let names: Vec<&'static str> = self.variables.keys().copied().collect();
        for name in names {
            if change.starts_with("run ") && change.contains(&format!(" without {name}:")) {
                self.variables.remove(name);
                return true;
            }
            let set = [format!(" with {name}="), format!("set {name}=")];
            if let Some((_, value)) = set.iter().find_map(|set| change.split_once(set.as_str())) {
                self.variables.insert(name, quoted(value));
                return true;
            }
        }
        let Some(objects) = change.strip_prefix("search no directories that contain no library: ")
        else {
            return false;
        };
        for object in objects.split("; ") {
            let words: Vec<&str> = object.split('\'').collect();
            let (file, value) = match words[..] {
                ["link ", file, ..] => (file, words.get(3).copied()),
                ["patchelf --remove-rpath ", file, ..] => (file, None),
                [_, value, _, file, ..] => (file, Some(value)),
                _ => panic!("{object}"),
            };
            match file.ends_with("/p") {
                true => {
                    let paths = self.program.take().unwrap().0;
                    let named = object.contains("RUNPATH") || object.starts_with("patchelf --set");
                    assert!(
                        value.is_none() || named == (paths == Paths::Runpath),
                        "{object}"
                    );
                    self.program = value.map(|value| (paths, value.to_owned()));
                }
                false => self.library = value.map(str::to_owned),
            }
        }
        true
    }

    /// Applies all advice, and compares the paths found before and after. `applies`: whether there
    /// must be advice.
    fn check(mut self, what: &str, applies: bool) {
        self.build();
        let (before, printed) = self.run();
        let kinds = ["ld.so", "python", "perl", "PATH"];
        let advice: Vec<String> = kinds
            .iter()
            .flat_map(|kind| changes(&before, kind))
            .collect();
        let applied = advice.iter().filter(|change| self.apply(change)).count();
        assert_eq!(applied > 0, applies, "{what}: {advice:#?}");
        self.build();
        let (after, printed_after) = self.run();
        assert_eq!(printed, printed_after, "{what}: {advice:#?}");
        assert_eq!(found(&before), found(&after), "{what}: {advice:#?}");
        let misses = |value: &Value| value["result"]["totals"]["misses"].as_u64().unwrap();
        assert_eq!(
            misses(&after) < misses(&before),
            applies,
            "{what}: {advice:#?}"
        );
    }
}

#[test]
fn advice_leaves_every_library_where_it_was_found() {
    if require(&[Need::Program("gcc"), Need::Program("dash")]) {
        let cases: [(&str, bool, Prepare); 14] = [
            ("RUNPATH", true, |case| {
                case.linked(Paths::Runpath, "@/none:@/empty:@/a:@/y")
            }),
            ("RPATH", true, |case| {
                case.linked(Paths::Rpath, "@/none:@/empty:@/a:@/y")
            }),
            ("LD_LIBRARY_PATH", true, |case| {
                case.with("LD_LIBRARY_PATH", "@/empty:@/a:@/y:/none")
            }),
            (
                "LD_LIBRARY_PATH without any library, and RUNPATH",
                true,
                |case| {
                    case.with("LD_LIBRARY_PATH", "@/none:@/empty")
                        .linked(Paths::Runpath, "@/b:@/y")
                        .library("@/b")
                },
            ),
            (
                "LD_LIBRARY_PATH before RUNPATH with another version",
                true,
                |case| {
                    case.with("LD_LIBRARY_PATH", "@/empty:@/a")
                        .linked(Paths::Runpath, "@/b:@/y")
                },
            ),
            (
                "RPATH with another version before LD_LIBRARY_PATH",
                true,
                |case| {
                    case.with("LD_LIBRARY_PATH", "@/empty:@/a")
                        .linked(Paths::Rpath, "@/empty:@/b:@/y")
                },
            ),
            ("a wrapper and a program without RUNPATH", true, |case| {
                case.with("LD_LIBRARY_PATH", "@/empty:@/other:@/a:@/y")
                    .wrapped()
            }),
            ("a wrapper and RUNPATH", true, |case| {
                case.with("LD_LIBRARY_PATH", "@/empty:@/a")
                    .linked(Paths::Runpath, "@/b:@/none:@/y")
                    .wrapped()
            }),
            ("$ORIGIN", true, |case| {
                case.linked(
                    Paths::Runpath,
                    "$ORIGIN/../empty:$ORIGIN/../a:${ORIGIN}/../y",
                )
                .library("$ORIGIN/../a")
            }),
            ("RUNPATH of a library", true, |case| {
                case.linked(Paths::Runpath, "@/b:@/y")
                    .library("@/empty:@/b")
            }),
            ("RPATH for the library of a library", true, |case| {
                case.linked(Paths::Rpath, "@/none:@/y:@/a")
            }),
            ("a RUNPATH with a library that is not used", false, |case| {
                case.linked(Paths::Runpath, "@/other:@/a:@/y")
                    .library("@/a")
            }),
            ("the working directory", true, |case| {
                case.with("LD_LIBRARY_PATH", ":@/empty:@/a;@/y")
            }),
            ("only directories that are used", false, |case| {
                case.with("LD_LIBRARY_PATH", "@/y:@/a")
                    .linked(Paths::Runpath, "@/b")
            }),
        ];
        for (what, applies, prepare) in cases {
            let place = tempfile::tempdir().unwrap();
            prepare(Case::new(place.path(), &["@/bin/p"])).check(what, applies);
        }
    }
}

#[test]
fn advice_leaves_every_module_and_program_where_it_was_found() {
    if require(&[
        Need::Program("gcc"),
        Need::Program("dash"),
        Need::Program("perl"),
        Need::File("/usr/bin/python3"),
    ]) {
        let python = "import sys; sys.dont_write_bytecode = True; import own; print(own.__file__)";
        let python = ["/usr/bin/python3", "-c", python];
        let perl = ["perl", "-e", "use Own; print $INC{'Own.pm'}"];
        let shell = ["dash", "-c", "tool; both"];
        let cases: [(&str, &[&str], bool, Prepare); 9] = [
            ("PYTHONPATH", &python, true, |case| {
                case.with("PYTHONPATH", "@/none:@/empty:@/a:@/b")
            }),
            ("a wrapper sets PYTHONPATH", &python, true, |case| {
                case.with("PYTHONPATH", "@/empty:@/none/x:@/b").wrapped()
            }),
            ("a ZIP file in PYTHONPATH", &python, true, |case| {
                let archive = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr('sub/own.py', '')";
                let zip = case.dir.join("own.zip");
                run(Command::new("/usr/bin/python3")
                    .args(["-c", archive])
                    .arg(zip))
                .exits(0);
                case.with("PYTHONPATH", "@/none/y:@/own.zip/sub:@/own.zip:@/b")
            }),
            ("PERL5LIB", &perl, true, |case| {
                case.with("PERL5LIB", "@/none:@/empty:@/b:@/a")
            }),
            ("a wrapper sets PERL5LIB", &perl, true, |case| {
                case.with("PERL5LIB", "@/empty:@/a").wrapped()
            }),
            ("PATH", &shell, true, |case| {
                case.with("PATH", "@/none:@/a:@/tools:/usr/bin:@/none/bin")
            }),
            ("a duplicate in PATH", &shell, true, |case| {
                case.with("PATH", "@/b:@/empty/../none:@/tools:@/b/:@/a:/usr/bin")
            }),
            (
                "a wrapper sets LD_LIBRARY_PATH for a shell",
                &shell,
                true,
                |case| {
                    case.with("LD_LIBRARY_PATH", "@/none:@/empty")
                        .with("PATH", "@/a:@/tools:/usr/bin")
                        .wrapped()
                },
            ),
            ("the best PATH", &shell, false, |case| {
                case.with("PATH", "@/a:@/tools:/usr/bin")
            }),
        ];
        for (what, command, applies, prepare) in cases {
            let place = tempfile::tempdir().unwrap();
            let case = Case::new(place.path(), command);
            for dir in ["a", "b"] {
                let dir = place.path().join(dir);
                std::fs::write(dir.join("own.py"), "").unwrap();
                std::fs::write(dir.join("Own.pm"), "package Own; 1;\n").unwrap();
                std::fs::write(
                    dir.join("both"),
                    format!("#!/bin/sh\necho {}\n", dir.display()),
                )
                .unwrap();
                chmod(dir.join("both"), 0o755);
            }
            let tool = place.path().join("tools/tool");
            std::fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
            chmod(&tool, 0o755);
            prepare(case).check(what, applies);
        }
    }
}

/// Creates forty modules in a directory. Returns a script that imports them.
fn modules(dir: &Path) -> String {
    std::fs::create_dir_all(dir).unwrap();
    (0..40).for_each(|n| std::fs::write(dir.join(format!("own{n}.py")), "x = 1\n").unwrap());
    let names: Vec<String> = (0..40).map(|n| format!("own{n}")).collect();
    format!(
        "import sys; sys.path.insert(0, '{}'); import {}",
        dir.display(),
        names.join(", ")
    )
}

#[test]
fn modules_that_are_compiled_at_each_start_are_compiled_once() {
    if require(&[Need::File("/usr/bin/python3")]) {
        let place = tempfile::tempdir().unwrap();
        let script = modules(&place.path().join("mod's"));
        let script = script.replace("mod's", "mod\\'s");
        let command = args!["/usr/bin/python3", "-B", "-c", &script];
        let search = || searched(place.path(), &command, |_| {}).0;
        let advice = |value: &Value| {
            let mut all = changes(value, "python").into_iter();
            all.find(|change| change.starts_with("compile 40 modules once, "))
        };
        let change = advice(&search()).expect("advice");
        let (_, command) = change.split_once(": ").unwrap();
        run(Command::new("sh").arg("-c").arg(command)).exits(0);
        let again = search();
        assert_eq!(advice(&again), None);
        let missed = of_kind(&again, "python").into_iter().filter(|search| {
            search["found"]
                .as_str()
                .is_some_and(|found| found.contains("/own") && found.ends_with(".py"))
        });
        assert_eq!(missed.count(), 0, "{again}");
        // A run that writes the compiled modules itself needs no advice.
        let other = modules(&place.path().join("other"));
        let command = args!["/usr/bin/python3", "-c", other];
        let (value, _) = searched(place.path(), &command, |command| {
            command.env_remove("PYTHONDONTWRITEBYTECODE");
        });
        assert!(
            !changes(&value, "python").concat().contains("compile"),
            "{value}"
        );
    }
}

#[test]
fn modules_in_a_directory_that_is_not_writable_are_compiled_elsewhere() {
    if require(&[Need::Root, Need::File("/usr/bin/python3")]) {
        let place = tempfile::tempdir().unwrap();
        chmod(place.path(), 0o755);
        let script = modules(&place.path().join("mods"));
        let home = place.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let search = |prefix: Option<&str>| {
            let words = args!["pathsearch", "--json", "/usr/bin/python3", "-c", &script];
            let mut program = fathom(words);
            as_nobody(&mut program);
            program
                .current_dir("/")
                .env("HOME", &home)
                .env_remove("XDG_CACHE_HOME")
                .env_remove("PYTHONDONTWRITEBYTECODE")
                .envs(prefix.map(|prefix| ("PYTHONPYCACHEPREFIX", prefix)));
            let value: Value = serde_json::from_slice(&run(&mut program).exits(0).stdout).unwrap();
            let all = changes(&value, "python").into_iter();
            let mut all = all.filter(|change| change.contains("at each start"));
            all.next()
        };
        // The home directory is not writable either, so there is no advice.
        assert_eq!(search(None), None);
        chmod(&home, 0o777);
        let change = search(None).expect("advice");
        let prefix = format!("{}/.cache/python", home.display());
        assert!(
            change.starts_with(&format!("set PYTHONPYCACHEPREFIX='{prefix}': ")),
            "{change}"
        );
        search(Some(&prefix));
        assert_eq!(search(Some(&prefix)), None);
    }
}

#[test]
fn the_script_of_a_version_manager_is_named_with_the_program_that_it_executes() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join(".pyenv");
        let real = root.join("versions/1/bin/tool");
        let script = |file: &Path, text: &str| {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
            chmod(file, 0o755);
        };
        script(&real, "echo real");
        let shim = root.join("shims/tool");
        let each = "/bin/true; ".repeat(12);
        script(&shim, &format!("{each}exec {} \"$@\"", real.display()));
        script(&root.join("bin/pyenv"), &format!("echo {}", real.display()));
        let path = format!("{}/shims:/usr/bin:/bin", root.display());
        let file = place.path().join("report");
        let words = args!["pathsearch", "-v", "-o", &file, "dash", "-c", "tool; tool"];
        run(fathom(words).env("PATH", &path)).exits(0);
        let report = std::fs::read_to_string(&file).unwrap();
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        let advice = format!(
            "execute '{}' directly ({}/bin/pyenv which tool prints its path): the script {} of a version \
             manager runs 12 processes before",
            real.display(),
            root.display(),
            shim.display()
        );
        assert!(report.contains(&advice), "{advice}\n{report}");
        // Without a version manager there is no command to advise.
        std::fs::remove_file(root.join("bin/pyenv")).unwrap();
        for (tool, expected) in [("tool", true), (real.to_str().unwrap(), false)] {
            let (value, _) = searched(place.path(), &sh("dash", tool), |command| {
                command.env("PATH", &path);
            });
            let change = changes(&value, "PATH").concat();
            assert_eq!(
                change.contains(" directly: the script "),
                expected,
                "{change}"
            );
        }
    }
}

#[test]
fn files_that_are_read_can_be_archived() {
    if require(&[Need::Program("tar"), Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data\n1");
        std::fs::write(&data, "text").unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let report = place.path().join("report.json");
        let script = "cat \"$1\" >\"$2\"; rm -f /no/such";
        let written = place.path().join("written");
        let command = args!["dash", "-c", script, "dash", &link, &written];
        let all = args!["pathsearch", "--files0", "--"]
            .into_iter()
            .chain(command.clone());
        let ran = run(&mut fathom(all)).exits(0);
        let names: BTreeSet<&[u8]> = ran.stdout.split(|&b| b == 0).collect();
        let listed = |path: &Path| names.contains(path.as_os_str().as_encoded_bytes());
        assert!(listed(&data) && listed(&link) && !listed(&written), "{ran}");
        assert!(!ran.stderr.contains("lookups by name"), "{ran}");
        let mut archive = Command::new("sh");
        archive.arg("-c").arg(
            "\"$0\" pathsearch --files0 -- \"$@\" | tar --null -T - -cf - | tar -tf - | wc -l",
        );
        let ran = run(archive
            .arg(crate::support::run::fathom_path())
            .args(&command))
        .exits(0);
        let archived: usize = String::from_utf8(ran.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // The text after the last NUL is no name.
        assert_eq!(archived, names.len() - 1, "{}", ran.stderr);
        let all = args!["pathsearch", "--files0", "--json", "--"]
            .into_iter()
            .chain(command.clone());
        run(&mut fathom(all)).exits(2);
        let all = args!["pathsearch", "--files0", "-o", "-", "--"]
            .into_iter()
            .chain(command.clone());
        run(&mut fathom(all)).refused();
        let all = args!["pathsearch", "--files0", "-o", &report, "--"]
            .into_iter()
            .chain(command);
        run(&mut fathom(all)).exits(0);
        let text = std::fs::read_to_string(&report).unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let copied = text
            .split("copy the ")
            .nth(1)
            .unwrap_or_else(|| panic!("{text}"));
        let (files, rest) = copied.split_once(" files and ").unwrap();
        let (links, _) = rest.split_once(" symbolic links ").unwrap();
        let sum: usize = [files, links]
            .map(|n| n.parse::<usize>().unwrap())
            .iter()
            .sum();
        assert_eq!(sum, names.len() - 1, "{text}");
    }
}

#[test]
fn what_cannot_be_executed_is_not_found() {
    if require(&[
        Need::Program("dash"),
        Need::Program("bash"),
        Need::Program("perl"),
    ]) {
        let place = tempfile::tempdir().unwrap();
        let dir = |name: &str| place.path().join(name);
        for name in ["mode", "directory/tool", "plain", "good"] {
            std::fs::create_dir_all(dir(name)).unwrap();
        }
        // The file has no interpreter line: shells and execvp(3) run it as a script, and search no
        // further.
        std::fs::write(dir("plain/tool"), "exit 0\n").unwrap();
        chmod(dir("plain/tool"), 0o755);
        for (file, mode) in [("mode/tool", 0o644), ("good/tool", 0o755)] {
            std::fs::write(dir(file), "#!/bin/sh\nexit 0\n").unwrap();
            chmod(dir(file), mode);
        }
        let list = |names: &[&str]| {
            let dirs = names.iter().map(|name| dir(name).display().to_string());
            let dirs: Vec<String> = dirs.chain(["/usr/bin".into(), "/bin".into()]).collect();
            dirs.join(":")
        };
        let all = list(&["mode", "directory", "/nowhere", "good"]);
        let none = list(&["mode", "directory"]);
        for command in [
            sh("dash", "tool"),
            sh("bash", "tool"),
            args!["env", "tool"].to_vec(),
            args!["perl", "-e", "exec {'tool'} 'tool'"].to_vec(),
        ] {
            let places = |path: &str| {
                let (value, _) = searched(place.path(), &command, |command| {
                    command.env("PATH", path);
                });
                let searches = of_kind(&value, "PATH").into_iter();
                let searches = searches.filter(|search| search["name"] == "tool");
                searches.map(Clone::clone).collect::<Vec<Value>>()
            };
            let searches = places(&all);
            assert!(!searches.is_empty(), "{command:?}");
            for search in searches {
                assert_eq!(
                    search["found"],
                    dir("good/tool").to_str().unwrap(),
                    "{search}"
                );
                assert_eq!(search["refused"], 2, "{search}");
            }
            for search in places(&list(&["mode", "plain", "good"])) {
                let plain = dir("plain/tool");
                assert_eq!(search["found"], plain.to_str().unwrap(), "{search}");
            }
            for search in places(&none) {
                assert!(
                    search["found"].is_null() && search["refused"] != 0,
                    "{search}"
                );
            }
        }
    }
}

#[test]
fn a_library_for_another_architecture_is_not_found() {
    if require(&[Need::Program("gcc")]) {
        let place = tempfile::tempdir().unwrap();
        let case = Case::new(place.path(), &["@/bin/p"]).linked(Paths::Runpath, "@/y");
        let case = case.with("LD_LIBRARY_PATH", "@/other:@/a");
        case.build();
        let mut library = std::fs::read(place.path().join("a/libx.so")).unwrap();
        library[18] ^= 0x7f; // the machine of the ELF header
        std::fs::write(place.path().join("other/libx.so"), library).unwrap();
        let (value, _) = case.run();
        let searches = of_kind(&value, "ld.so").into_iter();
        let searches: Vec<_> = searches
            .filter(|search| search["name"] == "libx.so")
            .collect();
        assert_eq!(searches.len(), 1, "{searches:#?}");
        let expected = place.path().join("a/libx.so");
        assert_eq!(
            searches[0]["found"],
            expected.to_str().unwrap(),
            "{searches:#?}"
        );
        assert_eq!(searches[0]["refused"], 1, "{searches:#?}");
    }
}
