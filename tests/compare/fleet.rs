//! Runs the shell commands of docs/fleet.md, with simulated machines.

use std::process::{Command, Stdio};

use super::*;
use crate::support::build::chmod;
use crate::support::{Need, require};

const PAGE: &str = include_str!("../../docs/fleet.md");

/// The contents of the page's blocks of this kind.
fn blocks(kind: &str) -> Vec<&'static str> {
    let begin = format!("```{kind}\n");
    PAGE.split(&begin[..])
        .skip(1)
        .map(|rest| rest.split("```\n").next().unwrap())
        .collect()
}

/// A working directory with stand-ins for `ssh`, `srun` and the like first in PATH, and with the
/// files of each machine.
struct Fleet(tempfile::TempDir);

impl Fleet {
    fn new() -> Fleet {
        let fleet = Fleet(tempfile::tempdir().unwrap());
        let tree = fleet.path("srv");
        for name in ["a/b", "c"] {
            std::fs::create_dir_all(tree.join(name)).unwrap();
            std::fs::write(tree.join(name).join("file"), "x").unwrap();
        }
        let program = env!("CARGO_BIN_EXE_fathom");
        let tree = tree.display();
        std::fs::create_dir(fleet.path("bin")).unwrap();
        // /srv stands for the tree of the test.
        fleet.script(
            "fathom",
            &format!("exec '{program}' \"${{@/#\\/srv/{tree}}}\""),
        );
        fleet.script(
            "find",
            &format!("exec /usr/bin/find \"${{@/#\\/srv/{tree}}}\""),
        );
        // The machine `down` does not answer. Like ssh, the stand-in passes the command to a shell
        // as one line.
        fleet.script(
            "ssh",
            "while [ $# -gt 0 ]; do case $1 in -n) shift ;; -o) shift 2 ;; *) break ;; esac; done\n\
             host=$1; shift; [ \"$host\" = down ] && exit 255\nexec env HOST=\"$host\" sh -c \"$*\"",
        );
        fleet.script("hostname", "echo \"$HOST\"");
        fleet.script(
            "srun",
            "while [ $# -gt 0 ]; do case $1 in --output=*) out=${1#*=} ;; --error=*) err=${1#*=} ;; --*) ;; *) break ;; esac; shift; done\n\
             for node in node1 node2; do \"$@\" > \"${out/\\%N/$node}\" 2> \"${err/\\%N/$node}\"; done",
        );
        std::fs::write(fleet.path("hosts.txt"), "web1\ndown\nweb2\n").unwrap();
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn script(&self, name: &str, lines: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{lines}\n")).unwrap();
        chmod(path, 0o755);
    }

    fn run(&self, command: &mut Command) -> Ran {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.path("bin").display());
        run(command
            .current_dir(self.0.path())
            .env("PATH", path)
            .stdin(Stdio::null()))
    }

    fn shell(&self, lines: &str) -> Ran {
        self.run(Command::new("bash").args(["-uc", lines]))
    }

    fn systems(&self) -> Vec<String> {
        let files: Vec<PathBuf> = std::fs::read_dir(self.path("hosts"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        let files: Vec<&Path> = files
            .iter()
            .map(PathBuf::as_path)
            .filter(|file| file.extension().is_some_and(|e| e == "json"))
            .collect();
        let value = compare_json(&files);
        let systems = value["result"]["comparisons"][0]["systems"]
            .as_array()
            .unwrap();
        let mut systems: Vec<String> = systems
            .iter()
            .map(|system| system["system"].as_str().unwrap().to_owned())
            .collect();
        systems.sort();
        systems
    }
}

#[test]
fn ssh_loop_gives_a_table() {
    let fleet = Fleet::new();
    let blocks = blocks("sh");
    let ran = fleet.shell(
        blocks
            .iter()
            .find(|block| block.contains("cat > collect"))
            .unwrap(),
    );
    assert!(ran.stderr.contains("down: no result"), "{ran}");
    assert_eq!(fleet.systems(), ["web1", "web2"]);
    let ran = fleet.shell(
        blocks
            .iter()
            .find(|block| block.contains("--html fleet.html"))
            .unwrap(),
    );
    assert!(
        ran.code() < 2 && String::from_utf8_lossy(&ran.stdout).contains("threads/stat, 2 systems"),
        "{ran}"
    );
    assert!(
        std::fs::read_to_string(fleet.path("fleet.html"))
            .unwrap()
            .contains("</html>")
    );
    if require(&[Need::Program("jq")]) {
        assert!(
            std::fs::read_to_string(fleet.path("ratios.csv"))
                .unwrap()
                .starts_with("\"threads\",\"stat\",2,")
        );
    }
}

#[test]
fn srun_gives_a_file_for_each_node() {
    let fleet = Fleet::new();
    fleet
        .shell(
            blocks("sh")
                .iter()
                .find(|block| block.contains("srun"))
                .unwrap(),
        )
        .exits(0);
    assert_eq!(fleet.systems(), ["node1", "node2"]);
}

#[test]
fn any_two_programs() {
    let fleet = Fleet::new();
    std::fs::write(fleet.path("hosts.txt"), "web1\nweb2\n").unwrap();
    let ran = fleet.shell(
        blocks("sh")
            .iter()
            .find(|block| block.contains("cat > times"))
            .unwrap(),
    );
    // The times of short runs can be 0.
    assert!(ran.code() < 2, "{ran}");
    assert!(
        String::from_utf8_lossy(&ran.stdout).starts_with("find/fathom, 2 systems\n"),
        "{ran}"
    );
}

#[test]
fn ansible_playbook_gives_a_table() {
    if !require(&[Need::Program("ansible-playbook")]) {
        return;
    }
    let fleet = Fleet::new();
    std::fs::write(fleet.path("fleet.yml"), blocks("yaml")[0]).unwrap();
    std::fs::write(
        fleet.path("inventory"),
        "web1 ansible_connection=local\nweb2 ansible_connection=local\n",
    )
    .unwrap();
    std::fs::create_dir(fleet.path("hosts")).unwrap();
    let mut command = Command::new("ansible-playbook");
    fleet
        .run(
            command
                .args(["-i", "inventory", "fleet.yml"])
                .env("HOME", fleet.path(".")),
        )
        .exits(0);
    assert_eq!(fleet.systems(), ["web1", "web2"]);
}

#[test]
fn every_block_of_shell_is_run() {
    let known = ["cat > collect", "srun", "cat > times", "--html fleet.html"];
    for block in blocks("sh") {
        assert_eq!(
            known.iter().filter(|known| block.contains(*known)).count(),
            1,
            "{block}"
        );
    }
}
