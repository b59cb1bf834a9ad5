//! The language or purpose of a program.

/// The language or purpose of a program, by the name of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Family {
    Shell,
    Python,
    Perl,
    Ruby,
    Node,
    /// Compilers, assemblers and linkers.
    Gcc,
    #[default]
    Plain,
}

const SHELLS: &str = "sh dash bash ash zsh ksh mksh yash fish busybox tcsh csh rbash";
/// Compilers, assemblers and linkers, without target triplet and version.
const COMPILERS: &str = "gcc g++ cc c++ cpp collect as ld ld.bfd ld.gold clang clang++ gfortran lld \
                         ld.lld ld.mold mold f951 gnat";
const COMPILER_PASSES: &str = "cc1 cc1plus cc1obj f951 lto1 lto-wrapper collect2";

impl Family {
    /// The family of a program, from its path. A version at the end of the name and a target
    /// triplet before it are ignored.
    pub(crate) fn from_program(program: &[u8]) -> Family {
        let file = program.rsplit(|&b| b == b'/').next().unwrap_or(program);
        let is_version = |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b'-');
        let end = file.iter().rposition(|b| !is_version(b));
        let name = &file[..end.map_or(0, |at| at + 1)];
        let last = name.rsplit(|&b| b == b'-').next().unwrap_or(name);
        match name {
            b"python" | b"pypy" => Family::Python,
            b"perl" => Family::Perl,
            b"ruby" => Family::Ruby,
            b"node" | b"nodejs" => Family::Node,
            _ if lists(SHELLS, name) => Family::Shell,
            _ if lists(COMPILERS, last) || lists(COMPILER_PASSES, file) => Family::Gcc,
            _ => Family::Plain,
        }
    }
}

/// Whether `word` is in a list of words.
pub(crate) fn lists(words: &str, word: &[u8]) -> bool {
    words.split(' ').any(|listed| listed.as_bytes() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_recognized_by_the_name_of_the_program() {
        for (program, family) in [
            ("/bin/dash", Family::Shell),
            ("/usr/bin/python3.11", Family::Python),
            ("/usr/bin/python3", Family::Python),
            ("/usr/bin/perl5.36.0", Family::Perl),
            ("/usr/bin/x86_64-linux-gnu-gcc-12", Family::Gcc),
            ("/usr/lib/gcc/x86_64-linux-gnu/12/cc1", Family::Gcc),
            ("/usr/lib/gcc/x86_64-linux-gnu/12/collect2", Family::Gcc),
            ("/usr/bin/x86_64-linux-gnu-ld.bfd", Family::Gcc),
            ("/usr/bin/nodejs", Family::Node),
            ("/usr/bin/ruby3.1", Family::Ruby),
            ("/usr/bin/env", Family::Plain),
            ("/usr/bin/basename", Family::Plain),
            ("", Family::Plain),
            ("/", Family::Plain),
        ] {
            assert_eq!(
                Family::from_program(program.as_bytes()),
                family,
                "{program}"
            );
        }
    }
}
