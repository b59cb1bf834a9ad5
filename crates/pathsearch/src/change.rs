//! What to change so that the searches of a command become cheaper.

use crate::kind::Kind;
use crate::path::PathProposal;
use crate::trace::Shim;

/// What to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Set PATH to a better value.
    SetPath(PathProposal),
    /// Run programs with a shorter list of directories, or without the variable.
    ShortenVariable {
        /// Its name.
        variable: &'static str,
        /// What is searched for in the directories.
        kind: Kind,
        /// The programs that were executed with the present value.
        programs: Vec<Vec<u8>>,
        /// The new value; `None` if no directory is left.
        value: Option<Vec<u8>>,
        /// Elements that are removed: nothing was found in them.
        removed: Vec<Vec<u8>>,
    },
    /// Give programs and libraries a shorter RUNPATH or RPATH, or none.
    ShortenRunpaths {
        /// Each of them.
        objects: Vec<RunpathChange>,
        /// Whether patchelf(1) is installed.
        has_patchelf: bool,
    },
    /// Compile Python modules once, and not at each start.
    CompileModules {
        /// The Python that compiled them.
        python: Vec<u8>,
        /// Its option for the level of optimization: `-O`, `-OO`, or nothing.
        option: &'static str,
        /// How many.
        modules: u64,
        /// Their directories, in which this user may write.
        dirs: Vec<Vec<u8>>,
    },
    /// Write compiled Python modules to a directory of the user's own.
    SetBytecodeDirectory {
        /// How many modules are compiled at each start.
        modules: u64,
        /// The directory.
        dir: Vec<u8>,
        /// Whether Python was told to write none.
        is_read_only: bool,
    },
    /// Execute a program directly, and not by the script of a version manager.
    AvoidShim {
        /// The script, and the program.
        shim: Shim,
        /// The version manager, as it can be executed here.
        manager: Option<Vec<u8>>,
    },
    /// Cache where Ruby libraries are.
    CacheRubyLibraries,
    /// Bundle a Node program into one file.
    BundleNodeProgram,
    /// Cache the results of a compiler.
    CacheCompilations,
    /// Set LC_ALL to the locale that is used instead of one that is not installed.
    SetInstalledLocale,
    /// Set TERM to a terminal that has a description, or TERMINFO to its directory.
    SetInstalledTerminal,
    /// Copy all files to a local disk.
    CopyToLocalDisk {
        /// Files.
        files: u64,
        /// Symbolic links on the way to them.
        links: u64,
        /// The size of the files.
        bytes: u64,
    },
}

/// A shorter RUNPATH or RPATH of a program or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunpathChange {
    /// The file.
    pub object: Vec<u8>,
    /// Whether it is a RUNPATH; else an RPATH.
    pub is_runpath: bool,
    /// The new value; `None` if no directory is left.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// The kind of search that it makes cheaper.
    pub fn kind(&self) -> Kind {
        match self {
            Change::SetPath(_) | Change::AvoidShim { .. } => Kind::Path,
            Change::ShortenVariable { kind, .. } => *kind,
            Change::ShortenRunpaths { .. } => Kind::Linker,
            Change::CompileModules { .. } | Change::SetBytecodeDirectory { .. } => Kind::Python,
            Change::CacheRubyLibraries => Kind::Ruby,
            Change::BundleNodeProgram => Kind::Node,
            Change::CacheCompilations => Kind::Gcc,
            Change::SetInstalledLocale => Kind::Locale,
            Change::SetInstalledTerminal => Kind::Terminfo,
            Change::CopyToLocalDisk { .. } => Kind::Other,
        }
    }

    /// Whether it saves more than lookups: processes, or the compilation of modules. It is reported
    /// whatever the lookups take.
    pub fn saves_work(&self) -> bool {
        matches!(
            self,
            Change::CompileModules { .. }
                | Change::SetBytecodeDirectory { .. }
                | Change::AvoidShim { .. }
        )
    }
}
