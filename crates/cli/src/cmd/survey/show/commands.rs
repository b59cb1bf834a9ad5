//! The commands that a survey names, as they are typed into a shell.

use ::survey::Section;
use show::shell::quoted;

use crate::cmd::survey::survey::Survey;
use ::survey::Command;

/// The program whose start the survey recommends to look into.
const USUAL_PROGRAM: &str = "env true";

/// Writes commands on the directory of a survey. They name it absolutely: the page may be read
/// elsewhere than where it was made.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    root: String,
    /// Levels of the tree on which the engines were compared, if not on all.
    levels: Option<u32>,
}

impl Commands {
    /// Commands on the directory of a survey.
    pub(crate) fn new(survey: &Survey<'_>) -> Commands {
        let walking = survey.walking.gathered();
        Commands {
            root: quoted(survey.root),
            levels: walking.and_then(|walking| walking.bounded?.levels),
        }
    }

    /// Commands on a directory of which nothing is known yet.
    pub(crate) fn on(root: &[u8]) -> Commands {
        Commands {
            root: quoted(root),
            levels: None,
        }
    }

    /// What gathers a section alone.
    pub(crate) fn gather(&self, section: Section) -> String {
        self.text(&Command::Gather(section))
    }

    /// A command as it is typed.
    pub(crate) fn text(&self, command: &Command) -> String {
        use Command::*;
        let root = &self.root;
        match command {
            Mounts => format!("fathom mounts {root}"),
            CheckMounts => format!("fathom mounts {root} --check"),
            ListExcludes => format!("fathom mounts {root} --check --format exclude"),
            CheckServers => format!("fathom mounts {root} --check --servers"),
            ListBoundaries => format!("fathom mounts {root} --boundaries"),
            CompareMethods => format!("fathom mounts {root} --compare"),
            Probe(dir, experiments) => format!("fathom probe {} {experiments}", quoted(dir)),
            FillCache => format!("fathom probe {root} cache"),
            Walk => format!("fathom walk {root} -x"),
            WalkBy(engine) => format!("fathom walk {root} -x --engine {engine}"),
            WriteCatalog => format!("fathom walk {root} -x --catalog walk.parquet"),
            CompareEngines => match self.levels {
                Some(levels) => format!("fathom walk {root} -x --max-depth {levels} --compare"),
                None => format!("fathom walk {root} -x --compare"),
            },
            CompareEnginesAsRoot => format!("sudo {}", self.text(&CompareEngines)),
            GatherDump => format!("fathom dump {root} -x --no-output --account"),
            DumpInFull => format!("fathom dump {root} -x -o full.tar --catalog full.parquet"),
            Account => format!("fathom account -- fathom walk {root} -x --engine stat"),
            Start => self.text(&StartOf(USUAL_PROGRAM)),
            StartOf(program) => format!("fathom pathsearch --network / -- {program}"),
            StartInDetail(program) => format!("fathom pathsearch -v --network / -- {program}"),
            Prices => format!("fathom probe {root} gates"),
            SurveyAsRoot => format!("sudo fathom survey {root}"),
            SaveSurvey => format!("fathom survey {root} --json >before.json"),
            Gather(section) => self.text(&match section {
                Section::Mounts => CompareMethods,
                Section::Walk => CompareEngines,
                Section::Dump => GatherDump,
                Section::Account => Account,
                Section::Startup => Start,
                Section::Gates => Prices,
                Section::Probe | Section::Machine | Section::Steps => {
                    return format!("fathom probe {root} block readahead cache");
                }
            }),
        }
    }
}
