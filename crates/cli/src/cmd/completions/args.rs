//! The flags of `fathom completions`.

use clap::Args;
use clap_complete::Shell;

use crate::args::help::{EXIT, ending, first};

const EXAMPLES: &str = "\
fathom completions bash >/usr/share/bash-completion/completions/fathom  # for all users
fathom completions zsh >~/.zfunc/_fathom  # zsh, for one user
fathom completions fish >~/.config/fish/completions/fathom.fish  # fish, for one user";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Completions {
    /// The shell to complete for
    pub(super) shell: Shell,
}
