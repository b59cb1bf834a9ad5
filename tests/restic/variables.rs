//! Tests of restic's environment variables.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::restic::{NEEDS, check, dump_command, init, restic, restic_command, said};
use crate::support::build::{dir, file};
use crate::support::run::{Ran, args, calls};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{in_namespace, require, run};

/// Makes a snapshot with environment variables; `RESTIC_PASSWORD` has its usual value unless it is
/// one of them.
fn with(at: &Path, words: &[&str], variables: &[(&str, &str)]) -> Ran {
    let words = args!["tree"]
        .into_iter()
        .chain(words.iter().map(OsString::from));
    let mut command = dump_command(at, words);
    run(command.envs(variables.iter().copied()))
}

#[test]
fn passwords_come_from_commands() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        fs::write(ground.join("right"), "a password").unwrap();
        const COMMAND: &str = "--password-command";
        const VARIABLE: &str = "RESTIC_PASSWORD_COMMAND";
        let wrong = ("RESTIC_PASSWORD", "wrong");
        let prints = r#"sh -c "echo 'a password'; echo asked >&2""#;
        for (words, variable) in [(&[COMMAND, prints][..], "false"), (&[], prints)] {
            let said = with(ground, words, &[(VARIABLE, variable), wrong]).exits(0);
            assert!(said.stderr.starts_with("asked\n"), "{said}");
        }
        // The command is split and run like in restic.
        for command in [
            prints,
            "cat right",
            "  cat\t'right'\n",
            r#""cat" "right""#,
            r"cat\ right",
        ] {
            with(ground, &[], &[(VARIABLE, command), wrong]).exits(0);
            let mut theirs = restic_command(ground, args!["snapshots"]);
            run(theirs.env(VARIABLE, command).env_remove("RESTIC_PASSWORD")).exits(0);
        }
        // An option overrides only the variable with the same meaning.
        let file = ("RESTIC_PASSWORD_FILE", "right");
        let refused = |words: &[&str], variables: &[(&str, &str)], why: &str| {
            let ran = with(ground, words, variables).refused();
            assert!(
                ran.stderr.contains(why) && ran.stderr.contains("\nhint: "),
                "{ran}"
            );
        };
        let both = "from a file and from a command";
        refused(&[COMMAND, "cat right"], &[file], both);
        refused(
            &["--password-file", "right"],
            &[(VARIABLE, "cat right")],
            both,
        );
        refused(&[], &[file, (VARIABLE, "cat right")], both);
        refused(
            &[COMMAND, "no-such-program secret"],
            &[],
            "cannot run 'no-such-program', which prints the password: No such file",
        );
        refused(
            &[COMMAND, "sh -c 'exit 3'"],
            &[],
            "'sh', which prints the password, failed: exit status: 3",
        );
        refused(
            &[COMMAND, "sh -c 'kill -9 $$'"],
            &[],
            "'sh', which prints the password, failed: signal: 9",
        );
        // The standard input of the command is empty.
        refused(&[COMMAND, "cat"], &[], "'cat' printed no password");
        refused(&[COMMAND, "echo 'a"], &[], "open quotation mark");
        refused(&[COMMAND, " "], &[], "the password command is empty");
        refused(&[COMMAND, "echo other"], &[], "wrong password");
        refused(&[COMMAND, r"printf \377"], &[], "wrong password");
        refused(&[COMMAND, r"printf '\377'"], &[], "wrong password");
        let ran = with(
            ground,
            &[COMMAND, "cat right", "--password-file", "right"],
            &[],
        )
        .exits(2);
        assert!(ran.stderr.contains("cannot be used with"), "{ran}");
    });
}

/// The last snapshot, as restic lists it.
fn last(at: &Path) -> Value {
    let listed = said(at, args!["snapshots", "--json"]);
    let mut listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    listed.pop().unwrap()
}

#[test]
fn packs_are_compressed_and_cut_as_variables_say() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        let tree = dir(ground.join("tree"));
        fs::write(tree.join("text"), "a line of text\n".repeat(10_000)).unwrap();
        for nth in 0..12 {
            fs::write(
                tree.join(format!("random {nth}")),
                Dice::new(nth).bytes(2 << 20),
            )
            .unwrap();
        }
        let stored = |variables: &[(&str, &str)]| {
            let _ = fs::remove_dir_all(ground.join("repo"));
            init(ground);
            let json = with(ground, &["--json"], variables).exits(0).json();
            check(ground);
            let mut find = Command::new("find");
            let packs = tool(find.arg(ground.join("repo/data")).args(["-type", "f"]));
            let packs = packs.iter().filter(|&&byte| byte == b'\n').count();
            let text = 150_000;
            let data = json["result"]["bytes_stored"].as_u64().unwrap();
            (data < (12 * (2 << 20) + text), packs)
        };
        let both = |mode, size| [("RESTIC_COMPRESSION", mode), ("RESTIC_PACK_SIZE", size)];
        // One pack has the data, and one the trees.
        assert_eq!(stored(&[]), (true, 2));
        assert_eq!(stored(&both("auto", "")), (true, 2));
        // The maximum size of a blob is a property of the repository.
        let (is_compressed, packs) = stored(&both("max", "4"));
        assert!(is_compressed && (5..=8).contains(&packs), "{packs}");
        let (is_compressed, packs) = stored(&both("off", "8"));
        assert!(!is_compressed && (3..=5).contains(&packs), "{packs}");
        for (name, value) in [
            ("RESTIC_COMPRESSION", "fast"),
            ("RESTIC_PACK_SIZE", "3"),
            ("RESTIC_PACK_SIZE", "4 MiB"),
        ] {
            let ran = with(ground, &[], &[(name, value)]).refused();
            assert!(
                ran.stderr.contains(&format!("'{value}' in {name} is no")),
                "{ran}"
            );
        }
    });
}

#[test]
fn hosts_and_keys_are_those_of_variables() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        dir(ground.join("state"));
        let state = ["--state", "state", "--json"];
        let other = [("RESTIC_HOST", "other")];
        let first = with(ground, &state, &other).exits(0).json();
        assert_eq!(last(ground)["hostname"], "other");
        // Each host has its own parents and its own catalog.
        let here = with(ground, &state, &[]).exits(0).json();
        assert_eq!(here["result"]["parent"], Value::Null);
        assert_ne!(last(ground)["hostname"], "other");
        let second = with(ground, &state, &other).exits(0).json();
        assert_eq!(second["result"]["parent"], first["result"]["snapshot"]);
        assert_eq!(fs::read_dir(ground.join("state")).unwrap().count(), 2);
        let mut theirs = restic_command(ground, args!["backup", "tree", "--host", "other"]);
        let theirs = run(&mut theirs).exits(0);
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        assert!(theirs.contains("using parent snapshot"), "{theirs}");

        // The hint makes fathom try the right key first, or last.
        let key = || {
            fs::read_dir(ground.join("repo/keys"))
                .unwrap()
                .map(|it| it.unwrap().file_name().into_string().unwrap())
        };
        let own = key().next().unwrap();
        fs::write(ground.join("second"), "another").unwrap();
        restic(ground, args!["key", "add", "--new-password-file", "second"]).exits(0);
        let added = key().find(|name| *name != own).unwrap();
        let opened = |hint: &str| {
            // A dry run, because the next run would read a new snapshot.
            let words = ["--json", "--dry-run"];
            let ran = with(ground, &words, &[("RESTIC_KEY_HINT", hint)]).exits(0);
            calls(&ran.json()["gates"])["openat"]
        };
        assert_eq!(opened(&own[..8]) + 1, opened(&added));
        assert!(opened("none") >= opened(&own));
    });
}
