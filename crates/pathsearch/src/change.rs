//! Changes that would make the searches of a command cheaper.

use crate::kind::Kind;
use crate::path::PathProposal;
use crate::trace::{NameUse, Shim};

/// A change of the environment or of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Set PATH to a better value.
    SetPath(PathProposal),
    /// Run programs with a shorter list of directories, or without the variable.
    ShortenVariable {
        /// The name of the variable.
        variable: &'static str,
        /// The kind of files that are searched for in the directories.
        kind: Kind,
        /// The programs that were executed with the present value.
        programs: Vec<Vec<u8>>,
        /// The new value; `None` if no directory is left.
        value: Option<Vec<u8>>,
        /// The removed elements, in which nothing was found.
        removed: Vec<Vec<u8>>,
    },
    /// Give programs and libraries a shorter RUNPATH or RPATH, or none.
    ShortenRunpaths {
        /// The programs and libraries to change.
        objects: Vec<RunpathChange>,
        /// Whether patchelf(1) is installed.
        has_patchelf: bool,
    },
    /// Compile Python modules once instead of at each start.
    CompileModules {
        /// The Python that compiled the modules.
        python: Vec<u8>,
        /// The option of Python for the optimization level: `-O`, `-OO`, or empty.
        option: &'static str,
        /// The number of modules.
        modules: u64,
        /// The directories of the modules, in which this user may write.
        dirs: Vec<Vec<u8>>,
    },
    /// Cache Python bytecode in a directory of the user (PYTHONPYCACHEPREFIX).
    SetBytecodeDirectory {
        /// The number of modules that are compiled at each start.
        modules: u64,
        /// The directory for the bytecode.
        dir: Vec<u8>,
        /// Whether Python was told not to write bytecode.
        is_read_only: bool,
    },
    /// Execute a program directly instead of through the shim script of a version manager.
    AvoidShim {
        /// The shim script, and the program behind it.
        shim: Shim,
        /// The path of the version manager's executable.
        manager: Option<Vec<u8>>,
    },
    /// Cache the locations of Ruby libraries.
    CacheRubyLibraries,
    /// Bundle a Node program into one file.
    BundleNodeProgram,
    /// Cache the results of a compiler.
    CacheCompilations,
    /// Set LC_ALL to the locale that is used in place of a missing one.
    SetInstalledLocale,
    /// Set TERM to a terminal with a description, or TERMINFO to its directory.
    SetInstalledTerminal,
    /// Copy all files to a local disk.
    CopyToLocalDisk {
        /// The number of files.
        files: u64,
        /// The number of symbolic links on the paths of the files.
        links: u64,
        /// The total size of the files in bytes.
        bytes: u64,
    },
}

/// A change, and the recorded names that it affects.
pub(crate) struct AvoidedNames<'a> {
    pub(crate) change: Change,
    /// Names whose failed lookups the change avoids.
    pub(crate) missed: Vec<&'a NameUse>,
    /// Names that are not used any more: the change avoids all calls on them.
    pub(crate) unused: Vec<&'a NameUse>,
}

/// A shorter RUNPATH or RPATH of a program or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunpathChange {
    /// The program or library.
    pub object: Vec<u8>,
    /// Whether the list is a RUNPATH; otherwise it is an RPATH.
    pub is_runpath: bool,
    /// The new value; `None` if no directory is left.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// The kind of search that the change makes cheaper.
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

    /// Whether the change saves more than lookups: processes, or compilations. Such a change is
    /// reported even if the lookups take little time.
    pub fn saves_work(&self) -> bool {
        self.saves_compiling() || matches!(self, Change::AvoidShim { .. })
    }

    /// Whether Python no longer compiles modules at each start.
    pub fn saves_compiling(&self) -> bool {
        matches!(
            self,
            Change::CompileModules { .. } | Change::SetBytecodeDirectory { .. }
        )
    }
}
