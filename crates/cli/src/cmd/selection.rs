//! The flags that select the entries of a walk or dump.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use archive::gather::{ListedSource, SortedNames};
use archive::names::{read_names, read_patterns};
use base::path::{absolute, below, components, trim_slashes};
use catalog::Options;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use show::shell::quoted;

use crate::args::values::bytes;
use crate::error::Error;
use crate::out::Out;

/// The flags that exclude files by their names and paths.
#[derive(Args, Debug)]
pub(crate) struct Globs {
    /// Skip entries whose name matches GLOB
    ///
    /// A GLOB with a slash matches the end of a path, or the whole path if it begins with a slash.
    /// A directory that matches is skipped with everything below it. A status message names a GLOB
    /// that matches nothing, by its beginning. The option can be repeated.
    #[arg(long, value_name = "GLOB", help_heading = "Selection")]
    #[arg(allow_hyphen_values = true)]
    pub(crate) exclude: Vec<OsString>,
    /// Skip entries that match a GLOB in FILE, one per line (- for stdin)
    ///
    /// Empty lines are ignored; there are no comments.
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub(crate) exclude_from: Vec<OsString>,
}

impl Globs {
    /// The globs for a walk of `dirs`, including those in files.
    ///
    /// # Errors
    /// A file cannot be read, or a glob is the absolute path of an entry below a relative DIR:
    /// paths of the walk begin with DIR as given, so this glob would exclude nothing.
    pub(crate) fn read(&self, dirs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Error> {
        let mut globs = bytes(&self.exclude);
        for file in &self.exclude_from {
            globs.extend(read_patterns(file.as_bytes())?);
        }
        // After a symbolic link, `..` is not the directory above.
        let is_plain = |dir: &[u8]| components(dir).all(|name| name != b"..");
        let relative = dirs
            .iter()
            .filter(|dir| !dir.starts_with(b"/") && is_plain(dir));
        for (dir, absolute) in relative.filter_map(|dir| Some((dir, absolute(dir).ok()?))) {
            let is_below =
                |glob: &&Vec<u8>| below(&absolute, glob).is_some_and(|it| !it.is_empty());
            if let Some(glob) = globs.iter().find(is_below) {
                let (glob, dir) = (quoted(glob), quoted(dir));
                return Err(Error::new(format!(
                    "--exclude {glob} matches nothing, because the paths of this walk begin with {dir}"
                ))
                .with_hint(&format!("give {} in place of {dir}", quoted(&absolute))));
            }
        }
        Ok(globs)
    }

    /// Prints a status message for each glob of --exclude that matches no path below `dirs`, or
    /// without `dirs` no member name with a slash before it, by its beginning. Lists of globs are
    /// often shared by many directories, so theirs are not checked.
    pub(crate) fn note_unmatched(&self, dirs: &[Vec<u8>], out: &Out) {
        for glob in self.exclude.iter().map(|glob| glob.as_bytes()) {
            if !may_match(glob, dirs) {
                let begin = match dirs.first() {
                    Some(dir) => format!("the paths of this run begin with {}", quoted(dir)),
                    None => "the names in an archive have no . or .. components".to_owned(),
                };
                out.note(format_args!(
                    "--exclude {} matches nothing: {begin}",
                    quoted(glob)
                ));
            }
        }
    }

    /// Refuses standard input as a list: only the first rank of an MPI job has it.
    pub(crate) fn check_for_ranks(&self) -> Result<(), Error> {
        match self.exclude_from.iter().any(|file| file == "-") {
            true => Err(
                Error::new("--exclude-from - cannot be used by the ranks of an MPI job")
                    .with_hint("write the globs to a file that all of them can read"),
            ),
            false => Ok(()),
        }
    }
}

/// Whether a glob may match a path below one of the directories, by its beginning. Only a glob that
/// begins with a slash, `.` or `..` may not.
fn may_match(glob: &[u8], dirs: &[Vec<u8>]) -> bool {
    let wild = glob
        .iter()
        .position(|b| matches!(b, b'*' | b'?' | b'[' | b'\\'));
    let head = &glob[..wild.unwrap_or(glob.len())];
    let is_in = |dir: &Vec<u8>| {
        let dir = trim_slashes(dir);
        below(dir, head).is_some() || wild.is_some() && [dir, b"/"].concat().starts_with(head)
    };
    let first = glob.split(|byte| *byte == b'/').next().unwrap_or_default();
    match (glob.contains(&b'/'), first) {
        (true, b"") => dirs.is_empty() || dirs.iter().any(is_in),
        (true, b"." | b"..") => dirs
            .iter()
            .any(|dir| dir.split(|byte| *byte == b'/').any(|name| name == first)),
        _ => true,
    }
}

/// The flags that exclude files.
#[derive(Args, Debug)]
pub(crate) struct Excludes {
    #[command(flatten)]
    pub(crate) globs: Globs,
    /// Skip the contents of cache directories (with a CACHEDIR.TAG)
    ///
    /// The file must begin with the signature of the Cache Directory Tagging Specification. The
    /// directory and the tag are not skipped.
    #[arg(long, help_heading = "Selection")]
    pub(crate) exclude_caches: bool,
    /// Skip the contents of directories that contain an entry NAME
    ///
    /// The directory and the entry NAME are not skipped. The option can be repeated.
    #[arg(long, value_name = "NAME", help_heading = "Selection")]
    #[arg(allow_hyphen_values = true, value_parser = tag_name())]
    pub(crate) exclude_if_present: Vec<OsString>,
}

impl Excludes {
    /// The options of a walk; reads the files of patterns.
    pub(crate) fn read(&self, dirs: &[Vec<u8>]) -> Result<Options, Error> {
        Ok(Options {
            excludes: self.globs.read(dirs)?,
            exclude_caches: self.exclude_caches,
            exclude_if_present: bytes(&self.exclude_if_present),
            ..Options::default()
        })
    }
}

/// The names in the files of --files-from, followed by `sources`.
pub(crate) fn read_list(
    files: &[OsString],
    is_null: bool,
    sources: &[OsString],
) -> Result<ListedSource, Error> {
    let mut names = Vec::new();
    for file in files {
        names.extend(read_names(file.as_bytes(), is_null)?);
    }
    names.extend(bytes(sources));
    let last = files.last().map_or(&b""[..], |file| file.as_bytes());
    Ok(SortedNames::new(last, &names)?)
}

fn tag_name() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|name| match name.as_bytes() {
        b"" | b"." | b".." => Err("use the name of a file"),
        bytes if bytes.contains(&b'/') => Err("use a name without slashes"),
        _ => Ok(name),
    })
}

#[cfg(test)]
mod tests {
    use super::may_match;

    #[test]
    fn globs_that_match_nothing_are_known_by_their_beginning() {
        for (glob, dir, expected) in [
            ("/www", "/srv", false),
            ("/www", "srv", false),
            ("/srv/www", "/srv/", true),
            ("/srv", "/srv", true),
            ("/srvs/www", "/srv", false),
            ("/*/www", "/srv", true),
            ("/s?v/www", "/srv", true),
            ("/x*", "/srv", false),
            ("/www", "/", true),
            ("./www", "srv", false),
            ("./www", "/srv", false),
            ("./www", ".", true),
            ("../www", "../srv", true),
            ("www", "/srv", true),
            ("a/www", "/srv", true),
        ] {
            let dirs = [dir.as_bytes().to_vec()];
            assert_eq!(may_match(glob.as_bytes(), &dirs), expected, "{glob} {dir}");
        }
        // The member names of an archive.
        assert!(may_match(b"/srv/www", &[]) && !may_match(b"./www", &[]));
    }
}
