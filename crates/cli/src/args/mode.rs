//! `--mode`: the permissions of files that only their owner should read, because they contain the
//! names or the data of other files.

use clap::Args;

/// The permissions of archives, catalogs and the like.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ModeArgs {
    /// Write files with these permissions [default: 600]
    ///
    /// MODE is octal, and the umask does not apply. Archives, catalogs, lists and records contain
    /// names and contents of files that others may not read. Without this option, a file that is
    /// replaced keeps its permissions.
    #[arg(long, value_name = "MODE", help_heading = "Output", value_parser = permissions)]
    mode: Option<u32>,
}

impl ModeArgs {
    /// Sets the mode of private files (archives, catalogs and so on) that are written from now on.
    pub(crate) fn apply(self) {
        if let Some(mode) = self.mode {
            gate::file::set_private_mode(mode);
        }
    }
}

fn permissions(text: &str) -> Result<u32, &'static str> {
    let mode = u32::from_str_radix(text, 8).ok();
    // Other users must not be able to write to these files, because fathom refuses to trust such
    // files: see docs/root.md.
    let mode = mode.filter(|mode| mode & !0o755 == 0 && mode & 0o400 != 0);
    mode.ok_or("give octal permissions by which only the owner writes, such as 640")
}
