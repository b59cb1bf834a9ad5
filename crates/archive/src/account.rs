//! What each way of gathering takes on one tree: for the memo's table of options.

use std::time::Duration;

use crate::attribution::{self, Function, Line};
use walk::Diagnostics;

use crate::gather::{Gather, Question, gather};

/// What gathering in one way took.
#[derive(Clone, Debug)]
pub struct Took {
    /// Directories that were found.
    pub directories: u64,
    /// All else that was.
    pub files: u64,
    /// What passed the gates.
    pub lines: Vec<Line>,
    /// CPU time beside them.
    pub own: Duration,
}

/// Gathers in one way, with one thread and an [attribution] of its own. Nothing is kept of what is
/// found; what was skipped is said at the desk.
///
/// # Errors
/// Why this way is not to be had.
pub fn measure(question: &Question, way: Gather, desk: &Diagnostics) -> Result<Took, String> {
    let question = Question {
        gather: Some(way),
        threads: Some(1),
        for_catalog: None,
        ..question.clone()
    };
    attribution::start();
    let gathered = gather(&question, desk);
    let books = attribution::stop();
    let (rows, answer) = gathered.map_err(|_| "it cannot be gathered any more".to_owned())?;
    if answer.parts.is_empty() {
        return Err("no SRC is a directory".to_owned());
    }
    if let Some(other) = answer.parts.iter().find(|part| part.gather != way) {
        return Err(format!(
            "{} is gathered by {}: {}",
            name(&other.path),
            other.gather.name(),
            other.why
        ));
    }
    let directories = (0..rows.len()).filter(|&row| rows.is_dir(row)).count() as u64;
    let lines: Vec<Line> = books
        .lines
        .into_iter()
        .filter(|line| line.function == Function::Information)
        .collect();
    let in_gates: Duration = lines
        .iter()
        .map(|line| line.all.cpu + line.directory.cpu + line.file.cpu)
        .sum();
    let own = books.cpu[Function::Information as usize].saturating_sub(in_gates);
    Ok(Took {
        directories,
        files: rows.len() as u64 - directories,
        lines,
        own,
    })
}

fn name(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
