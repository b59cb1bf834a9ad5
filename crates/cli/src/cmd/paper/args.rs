//! The arguments of `fathom completions` and `fathom man`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// The directory to write them into, which is made if need be
    pub(crate) dir: OsString,
}

pub(crate) fn completions_help() -> String {
    let examples = [
        (
            "fathom completions bash >/usr/share/bash-completion/completions/fathom",
            "for everybody",
        ),
        (
            "fathom completions zsh >~/.zfunc/_fathom",
            "for one user of zsh",
        ),
        (
            "fathom completions fish >~/.config/fish/completions/fathom.fish",
            "for one user of fish",
        ),
    ];
    ending(&examples, "", EXIT)
}

pub(crate) fn man_help() -> String {
    ending(
        &[(
            "fathom man /usr/local/share/man/man1",
            "for everybody: man fathom-walk",
        )],
        "",
        EXIT,
    )
}
