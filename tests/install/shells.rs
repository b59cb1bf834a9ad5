//! Tests of the completions that each shell offers for a command line whose last word is
//! incomplete.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::*;
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

/// Writes the completions of a shell into a file below a new home directory.
fn written(shell: &str, name: &str) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(name);
    fs::write(
        &path,
        run(&mut fathom(["completions", shell])).exits(0).stdout,
    )
    .unwrap();
    (home, path)
}

/// The words offered, one per line; a directory with or without a trailing slash.
fn offered(shell: &mut Command, home: &Path) -> BTreeSet<String> {
    let shown = tool(
        shell
            .env("HOME", home)
            .env("TERM", "xterm")
            .current_dir(home),
    );
    String::from_utf8(shown)
        .unwrap()
        .lines()
        .map(|word| word.trim_end_matches('/').to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

fn set<const N: usize>(words: [&str; N]) -> BTreeSet<String> {
    words.map(str::to_owned).into()
}

const ENGINES: [&str; 6] = ["auto", "threads", "bulkstat", "btrfs", "ext4", "stat"];

/// Checks that apply to every shell. `offer` returns the completions of a line.
fn offers_what_is_right(offer: impl Fn(&str) -> BTreeSet<String>) {
    assert_eq!(offer("fathom wa"), set(["walk"]));
    assert_eq!(offer("fathom walk --eng"), set(["--engine"]));
    assert_eq!(offer("fathom walk --engine "), set(ENGINES));
    assert_eq!(offer("fathom walk --engine b"), set(["bulkstat", "btrfs"]));
    assert_eq!(
        offer("fathom mounts --by get"),
        set(["getmnt1", "getmnt2", "getmnt3"])
    );
    assert_eq!(offer("fathom probe --method pa"), set(["paper"]));
    // Values after `=`, and values of positional arguments.
    let behind = |line: &str| -> BTreeSet<String> {
        offer(line)
            .iter()
            .map(|word| word.rsplit('=').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(behind("fathom walk --engine="), set(ENGINES));
    assert_eq!(behind("fathom walk --engine=b"), set(["bulkstat", "btrfs"]));
    assert_eq!(offer("fathom completions fi"), set(["fish"]));
    assert_eq!(offer("fathom probe somewhere rea"), set(["readahead"]));
    let commands = offer("fathom ");
    for command in COMMANDS {
        assert!(commands.contains(command), "no {command}: {commands:?}");
    }
    assert!(!commands.contains("survey-walk"), "{commands:?}");
    // An argument that is a number gets no file names; an argument that is a directory does.
    assert!(offer("fathom walk --jobs fat").is_empty());
    assert_eq!(
        offer("fathom restore --directory somewh"),
        set(["somewhere"])
    );
}

#[test]
fn bash() {
    const ASK: &str = r#"
        set -u
        source "$1"
        compopt() { for word; do [ "$word" = plusdirs ] && dirs=1; done; }
        how=$(complete -p fathom)
        function=${how#*-F }; function=${function%% *}
        read -ra COMP_WORDS <<<"${2//=/ = }" # as readline takes it apart
        case $2 in *' ') COMP_WORDS+=('') ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        dirs= COMPREPLY=()
        "$function" fathom "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        for word in "${COMPREPLY[@]}"; do [ "$word" = "${COMP_WORDS[COMP_CWORD]}" ] || printf '%s\n' "$word"; done
        if [ "$dirs" ]; then compgen -d -S / -- "${COMP_WORDS[COMP_CWORD]}" || :; fi
    "#;
    if require(&[Need::Program("bash")]) {
        let (home, script) = written("bash", "fathom");
        fs::create_dir(home.path().join("somewhere")).unwrap();
        offers_what_is_right(|line| {
            let mut bash = Command::new("bash");
            offered(
                bash.args(["--norc", "--noprofile", "-c", ASK, "bash"])
                    .arg(&script)
                    .arg(line),
                home.path(),
            )
        });
    }
}

/// A script for an interactive zsh, because completions run only in its line editor. They pass
/// their words to `compadd`.
const ASK_ZSH: &str = r#"
    zmodload zsh/zpty
    export OFFERED=$PWD/offered
    : >$OFFERED
    zpty typed zsh -f -i
    zpty -w typed "PS1= PS2=; unsetopt prompt_cr; fpath=(${(q)1:h} \$fpath); autoload -Uz compinit; compinit -u -D"
    zpty -w typed 'compadd() {
        local -a found
        if [[ " $* " != *" -"[ADO]" "* ]]; then
            builtin compadd -O found "$@"
            print -rl -- $found >>$OFFERED
        fi
        builtin compadd "$@"
    }'
    zpty -w typed 'tell() { BUFFER="print to""ld"; zle accept-line }; zle -N tell; bindkey "^X" tell'
    zpty -w -n typed "$2"$'\t\x18'
    zpty -r typed got $'*told\r\n*'
    zpty -d typed
    cat $OFFERED
"#;

#[test]
fn zsh() {
    if require(&[Need::Program("zsh"), Need::Program("timeout")]) {
        let (home, script) = written("zsh", "_fathom");
        fs::create_dir(home.path().join("somewhere")).unwrap();
        let ask = home.path().join("ask");
        fs::write(&ask, ASK_ZSH).unwrap();
        offers_what_is_right(|line| {
            let mut zsh = Command::new("timeout");
            offered(
                zsh.args(["60", "zsh", "-f"])
                    .arg(&ask)
                    .arg(&script)
                    .arg(line),
                home.path(),
            )
        });
    }
}

#[test]
fn fish() {
    if require(&[Need::Program("fish")]) {
        let (home, script) = written("fish", "fathom.fish");
        fs::create_dir(home.path().join("somewhere")).unwrap();
        offers_what_is_right(|line| {
            let mut fish = Command::new("fish");
            let ask = r#"source $argv[1]; complete --do-complete $argv[2] | string replace --regex '\t.*' ''; true"#;
            offered(
                fish.args(["--no-config", "--command", ask])
                    .arg(&script)
                    .arg(line),
                home.path(),
            )
        });
    }
}
