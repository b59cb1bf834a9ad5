//! fathom measures what file-system work costs, and does it the cheapest correct way.
//!
//! Each command has a folder `cmd/<command>/`. `args.rs` defines the flags. `run.rs` turns the
//! flags into the options of a library crate, and calls the crate. `show.rs` or `show/` formats the
//! library's result as text and JSON, without a system call. For example:
//!
//! | | flags | work | output |
//! |---|---|---|---|
//! | `walk --engine` | `cmd/walk/args.rs` | `cmd/walk/run.rs`, `walk/src/traversal.rs`, `walk/src/engine/` | `cmd/walk/show.rs`; entries: `cmd/walk/lines.rs` |
//! | `dump --since` | `cmd/dump/args.rs` | `cmd/dump/run.rs`, `archive/src/dump/mod.rs` (`chain.rs` opens the catalog), `increment/`; `catalog/src/since/` | `cmd/dump/show/mod.rs` |
//! | `account COMMAND` | `cmd/account/args.rs` | `cmd/account/command.rs`, `account/src/command.rs`, `meter` | `cmd/account/show/mod.rs`; JSON: `show/json.rs` |
//!
//! [`main`] parses the command line ([`args`]), calls `cmd::<command>::run`, and exits through
//! [`out::Out::end`]. The work is in the library crates:
//!
//! | command | library |
//! |---|---|
//! | [`cmd::mounts`] | `mounts`: `table.rs`, and a search of the tree per file in `method/` |
//! | [`cmd::walk`] | `walk`: `plan.rs` chooses one of the engines in `engine/`; `filter.rs`: excluded names |
//! | [`cmd::query`], [`cmd::changed`] | `catalog`: modules of the same names; `walk`: `group.rs`, and the output of entries (`cmd/walk/output.rs`) |
//! | [`cmd::dump`], [`cmd::restore`], [`cmd::list`], [`cmd::verify`] | `archive`: modules of the same names; `increment/`: also the state directory; `compression.rs` chooses, `dump/output.rs` compresses |
//! | [`cmd::account`] | `meter` counts the calls of a command, `account` judges them; `memo.rs`: the model of 1974 |
//! | [`cmd::compare`] | `account`: the figures of two files in `figures.rs`, ratios of runs in `compare/` |
//! | [`cmd::pathsearch`] | `meter`, `pathsearch` |
//! | [`cmd::pathwalk`] | `pathwalk`: `create.rs`, `search.rs`, `remove.rs`; the tree's numbers in `shape.rs` |
//! | [`cmd::probe`] | `probe`: an experiment per file |
//! | [`cmd::space`] | `space`: the space by item, a file per file system |
//! | [`cmd::survey`] | all of the above; `survey`: `steps/` (measurements), `conclude/` (findings and advice) |
//! | [`cmd::completions`], [`cmd::man`] | generated from the flags in [`args`] |
//!
//! What the commands share:
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the command line as a whole, global flags, flags with the same meaning and help in several commands (`args/output.rs`: formats and groups), help |
//! | [`cmd::selection`], [`cmd::groups`] | flags that exclude entries; groups of entries, for `walk`, `query` and `changed` |
//! | [`date`] | dates, and their time zone |
//! | [`error`] | errors of commands, converted from each library's errors |
//! | [`facts`], [`monitor`] | metrics of a run, for monitoring |
//! | [`hint`] | remedies for warnings and errors |
//! | [`input`] | input files |
//! | [`json`] | JSON of the libraries' types |
//! | [`out`] | stdout, stderr, warnings, the profile, the exit status |
//! | [`progress`] | the progress line |
//! | [`ranks`], [`rank_warning`] | the ranks of an MPI job |
//! | [`stats`] | statistics, in the form of the papers' tables |
//! | [`cmd::levels`] | prints the dumps of a state directory |
//! | [`cmd::metered`] | shared by `account` and `pathsearch`, which run another program |
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// mimalloc replaces musl's allocator, which returns memory to the kernel after each directory, and
/// so makes walks and dumps 14 to 40 % slower.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod args;
mod cmd;
mod date;
mod error;
mod facts;
mod hint;
mod input;
mod json;
mod monitor;
mod out;
mod progress;
mod rank_warning;
mod ranks;
mod stats;

fn main() -> ExitCode {
    gate::process::restore_sigpipe();
    gate::process::reset_sigchld();
    gate::process::ignore_sigxfsz();
    gate::heap::keep_freed_memory();
    let cli = match args::Cli::from_command_line() {
        Ok(cli) => cli,
        Err(e) => return out::usage(&e),
    };
    // From here on, `Child::fork` fails if the process has several threads. Ranks of an MPI job are
    // excluded, because MPI libraries start threads.
    if team::launched_rank().is_none() {
        gate::process::expect_one_thread();
    }
    let out = out::Out::new(&cli.global);
    gate::meter::set_profiling(cli.global.profile);
    #[cfg(feature = "cloud")]
    catalog::remote::set_client(Box::new(remote::Client::new(
        cli.global.endpoint_url.clone(),
        team::launched_rank().is_none(),
        out::tell_of_store,
    )));
    use args::Command;
    match &cli.command {
        Command::Probe(_) | Command::Survey(_) => ranks::note_no_sharing(true, &out),
        Command::Changed(_)
        | Command::Compare(_)
        | Command::List(_)
        | Command::Mounts(_)
        | Command::Query(_)
        | Command::Space(_)
        | Command::Verify(_) => ranks::note_no_sharing(false, &out),
        // Ranks meter their own commands, and share the work of all others.
        _ => {}
    }
    let monitor = monitor::Monitor::begin(&cli.command);
    let done = match &cli.command {
        args::Command::Mounts(args) => cmd::mounts::run(args, &out),
        args::Command::Walk(args) => cmd::walk::run(args, &out),
        args::Command::Query(args) => cmd::query::run(args, &out),
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
        args::Command::Space(args) => cmd::space::run(args, &out),
        args::Command::Survey(args) => cmd::survey::run(args, &out),
        args::Command::SurveyWalk(args) => cmd::survey::walk_call_by_call(args),
        args::Command::Completions(args) => cmd::completions::run(args, &out),
        args::Command::Man(args) => cmd::man::run(args),
    };
    let done = match monitor {
        Some(monitor) => monitor.finish(done, &out),
        None => done,
    };
    out.end(done)
}
