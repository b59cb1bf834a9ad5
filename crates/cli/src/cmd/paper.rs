//! `fathom completions` and `fathom man`: what is made from the definitions in [`crate::args`].

use std::os::unix::ffi::OsStrExt;

use clap::{Command, CommandFactory};

use crate::args::{Cli, Completions, Man};
use crate::out::{Done, Failed, Out};

pub(crate) fn completions(args: &Completions, out: &Out) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "fathom", &mut text);
    out.data(&text)?;
    Ok(0)
}

/// The commands that are meant for people: clap_complete would offer the hidden one, too.
fn shown() -> Command {
    let all = Cli::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("fathom")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(commands)
}

// Documentation is written, not file-system work done: clap_mangen does it through the standard library.
#[allow(clippy::disallowed_methods)]
pub(crate) fn man(args: &Man) -> Done {
    let failed = |e| {
        Failed::at(
            "cannot write the man pages into",
            args.dir.as_os_str().as_bytes(),
            e,
            "give a directory that can be written",
        )
    };
    // clap_mangen wants a directory that is there, and packagers name one that is not: as `install -d` does it, with all above it.
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), &args.dir).map_err(failed)?;
    Ok(0)
}
