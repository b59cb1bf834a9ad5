//! What a search is for.

/// What a process searches for, and with which kind of program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A program along PATH, by a shell or execvp(3).
    Path,
    /// A shared library, by ld.so: along RPATH, RUNPATH, LD_LIBRARY_PATH, and in ld.so.cache.
    Linker,
    /// A Python module along sys.path.
    Python,
    /// A Perl module along @INC.
    Perl,
    /// A Ruby library along $LOAD_PATH.
    Ruby,
    /// A Node module: node_modules, package.json.
    Node,
    /// Headers, libraries and programs of a compiler, an assembler or a linker.
    Gcc,
    /// A locale, a message catalogue or a character conversion.
    Locale,
    /// A description of a terminal.
    Terminfo,
    /// Anything else.
    Other,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = [
        Kind::Path,
        Kind::Linker,
        Kind::Python,
        Kind::Perl,
        Kind::Ruby,
        Kind::Node,
        Kind::Gcc,
        Kind::Locale,
        Kind::Terminfo,
        Kind::Other,
    ];

    /// Its name in the text, in the JSON and in the docs.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Path => "PATH",
            Kind::Linker => "ld.so",
            Kind::Python => "python",
            Kind::Perl => "perl",
            Kind::Ruby => "ruby",
            Kind::Node => "node",
            Kind::Gcc => "gcc",
            Kind::Locale => "locale",
            Kind::Terminfo => "terminfo",
            Kind::Other => "other",
        }
    }
}
