//! What a search is for.

/// Who searches, and for what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A program along PATH: a shell, or execvp(3).
    Path,
    /// A shared library: ld.so, by RPATH and RUNPATH, LD_LIBRARY_PATH, ld.so.cache.
    Linker,
    /// A Python module along sys.path.
    Python,
    /// A Perl module along @INC.
    Perl,
    /// A Ruby library along $LOAD_PATH.
    Ruby,
    /// A Node module: node_modules, package.json.
    Node,
    /// What compiles and links: headers, libraries, its own programs.
    Gcc,
    /// Locales, message catalogues, conversions.
    Locale,
    /// Descriptions of terminals.
    Terminfo,
    /// Everything else.
    Other,
}

impl Kind {
    /// All of them.
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

    /// Its name in the report, in the JSON and in the docs.
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
