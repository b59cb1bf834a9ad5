//! The flags of `fathom completions`.

use clap::Args;
use clap_complete::Shell;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "\
fathom completions bash >/usr/share/bash-completion/completions/fathom  # for everybody
fathom completions zsh >~/.zfunc/_fathom  # for one user of zsh
fathom completions fish >~/.config/fish/completions/fathom.fish  # for one user of fish";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Completions {
    /// The shell
    pub(super) shell: Shell,
}
