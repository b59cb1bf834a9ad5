//! Runs a command without a meter, to measure its time without the overhead of metering.

use std::time::Duration;

use gate::command::HeldCommand;

use crate::call::{Command, Ended};
use crate::collector::run_held;
use crate::error::{Error, Step};

/// Runs the command. Returns how it ended, and the time from its execve(2) to its end.
///
/// # Errors
/// Why it could not be run.
pub fn run_unmetered(command: &Command) -> Result<(Ended, Duration), Error> {
    let held = HeldCommand::fork(&command.program, &command.args, || Ok(()));
    let held = held.map_err(Step::Fork.early())?;
    let timing = run_held(held, command, Step::Prepare, |running| {
        let ended = running.wait().map_err(Step::Wait.late())?;
        Ok(Ended::from(&ended))
    })?;
    Ok((timing.ended, timing.real))
}
