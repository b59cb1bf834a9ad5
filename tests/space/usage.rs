//! Tests of the text output, of other users, and of refused arguments.

use std::fs;
use std::process::Command;

use unicode_width::UnicodeWidthStr;

use super::{MIB, bytes, file, grow, item};
use crate::support::build::{bind, chmod, dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, mounted, overlay};
use crate::support::fuse::Manner::Hung;
use crate::support::fuse::serve;
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::args;
use crate::support::strace::{agree, less_start};
use crate::support::terminal::at_terminal;
use crate::support::{Need, fathom, fathom_path, in_namespace, require, run};

#[test]
fn the_text_fits_the_terminal_and_one_screen() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("ext4");
            assert!(mounted(EXT4[0], &at));
            for nth in 0..20 {
                file(
                    &dir(at.join(format!("directory {nth}"))).join("file"),
                    100_000 * nth,
                );
            }
            let holder = grow(&at);
            let held = format!("tail (PID {})", holder.id());
            for columns in [40, 80, 200] {
                let args = args!["space", at.as_os_str(), "-q", "--color", "never"];
                let (text, status) = at_terminal(&mut fathom(args), columns);
                assert!(status.success(), "{text}");
                let lines: Vec<&str> = text.lines().collect();
                assert!(columns < 80 || lines.len() <= 30, "{text}");
                // Commands are not wrapped, so that users can copy them.
                let end = lines
                    .iter()
                    .position(|line| line.contains("What can be freed"));
                let (lines, advice) = lines.split_at(end.unwrap());
                let fits = |line: &&str| line.width() <= 80 || line.contains("unshare -m");
                let is_held = |line: &&str| line.contains(&held);
                if columns == 80 {
                    assert!(advice.iter().all(fits), "{text}");
                    assert!(lines.iter().any(is_held), "{text}");
                }
                assert!(
                    lines.iter().all(|line| line.width() <= columns.into()),
                    "{text}"
                );
                for word in ["deleted", "hidden", "reserved", "not accounted for"] {
                    assert!(text.contains(word), "{word}: {text}");
                }
            }
            let all = run(&mut fathom([
                "space".into(),
                at.into_os_string(),
                "--top".into(),
                "100".into(),
            ]));
            assert!(!String::from_utf8_lossy(&all.stdout).contains("more)"));
        });
    }
}

#[test]
fn what_another_user_cannot_see_is_said() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("ext4");
            assert!(mounted(EXT4[0], &at));
            let _holder = grow(&at);
            let secret = dir(at.join("secret"));
            file(&secret.join("file"), MIB);
            chmod(&secret, 0o700);
            chmod(at.join("c"), 0o700);
            let args = ["space".into(), at.as_os_str().to_owned(), "--json".into()];
            let ran = run(&mut fathom_as_nobody(base, args)).exits(1);
            let value = ran.json();
            let warnings = value["warnings"].as_array().unwrap().iter();
            let messages: Vec<_> = warnings.map(|it| it["message"].as_str().unwrap()).collect();
            let beneath = format!("cannot look beneath 1 mount point: '{}/m';", at.display());
            for part in [
                &*beneath,
                "cannot read the open files of",
                "cannot read the superblock on the device",
                "cannot read this and 2 other files and directories",
            ] {
                assert!(
                    messages.iter().any(|it| it.contains(part)),
                    "{part}: {messages:?}"
                );
            }
            assert!(ran.stderr.contains("hint: run as root"), "{}", ran.stderr);
            let result = &value["result"];
            let unaccounted = result["unaccounted"].as_u64().unwrap() / MIB;
            // MiB of `secret`, of `c` without the file that has a name in `a`, of hidden files, and
            // of deleted files
            assert_eq!(unaccounted, 1 + 5 + 4 + 7, "{result:#}");
            assert!(bytes(item(result, "files", Some(&at.join("a")))) >= 20 * MIB.cast_signed());
        });
    }
}

#[test]
fn a_file_system_without_a_size_is_no_error() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = dir(base.join("unlimited"));
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("none", &at, "tmpfs", flags, c"size=0").unwrap();
            fs::write(at.join("x"), "x").unwrap();
            let args = ["space".into(), at.into_os_string(), "--json".into()];
            let value = run(&mut fathom(args)).exits(1).json();
            assert_eq!(
                (&value["result"]["size"], &value["result"]["unaccounted"]),
                (&0.into(), &(-4096).into())
            );
            let message = value["warnings"][0]["message"].as_str().unwrap();
            assert!(
                message.starts_with("the file system does not report its size"),
                "{message}"
            );
        });
    }
}

#[test]
fn odd_names_are_neither_mangled_nor_raw() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            for name in crate::support::build::odd_names() {
                file(
                    &dir(at.join(crate::support::build::name(&name))).join("f"),
                    4096,
                );
            }
            let top = at.as_os_str();
            let args = args!["space", top, "--top", "1000", "--color", "never"];
            let (text, _) = at_terminal(&mut fathom(args), 200);
            assert!(
                !text.chars().any(|c| c.is_control() && !"\r\n".contains(c)),
                "{text:?}"
            );
            let result = super::space(&at);
            super::check(&result, &at, 0);
            let names = crate::support::build::odd_names();
            for name in &names {
                let path = [at.as_os_str().as_encoded_bytes(), b"/", name].concat();
                let mut items = result["items"].as_array().unwrap().iter();
                assert!(
                    items.any(|it| crate::support::run::exact(it, "path") == path),
                    "{name:?}"
                );
            }
        });
    }
}

#[test]
fn a_missing_directory_is_refused() {
    let ran = run(&mut fathom(["space", "/nonexistent"])).exits(2);
    assert!(
        ran.stderr.contains("cannot open directory '/nonexistent'"),
        "{}",
        ran.stderr
    );
    run(&mut fathom(["space", "--top", "0"])).exits(2);
}

#[test]
fn files_that_the_kernel_makes_have_no_bill() {
    for dir in ["/proc", "/sys/kernel"] {
        let ran = run(&mut fathom(["space", dir])).exits(2);
        let is_said = ran.stderr.contains("which has no space of its own");
        assert!(is_said && ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    }
}

#[test]
fn no_server_that_hangs_is_waited_for() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            file(&at.join("file"), MIB);
            let hung = dir(at.join("hung"));
            file(&hung.join("covered"), MIB);
            let _server = serve(Hung, &hung);
            let result = super::space(&at);
            super::check(&result, &at, 0);
            assert_eq!(
                bytes(item(&result, "hidden", Some(&hung))),
                MIB.cast_signed()
            );
            let args = args!["space", at.as_os_str(), "--json"];
            let result = run(&mut fathom_as_nobody(base, args)).exits(1).json();
            assert_eq!(result["result"]["unaccounted"], MIB);
            let ran = run(&mut fathom(args![
                "space",
                hung.as_os_str(),
                "--deadline",
                "200ms"
            ]));
            assert!(
                ran.refused()
                    .stderr
                    .contains("does not answer within 200 ms")
            );
        });
    }
}

#[test]
fn call_counts_equal_strace() {
    if require(&[Need::Root, Need::Loop, Need::Program("strace")]) {
        in_namespace(|base| {
            for make in [EXT4[0], XFS[0], BTRFS[0]] {
                let at = base.join(make.fstype);
                assert!(mounted(make, &at));
                let _holder = grow(&at);
                let traced =
                    less_start(&base.join("log"), args!["space", at.as_os_str(), "--json"]);
                let gates = &traced.ran.exits(0).json()["gates"];
                agree(gates, &traced.counts, make.fstype);
            }
        });
    }
}

#[test]
fn full_file_systems_are_told_for_monitoring() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let disk = dir(ground.join("disk"));
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("full", &disk, "tmpfs", flags, c"size=1m").unwrap();
        std::fs::write(disk.join("f"), vec![1; 1 << 19]).unwrap();
        let metrics = ground.join("full.prom");
        let words = |most: &str| {
            args![
                "space",
                &disk,
                "-q",
                "--threshold",
                most,
                "--metrics",
                &metrics
            ]
        };
        run(&mut fathom(words("60"))).exits(0);
        let ran = run(&mut fathom(words("40%"))).exits(1);
        assert!(ran.stderr.contains("more than --threshold 40 %"), "{ran}");
        let result = super::space(&disk);
        let percent = result["percent"].as_u64().unwrap();
        run(&mut fathom(words(&percent.to_string()))).exits(0);
        let ran = run(&mut fathom(words(&(percent - 1).to_string()))).exits(1);
        let expected = format!(
            "{percent} % of the space is used, more than --threshold {} %",
            percent - 1
        );
        assert!(ran.stderr.contains(&expected), "{ran}");
        let text = std::fs::read_to_string(&metrics).unwrap();
        let ratio = format!("}} {}\n", percent as f64 / 100.0);
        assert!(
            text.contains("fathom_space_used_ratio{") && text.contains(&ratio),
            "{text}"
        );
        for line in [
            "fathom_space_inodes{directory=",
            "fathom_space_inodes_used{directory=",
            "fathom_space_exit_status{directory=",
            "fathom_space_used_bytes{directory=",
            "kind=\"files\"",
        ] {
            assert!(text.contains(line), "no {line}: {text}");
        }
        crate::support::build::unmount_whole(&disk);
    });
}

#[test]
fn a_file_system_without_free_inodes_is_full() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let few = Make {
                name: "few inodes",
                mkfs: "-N 64",
                ..EXT4[0]
            };
            let at = base.join("ext4");
            assert!(mounted(few, &at));
            file(&at.join("big"), 4 * MIB);
            let line = |words: [std::ffi::OsString; 2]| {
                let ran = run(&mut fathom(words));
                String::from_utf8_lossy(&ran.stdout).contains("\ninodes: ")
            };
            assert!(!line(args!["space", &at]));
            run(&mut fathom(args!["space", &at, "--threshold", "90"])).exits(0);
            while fs::write(
                at.join(format!("file {}", fs::read_dir(&at).unwrap().count())),
                "",
            )
            .is_ok()
            {}
            let result = super::space(&at);
            super::check(&result, &at, 5);
            let inodes = &result["inodes"];
            assert_eq!(inodes["percent"], 100, "{inodes}");
            assert_eq!(inodes["used"], inodes["total"], "{inodes}");
            assert!(line(args!["space", &at]));
            let ran = run(&mut fathom(args!["space", &at, "-q", "--threshold", "90"])).exits(1);
            let expected = "100 % of the inodes are used, more than --threshold 90 %";
            assert!(ran.stderr.contains(expected), "{ran}");
        });
    }
}

#[test]
fn only_the_threshold_sets_the_status_of_monitoring() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("ext4");
            assert!(mounted(EXT4[0], &at));
            let _holder = grow(&at);
            chmod(at.join("c"), 0o700);
            let percent = super::space(&at)["percent"].as_u64().unwrap();
            for (most, status) in [(percent, 0), (percent - 1, 1)] {
                let most = most.to_string();
                let words = |more: &[&str]| {
                    let words = args!["space", &at, "--threshold", &most];
                    let more = more.iter().map(std::ffi::OsString::from);
                    words.into_iter().chain(more).collect::<Vec<_>>()
                };
                let ran = run(&mut fathom_as_nobody(base, words(&[]))).exits(status);
                assert!(
                    ran.stderr.contains("cannot read the open files of")
                        && String::from_utf8_lossy(&ran.stdout).contains(": ext4 on "),
                    "{ran}"
                );
                let metrics = base.join("metrics");
                let metrics = metrics.to_str().unwrap();
                let root = run(&mut fathom(words(&["-q", "--metrics", metrics]))).exits(status);
                let nobody = run(&mut fathom_as_nobody(base, words(&["-q"]))).exits(status);
                for ran in [root, nobody] {
                    assert!(ran.stdout.is_empty(), "{ran}");
                    let lines = ran.stderr.lines().count();
                    assert_eq!(lines, usize::try_from(status).unwrap(), "{ran}");
                }
            }
        });
    }
}

#[test]
fn every_mount_point_can_be_compared_with_the_threshold() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            tmpfs(tree.join("tmpfs"));
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("proc", dir(tree.join("proc")), "proc", flags, None).unwrap();
            let on_file = file(&tree.join("file"), 1);
            crate::support::build::bind(file(&base.join("other"), 1), &on_file);
            let ran = run(&mut fathom(args!["mounts", &tree, "--format", "paths0"])).exits(0);
            let points = ran.stdout.split(|byte| *byte == 0);
            let points: Vec<_> = points.filter(|point| !point.is_empty()).collect();
            assert_eq!(points.len(), 3, "{ran}");
            for point in points {
                let point = crate::support::build::name(point);
                let most = args!["space", "--threshold", "100", "-q", &point];
                let ran = run(&mut fathom(most)).exits(0);
                assert!(ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran}");
            }
            let missing = args!["space", "--threshold", "90", "-q", tree.join("missing")];
            run(&mut fathom(missing)).refused();
        });
    }
}

/// The nightly command of docs/space.md: a bind mount and an overlay have no space of their own.
#[test]
fn each_full_file_system_is_warned_about_once() {
    if require(&[Need::Root, Need::Program("jq")]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            let full = dir(tree.join("full"));
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("full", &full, "tmpfs", flags, c"size=1m").unwrap();
            fs::write(full.join("f"), vec![1; 1_000_000]).unwrap();
            overlay(&full, &tree.join("merged"));
            bind(&full, tree.join("again"));
            let page = include_str!("../../docs/space.md");
            let begin = page.find("fathom mounts / --json").unwrap();
            let script = page[begin..].split("\n```").next().unwrap();
            let script = script.replace("mounts /", "mounts \"$1\"");
            let script = script.replace("fathom ", "\"$0\" ");
            let mut sh = Command::new("sh");
            let ran = run(sh.args(["-c", &script]).arg(fathom_path()).arg(&tree)).exits(123);
            let warnings = ran
                .stderr
                .lines()
                .filter(|line| line.contains("--threshold 90"));
            assert_eq!(warnings.count(), 1, "{ran}");
        });
    }
}

#[test]
fn scarce_inodes_are_counted_by_directory_and_process() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = dir(base.join("tmpfs"));
            let flags = rustix::mount::MountFlags::empty();
            rustix::mount::mount("few", &at, "tmpfs", flags, c"size=4m,nr_inodes=200").unwrap();
            let many = dir(at.join("many"));
            (0..80).for_each(|nth| fs::write(many.join(nth.to_string()), "").unwrap());
            // This process holds the deleted files open.
            let deleted: Vec<fs::File> = (0..101)
                .map(|nth| {
                    let path = at.join(format!("deleted {nth}"));
                    let file = fs::File::create(&path).unwrap();
                    fs::remove_file(path).unwrap();
                    file
                })
                .collect();
            let result = super::space(&at);
            super::check(&result, &at, 0);
            let places = result["inodes"]["places"].as_array().unwrap();
            let found: Vec<_> = places
                .iter()
                .map(|it| (it["kind"].as_str().unwrap(), it["inodes"].as_u64().unwrap()))
                .collect();
            assert_eq!(
                found,
                [("deleted", 101), ("files", 81), ("files", 1)],
                "{result:#}"
            );
            assert_eq!(places[0]["pid"], std::process::id());
            assert_eq!(places[1]["path"], many.to_str().unwrap());
            let ran = run(&mut fathom(args!["space", &at])).exits(0);
            let text = String::from_utf8_lossy(&ran.stdout);
            let line = text.lines().find(|line| line.contains(" 101 files "));
            let pid = format!("(PID {})", std::process::id());
            assert!(line.is_some_and(|line| line.contains(&pid)), "{text}");
            drop(deleted);
            let ran = run(&mut fathom(args!["space", &at])).exits(0);
            let text = String::from_utf8_lossy(&ran.stdout);
            assert!(!text.contains("INODES"), "{text}");
            let ran = run(&mut fathom(args!["space", &at, "--threshold", "30"])).exits(1);
            let text = String::from_utf8_lossy(&ran.stdout);
            assert!(text.contains("INODES"), "{text}");
        });
    }
}
