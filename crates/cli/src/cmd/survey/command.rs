//! The commands that a survey recommends, quoted for a shell.

use base::path::join;
use show::shell::quoted;
use survey::{Command, Section, Survey};

/// The program whose start the survey measures, and recommends to trace.
const USUAL_PROGRAM: &str = "env true";

/// Writes commands with the absolute path of the surveyed directory, because the page can be read
/// elsewhere than where it was made.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    root: String,
    /// The depth to which the engines were compared; `None` if they read the whole tree.
    levels: Option<u32>,
    /// The program that runs a command as root, such as sudo.
    sudo: Option<&'static str>,
}

/// The path of a file in a directory; an empty `dir` is the working directory.
fn in_dir(dir: &[u8], name: &str) -> Vec<u8> {
    match dir {
        b"" => name.into(),
        dir => join(dir, name.as_bytes()),
    }
}

impl Commands {
    pub(crate) fn new(root: &[u8], levels: Option<u32>) -> Commands {
        Commands {
            root: quoted(root),
            levels,
            sudo: None,
        }
    }

    pub(crate) fn from_survey(survey: &Survey<'_>) -> Commands {
        Commands {
            sudo: survey.machine.sudo,
            ..Commands::new(survey.root, survey.found.compared_levels())
        }
    }

    /// A command line that runs as root: with sudo or doas, else with su(1), which always exists.
    fn as_root(&self, command: &str) -> String {
        match self.sudo {
            Some(sudo) => format!("{sudo} {command}"),
            None => format!("su -c {}", quoted(command.as_bytes())),
        }
    }

    pub(crate) fn gather(&self, section: Section) -> String {
        self.text(&match section {
            Section::Mounts => Command::CompareMethods,
            Section::Walk => Command::CompareEngines,
            Section::Dump => Command::GatherDump,
            Section::Account => Command::Account,
            Section::Startup => Command::Start,
            Section::Gates => Command::Prices,
            Section::Probe | Section::Steps => {
                return format!("fathom probe {} block readahead cache", self.root);
            }
        })
    }

    pub(crate) fn text(&self, command: &Command<'_>) -> String {
        use Command::*;
        let root = &self.root;
        match command {
            Mounts => format!("fathom mounts {root}"),
            CheckMounts => format!("fathom mounts {root} --check"),
            ListExcludes => format!("fathom mounts {root} --check --format exclude"),
            CheckServers => format!("fathom mounts {root} --check --servers"),
            CompareMethods => format!("fathom mounts {root} --compare"),
            Probe(dir, experiments) => {
                let names: Vec<_> = experiments.iter().map(|one| one.name()).collect();
                format!("fathom probe {} {}", quoted(dir), names.join(" "))
            }
            Walk => format!("fathom walk {root} -x"),
            Largest(dir, capacity) => match capacity.lacks_inodes() {
                true => format!("fathom walk {} -x --group-by dir --sort count", quoted(dir)),
                false => format!("fathom walk {} -x --top 20", quoted(dir)),
            },
            WalkBy(engine) => format!("fathom walk {root} -x --engine {}", engine.name()),
            WriteCatalog(dir) => {
                let catalog = quoted(&in_dir(dir, "walk.parquet"));
                format!("fathom walk {root} -x --catalog {catalog}")
            }
            CompareEngines => match self.levels {
                Some(levels) => format!("fathom walk {root} -x --max-depth {levels} --compare"),
                None => format!("fathom walk {root} -x --compare"),
            },
            CompareEnginesAsRoot => self.as_root(&self.text(&CompareEngines)),
            GatherDump => format!("fathom dump {root} -x --no-output --account"),
            DumpInFull(dir) => {
                let names = ["full.tar", "full.parquet"];
                let [archive, catalog] = names.map(|name| quoted(&in_dir(dir, name)));
                format!("fathom dump {root} -x -o {archive} --catalog {catalog}")
            }
            Account => format!("fathom account fathom walk {root} -x --engine stat"),
            Start => self.text(&StartOf(USUAL_PROGRAM)),
            StartOf(program) => format!("fathom pathsearch --network / {program}"),
            StartInDetail(program) => format!("fathom pathsearch -v --network / {program}"),
            Prices => format!("fathom probe {root} gates"),
            Gather(section) => self.gather(*section),
            SurveyAsRoot => self.as_root(&format!("fathom survey {root}")),
        }
    }
}
