//! The cheapest meter that works here. It says which, and why; when one fails to start, the next is tried.

use crate::call::{Command, Failure, Listener, Meter, Metered, Want};

/// Runs the command by the first of `meters` that is possible here and starts.
///
/// # Errors
/// That the command cannot be run; or what stands in the way of each meter, in one line.
pub fn run(
    meters: &[Box<dyn Meter>],
    command: &Command,
    want: Want,
    to: &mut dyn Listener,
) -> Result<Metered, Failure> {
    let mut refused: Vec<String> = Vec::new();
    for meter in meters {
        let done = meter.possible().map_err(Failure::Meter).and_then(|()| meter.run(command, want, to));
        match done {
            Err(Failure::Meter(why)) => refused.push(format!("{}: {why}", meter.name())),
            Err(failure) => return Err(failure),
            Ok(mut metered) => {
                metered.why = match &refused[..] {
                    [] => "it is the cheapest, and works here".to_owned(),
                    refused => format!("the cheapest that works here ({})", refused.join("; ")),
                };
                return Ok(metered);
            }
        }
    }
    Err(Failure::Meter(format!("there is no way to meter here: {}", refused.join("; "))))
}
