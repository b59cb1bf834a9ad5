//! fathom: what file-system work costs, and how to do it for less.
//!
//! The way of a command: [`args`] defines what can be said; `main` hands it to the command's room
//! under [`cmd`]; that asks an engine (crates `mounts` and `walk`), which passes the gates (crate
//! `gate`); what comes back goes through [`out`], where `--json`, `--profile`, warnings and the
//! exit status are the same for all.
//!
//! | room | what is in it |
//! |---|---|
//! | [`args`] | every flag of every command, defined once |
//! | [`cmd::mounts`] | `fathom mounts` |
//! | [`cmd::watch`] | `fathom mounts --watch` |
//! | [`cmd::walk`] | `fathom walk` |
//! | [`cmd::changed`] | `fathom changed` |
//! | [`cmd::account`] | `fathom account` |
//! | [`cmd::compare`] | `fathom compare` |
//! | [`cmd::restore`] | `fathom restore` |
//! | [`cmd::dump`] | `fathom dump` |
//! | [`cmd::list`] | `fathom list` |
//! | [`cmd::verify`] | `fathom verify` |
//! | [`cmd::probe`] | `fathom probe` |
//! | [`cmd::pathsearch`] | `fathom pathsearch` |
//! | [`cmd::pathwalk`] | `fathom pathwalk` |
//! | [`cmd::survey`] | `fathom survey` |
//! | [`cmd::metered`] | what the commands that run another have in common |
//! | [`cmd::paper`] | `fathom completions`, `fathom man` |
//! | [`hint`] | what to do about a warning |
//! | [`input`] | files that are read whole |
//! | [`out`] | output: data, talk, warnings, profile, exit status |
//! | [`progress`] | what is shown while something takes long |
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod args;
mod cmd;
mod error;
mod hint;
mod input;
mod json;
mod out;
mod progress;

fn main() -> ExitCode {
    gate::process::restore_sigpipe();
    gate::process::heed_children();
    gate::process::outlive_file_limit();
    gate::heap::keep_freed_memory();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return out::usage(&e),
    };
    let out = out::Out::new(&cli.global);
    gate::meter::set_profiling(cli.global.profile);
    let done = match &cli.command {
        args::Command::Mounts(args) => cmd::mounts::run(args, &out),
        args::Command::Walk(args) => cmd::walk::run(args, &out),
        args::Command::Changed(args) => cmd::changed::run(args, &out),
        args::Command::Account(args) => cmd::account::run(args, &out),
        args::Command::Compare(args) => cmd::compare::run(args, &out),
        args::Command::Restore(args) => cmd::restore::run(args, &out),
        args::Command::Dump(args) => cmd::dump::run(args, &out),
        args::Command::List(args) => cmd::list::run(args, &out),
        args::Command::Verify(args) => cmd::verify::run(args, &out),
        args::Command::Probe(args) => cmd::probe::run(args, &out),
        args::Command::Pathsearch(args) => cmd::pathsearch::run(args, &out),
        args::Command::Pathwalk(args) => cmd::pathwalk::run(args, &out),
        args::Command::Survey(args) => cmd::survey::run(args, &out),
        args::Command::Tread(args) => cmd::survey::run::tread(args),
        args::Command::Completions(args) => cmd::paper::completions(args, &out),
        args::Command::Man(args) => cmd::paper::man(args),
    };
    out.end(done)
}
