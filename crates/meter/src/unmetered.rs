//! Runs a command without a meter, to measure its time without the overhead of metering.

use std::time::Duration;

use gate::command::HeldCommand;

use crate::call::{Command, CommandEnd};
use crate::collector::run_held;
use crate::error::{Error, MeterStep};

/// Runs the command. Returns how it ended, and the time from its execve(2) to its end.
///
/// # Errors
/// Why it could not be run.
pub fn run_unmetered(command: &Command) -> Result<(CommandEnd, Duration), Error> {
    let held = HeldCommand::fork(&command.program, &command.args, || Ok(()));
    let held = held.map_err(MeterStep::Fork.before_start())?;
    let timing = run_held(held, command, MeterStep::Prepare, |running| {
        let ended = running.wait().map_err(MeterStep::Wait.after_start())?;
        Ok(CommandEnd::from(&ended))
    })?;
    Ok((timing.ended, timing.real))
}
