//! The commands that give alone what a survey gathers together.

use super::survey::Survey;
use show::shell::quoted;

/// The commands for one directory, by its absolute name: a page is read elsewhere than where it was
/// made.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    pub(crate) root: String,
    pub(crate) mounts: String,
    pub(crate) boundaries: String,
    pub(crate) compare: String,
    pub(crate) cache: String,
    pub(crate) walk: String,
    /// The walk itself, to its end.
    pub(crate) tread: String,
    pub(crate) dump: String,
    pub(crate) account: String,
    pub(crate) pathsearch: String,
    pub(crate) gates: String,
}

impl Commands {
    /// Those for the directory that is surveyed.
    pub(crate) fn of(root: &[u8]) -> Commands {
        let root = quoted(root);
        Commands {
            mounts: format!("fathom mounts {root}"),
            boundaries: format!("fathom mounts {root} --boundaries"),
            compare: format!("fathom mounts {root} --compare"),
            cache: format!("fathom probe {root} cache"),
            walk: format!("fathom walk {root} -x --compare"),
            tread: format!("fathom walk {root} -x"),
            dump: format!("fathom dump {root} -x --no-output --account"),
            account: format!("fathom account -- fathom walk {root} -x --engine stat"),
            pathsearch: Commands::start("env true", ""),
            gates: format!("fathom probe {root} gates"),
            root,
        }
    }

    /// Those for a survey: engines were compared on all of the directory, or on its uppermost
    /// levels.
    pub(crate) fn of_survey(survey: &Survey<'_>) -> Commands {
        let commands = Commands::of(survey.root);
        let levels = survey
            .walking
            .gathered()
            .and_then(|walk| walk.bounded?.levels);
        match levels.map(|levels| format!("{} --max-depth {levels} --compare", commands.tread)) {
            Some(walk) => Commands { walk, ..commands },
            None => commands,
        }
    }

    /// The one for all of a section, by its name in the JSON.
    pub(crate) fn section(&self, name: &str) -> String {
        let command = match name {
            "mounts" => &self.compare,
            "walk" => &self.walk,
            "dump" => &self.dump,
            "account" => &self.account,
            "startup" => &self.pathsearch,
            "gates" => &self.gates,
            _ => return format!("fathom probe {} block readahead cache", self.root),
        };
        command.clone()
    }

    /// Experiments on a directory.
    pub(crate) fn probe(&self, dir: &[u8], experiments: &str) -> String {
        format!("fathom probe {} {experiments}", quoted(dir))
    }

    /// The start of a program, as if all that it uses were far away.
    pub(crate) fn start(command: &str, options: &str) -> String {
        format!("fathom pathsearch{options} --network / -- {command}")
    }
}
